"""The bodies of raycompat's Dask tasks: thin stubs that look the node up where they run.

The scheduler unpickles them by name, so it has the package too, in the same version.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, cast

if TYPE_CHECKING:
    from raycompat._protocol.values import SeveralValues

#: The name under which Dask knows the plugins of raycompat.
PLUGIN_NAME = "raycompat"


class Node(Protocol):
    """What the bodies ask of the node they run on."""

    async def run_call(self, key: str, payload: bytes, values: tuple[Any, ...]) -> Any:
        """Run one call in an executor and return what Dask is to store."""

    async def run_actor(self, key: str, payload: bytes, values: tuple[Any, ...]) -> Any:
        """Build an actor in a process of its own and return when it has ended."""

    async def run_lease(self, key: str) -> Any:
        """Let a caller have an executor and return when it wants it no more."""

    def adopt(self, key: str, wire: tuple[Any, ...]) -> Any:
        """Take a value that a process of this host has written into the node's keeping."""

    def load(self, stored: Any) -> Any:
        """Return the value that is stored."""

    def store_value(self, value: Any) -> Any:
        """Return what Dask is to store for a value."""


def _node() -> Node:
    from distributed import get_worker

    return cast("Node", get_worker().plugins[PLUGIN_NAME].node)


async def run_call(key: str, payload: bytes, *values: Any) -> Any:
    """Body of a remote function call, or of a call of an actor's method."""
    return await _node().run_call(key, payload, values)


async def run_actor(key: str, payload: bytes, *values: Any) -> Any:
    """Body of an actor's hold: it runs as long as the actor lives."""
    return await _node().run_actor(key, payload, values)


async def run_lease(key: str, payload: bytes) -> Any:
    """Body of a lease: it runs as long as its caller has the executor."""
    return await _node().run_lease(key)


async def adopt(key: str, wire: tuple[Any, ...]) -> Any:
    """Body of a put: the node keeps what the caller has written."""
    return _node().adopt(key, wire)


def load(key: str, stored: Any) -> Any:
    """Body of what turns a stored value into itself, for Dask's own tasks: it runs in a Dask thread."""
    return _node().load(stored)


def store(key: str, value: Any) -> Any:
    """Body of what stores the value of a Dask task, for calls: it runs in a Dask thread."""
    return _node().store_value(value)


async def pick(key: str, index: int, results: SeveralValues) -> Any:
    """Body of one of several results: element `index` of what the call returned."""
    return results.values[index]
