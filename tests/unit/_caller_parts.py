"""A session on models of its Dask client and of its connections, which records what it decides.

`Process.handle` gives the session a message of the scheduler, `answer` one of a process that runs its
calls, and `connect` lets a connection come about. Each returns the instructions, so a test can say::

    assert await process.handle(Pressure(True)) == [
        ("send", "socket", (direct.RETURN,))
    ]
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any
from unittest import mock

from raycompat._caller import by_lease, connections, direct_sender, send
from raycompat._caller.calls import Call
from raycompat._caller.home import Home
from raycompat._caller.object_ref import ObjectRef
from raycompat._caller.session import Session, Setup
from raycompat._host import clock
from raycompat._protocol import ids
from raycompat._protocol.message import FromCaller, Message, ToCaller
from raycompat._protocol.resource_set import LeaseKind, ResourceSet

JOB, HOST, NODE = "01000000", "here", "tcp://node-0"

#: What a session sends to the scheduler or to a process, and the connections that it opens and closes.
Instruction = tuple[Any, ...]

#: Rounds of the event loop in which everything that follows from an event has happened.
_MANY_ROUNDS = 30


def _kinds(of: type[Message]) -> dict[str, type[Message]]:
    found = {}
    for kind in of.__subclasses__():
        found |= _kinds(kind) or {kind.op: kind}
    return found


class RecordedClient:
    """The Dask client of a session; it is its own stream to the scheduler."""

    id = "driver"
    status = "running"
    interval: object = None
    recent_message_log: object = None

    def __init__(self, instructions: list[Instruction]) -> None:
        self._instructions = instructions
        self.asyncio_loop = asyncio.get_running_loop()
        self.loop = self.scheduler_comm = self
        self._periodic_callbacks = {"scheduler-info": self}
        self._stream_handlers: dict[str, Callable[..., None]] = {}

    def stop(self) -> None:
        """Dask's client polls the scheduler no more."""

    def sync(self, function: Any, *arguments: Any) -> Any:
        """Run a coroutine that does not wait."""
        coroutine = function(*arguments)
        try:
            coroutine.send(None)
        except StopIteration as ended:
            return ended.value
        raise AssertionError(f"{function} waits, and a test of decisions must not")

    def send(self, *messages: dict[str, Any]) -> None:
        for wire in messages:
            fields = dict(wire)
            kind = _kinds(FromCaller)[fields.pop("op")]
            self._instructions.append(("scheduler", kind(**fields)))

    def receive(self, message: ToCaller) -> None:
        fields = message.to_wire()
        self._stream_handlers[fields.pop("op")](**fields)


class RecordedConnection:
    """A connection to a process that runs calls: nothing is on its way."""

    is_silent = True

    def __init__(self, socket: str, instructions: list[Instruction]) -> None:
        self._socket, self._instructions = socket, instructions

    def post(self, message: Any, *, now: bool, notes: Any = ()) -> None:
        self._instructions.append(("send", self._socket, message))
        for note in notes:
            note()

    def flush(self) -> None:
        """Messages leave at once."""

    def receive_until(self, is_over: Callable[[], bool], timeout_s: float | None) -> bool:
        return False

    def close(self) -> None:
        self._instructions.append(("close", self._socket))


class Process:
    """A driver whose home is a node on the same host."""

    def __init__(self) -> None:
        self.instructions: list[Instruction] = []
        self.client = RecordedClient(self.instructions)
        home = Home("node", NODE, "10.0.0.1", 1, {}, HOST, place=None)
        setup = Setup(JOB, "n", home, "tcp://scheduler", True, HOST, uses_leases=True)
        self.session = Session(setup, self.client)
        self.session.table._report = lambda entry: None  # it would print errors from a thread
        #: The parties that wait for a connection, and those that have one, by socket.
        self._parties: dict[str, tuple[Any, Any]] = {}
        self._connections: dict[str, RecordedConnection] = {}

    async def connect_to(self, session: Session, place: Any, party: Any) -> None:
        """Record that the session connects to a process (see `_caller.connections.connect`)."""
        self.instructions.append(("connect", place.socket))
        self._parties[place.socket] = place, party

    async def _after(self, event: Callable[[], object]) -> list[Instruction]:
        num_before = len(self.instructions)
        event()
        for _ in range(_MANY_ROUNDS):
            await asyncio.sleep(0)
        return self.instructions[num_before:]

    async def handle(self, message: ToCaller) -> list[Instruction]:
        """Handle a message of the scheduler; return the instructions that follow."""
        return await self._after(lambda: self.client.receive(message))

    async def connect(self, socket: str) -> list[Instruction]:
        """Let a connection come about; return the instructions that follow."""
        place, party = self._parties[socket]
        connection = self._connections[socket] = RecordedConnection(socket, self.instructions)
        return await self._after(lambda: party.connected(connection, place.incarnation))

    async def answer(self, socket: str, *message: Any) -> list[Instruction]:
        """Let a process send a message; return the instructions that follow."""
        return await self._after(lambda: self._parties[socket][1].on_message(message))

    async def disconnect(self, socket: str) -> list[Instruction]:
        """Let a connection end; return the instructions that follow."""
        party, connection = self._parties[socket][1], self._connections[socket]
        return await self._after(lambda: party.disconnected(connection))

    async def do(self, step: Callable[[], object]) -> list[Instruction]:
        """Let the program do something; return the instructions that follow."""
        return await self._after(step)

    def call(
        self,
        *arguments: ObjectRef[Any],
        to: Any = None,
        num_cpus: float = 1,
        retries: int = 0,
        num_returns: Any = 1,
    ) -> Any:
        """Call a function, or the actor behind the channel `to`."""
        key = ids.call_key("f" if to is None else "m", ids.new_task_id())
        call = Call(key, "f-id" if to is None else "m", "f" if to is None else "m")
        call.retries, call.waits_for_restart = retries, retries != 0
        call.num_returns = num_returns
        call.dependencies, call.holds = [each._entry for each in arguments], arguments
        call.request = ResourceSet.from_amounts({"CPU": num_cpus})
        if to is None:
            kind = LeaseKind.of(call.request)
            to = send.sender_of(self.session, call, lease_kind=kind)
            call.units = call.request.get(kind.varies)
        return send.call(self.session, call, to)


def error_of(ref: ObjectRef[Any]) -> bytes | None:
    """Return the error of a call, if it has failed."""
    return ref._entry.error


def run(test: Callable[[Process], Awaitable[None]]) -> None:
    """Run the coroutine function `test` with a process."""

    async def body() -> None:
        process = Process()
        with (
            mock.patch.object(connections, "connect", process.connect_to),
            mock.patch.object(connections, "through_the_scheduler", process.connect_to),
            mock.patch.object(direct_sender, "_DRAIN_S", 0.0),
            mock.patch.object(by_lease, "_TICK_S", 3600.0),  # no idle lease is returned meanwhile
            mock.patch.object(clock, "monotonic", lambda: 1000.0),
        ):
            try:
                await test(process)
            finally:
                process.session.closed = True

    asyncio.run(body())
