"""Placeholders among the pickled arguments of a call, for values that travel beside them."""

from __future__ import annotations

from typing import NamedTuple

#: The pickled arguments of a call without arguments, as most calls of methods are.
NO_ARGUMENTS = b""


class Slot(NamedTuple):
    """Placeholder for the value of a dependency, by its number."""

    number: int


class Known(NamedTuple):
    """Placeholder that holds a small value which the caller already had."""

    block: bytes
