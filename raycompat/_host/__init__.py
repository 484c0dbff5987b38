"""The machine: all that raycompat needs of Linux, and of the machine in general.

Every use of what Linux has and other systems lack is in this package: shared memory, abstract Unix
sockets, ``epoll``, files without names, handles of processes, ``/proc``. The rest of raycompat is
portable, and a test (``tests/unit/test_host_is_apart.py``) checks that. This package imports no other
part of raycompat.
"""

from __future__ import annotations

import sys

if sys.platform != "linux":
    raise ImportError(
        f"raycompat runs on Linux only, and this Python is for {sys.platform!r}. Use a container, a "
        "virtual machine or WSL 2."
    )
