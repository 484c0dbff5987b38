"""The groups of the backends."""

from raycompat._surface.modules import names_of

#: Names of older Rays.
__getattr__ = names_of(__name__)
