"""Replays what a real scheduler has heard (`raycompat._dask.recording`) to a simulated one.

The scheduler, Dask's and ours, is real and decides anew. Workers and clients only say what they said
then, at the same times, and hear nothing.
"""

from __future__ import annotations

import asyncio
import itertools
from collections import Counter
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import msgpack
from connections import Connection
from distributed.scheduler import TaskState
from virtual_time import CLOCK
from world import World

Event = dict[str, Any]


def read(path: Path) -> tuple[Event, list[Event]]:
    """Return the header and the events of a record. A record of a killed scheduler may be cut.

    Raises
    ------
    SystemExit
        When the file cannot be read, or is not a record.
    """
    try:
        with path.open("rb") as file:
            events = list(msgpack.Unpacker(file, use_list=False, strict_map_key=False))
    except OSError as error:
        raise SystemExit(
            f"{path} cannot be read: {error.strerror}. Give the file of a record."
        ) from error
    if not events or not isinstance(events[0], dict) or events[0].get("format") != 1:
        raise SystemExit(
            f"{path} is no record of a scheduler. Expected a file that was written "
            "under RAYCOMPAT_RECORD by this version of raycompat."
        )
    return events[0], events[1:]


class Replay:
    """One record in a world."""

    def __init__(self, world: World, header: Event) -> None:
        self._world = world
        self._connections: dict[str, Connection] = {}
        #: What could not be replayed, by kind.
        self.left_out: Counter[str] = Counter()
        TaskState._run_id_iterator = itertools.count(header["run_id"])

    async def play(self, events: list[Event]) -> None:
        """Let all events happen, then what the scheduler still does, and check what must hold."""
        turn = -1
        for event in events:
            if event["turn"] != turn:
                turn = event["turn"]
                await asyncio.sleep(max(0.0, event["at"] - CLOCK.now))
            await self._happen(event)
        await self._world.settle()
        self._world.check_nothing_waits_that_fits()
        if not any(each in self._connections for each in self._world.scheduler.clients):
            self._world.check_empty()

    async def _happen(self, event: Event) -> None:
        match event["kind"]:
            case "worker came":
                self._world.note(f"the worker {event['worker']} joins")
                connection = self._connect(event["worker"])
                about = (event["name"], event["nthreads"], event["memory_limit"])
                self._world.add_worker(connection, event["worker"], *about)
                await asyncio.sleep(0)
            case "client came" if event["client"].startswith("DaskClient-"):
                self._world.note(f"the client {event['client']} comes")
                connection = self._connect(event["client"])
                add = self._world.scheduler.add_client
                self._world.background(add(connection, event["client"], {}))  # type: ignore[arg-type]
                await asyncio.sleep(0)
            case "worker left" | "client left":
                who = event.get("worker") or event["client"]
                self._world.note(f"{who} leaves")
                await self._leave(who)
            case "message":
                self._message(event["op"], dict(event["fields"]))
            case "request":
                self._request(event["op"], dict(event["fields"]))

    def _connect(self, who: str) -> Connection:
        connection = self._connections[who] = Connection(
            self._world.network, who, lambda message: None, lambda: None
        )
        return connection

    async def _leave(self, who: str) -> None:
        """End the connection of a member, unless the scheduler has done so itself."""
        connection = self._connections.pop(who, None)
        if connection is None:
            return
        if who in self._world.scheduler.workers:
            await self._world.scheduler.remove_worker(who, stimulus_id="leaves")
        connection.abort()
        await asyncio.sleep(0)

    def _message(self, op: str, fields: dict[str, Any]) -> None:
        handler = self._world.scheduler.stream_handlers.get(op)
        sender = str(fields.get("client") or fields.get("worker"))
        if handler is None or not fields:
            self.left_out[op] += 1
            return
        self._world.before_message(sender, {"op": op, **fields})
        done = handler(**fields)
        if done is not None:
            self._world.background(done)

    def _request(self, op: str, fields: dict[str, Any]) -> None:
        self._world.note(f"the scheduler answers {op.removeprefix('raycompat-')}")
        done = self._world.scheduler.handlers[op](**fields)
        if asyncio.iscoroutine(done):
            self._world.background(_quietly(done))


async def _quietly(answer: Coroutine[Any, Any, Any]) -> None:
    """Wait for an answer. An error is the answer of the real scheduler too, and goes to who asks."""
    await asyncio.gather(answer, return_exceptions=True)
