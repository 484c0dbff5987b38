"""A node's end of a forkserver: it requests processes, and gets reports of their ends."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import pickle
import signal
import socket
import subprocess
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn

from raycompat._host import lifeline, memory_file, processes, unix_socket
from raycompat._host.forkserver import MAX_PACKET_BYTES
from raycompat._host.processes import Child
from raycompat._node import forkserver
from raycompat._protocol import run_module, threads

#: Simultaneous fork requests to one forkserver: each has seven open descriptors here.
_MANY_FORKS = 16


#: A forkserver that was started before the pool that will use it.
_early: list[tuple[socket.socket, Child]] = []


def fork_early() -> None:
    """Fork the forkserver for the pool that this process will have, so that it need not import again.

    Call this in the main thread of a process without other threads and open files.
    """
    ours, theirs = unix_socket.packets()
    node = os.getpid()

    def program() -> NoReturn:
        ours.close()
        lifeline.say_nothing()
        forkserver.run(theirs, node)

    child = processes.fork(program)
    theirs.close()
    _early.append((ours, child))


def _start_forkserver(
    preload: Sequence[str], variables: Mapping[str, str]
) -> tuple[socket.socket, subprocess.Popen[bytes]]:
    ours, theirs = unix_socket.packets()
    environment = threads.with_one({**os.environ, **variables})
    about = (str(theirs.fileno()), str(os.getpid()), *preload)
    server = subprocess.Popen(
        run_module.command("raycompat._node.forkserver", *about),
        pass_fds=[theirs.fileno()],
        env=environment,
        stdin=subprocess.DEVNULL,
    )
    theirs.close()
    return ours, server


class ForkserverDied(RuntimeError):
    """A forkserver has died; a pool starts another one, if this one has worked."""


class ForkserverClient:
    """One forkserver. `on_exit` is called with the pid and exit code of each process that ends."""

    def __init__(
        self,
        on_exit: Callable[[int, int], None],
        on_death: Callable[[ForkserverClient], None],
        preload: Sequence[str] = (),
        variables: Mapping[str, str] | None = None,
    ) -> None:
        self._on_exit = on_exit
        self._on_death = on_death
        #: Modules that it imports for its children.
        self._preload = preload
        #: Variables that are added to its environment before it imports them.
        self._variables = variables or {}
        self._numbers = itertools.count()
        self._forks: dict[int, asyncio.Future[int]] = {}
        #: Requests for which its socket has no room yet: the packet, its descriptors, and the future
        #: that gets the error if it cannot be sent.
        self._unsent: deque[tuple[bytes, list[int], asyncio.Future[int] | None]] = deque()
        #: Held by a caller of `fork` while the descriptors for it are open.
        self.fork_limit = asyncio.Semaphore(_MANY_FORKS)
        self._death: ForkserverDied | None = None
        #: The traceback, if it could not start.
        self._why_dead = ""
        self._ready: asyncio.Future[int]
        self._control: socket.socket
        self._server: subprocess.Popen[bytes] | Child

    def start(self) -> None:
        """Start the process, if it does not run yet. Call this in the node's main thread.

        Children die with the thread that starts them.
        """
        is_early = bool(_early) and not self._preload
        self._control, self._server = (
            _early.pop() if is_early else _start_forkserver(self._preload, self._variables)
        )
        self._control.setblocking(False)
        loop = asyncio.get_running_loop()
        self._ready = loop.create_future()
        loop.add_reader(self._control.fileno(), self._on_control)

    async def wait_until_ready(self) -> None:
        """Wait until it can fork.

        Raises
        ------
        ForkserverDied
            When it has died.
        """
        await asyncio.shield(self._ready)
        if self._death is not None:
            raise self._death

    @property
    def was_ready(self) -> bool:
        """Whether it could fork before it died."""
        return self._ready.done() and self._ready.exception() is None

    def _on_control(self) -> None:
        while True:
            try:
                packet = self._control.recv(MAX_PACKET_BYTES)
            except BlockingIOError:
                return
            except (
                ConnectionResetError
            ):  # it has died with unread requests: its last reports follow
                continue
            if not packet:
                self._stop_listening()
                self._control.close()
                self._die()
                return
            self._on_packet(packet)

    def _on_packet(self, packet: bytes) -> None:
        operation, *rest = pickle.loads(packet)
        if operation == "ready":
            self._ready.set_result(rest[0])
        elif operation == "unable":
            self._why_dead = rest[0]
        elif operation == "forked":
            number, pid = rest
            forked = self._waiting(number)
            if forked is not None:
                forked.set_result(pid)
            else:
                self.kill(pid)
        elif operation == "failed":
            number, why = rest
            forked = self._waiting(number)
            if forked is not None:
                forked.set_exception(OSError(f"The node could not start a process: {why}"))
        else:
            self._on_exit(*rest)

    def _waiting(self, number: int) -> asyncio.Future[int] | None:
        """Return the future of a fork, unless no caller waits for it any more."""
        forked = self._forks.get(number)
        return None if forked is None or forked.done() else forked

    def _stop_listening(self) -> None:
        loop, descriptor = asyncio.get_running_loop(), self._control.fileno()
        loop.remove_reader(descriptor)
        loop.remove_writer(descriptor)
        self._unsent.clear()

    def _die(self) -> None:
        self._death = error = ForkserverDied(
            f"The process that raycompat forks executors from could not start:\n{self._why_dead}"
            if self._why_dead
            else "The process that raycompat forks executors from has died. Restart the node (the "
            "Dask worker); its log says why it died."
        )
        for fork in [self._ready, *self._forks.values()]:
            if not fork.done():
                fork.set_exception(error)
        self._forks.clear()
        self._on_death(self)

    async def fork(self, request: dict[str, Any], descriptors: Sequence[int]) -> int:
        """Request a fork, when it is ready and within `fork_limit`; return the pid.

        `request` has the settings of the process, of any size. `descriptors` are those of the new
        process: its end of the socket, its output, its errors.

        Raises
        ------
        OSError
            When the machine cannot start another process.
        ForkserverDied
            When it has died.
        """
        if self._death is not None:
            raise self._death
        about = memory_file.put("raycompat-executor", request)
        try:
            return await self._fork([*descriptors, about])
        finally:
            os.close(about)

    async def _fork(self, descriptors: list[int]) -> int:
        number = next(self._numbers)
        forked: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._forks[number] = forked
        try:
            self._send(pickle.dumps({"op": "fork", "number": number}), descriptors, forked)
            return await forked
        finally:
            self._forks.pop(number, None)

    def import_module(self, module: str) -> None:
        """Import one of raycompat's libraries for the processes that are forked from now on."""
        if self._death is None:
            self._send(pickle.dumps({"op": "import", "module": module}))

    def kill(self, pid: int) -> None:
        """Kill a forked process; the forkserver checks whether it still runs."""
        if self._death is None:
            self._send(pickle.dumps({"op": "kill", "pid": pid}))

    def _send(
        self,
        packet: bytes,
        descriptors: list[int] | None = None,
        forked: asyncio.Future[int] | None = None,
    ) -> None:
        self._unsent.append((packet, descriptors or [], forked))
        self._write()

    def _write(self) -> None:
        """Send the waiting requests, as far as the socket has room.

        This never waits for room: the forkserver may be waiting for this process to read.
        """
        loop = asyncio.get_running_loop()
        while self._unsent:
            packet, descriptors, forked = self._unsent[0]
            try:
                if forked is None or not forked.done():  # otherwise its descriptors are closed
                    unix_socket.send(self._control, packet, descriptors)
            except BlockingIOError:
                loop.add_writer(self._control.fileno(), self._write)
                return
            except ConnectionError:  # it has died, and `_on_control` will notice
                return
            except OSError as error:  # too many descriptors are in transit
                if forked is not None:
                    forked.set_exception(error)
            self._unsent.popleft()
        loop.remove_writer(self._control.fileno())

    def close(self, within_s: float = 0.0) -> None:
        """End it, and wait until its children have ended; after `within_s` seconds it kills them.

        This blocks the event loop on purpose: the loop may be ending, and would cancel every coroutine
        that awaits.
        """
        if self._death is None:
            self._stop_listening()
            if not self._ready.done() and self._server.poll() is None:
                os.kill(self._server.pid, signal.SIGKILL)  # it is importing, and reads no requests
            self._control.setblocking(True)
            with contextlib.suppress(OSError):  # it has died
                self._control.send(pickle.dumps({"op": "end", "within_s": within_s}))
                while packet := self._control.recv(MAX_PACKET_BYTES):
                    self._on_packet(packet)
            self._control.close()
            self._die()
        self._server.wait()
