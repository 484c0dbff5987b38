"""What this package needs of a serialized value, to write it into a segment."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Protocol


class Block(Protocol):
    """Bytes in pieces that are written one after the other; `size` bytes in all."""

    size: int
    #: The buffers among them, if this process has pickled the value.
    buffers: Sequence[Any]

    def pieces(self) -> Iterator[memoryview]:
        """Yield the bytes."""

    def is_stored_as(self, stored: memoryview) -> bool:
        """Return whether `stored` is a block of the same value, whose buffers are this block's."""
