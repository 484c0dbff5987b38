"""Names that earlier versions of Python had in the module `collections`."""

from __future__ import annotations

import collections
import collections.abc
from typing import Any

from raycompat._surface import forms

_USE = "collections in place of collections.abc"


def install() -> None:
    """Let ``from collections import Iterable``, and the other abstract classes, work in this process.

    Python had them there until 3.9, and Ray's programs were written for 2.7 to 3.9.
    """
    if not hasattr(collections, "__getattr__"):
        vars(collections)["__getattr__"] = _moved


def _moved(name: str) -> Any:
    if name not in collections.abc.__all__:
        raise AttributeError(f"module 'collections' has no attribute {name!r}")
    forms.used(_USE, refusal=AttributeError)
    return getattr(collections.abc, name)
