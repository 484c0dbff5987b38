"""A child process: it reports when it is ready, and ends when its standard input is closed."""

from __future__ import annotations

import contextlib
import json
import os
import select
import subprocess
import time
import weakref
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import psutil

from raycompat import exceptions
from raycompat._protocol import run_module, shared_secret

#: Seconds for a process of the cluster to start on a busy machine.
_START_S = 120.0

#: Seconds for a process of the cluster to end before it is killed.
_END_S = 10.0

#: Seconds for the kernel to end the processes of a killed node.
_REAP_S = 10.0


class Process:
    """One process of the cluster. It writes one line of JSON when it is ready."""

    def __init__(
        self, module: str, options: dict[str, Any], log: Path, environment: dict[str, str]
    ) -> None:
        self.log = log
        self._report: dict[str, Any] | None = None
        # One thread: executors are forked from a process that has imported numpy. The node belongs to
        # the user, so it may install packages.
        defaults = {"OMP_NUM_THREADS": "1", "RAYCOMPAT_ALLOW_PIP": "1"}
        variables = {**defaults, **shared_secret.environment_without(), **environment}
        with log.open("wb") as output:
            self._popen = subprocess.Popen(
                run_module.command(module, json.dumps(options)),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=output,
                env=variables,
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

    def ready_report(self) -> dict[str, Any]:
        """Wait until the process is ready and return its report.

        Raises
        ------
        RaySystemError
            When the process ends first, or is not ready in time.
        """
        report = self.report_within(_START_S)
        if report is None:
            raise exceptions.RaySystemError(self._why_not())
        return report

    def report_within(self, timeout_s: float) -> dict[str, Any] | None:
        """Return the process's report; None if it has ended, or does not report in time."""
        output = self._popen.stdout
        assert output is not None
        if self._report is None and not output.closed:
            waiting = select.poll()
            waiting.register(output, select.POLLIN)
            line = output.readline() if waiting.poll(timeout_s * 1000) else b""
            self._report = json.loads(line) if line else None
        return self._report

    def _why_not(self) -> str:
        """Return why the process is not ready: it has ended, or is too slow."""
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
        self._popen.returncode = 0  # otherwise Python would warn that it still runs

    def tell(self, message: Mapping[str, Any]) -> None:
        """Send the process a message that it waits for.

        Raises
        ------
        RaySystemError
            When the process has ended.
        """
        assert self._popen.stdin is not None
        try:
            self._popen.stdin.write(json.dumps(message).encode() + b"\n")
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
        """Kill the process; wait until it and its descendants have ended."""
        if not self.is_running:
            self.close_input()
            self._close_output()
            return
        offspring = []
        with contextlib.suppress(psutil.NoSuchProcess):
            offspring = psutil.Process(self.pid).children(recursive=True)
        self._popen.kill()
        self._popen.wait()
        those_left(offspring, _REAP_S)  # the kernel kills them too
        self.close_input()
        self._close_output()

    def close_input(self) -> None:
        """Close the process's standard input, which ends it unless another process has it open."""
        assert self._popen.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # it has ended, with unread messages
            self._popen.stdin.close()

    def _close_output(self) -> None:
        assert self._popen.stdout is not None
        self._popen.stdout.close()


def those_left(processes: Collection[psutil.Process], timeout_s: float) -> list[psutil.Process]:
    """Wait until these processes have ended; return those that still run after the timeout.

    A process that has ended may still be in the list of processes until its parent reads its status.
    """
    deadline = time.monotonic() + timeout_s
    left = []
    for process in processes:
        try:
            descriptor = os.pidfd_open(process.pid)
        except ProcessLookupError:
            continue
        try:
            ends = select.poll()
            ends.register(descriptor, select.POLLIN)
            left_ms = max(0.0, deadline - time.monotonic()) * 1000
            if process.is_running() and not ends.poll(left_ms):
                left.append(process)
        finally:
            os.close(descriptor)
    return left


#: All processes that were started.
_processes: weakref.WeakSet[Process] = weakref.WeakSet()


def _close_inputs_in_fork() -> None:
    """Close the inputs in a forked child too: its copies must not keep the processes alive."""
    for process in list(_processes):
        process.close_input()


os.register_at_fork(after_in_child=_close_inputs_in_fork)
