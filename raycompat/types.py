"""The module in which Ray has `ObjectRef` for annotations."""

from raycompat.object_ref import ObjectRef

__all__ = ["ObjectRef"]
