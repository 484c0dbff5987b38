"""The connections of one process of a compiled graph: values go out, values come in.

A value is sent in a frame with the number of its *slot*, which stands for one node of the graph. Each
slot has one writer, so the n-th value in a slot belongs to the n-th execution.

One thread does everything. While it waits for room in a connection, it reads what the other processes
send. So two processes that send large values to each other do not block.
"""

from __future__ import annotations

import select
import socket
import struct
import time
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Mapping, Sequence

from raycompat.dag.packing import INLINE_BYTES, Descriptor, Packed

#: Kind of the value, whether its bytes are in a file, slot, number of bytes.
_HEADER = struct.Struct("<c?IQ")
#: The kind of the frame that ends the graph.
_CLOSE = b"q"

_READ_BYTES = 256 << 10


class EndedError(Exception):
    """The graph has ended, or the process at the other end of a connection."""


#: A value that was not unpacked yet: kind, bytes or file, size.
Frame = tuple[bytes, bytes | Descriptor, int]


class Link:
    """The connection to one other process.

    Parameters
    ----------
    is_near : bool
        Whether it is a Unix socket, so that descriptors can be sent.
    """

    def __init__(self, connection: socket.socket, *, is_near: bool) -> None:
        self.socket = connection
        self.is_near = is_near
        self.has_ended = False
        #: What was not accepted yet, and the descriptor that goes with its first byte.
        self.outbox: deque[tuple[memoryview, Descriptor | None]] = deque()
        self._inbox = bytearray()
        self._files: deque[Descriptor] = deque()
        connection.setblocking(False)

    def post(self, slot: int, packed: Packed) -> None:
        """Put a frame into the outbox."""
        in_file = self.is_near and packed.size > INLINE_BYTES
        head = _HEADER.pack(packed.kind, in_file, slot, packed.size)
        if in_file:
            self.outbox.append((memoryview(head), packed.file()))
        elif packed.size <= INLINE_BYTES:
            self.outbox.append((memoryview(b"".join((head, *packed.parts))), None))
        else:
            parts = [memoryview(each) for each in (head, *packed.parts) if len(each)]
            self.outbox.extend((part.cast("B"), None) for part in parts)

    def flush(self) -> bool:
        """Send what the connection accepts; return whether it accepted anything."""
        moved = False
        while self.outbox:
            data, file = self.outbox[0]
            try:
                if file is None:
                    count = self.socket.send(data)
                else:
                    count = socket.send_fds(self.socket, [data], [file.number])
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
            if self.is_near:
                data, numbers, _, _ = socket.recv_fds(self.socket, _READ_BYTES, 4)
                self._files.extend(Descriptor(number) for number in numbers)
            else:
                data = self.socket.recv(_READ_BYTES)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self.has_ended = True
            return
        self._inbox += data
        while (frame := self._next()) is not None:
            yield frame

    def _next(self) -> tuple[int, Frame] | None:
        inbox = self._inbox
        if len(inbox) < _HEADER.size:
            return None
        kind, in_file, slot, size = _HEADER.unpack_from(inbox)
        if in_file:
            del inbox[: _HEADER.size]
            return slot, (kind, self._files.popleft(), size)
        end = _HEADER.size + size
        if len(inbox) < end:
            return None
        data = bytes(memoryview(inbox)[_HEADER.size : end])
        del inbox[:end]
        return slot, (kind, data, size)


class Exchange:
    """All connections of this process in one graph.

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
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        while not all(self.arrived[slot] for slot in slots) and not enough():
            left = None if deadline is None else max(0.0, deadline - time.monotonic())
            if self.has_ended:
                if not self.turn(0):  # all that was sent before the end has arrived
                    raise EndedError
            elif not self.turn(left) and left is not None and time.monotonic() >= deadline:
                return False
        return True

    def send(
        self, sent: Iterable[tuple[int, Packed, Sequence[int]]], timeout_s: float | None
    ) -> bool:
        """Send values to the processes that read them.

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
        used = []
        for slot, packed, readers in sent:
            for rank in readers:
                self.links[rank].post(slot, packed)
                used.append(self.links[rank])
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
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
                left = deadline - time.monotonic()
                if left <= 0:
                    for link in full:
                        link.outbox.clear()
                    return False
            self._wait_for_room(full, left)

    def _wait_for_room(self, full: Sequence[Link], timeout_s: float | None) -> None:
        for link in full:
            self._poll.modify(link.socket.fileno(), select.POLLIN | select.POLLOUT)
        self.turn(timeout_s)
        for link in full:
            if not link.has_ended:
                self._poll.modify(link.socket.fileno(), select.POLLIN)

    def turn(self, timeout_s: float | None) -> bool:
        """Wait until a connection is ready, and read; return False when none was."""
        ready = self._poll.poll(None if timeout_s is None else timeout_s * 1000)
        for number, _ in ready:
            self._read(self._by_number[number])
        return bool(ready)

    def _read(self, link: Link) -> None:
        for slot, frame in link.receive():
            if frame[0] == _CLOSE:
                self.has_ended = True
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
        """Wait until the other processes have closed their connections; return how many have not."""
        deadline = time.monotonic() + timeout_s
        while rest := sum(not link.has_ended for link in self.links.values()):
            left = deadline - time.monotonic()
            if left <= 0:
                return rest
            self.turn(left)
            self.arrived.clear()
        return 0

    def close(self) -> None:
        """Close the connections."""
        for link in self.links.values():
            link.socket.close()
        self.arrived.clear()
