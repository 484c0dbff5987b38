"""The bytes of objects that each node has: one figure for pages, commands and `available_resources`."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from raycompat._protocol.resource_set import UNITS_PER_ONE, ResourceSet

if TYPE_CHECKING:
    from raycompat._scheduler.ground import Ground
    from raycompat._scheduler.survey import OwnBytes

#: The name of the resource.
STORE = "object_store_memory"


class Stored(NamedTuple):
    """The bytes of a node's objects."""

    memory: int
    disk: int


def stored(ground: Ground, of_callers: OwnBytes) -> dict[str, Stored]:
    """Return the bytes of each node: what Dask knows, and what callers keep in its memory beside that.

    The callers' part is from the last survey, so a requester asks for a survey first.
    """
    own = of_callers.by_node()
    found = {}
    for address in ground.ledger.nodes:
        memory, disk = ground.dask.stored_bytes(address)
        found[address] = Stored(memory + own[address], disk)
    return found


def available(ground: Ground, of_callers: OwnBytes) -> dict[str, ResourceSet]:
    """Return the free resources of each node; what objects occupy is not free."""
    found = {}
    for address, (memory, _) in stored(ground, of_callers).items():
        units = ground.ledger.node_available(address).units()
        if STORE in units:
            units[STORE] = max(0, units[STORE] - memory * UNITS_PER_ONE)
        found[address] = ResourceSet(units)
    return found
