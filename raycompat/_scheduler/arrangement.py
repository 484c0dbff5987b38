"""The layout of a placement group's bundles over nodes: all of them, or none.

Pure functions. Bundles that few nodes can take are placed first. STRICT_PACK and STRICT_SPREAD find a
layout whenever one exists (except for fractions of GPUs). PACK and SPREAD would have to try all layouts
for that; they usually find one.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING, Final, TypeAlias

if TYPE_CHECKING:
    from raycompat._protocol.resource_set import ResourceSet
    from raycompat._scheduler.ledger import Capacity, Slots

#: The node of each bundle, and its GPUs; by the bundle's number.
Layout: TypeAlias = "dict[int, tuple[Capacity, Slots]]"

#: Bundles by number, in the order in which they are placed.
_Numbered: TypeAlias = "list[tuple[int, ResourceSet]]"


def arrange(
    bundles: Sequence[ResourceSet],
    strategy: str,
    nodes: Sequence[Capacity],
    beside: Collection[str] = (),
) -> list[tuple[Capacity, Slots]] | None:
    """Take all bundles from nodes, or none of them.

    Parameters
    ----------
    bundles : sequence of ResourceSet
    strategy : {"PACK", "SPREAD", "STRICT_PACK", "STRICT_SPREAD"}
        Use few nodes; use many nodes; use one node; use a different node for each bundle.
    nodes : sequence of Capacity
        The nodes that may be used.
    beside : collection of str, optional
        Ids of the nodes that have other bundles of the group.

    Returns
    -------
    list of (Capacity, Slots) or None
        The node and the GPUs of each bundle.

    Notes
    -----
    Ray source: its bundle scheduling policies. Differs from Ray: STRICT_SPREAD and SPREAD give each
    bundle a separate node whenever that is possible.
    """
    wants_gpus = any(bundle.get("GPU") for bundle in bundles)
    ordered = sorted(
        nodes, key=lambda node: (bool(node.free_gpus) and not wants_gpus, node.utilisation())
    )
    numbered = sorted(enumerate(bundles), key=lambda each: _rarity(each[1]), reverse=True)
    found = _STRATEGIES[strategy](numbered, ordered, beside)
    return [found[number] for number in range(len(bundles))] if found is not None else None


def _rarity(bundle: ResourceSet) -> tuple[int, int, int]:
    """Return a sort key that is larger for bundles that fewer nodes can take."""
    return bundle.get("GPU"), len(bundle), sum(units for _, units in bundle.items())


def _fill(bundles: _Numbered, node: Capacity) -> Layout:
    """Take as many of the bundles from a node as fit."""
    return {number: (node, node.take(bundle)) for number, bundle in bundles if node.fits(bundle)}


def _undo(bundles: _Numbered, taken: Layout) -> None:
    for number, bundle in bundles:
        if number in taken:
            node, gpus = taken[number]
            node.give(bundle.units(), gpus)


def _strict_pack(
    bundles: _Numbered, nodes: Sequence[Capacity], _: Collection[str]
) -> Layout | None:
    for node in nodes:
        taken = _fill(bundles, node)
        if len(taken) == len(bundles):
            return taken
        _undo(bundles, taken)
    return None


def _pack(bundles: _Numbered, nodes: Sequence[Capacity], beside: Collection[str]) -> Layout | None:
    """Use the node that takes most of the remaining bundles, until all are placed."""
    found: Layout = {}
    # Of nodes that take equally many, the first is used.
    candidates = sorted(nodes, key=lambda node: node.node_id not in beside)
    while len(found) < len(bundles):
        left = [each for each in bundles if each[0] not in found]
        best = max(candidates, key=lambda node: _number_taken(left, node), default=None)
        taken = _fill(left, best) if best is not None else {}
        if not taken:
            _undo(bundles, found)
            return None
        found |= taken
    return found


def _number_taken(bundles: _Numbered, node: Capacity) -> int:
    return len(_fill(bundles, node.copy()))


def _strict_spread(
    bundles: _Numbered, nodes: Sequence[Capacity], beside: Collection[str]
) -> Layout | None:
    """Match bundles and nodes: a bundle without a free node moves others, if they can move."""
    choices = {
        number: [n.node_id for n in nodes if n.node_id not in beside and n.fits(bundle)]
        for number, bundle in bundles
    }
    taken_by: dict[str, int] = {}

    def match(number: int, tried: set[str]) -> bool:
        for node_id in sorted(choices[number], key=taken_by.__contains__):
            if node_id not in tried:
                tried.add(node_id)
                if node_id not in taken_by or match(taken_by[node_id], tried):
                    taken_by[node_id] = number
                    return True
        return False

    if not all(match(number, set()) for number, _ in bundles):
        return None
    by_number = {number: node_id for node_id, number in taken_by.items()}
    by_id = {node.node_id: node for node in nodes}
    return {
        number: (by_id[by_number[number]], by_id[by_number[number]].take(bundle))
        for number, bundle in bundles
    }


def _spread(
    bundles: _Numbered, nodes: Sequence[Capacity], beside: Collection[str]
) -> Layout | None:
    """Give each bundle a separate node, else a node with few bundles of the group."""
    found = _strict_spread(bundles, nodes, beside)
    if found is not None:
        return found
    found, count = {}, {node.node_id: int(node.node_id in beside) for node in nodes}
    for number, bundle in bundles:
        fitting = [node for node in nodes if node.fits(bundle)]
        if not fitting:
            _undo(bundles, found)
            return None
        node = min(fitting, key=lambda each: (count[each.node_id], each.utilisation()))
        count[node.node_id] += 1
        found[number] = (node, node.take(bundle))
    return found


_Arrange: TypeAlias = "Callable[[_Numbered, Sequence[Capacity], Collection[str]], Layout | None]"

_STRATEGIES: Final[dict[str, _Arrange]] = {
    "PACK": _pack,
    "SPREAD": _spread,
    "STRICT_PACK": _strict_pack,
    "STRICT_SPREAD": _strict_spread,
}
