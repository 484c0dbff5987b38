"""The processes that user code starts: they end with the executor that started them, as in Ray.

The forkserver is the *subreaper* of its executors. It adopts the processes that an executor leaves
behind, and those whose parents end earlier, such as daemons. Each executor has a mark, which its
descendants inherit, so the forkserver knows to which executor an adopted process belongs.

The mark is a random number, set as the limit of the number of file locks. The kernel has ignored this
limit since Linux 2.4.25, but every process passes it on to its children and to the programs that it
starts, also in other sessions.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import resource
import secrets
import signal
from collections.abc import Callable, Collection

from raycompat._host import processes

_PR_SET_CHILD_SUBREAPER = 36

#: ``RLIMIT_LOCKS`` of Linux; Python has no name for it.
_LOCKS = 10

_MARK_BITS = 62

#: The mark of a process that has none, because it could not be marked.
UNMARKED = resource.RLIM_INFINITY


def adopt() -> None:
    """Become the parent of all descendants whose parents end."""
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def new_mark() -> int:
    """Return a mark that no other executor has."""
    return secrets.randbits(_MARK_BITS) + 1


def mark(number: int) -> None:
    """Mark this process and all processes that it will start."""
    with contextlib.suppress(OSError, ValueError):  # an administrator has set a lower limit
        resource.setrlimit(_LOCKS, (number, resource.getrlimit(_LOCKS)[1]))


def kill_adopted(known: Collection[int], is_kept: Callable[[int], bool]) -> bool:
    """Kill the adopted children of this process without a kept mark; return whether there were any.

    `known` are the children that this process has forked. Children of a process that is killed are
    adopted when it has ended, so call this again after each end.
    """
    has_killed = False
    for pid in processes.children(os.getpid()):
        # Processes of other users (setuid) can be neither asked nor killed. A pid in this list belongs
        # to a child until it is reaped here.
        with contextlib.suppress(OSError):
            if pid not in known and not is_kept(resource.prlimit(pid, _LOCKS)[0]):
                os.kill(pid, signal.SIGKILL)
                has_killed = True
    return has_killed
