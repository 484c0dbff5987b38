"""A scheduler and nodes on this machine, as processes of this one, in a folder of theirs."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from raycompat._launch.node_options import NodeOptions
from raycompat._launch.process import Process
from raycompat._protocol import segment
from raycompat._protocol.shared_secret import Authority, Credentials, Token


@dataclass(frozen=True)
class Place:
    """Where a process listens; port 0 is any."""

    host: str = "127.0.0.1"
    port: int = 0
    #: How it is reached; None is Dask's default, TCP or TLS.
    scheme: str | None = None


_LOOPBACK = Place()


class LocalNode:
    """A node of a cluster on this machine: its process."""

    def __init__(
        self, process: Process, directory: Path, credentials: Token | Credentials | None = None
    ) -> None:
        self.process = process
        self.directory = directory
        self._credentials = credentials

    def join(self, scheduler: str) -> None:
        """Tell the node to join the cluster, without waiting for it."""
        self.process.tell({"scheduler": scheduler, "credentials": self._credentials})

    @property
    def address(self) -> str | None:
        """The address of the Dask worker that it is; None if it has not joined yet."""
        words = self.process.words_within(0)
        return str(words["address"]) if words is not None else None

    def wait_until_up(self) -> str:
        """Wait until the node has joined, and return the address of the Dask worker that it is."""
        return str(self.process.first_words()["address"])

    def end(self) -> None:
        """Tell the node to leave, with its executors, and wait until it has left."""
        self.process.end()
        self._clean_up()

    def kill(self) -> None:
        """Kill the node and its executors, and remove what they left."""
        self.process.kill()
        self._clean_up()

    def _clean_up(self) -> None:
        segment.sweep(segment.own_folders())
        shutil.rmtree(self.directory, ignore_errors=True)


class Launch:
    """What was started: a scheduler perhaps, and nodes. Those who start it decide when it ends.

    `secret` is what its processes and clients know: a password's authority, which signs a certificate
    for each process, a token, or nothing.
    """

    def __init__(self, directory: Path, secret: Authority | Token | None) -> None:
        self.directory = directory
        self.logs = directory / "logs"
        self.logs.mkdir()
        self._scheduler: Process | None = None
        self.nodes: list[LocalNode] = []
        self._secret = secret

    @property
    def scheduler(self) -> Process:
        """The scheduler, which was started."""
        assert self._scheduler is not None
        return self._scheduler

    @property
    def address(self) -> str:
        """The address of the scheduler, once it is up."""
        return str(self.scheduler.first_words()["address"])

    @property
    def dashboard_url(self) -> str | None:
        """Where the dashboard is, if there is one: host and port, or what opens it in a browser."""
        url: str | None = self.scheduler.first_words()["dashboard"]
        return url

    def _credentials(self) -> Token | Credentials | None:
        secret = self._secret
        return secret.credentials() if isinstance(secret, Authority) else secret

    def start_scheduler(
        self, place: Place, dashboard_address: str | None, folder: Path | None = None
    ) -> None:
        """Start the scheduler, without waiting for it; it removes `folder`, its own, when it ends."""
        credentials = self._credentials()
        options = {
            "host": place.host,
            "port": place.port,
            "scheme": place.scheme,
            "dashboard_address": dashboard_address,
            "secured": credentials is not None,
        }
        self._scheduler = process = self._start(
            "scheduler", options, {}, folder or self._new_folder("scheduler")
        )
        if credentials is not None:
            process.tell(credentials)

    def start_node(self, options: NodeOptions, place: Place = _LOOPBACK) -> LocalNode:
        """Start a node that joins the cluster when it is told to.

        What it imports takes longer than anything else: the scheduler may start meanwhile.
        """
        folder = self._new_folder("node")
        given = {
            "resources": options.resources,
            "memory_bytes": options.memory_bytes,
            "host": place.host,
            "port": place.port,
        }
        node = LocalNode(
            self._start("node", given, options.environment, folder), folder, self._credentials()
        )
        self.nodes.append(node)
        return node

    def _start(
        self, role: str, options: dict[str, Any], environment: dict[str, str], folder: Path
    ) -> Process:
        try:
            return Process(
                f"raycompat._{role}.main",
                {**options, "directory": str(folder)},
                self.logs / f"{folder.name}.log",
                environment,
            )
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise

    def _new_folder(self, role: str) -> Path:
        """Make a folder for one process, which removes it when it ends, if nobody else does."""
        folder, number = self.directory / role, 1
        while (self.logs / f"{folder.name}.log").exists():
            number += 1
            folder = self.directory / f"{role}-{number}"
        folder.mkdir()
        return folder
