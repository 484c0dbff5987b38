"""Operations between processes of one host, through memory that all of them map.

Each rank has one buffer, a file without a name (`_host.memory_file`), so no file remains after a crash.
The others get its descriptor over the group's connections. A buffer has two halves, which are used in
turn. An operation on a large tensor is done in chunks that stay in the processor's cache.

One chunk of an allreduce has these steps: every rank copies its values into its half; a barrier; rank r
combines part r of all halves and stores the result in its own half; a barrier; every rank copies all
parts from there. The next chunk uses the other halves. A rank uses the first halves again only after
all ranks have passed a barrier of the next chunk, and so have read everything of this one.
"""

from __future__ import annotations

import mmap
import os
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from raycompat._host import memory_file
from raycompat.util.collective._peers import Peers
from raycompat.util.collective._tensors import Array, Reduction, parts_of

#: Bytes of one half of a rank's buffer.
CHUNK_BYTES = 4 << 20

#: A tensor of at most this many bytes is combined by every rank at the same time: one barrier, not two.
SMALL_BYTES = 64 << 10

_Bytes = NDArray[np.uint8]


class SharedMemory:
    """The buffers of all ranks of a group whose members share one host.

    Parameters
    ----------
    peers : Peers
        Connections over Unix sockets.
    chunk_bytes : int, default 4 MiB
        Bytes of a half of a buffer.
    """

    def __init__(self, peers: Peers, chunk_bytes: int = CHUNK_BYTES) -> None:
        self._peers = peers
        self._rank, self._size = peers.rank, peers.world_size
        self._chunk_bytes = chunk_bytes
        self._turn = 0
        self._buffers = self._exchange_buffers()

    def _exchange_buffers(self) -> list[_Bytes]:
        own = memory_file.make("raycompat-collective", 2 * self._chunk_bytes, sealed=True)
        descriptors = {self._rank: own}
        try:
            for distance in range(1, self._size):
                source = (self._rank - distance) % self._size
                self._peers.send_descriptor((self._rank + distance) % self._size, own)
                descriptors[source] = self._peers.receive_descriptor(source)
            return [self._map(descriptors[rank]) for rank in range(self._size)]
        finally:
            for descriptor in descriptors.values():
                os.close(descriptor)

    def _map(self, descriptor: int) -> _Bytes:
        return np.frombuffer(mmap.mmap(descriptor, 2 * self._chunk_bytes), np.uint8)

    def close(self) -> None:
        """Unmap the buffers."""
        self._buffers.clear()

    # --- parts of the buffers -------------------------------------------------------------------

    def _slots(self, like: Array, num_slots: int) -> tuple[list[list[Array]], int]:
        """Return ``[rank][slot]``, the current halves cut into slots; and the length of a slot."""
        itemsize = like.dtype.itemsize
        length = self._chunk_bytes // num_slots // itemsize
        start = self._turn * self._chunk_bytes
        self._turn = 1 - self._turn
        slots = [
            [
                buffer[
                    start + slot * length * itemsize : start + (slot + 1) * length * itemsize
                ].view(like.dtype)
                for slot in range(num_slots)
            ]
            for buffer in self._buffers
        ]
        return slots, length

    def _chunks(self, length: int, itemsize: int, num_slots: int = 1) -> Iterator[slice]:
        """Cut `length` items into chunks that fit; at least one chunk, so that all ranks meet."""
        step = self._chunk_bytes // num_slots // itemsize * num_slots
        for start in range(0, max(length, 1), step):
            yield slice(start, min(start + step, length))

    def _combine(self, slots: list[list[Array]], slot: int, out: Array, op: Reduction) -> None:
        """Combine one slot of all ranks, in the order of ranks, into `out`."""
        length = len(out)
        op(slots[0][slot][:length], slots[1][slot][:length], out=out)
        for rank in range(2, self._size):
            op(out, slots[rank][slot][:length], out=out)

    # --- operations; tensors are flat -----------------------------------------------------------

    def barrier(self, call: str) -> None:
        """Wait until all ranks have called this."""
        self._peers.barrier(call)

    def allreduce(self, call: str, tensor: Array, op: Reduction) -> None:
        """Combine the tensors of all ranks in place."""
        if tensor.nbytes <= min(SMALL_BYTES, self._chunk_bytes):
            slots, _ = self._slots(tensor, 1)
            slots[self._rank][0][: len(tensor)] = tensor
            self._peers.barrier(call)
            self._combine(slots, 0, tensor, op)
            return
        for chunk in self._chunks(len(tensor), tensor.itemsize, self._size):
            piece = tensor[chunk]
            slots = self._reduce_scattered(call, piece, op)
            self._peers.barrier(call)
            for rank, part in enumerate(parts_of(piece, self._size)):
                part[:] = slots[rank][rank][: len(part)]

    def _reduce_scattered(self, call: str, piece: Array, op: Reduction) -> list[list[Array]]:
        """Combine part r of all ranks' pieces into slot r of rank r."""
        slots, _ = self._slots(piece, self._size)
        parts = parts_of(piece, self._size)
        for rank, part in enumerate(parts):
            slots[self._rank][rank][: len(part)] = part
        self._peers.barrier(call)
        mine = slots[self._rank][self._rank][: len(parts[self._rank])]
        first = [rank for rank in range(self._size) if rank != self._rank]
        for rank in first:
            op(mine, slots[rank][self._rank][: len(mine)], out=mine)
        return slots

    def reduce(self, call: str, tensor: Array, root: int, op: Reduction) -> None:
        """Combine the tensors of all ranks into the root's; the others are not changed."""
        for chunk in self._chunks(len(tensor), tensor.itemsize, self._size):
            piece = tensor[chunk]
            slots = self._reduce_scattered(call, piece, op)
            self._peers.barrier(call)
            if self._rank == root:
                for rank, part in enumerate(parts_of(piece, self._size)):
                    part[:] = slots[rank][rank][: len(part)]

    def broadcast(self, call: str, tensor: Array, root: int) -> None:
        """Copy the root's tensor to all ranks."""
        for chunk in self._chunks(len(tensor), tensor.itemsize):
            slots, _ = self._slots(tensor, 1)
            piece = tensor[chunk]
            if self._rank == root:
                slots[root][0][: len(piece)] = piece
            self._peers.barrier(call)
            if self._rank != root:
                piece[:] = slots[root][0][: len(piece)]

    def allgather(self, call: str, outputs: list[Array], tensor: Array) -> None:
        """Copy the tensor of each rank into the output with its number."""
        for chunk in self._chunks(len(tensor), tensor.itemsize):
            slots, _ = self._slots(tensor, 1)
            piece = tensor[chunk]
            slots[self._rank][0][: len(piece)] = piece
            self._peers.barrier(call)
            for rank, output in enumerate(outputs):
                output[chunk] = slots[rank][0][: len(piece)]

    def reducescatter(self, call: str, output: Array, inputs: list[Array], op: Reduction) -> None:
        """Combine input r of all ranks into the output of rank r."""
        length = self._chunk_bytes // self._size // output.itemsize
        for start in range(0, max(len(output), 1), length):
            slots, _ = self._slots(output, self._size)
            chunk = slice(start, min(start + length, len(output)))
            for rank, tensor in enumerate(inputs):
                piece = tensor[chunk]
                slots[self._rank][rank][: len(piece)] = piece
            self._peers.barrier(call)
            self._combine(slots, self._rank, output[chunk], op)
