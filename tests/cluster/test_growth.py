"""Jobs that come and go leave nothing: the entries of the scheduler's tables are counted, not its memory."""

from __future__ import annotations

import subprocess
import sys

import cloudpickle
import pytest

import raycompat as ray
from raycompat.util import dask
from raycompat.util.scheduling_strategies import PlacementGroupSchedulingStrategy as InGroup

pytestmark = pytest.mark.usefixtures("cluster")

cloudpickle.register_pickle_by_value(sys.modules[__name__])  # the scheduler has no such module

#: Names that Dask's statistics keep without a task, in this test; jobs have more.
NUM_KEPT = 5
NUM_JOBS, NUM_NAMES = 2, 20

JOB = """
import sys
import raycompat as ray
from raycompat.util.scheduling_strategies import PlacementGroupSchedulingStrategy as InGroup

address, job, num_names = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
ray.init(address, configure_logging=False)

def named(number):
    def call():
        return number
    call.__name__ = call.__qualname__ = f"call_{job}_{number}"
    return ray.remote(num_cpus=0.1 + number / 100)(call)

calls = [named(number) for number in range(num_names)]
assert ray.get([call.remote() for call in calls]) == list(range(num_names))
by_the_scheduler = [call.options(num_gpus=0.1) for call in calls[:3]]
assert ray.get([call.remote() for call in by_the_scheduler]) == [0, 1, 2]
for number in range(3):
    group = ray.util.placement_group([{"CPU": 0.1 + number / 10}])
    ray.get(calls[0].options(num_cpus=0.1, scheduling_strategy=InGroup(group)).remote())
    ray.util.remove_placement_group(group)

@ray.remote
class Actor:
    def call(self):
        return ray.put(bytes(200_000))

actors = [Actor.remote() for _ in range(2)]
ray.get(ray.get([actor.call.remote() for actor in actors]))
"""


def _few_names(dask_scheduler) -> None:
    from raycompat._scheduler import task_names

    task_names.NUM_KEPT = NUM_KEPT


def _table_sizes(dask_scheduler) -> dict[str, int]:
    """Return how many entries each table of the scheduler's part has."""
    parts = dask_scheduler.plugins["raycompat"].parts
    sizes, seen, left = {}, set(), [parts]
    while left:
        part = left.pop()
        for name, value in vars(part).items():
            where = f"{type(part).__name__}.{name}"
            if hasattr(value, "__len__") and not isinstance(value, str):
                sizes[where] = len(value)
            elif (
                type(value).__module__.startswith("raycompat._scheduler") and id(value) not in seen
            ):
                seen.add(id(value))
                if hasattr(value, "__dict__"):
                    left.append(value)
    sizes["prefixes"] = sum(name.startswith("call_") for name in dask_scheduler.task_prefixes)
    sizes["groups"] = sum(name.startswith("call_") for name in dask_scheduler.task_groups)
    return sizes


def _run_job(address: str, number: int) -> None:
    command = [sys.executable, "-c", JOB, address, str(number), str(NUM_NAMES)]
    subprocess.run(command, check=True, timeout=120)


def test_jobs_that_come_and_go_leave_no_entry(session, wait_until):
    client = dask.client()
    client.run_on_scheduler(_few_names)
    bounded = {
        "prefixes",
        "TaskNames._idle",
        "Groups._removed",
        "Keeper._feasible",
        "RunTimes._spans",
        "WatchedParts.history",
        "Endings.history",
        "Events.rows",
        "Figures.samples",
        "Ledger._freest",
        "Ledger._num_seen",
        "Changes._places",
    }

    def sizes() -> dict[str, int]:
        return client.run_on_scheduler(_table_sizes)

    def others() -> dict[str, int]:
        return {name: size for name, size in sizes().items() if name not in bounded}

    wait_until(lambda: sizes()["Pulses.heard"], 60)  # the node's pulse comes when it comes
    before = others()
    for number in range(NUM_JOBS):
        _run_job(session.setup.scheduler, number)
    wait_until(lambda: others() == before, 60)
    assert sizes()["prefixes"] <= NUM_KEPT + 1
    assert sizes()["TaskNames._idle"] <= NUM_KEPT


def test_a_caller_forgets_the_bundles_of_old_groups(session, monkeypatch):
    from raycompat._caller import placement_groups

    monkeypatch.setattr(placement_groups, "_MANY_GROUPS", 4)

    @ray.remote
    def one():
        return 1

    for _ in range(6):
        group = ray.util.placement_group([{"CPU": 1}])
        assert ray.get(one.options(scheduling_strategy=InGroup(group)).remote()) == 1
        ray.util.remove_placement_group(group)
    assert len(session.placement_groups.bundles) <= 4
