"""The part of RLlib's core that configs name."""

from raycompat._surface.modules import names_of

#: Names of identifiers, and those that raycompat does without.
__getattr__ = names_of(__name__)
