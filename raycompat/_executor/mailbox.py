"""The connections from callers to an actor or a leased executor, which arrive on its Unix socket.

The main thread takes the calls in the order of their arrival. Those of an actor then go to
`_executor.lanes`, which runs and answers them.
"""

from __future__ import annotations

import errno
import logging
import os
import socket
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, assert_never

from raycompat._executor.beside import Beside
from raycompat._host import clock, segment, unix_socket
from raycompat._host.open_files import NO_FILE_IS_LEFT, PAUSE_S
from raycompat._host.poller import READABLE, Poller
from raycompat._messages import direct
from raycompat._messages.direct import CallMessage
from raycompat._protocol import failures
from raycompat._protocol.actor_about import SYSTEM_GROUP
from raycompat._protocol.connection import Connection
from raycompat._protocol.frames import Unreadable

if TYPE_CHECKING:
    from raycompat._executor.item_window import ItemWindow
    from raycompat._protocol.connection import Pump

logger = logging.getLogger(__name__)

#: Callers that can wait for acceptance while the actor is busy.
_BACKLOG = 4096

#: Seconds between two reads of new calls while the actor is busy, so that calls run in order of
#: arrival.
_LOOK_S = 0.001

#: Seconds without a call after which an actor counts as idle.
_IDLE_S = 0.25

#: Seconds for callers to read the last answers of a process that leaves.
_DRAIN_S = 5.0

#: Seconds between two checks whether callers have taken over their segments.
_TAKING_S = 0.005

#: Number of segments after which the list is searched for those that were taken over.
_MANY_SEGMENTS = 256


class Caller(Connection[direct.FromCaller, direct.FromProcess]):
    """The connection of one caller, with the objects that the caller does not hold yet."""

    def __init__(self, stream: socket.socket, pump: Pump, mailbox: Mailbox) -> None:
        super().__init__(
            stream, pump, self._receive_message, lambda: mailbox.forget(self), self._take_refused
        )
        self.mailbox = mailbox
        #: The id of its host.
        self.host = ""
        #: The id of its Dask client.
        self.client = ""
        #: References inside results, by key, until the caller holds them.
        self.holds: dict[str, Any] = {}
        #: The unacknowledged items of its generators, by the keys of the calls.
        self.windows: dict[str, ItemWindow] = {}
        #: Segments of its results: the caller takes them over, or they are removed with the connection.
        self._segments: list[str] = []

    def note_segment(self, path: str) -> None:
        """Remember a segment until the caller has taken it over."""
        if len(self._segments) > _MANY_SEGMENTS:
            self._segments = [path for path in self._segments if os.path.exists(path)]
        self._segments.append(path)
        if self.closed:  # the caller is gone, and nothing else would remove the segment
            self.let_go()

    @property
    def is_served(self) -> bool:
        """Whether the caller is gone, or has taken over all of its segments."""
        with self._write_lock:
            if self.closed or self.has_hung_up:
                return True
            return not any(os.path.exists(path) for path in list(self._segments))

    def let_go(self) -> None:
        """Drop the objects of a caller that is gone."""
        self.holds.clear()
        for window in list(self.windows.values()):
            window.close()
        for path in self._segments:
            segment.remove(path)

    def _take_refused(self, message: direct.FromProcess, why: str) -> None:
        """Fail the call whose answer, or item, could not be written. Called by the pump."""
        logger.error("raycompat could not write an answer of the kind %r: %s", message[0], why)
        match message:
            case (direct.DONE | direct.FAILED | direct.ITEM, key, *_):
                self._fail(key, failures.unwritable("The answer of the call", why))

    def _take_unreadable(self, message: Unreadable) -> None:
        """Fail the call that could not be read; all calls if the message does not say which."""
        logger.error("raycompat could not read a caller's message: %s", message.why)
        error = failures.unreadable("The call", message.why)
        if not message.kind:
            self.post((direct.UNREADABLE, error), now=True)
        elif message.kind == direct.CALL:
            self._fail(message.key, error)

    def _fail(self, key: str, error: bytes) -> None:
        self.holds.pop(key, None)
        window = self.windows.get(key)
        if window is not None:
            window.close()
        self.post((direct.FAILED, key, error, False, 0.0), now=True)

    def _receive_message(self, message: direct.FromCaller | Unreadable) -> None:
        match message:
            case (direct.CALL, *_):
                self.mailbox.add(self, CallMessage._make(message))
            case (direct.CREDIT, key, num_received, is_wanted):
                window = self.windows.get(key)
                if window is not None:
                    window.acknowledge(num_received, is_wanted)
            case (direct.HELD, key):
                self.holds.pop(key, None)
            case (direct.RETURN,):
                self.mailbox.is_returned = True
            case (direct.HELLO, host, client):
                self.host, self.client = host, client
            case Unreadable():
                self._take_unreadable(message)
            case _:
                assert_never(message)


