"""Why a node that this process started has ended, in words."""

from __future__ import annotations

import re
from pathlib import Path

from raycompat._launch.process import Process

#: Seconds for a node that has left the cluster to end by itself, and lines of its log to show.
_END_S, _MANY_LINES = 5.0, 8

#: Where Linux counts the processes that it has killed for memory: in this control group, and in all.
_COUNTERS = (
    Path("/sys/fs/cgroup/memory.events"),
    Path("/sys/fs/cgroup/memory/memory.oom_control"),
    Path("/proc/vmstat"),
)


def kills_for_memory() -> int:
    """Return how many processes the kernel has killed because memory was short; 0 if it is unknown."""
    total = 0
    for counter in _COUNTERS:
        try:
            found = re.search(r"^oom_kill (\d+)$", counter.read_text(), re.MULTILINE)
        except OSError:
            continue
        total += int(found[1]) if found else 0
    return total


def why(process: Process, kills_before: int) -> str:
    """Return why a node that has left the cluster has ended; it is killed if it still runs.

    `kills_before` is the value of `kills_for_memory` when the node was started.
    """
    from raycompat._node.executor_pool import describe_exit  # after `init`, this is imported

    pid = process.pid
    if process.ends_within(_END_S):
        how = f"ended {describe_exit(process.exit_code)}"
    else:
        process.kill()
        how = "was out of reach of its scheduler, and was ended"
    text = f"The only node of the cluster that this program started is dead: process {pid} {how}."
    if kills_for_memory() > kills_before:
        text += " Meanwhile, the kernel has killed processes because the memory was full."
    log = "\n".join(process.log.read_text(errors="replace").splitlines()[-_MANY_LINES:])
    text += f" The last lines of its log:\n{log}\n" if log else " Its log is empty. "
    return f"{text}Call ray.shutdown(), and ray.init() for a new cluster."
