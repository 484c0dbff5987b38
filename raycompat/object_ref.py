"""The classes of references, for code that names their types."""

from raycompat._caller.generator import DynamicObjectRefGenerator, ObjectRefGenerator
from raycompat._caller.object_ref import ObjectID, ObjectRef

__all__ = ["DynamicObjectRefGenerator", "ObjectID", "ObjectRef", "ObjectRefGenerator"]
