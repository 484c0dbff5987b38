"""How many more nodes the waiting calls and placement groups want, for Dask's adaptive scaling."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from fractions import Fraction

from raycompat._protocol.resource_set import ResourceSet
from raycompat._scheduler.group_row import Wish


def nodes_wanted(
    calls: Iterable[tuple[ResourceSet, int]], groups: Iterable[Wish], nodes: Sequence[ResourceSet]
) -> int:
    """Return how many nodes, like the present ones, would hold what waits.

    What would not fit on an empty node is left out, because no number of nodes helps. Without a node
    nothing is known of their size, so one is wanted if anything waits.

    Parameters
    ----------
    calls : iterable of (ResourceSet, int)
        The resources of waiting calls, and how many calls want these.
    groups : iterable of Wish
        The bundles of waiting placement groups.
    nodes : sequence of ResourceSet
        The total resources of the present nodes.
    """
    wanted = Fraction(0)
    alone = 0
    for request, count in [*calls, *((each, 1) for wish in groups for each in _parts_of(wish))]:
        if not nodes:
            return 1
        wanted += count * _share(request, nodes)
    for wish in groups:
        if wish.strategy == "STRICT_SPREAD":
            alone = max(alone, len(wish.bundles) + len(wish.beside) - len(nodes))
    return max(math.ceil(wanted), alone)


def _parts_of(wish: Wish) -> Sequence[ResourceSet]:
    """Return what a group wants, each part on one node."""
    if wish.strategy == "STRICT_PACK":
        return [sum(wish.bundles, ResourceSet({}))]
    return wish.bundles


def _share(request: ResourceSet, nodes: Iterable[ResourceSet]) -> Fraction:
    """Return the part of a node that a request takes, of the one that suits it best; 0 if none does."""
    shares = [
        max(
            (Fraction(units, total.get(name)) for name, units in request.items()),
            default=Fraction(0),
        )
        for total in nodes
        if request.fits_in(total)
    ]
    return min(shares, default=Fraction(0))
