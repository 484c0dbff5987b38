"""The classes of references, for code that names their types."""

from raycompat._caller.object_ref import (
    DynamicObjectRefGenerator,
    ObjectID,
    ObjectRef,
    ObjectRefGenerator,
)

__all__ = ["DynamicObjectRefGenerator", "ObjectID", "ObjectRef", "ObjectRefGenerator"]
