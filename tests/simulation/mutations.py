"""Faults that are put into the product by hand: a simulation is worth what it finds of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any
from unittest import mock

from raycompat._caller.by_channel import Channel
from raycompat._caller.by_lease import LeasePool
from raycompat._caller.generator import Stream
from raycompat._caller.scheduler_messages import SchedulerMessages
from raycompat._caller.sharing import Sharing
from raycompat._messages.objects import Borrow, Fulfil
from raycompat._node.calls import Calls as NodeCalls
from raycompat._node.leases import Leases as NodeLeases
from raycompat._scheduler.actor_directory import ActorDirectory
from raycompat._scheduler.calls import Calls
from raycompat._scheduler.capacity import Capacity
from raycompat._scheduler.dispatcher import Dispatcher
from raycompat._scheduler.groups import Groups
from raycompat._scheduler.leases import Leases
from raycompat._scheduler.ledger import Ledger
from raycompat._scheduler.next_round import NextRound
from raycompat._scheduler.objects import Objects
from raycompat._scheduler.pins import Pins
from raycompat._scheduler.plugin import SchedulerPlugin

#: Makes a context in which the product has the fault.
Mutation = Callable[[], AbstractContextManager[Any]]


def _without(owner: type, name: str) -> Mutation:
    """Return the fault that a method does nothing."""
    return lambda: mock.patch.object(owner, name, lambda *_, **__: None)


def _replaced(owner: type, name: str, replacement: Callable[..., Any]) -> Mutation:
    """Return the fault that a method does something else."""
    return lambda: mock.patch.object(owner, name, replacement)


def _every_other(owner: type, name: str) -> Mutation:
    """Return the fault that every other call of a method has no effect."""

    @contextmanager
    def fault() -> Iterator[None]:
        method, count = getattr(owner, name), [0]

        def sometimes(*arguments: Any, **options: Any) -> Any:
            count[0] += 1
            return method(*arguments, **options) if count[0] % 2 else None

        with mock.patch.object(owner, name, sometimes):
            yield

    return fault


def _release_keeps_gpus() -> AbstractContextManager[Any]:
    give = Ledger._back

    def back(self: Ledger, holding: Any) -> dict[str, int]:
        return {name: units for name, units in give(self, holding).items() if name != "GPU"}

    return mock.patch.object(Ledger, "_back", back)


def _gpus_always_fit() -> AbstractContextManager[Any]:
    fits = Capacity.fits

    def fits_anyhow(self: Capacity, request: Any) -> bool:
        others = type(request)({n: u for n, u in request.items() if n != "GPU"})
        return fits(self, others)

    return mock.patch.object(Capacity, "fits", fits_anyhow)


def _calls_of_a_dead_process_run_again() -> AbstractContextManager[Any]:
    def handle(self: LeasePool, lease: Any) -> None:
        self._requeue(list(lease.unanswered.values()))

    return mock.patch.object(LeasePool, "_handle_unanswered", handle)


def _retried_calls_go_to_the_end() -> AbstractContextManager[Any]:
    handle = Channel._handle_unanswered

    def handle_and_turn(self: Channel, reported: bytes | None = None) -> None:
        handle(self, reported)
        for key in list(self._queue)[:1]:
            self._queue.move_to_end(key)

    return mock.patch.object(Channel, "_handle_unanswered", handle_and_turn)


#: The faults by name.
MUTATIONS: dict[str, Mutation] = {
    "every other wake-up of the dispatcher is lost": _every_other(NextRound, "soon"),
    "an ended call keeps its resources": _without(Calls, "_release"),
    "released GPUs stay held": _release_keeps_gpus,
    "a GPU is given twice": _gpus_always_fit,
    "the name of a dead actor stays taken": _without(ActorDirectory, "_free_name"),
    "a node ignores a revoked lease": _without(NodeLeases, "revoke"),
    "a node ignores the end of a call": _without(NodeCalls, "end"),
    "the report of free accelerators has no effect": _without(Calls, "freed"),
    "a CPU that was lent is not taken back": _without(Ledger, "take_back_cpu"),
    "a call in a line is not withdrawn": _without(Dispatcher, "withdraw"),
    "the bundles of a node that left count as placed": _without(Groups, "node_left"),
    "nobody is told that a group is ready": _without(Groups, "_tell_all"),
    "pins are not dropped": _without(Pins, "drop"),
    "a lease that ended is not reported": _without(Leases, "ended"),
    "a caller forgets the calls that a lease returns": _without(LeasePool, "_take_returned"),
    "a caller keeps its idle leases": _without(LeasePool, "_return"),
    "calls of a dead process run again without retries": _calls_of_a_dead_process_run_again,
    "calls that an actor's death interrupts are sent again in another order": (
        _retried_calls_go_to_the_end
    ),
    "a caller does not hear that an actor has moved": _every_other(Channel, "on_report"),
    "a caller never releases what has ended": _without(SchedulerMessages, "_release_ended"),
    "a caller does not give a value again": _without(Sharing, "give_again"),
    "a taken item is not acknowledged": _without(Stream, "_note_taken"),
    "an item that arrives again counts twice": _replaced(
        Stream, "receive", lambda self, index, wire: self._is_wanted
    ),
    "a call with a failed argument waits for ever": _without(
        Channel, "_fail_if_an_argument_failed"
    ),
}


def _fulfil_what_is_unneeded(self: Objects, client: str, message: Fulfil) -> None:
    """Give a promised value to a node, also when only a call that has failed refers to it."""
    state_of = self._dask.state_of
    with mock.patch.object(
        self._dask, "state_of", lambda key: state_of(key).replace("released", "")
    ):
        _FULFIL(self, client, message)


def _borrow_what_is_released(self: Objects, client: str, message: Borrow) -> None:
    """Keep a value that was released for one more client, also when nothing makes it."""
    if self._dask.state_of(message.key) == "released" and message.key not in self._unneeded:
        self._dask.want([message.key], client)
    else:
        _BORROW(self, client, message)


_FULFIL, _BORROW = Objects.fulfil, Objects.borrow

#: Races that the project has had, each put back, and the seed of a history with model drivers that finds
#: it.
RACES: dict[str, tuple[Mutation, int]] = {
    "a promised value arrives that only a cancelled call needs": (
        _replaced(Objects, "fulfil", _fulfil_what_is_unneeded),
        1075,
    ),
    "a released value is borrowed": (
        _replaced(Objects, "borrow", _borrow_what_is_released),
        4605,
    ),
    "a paused worker goes on": (_without(SchedulerPlugin, "log_event"), 276),
    "a value was given to a node that has left": (_without(Objects, "node_left"), 1125),
    "a node leaves before it has stored results": (_without(Calls, "node_left"), 10),
}
