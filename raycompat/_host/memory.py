"""The memory of this machine, as the kernel counts it."""

from __future__ import annotations

import re
from pathlib import Path

#: Where Linux counts the processes that it has killed for memory: in this control group, and in all.
_COUNTERS = (
    Path("/sys/fs/cgroup/memory.events"),
    Path("/sys/fs/cgroup/memory/memory.oom_control"),
    Path("/proc/vmstat"),
)


def num_kills() -> int:
    """Return how many processes the kernel has killed because memory was short; 0 if it is unknown."""
    total = 0
    for counter in _COUNTERS:
        try:
            found = re.search(r"^oom_kill (\d+)$", counter.read_text(), re.MULTILINE)
        except OSError:
            continue
        total += int(found[1]) if found else 0
    return total
