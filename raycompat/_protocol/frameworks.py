"""Frameworks whose import is slow. Executors of code that names one are forked with it imported."""

from __future__ import annotations

import pickletools
from collections.abc import Collection

_FRAMEWORKS = ("tensorflow", "torch")


def named_in(code: bytes, besides: Collection[str] = ()) -> set[str]:
    """Return the frameworks to which a pickled function or class refers, or which it imports.

    Those in `besides` are left out; code that can name no other is not searched.
    """
    possible = [each for each in _FRAMEWORKS if each not in besides and each.encode() in code]
    if not possible:
        return set()
    # A mention can also be a folder on the path of the program's file, which is not a module.
    texts = (value for _, value, _ in pickletools.genops(code) if isinstance(value, str))
    return {text.partition(".")[0] for text in texts}.intersection(possible)
