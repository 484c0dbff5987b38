"""The bodies of raycompat's Dask tasks: short functions that pass the work to the node they run on.

The scheduler unpickles them by name, so it needs the same version of this package.
"""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from distributed import Worker

    from raycompat._protocol.values import SeveralValues

#: The name of raycompat's plugins in Dask.
PLUGIN_NAME = "raycompat"


class TaskRunner(Protocol):
    """The methods of a node (`_node.node.Node`) that these functions call."""

    async def run_call(self, key: str, payload: bytes, values: tuple[object, ...]) -> Any:
        """Run one call in an executor and return the value that Dask stores."""

    async def run_actor(self, key: str, payload: bytes, values: tuple[object, ...]) -> object:
        """Build an actor in a separate process and return when it has ended."""

    async def run_lease(self, key: str) -> object:
        """Lease an executor to a caller and return when the lease has ended."""

    def adopt(self, key: str, wire: tuple[object, ...]) -> Any:
        """Store a value that a process of this host has written, and own it from then on."""

    def load(self, stored: object) -> Any:
        """Return the value behind its stored form."""

    def store_value(self, value: object) -> object:
        """Return the stored form of a value, for Dask."""


#: The node of each Dask worker of this process.
runners: weakref.WeakKeyDictionary[Worker, TaskRunner] = weakref.WeakKeyDictionary()


def _node() -> TaskRunner:
    from distributed import get_worker

    return runners[get_worker()]


async def run_call(key: str, payload: bytes, *values: object) -> object:
    """Body of a call of a remote function. Calls of methods are not Dask tasks."""
    return await _node().run_call(key, payload, values)


async def run_actor(key: str, payload: bytes, *values: object) -> object:
    """Body of an actor's task: it runs as long as the actor lives."""
    return await _node().run_actor(key, payload, values)


async def run_lease(key: str, payload: bytes) -> object:
    """Body of a lease: it runs as long as its caller has the executor."""
    return await _node().run_lease(key)


async def adopt(key: str, wire: tuple[object, ...]) -> object:
    """Body of a put: the node stores the value that the caller has written."""
    return _node().adopt(key, wire)


def load(key: str, stored: object) -> Any:
    """Body of a task that loads a stored value for Dask's own tasks; runs in a Dask thread."""
    return _node().load(stored)


def store(key: str, value: object) -> Any:
    """Body of a task that stores the value of a Dask task for calls; runs in a Dask thread."""
    return _node().store_value(value)


async def pick(key: str, index: int, results: SeveralValues) -> object:
    """Body of the task for one of several results: element `index` of what the call returned."""
    return results.values[index]
