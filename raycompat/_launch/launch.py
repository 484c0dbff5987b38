"""A scheduler and nodes on this machine: child processes of this one, with their folder."""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from raycompat._host import segment
from raycompat._launch.node_options import NodeOptions
from raycompat._launch.process import Process
from raycompat._protocol.shared_secret import Authority, Credentials, Token


@dataclass(frozen=True)
class Place:
    """The address where a process listens; port 0 means any free port."""

    host: str = "127.0.0.1"
    port: int = 0
    #: The scheme of its address; None is Dask's default, TCP or TLS.
    scheme: str | None = None


_LOOPBACK = Place()


class LocalNode:
    """The process of a node on this machine."""

    def __init__(
        self, process: Process, directory: Path, credentials: Token | Credentials | None = None
    ) -> None:
        self.process = process
        self.directory = directory
        self._credentials = credentials

    def join(self, scheduler: str) -> None:
        """Tell the node to join the cluster, without waiting."""
        self.process.tell({"scheduler": scheduler, "credentials": self._credentials})

    @property
    def address(self) -> str | None:
        """The address of its Dask worker; None if it has not joined yet."""
        report = self.process.report_within(0)
        return str(report["address"]) if report is not None else None

    def wait_until_up(self) -> str:
        """Wait until the node has joined, and return the address of its Dask worker."""
        return str(self.process.ready_report()["address"])

    def end(self) -> None:
        """Tell the node to end, with its executors, and wait until it has ended."""
        self.process.end()
        self._clean_up()

    def kill(self) -> None:
        """Kill the node and its executors, and remove their files."""
        self.process.kill()
        self._clean_up()

    def _clean_up(self) -> None:
        segment.sweep_shared_memory()
        shutil.rmtree(self.directory, ignore_errors=True)


class Launch:
    """The processes that were started: perhaps a scheduler, and nodes. The caller ends them.

    `secret` is shared by its processes and clients: a password's authority, which signs a certificate
    for each process, a token, or None.
    """

    def __init__(self, directory: Path, secret: Authority | Token | None) -> None:
        _check_name(directory)
        self.directory = directory
        self.logs = directory / "logs"
        self.logs.mkdir()
        self._scheduler: Process | None = None
        self.nodes: list[LocalNode] = []
        self._secret = secret

    @property
    def scheduler(self) -> Process:
        """The process of the scheduler, which must have been started."""
        assert self._scheduler is not None
        return self._scheduler

    @property
    def address(self) -> str:
        """The address of the scheduler; waits until it is up."""
        return str(self.scheduler.ready_report()["address"])

    @property
    def dashboard_url(self) -> str | None:
        """The dashboard's host and port, or its URL; None without a dashboard."""
        url: str | None = self.scheduler.ready_report()["dashboard"]
        return url

    def _credentials(self) -> Token | Credentials | None:
        secret = self._secret
        return secret.credentials() if isinstance(secret, Authority) else secret

    def start_scheduler(
        self, place: Place, dashboard_address: str | None, folder: Path | None = None
    ) -> None:
        """Start the scheduler, without waiting; it removes its own `folder` when it ends."""
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
        """Start a node, which joins the cluster at `LocalNode.join`.

        Its imports take the longest time, so the scheduler can start at the same time.
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
        """Make a folder for one process, which removes it at its end; its log stays."""
        folder, number = self.directory / role, 1
        while True:
            if not (self.logs / f"{folder.name}.log").exists():
                with contextlib.suppress(FileExistsError):  # another thread starts a process too
                    folder.mkdir()
                    return folder
            number += 1
            folder = self.directory / f"{role}-{number}"


def _check_name(directory: Path) -> None:
    """Raise `ValueError` for a folder whose name Dask could not send."""
    try:
        str(directory).encode()
    except UnicodeEncodeError:
        raise ValueError(
            f"The folder for temporary files is {os.fsencode(directory)!r}, whose name is not UTF-8 in "
            f"this process (its file names are {sys.getfilesystemencoding()!r}). Set TMPDIR to another "
            "folder, or PYTHONUTF8=1 if the name is UTF-8."
        ) from None
