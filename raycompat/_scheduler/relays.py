"""Channels that go through the scheduler: the node and the client at the ends of each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from raycompat import _dask_adapter as adapter
from raycompat._protocol.operations import ToCaller, ToNode

if TYPE_CHECKING:
    from raycompat._scheduler.parts import Parts


class Relays:
    """The open relays. `_node.relay` has the node's end, and `_caller.connections` the caller's."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._scheduler = parts.scheduler
        self._ends: dict[str, tuple[str, str]] = {}

    def open(self, client: str, relay: str, actor: str) -> None:
        """Connect a client to the node of an actor; if there is none, report the end at once."""
        call = self._parts.calls.by_key.get(actor)
        address = call.address if call is not None else None
        if address is None or address not in self._scheduler.workers:
            self._tell_client(client, relay, None)
            return
        self._ends[relay] = (client, address)
        self._tell_node(address, {"op": ToNode.RELAY_OPEN, "relay": relay, "actor": actor})

    def data(
        self, relay: str, data: bytes | None, client: str | None = None, worker: str | None = None
    ) -> None:
        """Forward data from one end to the other."""
        if client is not None and data is not None:
            self.to_node(client, relay, data)
        elif worker is not None:
            self.to_client(worker, relay, data)

    def to_node(self, client: str, relay: str, data: bytes) -> None:
        """Forward data from a client."""
        if relay in self._ends:
            message = {"op": ToNode.RELAY_DATA, "relay": relay, "data": data}
            self._tell_node(self._ends[relay][1], message)

    def to_client(self, worker: str, relay: str, data: bytes | None) -> None:
        """Forward data from a node; None is the end."""
        if relay in self._ends:
            self._tell_client(self._ends[relay][0], relay, data)
            if data is None:
                del self._ends[relay]

    def close(self, client: str, relay: str) -> None:
        """Close a relay that its client has closed."""
        ends = self._ends.pop(relay, None)
        if ends is not None:
            self._tell_node(ends[1], {"op": ToNode.RELAY_CLOSE, "relay": relay})

    def lose(self, end: str) -> None:
        """Close the relays of a client or node that has left."""
        for relay, (client, address) in list(self._ends.items()):
            if client == end:
                self.close(client, relay)
            elif address == end:
                self.to_client(address, relay, None)

    def _tell_client(self, client: str, relay: str, data: bytes | None) -> None:
        message = {"op": ToCaller.RELAY_DATA, "relay": relay, "data": data}
        adapter.tell_client(self._scheduler, client, message)

    def _tell_node(self, address: str, message: dict[str, Any]) -> None:
        if address in self._scheduler.workers:
            adapter.tell_worker(self._scheduler, address, message)
