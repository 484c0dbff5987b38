"""What Dask keeps of the names of calls: the last ones only."""

from __future__ import annotations

from types import SimpleNamespace

from distributed.scheduler import TaskPrefix

from raycompat._dask.scheduler import DaskScheduler
from raycompat._scheduler import task_names


def test_old_names_and_their_sums_are_forgotten(monkeypatch):
    monkeypatch.setattr(task_names, "NUM_KEPT", 2)
    names = [f"call_{number}" for number in range(5)]
    sums = {("execute", name, "thread-cpu", "seconds"): 1.0 for name in names}
    scheduler = SimpleNamespace(
        task_prefixes={name: TaskPrefix(name) for name in names},
        cumulative_worker_metrics={"latency": 0.1, ("get-data", "network", "bytes"): 7, **sums},
        extensions={},
    )
    kept = task_names.TaskNames(DaskScheduler(scheduler))
    for name in names:
        kept.note_end(name)
    assert list(scheduler.task_prefixes) == names[3:]
    assert list(scheduler.cumulative_worker_metrics) == [
        "latency",
        ("get-data", "network", "bytes"),
        *list(sums)[3:],
    ]
