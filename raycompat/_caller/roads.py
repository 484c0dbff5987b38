"""The roads from a caller to an actor's process, all with the same messages.

On one host a Unix socket, straight into the process. Else a connection to the actor's node, which
passes the frames on: it goes where Dask's own traffic goes, with the same TLS. Where the node cannot be
reached either, the streams of the scheduler carry them: slower, never broken.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import uuid
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

from raycompat import _dask_adapter as dask
from raycompat._protocol.connection import Connection, encode, split_frames

if TYPE_CHECKING:
    from raycompat._caller.channel import Channel
    from raycompat._caller.session import Session

logger = logging.getLogger(__name__)

#: Says which roads may be taken, for tests and for networks where one of them is a detour: some of
#: "unix", "node" and "scheduler", separated by commas.
ROADS_VARIABLE = "RAYCOMPAT_ROADS"

#: Seconds until a node that does not answer counts as out of reach.
_CONNECT_S = 5.0

#: Seconds after which a process that has many callers waiting is asked again to accept one more.
_BUSY_S = 0.05


class Road(Protocol):
    """What a channel asks of its connection; see `Connection`."""

    def post(self, message: tuple[Any, ...], *, now: bool) -> None:
        """Write a message behind the earlier ones, at once or soon."""

    def flush(self) -> None:
        """Write all that has been posted."""

    def receive_until(self, is_over: Callable[[], bool], timeout_s: float | None) -> bool:
        """Read in this thread until `is_over()`; False when something else must be waited for."""

    def close(self) -> None:
        """Close this end."""


def _allowed() -> list[str]:
    return os.environ.get(ROADS_VARIABLE, "unix,node,scheduler").split(",")


async def connect(session: Session, place: dict[str, Any], channel: Channel) -> None:
    """Connect `channel` to the actor at `place`, by the best road that there is."""
    allowed = _allowed()
    same_host = place["host"] == session.setup.host
    try:
        if "unix" in allowed and same_host and await _by_socket(session, place, channel):
            return
        if "node" in allowed and await _by_node(session, place, channel):
            return
        await through_the_scheduler(session, place, channel)
    except Exception:
        logger.exception("raycompat could not connect to %s", channel.actor)
        channel.expect_news()


async def _by_socket(session: Session, place: dict[str, Any], channel: Channel) -> bool:
    stream = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    stream.setblocking(False)
    while True:
        try:
            stream.connect("\0" + place["socket"])
            break
        except BlockingIOError:  # more callers than it has accepted: it is busy in a method
            await asyncio.sleep(_BUSY_S)
        except OSError as error:  # it has just died, or it is in another network namespace
            logger.debug("no Unix socket to %s: %r", channel.actor, error)
            stream.close()
            return False
    connection = Connection(
        stream, session.pump, channel.on_message, lambda: channel.disconnected(connection)
    )
    session.pump.add(connection, listen=True)
    channel.connected(connection, place["incarnation"])
    return True


class RelayedRoad:
    """A road on which somebody passes the frames on: `send` gives them away, in the event loop."""

    def __init__(
        self,
        session: Session,
        channel: Channel,
        send: Callable[[bytes], None],
        end: Callable[[], None],
    ) -> None:
        self._session = session
        self._channel = channel
        self._send = send
        self._end = end
        self._posted: list[tuple[Any, ...]] = []
        self._flush_due = False
        self._rest = b""
        self.closed = False

    def post(self, message: tuple[Any, ...], *, now: bool) -> None:
        """Write a message behind the earlier ones, soon: `now` is the same here."""
        self._posted.append(message)
        if not self._flush_due:
            self._flush_due = True
            self._session.call_soon(self._flush)

    def flush(self) -> None:
        """Do nothing: what was posted is on its way to the event loop."""

    def _flush(self) -> None:
        self._flush_due = False
        posted, self._posted = self._posted, []
        if posted and not self.closed:
            self._send(encode(posted))

    def receive_until(self, is_over: Callable[[], bool], timeout_s: float | None) -> bool:
        """Decline: answers come to the event loop."""
        return False

    def on_data(self, data: bytes | None) -> None:
        """Handle what has arrived; None is the end."""
        if data is None:
            self.close()
            self._channel.disconnected(self)
            return
        messages, position = split_frames(self._rest + data)
        self._rest = (self._rest + data)[position:]
        for message in messages:
            try:
                self._channel.on_message(message)
            except Exception:  # a channel must not die of one message
                logger.exception("raycompat could not handle a message")

    def close(self) -> None:
        """Close this end."""
        if not self.closed:
            self.closed = True
            self._end()


async def _by_node(session: Session, place: dict[str, Any], channel: Channel) -> bool:
    try:
        comm = await dask.open_comm(session.client, place["address"], _CONNECT_S)
        await comm.write({"op": "raycompat_channel", "actor": channel.actor, "reply": False})
        greeting = await asyncio.wait_for(comm.read(), _CONNECT_S)
    except (OSError, TimeoutError) as error:
        logger.debug("no connection to the node %s: %r", place["address"], error)
        return False
    if greeting != b"open":
        comm.abort()
        channel.expect_news()  # the process has ended: the scheduler will say so
        return True
    outgoing: asyncio.Queue[bytes] = asyncio.Queue()
    road = RelayedRoad(session, channel, outgoing.put_nowait, comm.abort)
    writing = asyncio.ensure_future(_write_all(comm, outgoing))
    channel.connected(road, place["incarnation"])
    try:
        while (data := await comm.read()) != b"end":
            road.on_data(data)
        road.on_data(None)
    except OSError:  # Dask's CommClosedError is one
        if not road.closed:
            channel.broken(road)
    finally:
        writing.cancel()
        comm.abort()
    return True


async def _write_all(comm: Any, outgoing: asyncio.Queue[bytes]) -> None:
    try:
        while True:
            await comm.write(await outgoing.get())
    except OSError as error:  # whoever reads has seen it too
        logger.debug("a channel through a node has ended: %r", error)


async def through_the_scheduler(session: Session, place: dict[str, Any], channel: Channel) -> None:
    """Connect `channel` by way of the scheduler: the node's stream and ours carry the frames."""
    name = uuid.uuid4().hex

    def send(data: bytes) -> None:
        session.send("raycompat-relay-data", relay=name, data=data)

    def end() -> None:
        session.relays.pop(name, None)
        session.send("raycompat-relay-close", relay=name)

    road = RelayedRoad(session, channel, send, end)
    session.relays[name] = road
    session.send("raycompat-relay-open", relay=name, actor=channel.actor)
    channel.connected(road, place["incarnation"])
