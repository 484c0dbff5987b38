"""A small cluster for the tests of a module."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

import pytest

import raycompat as ray


@pytest.fixture(scope="module")
def cluster():
    """Two CPUs, two logical GPUs, quiet."""
    ray.shutdown()
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
    return sys.modules["raycompat._caller.session"].current()


@pytest.fixture
def inventory(session) -> Callable[[str], list[str]]:
    """Return a function that lists what the scheduler keeps: tasks, calls, pins, actors."""
    return lambda what: list(session.rpc("raycompat_inventory")[what])


@pytest.fixture
def wait_until() -> Callable[..., None]:
    """Return a function that polls a condition until it holds, or a deadline has passed."""

    def poll(condition: Callable[[], object], deadline_s: float = 30.0) -> None:
        deadline = time.monotonic() + deadline_s
        while not condition():
            assert time.monotonic() < deadline, "waited in vain"
            time.sleep(0.01)

    return poll
