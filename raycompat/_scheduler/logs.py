"""The output of executors on its way from nodes to drivers, and the drivers' reports about it."""

from __future__ import annotations

import asyncio
import itertools
from typing import TYPE_CHECKING

from raycompat._messages.logs import (
    FlushLogs,
    FlushOutput,
    LogNames,
    LogsAwaited,
    LogsFlushed,
    OutputFlushed,
    OutputPiece,
    OutputPrinted,
    Printed,
    ReadLog,
)
from raycompat._messages.watching import ListStacks
from raycompat._protocol.message import Handler, handled_from

if TYPE_CHECKING:
    from raycompat._scheduler.ground import Ground
    from raycompat._scheduler.pulses import Pulses


#: Seconds between two messages that the answer to a flush will come. Drivers wait three for one.
_AWAITED_S = 1.0


class Logs:
    """Forwards output and its acknowledgements."""

    def __init__(
        self,
        ground: Ground,
        pulses: Pulses,
    ) -> None:
        self._ground = ground
        self._pulses = pulses
        self._dask = ground.dask
        self._tokens = itertools.count()
        #: The client of each flush, and the nodes that have not answered yet, by token.
        self._flushes: dict[int, tuple[str, set[str]]] = {}

    def handlers(self) -> list[tuple[str, Handler]]:
        """Return the handlers of the streams' messages."""
        return [
            handled_from(OutputPiece, self._to_driver),
            handled_from(Printed, self._printed),
            handled_from(FlushLogs, self._flush),
            handled_from(OutputFlushed, self._flushed),
        ]

    def _to_driver(self, worker: str, message: OutputPiece) -> None:
        """Send output of a job to its driver."""
        message.node = worker
        self._show(message)

    def tell(self, job: str, line: str) -> None:
        """Send a line of raycompat to a driver, to print."""
        data = line.encode()
        piece = OutputPiece(
            job, ip="", cost=0, pid=0, stream="stderr", name="", data=data, ends=True
        )
        self._show(piece)

    def _show(self, piece: OutputPiece) -> None:
        if piece.job in self._ground.jobs.open:
            self._dask.notify_client(self._ground.jobs.open[piece.job].client, piece)

    def _printed(self, client: str, message: Printed) -> None:
        if message.worker in self._ground.nodes.info:
            printed = OutputPrinted(message.job, message.cost)
            self._dask.notify_node(message.worker, printed)

    def _flush(self, client: str, message: FlushLogs) -> None:
        """Ask all nodes for the output of a job; answer when they have sent it."""
        token = next(self._tokens)
        self._flushes[token] = (client, set(self._ground.nodes.info))
        for worker in self._ground.nodes.info:
            self._dask.notify_node(worker, FlushOutput(message.job, token))
        self._answer(token)
        self._tell_that_it_comes(token)

    def _tell_that_it_comes(self, token: int) -> None:
        """Let the driver wait for nodes that are alive: one may be writing values to disk."""
        if token not in self._flushes:
            return
        client, workers = self._flushes[token]
        if all(map(self._pulses.hears, workers)):
            self._dask.notify_client(client, LogsAwaited())
        asyncio.get_running_loop().call_later(_AWAITED_S, self._tell_that_it_comes, token)

    def _flushed(self, worker: str, message: OutputFlushed) -> None:
        self._note_flushed(worker, message.token)

    def _note_flushed(self, worker: str, token: int) -> None:
        if token in self._flushes:
            self._flushes[token][1].discard(worker)
            self._answer(token)

    def _answer(self, token: int) -> None:
        client, workers = self._flushes[token]
        if not workers:
            del self._flushes[token]
            self._dask.notify_client(client, LogsFlushed())

    async def of_node(self, request: LogNames | ReadLog | ListStacks) -> dict[str, object]:
        """Ask a node for its files or stacks. An error is returned as ``error``."""
        node = request.node or ""
        address = self._ground.nodes.address_of(node)
        if address is None:
            text = f"There is no node {node!r} in the cluster; list_nodes() has their ids."
            return {"error": text}
        return await self._dask.ask_node(address, request)

    def lose_node(self, worker: str) -> None:
        """Stop waiting for a node that has left."""
        for token in list(self._flushes):
            self._note_flushed(worker, token)

    def lose_client(self, client: str) -> None:
        """Remove the flushes of a client that has left."""
        for token in [each for each, (who, _) in self._flushes.items() if who == client]:
            del self._flushes[token]
