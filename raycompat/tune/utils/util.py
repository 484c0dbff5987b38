"""The module of Ray from which packages import functions for nested dicts."""

from raycompat._surface.modules import names_of
from raycompat.tune.trainable.nested import flatten_dict, merge_dicts, unflatten_dict

#: Names of older Rays.
__getattr__ = names_of(__name__)

__all__ = ["flatten_dict", "merge_dicts", "unflatten_dict"]
