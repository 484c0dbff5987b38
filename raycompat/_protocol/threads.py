"""``OMP_NUM_THREADS`` in the processes of a cluster.

Executors are forked from a process that has imported numpy. That process must have one thread, because
a pool of threads does not survive a fork.
"""

from __future__ import annotations

from collections.abc import Mapping

#: The variable from which numeric libraries read their number of threads.
VARIABLE = "OMP_NUM_THREADS"

#: Set beside `VARIABLE` where raycompat has set it. In executors it then follows the calls' CPUs.
BY_CPUS = "RAYCOMPAT_THREADS_BY_CPUS"


def with_one(environment: Mapping[str, str]) -> dict[str, str]:
    """Return variables for a process with one thread, unless the user has chosen the number."""
    if VARIABLE in environment:
        return dict(environment)
    return {**environment, VARIABLE: "1", BY_CPUS: "1"}