class Mailbox:
    """The calls that have arrived, the callers' connections, and the socket for new callers."""

    def __init__(self, name: str, pump: Pump, on_idle: Callable[[], bool]) -> None:
        """Listen at `name`; `on_idle` is called when no call has arrived for a while."""
        self.on_idle = on_idle
        self.calls: deque[tuple[Caller, CallMessage]] = deque()
        self._pump = pump
        self._callers: dict[int, Caller] = {}
        self._listener = unix_socket.listen(name, _BACKLOG)
        self._listener.setblocking(False)
        self._listener_inode = os.fstat(self._listener.fileno()).st_ino
        self._poller = Poller()
        self._poller.register(self._listener, READABLE)
        self._looked = 0.0
        #: Since when the listener is paused, by the monotonic clock; 0 if it is not.
        self._paused_since = 0.0
        #: Held by the thread that reads: while a leased call runs, two threads look.
        self.handling = threading.Lock()
        #: The call that was taken out of `calls` and has not begun.
        self.taken: tuple[Caller, CallMessage] | None = None
        #: Held to take a call out of `calls`, if another thread may call `take_out`.
        self._taking = threading.Lock()
        #: The thread that reads during calls, in actors that keep tensors, and what starts calls there.
        self.beside: Beside | None = None
        self._start_beside: Callable[[Caller, CallMessage], None] | None = None
        self._had_callers = False
        #: Whether a caller has reported that it will send no more calls.
        self.is_returned = False

    @property
    def callers(self) -> list[Caller]:
        """The connected callers."""
        return list(self._callers.values())

    @property
    def has_callers(self) -> bool:
        """Whether a caller is connected, or none has connected yet."""
        return bool(self._callers) or not self._had_callers

    def take(self) -> tuple[Caller, CallMessage] | None:
        """Take the next call; it stays `taken` until it begins, whatever exception comes between."""
        with self._taking:
            if self.taken is None and self.calls:
                self.taken = self.calls[0]
            if self.calls and self.calls[0] is self.taken:
                self.calls.popleft()
            return self.taken

    def take_out(self, key: str) -> tuple[Caller, CallMessage] | None:
        """Take a call that has not started, which may not even be read. Called from any thread."""
        self.read_arrived()
        if self.calls:  # the main thread may have looked for calls before this thread has read them
            self.wake()
        with self.handling, self._taking:
            for index, arrival in enumerate(self.calls):
                if arrival[1].key == key:
                    del self.calls[index]
                    return arrival
        return None

    def read_during_calls(self, start_beside: Callable[[Caller, CallMessage], None]) -> None:
        """Read messages also during calls; `start_beside` starts a call of `SYSTEM_GROUP`."""
        if self.beside is None:
            self._start_beside = start_beside
            self.beside = Beside(self.fileno(), self.handling, self.read_arrived_if)

    def add(self, caller: Caller, message: CallMessage) -> None:
        """Queue a call that has arrived, or start it beside the running one."""
        if self._start_beside is not None and message.group == SYSTEM_GROUP:
            self._start_beside(caller, message)
        else:
            self.calls.append((caller, message))

    def tell_all(self, message: tuple[Any, ...]) -> None:
        """Send a message to every caller at once."""
        for caller in self.callers:
            caller.post(message, now=True)

    def fileno(self) -> int:
        """Return a descriptor that is readable when `read_arrived` has work."""
        return self._poller.fileno()

    def wake(self) -> None:
        """End the `wait` of the main thread, from any thread."""
        self._poller.wake()

    def check(self) -> None:
        """Raise an error if callers can never reach this process: user code has closed descriptors."""
        self._poller.poll(0)
        if os.fstat(self._listener.fileno()).st_ino != self._listener_inode:
            raise OSError(errno.EBADF, "user code has closed the sockets of raycompat")

    def wait(self, timeout_s: float | None = None) -> None:
        """Write all answers, then wait until something arrives or `wake` is called."""
        self.flush()
        if not self._look(_IDLE_S):
            self.check()
            self.on_idle()
            self._look(timeout_s)

    def wait_until(self, is_over: Callable[[], bool], timeout_s: float | None = None) -> bool:
        """Read callers' messages until `is_over()`; False after the timeout.

        Called in the main thread, during a call.
        """
        end = None if timeout_s is None else clock.monotonic() + timeout_s
        remaining = timeout_s
        while not is_over():
            if end is not None and (remaining := end - clock.monotonic()) <= 0:
                return False
            self.wait(remaining)
        return True

    def read_arrived_sometimes(self) -> None:
        """Read what has arrived, unless this was done a moment ago."""
        now = clock.monotonic()
        if now - self._looked > _LOOK_S:
            self._looked = now
            self._look(0)

    def read_arrived(self) -> None:
        """Read what has arrived."""
        self._look(0)

    def read_arrived_if(self, condition: Callable[[], bool]) -> None:
        """Read what has arrived, if the condition holds while no other thread reads."""
        self._look(0, condition)

    def _look(self, timeout_s: float | None, condition: Callable[[], bool] = lambda: True) -> bool:
        if self._paused_since:
            timeout_s = PAUSE_S if timeout_s is None else min(timeout_s, PAUSE_S)
        ready = self._poller.poll(timeout_s)
        with self.handling:
            self._end_pause()
            if not condition():
                return False
            for descriptor, _ in ready:
                if descriptor == self._listener.fileno():
                    self._accept()
                elif descriptor == self._poller.wake_descriptor:
                    self._poller.rest()
                elif descriptor in self._callers:
                    self._receive(self._callers[descriptor])
        return bool(ready)

    def _accept(self) -> None:
        while True:
            try:
                stream, _ = self._listener.accept()
            except BlockingIOError:
                return
            except OSError as error:
                if error.errno not in NO_FILE_IS_LEFT:
                    raise
                self._pause(error)
                return
            if not unix_socket.is_of_this_user(stream):
                stream.close()
                continue
            caller = Caller(stream, self._pump, self)
            self._callers[stream.fileno()] = caller
            self._had_callers = True
            self._pump.add(caller, listen=False)
            self._poller.register(stream, READABLE)

    def _pause(self, error: OSError) -> None:
        """Accept no caller for a moment, because this process cannot open another file."""
        logger.error("A new caller waits %.1f s, because: %s", PAUSE_S, error)
        self._paused_since = clock.monotonic()
        self._poller.modify(self._listener, 0)

    def _end_pause(self) -> None:
        if self._paused_since and clock.monotonic() - self._paused_since > PAUSE_S:
            self._paused_since = 0.0
            self._poller.modify(self._listener, READABLE)

    def _receive(self, caller: Caller) -> None:
        if not caller.receive():
            self.forget(caller)

    def forget(self, caller: Caller) -> None:
        """Close the connection of a caller that is gone. Its calls still run."""
        descriptor = caller.socket.fileno()
        if self._callers.pop(descriptor, None) is not None:
            self._poller.unregister(descriptor)
            caller.close()
            caller.let_go()

    def flush(self) -> None:
        """Write all answers that have gathered."""
        for caller in self._callers.values():
            if not caller.is_flushed:
                caller.flush()

    def close(self) -> None:
        """Close after a last wait: callers read their answers and take over their segments.

        Called from any thread. The node removes what remains after the process has ended.
        """
        self._listener.close()
        deadline = clock.monotonic() + _DRAIN_S
        self.drain()
        while clock.monotonic() < deadline and not all(each.is_served for each in self.callers):
            time.sleep(_TAKING_S)

    def drain(self) -> bool:
        """Write all answers, waiting a while for callers to read; return whether all were written."""
        for caller in self.callers:
            caller.drain(_DRAIN_S)
        return all(caller.is_flushed for caller in self.callers)

    def close_gracefully(self) -> bool:
        """Tell all callers that this process ends, and wait a while until they close.

        They close once they own their results. Return whether all answers were written.
        """
        self.tell_all((direct.BYE,))
        deadline = clock.monotonic() + _DRAIN_S
        while self._callers and (left := deadline - clock.monotonic()) > 0:
            self.flush()
            self._look(left)
        self._listener.close()
        is_complete = all(caller.is_flushed for caller in self.callers)
        for caller in self.callers:  # they may still take over their segments
            self._callers.pop(caller.socket.fileno())
            caller.close()
        self._poller.close()
        return is_complete
