"""One end of a channel between two processes: messages in order, written and read in batches.

A frame (`_protocol.frames`) has a list of messages, which are tuples of built-in types. A message that
is posted with `now` is written at once. Others are written when the poster flushes, when many have
gathered, or in the next round of the `Pump`. One thread at a time reads: a thread that waits for an
answer, else the pump. A message that cannot be written or read does not affect others.

Both directions are safe against a ``KeyboardInterrupt`` at any moment. The C call that writes also
records it, and a change of state is a single assignment. A thread that reads is interrupted only while
it waits for messages.
"""

from __future__ import annotations

import contextlib
import logging
import operator
import select
import socket
import threading
from collections import deque
from collections.abc import Callable
from functools import partial
from itertools import chain
from typing import Any, Generic, TypeAlias, TypeVar

from raycompat._host import clock, interrupts
from raycompat._host.poller import HUNG_UP, READABLE, WRITABLE, Poller
from raycompat._protocol import frames

logger = logging.getLogger(__name__)

#: Bytes. One read of a socket: about what a Unix socket holds.
_READ_BYTES = 1 << 17

#: Number of unwritten messages from which `post` writes them all.
_MANY = 128

#: Seconds between two rounds of the pump, and the number of idle rounds after which it sleeps.
_ROUND_S = 0.001
_IDLE_ROUNDS = 20

#: The events after which a connection is read: its end is read too.
_ARRIVED = READABLE | HUNG_UP


#: What the thread that reads gets, and what others post: messages, which are tuples.
_Received = TypeVar("_Received", bound=tuple[Any, ...])
_Sent = TypeVar("_Sent", bound=tuple[Any, ...])

#: Functions that are called when a message is posted.
Notes: TypeAlias = tuple[Callable[[], object], ...]


#: A connection whose messages are not looked into.
_AnyConnection: TypeAlias = "Connection[Any, Any]"


def post_and_note(posted: list[Any], message: tuple[object, ...], notes: Notes) -> None:
    """Append a message and call `notes`, in one C call: an interrupt comes before or after both."""
    if notes:
        steps: tuple[Any, ...] = (partial(posted.append, message), *notes)
        deque(map(operator.call, steps), 0)
    else:
        posted.append(message)


