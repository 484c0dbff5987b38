"""What the kernel says about a process, and does with it."""

from __future__ import annotations

import ctypes
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

_PR_SET_PDEATHSIG = 1

_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")

#: Seconds of a clock tick.
_TICK_S = 1 / os.sysconf("SC_CLK_TCK")

#: The positions of the state, of the clock ticks in user code and in the kernel, and of the start in
#: ``/proc/PID/stat``, counted after the title.
_STATE, _USER, _SYSTEM, _START = 0, 11, 12, 19


def _stat(pid: int) -> list[str] | None:
    """Return the fields of ``/proc/PID/stat`` after the title; None if the process does not exist."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(errors="replace")  # has the start of its title
    except (FileNotFoundError, ProcessLookupError):
        return None
    return text.rpartition(")")[2].split()


def start_of(pid: int) -> int | None:
    """Return the start of process `pid`, in clock ticks since boot; None if it does not run."""
    fields = _stat(pid)
    return None if fields is None or fields[_STATE] == "Z" else int(fields[_START])


def is_stopped(pid: int) -> bool:
    """Return whether a signal has stopped a process. A process in a debugger does not count."""
    fields = _stat(pid)
    return fields is not None and fields[_STATE] == "T"


def children(pid: int) -> list[int]:
    """Return the pids of the processes that the main thread of a process has started or adopted."""
    try:
        return [int(each) for each in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []


def private_bytes_at_most(pid: int) -> int:
    """Return the private memory of a process quickly, including memory that it shares with forks."""
    try:
        resident, shared = Path(f"/proc/{pid}/statm").read_text().split()[1:3]
    except (FileNotFoundError, ProcessLookupError):  # the process has just ended
        return 0
    return (int(resident) - int(shared)) * _PAGE_BYTES


def private_bytes(pid: int) -> int:
    """Return the private memory of a process, with its share of memory that it shares with forks."""
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except (FileNotFoundError, ProcessLookupError):  # the process has just ended
        return 0
    sizes = dict(line.split(":") for line in lines[1:])
    return int(sizes["Pss_Anon"].split()[0]) * 1024


def use_of(pid: int) -> tuple[int, float] | None:
    """Return the resident bytes of a process, and the CPU seconds since its start; None if it ended."""
    fields = _stat(pid)
    try:
        resident = int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * _PAGE_BYTES
    except (FileNotFoundError, ProcessLookupError):
        return None
    if fields is None or fields[_STATE] == "Z":
        return None
    return resident, (int(fields[_USER]) + int(fields[_SYSTEM])) * _TICK_S


# --- this process -------------------------------------------------------------------------------


def cpus() -> frozenset[int]:
    """Return the numbers of the CPUs that this process may use."""
    return frozenset(os.sched_getaffinity(0))


def name_this(name: str) -> None:
    """Set the name of this process in ``ps`` and ``top``; Linux keeps 15 characters."""
    Path("/proc/self/comm").write_text(name)


def adjust_out_of_memory_score(adjustment: int) -> None:
    """Set which processes the kernel ends first when memory is short: from 1000 to -1000."""
    try:
        Path("/proc/self/oom_score_adj").write_text(str(adjustment))
    except OSError:  # the system does not allow it; the process keeps the score of its parent
        return


def die_with_parent(parent: int, number: int = signal.SIGKILL) -> None:
    """Ask the kernel to send this process a signal when `parent`, its parent, dies."""
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, number)
    if os.getppid() != parent:
        os._exit(1)


# --- children -----------------------------------------------------------------------------------


class Child:
    """A process that was forked: it has the methods of `subprocess.Popen` that are used here."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self._code: int | None = None

    def poll(self) -> int | None:
        """Return how the process has ended; None if it still runs."""
        return self._look(os.WNOHANG)

    def wait(self) -> int | None:
        """Wait until the process has ended."""
        return self._look(0)

    def _look(self, how: int) -> int | None:
        if self._code is None:
            pid, status = os.waitpid(self.pid, how)
            if pid:
                self._code = os.waitstatus_to_exitcode(status)
        return self._code


def fork(program: Callable[[], NoReturn]) -> Child:
    """Fork a process that runs a program.

    Call this in the main thread of a process without other threads.
    """
    pid = os.fork()
    if not pid:
        program()
    return Child(pid)


# --- handles ------------------------------------------------------------------------------------


def handle(pid: int) -> int:
    """Return a descriptor of a process, which means no other one even when the pid is used again.

    It is readable when the process has ended (`poller.is_readable`).

    Raises
    ------
    ProcessLookupError
        When there is no such process.
    """
    return os.pidfd_open(pid)


def kill(handle: int) -> None:
    """Send SIGKILL to the process of a handle.

    Raises
    ------
    ProcessLookupError
        When it has ended.
    """
    signal.pidfd_send_signal(handle, signal.SIGKILL)
