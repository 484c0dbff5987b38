"""The number of entries of every table that an object and its parts have: what grows is seen."""

from __future__ import annotations

import sys
import weakref
from collections import deque
from collections.abc import Iterator
from typing import Any

_TABLES = (dict, set, list, deque)
_WEAK = (weakref.WeakSet, weakref.WeakKeyDictionary, weakref.WeakValueDictionary)

#: Objects of these packages are parts, and are looked into.
_OURS = "raycompat."


def sizes(root: Any) -> dict[str, int]:
    """Return the number of entries of each table, by its path; those of tables inside it count too."""
    found: dict[str, int] = {}
    seen: set[int] = set()
    left: list[tuple[str, Any]] = [("", root)]
    while left:
        path, part = left.pop()
        if id(part) in seen:
            continue
        seen.add(id(part))
        for name, value in _attributes(part):
            where = f"{path}.{name}".lstrip(".")
            if isinstance(value, (*_TABLES, *_WEAK)):
                if id(value) not in seen:
                    seen.add(id(value))
                    found[where] = _entries(value)
            elif type(value).__module__.startswith(_OURS):
                left.append((where, value))
    return found


def of_modules() -> dict[str, int]:
    """Return the same for the tables that belong to raycompat's modules."""
    found = {}
    for name, module in list(sys.modules.items()):
        if name.startswith(_OURS) and module is not None:
            for attribute, value in list(vars(module).items()):
                if isinstance(value, _TABLES) and not attribute.isupper():
                    found[f"{name}:{attribute}"] = len(value)
    return found


def _entries(table: Any) -> int:
    """Return the number of entries, with those of tables that are values."""
    values = list(table.values()) if hasattr(table, "values") else list(table)
    return len(values) + sum(len(value) for value in values if isinstance(value, _TABLES))


def _attributes(part: Any) -> Iterator[tuple[str, Any]]:
    yield from list(getattr(part, "__dict__", {}).items())
    for kind in type(part).__mro__:
        slots = kind.__dict__.get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else slots:
            if name not in ("__dict__", "__weakref__") and hasattr(part, name):
                yield name, getattr(part, name)


def grown(before: dict[str, int], after: dict[str, int], most: int) -> dict[str, tuple[int, int]]:
    """Return the tables that have grown by more than `most` entries."""
    return {
        path: (before.get(path, 0), size)
        for path, size in after.items()
        if size > before.get(path, 0) + most
    }
