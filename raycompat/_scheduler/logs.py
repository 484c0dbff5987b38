"""What executors print, on its way from their nodes to the driver, and what the driver says of it."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

from raycompat import _dask_adapter as dask
from raycompat._protocol.operations import ToCaller, ToNode, ToScheduler

if TYPE_CHECKING:
    from raycompat._scheduler.core import Core


class Logs:
    """See the module."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self._scheduler = core.scheduler
        self._tokens = itertools.count()
        #: Who wants to know when all was sent, and the nodes that have not said so, by token.
        self._flushes: dict[int, tuple[str, set[str]]] = {}

    def handlers(self) -> dict[str, Any]:
        """Return the handlers of the streams' messages."""
        return {
            ToScheduler.LOG: self.to_driver,
            ToScheduler.LOG_PRINTED: self._printed,
            ToScheduler.FLUSH_LOGS: self._flush,
            ToScheduler.LOGS_FLUSHED: self._flushed,
        }

    def to_driver(self, job: str, worker: str = "", **message: Any) -> None:
        """Pass on what a job has printed."""
        if job in self._core.jobs.open:
            message |= {"op": ToCaller.LOG, "worker": worker}
            dask.tell_client(self._scheduler, self._core.jobs.open[job].client, message)

    def tell(self, job: str, line: str) -> None:
        """Send a driver a line of ours to print."""
        self.to_driver(
            job, stream="stderr", name="", pid=0, ip="", data=line.encode(), ends=True, cost=0
        )

    def _printed(self, client: str, worker: str, job: str, cost: int) -> None:
        if worker in self._core.nodes.info:
            message = {"op": ToNode.LOG_PRINTED, "job": job, "cost": cost}
            dask.tell_worker(self._scheduler, worker, message)

    def _flush(self, client: str, job: str) -> None:
        """Ask all nodes for what a job has printed; answer when they have sent it."""
        token = next(self._tokens)
        self._flushes[token] = (client, set(self._core.nodes.info))
        message = {"op": ToNode.FLUSH_LOGS, "job": job, "token": token}
        for worker in self._core.nodes.info:
            dask.tell_worker(self._scheduler, worker, message)
        self._answer(token)

    def _flushed(self, worker: str, token: int) -> None:
        if token in self._flushes:
            self._flushes[token][1].discard(worker)
            self._answer(token)

    def _answer(self, token: int) -> None:
        client, workers = self._flushes[token]
        if not workers:
            del self._flushes[token]
            dask.tell_client(self._scheduler, client, {"op": ToCaller.LOGS_FLUSHED})

    async def names(self, node: str, pattern: str) -> dict[str, Any]:
        """Return the names of a node's files that match a pattern."""
        return await self.of_node(node, "raycompat_log_names", pattern=pattern)

    async def read(self, node: str, name: str, position: int, tail: int) -> dict[str, Any]:
        """Return a part of a node's file."""
        question = {"name": name, "position": position, "tail": tail}
        return await self.of_node(node, "raycompat_log_read", **question)

    async def of_node(self, node: str, operation: str, **question: Any) -> dict[str, Any]:
        """Ask a node, given by its id or IP address, for its files (see `_node.log_files`).

        What is wrong is returned as ``error``.
        """
        address = self._core.nodes.address_of(node)
        if address is None:
            text = f"There is no node {node!r} in the cluster; list_nodes() has their ids."
            return {"error": text}
        found: dict[str, Any] = await dask.ask_node(self._scheduler, address, operation, **question)
        return found

    def lose_node(self, worker: str) -> None:
        """Wait no more for a node that is gone."""
        for token in list(self._flushes):
            self._flushed(worker, token)

    def lose_client(self, client: str) -> None:
        """Forget what a client wanted to know that is gone."""
        for token in [each for each, (who, _) in self._flushes.items() if who == client]:
            del self._flushes[token]
