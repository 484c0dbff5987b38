"""What this package needs of a serialized value, to write it into a segment."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol


class Block(Protocol):
    """Bytes in pieces that are written one after the other; `size` bytes in all."""

    size: int

    def pieces(self) -> Iterator[memoryview]:
        """Yield the bytes."""
