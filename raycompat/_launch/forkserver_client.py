"""The forkserver from which this process's scheduler and nodes are forked.

They share one, which runs as long as one of them does. When something has changed that they inherit
from this process (`inherited`), the next of them gets another forkserver.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import pickle
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence

from raycompat._host import interrupts, memory_file, processes, unix_socket
from raycompat._host.forkserver import MAX_PACKET_BYTES
from raycompat._host.inherited import Inherited, inherited
from raycompat._host.poller import is_readable
from raycompat._protocol import import_paths, run_module

#: Seconds for a forkserver to report that a process has ended.
_REPORT_S = 10.0


class Forked:
    """A process that was requested. It may not run yet: its forkserver may still be importing Dask."""

    def __init__(self, server: ForkserverClient) -> None:
        self.server = server
        self._pid: int | None = None
        #: A descriptor of the process, with which it is waited for and killed.
        self._handle: int | None = None
        #: The reason, as part of a sentence, if it could not be forked.
        self.why_not_forked: str | None = None
        self._exit_code: int | None = None
        #: Whether it keeps the forkserver.
        self._is_held = True

    def _is_answered(self) -> bool:
        return self._pid is not None or self.why_not_forked is not None

    def _is_reaped(self) -> bool:
        return self._exit_code is not None or self.why_not_forked is not None

    @property
    def pid(self) -> int:
        """The id of the process, which must be forked."""
        assert self._pid is not None
        return self._pid

    def wait(self, timeout_s: float) -> bool:
        """Wait until the process has ended, or was not forked; return whether this is so in time."""
        deadline = time.monotonic() + timeout_s
        if self._is_held and not self.server.read_until(self._is_answered, deadline):
            return False
        return self._handle is None or is_readable(self._handle, deadline - time.monotonic())

    def exit_code(self) -> int | None:
        """Wait until a process that has ended is reaped, and return its exit code.

        It is None if the process was not forked, or if its forkserver does not report the end.
        """
        deadline = time.monotonic() + _REPORT_S
        self.server.read_until(self._is_reaped, deadline)
        return self._exit_code

    def fileno(self) -> int:
        """Return a descriptor that is readable when the process, which must be forked, has ended."""
        assert self._handle is not None
        return self._handle

    def is_forked_within(self, timeout_s: float) -> bool:
        """Wait until the process is forked; return whether this is so in time."""
        self.server.read_until(self._is_answered, time.monotonic() + timeout_s)
        return self._pid is not None

    def kill(self) -> None:
        """Send the process SIGKILL; it must be forked."""
        with contextlib.suppress(ProcessLookupError):  # it has ended
            processes.kill(self.fileno())

    def let_go(self) -> None:
        """Stop waiting for the process, and end the forkserver if this was its last one."""
        if self._is_held:
            self.forget()
            release(self.server)

    def forget(self) -> None:
        """Close the descriptor: the process counts as ended from now on."""
        self._is_held = False
        if self._handle is not None:
            os.close(self._handle)
            self._handle = None

    def on_forked(self, pid: int, handle: int) -> None:
        """Note that the process runs."""
        self._pid = pid
        if self._is_held:
            self._handle = handle
        else:
            os.close(handle)  # it was let go before it was forked: its input is closed, so it ends

    def on_failed(self, error: str) -> None:
        """Note why the process was not forked."""
        self.why_not_forked = error

    def on_exited(self, exit_code: int) -> None:
        """Note how the process has ended."""
        self._exit_code = exit_code


class ForkserverClient:
    """A forkserver of this process."""

    def __init__(self, basis: Inherited) -> None:
        #: What its children inherit.
        self.basis = basis
        #: What it prints, in memory: it starts before a cluster has a folder.
        self._printed = os.fdopen(memory_file.make("raycompat-forkserver"), "rb")
        #: Calls of `acquire` without their `release`.
        self.num_users = 0
        self._numbers = itertools.count()
        self._requested: dict[int, Forked] = {}
        self._running: dict[int, Forked] = {}
        #: Held while these are changed; notified after each report.
        self._changed = threading.Condition()
        #: Whether a thread waits for reports.
        self._has_reader = False
        self._has_ended = False
        self._control, theirs = unix_socket.packets()
        with theirs:
            self._server = subprocess.Popen(
                run_module.command("raycompat._launch.forkserver", str(theirs.fileno())),
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=self._printed,
                stderr=self._printed,
                env=dict(basis.variables),
                start_new_session=True,
            )

    @property
    def is_running(self) -> bool:
        """Whether it has not ended."""
        return self._server.poll() is None

    def printed(self) -> str:
        """Return what it has printed: nothing, unless it has failed."""
        if self._printed.closed:
            return ""
        size = os.fstat(self._printed.fileno()).st_size
        return os.pread(self._printed.fileno(), size, 0).decode(errors="replace")

    def guard(self, folder: str) -> None:
        """Let it remove a folder, which does not exist yet, if this process dies before `end`."""
        with self._changed:
            self._send({"op": "guard", "folder": folder}, [])

    def fork(
        self, module: str, options: str, variables: Mapping[str, str], descriptors: Sequence[int]
    ) -> Forked:
        """Request a process, without waiting for it (see `fork`)."""
        forked = Forked(self)
        changed = dict(variables.items() - self.basis.variables)
        folders = import_paths.of_this_process()
        settings = {"options": options, "variables": changed, "folders": folders}
        about = memory_file.put("raycompat-process", settings)
        try:
            with self._changed:
                if self._has_ended:
                    forked.on_failed("its forkserver has ended")
                number = next(self._numbers)
                self._requested[number] = forked
                request = {"op": "fork", "module": module, "number": number}
                self._send(request, [*descriptors, about])
        finally:
            os.close(about)
        return forked

    def import_module(self, module: str) -> None:
        """Import a module for the processes that are forked from now on."""
        with self._changed:
            self._send({"op": "import", "module": module}, [])

    def _send(self, request: dict[str, object], descriptors: Sequence[int]) -> None:
        with contextlib.suppress(ConnectionError):  # it has died, which `read_until` will notice
            unix_socket.send(self._control, pickle.dumps(request), descriptors)

    def read_until(self, holds: Callable[[], bool], deadline: float | None = None) -> bool:
        """Read reports until a condition holds; return whether it does.

        It does not when the deadline passes first, or when the forkserver has ended.
        """
        with self._changed:
            while not holds() and not self._has_ended:
                if not self._has_reader:
                    comes = self._wait_and_read(deadline)
                elif deadline is None:
                    comes = self._changed.wait()
                else:
                    comes = self._changed.wait(deadline - time.monotonic())
                if not comes:
                    break
            return holds()

    def _wait_and_read(self, deadline: float | None) -> bool:
        """Handle the next report, and let other threads use this object until it comes; return whether
        it comes by the deadline.
        """
        self._has_reader = True
        self._changed.release()
        try:
            left_s = None if deadline is None else deadline - time.monotonic()
            comes = is_readable(self._control.fileno(), left_s)
        finally:
            self._changed.acquire()
            self._has_reader = False
            self._changed.notify_all()
        if comes:
            with interrupts.deferred():
                self._read()
        return comes

    def _read(self) -> None:
        try:
            packet, handles = unix_socket.receive(self._control, MAX_PACKET_BYTES, 1)
        except ConnectionResetError:  # it has died with unread requests: its last reports follow
            return
        if not packet:
            self._has_ended = True
            for forked in self._requested.values():
                forked.on_failed(f"its forkserver has ended with exit code {self._server.wait()}")
            return
        kind, which, *rest = pickle.loads(packet)
        if kind == "forked":
            forked = self._running[rest[0]] = self._requested.pop(which)
            if handles:
                forked.on_forked(rest[0], handles[0])
            else:  # it ends when its input is closed
                forked.on_failed("this process cannot open more files")
        elif kind == "failed":
            self._requested.pop(which).on_failed(rest[0])
        else:
            self._running.pop(which).on_exited(rest[0])

    def end(self) -> None:
        """Kill it, which does not end its children."""
        self.forget()
        self._server.kill()
        self._server.wait()

    def forget(self) -> None:
        """Close this end of its socket: the forkserver ends unless another process has it open."""
        self._has_ended = True
        self._control.close()
        self._printed.close()
        self._changed = threading.Condition()  # in a forked child, another thread may hold it


#: The forkservers of this process; more than one only if what they inherit has changed.
_servers: list[ForkserverClient] = []
_lock = threading.Lock()


def fork(
    module: str, options: str, variables: Mapping[str, str], descriptors: Sequence[int]
) -> Forked:
    """Request a process that runs the function `main` of a module, without waiting for it.

    `options` is its command line, `variables` are its environment variables, and `descriptors` are its
    input, its log, and its report (`_host.lifeline`).
    """
    server = acquire(variables)
    try:
        return server.fork(module, options, variables, descriptors)
    except BaseException:
        release(server)
        raise


def acquire(variables: Mapping[str, str]) -> ForkserverClient:
    """Return a forkserver for processes with these variables, which is started if there is none.

    It runs until its last user calls `release`.
    """
    basis = inherited(variables)
    with interrupts.deferred(), _lock:
        for server in _servers:
            if server.basis == basis and server.is_running:
                break
        else:
            server = ForkserverClient(basis)
            _servers.append(server)
        server.num_users += 1
    return server


def release(server: ForkserverClient) -> None:
    """End a forkserver that has no other user."""
    with interrupts.deferred(), _lock:
        server.num_users -= 1
        if not server.num_users:
            _servers.remove(server)
            server.end()


def _forget_in_fork() -> None:
    """Close the sockets in a forked child too: its copies must not keep the forkservers alive."""
    global _lock
    _lock = threading.Lock()
    for server in _servers:
        server.forget()
    _servers.clear()


os.register_at_fork(after_in_child=_forget_in_fork)
