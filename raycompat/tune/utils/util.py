"""The module of Ray from which packages import functions for nested dicts."""

from raycompat.tune.trainable.nested import flatten_dict, merge_dicts, unflatten_dict

__all__ = ["flatten_dict", "merge_dicts", "unflatten_dict"]
