"""The processes of calls: their number, their rank on the machine, and their threads."""

from __future__ import annotations

import os
import time
from pathlib import Path

import numpy as np
import psutil
import pytest
from _polling import wait_until


def test_threads_of_libraries_are_the_cpus_of_the_call(ray, cluster):
    """Leases are reused for calls with other CPUs, and processes for other tasks."""

    @ray.remote
    class Actor:
        def threads(self):
            return os.environ.get("OMP_NUM_THREADS")

    task = ray.remote(lambda: os.environ.get("OMP_NUM_THREADS"))
    amounts = [1, 2, 4, 0.5, 0, 1]
    assert [ray.get(task.options(num_cpus=n).remote()) for n in amounts] == list("124111")
    custom = {"resources": {"custom": 1}}  # not over a lease
    assert [ray.get(task.options(num_cpus=n, **custom).remote()) for n in (2, 1)] == ["2", "1"]
    actors = [Actor.options(num_cpus=n).remote() for n in (2, 0.5)]
    assert ray.get([actor.threads.remote() for actor in [*actors, Actor.remote()]]) == list("211")
    chosen = {"env_vars": {"OMP_NUM_THREADS": "7"}}
    assert ray.get(task.options(runtime_env=chosen).remote()) == "7"


def test_a_number_of_threads_that_the_user_has_chosen_stays(ray, fresh, monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    fresh(num_cpus=2)
    task = ray.remote(lambda: os.environ["OMP_NUM_THREADS"])
    assert ray.get([task.options(num_cpus=n).remote() for n in (1, 2)]) == ["3", "3"]


def rank():
    """Return the niceness of this process, and how soon the kernel ends it when memory is short."""
    return os.nice(0), int(Path("/proc/self/oom_score_adj").read_text())


@pytest.mark.skipif(rank() != (0, 0), reason="needs a process of the ordinary rank")
def test_calls_rank_below_their_driver(ray, fresh, monkeypatch):
    def rank_there():
        return os.nice(0), int(Path("/proc/self/oom_score_adj").read_text())

    @ray.remote
    class Actor:
        def rank(self):
            return rank_there()

    monkeypatch.delenv("RAY_worker_niceness")
    fresh(num_cpus=2)
    assert (
        ray.get([ray.remote(rank_there).remote(), Actor.remote().rank.remote()]) == [(15, 1000)] * 2
    )
    assert rank() == (0, 0)
    ray.shutdown()
    monkeypatch.setenv("RAY_worker_niceness", "3")
    monkeypatch.setenv("RAY_worker_oom_score_adjustment", "40")
    fresh(num_cpus=2)
    assert ray.get([ray.remote(rank_there).remote(), Actor.remote().rank.remote()]) == [(3, 40)] * 2


def test_processes_that_nested_calls_have_needed_end(ray, fresh):
    fresh(num_cpus=1)

    @ray.remote
    def nest(depth):
        pids = ray.get(nest.remote(depth - 1)) if depth else []
        return [os.getpid(), *pids]

    @ray.remote(num_cpus=0)
    class Bystander:
        def pid(self):
            return os.getpid()

    bystander = Bystander.remote()
    actor = ray.get(bystander.pid.remote())
    pids = {*ray.get(nest.remote(4))}
    assert len(pids) == 5
    wait_until(lambda: sum(map(psutil.pid_exists, pids)) <= 1)
    assert ray.get(bystander.pid.remote()) == actor


def test_results_outlive_the_processes_that_have_made_them(ray, fresh, tmp_path):
    fresh(num_cpus=1)

    @ray.remote(num_cpus=0.5, num_returns=2)
    def make(number):
        (tmp_path / str(number)).touch()
        while len([*tmp_path.iterdir()]) < 2:  # both run at the same time, in two processes
            time.sleep(0.01)
        return os.getpid(), np.full(1_000_000, number, dtype=np.uint8)

    calls = [make.remote(number) for number in range(2)]
    pids = ray.get([pid for pid, _ in calls])
    wait_until(lambda: sum(map(psutil.pid_exists, pids)) <= 1)
    for number, (_, array) in enumerate(calls):
        assert (ray.get(array) == number).all()
