"""Whole programs on machines that are short of descriptors, shared memory and disk."""

from __future__ import annotations

import subprocess
import sys

import pytest

#: Seconds that a program may take before it counts as hanging.
_PROGRAM_S = 240

#: A separate machine for `$0 $@`: a small /dev/shm, a small disk at TMPDIR, few descriptors.
MACHINE = """
mount -t tmpfs -o size="$SHARED_MEMORY" tmpfs /dev/shm &&
mount -t tmpfs -o size="$DISK" tmpfs "$TMPDIR" &&
ulimit -n "$DESCRIPTORS" && exec "$0" "$@"
"""


@pytest.fixture
def run_on_machine(tmp_path, no_cluster):
    """Return a function that runs a program on a small machine, and returns what it printed."""
    unshare = ["unshare", "--mount", "--propagation", "slave"]
    if subprocess.run([*unshare, "true"], check=False, capture_output=True).returncode:
        pytest.skip("this user may not mount file systems")

    def run(
        program: str,
        *,
        shared_memory: str,
        disk: str,
        descriptors: int,
    ) -> list[str]:
        limits = {"SHARED_MEMORY": shared_memory, "DISK": disk, "DESCRIPTORS": str(descriptors)}
        variables = [f"{name}={value}" for name, value in {**limits, "TMPDIR": tmp_path}.items()]
        done = subprocess.run(
            ["env", *variables, *unshare, "sh", "-c", MACHINE, sys.executable, "-c", program],
            capture_output=True,
            text=True,
            timeout=_PROGRAM_S,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.splitlines()

    return run


FULL = """
import numpy as np
import raycompat as ray

ray.init(num_cpus=1, include_dashboard=False, configure_logging=False, log_to_driver=False)

@ray.remote
def ones(size):
    return np.ones(size, dtype=np.uint8)

@ray.remote
def noisy():
    for _ in range(2_000):
        print("x" * 40_000)
    return "all was printed"

half = ray.put(np.ones(20 << 20, dtype=np.uint8))
for make in (lambda: ray.put(np.ones(200 << 20, dtype=np.uint8)), lambda: ray.get(ones.remote(200 << 20))):
    try:
        make()
    except ray.exceptions.OutOfDiskError as error:
        print("Drop references" in str(error))
print(ray.get(noisy.remote()))
print(ray.get(half).sum() == 20 << 20, ray.get(ones.remote(10)).sum())
del half
print(ray.get(ray.put(np.ones(16 << 20, dtype=np.uint8))).sum() == 16 << 20)
"""


def test_a_full_disk_and_full_shared_memory_are_said_and_survived(run_on_machine):
    printed = run_on_machine(FULL, shared_memory="32m", disk="48m", descriptors=4096)
    assert printed == ["True", "True", "all was printed", "True 10", "True"]


NO_ROOM = """
import raycompat as ray

try:
    ray.init(num_cpus=1, include_dashboard=False, configure_logging=False)
except ValueError as error:
    print("No space left on device" in str(error), "make room" in str(error))
print(ray.is_initialized())
"""


def test_where_no_node_can_begin_init_says_why(run_on_machine):
    printed = run_on_machine(NO_ROOM, shared_memory="4k,nr_inodes=2", disk="48m", descriptors=4096)
    assert printed == ["True True", "False"]


FEW_DESCRIPTORS = """
import numpy as np
import raycompat as ray

MANY = 600  # of 120 KB, each a segment

ray.init(num_cpus=2, include_dashboard=False, configure_logging=False, log_to_driver=False)

@ray.remote
def double(array):
    return array * 2

@ray.remote
def total(refs):
    return sum(int(array[0]) for array in ray.get(refs))

@ray.remote(num_returns="streaming")
def items():
    for i in range(MANY):
        yield np.full(15_000, i)

@ray.remote(num_cpus=0)
class Actor:
    def first(self, array):
        return int(array[0])

refs = [double.remote(ray.put(np.full(15_000, i))) for i in range(MANY)]
values = ray.get(refs)
print(all((value == 2 * i).all() for i, value in enumerate(values)))
print(ray.get(total.remote(refs)) == MANY * (MANY - 1))
kept = [ray.get(item) for item in items.remote()]
print([int(value[0]) for value in kept] == list(range(MANY)))
actors = [Actor.remote() for _ in range(20)]
print(ray.get([actor.first.remote(refs[1]) for actor in actors]) == [2] * 20)
"""


def test_a_whole_program_runs_with_1024_descriptors(run_on_machine):
    printed = run_on_machine(FEW_DESCRIPTORS, shared_memory="1g", disk="1g", descriptors=1024)
    assert printed == ["True"] * 4
