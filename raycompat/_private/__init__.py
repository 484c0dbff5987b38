"""The parts of ``ray._private`` that programs import."""

from raycompat._private import services as services  # programs read it without an import
from raycompat._surface.modules import names_of

#: What raycompat does without, with its reason.
__getattr__ = names_of(__name__)
