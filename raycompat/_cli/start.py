"""Starting a cluster, or a node, whose processes outlive the command."""

from __future__ import annotations

import importlib
import select
import shutil
import signal
import socket
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from raycompat._cli import state_files
from raycompat._connect import addresses
from raycompat._connect.addresses import Destination
from raycompat._launch.launch import Launch, Place
from raycompat._launch.node_options import NodeOptions
from raycompat._launch.process import Process
from raycompat._protocol import current_cluster
from raycompat._protocol.shared_secret import Authority


class StayingLaunch(Launch):
    """A scheduler and a node, or only a node, that continue when the command has ended.

    They are recorded in `state_files`, for ``raycompat stop``.
    """

    def __init__(self, temp_dir: str | None, authority: Authority | None) -> None:
        parent = temp_dir or current_cluster.folder()
        super().__init__(Path(tempfile.mkdtemp(prefix="session-", dir=parent)), authority)
        self._processes: dict[str, Process] = {}

    def _start(
        self, role: str, options: dict[str, Any], environment: dict[str, str], folder: Path
    ) -> Process:
        self._processes[role] = super()._start(role, options, environment, folder)
        return self._processes[role]

    def record(self) -> None:
        """Record the processes. Until then, they end with this one, also when it is killed."""
        for role, process in self._processes.items():
            state_files.record(process.pid, role, self.directory / role)

    def be_found(self) -> None:
        """Record the cluster as the one to which ``init("auto")`` connects."""
        current_cluster.record(self.address, self._processes["scheduler"].pid)

    def let_go(self) -> None:
        """Let the processes continue when this one ends; the node first, as it needs the scheduler.

        Raises
        ------
        RaySystemError
            When one of them has ended already.
        """
        for role in ("node", "scheduler"):
            if role in self._processes:
                self._processes[role].let_go()

    def wait(self) -> tuple[str, bool]:
        """Wait until one of the processes has ended; return its role, and whether it was stopped.

        Raises
        ------
        KeyboardInterrupt
            When this process gets SIGINT or SIGTERM.
        """
        signal.signal(signal.SIGTERM, signal.default_int_handler)
        waiting = select.poll()
        roles = {each.fileno(): role for role, each in self._processes.items()}
        for descriptor in roles:
            waiting.register(descriptor, select.POLLIN)
        role = roles[waiting.poll()[0][0]]
        return role, self._processes[role].exit_code == 0

    def end(self) -> None:
        """End the processes, the node first, and remove their records. Their logs stay."""
        for role in ("node", "scheduler"):
            if role in self._processes:
                process = self._processes[role]
                process.end()
                shutil.rmtree(self.directory / role, ignore_errors=True)
                if (pid := process.pid_if_forked) is not None:
                    state_files.forget(pid)
                    current_cluster.forget(pid)


@contextmanager
def _ended_on_error(started: StayingLaunch) -> Iterator[None]:
    try:
        yield
    except BaseException:
        started.end()
        raise


def start_head(
    place: Place,
    dashboard: str | None,
    node_place: Place,
    node: NodeOptions,
    authority: Authority | None,
    temp_dir: str | None,
) -> StayingLaunch:
    """Start a scheduler and a node on this machine; return when both are ready for drivers.

    Raises
    ------
    RaySystemError
        When one of them does not start; then neither runs.
    """
    started = StayingLaunch(temp_dir, authority)
    with _ended_on_error(started):
        started.start_scheduler(place, dashboard)
        local = started.start_node(node, node_place)
        importlib.import_module("raycompat._launch.prepare")  # Dask, while the processes start
        local.join(started.address)
        local.wait_until_up()
        started.record()
        _prepare(addresses.require(started.address, authority))
        started.be_found()
    return started


def start_node(
    to: Destination,
    place: Place,
    node: NodeOptions,
    authority: Authority | None,
    temp_dir: str | None,
) -> StayingLaunch:
    """Start a node on this machine that joins a cluster; return when it is ready for calls.

    Raises
    ------
    ConnectionError
        When the cluster cannot be reached, or refuses the connection; then nothing is started.
    RaySystemError
        When the node does not start; then it does not run.
    """
    from raycompat._connect import connect

    connect.connect(to).close()
    started = StayingLaunch(temp_dir, authority)
    with _ended_on_error(started):
        local = started.start_node(node, place)
        local.join(to.address)
        local.wait_until_up()
        started.record()
        _prepare(to)
    return started


def _prepare(to: Destination) -> None:
    """Check that every worker of a Dask cluster is a raycompat node."""
    from raycompat._connect import connect
    from raycompat._launch import prepare

    with connect.connect(to) as client:
        prepare.prepare(client)


def address_towards(host: str) -> str:
    """Return the address of this machine with which it connects to `host`.

    Raises
    ------
    ConnectionError
        When the host name is unknown, or the host cannot be reached.
    """
    try:
        family, kind, _, _, place = socket.getaddrinfo(host, 9, type=socket.SOCK_DGRAM)[0]
    except OSError as error:
        raise ConnectionError(f"The host name {host!r} cannot be resolved: {error}.") from error
    with socket.socket(family, kind) as stream:  # nothing is sent
        stream.connect(place)
        found: str = stream.getsockname()[0]
    return found


def why_not(place: Place) -> OSError | None:
    """Return the error when a process cannot listen there; None if it can."""
    family = socket.AF_INET6 if ":" in place.host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as stream:
        stream.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            stream.bind((place.host, place.port))
        except OSError as error:
            return error
    return None
