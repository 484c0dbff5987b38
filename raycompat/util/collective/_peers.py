"""Frames between the ranks of a group, and the detection of ranks that end, leave or stop.

Every two ranks have one connection. A frame is a header, a short text and a payload. The text of an
ordinary frame describes the operation, such as ``allreduce(SUM, float32 x 1000)``. If a rank receives a
text that differs from its own, the ranks do not call the same operation. The two other kinds of frames
are the last on a connection: *failed* carries an error's text; *left* means that the sender destroyed
its group.

A waiting rank watches all connections. If the rank that it waits for ends its connection, the operation
fails at once. The end of another rank fails it only after `GRACE_S`, because the operation may need
nothing more from that rank.
"""

from __future__ import annotations

import contextlib
import select
import socket
import struct
from collections.abc import Iterable

from raycompat._host import clock, processes, unix_socket
from raycompat._host.poller import is_readable
from raycompat.util.collective.types import CollectiveError, CollectiveTimeoutError

#: Kind, bytes of the text, bytes of the payload.
_HEADER = struct.Struct("<cIQ")
_CALL, _FAILED, _LEFT = b"c", b"f", b"l"

#: Seconds for which an operation may continue after the end of a rank that it does not wait for.
GRACE_S = 2.0

#: Seconds after which a stopped rank (SIGSTOP) of this host fails the operation.
STOPPED_S = 5.0

#: Seconds between two checks of the time and of the processes of this host.
_LOOK_S = 0.5

#: The payload of frames without one.
_NOTHING = memoryview(b"")

#: The maximum length of a valid text.
_LONGEST_TEXT = 1 << 16


class Peer:
    """One other rank: its connection and its process.

    Parameters
    ----------
    pid : int, optional
        Given if it is a process of this host, in the pid namespace of this process.
    """

    def __init__(self, rank: int, connection: socket.socket, pid: int | None = None) -> None:
        self.rank = rank
        self.socket = connection
        self.pid = pid
        #: Bytes that were read from the connection before an operation needed them.
        self.inbox = bytearray()
        #: The frame that is being received, or the last one that was.
        self.frame: _Incoming | None = None
        #: The frame that is being sent, or the last one that was.
        self.outgoing: _Outgoing | None = None
        #: The time when the connection's end was noticed, and the last frame's kind and text.
        self.ended: float | None = None
        self.last_words: tuple[bytes, str] | None = None
        self.stopped_since: float | None = None
        connection.setblocking(False)

    def receive_into(self, view: memoryview) -> int:
        """Fill `view` with available bytes; return their number, or -1 at the connection's end."""
        if self.inbox:
            count = min(len(view), len(self.inbox))
            view[:count] = self.inbox[:count]
            del self.inbox[:count]
            return count
        if self.ended is not None:
            return -1
        try:
            return self.socket.recv_into(view) or -1
        except BlockingIOError:
            return 0
        except OSError:
            return -1

    def drain(self) -> None:
        """Read the rest of a connection that has ended, up to the last frame."""
        self.ended = clock.monotonic()
        try:
            while piece := self.socket.recv(1 << 20):
                self.inbox += piece
        except OSError:
            pass  # the bytes so far are kept; the rest is lost
        head, position = self.frame.unfinished() if self.frame is not None else (b"", 0)
        stream = head + self.inbox
        while position + _HEADER.size <= len(stream):
            kind, text_bytes, num_bytes = _HEADER.unpack_from(stream, position)
            start = position + _HEADER.size
            if kind != _CALL:
                text = stream[start : start + text_bytes].decode(errors="replace")
                self.last_words = kind, text
            position = start + text_bytes + num_bytes

    def is_stopped(self) -> bool:
        """Return whether the process was stopped for `STOPPED_S`."""
        if self.pid is None or self.ended is not None:
            return False
        if not processes.is_stopped(self.pid):
            self.stopped_since = None
            return False
        if self.stopped_since is None:
            self.stopped_since = clock.monotonic()
        return clock.monotonic() - self.stopped_since >= STOPPED_S


