"""What Dask keeps of the names of calls: the last ones only."""

from __future__ import annotations

import asyncio

import dask
from _plugin_parts import RecordedDask
from distributed import Scheduler
from distributed.scheduler import TaskPrefix

from raycompat._dask.scheduler import DaskScheduler
from raycompat._scheduler import task_names


def test_names_that_were_not_used_for_long_are_forgotten(monkeypatch):
    monkeypatch.setattr(task_names, "NUM_KEPT", 2)
    recorded = RecordedDask([])
    kept = task_names.TaskNames(recorded)
    for name in ("a", "b", "a", "c", "d"):
        kept.note_end(name)
    assert recorded.instructions == [("forget_prefix", "b"), ("forget_prefix", "a")]


def test_dask_forgets_a_name_with_its_sums(tmp_path):
    async def body():
        with dask.config.set(temporary_directory=str(tmp_path)):
            scheduler = Scheduler(dashboard=False, dashboard_address=":0")
        sums = {("execute", name, "thread-cpu", "seconds"): 1.0 for name in ("old", "new")}
        others = {"latency": 0.1, ("get-data", "network", "bytes"): 7}
        scheduler.cumulative_worker_metrics.update({**others, **sums})
        for name in ("old", "new"):
            scheduler.task_prefixes[name] = TaskPrefix(name)
        DaskScheduler(scheduler).forget_prefix("old")
        assert list(scheduler.task_prefixes) == ["new"]
        assert list(scheduler.cumulative_worker_metrics) == [*others, list(sums)[1]]
        await scheduler.close()

    asyncio.run(body())
