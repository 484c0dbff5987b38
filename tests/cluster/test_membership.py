"""Nodes that come and go, and what becomes of drivers, values, calls and actors."""

from __future__ import annotations

import sys

import numpy as np
import psutil
import pytest

import raycompat as ray

LARGE = 1 << 20

#: Seconds within which whoever waits hears that the scheduler has died.
SCHEDULER_DEATH_S = 30.0


@ray.remote
def total(array):
    return float(array.sum())


@ray.remote
def node_pid():
    """Pid of the node that a call runs on."""
    return psutil.Process().parent().ppid()


# --- the node that keeps a driver's values --------------------------------------------------------


def test_a_driver_outlives_its_home(dask_cluster, wait_until, session_of_driver):
    for _ in range(2):
        dask_cluster.add_worker()
    dask_cluster.connect()
    own = ray.put(np.ones(LARGE))
    first = session_of_driver().home
    dask_cluster.workers[dask_cluster.home].kill()
    wait_until(lambda: session_of_driver().home.address != first.address)
    assert ray.get(own).sum() == LARGE
    assert ray.get(total.remote(own), timeout=60) == LARGE
    for strategy in ("DEFAULT", "SPREAD"):
        later = ray.put(np.full(LARGE, 2.0))
        call = total.options(scheduling_strategy=strategy)
        assert ray.get([call.remote(own), call.remote(later)], timeout=60) == [LARGE, 2 * LARGE]
    assert len(ray.nodes()) == 1


def test_a_driver_outlives_its_only_node(dask_cluster, wait_until, session_of_driver):
    dask_cluster.add_worker()
    dask_cluster.connect()
    own = ray.put(np.ones(LARGE))
    first = session_of_driver().home
    dask_cluster.workers[dask_cluster.home].kill()
    wait_until(lambda: not ray.nodes())
    waiting = total.remote(own)
    dask_cluster.add_worker()
    wait_until(lambda: session_of_driver().home.address != first.address)
    assert ray.get(waiting, timeout=60) == LARGE
    by_scheduler = total.options(scheduling_strategy="SPREAD")
    assert ray.get(by_scheduler.remote(own), timeout=60) == LARGE


@pytest.fixture
def session_of_driver():
    return sys.modules["raycompat._caller.session"].current
