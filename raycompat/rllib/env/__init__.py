"""Environments, and the processes that play in them."""
