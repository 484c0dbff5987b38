"""The connections of one process of a compiled graph: values go out, values come in.

A value is sent in a frame with the number of its *slot*, which stands for one node of the graph. Each
slot has one writer, so the n-th value in a slot belongs to the n-th execution.

One thread does everything. While it waits for room in a connection, it reads what the other processes
send. So two processes that send large values to each other do not block.
"""

from __future__ import annotations

import mmap
import os
import select
import socket
import struct
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from raycompat._host import clock, unix_socket
from raycompat.dag.arena import SHARED_BYTES, Arena, Buffer
from raycompat.dag.packing import Packed, room, unpack
from raycompat.dag.tensors import Loan

#: Kind of the value, slot, number of bytes, and the shared buffer that has them; -1: they follow.
_HEADER = struct.Struct("<cIQq")
#: The kind of the frame that ends the graph.
_CLOSE = b"q"
#: The kinds of frames about the buffer in the place of the slot: the reader has copied the value; the
#: writer will not use it again.
_FREE, _REPLACED = b"f", b"r"
#: The kind of the frame before a value with tensors in the memory of a GPU. It has the number of the
#: loan in the place of the slot, with which the reader frees the memory, as it frees buffers.
_LOAN = b"l"
#: The number of the first loan. Buffers have smaller ones.
_FIRST_LOAN = 1 << 31
#: Seconds for the readers of loans to free them when the graph ends.
_LOANS_S = 10.0

#: Bytes to read at a time; bytes of a value that is joined with its header; of a connection's buffer.
_READ_BYTES, _SMALL_BYTES, _BUFFER_BYTES = 64 << 10, 16 << 10, 4 << 20

#: Seconds in which a thread looks for values before it sleeps. Waking a thread takes longer: an
#: execution of one actor takes 50 microseconds with this, and 150 without.
_SPIN_S = 100e-6


class EndedError(Exception):
    """The graph has ended, or the process at the other end of a connection."""


#: A value that was not unpacked yet: its kind and its bytes.
Frame = tuple[bytes, "bytes | memoryview | Shared | Lent"]


class Shared:
    """A value in a buffer of its writer, which is freed with the last reference to this object."""

    def __init__(self, link: Link, number: int, view: memoryview) -> None:
        self._link, self._number = link, number
        self.view = view

    def __del__(self) -> None:
        self.view.release()
        self._link.freed.append(self._number)


class Lent:
    """A value with tensors in the memory of a GPU, which is freed with the last reference to this."""

    def __init__(self, link: Link, number: int, data: bytes | memoryview | Shared) -> None:
        self._link, self._number = link, number
        self.data = data

    def __del__(self) -> None:
        self._link.freed.append(self._number)


