"""Starting a cluster, or a node of one, whose processes outlive the command."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from raycompat._caller import connect
from raycompat._caller.addresses import Destination
from raycompat._caller.local_cluster import LocalNode, Process
from raycompat._caller.node_options import NodeOptions
from raycompat._cli import state_files
from raycompat._protocol import current_cluster
from raycompat._protocol.shared_secret import Authority


@dataclass(frozen=True)
class Place:
    """Where a process listens; port 0 is any."""

    host: str
    port: int = 0


class Launch:
    """The processes that one command has started, and where they are."""

    def __init__(self, temp_dir: str | None, authority: Authority | None) -> None:
        parent = temp_dir or current_cluster.folder()
        self.directory = Path(tempfile.mkdtemp(prefix="session-", dir=parent))
        self.logs = self.directory / "logs"
        self.logs.mkdir()
        self.address = ""
        #: What opens the dashboard, if there is one: host and port, or an address with a token.
        self.dashboard: str | None = None
        self._authority = authority
        self._processes: dict[str, Process] = {}

    def _start(
        self, role: str, options: dict[str, Any], environment: dict[str, str]
    ) -> tuple[Process, Path]:
        own = self.directory / role
        own.mkdir()
        options = {**options, "directory": str(own)}
        module, log = f"raycompat._{role}.main", self.logs / f"{role}.log"
        process = self._processes[role] = Process(module, options, log, environment)
        state_files.record(process.pid, role, own)
        return process, own

    def start_scheduler(self, place: Place, dashboard: str | None) -> None:
        """Start the scheduler; `dashboard` is where its dashboard is to listen, None for none."""
        secured = self._authority is not None
        options = {"host": place.host, "port": place.port, "dashboard_address": dashboard}
        scheduler, _ = self._start("scheduler", {**options, "secured": secured}, {})
        if self._authority is not None:
            scheduler.tell(self._authority.credentials())

    def wait_for_scheduler(self) -> None:
        """Wait until the scheduler is up, and learn where it is."""
        words = self._processes["scheduler"].first_words()
        self.address, self.dashboard = words["address"], words["dashboard"]

    def start_node(self, place: Place, node: NodeOptions) -> LocalNode:
        """Start a node, which waits until it is told what to join."""
        options = {"resources": node.resources, "memory_bytes": node.memory_bytes}
        where = {"host": place.host, "port": place.port}
        process, own = self._start("node", {**options, **where}, node.environment)
        authority = self._authority
        return LocalNode(process, own, authority.credentials() if authority is not None else None)

    def be_found(self) -> None:
        """Make the cluster the one that ``init("auto")`` connects to."""
        current_cluster.record(self.address, self._processes["scheduler"].pid)

    def let_go(self) -> None:
        """Let the processes continue when this one ends; the node first, which needs the scheduler.

        Raises
        ------
        RaySystemError
            When one of them has ended meanwhile.
        """
        for role in ("node", "scheduler"):
            if role in self._processes:
                self._processes[role].let_go()

    def wait(self) -> tuple[str, bool]:
        """Wait until one of the processes has ended; return what it was, and whether it was told to.

        Raises
        ------
        KeyboardInterrupt
            When this process is told to end, by SIGINT or SIGTERM.
        """
        signal.signal(signal.SIGTERM, signal.default_int_handler)
        ended = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOWAIT)
        assert ended is not None
        role = next(role for role, each in self._processes.items() if each.pid == ended.si_pid)
        return role, (ended.si_code, ended.si_status) == (os.CLD_EXITED, 0)

    def end(self) -> None:
        """End the processes, the node first, and forget them. Their logs stay."""
        for role in ("node", "scheduler"):
            if role in self._processes:
                process = self._processes[role]
                process.end()
                shutil.rmtree(self.directory / role, ignore_errors=True)
                state_files.forget(process.pid)
                current_cluster.forget(process.pid)


@contextmanager
def _ended_on_error(started: Launch) -> Iterator[None]:
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
) -> Launch:
    """Start a scheduler and a node on this machine; return when both are ready for drivers.

    Raises
    ------
    RaySystemError
        When one of them does not come up; then neither runs.
    """
    started = Launch(temp_dir, authority)
    with _ended_on_error(started):
        started.start_scheduler(place, dashboard)
        local = started.start_node(node_place, node)  # it imports while the scheduler starts
        started.wait_for_scheduler()
        local.join(started.address)
        local.wait_until_up()
        prepare(destination(started.address, authority))
        started.be_found()
    return started


def start_node(
    to: Destination,
    place: Place,
    node: NodeOptions,
    authority: Authority | None,
    temp_dir: str | None,
) -> Launch:
    """Start a node on this machine that joins a cluster; return when it is ready for calls.

    Raises
    ------
    ConnectionError
        When the cluster cannot be reached, or does not let us in; then nothing is started.
    RaySystemError
        When the node does not come up; then it does not run.
    """
    connect.connect(to).close()
    started = Launch(temp_dir, authority)
    with _ended_on_error(started):
        started.address = to.address
        local = started.start_node(place, node)
        local.join(to.address)
        local.wait_until_up()
        prepare(to)
    return started


def destination(address: str, authority: Authority | None) -> Destination:
    """Return how to connect to `address`: what ``init(address=...)`` takes, as text.

    Raises
    ------
    ConnectionError, ValueError
        When there is nothing, or it is malformed.
    """
    from raycompat._caller import addresses

    found = addresses.find(address, authority)
    assert found is not None
    return found


def prepare(to: Destination) -> None:
    """See that every worker of a Dask cluster is a raycompat node."""
    with connect.connect(to) as client:
        connect.prepare(client)


def address_towards(host: str) -> str:
    """Return the address of this machine by which it reaches `host`, and is reached from there.

    Raises
    ------
    ConnectionError
        When no machine has that name, or none can be reached there.
    """
    try:
        family, kind, _, _, place = socket.getaddrinfo(host, 9, type=socket.SOCK_DGRAM)[0]
    except OSError as error:
        raise ConnectionError(
            f"There is no machine {host!r} that is known here: {error}."
        ) from error
    with socket.socket(family, kind) as stream:  # nothing is sent
        stream.connect(place)
        found: str = stream.getsockname()[0]
    return found


def why_not(place: Place) -> OSError | None:
    """Return why nothing could listen there; None if something can."""
    family = socket.AF_INET6 if ":" in place.host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as stream:
        stream.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            stream.bind((place.host, place.port))
        except OSError as error:
            return error
    return None
