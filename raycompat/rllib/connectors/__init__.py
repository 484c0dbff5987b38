"""What lies between an environment and a network: functions of observations."""

from raycompat._surface.modules import names_of

#: Names that raycompat does without.
__getattr__ = names_of(__name__)
