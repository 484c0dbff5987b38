"""Memory that a process shares with the readers of its large values, and uses again and again.

A buffer is a file without a name (`_host.memory_file`), so nothing remains after a crash. A reader gets
its descriptor with the first value in it. It copies each value, and then frees the buffer: memory that
is already mapped makes this several times as fast as new memory.
"""

from __future__ import annotations

import mmap
import os
from collections.abc import Iterable
from typing import Any

from raycompat._host import memory_file
from raycompat._pickling.tensor_bytes import pieces_of
from raycompat.dag.packing import Packed

#: Bytes. A smaller value is sent inside its frame.
SHARED_BYTES = 64 << 10

#: Bytes of the smallest buffer.
_SMALLEST_BYTES = 256 << 10


class Buffer:
    """One buffer; `num_readers` have not freed it."""

    def __init__(self, number: int, num_bytes: int) -> None:
        self.number = number
        self.num_bytes = num_bytes
        self.num_readers = 0
        self.descriptor = memory_file.make("raycompat-graph", num_bytes)
        self._map = mmap.mmap(self.descriptor, num_bytes)

    def write(self, parts: Iterable[Any]) -> None:
        """Fill the buffer from its beginning."""
        position = 0
        for part in parts:
            for piece in pieces_of(part):
                self._map[position : position + len(piece)] = piece
                position += len(piece)

    def close(self) -> None:
        """Free the memory, when the last reader has too."""
        self._map.close()
        os.close(self.descriptor)


class Arena:
    """The buffers of one process in one graph."""

    def __init__(self) -> None:
        self._buffers: dict[int, Buffer] = {}
        self._num_made = 0

    def put(self, packed: Packed, num_readers: int) -> tuple[Buffer, list[int]]:
        """Write a value into a free buffer; return it, and the numbers of those that it replaces."""
        free = [each for each in self._buffers.values() if not each.num_readers]
        fitting = [each for each in free if each.num_bytes >= packed.size]
        replaced: list[int] = []
        if fitting:
            buffer = min(fitting, key=lambda each: each.num_bytes)
        else:
            replaced = [each.number for each in free]
            for number in replaced:
                self._buffers.pop(number).close()
            num_bytes = max(_SMALLEST_BYTES, 1 << (packed.size - 1).bit_length())
            buffer = self._buffers[self._num_made] = Buffer(self._num_made, num_bytes)
            self._num_made += 1
        buffer.write(packed.parts)
        buffer.num_readers = num_readers
        return buffer, replaced

    def free(self, number: int) -> None:
        """Count one reader that has copied the value."""
        self._buffers[number].num_readers -= 1

    def close(self) -> None:
        """Free all memory."""
        while self._buffers:
            self._buffers.popitem()[1].close()
