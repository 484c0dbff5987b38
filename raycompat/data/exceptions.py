"""`UserCodeException`: the errors of functions that data sets call."""

from __future__ import annotations

import functools
from typing import Any

from raycompat._surface.modules import names_of
from raycompat.exceptions import RayTaskError, UserCodeException

__all__ = ["UserCodeException"]


def mark(error: RayTaskError) -> None:
    """Make the error of a task that called functions a `UserCodeException` too."""
    if not isinstance(error, UserCodeException):
        kind: type = type(error)
        error.__class__ = _class_of(kind)


@functools.lru_cache(maxsize=128)
def _class_of(kind: type) -> Any:
    body = {
        "__module__": kind.__module__,
        "__qualname__": kind.__qualname__,
        "__doc__": kind.__doc__,
    }
    return type(kind.__name__, (kind, UserCodeException), body)


#: Names of older Rays.
__getattr__ = names_of(__name__)
