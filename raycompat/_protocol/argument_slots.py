"""What stands among the pickled arguments of a call for values that travel beside them."""

from __future__ import annotations

from dataclasses import dataclass

#: The block of no arguments: most calls of methods have none.
NO_ARGUMENTS = b""


@dataclass(frozen=True, slots=True)
class Slot:
    """Stands among pickled arguments for the value of dependency number `index`."""

    index: int


@dataclass(frozen=True, slots=True)
class Known:
    """Stands among pickled arguments for a small value that the caller already had."""

    block: bytes
