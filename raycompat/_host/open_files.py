"""How many files this process may open, and what a listener does when no file is left: it pauses.

Without the pause, the waiting connection would be reported again at once, for ever.
"""

from __future__ import annotations

import errno
import os
import resource
from collections.abc import Callable

#: Seconds of the pause.
PAUSE_S = 0.5

#: The numbers of the errors of `accept` if this process, or the machine, cannot open another file.
NO_FILE_IS_LEFT = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})

#: The number of mappings that Linux allows a process by default.
_MANY = 65536


def limit() -> int | None:
    """Return the number of files that this process may have open; None if it is not limited."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return None if soft == resource.RLIM_INFINITY else soft


def are_short(descriptor: int) -> bool:
    """Return whether half of the descriptors are in use: the kernel gives the lowest free number.

    `descriptor` is an open one.
    """
    lowest = os.dup(descriptor)
    os.close(lowest)
    most = limit()
    return most is not None and lowest >= most // 2


def allow_many() -> Callable[[], None]:
    """Raise this process's limit of open files as far as possible: each mapping needs a file.

    The result is a function that takes that back.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = _MANY if hard == resource.RLIM_INFINITY else min(hard, _MANY)
    if soft != resource.RLIM_INFINITY and soft < most:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
    return lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
