"""Frameworks whose import is slow. Executors of code that names one are forked with it imported."""

from __future__ import annotations

import pickletools

_FRAMEWORKS = ("tensorflow", "torch")


def named_in(code: bytes) -> set[str]:
    """Return the frameworks to which a pickled function or class refers, or which it imports."""
    possible = [framework for framework in _FRAMEWORKS if framework.encode() in code]
    if not possible:
        return set()
    # A mention can also be a folder on the path of the program's file, which is not a module.
    texts = (value for _, value, _ in pickletools.genops(code) if isinstance(value, str))
    return {text.partition(".")[0] for text in texts}.intersection(possible)
