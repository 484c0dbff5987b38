"""Placeholders among the pickled arguments of a call, for values that travel beside them."""

from __future__ import annotations

from dataclasses import dataclass

#: The pickled arguments of a call without arguments, as most calls of methods are.
NO_ARGUMENTS = b""


@dataclass(frozen=True, slots=True)
class Slot:
    """Placeholder for the value of dependency number `index`."""

    index: int


@dataclass(frozen=True, slots=True)
class Known:
    """Placeholder that holds a small value which the caller already had."""

    block: bytes
