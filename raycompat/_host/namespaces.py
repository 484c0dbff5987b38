"""Ids of this boot of the machine, and of the namespaces of the kernel in which this process is.

Containers of one machine share its boot, and have separate namespaces.
"""

from __future__ import annotations

import os
from pathlib import Path


def boot_id() -> str:
    """Return an id of this boot of the machine, which its containers share."""
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def pid_space() -> str:
    """Return an id of the processes to which pids mean the same: of a PID namespace, and of a boot."""
    return f"{boot_id()}:{os.stat('/proc/self/ns/pid').st_ino}"


def network() -> str:
    """Return an id of the processes that can reach the same sockets: of a network namespace."""
    return f"{boot_id()}:{os.stat('/proc/self/ns/net').st_ino}"
