"""Nodes: Dask workers that are raycompat nodes, those that cannot be, and those that have left."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

from raycompat._messages.nodes import (
    Amounts,
    Dismiss,
    FoundNodes,
    NodeReady,
    Resign,
    Unfit,
)
from raycompat._messages.objects import Fetch
from raycompat._messages.watching import Gpus
from raycompat._protocol.plain import Row
from raycompat._protocol.resource_set import ResourceSet
from raycompat._scheduler import stores
from raycompat._scheduler.node_table import RETURN_S
from raycompat._scheduler.stores import Stored

if TYPE_CHECKING:
    from raycompat._scheduler.calls import Calls
    from raycompat._scheduler.dispatcher import Dispatcher
    from raycompat._scheduler.ground import Ground
    from raycompat._scheduler.groups import Groups
    from raycompat._scheduler.guest import Guest
    from raycompat._scheduler.jobs import Jobs
    from raycompat._scheduler.logs import Logs
    from raycompat._scheduler.objects import Objects
    from raycompat._scheduler.relays import Relays
    from raycompat._scheduler.restarts import Restarts
    from raycompat._scheduler.survey import Surveys

logger = logging.getLogger(__name__)


class Nodes:
    """The nodes of the cluster."""

    def __init__(
        self,
        ground: Ground,
        calls: Calls,
        dispatcher: Dispatcher,
        groups: Groups,
        guest: Guest,
        jobs: Jobs,
        logs: Logs,
        objects: Objects,
        relays: Relays,
        restarts: Restarts,
        surveys: Surveys,
        link_of_dashboard: Callable[[], str | None],
    ) -> None:
        self._ground = ground
        self._dask = ground.dask
        self._calls = calls
        self._dispatcher = dispatcher
        self._groups = groups
        self._guest = guest
        self._jobs = jobs
        self._logs = logs
        self._objects = objects
        self._relays = relays
        self._restarts = restarts
        self._surveys = surveys
        self._link_of_dashboard = link_of_dashboard
        self._table = ground.nodes
        self.info = ground.nodes.info
        guest.dismiss = self.dismiss
        #: The number of drivers that wait for nodes.
        self._num_awaiting = 0

    @property
    def is_awaited(self) -> bool:
        """Whether a driver waits for nodes."""
        return self._num_awaiting > 0

    def ready(self, worker: str, message: NodeReady) -> None:
        """Handle a worker's report that it is a node, with its resources."""
        info = message.info
        self._table.unfit.pop(worker, None)
        if worker not in self.info:
            text = f"The node {info['name']} ({info['ip']}) has joined the cluster."
            self._ground.events.note("INFO", "RAYLET", text, node_id=info["node_id"])
        self.info[worker] = info
        total = ResourceSet.from_units(info["total"])
        self._ground.ledger.add_node(worker, total, info["gpu_ids"])
        self._guest.node_came(worker)
        self._jobs.node_came(worker)
        self._ground.next_change.notify()
        self._ground.next_round.soon()
        if self._guest.is_detaching():  # it has become a node too late
            self.dismiss(worker)

    def on_gpus(self, worker: str, message: Gpus) -> None:
        """Record what the GPUs do that a node can use."""
        if worker in self.info:
            self.info[worker]["gpus"] = message.gpus

    def unfit(self, worker: str, message: Unfit) -> None:
        """Handle a report that a worker cannot be a node; notify all drivers."""
        self._table.unfit[worker] = message.reason
        line = f"raycompat: the Dask worker {worker} is not a node: {message.reason}"
        logger.error(line)
        for job in self._ground.jobs.open:
            self._logs.tell(job, line)
        self._ground.next_change.notify()

    def resigned(self, worker: str, message: Resign) -> None:
        """Handle a worker's wish to be a node no more, because its plugin was removed."""
        if not self._guest.is_detaching():  # otherwise it is dismissed with the others
            self.dismiss(worker)

    def dismiss(self, worker: str) -> None:
        """Let a worker be a node no more; it goes on as a worker of Dask."""
        if worker in self.info:
            self.left(worker)
            self._guest.expect_end_of(worker)
            self._dask.notify_node(worker, Dismiss())

    def left(self, worker: str, *, is_worker: bool = True) -> None:
        """Remove a node; its calls have already left it (see `Calls.follow`).

        `is_worker` says whether it goes on as a worker of Dask.
        """
        if not is_worker:
            self._table.joined.pop(worker, None)
            if worker in self.info:
                self._table.expect_return(RETURN_S)
        self._guest.node_left(worker, is_worker=is_worker)
        self._table.unfit.pop(worker, None)
        if worker in self.info:
            is_expected = is_worker or bool(self._restarts.cause(worker))
            gone = self._table.remove(worker, is_expected=is_expected)
            text = f"The node {gone['name']} ({gone['ip']}) has left the cluster."
            self._ground.events.note("WARNING", "RAYLET", text, node_id=gone["node_id"])
            self._ground.drains.forget(worker)
            self._relays.lose(worker)
            self._surveys.lose(worker)
            self._logs.lose_node(worker)
            self._ground.watcher.process_left(worker)
            self._ground.ledger.remove_node(worker)
            self._groups.node_left(worker)
            self._calls.node_left(worker)
            self._objects.node_left(worker)
            self._jobs.node_left(worker)
        self._ground.next_change.notify()
        self._ground.next_round.soon()

    async def wait_until_ready(self, at_least: int, timeout_s: float) -> FoundNodes:
        """Return the nodes, once every connected Dask worker has reported.

        The result also has the addresses of workers that did not report in time, why others cannot be
        nodes, and the place of the dashboard. It waits for `at_least` nodes, unless there are workers
        that cannot be nodes.
        """

        def is_settled() -> bool:
            return not self._table.silent() and (
                len(self.info) >= at_least or bool(self._table.unfit)
            )

        self._num_awaiting += 1
        try:
            await self._wait_until(is_settled, timeout_s)
        finally:
            self._num_awaiting -= 1
        return {
            "nodes": [{**info, "address": address} for address, info in self.info.items()],
            "silent": self._table.silent(),
            "unfit": dict(self._table.unfit),
            "dashboard": self._link_of_dashboard(),
        }

    async def wait_for_nodes(self, count: int, timeout_s: float) -> bool:
        """Wait until there are exactly `count` nodes; False after the timeout."""
        return await self._wait_until(lambda: len(self.info) == count, timeout_s)

    async def _wait_until(
        self, condition: Callable[[], bool], timeout_s: float | None = None
    ) -> bool:
        """Wait, over changes of nodes, until a condition holds; False after the timeout."""
        try:
            async with asyncio.timeout(timeout_s):
                while not condition():
                    await self._ground.next_change.wait()
        except TimeoutError:
            return condition()
        return True

    async def fetch(self, request: Fetch) -> list[dict[str, object]]:
        """Ask a node for values, for a caller that cannot reach it (see `_node.fetcher`).

        Raises
        ------
        OSError
            When the node is unknown, or leaves before it has answered.
        """
        asking = asyncio.ensure_future(self._dask.ask_node(request.node, request))
        leaving = asyncio.ensure_future(self._wait_until(lambda: request.node not in self.info))
        try:
            await asyncio.wait([asking, leaving], return_when=asyncio.FIRST_COMPLETED)
            if asking.done():
                return asking.result()
            raise OSError(f"{request.node} has left the cluster")
        finally:
            asking.cancel()
            leaving.cancel()

    def state(self) -> Row:
        """Return the nodes with their total and free resources, for `ray.nodes` and others."""
        bytes_of, free = (
            self._stored(),
            self._free(),
        )
        return {
            "nodes": [
                {
                    "address": address,
                    **info,
                    "resources": self._ground.ledger.node_total(address).amounts(),
                    "available": free[address].amounts(),
                    "draining": str(self._ground.drains.get(address) or ""),
                    "spilled": bytes_of[address].disk,
                }
                for address, info in self.info.items()
            ],
            "departed": list(self._table.departed),
            "unfit": dict(self._table.unfit),
            **self.resources(),
            "stored": sum(each.memory for each in bytes_of.values()),
            "pending": self._dispatcher.pending(),
            "pending_groups": self._groups.pending(),
            "dashboard": self._link_of_dashboard(),
        }

    def _stored(self) -> dict[str, Stored]:
        return stores.stored(self._ground, self._surveys.own)

    def _free(self) -> dict[str, ResourceSet]:
        return stores.available(self._ground, self._surveys.own)

    def resources(self) -> Amounts:
        """Return the total and free resources of all nodes together."""
        free = sum(self._free().values(), ResourceSet())
        return {
            "total": self._ground.ledger.cluster_total().amounts(),
            "available": free.amounts(),
        }

    async def current_state(self) -> dict[str, object]:
        """Return the same as `state`, with the bytes of objects as they are now."""
        await self._surveys.renew_own()
        return self.state()

    async def current_resources(self) -> Amounts:
        """Return the same as `resources`, with the bytes of objects as they are now."""
        await self._surveys.renew_own()
        return self.resources()
