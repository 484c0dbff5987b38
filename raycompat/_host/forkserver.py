"""A forkserver's work: it gets requests with descriptors, forks, and reports how its children end.

A forkserver is single-threaded and runs no user code. It ends when the other end of its socket closes.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import select
import signal
import socket
from collections.abc import Iterator
from typing import Any

from raycompat._host import clock, unix_socket

#: Bytes. Larger than any packet.
MAX_PACKET_BYTES = 1 << 16
#: Those of a request to fork: the three of the child, and a file in memory with its settings. (Settings
#: can be of any size; packets cannot.)
NUM_DESCRIPTORS = 4


class Forkserver:
    """The forkserver's end of its socket. Its reports are tuples, one in a packet."""

    def __init__(self, control: socket.socket) -> None:
        self._control = control
        #: The processes that were forked and are not reaped.
        self.children: set[int] = set()
        self._wake_read, self._wake_write = os.pipe()
        os.set_blocking(self._wake_write, False)
        os.set_blocking(self._wake_read, False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGCHLD])
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.set_wakeup_fd(self._wake_write)

    def requests(self) -> Iterator[tuple[dict[str, Any], list[int]]]:
        """Return requests, each with its descriptors, and report the children that end meanwhile.

        Return when the other end closes, or when SIGTERM arrives, if that has a handler.
        """
        waiting = select.poll()
        for descriptor in (self._wake_read, self._control.fileno()):
            waiting.register(descriptor, select.POLLIN)
        while True:
            ready = [descriptor for descriptor, _ in waiting.poll()]
            if self._wake_read in ready:
                signals = os.read(self._wake_read, 4096)
                self._reap()
                if signal.SIGTERM in signals:
                    return
            if self._control.fileno() not in ready:
                continue
            packet, descriptors = self._receive()
            if not packet:
                return
            yield pickle.loads(packet), descriptors
            for descriptor in descriptors:
                os.close(descriptor)

    def _receive(self) -> tuple[bytes, list[int]]:
        try:
            return unix_socket.receive(self._control, MAX_PACKET_BYTES, NUM_DESCRIPTORS)
        except ConnectionResetError:  # the other end has died, and has not read all reports
            return b"", []

    def report(self, *words: object, descriptors: tuple[int, ...] = ()) -> None:
        """Send a tuple to the other end, with descriptors."""
        unix_socket.send(self._control, pickle.dumps(words), descriptors)

    def fork(self) -> int:
        """Fork; return the child's pid, and 0 in the child, which stops being a forkserver.

        Raises
        ------
        OSError
            When the machine cannot start another process.
        """
        pid = os.fork()
        if pid:
            self.children.add(pid)
            return pid
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        self._control.close()
        os.close(self._wake_read)
        os.close(self._wake_write)
        return 0

    def kill(self, pid: int) -> None:
        """Kill a child, if it has not ended. Its pid belongs to it until it is reaped here."""
        if pid in self.children:
            os.kill(pid, signal.SIGKILL)

    def end_all(self, within_s: float) -> None:
        """Wait until all children have ended, and report their ends; after `within_s`, kill them."""
        deadline = clock.monotonic() + within_s
        while self.children and (left_s := deadline - clock.monotonic()) > 0:
            self.wait_for_end(left_s)
        self.kill_all()
        self.wait_for_all()

    def wait_for_all(self) -> None:
        """Wait until all children have ended."""
        while self.children:
            self.wait_for_end(None)

    def kill_all(self) -> None:
        """Kill all children."""
        for pid in list(self.children):
            os.kill(pid, signal.SIGKILL)

    def wait_for_end(self, timeout_s: float | None) -> None:
        """Wait until a child has ended, or for a while."""
        if select.select([self._wake_read], [], [], timeout_s)[0]:
            os.read(self._wake_read, 4096)
        self._reap()

    def _reap(self) -> None:
        while True:
            try:
                ended = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            except ChildProcessError:
                return
            if ended is None:
                return
            pid = ended.si_pid
            known = pid in self.children  # otherwise it was adopted
            # A signal's handler may call `kill_all` between any two lines here: a pid in `children` is
            # not reaped yet, so it is nobody else's.
            self.children.discard(pid)
            _, status = os.waitpid(pid, 0)
            if known:
                self._report_end(pid, status)

    def _report_end(self, pid: int, status: int) -> None:
        with contextlib.suppress(ConnectionError):  # the other end has died
            self.report("exited", pid, os.waitstatus_to_exitcode(status))
