"""Channels that go through the scheduler: the node and the client at the ends of each."""

from __future__ import annotations

from typing import TYPE_CHECKING

from raycompat._messages.relays import RelayAnswer, RelayClose, RelayData, RelayOpen
from raycompat._protocol.message import ToNode

if TYPE_CHECKING:
    from raycompat._scheduler.ground import Ground


class Relays:
    """The open relays. `_node.relay` has the node's end, and `_caller.connections` the caller's."""

    def __init__(self, ground: Ground) -> None:
        self._ground = ground
        self._dask = ground.dask
        self._ends: dict[str, tuple[str, str]] = {}

    def open(self, client: str, message: RelayOpen) -> None:
        """Connect a client to the node of an actor; if there is none, report the end at once."""
        call = self._ground.calls.by_key.get(message.actor)
        address = call.address if call is not None else None
        if address is None or address not in self._dask.workers():
            self._dask.notify_client(client, RelayAnswer(message.relay, None))
            return
        self._ends[message.relay] = (client, address)
        self._tell_node(address, message)

    def to_node(self, client: str, message: RelayData) -> None:
        """Forward data from a client."""
        if message.relay in self._ends:
            self._tell_node(self._ends[message.relay][1], message)

    def to_client(self, worker: str, message: RelayAnswer) -> None:
        """Forward data from a node; None is the end."""
        if message.relay in self._ends:
            self._dask.notify_client(self._ends[message.relay][0], message)
            if message.data is None:
                del self._ends[message.relay]

    def close(self, client: str, message: RelayClose) -> None:
        """Close a relay that its client has closed."""
        ends = self._ends.pop(message.relay, None)
        if ends is not None:
            self._tell_node(ends[1], message)

    def lose(self, end: str) -> None:
        """Close the relays of a client or node that has left."""
        for relay, (client, address) in list(self._ends.items()):
            if client == end:
                self.close(client, RelayClose(relay))
            elif address == end:
                self.to_client(address, RelayAnswer(relay, None))

    def _tell_node(self, address: str, message: ToNode) -> None:
        if address in self._dask.workers():
            self._dask.notify_node(address, message)
