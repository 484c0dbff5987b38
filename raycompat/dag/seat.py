"""The part of a compiled graph that runs in each actor: the calls of the graph, until it ends.

Both functions run by ``__ray_call__`` in the concurrency group ``_ray_system``, which has separate
threads in every actor. So other calls of the actor run beside the graph, as in Ray.
"""

from __future__ import annotations

import contextlib
import inspect
import socket
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import raycompat as ray
from raycompat._host import clock, mesh
from raycompat._protocol import gpu_memory
from raycompat.dag.exchange import EndedError, Exchange, Link, value_of
from raycompat.dag.packing import Failure, Packed, pack
from raycompat.dag.schedule import Output, Slot, Step
from raycompat.dag.tensors import Checks, Sender
from raycompat.exceptions import RayChannelError

#: Seconds for which a process of a graph waits for the others when the graph is compiled.
MEETING_S = 60.0

#: Seconds between two checks, meanwhile, whether an actor has failed.
_LOOK_S = 0.2


class Deadline:
    """The time that is left to connect to the other processes."""

    def __init__(self, timeout_s: float) -> None:
        self._end = clock.monotonic() + timeout_s

    def remaining_s(self) -> float:
        """Return the seconds that are left; 0 when it is over."""
        return max(0.0, self._end - clock.monotonic())


@dataclass(frozen=True)
class Address:
    """Where a process accepts connections; `place` is equal for processes with common sockets."""

    place: str
    unix: str
    #: None as long as all processes are in one place.
    tcp: tuple[str, int] | None = None
    #: The number of GPUs that the actor was given.
    num_gpus: int = 0
    #: The UUIDs of the GPUs that its process can use, if the graph needs to know.
    gpus: tuple[str, ...] = ()


class Door:
    """The sockets at which this process accepts the connections of a graph."""

    def __init__(self, backlog: int) -> None:
        self._stack = contextlib.ExitStack()
        self._backlog = backlog
        unix, name = mesh.listen_unix(self._stack, backlog)
        self.address = Address(mesh.place(), name)
        self.listeners: list[socket.socket] = [unix]

    def open_to_other_hosts(self) -> Address:
        """Accept connections over TCP too."""
        listener, tcp = mesh.listen_tcp(self._stack, ray.util.get_node_ip_address(), self._backlog)
        self.listeners.append(listener)
        self.address = replace(self.address, tcp=tcp)
        return self.address

    def close(self) -> None:
        """Accept no more connections."""
        self._stack.close()


#: The doors of this process, from `open_door` until `run`, by the graph's token. An actor that belongs
#: to a graph has an entry in `_graph_of`.
_doors: dict[bytes, Door] = {}
_graph_of: dict[int, bytes] = {}


def open_door(
    instance: Any, token: bytes, num_processes: int, has_transports: bool
) -> Address | None:
    """Take part in a graph: accept connections from now on.

    With `has_transports`, find out which GPUs this process can use.

    Return None when the actor takes part in another graph, which was not torn down.
    """
    if id(instance) in _graph_of:
        return None
    _graph_of[id(instance)] = token
    door = _doors[token] = Door(num_processes)
    num_gpus = len(ray.get_gpu_ids())
    if has_transports and num_gpus:
        gpus = tuple(each for each in gpu_memory.usable() if each is not None)
        door.address = replace(door.address, num_gpus=num_gpus, gpus=gpus)
    return door.address


def open_to_other_hosts(instance: Any, token: bytes) -> Address:
    """Accept connections over TCP too: not all processes of the graph are on this host."""
    return _doors[token].open_to_other_hosts()


def leave(instance: Any, token: bytes) -> None:
    """Leave a graph that was not started."""
    if _graph_of.get(id(instance)) == token:
        del _graph_of[id(instance)]
    door = _doors.pop(token, None)
    if door is not None:
        door.close()


def run(
    instance: Any,
    token: bytes,
    rank: int,
    addresses: Sequence[Address],
    neighbours: Sequence[int],
    steps: Sequence[Step],
) -> None:
    """Connect to the other processes, then run the schedule of this actor until the graph ends."""
    with contextlib.ExitStack() as at_end:
        at_end.callback(leave, instance, token)
        exchange = Exchange(connect(_doors[token], token, rank, addresses, neighbours))
        _doors.pop(token).close()
        # The driver takes the end of the connection as a sign that the actor has left the graph.
        at_end.pop_all()
        at_end.callback(exchange.close)
        at_end.callback(leave, instance, token)
        with contextlib.suppress(EndedError):
            _Seat(instance, exchange, steps, [each.gpus for each in addresses]).run()


