"""The rank of an executor among the processes of its machine, and the threads that its calls may use.

Both are Ray's: an executor yields the CPU to drivers, the scheduler and nodes, and the kernel ends it
first when memory is short. Libraries that read ``OMP_NUM_THREADS`` start as many threads as their call
has CPUs.
"""

from __future__ import annotations

import os
from collections.abc import MutableMapping

from raycompat._host import processes
from raycompat._protocol.threads import BY_CPUS, VARIABLE

#: Whether ``OMP_NUM_THREADS`` follows the CPUs of calls, because the user has not set it.
_follows_cpus = False


def lower(niceness: int, oom_score_adjustment: int) -> None:
    """Lower the rank of this process. Programs that its calls start inherit it."""
    os.nice(niceness)
    processes.adjust_out_of_memory_score(oom_score_adjustment)


def adopt(environment: MutableMapping[str, str], *, is_given: bool) -> bool:
    """Remove raycompat's mark from a new executor's variables, and return what it says.

    That is whether the number of threads follows the CPUs of calls; `is_given` says that the call's own
    environment has the number.
    """
    is_ours = environment.pop(BY_CPUS, None) is not None
    return is_ours and not is_given


def follow_cpus() -> None:
    """Let the number of threads follow the CPUs of calls from now on."""
    global _follows_cpus
    _follows_cpus = True


def follows_cpus() -> bool:
    """Return whether the number of threads is raycompat's, and not the user's."""
    return _follows_cpus


def show_cpus(cpus: float) -> None:
    """Set the number of threads for a call with so many CPUs: at least one."""
    if _follows_cpus:
        os.environ[VARIABLE] = str(max(int(cpus), 1))
