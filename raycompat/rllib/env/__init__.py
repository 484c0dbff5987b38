"""Environments, and the processes that play in them."""

from raycompat._surface.modules import names_of

__getattr__ = names_of(__name__)
