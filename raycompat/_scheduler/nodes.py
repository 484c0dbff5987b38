"""Nodes: Dask workers that are raycompat nodes, those that cannot be, and those that have left."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from raycompat._messages.nodes import (
    Amounts,
    DepartedNode,
    Dismiss,
    FoundNodes,
    NodeInfo,
    NodeReady,
    Resign,
    Unfit,
)
from raycompat._messages.objects import Fetch
from raycompat._messages.watching import Gpus
from raycompat._protocol.resource_set import ResourceSet
from raycompat._scheduler import stores

if TYPE_CHECKING:
    from raycompat._scheduler.parts import Parts

logger = logging.getLogger(__name__)

#: Seconds for a worker that has ended to come back: those that Dask gives restarted workers by default.
_RETURN_S = 30.0

#: The most seconds for which the end of a restart is awaited.
_LONG_RETURN_S = 300.0

#: The number of departed nodes that `ray.nodes` still shows.
_MANY_DEPARTED = 1000


class Nodes:
    """The nodes of the cluster."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._dask = parts.dask
        #: The report of each node, by its address.
        self.info: dict[str, NodeInfo] = {}
        #: The number of drivers that wait for nodes.
        self._num_awaiting = 0
        #: Workers that cannot be nodes, and why.
        self._unfit: dict[str, str] = {}
        #: When workers have joined, by the monotonic clock; others were there before the plugin.
        self._joined: dict[str, float] = {}
        self._began = time.monotonic()
        #: Until when nodes may come back, by the monotonic clock, and how many there were.
        self._return_until, self._num_before = 0.0, 0
        #: The nodes that have left last.
        self._departed: deque[DepartedNode] = deque(maxlen=_MANY_DEPARTED)
        #: The ids of the nodes that have left last, by address.
        self._former_ids: dict[str, str] = {}

    @property
    def is_awaited(self) -> bool:
        """Whether a driver waits for nodes."""
        return self._num_awaiting > 0

    def ready(self, worker: str, message: NodeReady) -> None:
        """Handle a worker's report that it is a node, with its resources."""
        info = message.info
        self._unfit.pop(worker, None)
        if worker not in self.info:
            text = f"The node {info['name']} ({info['ip']}) has joined the cluster."
            self._parts.events.note("INFO", "RAYLET", text, node_id=info["node_id"])
        self.info[worker] = info
        total = ResourceSet.from_units(info["total"])
        self._parts.ledger.add_node(worker, total, info["gpu_ids"])
        self._parts.guest.node_came(worker)
        self._parts.jobs.node_came(worker)
        self._parts.notify_change()
        self._parts.dispatcher.soon()

    def on_gpus(self, worker: str, message: Gpus) -> None:
        """Record what the GPUs do that a node can use."""
        if worker in self.info:
            self.info[worker]["gpus"] = message.gpus

    def current(self, worker: str) -> NodeInfo:
        """Return the report of a node, with those of its GPUs only that belong to it now.

        It reports all that it can use, and other nodes of its host may have some of them.
        """
        info, ledger = self.info[worker].copy(), self._parts.ledger
        info["total"] = ledger.node_total(worker).units()
        if "gpus" in info:
            own = ledger.gpus_of(worker)
            info["gpus"] = [each for each in info["gpus"] if each["index"] in own]
        return info

    def unfit(self, worker: str, message: Unfit) -> None:
        """Handle a report that a worker cannot be a node; notify all drivers."""
        self._unfit[worker] = message.reason
        line = f"raycompat: the Dask worker {worker} is not a node: {message.reason}"
        logger.error(line)
        for job in self._parts.jobs.open:
            self._parts.logs.tell(job, line)
        self._parts.notify_change()

    def resigned(self, worker: str, message: Resign) -> None:
        """Handle a worker's wish to be a node no more, because its plugin was removed."""
        if not self._parts.guest.is_detaching():  # otherwise it is dismissed with the others
            self.dismiss(worker)

    def dismiss(self, worker: str) -> None:
        """Let a worker be a node no more; it goes on as a worker of Dask."""
        if worker in self.info:
            self.left(worker)
            self._parts.guest.expect_end_of(worker)
            self._dask.notify_node(worker, Dismiss())

    def expect_return(self, seconds: float | None) -> None:
        """Note that nodes that leave now may come back within a time: most are started again.

        None and long times count as a few minutes, because not all come back.
        """
        now = time.monotonic()
        seconds = _LONG_RETURN_S if seconds is None else min(seconds, _LONG_RETURN_S)
        if now >= self._return_until:
            self._num_before = 0
        self._num_before = max(self._num_before, len(self.info))
        self._return_until = max(self._return_until, now + seconds)

    def may_come(self) -> bool:
        """Return whether a node may come soon: a worker has joined, or has ended and may return."""
        if time.monotonic() < self._return_until and len(self.info) < self._num_before:
            return True
        since = time.monotonic() - _RETURN_S
        return any(self._joined.get(each, self._began) > since for each in self._silent())

    def joined(self, worker: str) -> None:
        """Note that a worker has joined, which says later whether it is a node."""
        self._joined[worker] = time.monotonic()

    def left(self, worker: str, *, is_worker: bool = True) -> None:
        """Remove a node; its calls have already left it (see `Calls.follow`).

        `is_worker` says whether it goes on as a worker of Dask.
        """
        parts = self._parts
        if not is_worker:
            self._joined.pop(worker, None)
            if worker in self.info:
                self.expect_return(_RETURN_S)
        parts.guest.node_left(worker, is_worker=is_worker)
        self._unfit.pop(worker, None)
        if worker in self.info:
            is_expected = is_worker or bool(parts.restarts.cause(worker))
            self._note_departed(worker, self.current(worker), is_expected=is_expected)
            del self.info[worker]
            parts.draining.forget(worker)
            parts.relays.lose(worker)
            parts.surveys.lose(worker)
            parts.logs.lose_node(worker)
            parts.metrics.lose(worker)
            parts.ledger.remove_node(worker)
            parts.groups.node_left(worker)
            parts.calls.node_left(worker)
            parts.objects.node_left(worker)
            parts.jobs.node_left(worker)
        parts.notify_change()
        parts.dispatcher.soon()

    def _note_departed(self, worker: str, info: NodeInfo, *, is_expected: bool) -> None:
        text = f"The node {info['name']} ({info['ip']}) has left the cluster."
        self._parts.events.note("WARNING", "RAYLET", text, node_id=info["node_id"])
        gone = DepartedNode(**info, address=worker, ended=time.time(), is_expected=is_expected)
        self._departed.append(gone)
        self._former_ids.pop(worker, None)
        self._former_ids[worker] = str(info["node_id"])
        if len(self._former_ids) > _MANY_DEPARTED:
            del self._former_ids[next(iter(self._former_ids))]

    def _silent(self) -> list[str]:
        """Return the workers that have not reported yet whether they are nodes."""
        known = self.info.keys() | self._unfit.keys()
        return [address for address in self._dask.workers() if address not in known]

    async def wait_until_ready(self, at_least: int, timeout_s: float) -> FoundNodes:
        """Return the nodes, once every connected Dask worker has reported.

        The result also has the addresses of workers that did not report in time, why others cannot be
        nodes, and the place of the dashboard. It waits for `at_least` nodes, unless there are workers
        that cannot be nodes.
        """

        def is_settled() -> bool:
            return not self._silent() and (len(self.info) >= at_least or bool(self._unfit))

        self._num_awaiting += 1
        try:
            await self._wait_until(is_settled, timeout_s)
        finally:
            self._num_awaiting -= 1
        return {
            "nodes": [{**info, "address": address} for address, info in self.info.items()],
            "silent": self._silent(),
            "unfit": dict(self._unfit),
            "dashboard": self._parts.link_of_dashboard(),
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
                    await self._parts.changed.wait()
        except TimeoutError:
            return condition()
        return True

    async def fetch(self, request: Fetch) -> list[dict[str, Any]]:
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

    def id_of(self, address: str | None) -> str | None:
        """Return the id of the node at an address, also of one that has left; None if unknown."""
        if address is None:
            return None
        info = self.info.get(address)
        return str(info["node_id"]) if info is not None else self._former_ids.get(address)

    def address_of(self, node: str) -> str | None:
        """Return the address of a node by its id or its IP address; None if unknown."""
        return next(
            (each for each, info in self.info.items() if node in (info["node_id"], info["ip"])),
            None,
        )

    def find(self, node: str) -> list[str]:
        """Return the addresses of the nodes whose ids begin with a text."""
        return [
            each for each, info in self.info.items() if node and info["node_id"].startswith(node)
        ]

    def departed(self) -> list[DepartedNode]:
        """Return the nodes that have left last."""
        return list(self._departed)

    def state(self) -> dict[str, Any]:
        """Return the nodes with their total and free resources, for `ray.nodes` and others."""
        bytes_of, free = stores.stored(self._parts), stores.available(self._parts)
        return {
            "nodes": [
                {
                    "address": address,
                    **info,
                    "resources": self._parts.ledger.node_total(address).amounts(),
                    "available": free[address].amounts(),
                    "draining": str(self._parts.draining.get(address) or ""),
                    "spilled": bytes_of[address].disk,
                }
                for address, info in self.info.items()
            ],
            "departed": list(self._departed),
            "unfit": dict(self._unfit),
            **self.resources(),
            "stored": sum(each.memory for each in bytes_of.values()),
            "pending": self._parts.dispatcher.pending(),
            "dashboard": self._parts.link_of_dashboard(),
        }

    def resources(self) -> Amounts:
        """Return the total and free resources of all nodes together."""
        free = sum(stores.available(self._parts).values(), ResourceSet())
        return {
            "total": self._parts.ledger.cluster_total().amounts(),
            "available": free.amounts(),
        }

    async def current_state(self) -> dict[str, Any]:
        """Return the same as `state`, with the bytes of objects as they are now."""
        await self._parts.surveys.renew_own()
        return self.state()

    async def current_resources(self) -> Amounts:
        """Return the same as `resources`, with the bytes of objects as they are now."""
        await self._parts.surveys.renew_own()
        return self.resources()
