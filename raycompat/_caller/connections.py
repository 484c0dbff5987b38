"""The connections from a caller to the process that runs its calls. All carry the same messages.

On one host it is a Unix socket to the process. On another host, it is a connection to that process's
node, which passes the frames on: it uses Dask's network and the same TLS. If the node cannot be
reached, the scheduler's streams carry the frames: that is slower, and works wherever the cluster works.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import socket
import uuid
from collections.abc import Callable
from itertools import chain
from typing import TYPE_CHECKING, Any, TypeAlias

from raycompat._host import unix_socket
from raycompat._messages import direct
from raycompat._messages.actors import ActorState
from raycompat._messages.leases import LeaseGranted
from raycompat._messages.nodes import OpenChannel
from raycompat._messages.relays import RelayClose, RelayData, RelayOpen
from raycompat._protocol import frames
from raycompat._protocol.connection import Connection, Notes, post_and_note

if TYPE_CHECKING:
    from raycompat._caller.call_connection import Party
    from raycompat._caller.membership import Membership

logger = logging.getLogger(__name__)

#: The kinds of connections that may be used, for tests and for networks where one of them is slow: some
#: of "unix", "node" and "scheduler", separated by commas.
CONNECTIONS_VARIABLE = "RAYCOMPAT_CONNECTIONS"

#: Seconds after which a node that does not answer counts as unreachable.
_CONNECT_S = 5.0

#: Seconds after which a process with a full queue of new callers is tried again.
_BUSY_S = 0.05


#: Where a process accepts calls: the scheduler's report about an actor or a lease.
Place: TypeAlias = ActorState | LeaseGranted


def _allowed() -> list[str]:
    return os.environ.get(CONNECTIONS_VARIABLE, "unix,node,scheduler").split(",")


async def connect(session: Membership, place: Place, party: Party) -> None:
    """Connect `party` to the process at `place`, by the first kind of connection that works."""
    allowed = _allowed()
    same_host = place.host == session.setup.host
    try:
        if "unix" in allowed and same_host and await _by_socket(session, place, party):
            return
        reaches_nodes = "node" in allowed and session.setup.reaches_nodes
        if reaches_nodes and await _by_node(session, place, party):
            return
        await through_the_scheduler(session, place, party)
    except Exception:
        if not session.closed:  # a closed session needs no connection
            logger.exception("raycompat could not connect to %s", party.key)
        party.connect_failed()


async def _by_socket(session: Membership, place: Place, party: Party) -> bool:
    with contextlib.ExitStack() as if_it_fails:
        stream = if_it_fails.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM))
        stream.setblocking(False)
        try:
            await unix_socket.reach(stream, place.socket, _BUSY_S)
        except OSError as error:  # the process has just died, or is in another network namespace
            logger.debug("no Unix socket to %s: %r", party.key, error)
            return False
        if not unix_socket.is_of_this_user(stream):
            logger.warning("another user of this host listens in place of %s", party.key)
            return False
        connection = Connection(
            stream,
            session.pump,
            party.on_message,
            lambda: party.disconnected(connection),
            party.refused,
        )
        session.pump.add(connection, listen=False)
        if_it_fails.pop_all()
    try:
        party.connected(connection, place.incarnation)
    finally:
        connection.listen()  # only now: its end must not be reported before its start
    return True


class RelayedConnection:
    """A connection whose frames another process passes on: `send` sends them in the event loop."""

    def __init__(
        self,
        session: Membership,
        party: Party,
        send: Callable[[bytes], None],
        end: Callable[[], None],
    ) -> None:
        self._session = session
        self._party = party
        self._send = send
        self._end = end
        self._posted: list[direct.FromCaller] = []
        self._flush_due = False
        self._encoder = frames.Encoder()
        self._rest = b""
        self.closed = False

    def post(self, message: direct.FromCaller, *, now: bool, notes: Notes = ()) -> None:
        """Write a message behind the earlier ones, soon; `now` has no effect."""
        post_and_note(self._posted, message, notes)
        if not self._flush_due:
            self._flush_due = True
            try:
                self._session.call_soon(self._flush)
            except BaseException:
                self._flush_due = False
                raise

    def flush(self) -> None:
        """Do nothing: posted messages are already on their way to the event loop."""

    def _flush(self) -> None:
        self._flush_due = False
        posted = self._posted.copy()  # the list stays: another thread may be about to append to it
        del self._posted[: len(posted)]
        if posted and not self.closed:
            frame, refused = self._encoder.encode_all(posted)
            if frame is not None:
                self._send(frame)
            for message, why in refused:
                self._party.refused(message, why)

    def receive_until(self, is_over: Callable[[], bool], timeout_s: float | None) -> bool:
        """Return False: the event loop handles all answers."""
        return False

    @property
    def is_silent(self) -> bool:
        """Return True: the event loop handles all data as soon as it reads it."""
        return True

    def on_data(self, data: bytes | None) -> None:
        """Handle data that has arrived; None is the end."""
        if data is None:
            self.close()
            self._party.disconnected(self)
            return
        batches, position = frames.split(self._rest + data)
        self._rest = (self._rest + data)[position:]
        for message in chain.from_iterable(batches):
            try:
                self._party.on_message(message)
            except Exception:  # a channel must not die of one message
                logger.exception("raycompat could not handle a message")

    def close(self) -> None:
        """Close this end."""
        if not self.closed:
            self.closed = True
            self._end()


async def _by_node(session: Membership, place: Place, party: Party) -> bool:
    from raycompat._dask import client as adapter

    try:
        comm = await adapter.open_comm(session.client, place.address, _CONNECT_S)
        await comm.write({**OpenChannel(party.key).to_wire(), "reply": False})
        greeting = await asyncio.wait_for(comm.read(), _CONNECT_S)
    except (OSError, TimeoutError) as error:
        logger.debug("no connection to the node %s: %r", place.address, error)
        return False
    if greeting != b"open":
        comm.abort()
        party.connect_failed()  # the process has ended: the scheduler will report it
        return True
    outgoing: asyncio.Queue[bytes] = asyncio.Queue()
    connection = RelayedConnection(session, party, outgoing.put_nowait, comm.abort)
    writing = asyncio.ensure_future(_write_all(comm, outgoing))
    party.connected(connection, place.incarnation)
    try:
        while (data := await comm.read()) != b"end":
            connection.on_data(data)
        connection.on_data(None)
    except OSError:  # Dask's CommClosedError is an OSError
        if not connection.closed:
            party.broken(connection)
    finally:
        writing.cancel()
        comm.abort()
    return True


async def _write_all(comm: Any, outgoing: asyncio.Queue[bytes]) -> None:
    try:
        while True:
            await comm.write(await outgoing.get())
    except OSError as error:  # the reader has noticed it too
        logger.debug("a channel through a node has ended: %r", error)


async def through_the_scheduler(session: Membership, place: Place, party: Party) -> None:
    """Connect `party` through the scheduler, whose streams carry the frames."""
    name = uuid.uuid4().hex

    def send(data: bytes) -> None:
        session.send(RelayData(name, data))

    def end() -> None:
        session.relays.pop(name, None)
        session.send(RelayClose(name))

    connection = RelayedConnection(session, party, send, end)
    session.relays[name] = connection.on_data
    session.send(RelayOpen(name, party.key))
    party.connected(connection, place.incarnation)
