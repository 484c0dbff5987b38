"""Tools for programs' own tests, at their place in older Ray; today they are in `raycompat._common`."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import psutil

from raycompat import actor as actors
from raycompat import exceptions
from raycompat._api import get
from raycompat._common.test_utils import (
    Semaphore,
    SignalActor,
    async_wait_for_condition,
    run_string_as_driver,
    wait_for_condition,
)

__all__ = [
    "Semaphore",
    "SignalActor",
    "async_wait_for_condition",
    "kill_actor_and_wait_for_failure",
    "run_string_as_driver",
    "same_elements",
    "wait_for_condition",
    "wait_for_pid_to_exit",
    "wait_until_succeeded_without_exception",
]


def wait_for_pid_to_exit(pid: int, timeout: float = 20) -> None:
    """Wait until a process has ended, for at most `timeout` seconds.

    Raises
    ------
    RuntimeError
        When it has not ended in time.
    """
    wait_for_condition(lambda: not psutil.pid_exists(pid), timeout=timeout)


def kill_actor_and_wait_for_failure(
    actor: actors.ActorHandle[Any], timeout: float = 10, retry_interval_ms: float = 100
) -> None:
    """Kill an actor, and wait until its calls fail.

    Raises
    ------
    RuntimeError
        When they do not fail within `timeout` seconds.
    """
    actors.kill(actor)

    def is_dead() -> bool:
        try:
            get(getattr(actor, "__ray_ready__").remote(), timeout=timeout)  # noqa: B009
        except exceptions.RayActorError:
            return True
        return False

    wait_for_condition(is_dead, timeout=timeout, retry_interval_ms=retry_interval_ms)


def same_elements(elems_a: Any, elems_b: Any) -> bool:
    """Return whether two collections have equal elements in any order; they need not be hashable."""
    rest = list(elems_b)
    for element in elems_a:
        if element not in rest:
            return False
        rest.remove(element)
    return not rest


def wait_until_succeeded_without_exception(
    func: Callable[..., Any],
    exceptions: tuple[type[BaseException], ...],
    *args: Any,
    timeout_ms: float = 1000,
    retry_interval_ms: float = 100,
    raise_last_ex: bool = False,
) -> bool:
    """Call a function until it raises none of `exceptions`.

    Parameters
    ----------
    func : callable
        Called with `args`.
    exceptions : tuple of exception classes
    timeout_ms, retry_interval_ms : float
        Milliseconds.
    raise_last_ex : bool, default False
        Raise the last exception when the time is over.

    Returns
    -------
    bool
        Whether it has succeeded in time.
    """
    deadline = time.monotonic() + timeout_ms / 1000
    while True:
        try:
            func(*args)
            return True
        except exceptions:
            if time.monotonic() >= deadline:
                if raise_last_ex:
                    raise
                return False
        time.sleep(retry_interval_ms / 1000)
