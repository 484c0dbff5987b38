"""Placement: the total and free resources of each node, their holders, and the node for a request.

Pure: no network, no clock, no Dask. The scheduler plugin calls it and acts on the results. A bundle of
a placement group is a holding from which other holdings are taken: a node within a node.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Final

from raycompat._protocol.resource_set import ResourceSet
from raycompat._scheduler.arrangement import Allowed, Room, arrange
from raycompat._scheduler.capacity import Capacity, Holding, Place, Slots, choose_gpus
from raycompat._scheduler.gpu_shares import GpuShares

#: Nodes are filled in order up to this utilisation; then the least utilised is taken, as in Ray.
SPREAD_THRESHOLD: Final = 0.5

#: The most resources of which the freest node is kept.
_MANY_NAMES: Final = 1000


class Changes:
    """The places whose free resources or holdings have changed, in order.

    Readers remember how many changes they have seen. Old ones are forgotten.
    """

    #: How many changes are kept at least.
    _KEPT = 5_000

    def __init__(self) -> None:
        #: How many changes there were so far.
        self.count = 0
        self._places: list[Place] = []

    def note(self, place: Place) -> None:
        """Add a change."""
        self._places.append(place)
        self.count += 1
        if len(self._places) > 2 * self._KEPT:
            del self._places[: -self._KEPT]

    def since(self, number: int) -> Collection[Place] | None:
        """Return the places that have changed after the first `number` changes.

        None: that is so long ago that any may have changed.
        """
        missed = self.count - number
        if missed > len(self._places):
            return None
        return set(self._places[-missed:]) if missed else ()


class Ledger:
    """The resources of all nodes, and their holdings.

    Free and held resources always add up to a node's total, and so for each bundle; a lent CPU counts
    as free. Only `acquire`, `reserve` and `shrink` make holdings. Each is released at most once: a
    second release has no effect, nor has the release of a holding whose node was removed.
    """

    def __init__(self) -> None:
        self._nodes: dict[str, Capacity] = {}
        #: The node or bundle from which each holding was taken.
        self._held: dict[Holding, Capacity] = {}
        #: The resources of the holdings that are bundles.
        self._bundles: dict[Holding, Capacity] = {}
        #: How often the CPU of a holding is lent now: a call may wait in several threads.
        self._lent: dict[Holding, int] = {}
        self._spread_from = 0
        self._shares = GpuShares(self._nodes)
        #: How often the nodes, or their total resources, have changed.
        self.membership = 0
        self.changes = Changes()
        #: The node with most free units of each resource, when so many changes had been seen.
        self._freest: dict[str, Capacity] = {}
        self._num_seen: dict[str, int] = {}

    # --- nodes ----------------------------------------------------------------------------------

    def add_node(self, node_id: str, total: ResourceSet, gpus: Sequence[str] = ()) -> None:
        """Add a node with all resources free; a known id is replaced.

        `gpus` are the ids of the GPUs that it counts, if it has found them itself. Other nodes may
        count the same GPUs: it gets its share of them (see `gpu_shares`).
        """
        self.remove_node(node_id)
        if gpus:
            others = {name: units for name, units in total.items() if name != "GPU"}
            self._nodes[node_id] = Capacity(node_id, ResourceSet(others))
            self._shares.add(node_id, gpus)
            self._shares.settle()
        else:
            self._nodes[node_id] = Capacity(node_id, total)
        self._note_membership()

    def remove_node(self, node_id: str) -> None:
        """Remove a node and its holdings; an unknown id has no effect."""
        if self._nodes.pop(node_id, None) is None:
            return
        for holding in [holding for holding in self._held if holding.node_id == node_id]:
            del self._held[holding]
            self._lent.pop(holding, None)
            if self._bundles.pop(holding, None) is not None:
                self.changes.note(holding)
        self.changes.note(node_id)
        self._shares.remove(node_id)
        self._note_membership()
        self._settle_gpus()

    def _note_membership(self) -> None:
        self.membership += 1
        for node in (*self._nodes.values(), *self._bundles.values()):
            self.changes.note(node.place)

    def _settle_gpus(self) -> None:
        """Move GPUs that were released to the nodes to which they belong."""
        if self._shares.is_unsettled and self._shares.settle():
            self._note_membership()

    @property
    def nodes(self) -> tuple[str, ...]:
        """Ids of the nodes, in the order in which they were added."""
        return tuple(self._nodes)

    def node_total(self, node_id: str) -> ResourceSet:
        """Return the total resources of a node."""
        return self._nodes[node_id].total

    def gpus_of(self, node_id: str) -> list[int]:
        """Return the indices of the GPUs that a node has, among those that it can use."""
        return list(self._nodes[node_id].free_gpus)

    def node_available(self, node_id: str) -> ResourceSet:
        """Return the free resources of a node; negative amounts count as 0."""
        return self._nodes[node_id].available()

    def cluster_total(self) -> ResourceSet:
        """Return the total resources of all nodes."""
        return _sum(node.total for node in self._nodes.values())

    def cluster_available(self) -> ResourceSet:
        """Return the free resources of all nodes, as `node_available` counts them."""
        return _sum(node.available() for node in self._nodes.values())

    def place_of(self, holding: Holding) -> Place:
        """Return the node or bundle from which a holding was taken."""
        return self._held[holding].place

    def _at(self, place: Place) -> Capacity | None:
        return self._nodes.get(place) if isinstance(place, str) else self._bundles.get(place)

    def most_free(self, resource: str, within: Iterable[Holding] | None = None) -> int:
        """Return the largest number of free units of a resource on one node, or in one bundle."""
        if within is not None:
            bundles = [self._bundles[each] for each in within if each in self._bundles]
            return max((each.free.get(resource, 0) for each in bundles), default=0)
        node = self._freest.get(resource)
        changed = self.changes.since(self._num_seen.get(resource, 0)) if node else None
        if node is None or changed is None or node.node_id in changed:
            among: Iterable[Capacity] = self._nodes.values()
        else:
            among = [node, *(self._nodes[each] for each in changed if each in self._nodes)]
        node = max(among, key=lambda each: each.free.get(resource, 0), default=None)
        if node is None:
            return 0
        if len(self._freest) > _MANY_NAMES:
            self._freest.clear()
            self._num_seen.clear()
        self._freest[resource], self._num_seen[resource] = node, self.changes.count
        return node.free.get(resource, 0)

    def room(self, only: Collection[str] | None = None) -> Room:
        """Return the free units of the nodes (of `only`)."""
        total: dict[str, int] = {}
        largest: dict[str, int] = {}
        for node in self._among(only):
            for name, units in node.free.items():
                if units > 0:
                    total[name] = total.get(name, 0) + units
                    largest[name] = max(units, largest.get(name, 0))
        return Room(total, largest)

    def lacking(self, place: Place, request: ResourceSet) -> set[str] | None:
        """Return the resources of which a place has too little free for a request now.

        None: it has too little even when all are free, or there is no such place.
        """
        node = self._at(place)
        if node is None or not request.fits_in(node.total):
            return None
        lacking = {name for name, units in request.items() if node.free.get(name, 0) < units}
        gpus = request.get("GPU")
        if gpus and choose_gpus(node.free_gpus, gpus) is None:
            lacking.add("GPU")
        return lacking

    def fits_without(
        self, place: Place, request: ResourceSet, others: Iterable[ResourceSet]
    ) -> bool:
        """Return whether a place could take a request after the end of `others`, held there."""
        node = self._at(place)
        if node is None:
            return False
        free = dict(node.free)
        for other in others:
            for name, units in other.items():
                free[name] += units
        return all(free.get(name, 0) >= units for name, units in request.items())

    def is_overdrawn(self, node_id: str) -> bool:
        """Return whether a node has more running calls than CPUs, after lent CPUs were taken back."""
        node = self._nodes.get(node_id)
        return node is not None and node.free.get("CPU", 0) < 0

    def is_lent(self, holding: Holding) -> bool:
        """Return whether the CPU of a holding is lent now."""
        return bool(self._lent.get(holding))

    def feasible(self, request: ResourceSet, only: Collection[str] | None = None) -> bool:
        """Return whether a node (of `only`) could take the request if it were empty."""
        return any(Capacity("", node.total).fits(request) for node in self._among(only))

    def _among(self, only: Collection[str] | None) -> Sequence[Capacity]:
        nodes = self._nodes.values()
        return [node for node in nodes if only is None or node.node_id in only]

    def largest_node(self, request: ResourceSet) -> ResourceSet:
        """Return the total of the node that comes nearest to the request; empty without nodes."""

        def nearness(total: ResourceSet) -> tuple[float, float, int]:
            shares = [total.get(name) / units for name, units in request.items()]
            return min(shares, default=1.0), sum(min(s, 1.0) for s in shares), total.get("CPU")

        totals = (node.total for node in self._nodes.values())
        return max(totals, key=nearness, default=ResourceSet())

    # --- holdings ---------------------------------------------------------------------------------

    def acquire(
        self,
        request: ResourceSet,
        *,
        strategy: str = "DEFAULT",
        prefer: Sequence[str] = (),
        only: Collection[str] | None = None,
        within: Iterable[Holding] | None = None,
    ) -> Holding | None:
        """Take a request from one node, or return None when it fits nowhere now.

        Parameters
        ----------
        strategy : {"DEFAULT", "SPREAD"}
            DEFAULT takes the first of `prefer` that fits. Then it fills the nodes in order up to half,
            and then takes the least utilised; without a GPU request, nodes with GPUs come last. SPREAD
            takes the nodes that fit in turn.
        prefer : sequence of str, optional
            Ids of nodes, the best first; unknown ids are skipped.
        only : collection of str, optional
            Ids of the nodes that may be taken.
        within : iterable of Holding, optional
            Bundles: the request is taken from one of these, not from a node; `prefer` has no effect.

        Notes
        -----
        Ray source: its hybrid and spread scheduling policies. Differs from Ray: it makes no random
        choice among nodes that are equally good.
        """
        nodes = self._among(only)
        if within is not None:
            bundles = [self._bundles[each] for each in within if each in self._bundles]
            node = _hybrid(request, [b for b in bundles if only is None or b.node_id in only])
        elif strategy == "DEFAULT":
            node = self._preferred(request, prefer, only) or _hybrid(request, nodes)
        elif strategy == "SPREAD":
            node = self._in_turn(request, nodes)
        else:
            raise ValueError(f"strategy={strategy!r}: expected 'DEFAULT' or 'SPREAD'.")
        if node is None:
            return None
        holding = Holding(node.node_id, request, node.take(request))
        self._hold(holding, node)
        return holding

    def _hold(self, holding: Holding, node: Capacity) -> None:
        self._held[holding] = node
        node.holdings[holding] = None
        self.changes.note(node.place)

    def _preferred(
        self, request: ResourceSet, prefer: Sequence[str], only: Collection[str] | None
    ) -> Capacity | None:
        for node_id in prefer:
            node = self._nodes.get(node_id)
            if node is not None and (only is None or node_id in only) and node.fits(request):
                return node
        return None

    def _in_turn(self, request: ResourceSet, nodes: Sequence[Capacity]) -> Capacity | None:
        for step in range(len(nodes)):
            position = (self._spread_from + step) % len(nodes)
            if nodes[position].fits(request):
                self._spread_from = position + 1
                return nodes[position]
        return None

    def reserve(
        self,
        bundles: Sequence[ResourceSet],
        strategy: str,
        *,
        only: Collection[str] | None = None,
        beside: Collection[str] = (),
        allowed: Sequence[Allowed] = (),
    ) -> tuple[Holding, ...] | None:
        """Take all bundles of a group, each from one node, or none if they do not fit now.

        Parameters
        ----------
        bundles : sequence of ResourceSet
        strategy : {"PACK", "SPREAD", "STRICT_PACK", "STRICT_SPREAD"}
            As in `arrange`.
        only : collection of str, optional
            Ids of the nodes that may be taken.
        beside : collection of str, optional
            Ids of the nodes that have other bundles of the group.
        allowed : sequence of frozenset of str or None, optional
            As in `arrange`.

        Returns
        -------
        tuple of Holding or None
            One for each bundle, in their order: `acquire` takes from them.
        """
        layout = arrange(bundles, strategy, self._among(only), beside, allowed)
        if layout is None:
            return None
        holdings = []
        for bundle, (node, gpus) in zip(bundles, layout, strict=True):
            holding = Holding(node.node_id, bundle, gpus)
            self._held[holding] = node
            self._bundles[holding] = Capacity(node.node_id, bundle, gpus, holding)
            self.changes.note(node.place)
            holdings.append(holding)
        return tuple(holdings)

    def where_it_could_be(
        self,
        bundles: Sequence[ResourceSet],
        strategy: str,
        *,
        ended: Collection[Holding] | None = None,
        only: Collection[str] | None = None,
        beside: Collection[str] = (),
        allowed: Sequence[Allowed] = (),
    ) -> list[str] | None:
        """Return the nodes on which `reserve` would succeed after the holdings `ended` have ended.

        By default, all holdings have ended. None: it would not succeed even then.
        """
        if ended is None:
            nodes = [Capacity(node.node_id, node.total) for node in self._among(only)]
        else:
            nodes = self.without(ended, only)
        layout = arrange(bundles, strategy, nodes, beside, allowed)
        return [node.node_id for node, _ in layout] if layout is not None else None

    def without(
        self, ended: Iterable[Holding], only: Collection[str] | None = None
    ) -> list[Capacity]:
        """Return copies of the nodes (of `only`), without the holdings `ended`."""
        nodes = [node.copy() for node in self._among(only)]
        by_id = {node.node_id: node for node in nodes}
        for holding in ended:
            node = by_id.get(holding.node_id)
            if node is not None and self._held.get(holding) is self._nodes[holding.node_id]:
                node.give(self._back(holding), holding.gpus)
        return nodes

    def _back(self, holding: Holding) -> dict[str, int]:
        """Return the resources that the end of a holding frees; a lent CPU is free already."""
        back = holding.resources.units()
        if self._lent.get(holding):
            back.pop("CPU", None)
        return back

    def release(self, holding: Holding) -> None:
        """Free the resources of a holding, except a lent CPU, which is free already.

        For a bundle, resources that holdings inside it hold become free when those are released.
        """
        node = self._held.pop(holding, None)
        if node is None:
            return
        bundle = self._bundles.pop(holding, None)
        if bundle is not None:
            for other in bundle.holdings:
                self._hold(other, node)
            node.give(bundle.free, tuple(bundle.free_gpus.items()))
        else:
            del node.holdings[holding]
            node.give(self._back(holding), holding.gpus)
            self._lent.pop(holding, None)
        self.changes.note(node.place)
        if holding.gpus:
            self._settle_gpus()

    def shrink(self, holding: Holding, to: ResourceSet) -> Holding:
        """Free the resources of a holding beyond `to`, and return the holding that replaces it.

        It keeps its first GPUs, as many as `to` allows. A lent CPU stays lent, by the new holding.
        """
        beyond = {name: units - to.get(name) for name, units in holding.resources.items()}
        if any(units < 0 for units in beyond.values()) or not to.units().keys() <= beyond.keys():
            raise ValueError(
                f"A holding of {holding.resources} cannot shrink to {to}, which is more."
            )
        kept, dropped = _split(holding.gpus, to.get("GPU"))
        smaller = Holding(holding.node_id, to, kept)
        node = self._held.pop(holding, None)
        if node is None:
            return smaller
        del node.holdings[holding]
        self._hold(smaller, node)
        times_lent = self._lent.pop(holding, 0)
        if times_lent:
            self._lent[smaller] = times_lent
            beyond.pop("CPU", None)
        node.give(beyond, dropped)
        if dropped:
            self._settle_gpus()
        return smaller

    def lend_cpu(self, holding: Holding) -> None:
        """Lend the CPU of a call that waits for an object; its other resources stay held."""
        node = self._held.get(holding)
        if node is None:
            return
        times_lent = self._lent.get(holding, 0)
        self._lent[holding] = times_lent + 1
        cpu = holding.resources.get("CPU")
        if cpu and not times_lent:
            node.free["CPU"] += cpu
        self.changes.note(node.place)

    def take_back_cpu(self, holding: Holding, *, entirely: bool = False) -> None:
        """End one `lend_cpu`, or all. The last end takes the CPU, even if none is free."""
        times_lent = self._lent.get(holding, 0)
        if times_lent > 1 and not entirely:
            self._lent[holding] = times_lent - 1
        elif times_lent:
            del self._lent[holding]
            node = self._held[holding]
            cpu = holding.resources.get("CPU")
            if cpu:
                node.free["CPU"] -= cpu
            self.changes.note(node.place)


def _hybrid(request: ResourceSet, nodes: Iterable[Capacity]) -> Capacity | None:
    if request.get("GPU"):
        return _fill(request, nodes)
    plain: list[Capacity] = []
    with_gpus: list[Capacity] = []
    for node in nodes:
        (with_gpus if node.free_gpus else plain).append(node)
    return _fill(request, plain) or _fill(request, with_gpus)


def _fill(request: ResourceSet, nodes: Iterable[Capacity]) -> Capacity | None:
    """Choose the first node that is not half full, else the least full."""
    best, least = None, float("inf")
    for node in nodes:
        if node.fits(request):
            used = node.utilisation()
            if used < SPREAD_THRESHOLD:
                return node
            if used < least:
                best, least = node, used
    return best


def _split(slots: Slots, units: int) -> tuple[Slots, Slots]:
    """Split slots into those that add up to `units`, and the others."""
    kept, dropped = [], []
    for index, held in slots:
        keep = min(held, units)
        units -= keep
        if keep:
            kept.append((index, keep))
        if held > keep:
            dropped.append((index, held - keep))
    return tuple(kept), tuple(dropped)


def _sum(sets: Iterable[ResourceSet]) -> ResourceSet:
    units: dict[str, int] = {}
    for each in sets:
        for name, count in each.items():
            units[name] = units.get(name, 0) + count
    return ResourceSet(units)
