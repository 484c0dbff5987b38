"""Forwarding of frames between actors' processes and callers that cannot reach them directly.

A caller on another host connects to the node, as Dask's workers and clients do (`Relays.serve`). If
that is impossible, it sends its frames through the scheduler, which forwards them on the node's stream
(`Relays.open`, `write`, `close`). The processes on the way do not decode frames.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from raycompat._dask import worker as adapter
from raycompat._host import unix_socket
from raycompat._messages.relays import RelayAnswer, RelayClose, RelayData, RelayOpen

if TYPE_CHECKING:
    from distributed import Worker

logger = logging.getLogger(__name__)

#: Bytes. One read of an actor's answers.
_READ_BYTES = 1 << 17


class Relays:
    """The relays of a node. `socket_of` returns the name of an actor's socket by its key."""

    def __init__(self, worker: Worker, socket_of: Callable[[str], str]) -> None:
        self._worker = worker
        self._socket_of = socket_of
        #: Frames that arrived through the scheduler and wait to be forwarded; None is the end.
        self._incoming: dict[str, asyncio.Queue[bytes | None]] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    async def _connect(
        self, actor: str
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter] | None:
        try:
            reader, writer = await asyncio.open_unix_connection(
                unix_socket.address(self._socket_of(actor))
            )
        except (KeyError, OSError) as error:
            logger.debug("the process of %s is not there: %r", actor, error)
            return None
        if not unix_socket.is_of_this_user(writer.get_extra_info("socket")):
            logger.warning("another user of this host listens in place of %s", actor)
            writer.close()
            return None
        return reader, writer

    # --- callers that connect to the node -------------------------------------------------------

    async def serve(self, comm: Any, actor: str) -> Any:
        """Forward frames between `comm` and the actor until one of them closes."""
        streams = await self._connect(actor)
        if streams is None:
            await comm.write(b"gone")
            return adapter.NO_REPLY
        reader, writer = streams
        await comm.write(b"open")
        back = asyncio.ensure_future(self._pass_back(reader, comm))
        self._tasks.add(back)
        back.add_done_callback(self._tasks.discard)
        try:
            while True:
                writer.write(await comm.read())
                await writer.drain()
        except OSError as error:  # the caller has closed, or the actor's process is gone
            logger.debug("a relayed channel has ended: %r", error)
        finally:
            writer.close()
            with contextlib.suppress(OSError):
                await back
        return adapter.NO_REPLY

    async def _pass_back(self, reader: asyncio.StreamReader, comm: Any) -> None:
        while data := await _read(reader):
            await comm.write(data)
        await comm.write(b"end")

    # --- callers through the scheduler ----------------------------------------------------------

    def open(self, message: RelayOpen) -> None:
        """Start forwarding the frames that arrive for a relay."""
        relay = message.relay
        incoming: asyncio.Queue[bytes | None] = asyncio.Queue()
        self._incoming[relay] = incoming
        task = asyncio.ensure_future(self._run(relay, message.actor, incoming))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def write(self, message: RelayData) -> None:
        """Forward frames of a caller."""
        if message.relay in self._incoming:
            self._incoming[message.relay].put_nowait(message.data)

    def close(self, message: RelayClose) -> None:
        """End a relay that its caller has closed."""
        if message.relay in self._incoming:
            self._incoming[message.relay].put_nowait(None)

    async def _run(self, relay: str, actor: str, incoming: asyncio.Queue[bytes | None]) -> None:
        streams = await self._connect(actor)
        if streams is not None:
            reader, writer = streams
            sending = asyncio.ensure_future(self._send_all(writer, incoming))
            while data := await _read(reader):
                self._tell(relay, data)
            sending.cancel()
            writer.close()
        del self._incoming[relay]
        self._tell(relay, None)

    async def _send_all(
        self, writer: asyncio.StreamWriter, incoming: asyncio.Queue[bytes | None]
    ) -> None:
        while (data := await incoming.get()) is not None:
            writer.write(data)
            await writer.drain()
        writer.close()

    def _tell(self, relay: str, data: bytes | None) -> None:
        adapter.tell_scheduler(self._worker, RelayAnswer(relay, data))

    def close_all(self) -> None:
        """End all relays, because the node closes."""
        for task in list(self._tasks):
            task.cancel()


async def _read(reader: asyncio.StreamReader) -> bytes:
    try:
        return await reader.read(_READ_BYTES)
    except OSError:  # the process has died with unread data
        return b""
