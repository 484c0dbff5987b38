"""A cluster on this machine that this process has started: a scheduler process and node processes.

All are told to end through their standard input, which closes when this process ends, however it
ends. `init` starts one with one node; `raycompat.cluster_utils` adds and removes nodes.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import shutil
import subprocess
import sys
import tempfile
import weakref
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import psutil

from raycompat import exceptions
from raycompat._caller import interrupts
from raycompat._caller.node_options import NodeOptions
from raycompat._protocol import local_address, segment, shared_secret
from raycompat._protocol.shared_secret import Authority, Credentials, Token

#: Seconds that a process of the cluster has to start, on a machine that is busy.
_START_S = 120.0

#: Seconds that a process of the cluster has to end before it is killed.
_END_S = 10.0

#: Seconds that the kernel has to end the processes of a node that was killed.
_REAP_S = 10.0


class Process:
    """One process of the cluster. It says one line of JSON when it is up."""

    def __init__(
        self, module: str, options: dict[str, Any], log: Path, environment: dict[str, str]
    ) -> None:
        self.log = log
        self._words: dict[str, Any] | None = None
        with log.open("wb") as output:
            self._popen = subprocess.Popen(
                [sys.executable, "-m", module, json.dumps(options)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=output,
                # One thread: executors are forked from a process that has imported numpy. And a node
                # may install packages: it is the user's own.
                env={
                    "OMP_NUM_THREADS": "1",
                    "RAYCOMPAT_ALLOW_PIP": "1",
                    **shared_secret.environment_without(),
                    **environment,
                },
                start_new_session=True,
            )
        _processes.add(self)

    @property
    def pid(self) -> int:
        """The process's id."""
        return self._popen.pid

    @property
    def is_running(self) -> bool:
        """Whether it has not ended."""
        return self._popen.poll() is None

    def first_words(self) -> dict[str, Any]:
        """Wait until the process is up and return what it says of itself.

        Raises
        ------
        RaySystemError
            When it ends first, or takes too long.
        """
        words = self.words_within(_START_S)
        if words is None:
            raise exceptions.RaySystemError(self._why_not())
        return words

    def words_within(self, timeout_s: float) -> dict[str, Any] | None:
        """Return what the process says of itself; None if it has not in time, or has ended."""
        output = self._popen.stdout
        assert output is not None
        if self._words is None and not output.closed:
            waiting = select.poll()
            waiting.register(output, select.POLLIN)
            line = output.readline() if waiting.poll(timeout_s * 1000) else b""
            self._words = json.loads(line) if line else None
        return self._words

    def _why_not(self) -> str:
        """Say why the process is not up: it has closed its output, or has had its time."""
        try:
            how = f"ended with exit code {self._popen.wait(_END_S)} while starting"
        except subprocess.TimeoutExpired:
            how = f"has not started within {_START_S:.0f} s"
        log = self.log.read_text(errors="replace")[-4000:]
        return f"A process of the local cluster {how}. Its log said:\n{log}"

    def let_go(self) -> None:
        """Let the process continue when this one ends (see `lifeline.told_to_end`)."""
        self.tell({})
        self.close_input()
        self._close_output()
        self._popen.returncode = 0  # or else Python would complain that it still runs

    def tell(self, words: Mapping[str, Any]) -> None:
        """Tell the process something that it waits for.

        Raises
        ------
        RaySystemError
            When it has ended.
        """
        assert self._popen.stdin is not None
        try:
            self._popen.stdin.write(json.dumps(words).encode() + b"\n")
            self._popen.stdin.flush()
        except BrokenPipeError:
            raise exceptions.RaySystemError(self._why_not()) from None

    def end(self) -> None:
        """End the process, and wait until it has ended."""
        self.close_input()
        try:
            self._popen.wait(_END_S)
        except subprocess.TimeoutExpired:
            self.kill()
        self._close_output()

    def kill(self) -> None:
        """Kill the process; wait until it, and what it has started, are gone."""
        if not self.is_running:
            self.close_input()
            self._close_output()
            return
        offspring = []
        with contextlib.suppress(psutil.NoSuchProcess):
            offspring = psutil.Process(self.pid).children(recursive=True)
        self._popen.kill()
        self._popen.wait()
        psutil.wait_procs(offspring, _REAP_S)  # the kernel kills them with it
        self.close_input()
        self._close_output()

    def close_input(self) -> None:
        """Close the process's standard input: what has it end, unless somebody else has it open."""
        assert self._popen.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # it has ended, with words unread
            self._popen.stdin.close()

    def _close_output(self) -> None:
        assert self._popen.stdout is not None
        self._popen.stdout.close()


