"""Channels that go through the scheduler: which node and which client are at the ends of each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from raycompat import _dask_adapter as dask
from raycompat._protocol.operations import ToCaller, ToNode

if TYPE_CHECKING:
    from raycompat._scheduler.core import Core


class Relays:
    """See the module; `_node.relay` has the node's end and `_caller.roads` the caller's."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self._scheduler = core.scheduler
        self._ends: dict[str, tuple[str, str]] = {}

    def open(self, client: str, relay: str, actor: str) -> None:
        """Connect a client with the node of an actor; without one, say at once that it is over."""
        call = self._core.calls.by_key.get(actor)
        address = call.address if call is not None else None
        if address is None or address not in self._scheduler.workers:
            self._tell_client(client, relay, None)
            return
        self._ends[relay] = (client, address)
        self._tell_node(address, {"op": ToNode.RELAY_OPEN, "relay": relay, "actor": actor})

    def data(
        self, relay: str, data: bytes | None, client: str | None = None, worker: str | None = None
    ) -> None:
        """Pass on what one end sends to the other."""
        if client is not None and data is not None:
            self.to_node(client, relay, data)
        elif worker is not None:
            self.to_client(worker, relay, data)

    def to_node(self, client: str, relay: str, data: bytes) -> None:
        """Pass on what a client sends."""
        if relay in self._ends:
            message = {"op": ToNode.RELAY_DATA, "relay": relay, "data": data}
            self._tell_node(self._ends[relay][1], message)

    def to_client(self, worker: str, relay: str, data: bytes | None) -> None:
        """Pass on what a node sends; None is the end."""
        if relay in self._ends:
            self._tell_client(self._ends[relay][0], relay, data)
            if data is None:
                del self._ends[relay]

    def close(self, client: str, relay: str) -> None:
        """Close what a client has closed."""
        ends = self._ends.pop(relay, None)
        if ends is not None:
            self._tell_node(ends[1], {"op": ToNode.RELAY_CLOSE, "relay": relay})

    def lose(self, end: str) -> None:
        """Close what a client or node that is gone had open."""
        for relay, (client, address) in list(self._ends.items()):
            if client == end:
                self.close(client, relay)
            elif address == end:
                self.to_client(address, relay, None)

    def _tell_client(self, client: str, relay: str, data: bytes | None) -> None:
        message = {"op": ToCaller.RELAY_DATA, "relay": relay, "data": data}
        dask.tell_client(self._scheduler, client, message)

    def _tell_node(self, address: str, message: dict[str, Any]) -> None:
        if address in self._scheduler.workers:
            dask.tell_worker(self._scheduler, address, message)
