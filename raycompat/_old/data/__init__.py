"""What of `ray.data` lives only for programs of older Rays."""
