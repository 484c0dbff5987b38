"""From a connected Dask client to a cluster whose nodes are ready.

The steps, each with its timeout and its error: the scheduler and all workers have this version of
raycompat; the plugins are registered (this has no effect where they are registered); every worker has
reported.
"""

from __future__ import annotations

import asyncio
import contextlib
import pkgutil
from typing import TYPE_CHECKING, Any

from raycompat import _dask_adapter as adapter
from raycompat._node.plugin import NodePlugin
from raycompat._protocol.operations import Request, ask
from raycompat._protocol.version import VERSION
from raycompat._scheduler.plugin import SchedulerPlugin

if TYPE_CHECKING:
    from distributed import Client

#: Seconds for each worker to report its version.
_VERSION_S = 5.0

#: Seconds for all workers to report their versions and to start their node processes.
_PREPARE_S = 60.0

#: Seconds for a cluster without workers to get one.
_FIRST_NODE_S = 60.0

#: The standard library finds this name in each process, also where raycompat is not installed.
_WHERE_THE_VERSION_IS = "raycompat._protocol.version:VERSION"


def prepare(client: Client) -> list[dict[str, Any]]:
    """Make every worker of a cluster a node, and return the nodes, at least one.

    Raises
    ------
    RuntimeError
        When a process of the cluster lacks raycompat, or has another version.
    ConnectionError
        When there are no workers, or some do not answer.
    ValueError
        When a worker cannot be a node.
    """
    nodes: list[dict[str, Any]] = client.sync(_prepare, client)
    return nodes


async def _prepare(client: Client) -> list[dict[str, Any]]:
    try:
        async with asyncio.timeout(_PREPARE_S):
            await _check_versions(client)
            await client.register_plugin(SchedulerPlugin())
            with contextlib.suppress(OSError):  # a worker has left; the others have the plugin
                await client.register_plugin(NodePlugin())
    except TimeoutError as error:
        raise ConnectionError(
            f"Not all workers of the Dask cluster at {client.scheduler.address} have answered within "
            f"{_PREPARE_S:.0f} s. Some may be stopped, or busy with something that holds Python's "
            "interpreter lock: see the dashboard."
        ) from error
    return await _wait_for_nodes(client)


async def _check_versions(client: Client) -> None:
    """Check that all processes have the same version, before anything else is sent to them.

    Registered plugins have the scheduler's version, so a driver with another version is refused too.
    """
    try:
        found = await client.run_on_scheduler(pkgutil.resolve_name, _WHERE_THE_VERSION_IS)
    except Exception as error:  # any error of its import there
        found = error
    versions = {f"the scheduler at {client.scheduler.address}": found}
    if found == VERSION:
        workers = await adapter.addresses_of_workers(client)
        answers = await asyncio.gather(*(_ask_for_version(client, each) for each in workers))
        versions |= {
            f"the worker at {worker}": answer
            for worker, answer in zip(workers, answers, strict=True)
            if not isinstance(answer, OSError)  # the worker has just left, or is stopped
        }
    wrong = [f"{who} {_say(found)}" for who, found in versions.items() if found != VERSION]
    if wrong:
        raise RuntimeError(
            f"Version mismatch: this process has raycompat {VERSION}, but {'; '.join(wrong)}. The "
            "scheduler, all workers and all drivers need the same version: install it there "
            f"(`pip install raycompat=={VERSION}`) and restart them."
        )


async def _ask_for_version(client: Client, worker: str) -> Any:
    """Return a worker's version, or an error: that of its import, or an OSError if it is silent.

    A stopped worker must not block drivers. The scheduler checks the versions of slow workers before
    they become nodes.
    """
    asked = client.run(
        pkgutil.resolve_name, _WHERE_THE_VERSION_IS, workers=[worker], on_error="return"
    )
    try:
        async with asyncio.timeout(_VERSION_S):
            answers = await asked
    except TimeoutError:
        return OSError(f"{worker} has not answered within {_VERSION_S:.0f} s")
    return answers.get(worker, OSError(f"{worker} has left"))


def _say(found: Any) -> str:
    if isinstance(found, ModuleNotFoundError):
        return "has none"
    if isinstance(found, BaseException):
        return f"cannot import it ({found!r})"
    return f"has {found}"


async def _wait_for_nodes(client: Client) -> list[dict[str, Any]]:
    scheduler = client.scheduler
    ready = await ask(scheduler, Request.READY, at_least=1, timeout_s=_FIRST_NODE_S)
    nodes: list[dict[str, Any]] = ready["nodes"]
    if unfit := ready["unfit"]:
        reasons = "; ".join(f"{worker}: {reason}" for worker, reason in unfit.items())
        raise ValueError(f"These Dask workers cannot be nodes: {reasons}")
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
    return nodes
