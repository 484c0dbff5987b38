"""The networks of algorithms, as configs describe them."""

from raycompat._surface.modules import names_of

#: Names that raycompat does without.
__getattr__ = names_of(__name__)