def _head(kind: bytes, text: bytes, num_bytes: int = 0) -> memoryview:
    """Return a frame up to its payload."""
    return memoryview(_HEADER.pack(kind, len(text), num_bytes) + text)


class _Outgoing:
    """A frame that is being sent to a peer, `after` the rest of another."""

    def __init__(self, peer: Peer, *parts: memoryview, after: _Outgoing | None = None) -> None:
        self.peer = peer
        self._parts: list[memoryview] = [
            *(after._parts if after is not None else ()),
            *filter(len, parts),
        ]
        peer.outgoing = self

    @property
    def done(self) -> bool:
        return not self._parts

    def advance(self) -> bool:
        """Send what the connection accepts; return whether it accepted anything."""
        moved = False
        while self._parts:
            try:
                sent = self.peer.socket.send(self._parts[0])
            except BlockingIOError:
                return moved
            moved = True
            self._parts[0] = self._parts[0][sent:]
            if not self._parts[0]:
                del self._parts[0]
        return moved

    def finish(self, deadline: float) -> bool:
        """Send the rest; return whether the connection accepted all of it by the deadline."""
        while not self.done and (remaining := deadline - clock.monotonic()) > 0:
            if not self.advance():
                writable = select.poll()
                writable.register(self.peer.socket, select.POLLOUT)
                writable.poll(remaining * 1000)
        return self.done


class _Incoming:
    """A frame that is expected from a peer: its text must be equal, and its payload fills a buffer."""

    def __init__(self, peer: Peer, text: bytes, payload: memoryview) -> None:
        self.peer = peer
        self._expected = text
        self._payload = payload
        self._head = bytearray(_HEADER.size)
        self._kind = b""
        #: The buffer that is being filled, and the part of the frame in it.
        self._view = memoryview(self._head)
        self._stage = "header"
        peer.frame = self

    @property
    def done(self) -> bool:
        return self._stage == "done"

    def unfinished(self) -> tuple[bytes, int]:
        """Return what was read of a header, or the number of bytes to come after a whole one."""
        if self._stage == "header":
            return bytes(self._head[: len(self._head) - len(self._view)]), 0
        return b"", len(self._view) + (self._num_bytes if self._stage == "text" else 0)

    def advance(self) -> bool:
        """Read what the connection has; return whether it had anything.

        Raises
        ------
        EOFError
            When the connection has ended.
        CollectiveError
            When the peer reports that it failed or left, or calls another operation.
        """
        moved = False
        while self._stage != "done":
            if self._view:
                count = self.peer.receive_into(self._view)
                if count < 0:
                    raise EOFError
                if count == 0:
                    return moved
                moved = True
                self._view = self._view[count:]
            if not self._view:
                self._next_stage()
        return moved

    def _next_stage(self) -> None:
        if self._stage == "header":
            self._kind, text_bytes, self._num_bytes = _HEADER.unpack(self._head)
            if text_bytes > _LONGEST_TEXT:
                raise CollectiveError(
                    f"Rank {self.peer.rank} sent something that is not a frame of this group.",
                    (self.peer.rank,),
                )
            self._text = bytearray(text_bytes)
            self._view, self._stage = memoryview(self._text), "text"
        elif self._stage == "text":
            self._check()
            self._view, self._stage = self._payload, "payload"
        else:
            self._stage = "done"

    def _check(self) -> None:
        rank, text = self.peer.rank, self._text.decode(errors="replace")
        if self._kind != _CALL:
            raise _farewell(self.peer, self._kind, text)
        if self._text != self._expected or self._num_bytes != len(self._payload):
            raise CollectiveError(
                f"The ranks do not call the same operation: this rank called "
                f"{self._expected.decode()}, rank {rank} called {text}. Every rank must call the "
                "same operations of a group, in the same order, with equal shapes and dtypes.",
                (rank,),
            )


