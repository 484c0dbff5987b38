"""Operations between processes of several hosts, over their connections.

The ranks form a ring in which ranks of one host are neighbours, so that each step sends one part
between every two hosts. An allreduce has 2 (n - 1) steps. In the first half, each rank receives a part,
combines it with its own and sends the result on in the next step. In the second half, the complete
parts circulate (Patarasuk and Yuan, "Bandwidth optimal all-reduce algorithms for clusters of
workstations", 2009).
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from raycompat.util.collective._peers import Peers
from raycompat.util.collective._tensors import Array, Reduction, as_bytes, parts_of

#: Bytes that a broadcast forwards at a time.
_PIECE_BYTES = 1 << 20


class Ring:
    """The ranks in the order in which they are neighbours.

    Parameters
    ----------
    peers : Peers
    order : list of int
        All ranks; the same list on each.
    """

    def __init__(self, peers: Peers, order: list[int]) -> None:
        self._peers = peers
        self._order = order
        self._size = len(order)
        self._position = order.index(peers.rank)
        self._next = order[(self._position + 1) % self._size]
        self._previous = order[(self._position - 1) % self._size]

    def close(self) -> None:
        """Do nothing: a ring has only its connections."""

    def barrier(self, call: str) -> None:
        """Wait until all ranks have called this."""
        self._peers.barrier(call)

    def _pass_on(self, call: str, data: Array, into: Array) -> None:
        self._peers.exchange(
            call, to=self._next, data=as_bytes(data), source=self._previous, into=as_bytes(into)
        )

    def _reduce_parts(self, call: str, parts: list[Array], op: Reduction) -> None:
        """Combine the parts; part i is then complete at position i.

        `parts` are in the order of positions, and overwritten.
        """
        room = np.empty_like(max(parts, key=len))
        for step in range(1, self._size):
            sent = parts[(self._position - step) % self._size]
            kept = parts[(self._position - step - 1) % self._size]
            received = room[: len(kept)]
            self._pass_on(call, sent, received)
            op(kept, received, out=kept)

    def _gather_parts(self, call: str, parts: list[Array]) -> None:
        """Copy part i from position i to all ranks."""
        for step in range(self._size - 1):
            self._pass_on(
                call,
                parts[(self._position - step) % self._size],
                parts[(self._position - step - 1) % self._size],
            )

    # --- operations; tensors are flat -----------------------------------------------------------

    def allreduce(self, call: str, tensor: Array, op: Reduction) -> None:
        """Combine the tensors of all ranks in place."""
        parts = parts_of(tensor, self._size)
        self._reduce_parts(call, parts, op)
        self._gather_parts(call, parts)

    def reduce(self, call: str, tensor: Array, root: int, op: Reduction) -> None:
        """Combine the tensors of all ranks into the root's; the others are not changed."""
        mine = tensor if self._peers.rank == root else tensor.copy()
        parts = parts_of(mine, self._size)
        self._reduce_parts(call, parts, op)
        if self._peers.rank != root:
            self._peers.exchange(call, to=root, data=as_bytes(parts[self._position]))
            return
        for position, rank in enumerate(self._order):
            if rank != root:
                self._peers.exchange(call, source=rank, into=as_bytes(parts[position]))

    def broadcast(self, call: str, tensor: Array, root: int) -> None:
        """Send the root's tensor around the ring, piece by piece."""
        #: The rank before the root forwards nothing.
        to = None if self._next == root else self._next
        handed: Array | None = None
        for piece in _pieces(tensor):
            if self._peers.rank == root:
                self._peers.exchange(call, to=to, data=as_bytes(piece))
            elif handed is None or to is None:
                self._peers.exchange(call, source=self._previous, into=as_bytes(piece))
            else:
                self._pass_on(call, handed, piece)
            handed = piece
        if handed is not None and to is not None and self._peers.rank != root:
            self._peers.exchange(call, to=to, data=as_bytes(handed))

    def allgather(self, call: str, outputs: list[Array], tensor: Array) -> None:
        """Copy the tensor of each rank into the output with its number."""
        parts = [outputs[rank] for rank in self._order]
        parts[self._position][:] = tensor
        self._gather_parts(call, parts)

    def reducescatter(self, call: str, output: Array, inputs: list[Array], op: Reduction) -> None:
        """Combine input r of all ranks into the output of rank r."""
        parts = [inputs[rank].copy() for rank in self._order]
        self._reduce_parts(call, parts, op)
        output[:] = parts[self._position]


def _pieces(tensor: Array) -> Iterator[Array]:
    """Cut a tensor into pieces; at least one."""
    length = max(1, _PIECE_BYTES // tensor.itemsize)
    for start in range(0, max(len(tensor), 1), length):
        yield tensor[start : start + length]
