"""Why a node that this process started has ended, in words."""

from __future__ import annotations

from raycompat._host import memory
from raycompat._launch.process import Process

#: Seconds for a node that has left the cluster to end by itself, and lines of its log to show.
_END_S, _MANY_LINES = 5.0, 8


def why(process: Process, kills_before: int) -> str:
    """Return why a node that has left the cluster has ended; it is killed if it still runs.

    `kills_before` is the value of `memory.num_kills` when the node was started.
    """
    from raycompat._node.executor_pool import describe_exit  # after `init`, this is imported

    pid = process.pid
    if process.ends_within(_END_S):
        how = f"ended {describe_exit(process.exit_code)}"
    else:
        process.kill()
        how = "was out of reach of its scheduler, and was ended"
    text = f"The only node of the cluster that this program started is dead: process {pid} {how}."
    if memory.num_kills() > kills_before:
        text += " Meanwhile, the kernel has killed processes because the memory was full."
    log = "\n".join(process.log.read_text(errors="replace").splitlines()[-_MANY_LINES:])
    text += f" The last lines of its log:\n{log}\n" if log else " Its log is empty. "
    return f"{text}Call ray.shutdown(), and ray.init() for a new cluster."
