"""Frameworks whose import is slow. Executors of code that names one are forked with it imported."""

from __future__ import annotations

import os
import pickletools
from collections.abc import Collection

_FRAMEWORKS = ("tensorflow", "torch")

#: The variable from which Keras takes its backend, which it imports. Keras itself is not imported
#: beforehand: a function may choose another backend first.
_BACKEND_VARIABLE = "KERAS_BACKEND"


def named_in(code: bytes, besides: Collection[str] = ()) -> set[str]:
    """Return the frameworks to which a pickled function or class refers, or which it imports.

    Code that names Keras has the framework of its backend. Those in `besides` are left out; code that
    can name no other is not searched.
    """
    frameworks = {each: each for each in _FRAMEWORKS}
    backend = os.environ.get(_BACKEND_VARIABLE, "tensorflow")
    if backend in frameworks:
        frameworks["keras"] = backend
    possible = {
        name: each
        for name, each in frameworks.items()
        if each not in besides and name.encode() in code
    }
    if not possible:
        return set()
    # A mention can also be a folder on the path of the program's file, which is not a module.
    texts = (value for _, value, _ in pickletools.genops(code) if isinstance(value, str))
    return {possible[name] for name in {text.partition(".")[0] for text in texts} & possible.keys()}
