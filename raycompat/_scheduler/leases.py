"""Leases: the clients that hold executors for their own calls, and which lease is revoked.

A lease holds resources like a call. It ends when its client returns it, or when the scheduler *revokes*
it because others wait: then the executor ends it after its running call, and the client may request
another one. Each lease lasts a minimum time, so that it does some work.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from heapq import nsmallest
from typing import TYPE_CHECKING, Any

from raycompat._messages.leases import (
    LeaseAlive,
    LeaseEnded,
    LeaseGranted,
    LeaseOver,
    LeaseTrimmed,
    Pressure,
    Revoke,
)
from raycompat._protocol.resource_set import LeaseKind, ResourceSet
from raycompat._scheduler.held_leases import Held, HeldLeases
from raycompat._scheduler.lines import Shape

if TYPE_CHECKING:
    from raycompat._scheduler.capacity import Holding, Place
    from raycompat._scheduler.ground import Ground

#: Minimum seconds of a lease; also the seconds until another one is revoked if the first has not ended.
QUANTUM_S = 0.02

#: Seconds of a lease after which a client without any gets its place; Ray's leases last as long.
TURN_S = 0.5

#: Seconds for an executor to start before its lease may be revoked.
_START_S = 1.0

#: Seconds that a request waits for a reservation, maximum seconds of a reservation, and of the pause.
_PATIENCE_S, _RESERVED_S, _PAUSE_S = 0.2, 0.1, 0.2

#: Seconds from the end of a reservation to the next look at the requests.
_MARGIN_S = 0.001


def choose(
    held: Mapping[str, Collection[Held]],
    owner: str,
    request: ResourceSet,
    *,
    num_waiting: int,
    is_lease: bool,
    now: float,
) -> list[Held]:
    """Choose the leases to revoke for waiting requests of `owner`, from those of each client.

    They are the oldest leases of the client that has most: one for a call; for leases, enough to make
    the shares equal, or none if `owner` has only one less. Leases of `owner` that are too small for the
    request count as those of another client. If `owner` has leases of other kinds only, one of them is
    enough for its first lease of this kind. If it has none, it gets the place of one that had its turn.
    """
    if not held:
        return []
    theirs = max(held.values(), key=len)
    own = held.get(owner, ())
    number, lasts_s = 1, QUANTUM_S
    if is_lease and len(theirs) - len(own) > 1:
        number = (len(theirs) - len(own)) // 2
    elif is_lease and not own:
        lasts_s = TURN_S
    elif is_lease:
        theirs = [each for each in own if not request.fits_in(each.request)]
        number = max(0, 2 * len(theirs) - len(own)) // 2
        if not number and not _has_kind(own, request):
            theirs, number = own, 1
    old = (each for each in theirs if now - each.since >= lasts_s)
    return nsmallest(min(number, num_waiting), old, key=lambda each: each.since)


def _has_kind(held: Iterable[Held], request: ResourceSet) -> bool:
    """Return whether one of the leases is of the kind that a request is for."""
    kind = LeaseKind.of(request)
    return any(LeaseKind.of(each.request) == kind for each in held)


@dataclass(frozen=True, slots=True)
class Reservation:
    """A place that is kept for one large request, until it fits or the time is up."""

    place: Place
    shape: Shape
    until: float


class Leases:
    """The leases of all clients, which are also in `Calls`."""

    def __init__(self, ground: Ground) -> None:
        self._ground = ground
        self._dask = ground.dask
        self._held = HeldLeases(self._ground.ledger, self._is_lent)
        #: The time of the last revocation for each kind of request.
        self._revoked: dict[Any, float] = {}
        self._look_due = False
        self._reservation: Reservation | None = None
        #: Clients with leases that were notified that others wait.
        self._pressed: set[str] = set()

    def add(self, key: str, shape: Shape, holding: Holding) -> None:
        """Add a lease."""
        owner, request, _ = shape
        # Its time starts when the executor is ready.
        since = time.monotonic() + _START_S
        place = self._ground.ledger.place_of(holding)
        self._held.put(Held(key, owner, request, holding.node_id, since, place))

    def remove(self, key: str) -> None:
        """Remove a lease."""
        self._held.remove(key)

    def lose_client(self, client: str) -> None:
        """Remove the state of a client that has left."""
        self._pressed.discard(client)
        self._revoked = {each: at for each, at in self._revoked.items() if each[0] != client}

    def owners(self) -> list[str]:
        """Return the client of each lease that was not revoked."""
        return list(self._held.num_by_owner.elements())

    def set_pressure(self, waiting: set[str]) -> None:
        """Ask clients to return leases as soon as they have no call, while others wait.

        `waiting` are the clients whose requests found no free resources.
        """
        for owner in self._held.num_by_owner.keys() | self._pressed:
            is_pressed = len(waiting) > (owner in waiting)  # others wait too
            if is_pressed != (owner in self._pressed):
                (self._pressed.add if is_pressed else self._pressed.discard)(owner)
                self._dask.notify_client(owner, Pressure(is_pressed))

    def no_one_waits(self) -> None:
        """Forget what would help requests."""
        self._held.forget_requests()

    def make_room(
        self,
        shape: Shape,
        num_waiting: int,
        *,
        is_lease: bool,
        since: float,
        places: frozenset[Place] | None,
    ) -> bool:
        """Revoke a lease if that helps a request without free resources; schedule another check.

        `places` are those that the request can use; None is all nodes. Return whether the end of
        leases would help.
        """
        owner, request, _ = shape
        now = time.monotonic()
        helpful = self._held.that_help(request, places)
        held = helpful.by_owner
        if not held:
            return False
        if now - since > _PATIENCE_S and self._reserve(shape, helpful.need_several, now):
            self._note_revoked(shape, now)
        elif now - self._revoked.get(shape, 0.0) >= QUANTUM_S:
            chosen = choose(
                held, owner, request, num_waiting=num_waiting, is_lease=is_lease, now=now
            )
            if chosen:
                self._note_revoked(shape, now)
            for each in chosen:
                self._revoke(each)
        if not self._look_due:
            self._look_due = True
            asyncio.get_running_loop().call_later(QUANTUM_S, self._look_again)
        return True

    def _note_revoked(self, shape: Shape, now: float) -> None:
        self._revoked = {each: at for each, at in self._revoked.items() if now - at < QUANTUM_S}
        self._revoked[shape] = now

    def _look_again(self) -> None:
        self._look_due = False
        self._ground.next_round.soon()

    def _reserve(
        self, shape: Shape, need_several: Mapping[Place, Sequence[Held]], now: float
    ) -> bool:
        """Keep a place for a request that has waited long, if it fits there without its leases.

        Otherwise small requests would take all free resources before a large one fits. The place is
        kept for a short time only, because the calls that run there may run for hours.
        """
        last, ledger = self._reservation, self._ground.ledger
        if last is not None and now < last.until + _PAUSE_S:
            return False
        for place, leases in need_several.items():
            if ledger.fits_without(place, shape[1], [each.request for each in leases]):
                self._reservation = Reservation(place, shape, now + _RESERVED_S)
                # Then others may use the place, also if nothing else changes.
                asyncio.get_running_loop().call_later(
                    _RESERVED_S + _MARGIN_S, self._ground.next_round.soon
                )
                for each in leases:
                    self._revoke(each)
                return True
        return False

    def reserved(self, shape: Shape) -> Place | None:
        """Return the place that is kept for a request other than those of `shape`."""
        kept = self._reservation
        if kept is None or kept.shape == shape or time.monotonic() > kept.until:
            return None
        return kept.place

    def served(self, shape: Shape) -> None:
        """End the reservation of a request that was granted."""
        if self._reservation is not None and self._reservation.shape == shape:
            self._reservation = None
            self._ground.next_round.soon()  # lines that were tried before may use the place now

    def vacate(self, demands: Mapping[str, ResourceSet]) -> None:
        """Revoke leases until the demand on each node fits there."""
        for address, demand in demands.items():
            ended: list[ResourceSet] = []
            for each in sorted(self._held.at(address), key=lambda each: each.since):
                if self._ground.ledger.fits_without(address, demand, ended):
                    break
                ended.append(each.request)
                self._revoke(each)

    def revoke_all(self, address: str) -> None:
        """Revoke all leases on a node, in bundles too."""
        for each in self._held.on_node(address):
            self._revoke(each)

    def relieve(self, address: str) -> None:
        """Revoke a lease on a node that has more running calls than CPUs."""
        here = self._held.at(address)
        if here:
            self._revoke(max(here, key=lambda each: each.since))

    def _is_lent(self, key: str) -> bool:
        call = self._ground.calls.by_key.get(key)
        return call is None or call.holding is None or self._ground.ledger.is_lent(call.holding)

    def _revoke(self, held: Held) -> None:
        self._held.remove(held.key)
        self._dask.notify_node(held.address, Revoke(held.key))

    # --- reports from nodes and clients ---------------------------------------------------------

    def alive(self, worker: str, message: LeaseAlive) -> None:
        """Handle a node's report that an executor accepts a client's calls."""
        key = message.key
        held = self._held.get(key)
        if held is not None:
            self._held.put(replace(held, since=time.monotonic()))
        host = self._ground.nodes.info[worker]["host"]
        granted = LeaseGranted(key, worker, host, message.socket)
        self._dask.notify_client(message.owner, granted)

    def trimmed(self, worker: str, message: LeaseTrimmed) -> None:
        """Handle a node's report that a lease needs less of what varies from now on."""
        key = message.key
        call = self._ground.calls.by_key.get(key)
        if call is None or call.holding is None or call.address != worker:
            return
        request = LeaseKind.of(call.request).with_units(message.units)
        call.holding = self._ground.ledger.shrink(call.holding, request)
        held = self._held.get(key)
        if held is not None:
            self._held.put(replace(held, request=request))
        self._ground.next_round.soon()

    def ended(self, worker: str, message: LeaseEnded) -> None:
        """Handle a node's report that a lease has ended."""
        over = LeaseOver(message.key, message.how, message.error)
        self._dask.notify_client(message.owner, over)