def _farewell(peer: Peer, kind: bytes, text: str) -> CollectiveError:
    if kind == _LEFT:
        return CollectiveError(
            f"Rank {peer.rank} left the group: it called destroy_collective_group, or its process "
            "ended, before this operation.",
            (peer.rank,),
        )
    return CollectiveError(f"Rank {peer.rank} failed: {text}", (peer.rank,))


class Peers:
    """The connections of one rank to all others of its group.

    Parameters
    ----------
    rank, world_size : int
    peers : iterable of Peer
        One for each other rank.
    timeout_s : float
        Seconds without any progress after which an operation fails.
    """

    def __init__(self, rank: int, world_size: int, peers: Iterable[Peer], timeout_s: float) -> None:
        self.rank = rank
        self.world_size = world_size
        self.timeout_s = timeout_s
        self._peers = {peer.rank: peer for peer in peers}
        #: All connections, watched for their end, and in `_wait` for what an exchange needs.
        self._poll = select.poll()
        for peer in self._peers.values():
            self._poll.register(peer.socket, select.POLLRDHUP)
        self._by_descriptor = {peer.socket.fileno(): peer for peer in self._peers.values()}

    def peer(self, rank: int) -> Peer:
        """Return the peer of a rank."""
        return self._peers[rank]

    def exchange(
        self,
        call: str,
        *,
        to: int | None = None,
        data: memoryview = _NOTHING,
        source: int | None = None,
        into: memoryview = _NOTHING,
        alone: bool = False,
    ) -> None:
        """Send a frame to one rank and receive one from another at the same time.

        Parameters
        ----------
        call : str
            The operation; both sides must give the same text.
        to, source : int, optional
            The ranks; None: nothing is sent, or received.
        data, into : memoryview
            Bytes (format ``B``) to send, and room for exactly the bytes to receive.
        alone : bool, default False
            Whether the operation concerns these ranks only, so that the end of others is not an error.

        Raises
        ------
        CollectiveError
            When a rank has ended, left, stopped or failed, or calls another operation.
        CollectiveTimeoutError
            When nothing was sent or received for the time-out.
        """
        text = call.encode()
        frames: list[_Outgoing | _Incoming] = []
        if to is not None:
            frames.append(_Outgoing(self._peers[to], _head(_CALL, text, len(data)), data))
        if source is not None:
            frames.append(_Incoming(self._peers[source], text, into))
        moved_at = clock.monotonic()
        while True:
            moved = False
            for frame in frames:
                moved |= self._advance(frame)
            frames = [frame for frame in frames if not frame.done]
            if not frames:
                return
            if moved:
                moved_at = clock.monotonic()
            else:
                self._wait(call, frames, moved_at, alone)

    def _advance(self, frame: _Outgoing | _Incoming) -> bool:
        try:
            return frame.advance()
        except (EOFError, ConnectionError) as error:
            peer = frame.peer
            if peer.ended is None:
                self._poll.unregister(peer.socket)
                peer.drain()
            raise self._ended(peer) from error

    def _ended(self, peer: Peer) -> CollectiveError:
        if peer.last_words is not None:
            return _farewell(peer, *peer.last_words)
        pid = f" (pid {peer.pid})" if peer.pid is not None else ""
        return CollectiveError(
            f"The process of rank {peer.rank}{pid} ended, or its connection was lost.", (peer.rank,)
        )

    def _wait(
        self, call: str, frames: list[_Outgoing | _Incoming], moved_at: float, alone: bool
    ) -> None:
        """Wait until a frame can continue; raise when the operation cannot."""
        wanted: dict[socket.socket, int] = {}
        for frame in frames:
            if frame.peer.ended is not None:
                continue
            direction = select.POLLOUT if isinstance(frame, _Outgoing) else select.POLLIN
            connection = frame.peer.socket
            wanted[connection] = wanted.get(connection, select.POLLRDHUP) | direction
        for connection, events in wanted.items():
            self._poll.modify(connection, events)
        ready = self._poll.poll(_LOOK_S * 1000)
        for connection in wanted:
            self._poll.modify(connection, select.POLLRDHUP)
        for descriptor, events in ready:
            if events & (select.POLLRDHUP | select.POLLHUP | select.POLLERR):
                # It stays readable and would be reported again and again.
                self._poll.unregister(descriptor)
                self._by_descriptor[descriptor].drain()
        waited_for = {frame.peer.rank for frame in frames}
        self._check_others(waited_for, alone)
        if not ready:
            self._check_clock(call, waited_for, moved_at)

    def _check_others(self, waited_for: set[int], alone: bool) -> None:
        """Raise when a rank that is not waited for has failed, or ended some time ago."""
        now = clock.monotonic()
        for peer in self._peers.values():
            if peer.ended is None or peer.rank in waited_for:
                continue
            has_failed = peer.last_words is not None and peer.last_words[0] == _FAILED
            if has_failed or (not alone and now - peer.ended > GRACE_S):
                raise self._ended(peer)

    def _check_clock(self, call: str, waited_for: set[int], moved_at: float) -> None:
        stopped = [peer for peer in self._peers.values() if peer.is_stopped()]
        if stopped:
            peer = stopped[0]
            raise CollectiveError(
                f"The process of rank {peer.rank} (pid {peer.pid}) is stopped, as SIGSTOP does, so "
                f"{call} cannot end.",
                (peer.rank,),
            )
        if clock.monotonic() - moved_at > self.timeout_s:
            names = ", ".join(map(str, sorted(waited_for)))
            raise CollectiveTimeoutError(
                f"{call} made no progress for {self.timeout_s:g} s: this rank, {self.rank}, waits "
                f"for rank {names}, which has not called it or waits for another rank. Give the "
                "group a longer time-out if its members can take so long.",
                tuple(sorted(waited_for)),
            )

    def send_descriptor(self, to: int, descriptor: int) -> None:
        """Send a file descriptor over a Unix socket; only before the first frame."""
        unix_socket.send(self._peers[to].socket, b"d", [descriptor])

    def receive_descriptor(self, source: int) -> int:
        """Receive the file descriptor that a rank sends."""
        peer = self._peers[source]
        if not is_readable(peer.socket.fileno(), self.timeout_s):
            raise CollectiveTimeoutError(
                f"Rank {source} sent no memory to share for {self.timeout_s:g} s.", (source,)
            )
        try:
            _, descriptors = unix_socket.receive(peer.socket, 1, 1)
        except ConnectionError:
            descriptors = []
        if not descriptors:
            raise self._ended(peer)
        return descriptors[0]

    def barrier(self, call: str) -> None:
        """Wait until all ranks have called this with the same `call`.

        The rounds are those of a dissemination barrier: in round k, a rank notifies the rank at the
        distance 2**k. So each rank compares its call with those of several others. If every rank's
        comparison succeeds, all calls are equal.
        """
        distance = 1
        while distance < self.world_size:
            self.exchange(
                call,
                to=(self.rank + distance) % self.world_size,
                source=(self.rank - distance) % self.world_size,
            )
            distance *= 2

    def close(self, error: BaseException | None = None) -> None:
        """Close all connections, and send the reason to the others if their connections accept it.

        A frame that was begun is sent to its end first: its receiver would take the reason for a part
        of the payload.
        """
        kind = _LEFT if error is None else _FAILED
        text = b"" if error is None else f"{error}".encode()[: _LONGEST_TEXT // 2]
        deadline = clock.monotonic() + GRACE_S
        left = [peer for peer in self._peers.values() if peer.ended is None]
        # First all at once, because those with a full connection use up the time. Where that fails, the
        # peer sees the end of the connection.
        for peer in left:
            with contextlib.suppress(OSError):
                _Outgoing(peer, _head(kind, text), after=peer.outgoing).advance()
        for peer in left:
            with contextlib.suppress(OSError):
                if peer.outgoing is not None:
                    peer.outgoing.finish(deadline)
                peer.socket.shutdown(socket.SHUT_WR)
        for peer in self._peers.values():
            peer.socket.close()
