"""From a connected Dask client to a cluster whose nodes are ready.

The steps, each with its timeout and its error: the scheduler has this version of raycompat; the plugins
are registered (this has no effect where they are registered); every worker has reported. A worker that
cannot be a node stays a worker of Dask.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import pkgutil
from typing import TYPE_CHECKING, NamedTuple

from raycompat._messages.nodes import AwaitReady, FoundNodes, NodeAt
from raycompat._node.door import node_plugin
from raycompat._protocol.message import ask
from raycompat._protocol.version import VERSION
from raycompat._scheduler.plugin import SchedulerPlugin

if TYPE_CHECKING:
    from distributed import Client

logger = logging.getLogger(__name__)

#: Seconds for all workers to start their node processes.
_PREPARE_S = 60.0

#: Seconds for a cluster without workers to get one.
_FIRST_NODE_S = 60.0

#: The standard library finds this name in each process, also where raycompat is not installed.
_WHERE_THE_VERSION_IS = "raycompat._protocol.version:VERSION"


class Ready(NamedTuple):
    """A cluster that drivers can use: its nodes, at least one, and the place of its dashboard."""

    nodes: list[NodeAt]
    dashboard: str | None


def prepare(client: Client) -> Ready:
    """Make the workers of a cluster nodes.

    Raises
    ------
    RuntimeError
        When the scheduler lacks raycompat, or has another version.
    ConnectionError
        When there are no workers, or some do not answer.
    ValueError
        When no worker can be a node.
    """
    ready: Ready = client.sync(_prepare, client)
    return ready


def install(client: Client) -> None:
    """Register the plugins; no node is waited for, and there may be none.

    Raises
    ------
    RuntimeError
        When the scheduler lacks raycompat, or has another version.
    ConnectionError
        When some workers do not answer.
    """
    client.sync(_install, client)


async def _prepare(client: Client) -> Ready:
    await _install(client)
    return await _wait_for_nodes(client)


async def _install(client: Client) -> None:
    try:
        async with asyncio.timeout(_PREPARE_S):
            await _check_version(client)
            await client.register_plugin(SchedulerPlugin())
            with contextlib.suppress(OSError):  # a worker has left; the others have the plugin
                await client.register_plugin(node_plugin())
    except TimeoutError as error:
        raise ConnectionError(
            f"Not all workers of the Dask cluster at {client.scheduler.address} have answered within "
            f"{_PREPARE_S:.0f} s. Some may be stopped, or busy with something that holds Python's "
            "interpreter lock: see the dashboard."
        ) from error


async def _check_version(client: Client) -> None:
    """Check that the scheduler has this version, before anything else is sent to it."""
    try:
        found = await client.run_on_scheduler(pkgutil.resolve_name, _WHERE_THE_VERSION_IS)
    except Exception as error:  # any error of its import there
        found = error
    if found != VERSION:
        raise RuntimeError(
            f"Version mismatch: this process has raycompat {VERSION}, but the scheduler at "
            f"{client.scheduler.address} {_say(found)}. The scheduler and all drivers need the same "
            f"version: install it there (`pip install raycompat=={VERSION}`, or `pip install FOLDER` "
            "with the same copy of the sources) and restart it."
        )


def _say(found: object) -> str:
    if isinstance(found, ModuleNotFoundError):
        return "has none"
    if isinstance(found, BaseException):
        return f"cannot import it ({found!r})"
    return f"has {found}"


async def _wait_for_nodes(client: Client) -> Ready:
    scheduler = client.scheduler
    ready: FoundNodes | None = await ask(scheduler, AwaitReady(1, _FIRST_NODE_S))
    if ready is None:  # Dask's answer where nothing handles the request any more
        raise ConnectionError(
            f"raycompat was taken off the Dask cluster at {scheduler.address} while this program "
            "joined it. Call ray.init() again."
        )
    nodes = ready["nodes"]
    if unfit := ready["unfit"]:
        reasons = "; ".join(f"{worker}: {reason}" for worker, reason in unfit.items())
        if not nodes:
            raise ValueError(f"No Dask worker can be a node: {reasons}")
        logger.warning("raycompat: these Dask workers are not nodes: %s", reasons)
    if ready["silent"]:
        raise ConnectionError(
            f"These workers of the Dask cluster at {scheduler.address} have not become nodes within "
            f"{_FIRST_NODE_S:.0f} s: {', '.join(ready['silent'])}. Their logs say why."
        )
    if not nodes:
        raise ConnectionError(
            f"The Dask cluster at {scheduler.address} has no workers, and none came within "
            f"{_FIRST_NODE_S:.0f} s. Start some: `dask worker {scheduler.address}`, or "
            "cluster.scale(1); where they wait in a queue, cluster.wait_for_workers(1) waits longer."
        )
    return Ready(nodes, ready["dashboard"])
