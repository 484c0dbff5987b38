"""A small cluster for the tests of a module."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

import _dask_process
import pytest
from _dask_cluster import DaskCluster

import raycompat as ray
from raycompat._messages.nodes import Inventory


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Move tests that end the module's cluster behind the module's others, which want to use it."""
    modules = {item.path: position for position, item in enumerate(items)}
    items.sort(key=lambda item: (modules[item.path], "no_cluster" in item.fixturenames))


@pytest.fixture(autouse=True, scope="module")
def own_session(request: pytest.FixtureRequest):
    """End the session that the tests of conformance share between modules; fail a module that leaves one."""
    ray.shutdown()
    yield
    assert not ray.is_initialized(), f"{request.module.__name__} has not ended its session"


@pytest.fixture(scope="module")
def cluster():
    """Two CPUs, two logical GPUs, quiet."""
    with ray.init(num_cpus=2, num_gpus=2, include_dashboard=False, configure_logging=False):
        yield


@pytest.fixture
def no_cluster():
    """Nothing runs, before and after."""
    ray.shutdown()
    yield
    ray.shutdown()


@pytest.fixture
def session():
    """Return the driver's session."""
    return sys.modules["raycompat._caller.current_session"].get()


@pytest.fixture
def inventory(session) -> Callable[[str], list[str]]:
    """Return a function that lists what the scheduler keeps: tasks, calls, pins, actors."""
    return lambda what: list(session.rpc(Inventory())[what])


@pytest.fixture
def wait_until() -> Callable[..., None]:
    """Return a function that polls a condition until it holds, or a deadline has passed."""

    def poll(
        condition: Callable[[], object], deadline_s: float = 30.0, pause_s: float = 0.01
    ) -> None:
        deadline = time.monotonic() + deadline_s
        while not condition():
            assert time.monotonic() < deadline, "waited in vain"
            time.sleep(pause_s)

    return poll


@pytest.fixture(scope="session")
def dask_is_imported():
    """Start the process that Dask's are forked from: the end of a test finds it, which has no cluster."""
    _dask_process.start_early()


@pytest.fixture
def dask_cluster(dask_is_imported, tmp_path, no_cluster, monkeypatch, request):
    """A Dask scheduler without workers; what a test adds ends with it.

    Dask's memory manager is off, unless the test has other settings for it: it would drop copies that
    no process needs at the moment.
    """
    for name, value in getattr(request, "param", {"START": "false"}).items():
        variable = f"DASK_DISTRIBUTED__SCHEDULER__ACTIVE_MEMORY_MANAGER__{name}"
        monkeypatch.setenv(variable, value)
    cluster = DaskCluster(tmp_path)
    yield cluster
    ray.shutdown()
    cluster.close()


@pytest.fixture(scope="module")
def one_worker(dask_is_imported, tmp_path_factory):
    """A Dask cluster of one node, for the tests of a module; nothing is connected to it."""
    cluster = DaskCluster(tmp_path_factory.mktemp("dask"))
    cluster.add_worker()
    cluster.connect()
    ray.shutdown()
    yield cluster
    ray.shutdown()
    cluster.close()
