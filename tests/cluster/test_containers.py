"""Containers on one machine: they have the same address, and separate pids, or a separate /dev/shm."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import raycompat as ray
from raycompat._host import own_folder, segment
from raycompat.util import dask
from raycompat.util.scheduling_strategies import NodeAffinitySchedulingStrategy

#: Runs `$0 $@` as a child of a container's first process. The other argument of `unshare` ends all of
#: them with it.
_CONTAINER = ("unshare", "--pid", "--fork", "--mount-proc", "--kill-child", "sh", "-c")
_PROGRAM_IN_IT = 'for i in $(seq "$NUM_PIDS"); do sh -c :; done; "$0" "$@"; exit $?'

_WITH_OWN_PIDS = [*_CONTAINER, _PROGRAM_IN_IT]
_WITH_OWN_MEMORY = [
    *("unshare", "--mount", "--propagation", "slave"),
    *("sh", "-c", 'mount -t tmpfs tmpfs /dev/shm && exec "$0" "$@"'),
]

pytestmark = pytest.mark.skipif(
    subprocess.run([*_CONTAINER, "true"], capture_output=True, check=False).returncode != 0,
    reason="this user may not make a PID namespace",
)

PROGRAM = """
import sys
import numpy as np
import raycompat as ray

@ray.remote
def ones():
    return np.ones(300_000)

@ray.remote
def total(array):
    return float(array.sum())

ray.init(num_cpus=1, include_dashboard=False, configure_logging=False, log_to_driver=False)
put, made = ray.put(np.ones(200_000)), ones.remote()
ray.wait([made])
print("holds two values", flush=True)
for _ in sys.stdin:
    print(ray.get([total.remote(put), total.remote(made)]), flush=True)
"""


class Container:
    """A container with a driver that holds two values; its pids are other ones than in its siblings."""

    def __init__(self, number: int) -> None:
        command = [*_WITH_OWN_PIDS, sys.executable, "-c", PROGRAM]
        self.process = subprocess.Popen(
            command,
            env={**os.environ, "NUM_PIDS": str(100 * number)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self.process.stdout.readline() == "holds two values\n"

    def use_values(self) -> str:
        """Let a task read both values; return their sums."""
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        return self.process.stdout.readline()

    def close(self) -> None:
        """Let the driver end."""
        self.process.communicate()

    def kill(self) -> None:
        """Kill all its processes; nothing cleans up after them."""
        self.process.kill()
        self.process.communicate()


def folders() -> set[Path]:
    return {path for path in Path("/dev/shm").glob(f"raycompat-{os.geteuid()}-*") if path.is_dir()}


def test_a_container_s_values_outlive_another_container_s_cluster(no_cluster):
    before = folders()
    first = Container(1)
    try:
        Container(4).close()
        assert first.use_values() == "[200000.0, 300000.0]\n"
        segment.sweep_shared_memory()
        assert first.use_values() == "[200000.0, 300000.0]\n"
    finally:
        first.close()
    segment.sweep_shared_memory()
    assert folders() <= before | set(own_folder.all_in("/dev/shm"))


def test_what_a_killed_container_leaves_is_removed(no_cluster, wait_until):
    before = folders()
    container = Container(1)
    (folder,) = folders() - before
    assert any(folder.iterdir())
    container.kill()

    def is_removed() -> bool:
        segment.sweep_shared_memory()  # as each node does from time to time
        return not folder.exists()

    wait_until(is_removed)


@pytest.mark.parametrize("inside", [_WITH_OWN_PIDS, _WITH_OWN_MEMORY], ids=["pids", "memory"])
def test_values_pass_between_containers_with_the_same_address(dask_cluster, monkeypatch, inside):
    @ray.remote
    def ones():
        return np.ones(300_000)

    @ray.remote
    def total(array):
        return float(array.sum())

    monkeypatch.setenv("NUM_PIDS", "400")
    dask_cluster.add_worker()
    container = dask_cluster.add_worker(inside=inside)
    try:
        dask_cluster.connect()
        nodes = [NodeAffinitySchedulingStrategy(row["NodeID"], soft=False) for row in ray.nodes()]
        for maker, user in (nodes, nodes[::-1]):
            ref = ones.options(scheduling_strategy=maker).remote()
            there = total.options(scheduling_strategy=user)
            assert ray.get(there.remote(ref), timeout=60) == 300_000
            dask.client().run(segment.sweep_shared_memory)  # as each node does from time to time
            assert ray.get(there.remote(ref), timeout=60) == 300_000
    finally:
        container.kill()  # `unshare` ignores SIGTERM
        container.wait()