class Link:
    """The connection to one other process.

    Parameters
    ----------
    is_near : bool
        Whether it is a Unix socket, so that memory can be shared.
    """

    def __init__(self, connection: socket.socket, *, is_near: bool) -> None:
        self.socket = connection
        self.is_near = is_near
        self.has_ended = False
        #: Data that was not accepted yet, and the descriptor that is sent with its first byte.
        self.outbox: deque[tuple[memoryview, int | None]] = deque()
        #: The buffers of the other process that this one has copied from.
        self.freed: deque[int] = deque()
        #: The buffers that the other process knows, and those of the other process.
        self._known: set[int] = set()
        self._maps: dict[int, mmap.mmap] = {}
        self._descriptors: deque[int] = deque()
        #: The beginning of a frame; its rest has not arrived.
        self._inbox = b""
        #: The large frame that is arriving: slot, kind, memory, and the number of its bytes.
        self._large: tuple[int, bytes, memoryview] | None = None
        self._num_received = 0
        #: The loan of the next value.
        self._loan: int | None = None
        connection.setblocking(False)
        # The kernel gives as much of this as its settings allow.
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _BUFFER_BYTES)

    def post(
        self, slot: int, packed: Packed, buffer: Buffer | None = None, loan: int | None = None
    ) -> None:
        """Put a frame into the outbox; `buffer` has the value, if it is large."""
        if loan is not None:
            self._append(_HEADER.pack(_LOAN, loan, 0, -1))
        if buffer is not None:
            head = _HEADER.pack(packed.kind, slot, packed.size, buffer.number)
            new = buffer.number not in self._known
            self._known.add(buffer.number)
            self._append(head, buffer.descriptor if new else None)
            return
        head = _HEADER.pack(packed.kind, slot, packed.size, -1)
        parts = packed.host_parts()
        if packed.size <= _SMALL_BYTES:
            self._append(b"".join((head, *parts)))
        else:
            for part in (head, *parts):
                if len(part):
                    self._append(part)

    def _append(self, data: bytes | memoryview, descriptor: int | None = None) -> None:
        self.outbox.append((memoryview(data), descriptor))

    def post_freed(self) -> None:
        """Put the numbers of the freed buffers into the outbox."""
        while self.freed:
            self._append(_HEADER.pack(_FREE, self.freed.popleft(), 0, -1))

    def post_replaced(self, number: int) -> None:
        """Report that a buffer of this process is not used any more."""
        if number in self._known:
            self._known.remove(number)
            self._append(_HEADER.pack(_REPLACED, number, 0, -1))

    def flush(self) -> bool:
        """Send what the connection accepts; return whether it accepted anything."""
        moved = False
        self.post_freed()
        while self.outbox:
            data, descriptor = self.outbox[0]
            try:
                if descriptor is None:
                    count = self.socket.send(data)
                else:
                    count = unix_socket.send(self.socket, data, [descriptor])
            except BlockingIOError:
                return moved
            except OSError:  # the other process has ended
                self.has_ended = True
                self.outbox.clear()
                return moved
            moved = True
            if count == len(data):
                self.outbox.popleft()
            else:
                self.outbox[0] = (data[count:], None)
        return moved

    def receive(self) -> Iterable[tuple[int, Frame]]:
        """Read once, and yield the slots and values of the frames that are complete."""
        try:
            if self._large is not None:
                count = self.socket.recv_into(self._large[2][self._num_received :])
            elif self.is_near:
                data, descriptors = unix_socket.receive(self.socket, _READ_BYTES, 8)
                self._descriptors += descriptors
                count = len(data)
            else:
                data = self.socket.recv(_READ_BYTES)
                count = len(data)
        except BlockingIOError:
            return
        except OSError:
            count = 0
        if not count:
            self.has_ended = True
        elif self._large is None:
            yield from self._frames_of(self._inbox + data if self._inbox else data)
        else:
            self._num_received += count
            slot, kind, memory = self._large
            if self._num_received == len(memory):
                self._large = None
                yield slot, self._frame(kind, memory)

    def _frames_of(self, data: bytes) -> Iterable[tuple[int, Frame]]:
        position = 0
        while len(data) - position >= _HEADER.size:
            kind, slot, size, number = _HEADER.unpack_from(data, position)
            start = position + _HEADER.size
            if number >= 0:
                position = start
                data_there = Shared(self, number, memoryview(self._map(number))[:size])
                yield slot, self._frame(kind, data_there)
                continue
            end = start + size
            if end > len(data):
                if size > _SMALL_BYTES:
                    self._begin_large(slot, kind, size, data[start:])
                    position = len(data)
                break
            position = end
            if kind == _REPLACED:
                self._maps.pop(slot).close()
            elif kind == _LOAN:
                self._loan = slot
            else:
                yield slot, self._frame(kind, data[start:end])
        self._inbox = data[position:]

    def _frame(self, kind: bytes, data: bytes | memoryview | Shared) -> Frame:
        """Return a frame, with the loan that was announced before it."""
        loan, self._loan = self._loan, None
        return kind, data if loan is None else Lent(self, loan, data)

    def _map(self, number: int) -> mmap.mmap:
        """Return a buffer of the other process; its descriptor came with its first use."""
        if number not in self._maps:
            descriptor = self._descriptors.popleft()
            self._maps[number] = mmap.mmap(descriptor, 0, prot=mmap.PROT_READ)
            os.close(descriptor)
        return self._maps[number]

    def close(self) -> None:
        """Close the connection."""
        self.socket.close()
        while self._descriptors:
            os.close(self._descriptors.popleft())

    def _begin_large(self, slot: int, kind: bytes, size: int, begin: bytes) -> None:
        memory = room(size)
        memory[: len(begin)] = begin
        self._large, self._num_received = (slot, kind, memory), len(begin)


