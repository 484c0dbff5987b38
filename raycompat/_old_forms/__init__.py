"""What today's classes and functions take in for programs of older Rays; see README.md of `_old`."""
