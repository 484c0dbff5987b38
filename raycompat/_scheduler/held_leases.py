"""The leases that clients hold, by client and by place; and those whose end would help a request.

Many requests wait while thousands of leases are held, and each round asks which leases would help. So
a `Helpful` is kept between rounds, and only the places that have changed are looked at again. Pure: no
network, no clock, no Dask.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from raycompat._protocol.resource_set import ResourceSet
    from raycompat._scheduler.capacity import Place
    from raycompat._scheduler.ledger import Ledger

#: The most kinds of requests for which the helpful leases are kept between rounds.
_MANY_KINDS = 64


@dataclass(frozen=True, slots=True)
class Held:
    """A lease that a client holds."""

    key: str
    owner: str
    request: ResourceSet
    address: str
    since: float
    #: The node, or the bundle of a placement group, where its end makes room.
    place: Place


class Helpful:
    """The leases whose end helps a request, in some places or on all nodes."""

    def __init__(self, request: ResourceSet, places: frozenset[Place] | None) -> None:
        self._request = request
        self._places = places
        self._by_owner: dict[str, dict[str, Held]] = {}
        #: The leases of each client. A client that is here has at least one.
        self.by_owner: dict[str, Collection[Held]] = {}
        self._at: dict[Place, list[Held]] = {}
        #: The places where the end of one lease is not enough, with their leases.
        self.need_several: dict[Place, list[Held]] = {}
        #: How many changes of places it has seen.
        self.num_seen = 0

    def is_about(self, place: Place) -> bool:
        """Return whether the request may use a place."""
        return place in self._places if self._places is not None else isinstance(place, str)

    def forget(self) -> None:
        """Forget all leases, to look at all places again."""
        for leases in (self._by_owner, self.by_owner, self._at, self.need_several):
            leases.clear()

    def look_at(self, place: Place, leases: Collection[Held], lacking: set[str] | None) -> None:
        """Take the leases at a place that help there: they hold resources that the request lacks.

        `lacking` are these resources; None if the place is too small.
        """
        for each in self._at.pop(place, ()):
            mine = self._by_owner[each.owner]
            del mine[each.key]
            if not mine:
                del self._by_owner[each.owner], self.by_owner[each.owner]
        self.need_several.pop(place, None)
        if lacking is None or not leases:
            return
        names = set().union(*(each.request for each in leases))
        if not lacking <= names:
            return
        wanted = lacking or names
        here = [each for each in leases if not wanted.isdisjoint(each.request)]
        if not here:
            return
        self._at[place] = here
        for each in here:
            if each.owner not in self._by_owner:
                self._by_owner[each.owner] = {}
                self.by_owner[each.owner] = self._by_owner[each.owner].values()
            self._by_owner[each.owner][each.key] = each
        if not any(self._request.fits_in(each.request) for each in here):
            self.need_several[place] = here


class HeldLeases:
    """All leases that were not revoked.

    `is_lent` says of the key of a lease whether its end would free nothing now.
    """

    def __init__(self, ledger: Ledger, is_lent: Callable[[str], bool]) -> None:
        self._ledger = ledger
        self._is_lent = is_lent
        self._by_key: dict[str, Held] = {}
        self._at: dict[Place, dict[str, Held]] = {}
        #: How many leases each client holds.
        self.num_by_owner: Counter[str] = Counter()
        self._helpful: OrderedDict[tuple[ResourceSet, frozenset[Place] | None], Helpful] = (
            OrderedDict()
        )

    def get(self, key: str) -> Held | None:
        """Return a lease; None if it was revoked or has ended."""
        return self._by_key.get(key)

    def at(self, place: Place) -> list[Held]:
        """Return the leases at a place whose CPU is not lent now, in the order of their start."""
        here = self._at.get(place, {}).values()
        return [each for each in here if not self._is_lent(each.key)]

    def on_node(self, address: str) -> list[Held]:
        """Return all leases on a node, in bundles too."""
        return [each for each in self._by_key.values() if each.address == address]

    def put(self, held: Held) -> None:
        """Add a lease, or replace the one with its key."""
        self.remove(held.key)
        self._by_key[held.key] = held
        self._at.setdefault(held.place, {})[held.key] = held
        self.num_by_owner[held.owner] += 1
        self._ledger.changes.note(held.place)

    def remove(self, key: str) -> None:
        """Remove a lease, if it is there."""
        held = self._by_key.pop(key, None)
        if held is None:
            return
        here = self._at[held.place]
        del here[key]
        if not here:
            del self._at[held.place]
        self.num_by_owner[held.owner] -= 1
        if not self.num_by_owner[held.owner]:
            del self.num_by_owner[held.owner]
        self._ledger.changes.note(held.place)

    def that_help(self, request: ResourceSet, places: frozenset[Place] | None) -> Helpful:
        """Return the leases whose end helps a request, in some places or (None) on all nodes."""
        kind = (request, places)
        helpful = self._helpful.get(kind)
        if helpful is None:
            helpful = self._helpful[kind] = Helpful(request, places)
            if len(self._helpful) > _MANY_KINDS:
                self._helpful.popitem(last=False)
            changed: Iterable[Place] | None = None
        else:
            self._helpful.move_to_end(kind)
            changed = self._ledger.changes.since(helpful.num_seen)
        if changed is None:
            helpful.forget()
            changed = list(self._at)
        helpful.num_seen = self._ledger.changes.count
        for place in changed:
            if helpful.is_about(place):
                lacking = self._ledger.lacking(place, request)
                helpful.look_at(place, self.at(place), lacking)
        return helpful

    def forget_requests(self) -> None:
        """Forget what helps requests, because none waits."""
        self._helpful.clear()
