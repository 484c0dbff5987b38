"""Connections in one process: messages arrive in order, each after a random delay.

Messages of different connections overtake each other. A connection that breaks loses what is on its way.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from random import Random
from typing import Any

import msgpack
from distributed.core import CommClosedError

#: The smallest difference between the arrivals of two messages of one connection, in seconds.
_NEXT_S = 1e-6


class Network:
    """The delays of one history."""

    def __init__(self, seed: str) -> None:
        self._random = Random(f"{seed} network")
        #: How often a message is late, and by how many seconds at most. Some histories are calm.
        self._share_late = self._random.choice([0.0, 0.02, 0.2])
        self._late_s = self._random.choice([0.05, 0.5, 3.0])
        self.num_messages = 0

    def delay(self) -> float:
        """Return the seconds that the next message travels."""
        self.num_messages += 1
        if self._random.random() < self._share_late:
            return self._random.random() * self._late_s
        return self._random.uniform(0.0001, 0.002)


class Pipe:
    """One direction of a connection."""

    def __init__(self, network: Network, receive: Callable[[Any], None]) -> None:
        self._network = network
        self._receive = receive
        self._last = 0.0
        self._on_the_way: deque[asyncio.TimerHandle] = deque()
        self.is_closed = False
        #: What arrives while the receiver is stopped; None while it runs.
        self._held: list[Any] | None = None

    def send(self, message: Any) -> None:
        """Send a message; do nothing after the end of the connection."""
        if self.is_closed:
            return
        loop = asyncio.get_running_loop()
        self._last = max(self._last + _NEXT_S, loop.time() + self._network.delay())
        self._on_the_way.append(loop.call_at(self._last, self._arrive, message))

    def _arrive(self, message: Any) -> None:
        self._on_the_way.popleft()
        if self._held is not None:
            self._held.append(message)
        else:
            self._receive(message)

    def hold(self) -> None:
        """Keep what arrives, because the receiver is stopped."""
        if self._held is None:
            self._held = []

    def release(self) -> None:
        """Deliver what has arrived meanwhile."""
        held, self._held = self._held or [], None
        for message in held:
            self._receive(message)

    def cut(self, keep: int = 0) -> None:
        """End the connection; only `keep` of the messages on their way still arrive."""
        self.is_closed = True
        while len(self._on_the_way) > keep:
            self._on_the_way.pop().cancel()

    @property
    def num_on_the_way(self) -> int:
        """The number of messages that were sent and have not arrived."""
        return len(self._on_the_way)

    @property
    def is_read(self) -> bool:
        """Whether the receiver has handled all that was sent."""
        return not self._on_the_way and not self._held

    @property
    def arrives_last(self) -> float:
        """When the last message arrives."""
        return self._last


def as_received(message: dict[str, Any]) -> dict[str, Any]:
    """Return a message as it arrives: ours as msgpack makes it, of Dask's a shallow copy."""
    if message["op"].startswith("raycompat"):
        packed = msgpack.dumps(message, use_bin_type=True)
        return msgpack.loads(packed, use_list=False, strict_map_key=False)
    return dict(message)


class Connection:
    """The scheduler's end of a connection to a worker or client, as Dask uses it (a ``Comm``)."""

    def __init__(
        self,
        network: Network,
        address: str,
        on_message: Callable[[dict[str, Any]], None],
        on_lost: Callable[[], None],
    ) -> None:
        self.peer_address = self.local_address = address
        self.name = address
        self._to_peer = Pipe(network, on_message)
        self._from_peer = Pipe(network, self._received)
        self._on_lost = on_lost
        self._inbox: deque[dict[str, Any]] = deque()
        self._is_closed = False
        self._wake: asyncio.Future[None] | None = None
        #: Called before the scheduler reads each message of the peer.
        self.before_reading: Callable[[dict[str, Any]], None] = lambda message: None

    # --- the peer's end -------------------------------------------------------------------------

    def send(self, message: dict[str, Any]) -> None:
        """Send a message to the scheduler."""
        self._from_peer.send(as_received(message))

    def hang_up(self, keep: int) -> None:
        """End the connection from the peer's side; `keep` of its last messages still arrive."""
        self._to_peer.cut()
        keep = min(keep, self._from_peer.num_on_the_way)
        self._from_peer.cut(keep)
        loop = asyncio.get_running_loop()
        at = max(loop.time(), self._from_peer.arrives_last if keep else 0.0) + _NEXT_S
        loop.call_at(at, self._close)

    def hold(self) -> None:
        """Keep what the peer should receive, because it is stopped."""
        self._to_peer.hold()

    def release(self) -> None:
        """Let the peer receive again."""
        self._to_peer.release()

    # --- Dask's end -----------------------------------------------------------------------------

    def _received(self, message: dict[str, Any]) -> None:
        if not self._is_closed:
            self._inbox.append(message)
            self._notify()

    def _notify(self) -> None:
        if self._wake is not None and not self._wake.done():
            self._wake.set_result(None)

    async def read(self) -> tuple[dict[str, Any], ...]:
        """Return what has arrived."""
        while not self._inbox:
            if self._is_closed:
                raise CommClosedError(f"{self.name} has closed")
            self._wake = asyncio.get_running_loop().create_future()
            await self._wake
        message = self._inbox.popleft()
        self.before_reading(message)
        return (message,)

    def post(self, message: dict[str, Any]) -> None:
        """Send a message to the peer."""
        self._to_peer.send(as_received(message))

    async def write(self, message: dict[str, Any], **_: Any) -> int:
        """Drop a message: the only one is the answer to a worker's registration."""
        return 0

    def closed(self) -> bool:
        """Return whether the connection has ended."""
        return self._is_closed

    def _close(self) -> None:
        if not self._is_closed:
            self._is_closed = True
            self._to_peer.cut(keep=self._to_peer.num_on_the_way)
            self._notify()

    def abort(self) -> None:
        """End the connection from the scheduler's side."""
        if not self._is_closed:
            self._close()
            self._from_peer.cut()
            loop = asyncio.get_running_loop()
            loop.call_at(max(loop.time(), self._to_peer.arrives_last) + _NEXT_S, self._on_lost)

    async def close(self) -> None:
        """End the connection from the scheduler's side."""
        self.abort()


class Stream:
    """What Dask's ``BatchedSend`` is in the simulation: it sends at once."""

    def __init__(self, interval: Any, loop: Any = None, serializers: Any = None) -> None:
        self.interval = interval
        self.recent_message_log: deque[Any] = deque(maxlen=0)
        self.comm: Connection | None = None
        self._before_start: list[dict[str, Any]] = []

    def start(self, comm: Connection) -> None:
        """Begin to send."""
        self.comm = comm
        for message in self._before_start:
            comm.post(message)
        self._before_start.clear()

    def send(self, *messages: dict[str, Any]) -> None:
        """Send messages."""
        if self.comm is None:
            self._before_start += messages
            return
        if self.comm.closed():
            raise CommClosedError(f"{self.comm.name} has closed")
        for message in messages:
            self.comm.post(message)

    def closed(self) -> bool:
        """Return whether the connection has ended."""
        return self.comm is not None and self.comm.closed()

    def abort(self) -> None:
        """End the connection."""
        if self.comm is not None:
            self.comm.abort()

    async def close(self, timeout: Any = None) -> None:
        """End the connection."""
        self.abort()
