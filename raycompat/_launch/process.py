"""A child process: it reports when it is ready, and ends when its standard input is closed."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import time
import weakref
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import psutil

from raycompat import exceptions
from raycompat._host.poller import is_readable
from raycompat._host.processes import handle as handle_of
from raycompat._launch import forkserver_client
from raycompat._protocol import shared_secret, threads, variables

#: Seconds for a process of the cluster to start on a busy machine.
_START_S = 120.0

#: Seconds for a process of the cluster to end before it is killed.
_END_S = 10.0

#: Seconds for the kernel to end the processes of a killed node.
_REAP_S = 10.0


class Process:
    """One process of the cluster. It reports one line of JSON when it is ready."""

    def __init__(
        self, module: str, options: dict[str, Any], log: Path, environment: dict[str, str]
    ) -> None:
        self.log = log
        self._report: dict[str, Any] | None = None
        self._variables = {**variables_of_processes(), **environment}
        with contextlib.ExitStack() as of_process:
            printed = of_process.enter_context(log.open("ab"))
            read_input, write_input = os.pipe()
            of_process.callback(os.close, read_input)
            self._input = os.fdopen(write_input, "wb")
            read_report, write_report = os.pipe()
            of_process.callback(os.close, write_report)
            self._reports = os.fdopen(read_report, "rb")
            descriptors = [read_input, printed.fileno(), write_report]
            self._forked = forkserver_client.fork(
                module, json.dumps(options), self._variables, descriptors
            )
        _processes.add(self)

    @property
    def pid(self) -> int:
        """The process's id; waits until it is forked.

        Raises
        ------
        RaySystemError
            When it could not be forked, or is not forked in time.
        """
        if not self._forked.is_forked_within(_START_S):
            raise exceptions.RaySystemError(self._why_not())
        return self._forked.pid

    @property
    def pid_if_forked(self) -> int | None:
        """The process's id, without a wait; None if it was not forked."""
        return self._forked.pid if self._forked.is_forked_within(0.0) else None

    @property
    def is_running(self) -> bool:
        """Whether it has not ended."""
        return not self._forked.wait(0.0)

    def ends_within(self, timeout_s: float) -> bool:
        """Wait until it has ended; return whether this is so in time."""
        return self._forked.wait(timeout_s)

    def fileno(self) -> int:
        """Return a descriptor that is readable when the process, which must run, has ended."""
        return self._forked.fileno()

    @property
    def exit_code(self) -> int | None:
        """The exit code of a process that has ended; None if it is not known."""
        return self._forked.exit_code()

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

    def report_within(self, timeout_s: float) -> dict[str, object] | None:
        """Return the process's report; None if it has ended, or does not report in time."""
        if self._report is None and not self._reports.closed:
            is_given = is_readable(self._reports.fileno(), timeout_s)
            line = self._reports.readline() if is_given else b""
            self._report = json.loads(line) if line else None
        return self._report

    def _why_not(self) -> str:
        """Return why the process is not ready: it has ended, or is too slow."""
        if not self._forked.wait(_END_S):
            how = f"has not started within {_START_S:.0f} s"
        elif (why_not := self._forked.why_not_forked) is not None:
            how = f"could not be started, because {why_not}"
        else:
            how = f"ended {_described(self.exit_code)} while starting"
        why_not = variables.why_python_does_not_start(self._variables)
        cause = f" {why_not}." if why_not else ""
        log = (self._forked.server.printed() + self.log.read_text(errors="replace"))[-4000:]
        return f"A process of the local cluster {how}.{cause} Its log said:\n{log}"

    def let_go(self) -> None:
        """Let the process continue when this one ends (see `lifeline.told_to_end`)."""
        self.tell({})
        self._let_go()

    def tell(self, message: Mapping[str, object]) -> None:
        """Send the process a message that it waits for.

        Raises
        ------
        RaySystemError
            When the process has ended.
        """
        try:
            self._input.write(json.dumps(message).encode() + b"\n")
            self._input.flush()
        except BrokenPipeError:
            raise exceptions.RaySystemError(self._why_not()) from None

    def end(self) -> None:
        """End the process, and wait until it has ended."""
        self.close_input()
        if not self._forked.wait(_END_S):
            self.kill()
            return
        self._forked.exit_code()  # reported when it is reaped
        self._let_go()

    def kill(self) -> None:
        """Kill the process; wait until it and its descendants have ended."""
        if self.is_running and self._forked.is_forked_within(_REAP_S):
            offspring = []
            with contextlib.suppress(psutil.NoSuchProcess):
                offspring = psutil.Process(self.pid).children(recursive=True)
            self._forked.kill()
            self._forked.wait(_REAP_S)
            self._forked.exit_code()
            those_left(offspring, _REAP_S)  # the kernel kills them too
        self._let_go()

    def close_input(self) -> None:
        """Close the process's standard input, which ends it unless another process has it open."""
        with contextlib.suppress(BrokenPipeError):  # it has ended, with unread messages
            self._input.close()

    def _let_go(self) -> None:
        self.close_input()
        self._reports.close()
        self._forked.let_go()

    def forget_in_fork(self) -> None:
        """Let go of the process in a forked child: the child's copies must not keep it alive."""
        self.close_input()
        self._forked.forget()


def _described(exit_code: int | None) -> str:
    if exit_code is None or exit_code >= 0:
        return f"with exit code {exit_code}"
    name = signal.Signals(-exit_code).name
    hint = ", perhaps because the machine lacks memory" if name == "SIGKILL" else ""
    return f"by signal {name}{hint}"


def variables_of_processes() -> dict[str, str]:
    """Return the environment variables of processes that are started now, if they get no others."""
    # The node belongs to the user, so it may install packages.
    return {"RAYCOMPAT_ALLOW_PIP": "1", **threads.with_one(shared_secret.environment_without())}


def those_left(processes: Collection[psutil.Process], timeout_s: float) -> list[psutil.Process]:
    """Wait until these processes have ended; return those that still run after the timeout.

    A process that has ended may still be in the list of processes until its parent reads its status.
    """
    deadline = time.monotonic() + timeout_s
    left = []
    for process in processes:
        try:
            handle = handle_of(process.pid)
        except ProcessLookupError:
            continue
        try:
            left_s = deadline - time.monotonic()
            if process.is_running() and not is_readable(handle, left_s):
                left.append(process)
        finally:
            os.close(handle)
    return left


#: All processes that were started.
_processes: weakref.WeakSet[Process] = weakref.WeakSet()


def _forget_in_fork() -> None:
    for process in list(_processes):
        process.forget_in_fork()


os.register_at_fork(after_in_child=_forget_in_fork)
