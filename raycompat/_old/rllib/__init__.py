"""What of `ray.rllib` lives only for programs of older Rays."""
