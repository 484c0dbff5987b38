"""Algorithms that learn from what a client plays, in another process or in a simulator."""
