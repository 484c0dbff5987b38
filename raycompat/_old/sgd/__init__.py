"""What of ``ray.util.sgd`` (0.8 to 1.13) lives only for programs of older Rays."""
