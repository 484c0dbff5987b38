"""Ending the processes that ``raycompat start`` has started: by pid and start time, and no others."""

from __future__ import annotations

import contextlib
import os
import shutil
import time
from collections.abc import Collection
from dataclasses import dataclass

import psutil

from raycompat._cli import state_files
from raycompat._cli.state_files import Started
from raycompat._host import processes, segment
from raycompat._launch.process import those_left
from raycompat._protocol import current_cluster

#: Seconds for the kernel to end killed processes.
_KILL_S = 10.0


@dataclass(frozen=True)
class Stopped:
    """The number of processes; the pids of those that were killed, and of those that still run."""

    found: int
    killed: list[int]
    left: list[int]


def stop_all(*, force: bool, grace_period_s: float) -> Stopped:
    """End the processes that this user's starts have started here, and their child processes.

    Nodes end before schedulers: by themselves, each in half of the time, or at once with `force`. When
    this returns, none of them runs.
    """
    started = state_files.all_started()
    found = 0
    killed: list[int] = []
    left: list[int] = []
    for role in ("node", "scheduler"):
        leaders = [each for each in started if each.role == role]
        processes = _processes_of(leaders)
        found += len(processes)
        if not force:
            _ask_to_end(leaders, processes)
            processes = those_left(processes, grace_period_s / 2)
            killed += [process.pid for process in processes]
        not_ended = _kill(leaders)
        left += [process.pid for process in not_ended]
        if not not_ended:
            _clean_up(leaders)
    segment.sweep_shared_memory()
    return Stopped(found, killed, left)


def _processes_of(leaders: Collection[Started]) -> list[psutil.Process]:
    """Return all processes in the sessions of the started processes, including their children.

    A session's number is not used again while a process is in the session. So the session belongs to a
    started process if that process has the pid, or if no process has it.
    """
    sessions = {each.pid for each in leaders if processes.start_of(each.pid) in (each.start, None)}
    found = []
    for process in psutil.process_iter() if sessions else ():
        with contextlib.suppress(psutil.NoSuchProcess, ProcessLookupError):  # it has ended
            is_theirs = (
                os.getsid(process.pid) in sessions and process.uids().effective == os.geteuid()
            )
            if is_theirs and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
    return found


def _ask_to_end(leaders: Collection[Started], processes: Collection[psutil.Process]) -> None:
    pids = {each.pid for each in leaders}
    for process in processes:
        if process.pid in pids:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.terminate()


def _kill(leaders: Collection[Started]) -> list[psutil.Process]:
    """Kill the remaining processes, and any that they start; return those that still run."""
    deadline = time.monotonic() + _KILL_S
    while (processes := _processes_of(leaders)) and time.monotonic() < deadline:
        for process in processes:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        those_left(processes, deadline - time.monotonic())
    return processes


def _clean_up(leaders: Collection[Started]) -> None:
    for each in leaders:
        shutil.rmtree(each.directory, ignore_errors=True)
        state_files.forget(each.pid)
        current_cluster.forget(each.pid)
