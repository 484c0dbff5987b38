"""Values of built-in types, as messages between processes need them.

A program may give a member of an enumeration for a name, or a number of numpy for an amount. Another
process may not have the class, so the value is converted where the program gives it, and again where
a message is written.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from numbers import Real
from typing import Any, TypeAlias

#: A row of what pages, the state API and commands show: a value of JSON for each field, by name. The
#: fields stand in `_messages.state`; those that are missing are None.
Row: TypeAlias = dict[str, Any]

_EXACT = frozenset({str, int, float, bool, bytes, type(None)})


def plain(value: object) -> Any:
    """Return a value with all its contents as built-in types; methods of subclasses are not called.

    Raises
    ------
    TypeError
        When it, or something in it, cannot be converted to a built-in type.
    """
    return _converted(value, _refuse)


def plain_where_possible(value: object) -> Any:
    """Return a value as `plain` does, but with other objects in it as they are."""
    return _converted(value, lambda other: other)


def _converted(value: Any, otherwise: Callable[[object], Any]) -> object:
    kind = type(value)
    if kind in _EXACT:
        return value
    if issubclass(kind, dict):
        pairs = dict.items(value)
        return {_converted(k, otherwise): _converted(each, otherwise) for k, each in pairs}
    for base in (list, tuple, set, frozenset):
        if issubclass(kind, base):
            return base(_converted(each, otherwise) for each in base.__iter__(value))
    return _plain_scalar(value, kind, otherwise)


def _plain_scalar(value: Any, kind: type, otherwise: Callable[[object], Any]) -> object:
    if issubclass(kind, str):
        return str.__str__(value)
    if issubclass(kind, int):
        return int.__int__(value)
    if issubclass(kind, float):
        return float.__float__(value)
    if issubclass(kind, bytes | bytearray | memoryview):
        return bytes(memoryview(value))
    if kind.__module__ == "numpy" and kind.__name__ in ("bool", "bool_"):
        return bool(value)
    if hasattr(kind, "__index__"):  # numpy's integers
        return int.__int__(operator.index(value))
    if issubclass(kind, Real):  # numpy's numbers, fractions
        return float.__float__(float(value))
    return otherwise(value)


def _refuse(value: object) -> Any:
    kind = type(value)
    raise TypeError(
        f"A message between processes has a value of the class {kind.__module__}.{kind.__qualname__}, "
        "which other processes may not have. Expected text, a number, bytes, None, or a list, tuple, "
        "set or dict of these."
    )