class Connection(Generic[_Received, _Sent]):
    """A socket with its unread bytes and unwritten messages.

    The thread that reads calls `on_message` and `on_end`, with interrupts deferred in `on_message`.
    `on_refused` is called, by the pump, with a message that could not be written, and why. A message
    that could not be read is passed to `on_message` as `frames.Unreadable`.
    """

    def __init__(
        self,
        stream: socket.socket,
        pump: Pump,
        on_message: Callable[[_Received | frames.Unreadable], None],
        on_end: Callable[[], None],
        on_refused: Callable[[_Sent, str], None],
    ) -> None:
        stream.setblocking(False)
        self.socket = stream
        self.on_message = on_message
        self._on_refused = on_refused
        self.read_lock = threading.Lock()
        self._poll = select.poll()
        self._poll.register(stream, select.POLLIN)
        self.closed = False
        self._pump = pump
        self._on_end = on_end
        self._write_lock = threading.RLock()
        #: Messages that are not encoded, frames that are not written, and the number of bytes written
        #: of the first frame. One assignment replaces all three.
        self._outgoing: tuple[list[_Sent], tuple[bytes, ...], list[int]] = ([], (), [])
        self._encoder = frames.Encoder()
        #: Messages that could not be written, until the pump reports them.
        self._refused: deque[tuple[_Sent, str]] = deque()
        self._flush_due = False
        self._chunks: deque[bytes] = deque()
        self._needed = 0
        self._has_ended = False
        #: Whether a thread has read something from the socket and not yet handled all of it.
        self._is_handling = False

    # --- writing --------------------------------------------------------------------------------

    def post(self, message: _Sent, *, now: bool, wake: bool = True, notes: Notes = ()) -> None:
        """Write `message` behind the earlier ones, at once or soon.

        Without `wake` the caller must flush. `notes` are C functions that record the post.
        """
        with self._write_lock:
            posted = self._outgoing[0]
            post_and_note(posted, message, notes)
            if now or len(posted) >= _MANY:
                self.flush()
                return
        if wake and not self._flush_due:
            self._flush_due = True
            self._pump.flush_soon(self)

    def flush(self) -> None:
        """Write all posted messages, as far as the other end accepts them now."""
        with self._write_lock:
            self._flush_due = False
            try:
                if self._outgoing[0]:
                    self._encode_posted()
                if not self.closed and not self._write_frames():
                    self._pump.watch_for_room(self)
            except OSError:
                return  # the end of the stream is reported by reading
            except Exception:  # another try would fail too
                logger.exception("raycompat could not write a message, and closes the connection")
                with contextlib.suppress(OSError):  # the other end may be gone
                    self.socket.shutdown(socket.SHUT_RDWR)
            except BaseException:  # an interrupt
                self._pump.flush_soon(self)
                raise

    def _encode_posted(self) -> None:
        posted, unwritten, written = self._outgoing
        frame, refused = self._encoder.encode_all(posted)
        self._outgoing = ([], unwritten if frame is None else (*unwritten, frame), written)
        if refused:  # this thread may hold a lock that the owner of the connection needs
            self._refused.extend(refused)
            self._pump.flush_soon(self)

    def report_refused(self) -> None:
        """Report the messages that could not be written. Called by the pump."""
        while self._refused:
            self._on_refused(*self._refused.popleft())

    def listen(self) -> None:
        """Register with the pump, which reads what has arrived and what will arrive."""
        if not self._pump.listen(self) and not self.closed:
            self.read_soon()

    def read_soon(self) -> None:
        """Ask the pump to look once, even if nothing more arrives."""
        self._pump.read_soon(self)

    def _write_frames(self) -> bool:
        """Write; return False when the other end does not accept more now."""
        while self._outgoing[1]:
            posted, unwritten, written = self._outgoing
            done = sum(written)
            if done == len(unwritten[0]):
                self._outgoing = (posted, unwritten[1:], [])
                continue
            rest = memoryview(unwritten[0])[done:] if done else unwritten[0]
            try:
                written.extend(map(self.socket.send, (rest,)))
            except BlockingIOError:
                return False
        return True

    @property
    def is_flushed(self) -> bool:
        """Whether all that was posted has been written."""
        return not self._outgoing[0] and not self._outgoing[1]

    @property
    def has_hung_up(self) -> bool:
        """Return whether the other end is closed. Call it only while this end is open."""
        poll = select.poll()
        poll.register(self.socket, 0)
        return bool(poll.poll(0))

    def drain(self, timeout_s: float) -> None:
        """Write all posted messages; wait up to `timeout_s` for the other end to accept them."""
        end = clock.monotonic() + timeout_s
        poll = select.poll()
        poll.register(self.socket, select.POLLOUT)
        self.flush()
        while not self.is_flushed and not self.closed and (left := end - clock.monotonic()) > 0:
            poll.poll(left * 1000)
            self.flush()

    # --- reading --------------------------------------------------------------------------------

    def receive(self) -> bool:
        """Handle what has arrived; False at the end of the stream. The caller holds `read_lock`."""
        if self.closed:
            return False
        with interrupts.deferred():  # so each message is handled once
            self._is_handling = True
            try:
                return self._receive()
            finally:
                self._is_handling = False

    def _receive(self) -> bool:
        chunks = self._chunks
        try:
            if not self._has_ended:
                chunks.extend(map(self.socket.recv, (_READ_BYTES,)))
        except BlockingIOError:
            if not chunks:
                return True
        except OSError:
            self._has_ended = True
        if chunks and not chunks[-1]:
            self._has_ended = True
        if sum(map(len, chunks)) >= self._needed:
            self._handle_frames(b"".join(chunks) if len(chunks) != 1 else chunks[0])
        return not self._has_ended

    def _handle_frames(self, data: bytes) -> None:
        batches, position = frames.split(data)
        for message in chain.from_iterable(batches):
            try:
                self.on_message(message)
            except Exception:  # a channel must not die of one message
                logger.exception("raycompat could not handle a message")
        rest = data[position:]
        self._needed = frames.num_bytes_needed(rest)
        self._chunks = deque((rest,) if rest else ())

    @property
    def is_silent(self) -> bool:
        """Return whether nothing is left to handle: all was handled, or this end is closed."""
        poll = select.poll()  # not `_poll`: the reading thread may be using it
        with self._write_lock:  # this lock also guards the closing of the socket
            if self.socket.fileno() < 0:
                return not self._is_handling
            poll.register(self.socket, select.POLLIN)
            has_arrived = bool(poll.poll(0))
        if has_arrived or self._is_handling:  # the order matters: first the socket, then the flag
            return False
        chunks = self._chunks
        return not chunks or sum(map(len, chunks)) < self._needed

    def receive_in_background(self) -> None:
        """Read, unless another thread reads; that thread then handles this too."""
        with interrupts.deferred(), self._reading() as may_read:
            open_still = self.receive() if may_read else True
        if not open_still:
            self._end()

    def receive_rest(self) -> None:
        """Read all that has arrived, also when the pump does not watch the connection any more."""
        with interrupts.deferred(), self._reading() as may_read:
            open_still = True
            while may_read and open_still and self._poll.poll(0):
                open_still = self.receive()
        if not open_still:
            self._end()

    def receive_until(self, is_over: Callable[[], bool], timeout_s: float | None) -> bool:
        """Read in this thread until `is_over()` is true.

        Return False when the time is up, another thread is reading, or the stream has ended. Interrupts
        come only while this waits for messages.
        """
        end = None if timeout_s is None else clock.monotonic() + timeout_s
        open_still, over = True, False
        with interrupts.deferred(), self._reading(mute=True) as may_read:
            while may_read and open_still and not (over := is_over()):
                left = None if end is None else (end - clock.monotonic()) * 1000
                if left is not None and left <= 0:
                    break
                with interrupts.allowed():
                    self._poll.poll(left)
                open_still = self.receive()
        if not open_still:
            self._end()
        return may_read and (over or is_over())

    def _reading(self, *, mute: bool = False) -> _Reading:
        return _Reading(self, self._pump if mute else None)

    def _end(self) -> None:
        self.close()
        self._on_end()

    def close(self) -> None:
        """Close this end. Messages that are posted and not written are lost."""
        with self._write_lock:
            if self.closed:
                return
            self.closed = True
            self._pump.remove(self)
            with contextlib.suppress(OSError):  # the other end may be gone
                self.socket.shutdown(socket.SHUT_RDWR)  # wakes a thread that reads
        with interrupts.deferred(), self._reading():
            pass  # the reading thread closes the socket when it is done

    def close_socket(self) -> None:
        """Close the socket. The caller holds `read_lock`, and this end is closed."""
        with self._write_lock:
            self.socket.close()


