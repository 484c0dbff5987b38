"""Placement: what each node has, what of it is free, who holds the rest, and where a request goes.

Pure: no network, no clock, no Dask. The scheduler plugin asks, and acts on what it is told. A bundle of
a placement group is a grant from which others are granted: a node within a node.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from raycompat._protocol.resource_set import UNITS_PER_ONE, ResourceSet
from raycompat._scheduler.arrangement import arrange

#: Resources whose shortage slows a node down; the fullest of them is the node's utilisation.
CRITICAL_RESOURCES: Final = ("CPU", "memory", "object_store_memory")

#: Utilisation up to which nodes are filled in order, before the least utilised is taken; as in Ray.
SPREAD_THRESHOLD: Final = 0.5

#: GPUs by index, each with the units of it: of a holding, or free.
Slots = tuple[tuple[int, int], ...]


@dataclass(frozen=True, eq=False, slots=True)
class Grant:
    """What a call or an actor holds on a node, until it is released. Two are never equal."""

    node_id: str
    resources: ResourceSet
    #: Index of the GPU, and units of it, for each that is held.
    gpus: Slots = ()


#: From where something is granted: a node, by its id, or a bundle, which is a grant itself.
Place: TypeAlias = str | Grant


class Node:
    """What one node, or bundle, has, and has free.

    `free` of CPU is negative after a CPU was lent twice.
    """

    __slots__ = ("critical", "free", "free_gpus", "node_id", "place", "total")

    def __init__(
        self,
        node_id: str,
        total: ResourceSet,
        gpus: Slots | None = None,
        bundle: Grant | None = None,
    ) -> None:
        self.node_id = node_id
        self.place: Place = node_id if bundle is None else bundle
        self.total = total
        self.free = total.units()
        #: Units that are free of each GPU, by index.
        self.free_gpus = dict(_gpu_slots(total) if gpus is None else gpus)
        units = [(name, total.get(name)) for name in CRITICAL_RESOURCES]
        self.critical = [(name, count) for name, count in units if count]

    def copy(self) -> Node:
        """Return a node to try something on."""
        other = Node(self.node_id, self.total)
        other.free, other.free_gpus = self.free.copy(), self.free_gpus.copy()
        return other

    def fits(self, request: ResourceSet) -> bool:
        """Whether the request can be fulfilled now, its GPUs by ids that are free enough."""
        free = self.free
        for name, units in request.items():
            if free.get(name, 0) < units:
                return False
        gpus = request.get("GPU")
        return not gpus or _choose_gpus(self.free_gpus, gpus) is not None

    def utilisation(self) -> float:
        """Return how full the fullest critical resource is: 0 for empty, 1 for full."""
        fullest = 0.0
        for name, total in self.critical:
            fullest = max(fullest, 1 - self.free[name] / total)
        return fullest

    def take(self, request: ResourceSet) -> Slots:
        """Take what `fits`; return the GPUs."""
        free = self.free
        for name, units in request.items():
            free[name] -= units
        gpus = request.get("GPU")
        slots = (_choose_gpus(self.free_gpus, gpus) or ()) if gpus else ()
        for index, units in slots:
            self.free_gpus[index] -= units
        return slots

    def give(self, resources: Mapping[str, int], gpus: Slots) -> None:
        """Take back what was held."""
        free = self.free
        for name, units in resources.items():
            free[name] += units
        for index, units in gpus:
            self.free_gpus[index] += units

    def available(self) -> ResourceSet:
        return ResourceSet({name: units for name, units in self.free.items() if units > 0})


def _gpu_slots(total: ResourceSet) -> Slots:
    whole, rest = divmod(total.get("GPU"), UNITS_PER_ONE)
    return tuple(enumerate([UNITS_PER_ONE] * whole + ([rest] if rest else [])))


def _choose_gpus(free: Mapping[int, int], units: int) -> Slots | None:
    """Choose GPUs: whole ones among those that are free, a part on the first that has room.

    Parts go to a GPU that is in use already where they can, so that whole ones stay whole.
    """
    num_whole, part = divmod(units, UNITS_PER_ONE)
    if not num_whole:
        for in_use in (True, False):
            for index, room in free.items():
                if room >= units and (room < UNITS_PER_ONE) is in_use:
                    return ((index, units),)
        return None
    whole = [index for index, room in free.items() if room == UNITS_PER_ONE]
    if part or len(whole) < num_whole:
        return None
    return tuple((index, UNITS_PER_ONE) for index in whole[:num_whole])


class Ledger:
    """The accounts of all nodes.

    What is free and what is held add up to what a node has, always, and so for each bundle; a CPU that
    is lent counts as free. Only `acquire`, `reserve` and `shrink` make grants, and each is released at
    most once: a second release, or that of a grant whose node has gone, changes nothing.
    """

    def __init__(self) -> None:
        self._nodes: dict[str, Node] = {}
        #: What each grant was taken from: a node, or a bundle.
        self._held: dict[Grant, Node] = {}
        #: What is granted of the grants that are bundles.
        self._bundles: dict[Grant, Node] = {}
        #: How often the CPU of a grant is lent now: a call may wait in several threads at once.
        self._lent: dict[Grant, int] = {}
        self._spread_from = 0
        #: How often nodes have come or gone.
        self.membership = 0

    # --- nodes ----------------------------------------------------------------------------------

    def add_node(self, node_id: str, total: ResourceSet) -> None:
        """Add a node with all that it has free; one that comes again is a new one."""
        self.remove_node(node_id)
        self._nodes[node_id] = Node(node_id, total)
        self.membership += 1

    def remove_node(self, node_id: str) -> None:
        """Forget a node and what is held there; harmless when it is not known."""
        if self._nodes.pop(node_id, None) is None:
            return
        self.membership += 1
        for grant in [grant for grant in self._held if grant.node_id == node_id]:
            del self._held[grant]
            self._lent.pop(grant, None)
            self._bundles.pop(grant, None)

    @property
    def nodes(self) -> tuple[str, ...]:
        """Ids of the nodes, in the order in which they came."""
        return tuple(self._nodes)

    def node_total(self, node_id: str) -> ResourceSet:
        """Return what a node has."""
        return self._nodes[node_id].total

    def node_available(self, node_id: str) -> ResourceSet:
        """Return what a node has free, nothing below 0."""
        return self._nodes[node_id].available()

    def cluster_total(self) -> ResourceSet:
        """Return what all nodes have together."""
        return _sum(node.total for node in self._nodes.values())

    def cluster_available(self) -> ResourceSet:
        """Return what is free, summed over the nodes; see `node_available`."""
        return _sum(node.available() for node in self._nodes.values())

    def place_of(self, grant: Grant) -> Place:
        """Return what a grant that is held was taken from."""
        return self._held[grant].place

    def _at(self, place: Place) -> Node | None:
        return self._nodes.get(place) if isinstance(place, str) else self._bundles.get(place)

    def most_free(self, resource: str, within: Iterable[Grant] | None = None) -> int:
        """Return the units of a resource that are free on one node, or in one of some bundles."""
        nodes: Iterable[Node] = self._nodes.values()
        if within is not None:
            nodes = [self._bundles[each] for each in within if each in self._bundles]
        return max((node.free.get(resource, 0) for node in nodes), default=0)

    def lacks_only_cpus(self, place: Place, request: ResourceSet) -> bool:
        """Whether a node or bundle could fulfil the request now if enough of its CPUs were free."""
        node = self._at(place)
        if node is None or node.total.get("CPU") < request.get("CPU"):
            return False
        others = {name: units for name, units in request.items() if name != "CPU"}
        return node.fits(ResourceSet(others))

    def fits_without(
        self, place: Place, request: ResourceSet, others: Iterable[ResourceSet]
    ) -> bool:
        """Whether a node or bundle could fulfil a request once `others`, held there, have ended."""
        node = self._at(place)
        if node is None:
            return False
        free = dict(node.free)
        for other in others:
            for name, units in other.items():
                free[name] += units
        return all(free.get(name, 0) >= units for name, units in request.items())

    def is_overdrawn(self, node_id: str) -> bool:
        """Whether more runs on a node than it has CPUs for, since calls have taken theirs back."""
        node = self._nodes.get(node_id)
        return node is not None and node.free.get("CPU", 0) < 0

    def is_lent(self, grant: Grant) -> bool:
        """Whether others have the CPU of a grant just now."""
        return bool(self._lent.get(grant))

    def feasible(self, request: ResourceSet, only: Collection[str] | None = None) -> bool:
        """Whether some node (of `only`) could fulfil the request if nothing else ran there."""
        return any(Node("", node.total).fits(request) for node in self._among(only))

    def _among(self, only: Collection[str] | None) -> Sequence[Node]:
        nodes = self._nodes.values()
        return [node for node in nodes if only is None or node.node_id in only]

    def largest_node(self, request: ResourceSet) -> ResourceSet:
        """Return what that node has which comes nearest to the request; empty without nodes."""

        def nearness(total: ResourceSet) -> tuple[float, float, int]:
            shares = [total.get(name) / units for name, units in request.items()]
            return min(shares, default=1.0), sum(min(s, 1.0) for s in shares), total.get("CPU")

        totals = (node.total for node in self._nodes.values())
        return max(totals, key=nearness, default=ResourceSet())

    # --- grants ---------------------------------------------------------------------------------

    def acquire(
        self,
        request: ResourceSet,
        *,
        strategy: str = "DEFAULT",
        prefer: Sequence[str] = (),
        only: Collection[str] | None = None,
        within: Iterable[Grant] | None = None,
    ) -> Grant | None:
        """Take what is asked for from one node, or return None when none has it free now.

        Parameters
        ----------
        strategy : {"DEFAULT", "SPREAD"}
            DEFAULT takes the first of `prefer` that fits, then fills the nodes in order up to half,
            then takes the least utilised; those with GPUs last when no GPU is asked for. SPREAD
            takes the nodes that fit in turn.
        prefer : sequence of str, optional
            Ids of nodes, the best first; ids that are not known are skipped.
        only : collection of str, optional
            Ids of the nodes that may be taken.
        within : iterable of Grant, optional
            Bundles: it is taken from one of these, not from a node; `prefer` does not matter then.

        Notes
        -----
        Ray source: its hybrid and spread scheduling policies. Differs from Ray: no random choice
        among nodes that are equally good.
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
            raise ValueError(f"No strategy is called {strategy!r}: expected 'DEFAULT' or 'SPREAD'.")
        if node is None:
            return None
        grant = Grant(node.node_id, request, node.take(request))
        self._held[grant] = node
        return grant

    def _preferred(
        self, request: ResourceSet, prefer: Sequence[str], only: Collection[str] | None
    ) -> Node | None:
        for node_id in prefer:
            node = self._nodes.get(node_id)
            if node is not None and (only is None or node_id in only) and node.fits(request):
                return node
        return None

    def _in_turn(self, request: ResourceSet, nodes: Sequence[Node]) -> Node | None:
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
    ) -> tuple[Grant, ...] | None:
        """Take all bundles of a group, each from one node, or none when they do not fit now.

        Parameters
        ----------
        bundles : sequence of ResourceSet
        strategy : {"PACK", "SPREAD", "STRICT_PACK", "STRICT_SPREAD"}
            See `arrange`.
        only : collection of str, optional
            Ids of the nodes that may be taken.
        beside : collection of str, optional
            Ids of the nodes that have other bundles of the group.

        Returns
        -------
        tuple of Grant or None
            One for each bundle, in their order: `acquire` takes from them.
        """
        found = arrange(bundles, strategy, self._among(only), beside)
        if found is None:
            return None
        grants = []
        for bundle, (node, gpus) in zip(bundles, found, strict=True):
            grant = Grant(node.node_id, bundle, gpus)
            self._held[grant] = node
            self._bundles[grant] = Node(node.node_id, bundle, gpus, grant)
            grants.append(grant)
        return tuple(grants)

    def where_it_could_be(
        self,
        bundles: Sequence[ResourceSet],
        strategy: str,
        *,
        ended: Collection[Grant] | None = None,
        only: Collection[str] | None = None,
        beside: Collection[str] = (),
    ) -> list[str] | None:
        """Return the nodes on which `reserve` would succeed once the grants `ended` have ended.

        Or all, by default. None: it would not even then.
        """
        if ended is None:
            nodes = [Node(node.node_id, node.total) for node in self._among(only)]
        else:
            nodes = [node.copy() for node in self._among(only)]
            by_id = {node.node_id: node for node in nodes}
            for grant in ended:
                node = by_id.get(grant.node_id)
                if node is not None and self._held.get(grant) is self._nodes[grant.node_id]:
                    node.give(self._back(grant), grant.gpus)
        found = arrange(bundles, strategy, nodes, beside)
        return [node.node_id for node, _ in found] if found is not None else None

    def _back(self, grant: Grant) -> dict[str, int]:
        """Return what is free in addition when a grant ends: what it has lent is free already."""
        back = grant.resources.units()
        if self._lent.get(grant):
            back.pop("CPU", None)
        return back

    def release(self, grant: Grant) -> None:
        """Give back what a grant holds, except what it has lent: that is free already.

        Of a bundle only that is free which nobody holds; the rest is when they release it.
        """
        node = self._held.pop(grant, None)
        if node is None:
            return
        bundle = self._bundles.pop(grant, None)
        if bundle is not None:
            for other in [each for each, of in self._held.items() if of is bundle]:
                self._held[other] = node
            node.give(bundle.free, tuple(bundle.free_gpus.items()))
            return
        node.give(self._back(grant), grant.gpus)
        self._lent.pop(grant, None)

    def shrink(self, grant: Grant, to: ResourceSet) -> Grant:
        """Give back what a grant holds beyond `to`, and return the grant that replaces it.

        Its GPUs are the first of those it had, as many as `to` allows. A CPU that is lent stays
        lent, by the new grant.
        """
        beyond = {name: units - to.get(name) for name, units in grant.resources.items()}
        if any(units < 0 for units in beyond.values()) or not to.units().keys() <= beyond.keys():
            raise ValueError(f"A grant of {grant.resources} cannot shrink to {to}, which is more.")
        kept, dropped = _split(grant.gpus, to.get("GPU"))
        smaller = Grant(grant.node_id, to, kept)
        node = self._held.pop(grant, None)
        if node is None:
            return smaller
        self._held[smaller] = node
        times_lent = self._lent.pop(grant, 0)
        if times_lent:
            self._lent[smaller] = times_lent
            beyond.pop("CPU", None)
        node.give(beyond, dropped)
        return smaller

    def lend_cpu(self, grant: Grant) -> None:
        """Let others have the CPU of a call that waits for an object; its other resources stay."""
        node = self._held.get(grant)
        if node is None:
            return
        times_lent = self._lent.get(grant, 0)
        self._lent[grant] = times_lent + 1
        cpu = grant.resources.get("CPU")
        if cpu and not times_lent:
            node.free["CPU"] += cpu

    def take_back_cpu(self, grant: Grant, *, entirely: bool = False) -> None:
        """End a `lend_cpu`, or all; the last takes the CPU, if need be below 0: the call goes on."""
        times_lent = self._lent.get(grant, 0)
        if times_lent > 1 and not entirely:
            self._lent[grant] = times_lent - 1
        elif times_lent:
            del self._lent[grant]
            cpu = grant.resources.get("CPU")
            if cpu:
                self._held[grant].free["CPU"] -= cpu


def _hybrid(request: ResourceSet, nodes: Iterable[Node]) -> Node | None:
    if request.get("GPU"):
        return _fill(request, nodes)
    plain: list[Node] = []
    with_gpus: list[Node] = []
    for node in nodes:
        (with_gpus if node.free_gpus else plain).append(node)
    return _fill(request, plain) or _fill(request, with_gpus)


def _fill(request: ResourceSet, nodes: Iterable[Node]) -> Node | None:
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
    """Split slots into those that make up `units`, and the others."""
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