def connect(
    door: Door,
    token: bytes,
    rank: int,
    addresses: Sequence[Address],
    neighbours: Sequence[int],
    meanwhile: Callable[[], object] = lambda: None,
) -> dict[int, Link]:
    """Connect to the neighbours with lower ranks, and accept those with higher ranks.

    While it waits for those, it calls `meanwhile` several times a second.
    """
    deadline = Deadline(MEETING_S)
    places = [each.place for each in addresses]
    own = mesh.Mesh(rank, deadline, places, token, handshake_s=MEETING_S)
    try:
        for lower in neighbours:
            if lower < rank:
                own.connect(lower, addresses[lower].unix, addresses[lower].tcp)
        while missing := [each for each in neighbours if each not in own.peers]:
            meanwhile()
            left = deadline.remaining_s()
            if not own.accept_ready(door.listeners, min(left, _LOOK_S)) and not left:
                raise RayChannelError(
                    f"The processes {missing} of the graph did not connect within {MEETING_S:g} s."
                )
        return {
            other: Link(own.peers.pop(other).socket, is_near=own.is_near(other))
            for other in neighbours
        }
    finally:
        own.close()


class _Outlet:
    """Where the values of one slot leave this process."""

    def __init__(self, output: Output, exchange: Exchange, gpus: Sequence[Sequence[str]]) -> None:
        """`gpus` are those that each rank can use."""
        self._transport = output.tensors
        self._checks = Checks(output.tensors)
        self._gpus: frozenset[str] = frozenset()
        is_near = all(exchange.links[rank].is_near for rank in output.readers)
        if output.tensors is not None and output.tensors.may_use_gpu and is_near:
            self._gpus = frozenset.intersection(*(frozenset(gpus[rank]) for rank in output.readers))

    def pack(self, value: Any) -> Packed:
        """Pack a value for the readers of the slot."""
        if self._transport is None or isinstance(value, Failure):
            return pack(value)
        self._checks.before(value)
        sender = Sender(self._transport, self._gpus)
        packed = pack(value, sender)
        try:
            self._checks.after(sender)
        except ValueError:
            sender.end_loan()
            raise
        return packed


class _Seat:
    """The schedule of one actor."""

    def __init__(
        self,
        instance: Any,
        exchange: Exchange,
        steps: Sequence[Step],
        gpus: Sequence[Sequence[str]],
    ) -> None:
        self._exchange = exchange
        self._name = type(instance).__name__
        # As in Ray, an attribute of the actor hides a method here, although not in other calls.
        self._steps = [(step, getattr(instance, step.method)) for step in steps]
        self._outlets = {
            output.slot: _Outlet(output, exchange, gpus)
            for step in steps
            for output in step.outputs
            if output.readers
        }

    def run(self) -> None:
        while True:
            values: dict[int, Any] = {}
            for step, method in self._steps:
                args = [
                    self._value(arg.number, values) if isinstance(arg, Slot) else arg
                    for arg in step.args
                ]
                self._pass_on(step, self._call(step, method, args), values)
                del args

    def _value(self, slot: int, values: dict[int, Any]) -> Any:
        if slot not in values:
            frame = self._exchange.take(slot)
            try:
                values[slot] = value_of(frame)
            except Exception as error:
                values[slot] = Failure.of(error, self._name)
        return values[slot]

    def _call(self, step: Step, method: Any, args: Sequence[Any]) -> Any:
        for arg in args:
            if isinstance(arg, Failure):
                return arg
        try:
            result = method(*args, **step.kwargs)
            if inspect.iscoroutine(result):
                result.close()
                raise TypeError(
                    f"{step.method} is an async def method, which a compiled graph cannot call: it "
                    "calls methods in a thread without an event loop. Bind a method with def."
                )
            return result
        except Exception as error:
            return Failure.of(error, f"{self._name}.{step.method}")

    def _pass_on(self, step: Step, result: Any, values: dict[int, Any]) -> None:
        """Keep the results for later calls here, and send them to the processes that need them."""
        sent = []
        parts = self._parts(step, result)
        for output in step.outputs:
            value = parts[output.index] if output.index is not None else result
            values[output.slot] = value
            if output.readers:
                sent.append((output.slot, self._packed(step, output, value), output.readers))
        self._exchange.send(sent, None)

    def _parts(self, step: Step, result: Any) -> Sequence[Any]:
        if step.outputs[0].index is None:
            return ()
        if not isinstance(result, Failure):
            try:
                parts = tuple(result)
                if len(parts) == step.num_returns:
                    return parts
                raise ValueError(
                    f"{step.method} returned {len(parts)} values, but num_returns={step.num_returns}."
                )
            except Exception as error:
                result = Failure.of(error, f"{self._name}.{step.method}")
        return (result,) * step.num_returns

    def _packed(self, step: Step, output: Output, value: Any) -> Packed:
        try:
            return self._outlets[output.slot].pack(value)
        except (TypeError, ValueError) as error:
            return pack(Failure.of(error, f"{self._name}.{step.method}"))