class _Reading:
    """A context that holds a connection's `read_lock`, if it is free. Interrupts are deferred in it.

    Those who enter it defer them. With a pump, the pump does not read the connection meanwhile.
    """

    __slots__ = ("_connection", "_got", "_pump")

    def __init__(self, connection: _AnyConnection, pump: Pump | None) -> None:
        self._connection = connection
        self._pump = pump

    def __enter__(self) -> bool:
        self._got = self._connection.read_lock.acquire(blocking=False)
        if self._got and self._pump is not None:
            self._pump.mute(self._connection)
        return self._got

    def __exit__(self, *_: object) -> None:
        if not self._got:
            return
        connection = self._connection
        try:
            if self._pump is not None:
                connection.listen()
        finally:
            connection.read_lock.release()
            if connection.closed and connection.read_lock.acquire(blocking=False):
                connection.close_socket()
                connection.read_lock.release()


class Pump:
    """The thread of a process that flushes and reads connections while no other thread does."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._connections: dict[int, tuple[_AnyConnection, int]] = {}
        self._dirty: deque[_AnyConnection] = deque()
        self._unread: deque[_AnyConnection] = deque()
        #: Whether the thread is in its rounds, so that it need not be woken.
        self._attentive = False
        #: Whether it rejects new connections; and whether its thread is to end.
        self._is_closing = False
        self._closed = False

    def _start(self) -> None:
        self._poller = Poller()
        self._thread = threading.Thread(target=self._run, name="raycompat-pump", daemon=True)
        self._thread.start()

    def add(self, connection: _AnyConnection, *, listen: bool) -> None:
        """Flush a connection from now on; with `listen`, read it too.

        Raises
        ------
        ConnectionError
            When the pump is closed.
        """
        with self._lock:
            if self._is_closing:
                raise ConnectionError("this process has left its cluster")
            if self._thread is None:
                self._start()
            events = READABLE if listen else 0
            descriptor = connection.socket.fileno()
            self._connections[descriptor] = (connection, events)
            self._poller.register(descriptor, events)

    def remove(self, connection: _AnyConnection) -> None:
        """Stop watching a connection that is about to be closed."""
        with self._lock:
            descriptor = connection.socket.fileno()
            if self._connections.pop(descriptor, None) is not None:
                self._poller.unregister(descriptor)

    def _change(self, connection: _AnyConnection, add: int, drop: int) -> bool:
        with self._lock:
            descriptor = connection.socket.fileno()
            known = self._connections.get(descriptor)
            if known is None or known[0] is not connection:
                return False
            events = (known[1] | add) & ~drop
            self._poller.modify(descriptor, events)
            self._connections[descriptor] = (connection, events)
            return True

    def listen(self, connection: _AnyConnection) -> bool:
        """Read a connection again; False when the pump does not watch it any more."""
        return self._change(connection, READABLE, 0)

    def mute(self, connection: _AnyConnection) -> None:
        """Stop reading a connection, because another thread reads it."""
        self._change(connection, 0, READABLE)

    def watch_for_room(self, connection: _AnyConnection) -> None:
        """Flush a connection when its other end can accept more."""
        self._change(connection, WRITABLE, 0)

    def flush_soon(self, connection: _AnyConnection) -> None:
        """Flush a connection in the next round of this thread."""
        self._dirty.append(connection)
        if not self._attentive:
            self._attentive = True
            self._wake_up()

    def read_soon(self, connection: _AnyConnection) -> None:
        """Read a connection once, even if nothing more arrives on it."""
        self._unread.append(connection)
        self._wake_up()

    def _wake_up(self) -> None:
        self._poller.wake()

    def _run(self) -> None:
        idle_rounds = 0
        while not self._closed:
            ready = self._poller.poll(_ROUND_S if self._attentive else None)
            for descriptor, events in ready:
                self._guarded(self._handle, descriptor, events)
            idle_rounds = 0 if self._dirty else idle_rounds + 1
            if idle_rounds > _IDLE_ROUNDS:
                self._attentive = False  # a later `flush_soon` wakes this thread
            while self._dirty:
                connection = self._dirty.popleft()
                self._guarded(connection.flush)
                self._guarded(connection.report_refused)
            while self._unread:
                self._guarded(self._unread.popleft().receive_rest)
        with self._lock:  # no other thread changes the descriptors meanwhile
            self._poller.close()

    def _guarded(self, function: Callable[..., None], *arguments: object) -> None:
        try:
            function(*arguments)
        except Exception:  # one connection must not end the others
            logger.exception("raycompat could not read or write a channel")

    def _handle(self, descriptor: int, events: int) -> None:
        if descriptor == self._poller.wake_descriptor:
            self._poller.rest()
            return
        connection, wanted = self._connections.get(descriptor, (None, 0))
        if connection is None:
            return
        if events & WRITABLE:
            self._change(connection, 0, WRITABLE)
            connection.flush()
        if events & _ARRIVED and wanted & READABLE:
            connection.receive_in_background()
        elif events & HUNG_UP and not wanted:
            self._stop_watching(connection)

    def _stop_watching(self, connection: _AnyConnection) -> None:
        """Stop watching a connection that has ended, while another thread reads it.

        The event may be of an older connection with the same descriptor, so the connection is checked.
        """
        with self._lock:
            descriptor = connection.socket.fileno()
            if self._connections.get(descriptor) == (connection, 0) and connection.has_hung_up:
                del self._connections[descriptor]
                self._poller.unregister(descriptor)

    def close(self) -> None:
        """End the thread and every connection."""
        with self._lock:
            self._is_closing = True
        for connection, _ in list(self._connections.values()):
            connection.close()
        with self._lock:
            if self._thread is None or self._closed:
                return
            self._closed = True
            self._poller.wake()
        if threading.current_thread() is not self._thread:
            self._thread.join()
