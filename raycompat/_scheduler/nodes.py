"""Nodes: the Dask workers that have reported, those that cannot, and those that have left."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from raycompat import _dask_adapter as dask
from raycompat import _security
from raycompat._protocol.resource_set import ResourceSet
from raycompat._protocol.version import VERSION

if TYPE_CHECKING:
    from raycompat._scheduler.core import Core

logger = logging.getLogger(__name__)

#: Nodes that have left of which `ray.nodes` still tells.
_MANY_DEPARTED = 1000


class Nodes:
    """See the module."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self._scheduler = core.scheduler
        #: What each has reported, by its address.
        self.info: dict[str, dict[str, Any]] = {}
        #: Workers that cannot be nodes, and why.
        self._unfit: dict[str, str] = {}
        #: Nodes that have left, the last of them.
        self._departed: deque[dict[str, Any]] = deque(maxlen=_MANY_DEPARTED)

    def ready(self, worker: str, info: dict[str, Any]) -> None:
        """Hear that a worker is a node, and what it has."""
        if info["version"] != VERSION:
            reason = (
                f"it has raycompat {info['version']}, and the cluster has {VERSION}. Install that "
                "there, and start the worker anew."
            )
            self.unfit(worker, reason)
            return
        self.info[worker] = info
        self._core.ledger.add_node(worker, ResourceSet.from_units(info["total"]))
        dask.send_worker_batches_at_once(self._scheduler, worker)
        self._core.jobs.node_came(worker)
        self._core.notify_change()
        self._core.dispatcher.soon()

    def unfit(self, worker: str, reason: str) -> None:
        """Hear that a worker cannot be a node: who waits for it, and who runs, is told."""
        self._unfit[worker] = reason
        line = f"raycompat: the Dask worker {worker} is no node: {reason}"
        logger.error(line)
        for job in self._core.jobs.open:
            self._core.logs.tell(job, line)
        self._core.notify_change()

    def left(self, worker: str) -> None:
        """Forget a node; its calls have already left it (see `Calls.follow`)."""
        core = self._core
        self._unfit.pop(worker, None)
        info = self.info.pop(worker, None)
        if info is not None:
            self._departed.append({"address": worker, **info, "ended": time.time()})
            core.relays.lose(worker)
            core.surveys.lose(worker)
            core.logs.lose_node(worker)
            core.ledger.remove_node(worker)
            core.groups.node_left(worker)
            core.calls.node_left(worker)
            core.jobs.node_left(worker)
        core.notify_change()
        core.dispatcher.soon()

    async def wait_until_ready(self, at_least: int, timeout_s: float) -> dict[str, Any]:
        """Return the nodes, once every Dask worker that is there now has reported.

        And the addresses of those that have not in time, and why others cannot be nodes. `at_least`
        so many are waited for, unless there are others that cannot.
        """

        def silent() -> list[str]:
            known = self.info.keys() | self._unfit.keys()
            return [address for address in self._scheduler.workers if address not in known]

        def is_settled() -> bool:
            return not silent() and (len(self.info) >= at_least or bool(self._unfit))

        await self._wait_until(is_settled, timeout_s)
        nodes = [{"address": address, **info} for address, info in self.info.items()]
        return {"nodes": nodes, "silent": silent(), "unfit": dict(self._unfit)}

    async def wait_for_nodes(self, count: int, timeout_s: float) -> bool:
        """Return whether there are exactly so many nodes, in time."""
        return await self._wait_until(lambda: len(self.info) == count, timeout_s)

    async def _wait_until(
        self, condition: Callable[[], bool], timeout_s: float | None = None
    ) -> bool:
        """Wait until nodes have come and gone such that a condition holds; whether it does, in time."""
        try:
            async with asyncio.timeout(timeout_s):
                while not condition():
                    await self._core.changed.wait()
        except TimeoutError:
            return condition()
        return True

    async def fetch(self, node: str, keys: list[str], host: str) -> list[dict[str, Any]]:
        """Ask a node for values, for a caller that cannot reach it (see `_node.fetcher`).

        Raises
        ------
        OSError
            When it is not there, or leaves before it has answered.
        """
        asking = asyncio.ensure_future(dask.fetch_from(self._scheduler, node, keys, host))
        leaving = asyncio.ensure_future(self._wait_until(lambda: node not in self.info))
        try:
            await asyncio.wait([asking, leaving], return_when=asyncio.FIRST_COMPLETED)
            if asking.done():
                return asking.result()
            raise OSError(f"{node} has left the cluster")
        finally:
            asking.cancel()
            leaving.cancel()

    def id_of(self, address: str | None) -> str | None:
        """Return the id of the node at an address, also if it has left; None if there was none."""
        info = self.info.get(address or "")
        if info is None:
            left = (each for each in reversed(self._departed) if each["address"] == address)
            info = next(left, None)
        return str(info["node_id"]) if info is not None else None

    def address_of(self, node: str) -> str | None:
        """Return the address of a node, given its id or its IP address; None if it is not there."""
        return next(
            (each for each, info in self.info.items() if node in (info["node_id"], info["ip"])),
            None,
        )

    def departed(self) -> list[dict[str, Any]]:
        """Return the nodes that have left, the last of them."""
        return list(self._departed)

    def state(self) -> dict[str, Any]:
        """Return the nodes with what they have and what is free, for `ray.nodes` and the like."""
        return {
            "nodes": [
                {
                    "address": address,
                    **info,
                    "resources": self._core.ledger.node_total(address).amounts(),
                    "available": self._core.ledger.node_available(address).amounts(),
                }
                for address, info in self.info.items()
            ],
            "departed": list(self._departed),
            "total": self._core.ledger.cluster_total().amounts(),
            "available": self._core.ledger.cluster_available().amounts(),
            "stored": sum(worker.nbytes for worker in self._scheduler.workers.values()),
            "pending": self._core.dispatcher.pending(),
            "dashboard": self._dashboard(),
        }

    def _dashboard(self) -> str | None:
        """Return what opens the dashboard, if there is one: an application beside Dask's own."""
        server = self._scheduler.http_server
        has_pages = bool(self._scheduler.http_application.applications)
        return _security.link(server, f"{server.address}:{server.port}") if has_pages else None
