"""The total and free resources of one node or bundle, and what is held of them. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias

from raycompat._protocol.resource_set import UNITS_PER_ONE, ResourceSet

#: Resources whose shortage slows a node down. A node's utilisation is that of the fullest one.
CRITICAL_RESOURCES: Final = ("CPU", "memory", "object_store_memory")

#: GPUs by index, with the units of each that are held, or free.
Slots = tuple[tuple[int, int], ...]


@dataclass(frozen=True, eq=False, slots=True)
class Holding:
    """The resources that a call or actor holds on a node until release. No two holdings are equal."""

    node_id: str
    resources: ResourceSet
    #: For each held GPU, its index and its units.
    gpus: Slots = ()


#: The source of a holding: a node, by its id, or a bundle, which is itself a holding.
Place: TypeAlias = str | Holding


class Capacity:
    """The total and free resources of one node or bundle.

    `free` CPU is negative when lent CPUs are taken back while others use them.
    """

    __slots__ = ("critical", "free", "free_gpus", "holdings", "node_id", "place", "total")

    def __init__(
        self,
        node_id: str,
        total: ResourceSet,
        gpus: Slots | None = None,
        bundle: Holding | None = None,
    ) -> None:
        self.node_id = node_id
        self.place: Place = node_id if bundle is None else bundle
        self.total = total
        self.free = total.units()
        #: The holdings that were taken from this node or bundle, except bundles.
        self.holdings: dict[Holding, None] = {}
        #: Free units of each GPU, by index.
        self.free_gpus = dict(_gpu_slots(total) if gpus is None else gpus)
        units = [(name, total.get(name)) for name in CRITICAL_RESOURCES]
        self.critical = [(name, count) for name, count in units if count]

    def copy(self) -> Capacity:
        """Return a copy, to try a change on."""
        other = Capacity(self.node_id, self.total)
        other.free, other.free_gpus = self.free.copy(), self.free_gpus.copy()
        return other

    def fits(self, request: ResourceSet) -> bool:
        """Return whether the request fits now, with its GPUs on GPUs that are free enough."""
        free = self.free
        for name, units in request.items():
            if free.get(name, 0) < units:
                return False
        gpus = request.get("GPU")
        return not gpus or choose_gpus(self.free_gpus, gpus) is not None

    def utilisation(self) -> float:
        """Return the utilisation of the fullest critical resource: 0 for empty, 1 for full."""
        fullest = 0.0
        for name, total in self.critical:
            fullest = max(fullest, 1 - self.free[name] / total)
        return fullest

    def take(self, request: ResourceSet) -> Slots:
        """Take a request that `fits`; return its GPUs."""
        free = self.free
        for name, units in request.items():
            free[name] -= units
        gpus = request.get("GPU")
        slots = (choose_gpus(self.free_gpus, gpus) or ()) if gpus else ()
        for index, units in slots:
            self.free_gpus[index] -= units
        return slots

    def give(self, resources: Mapping[str, int], gpus: Slots) -> None:
        """Return resources that were held."""
        free = self.free
        for name, units in resources.items():
            free[name] += units
        for index, units in gpus:
            self.free_gpus[index] += units

    def add_gpu(self, index: int) -> None:
        """Add a GPU, which is free."""
        self.free_gpus = dict(sorted([*self.free_gpus.items(), (index, UNITS_PER_ONE)]))
        self._change_gpus(UNITS_PER_ONE)

    def drop_gpu(self, index: int) -> bool:
        """Remove a GPU, unless a part of it is held; return whether it was removed."""
        if self.free_gpus[index] < UNITS_PER_ONE:
            return False
        del self.free_gpus[index]
        self._change_gpus(-UNITS_PER_ONE)
        return True

    def _change_gpus(self, units: int) -> None:
        self.total = ResourceSet({**self.total.units(), "GPU": self.total.get("GPU") + units})
        self.free["GPU"] = self.free.get("GPU", 0) + units

    def available(self) -> ResourceSet:
        return ResourceSet({name: units for name, units in self.free.items() if units > 0})


def _gpu_slots(total: ResourceSet) -> Slots:
    whole, rest = divmod(total.get("GPU"), UNITS_PER_ONE)
    return tuple(enumerate([UNITS_PER_ONE] * whole + ([rest] if rest else [])))


def choose_gpus(free: Mapping[int, int], units: int) -> Slots | None:
    """Choose GPUs: whole ones among the free ones; a fraction on the first GPU with room.

    A fraction goes to a GPU that is already shared, if possible, so that whole GPUs stay free.
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