#: All that there are.
_processes: weakref.WeakSet[Process] = weakref.WeakSet()


def _close_inputs_in_fork() -> None:
    """Leave the processes to the parent: a forked child that lives on must not keep them alive."""
    for process in list(_processes):
        process.close_input()


os.register_at_fork(after_in_child=_close_inputs_in_fork)


def _new_directory(temp_dir: str | None) -> Path:
    """Make a folder for one process, which removes it when it ends, if nobody else does."""
    return Path(tempfile.mkdtemp(prefix="raycompat-", dir=temp_dir))


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


class LocalCluster:
    """A scheduler and nodes on this machine, which end with this process.

    Those connect to it that know its password; without one this user alone, or every user of this host
    where the environment says so (`local_address`).
    """

    def __init__(
        self,
        *,
        dashboard_address: str | None,
        temp_dir: str | None,
        authority: Authority | None = None,
    ) -> None:
        is_own = authority is None and local_address.is_wanted()
        self._authority = authority
        self._token = shared_secret.random_token() if is_own else None
        self.directory = _new_directory(temp_dir)
        self.nodes: list[LocalNode] = []
        try:
            self.scheduler = Process(
                "raycompat._scheduler.main",
                {
                    "directory": str(self.directory),
                    "dashboard_address": dashboard_address,
                    "secured": authority is not None or is_own,
                    "scheme": local_address.SCHEME if is_own else None,
                },
                self.directory / "scheduler.log",
                {},
            )
            if (credentials := self._credentials()) is not None:
                self.scheduler.tell(credentials)
        except BaseException:
            shutil.rmtree(self.directory, ignore_errors=True)
            raise

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
        """Return what one more process is told: its own certificate, if there is a password."""
        return self._authority.credentials() if self._authority is not None else self._token

    def start_node(self, options: NodeOptions) -> LocalNode:
        """Start a node that joins the cluster when it is told to.

        What it imports takes longer than anything else: the scheduler may start meanwhile.
        """
        directory = _new_directory(str(self.directory))
        try:
            process = Process(
                "raycompat._node.main",
                {
                    "directory": str(directory),
                    "resources": options.resources,
                    "memory_bytes": options.memory_bytes,
                },
                directory / "node.log",
                options.environment,
            )
        except BaseException:
            shutil.rmtree(directory, ignore_errors=True)
            raise
        node = LocalNode(process, directory, self._credentials())
        self.nodes.append(node)
        return node

    def remove_node(self, node: LocalNode, *, gracefully: bool) -> None:
        """End a node, or kill it, and wait until its processes are gone."""
        node.end() if gracefully else node.kill()
        self.nodes.remove(node)

    def close(self) -> None:
        """End all processes, the nodes first, and remove what they left.

        Whoever interrupts that, where interrupts are deferred, does not want to wait: then they are
        killed.
        """
        try:
            with interrupts.allowed():
                for node in self.nodes:
                    node.process.close_input()  # so that they end at the same time
                for node in list(self.nodes):
                    self.remove_node(node, gracefully=True)
                self.scheduler.end()
        finally:
            with interrupts.deferred():
                self._kill_what_is_left()

    def _kill_what_is_left(self) -> None:
        for node in self.nodes:
            node.kill()
        self.scheduler.kill()
        segment.sweep(segment.own_folders(), and_mine=True)
        shutil.rmtree(self.directory, ignore_errors=True)
