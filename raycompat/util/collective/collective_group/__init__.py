"""The groups of the backends."""
