"""Stop each kind of process for a minute in the middle of work, with the limits that users have.

``make fault-walk``; the short form is `tests/cluster/test_faults.py`.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "cluster"))

import _faults

import raycompat as ray
from raycompat._protocol import liveness
from raycompat.cluster_utils import Cluster

#: Seconds that each process is stopped.
STOP_S = 60.0


def main() -> None:
    """Walk through the faults, and say how long each took."""
    limit_s = liveness.node_timeout_s()
    with (
        tempfile.TemporaryDirectory() as folder,
        Cluster(initialize_head=True, head_node_args={"num_cpus": 1}) as cluster,
    ):
        cluster.add_node(num_cpus=1)
        ray.init(address=cluster.address, configure_logging=False, log_to_driver=False)
        walk: dict[str, Callable[[], None]] = {
            "a node's process": lambda: _faults.node_is_stopped(
                cluster, limit_s, with_its_processes=False
            ),
            "all of a node": lambda: _faults.node_is_stopped(
                cluster, limit_s, with_its_processes=True
            ),
            "an executor": lambda: _faults.executor_is_stopped(Path(folder), limit_s),
            "the scheduler": lambda: _faults.scheduler_is_stopped(cluster, STOP_S),
            "a driver": lambda: _faults.driver_is_stopped(cluster, STOP_S),
        }
        for what, fault in walk.items():
            start = time.monotonic()
            fault()
            print(f"{what} was stopped: all was right after {time.monotonic() - start:.0f} s")
        ray.shutdown()


if __name__ == "__main__":
    main()