class _Step:
    """A context in which an interrupt (Ctrl-C) leaves half of a change: the graph ends then."""

    __slots__ = ("is_whole",)

    def __init__(self) -> None:
        self.is_whole = True

    def __enter__(self) -> None:
        self.is_whole = False

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self.is_whole = kind is None or issubclass(kind, Exception)


class Exchange:
    """All connections of this process in one graph.

    The main thread can be interrupted while it waits for values. An interrupt in the middle of a
    `step`, in which it sends or reads, ends the graph.

    Parameters
    ----------
    links : dict of int to Link
        The connections, by the rank of the other process.
    """

    def __init__(self, links: Mapping[int, Link]) -> None:
        self.links = dict(links)
        #: The values that arrived and were not taken, by slot.
        self.arrived: defaultdict[int, deque[Frame]] = defaultdict(deque)
        self.has_ended = False
        self.step = _Step()
        self._arena = Arena()
        #: The loans that were not freed, with the connections to their readers.
        self._loans: dict[int, tuple[Loan, list[Link]]] = {}
        self._num_loans = 0
        self._by_number = {link.socket.fileno(): link for link in links.values()}
        self._poll = select.poll()
        for number in self._by_number:
            self._poll.register(number, select.POLLIN)

    def take(self, slot: int) -> Frame:
        """Wait for the next value of a slot, and return it.

        Raises
        ------
        EndedError
            When the graph has ended.
        """
        self.wait([slot], None)
        return self.arrived[slot].popleft()

    def wait(
        self,
        slots: Sequence[int],
        timeout_s: float | None,
        enough: Callable[[], bool] = lambda: False,
    ) -> bool:
        """Wait until every slot has a value, or `enough()`; return False when that took too long.

        Raises
        ------
        EndedError
            When the graph has ended, and a value is missing.
        """
        deadline = None if timeout_s is None else clock.monotonic() + timeout_s
        self.check_whole()
        while not all(self.arrived[slot] for slot in slots) and not enough():
            left = None if deadline is None else max(0.0, deadline - clock.monotonic())
            if self.has_ended:
                if not self.turn(0):  # all that was sent before the end has arrived
                    raise EndedError
            elif not self.turn(left) and deadline is not None and deadline <= clock.monotonic():
                return False
        return True

    def send(
        self, sent: Iterable[tuple[int, Packed, Sequence[int]]], timeout_s: float | None
    ) -> bool:
        """Send values to the processes that read them; wait until the connections have accepted all.

        Parameters
        ----------
        sent : iterable of (int, Packed, sequence of int)
            Slot, value, and ranks of the readers.
        timeout_s : float, optional
            Seconds until the first byte is accepted. If none is, nothing is sent.

        Returns
        -------
        bool
            False when it took too long.

        Raises
        ------
        EndedError
            When the graph has ended.
        """
        used = self.post(sent)
        deadline = None if timeout_s is None else clock.monotonic() + timeout_s
        has_begun = False
        while True:
            for link in used:
                has_begun |= link.flush()
            full = [link for link in used if link.outbox]
            if any(link.has_ended for link in used):
                self.has_ended = True
                raise EndedError
            if not full:
                return True
            left = None
            if deadline is not None and not has_begun:
                left = deadline - clock.monotonic()
                if left <= 0:
                    for link in full:
                        link.outbox.clear()
                    return False
            self._wait_for_room(full, left)

    def check_whole(self) -> None:
        """Raise `EndedError` after an interrupt in the middle of a step."""
        if not self.step.is_whole:
            self.has_ended = True
            raise EndedError

    def post(self, sent: Iterable[tuple[int, Packed, Sequence[int]]]) -> list[Link]:
        """Put values into the outboxes of the connections to their readers, and return those."""
        used: list[Link] = []
        for slot, packed, readers in sent:
            links = [self.links[rank] for rank in readers]
            buffer = self._shared(packed, [link for link in links if link.is_near])
            loan = self._lend(packed.loan, links)
            for link in links:
                link.post(slot, packed, buffer if link.is_near else None, loan)
            used += links
        return used

    def _lend(self, loan: Loan | None, readers: Sequence[Link]) -> int | None:
        if loan is None:
            return None
        number = _FIRST_LOAN + self._num_loans % _FIRST_LOAN
        self._num_loans += 1
        self._loans[number] = (loan, list(readers))
        return number

    def _free(self, link: Link, number: int) -> None:
        """Note that a reader has copied from a buffer or a loan."""
        if number < _FIRST_LOAN:
            self._arena.free(number)
            return
        loan, readers = self._loans[number]
        readers.remove(link)
        if not readers:
            del self._loans[number]
            loan.end()

    def _end_loans(self) -> None:
        """Wait until the readers have freed their loans, or have ended. Free those of others first."""
        self.arrived.clear()
        self.flush_freed()
        deadline = clock.monotonic() + _LOANS_S
        while any(not link.has_ended for _, readers in self._loans.values() for link in readers):
            left = deadline - clock.monotonic()
            if left <= 0:
                break
            self.turn(left)
            self.arrived.clear()
            self.flush_freed()
        while self._loans:
            self._loans.popitem()[1][0].end()

    def flush_freed(self) -> None:
        """Report the buffers that this process has copied from."""
        for link in self.links.values():
            if link.freed:
                link.flush()

    def _shared(self, packed: Packed, near: Sequence[Link]) -> Buffer | None:
        """Return a buffer with the value if it is large and has readers on this host."""
        if packed.size <= SHARED_BYTES or not near:
            return None
        self._read_all(self._ready(0))  # buffers may have been freed
        buffer, replaced = self._arena.put(packed, len(near))
        for number in replaced:
            for link in self.links.values():
                link.post_replaced(number)
        return buffer

    def _wait_for_room(self, full: Sequence[Link], timeout_s: float | None) -> None:
        for link in full:
            self._poll.modify(link.socket.fileno(), select.POLLIN | select.POLLOUT)
        self._read_all(self._ready(timeout_s))
        for link in full:
            if not link.has_ended:
                self._poll.modify(link.socket.fileno(), select.POLLIN)

    def turn(self, timeout_s: float | None) -> bool:
        """Wait until a connection is ready, and read; return False when none was."""
        self.check_whole()
        if timeout_s != 0:
            with self.step:
                self.flush_freed()
        ready = self._ready(timeout_s)
        if not ready:
            return False
        with self.step:
            self._read_all(ready)
        return True

    def _ready(self, timeout_s: float | None) -> list[tuple[int, int]]:
        """Return the ready connections; check for a while before this thread sleeps."""
        ready = self._poll.poll(0)
        if ready or timeout_s == 0:
            return ready
        until = clock.monotonic() + _SPIN_S
        while clock.monotonic() < until:
            if ready := self._poll.poll(0):
                return ready
        return self._poll.poll(None if timeout_s is None else timeout_s * 1000)

    def _read_all(self, ready: Iterable[tuple[int, int]]) -> None:
        for number, _ in ready:
            self._read(self._by_number[number])

    def _read(self, link: Link) -> None:
        for slot, frame in link.receive():
            if frame[0] == _CLOSE:
                self.has_ended = True
            elif frame[0] == _FREE:
                self._free(link, slot)
            else:
                self.arrived[slot].append(frame)
        if link.has_ended:
            self.has_ended = True
            self._poll.unregister(link.socket.fileno())

    def end_others(self) -> None:
        """Ask the other processes to end, each after the call that it runs."""
        for link in self.links.values():
            if not link.has_ended:
                link.post(0, Packed(_CLOSE, ()))
                link.flush()

    def wait_for_others(self, timeout_s: float) -> int:
        """Wait until the other processes have closed their connections; return how many are open."""
        deadline = clock.monotonic() + timeout_s
        while rest := sum(not link.has_ended for link in self.links.values()):
            left = deadline - clock.monotonic()
            if left <= 0:
                return rest
            self.turn(left)
            self.arrived.clear()
        return 0

    def close(self) -> None:
        """Close the connections."""
        self.arrived.clear()
        if self._loans:
            self._end_loans()
        for link in self.links.values():
            link.close()
        self._arena.close()


def value_of(frame: Frame) -> Any:
    """Return the value of a frame, or the `Failure` that came in its place."""
    kind, data = frame
    if isinstance(data, Lent):
        data = data.data  # the frame keeps the loan until the tensors are copied
    if isinstance(data, Shared):
        return unpack(kind, data.view, keep=False)
    return unpack(kind, data, keep=True)
