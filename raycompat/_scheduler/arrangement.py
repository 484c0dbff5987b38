"""The layout of a placement group's bundles over nodes: all of them, or none.

Pure functions. Bundles that few nodes can take are placed first. STRICT_PACK and STRICT_SPREAD find a
layout whenever one exists (except for fractions of GPUs). PACK and SPREAD would have to try all layouts
for that; they usually find one.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from itertools import groupby
from typing import TYPE_CHECKING, Any, Final, TypeAlias

if TYPE_CHECKING:
    from raycompat._protocol.resource_set import ResourceSet
    from raycompat._scheduler.capacity import Capacity, Slots

#: The node of each bundle, and its GPUs; by the bundle's number.
Layout: TypeAlias = "dict[int, tuple[Capacity, Slots]]"

#: The ids of the nodes that may take a bundle; None is any node.
Allowed: TypeAlias = "frozenset[str] | None"


@dataclass(frozen=True, slots=True)
class Wanted:
    """A bundle to place: its resources, and the nodes that may take it."""

    resources: ResourceSet
    allowed: Allowed = None

    def fits(self, node: Capacity) -> bool:
        """Return whether a node may take the bundle, and has room for it."""
        is_allowed = self.allowed is None or node.node_id in self.allowed
        return is_allowed and node.fits(self.resources)


#: Bundles by number, in the order in which they are placed.
_Numbered: TypeAlias = "list[tuple[int, Wanted]]"


@dataclass(frozen=True, slots=True)
class Room:
    """The free units of each resource: on all nodes together, and on the node that has most."""

    total: Mapping[str, int]
    largest: Mapping[str, int]

    def may_take(self, bundles: Iterable[ResourceSet]) -> bool:
        """Return whether bundles may fit. False is certain, and takes much less time than `reserve`."""
        needs: dict[str, int] = {}
        for bundle in bundles:
            for name, units in bundle.items():
                if units > self.largest.get(name, 0):
                    return False
                needs[name] = needs.get(name, 0) + units
        return all(units <= self.total.get(name, 0) for name, units in needs.items())

    def without(self, bundles: Iterable[ResourceSet]) -> Room:
        """Return what is left, at most, when these bundles have been taken."""
        total = dict(self.total)
        for bundle in bundles:
            for name, units in bundle.items():
                total[name] = total.get(name, 0) - units
        return Room(total, self.largest)


def arrange(
    bundles: Sequence[ResourceSet],
    strategy: str,
    nodes: Sequence[Capacity],
    beside: Collection[str] = (),
    allowed: Sequence[Allowed] = (),
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
    allowed : sequence of frozenset of str or None, optional
        For each bundle, the ids of the nodes that may take it; None is any node. By default, any node
        may take any bundle.

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
    each_allowed = allowed or [None] * len(bundles)
    wanted = map(Wanted, bundles, each_allowed)
    numbered = sorted(enumerate(wanted), key=lambda each: _rarity(each[1]), reverse=True)
    layout = _STRATEGIES[strategy](numbered, ordered, beside)
    return [layout[number] for number in range(len(bundles))] if layout is not None else None


def _rarity(wanted: Wanted) -> tuple[float, int, int, int]:
    """Return a sort key that is larger for bundles that fewer nodes can take."""
    bundle, allowed = wanted.resources, wanted.allowed
    rest = bundle.get("GPU"), len(bundle), sum(units for _, units in bundle.items())
    return -math.inf if allowed is None else -len(allowed), *rest


def _fill(bundles: _Numbered, node: Capacity) -> Layout:
    """Take as many of the bundles from a node as fit."""
    return {
        number: (node, node.take(bundle.resources))
        for number, bundle in bundles
        if bundle.fits(node)
    }


def _undo(bundles: _Numbered, taken: Layout) -> None:
    for number, bundle in bundles:
        if number in taken:
            node, gpus = taken[number]
            node.give(bundle.resources.units(), gpus)


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
    layout: Layout = {}
    # Of nodes that take equally many, the first is used.
    candidates = sorted(nodes, key=lambda node: node.node_id not in beside)
    names = sorted({name for _, bundle in bundles for name, _ in bundle.resources.items()})
    while len(layout) < len(bundles):
        left = [each for each in bundles if each[0] not in layout]
        best = _node_for_most(left, candidates, names)
        taken = _fill(left, best) if best is not None else {}
        if best is None or not taken:
            _undo(bundles, layout)
            return None
        layout |= taken
        candidates.remove(best)  # it can take no more of them
    return layout


def _node_for_most(
    bundles: _Numbered, candidates: Sequence[Capacity], names: Sequence[str]
) -> Capacity | None:
    """Return the node that takes most of the bundles.

    Of nodes that are equally free, and allowed for the same bundles, one is tried.
    """
    counts: dict[Any, int] = {}
    restrictions = {bundle.allowed for _, bundle in bundles} - {None}

    def number_taken(node: Capacity) -> int:
        free = (*map(node.free.get, names), *node.free_gpus.items())
        alike = (free, frozenset(each for each in restrictions if each and node.node_id in each))
        if alike not in counts:
            counts[alike] = len(_fill(bundles, node.copy()))
        return counts[alike]

    best, most = None, -1
    for node in candidates:
        number = number_taken(node)
        if number > most:
            best, most = node, number
            if most == len(bundles):
                break  # no node takes more; large clusters are not looked through
    return best


def _strict_spread(
    bundles: _Numbered, nodes: Sequence[Capacity], beside: Collection[str]
) -> Layout | None:
    """Match bundles and nodes: a bundle without a free node moves others, if they can move."""
    allowed = [node for node in nodes if node.node_id not in beside]
    if len(bundles) > len(allowed):
        return None
    by_shape: dict[Wanted, list[str]] = {}
    for _, bundle in bundles:
        if bundle not in by_shape:
            by_shape[bundle] = [node.node_id for node in allowed if bundle.fits(node)]
    choices = {number: by_shape[bundle] for number, bundle in bundles}
    taken_by: dict[str, int] = {}
    if not all(_match(number, choices, taken_by) for number, _ in bundles):
        return None
    by_number = {number: node_id for node_id, number in taken_by.items()}
    by_id = {node.node_id: node for node in nodes}
    return {
        number: (by_id[by_number[number]], by_id[by_number[number]].take(bundle.resources))
        for number, bundle in bundles
    }


def _match(number: int, choices: Mapping[int, Sequence[str]], taken_by: dict[str, int]) -> bool:
    """Find a node for one more bundle, by a breadth-first search for an augmenting path.

    `taken_by` has the bundle of each node that is taken so far.
    """
    #: The bundle from which each node was reached, and the node that each bundle would leave.
    reached_from: dict[str, int] = {}
    leaves: dict[int, str] = {}
    waiting = deque([number])
    while waiting:
        bundle = waiting.popleft()
        for node_id in choices[bundle]:
            if node_id in reached_from:
                continue
            reached_from[node_id] = bundle
            if node_id not in taken_by:
                _move(node_id, reached_from, leaves, taken_by)
                return True
            leaves[taken_by[node_id]] = node_id
            waiting.append(taken_by[node_id])
    return False


def _move(
    free: str, reached_from: Mapping[str, int], leaves: Mapping[int, str], taken_by: dict[str, int]
) -> None:
    """Move each bundle on the path to a free node one node on."""
    node_id: str | None = free
    while node_id is not None:
        bundle = reached_from[node_id]
        taken_by[node_id] = bundle
        node_id = leaves.get(bundle)


def _spread(
    bundles: _Numbered, nodes: Sequence[Capacity], beside: Collection[str]
) -> Layout | None:
    """Give each bundle a separate node, else a node with few bundles of the group."""
    layout = _strict_spread(bundles, nodes, beside)
    if layout is not None:
        return layout
    layout, count = {}, {node.node_id: int(node.node_id in beside) for node in nodes}
    for bundle, alike in groupby(bundles, key=lambda each: each[1]):
        fitting = [
            (count[node.node_id], node.utilisation(), place)
            for place, node in enumerate(nodes)
            if bundle.fits(node)
        ]
        heapify(fitting)
        for number, _ in alike:
            if not fitting:
                _undo(bundles, layout)
                return None
            node = nodes[place := heappop(fitting)[2]]
            count[node.node_id] += 1
            layout[number] = (node, node.take(bundle.resources))
            if bundle.fits(node):
                heappush(fitting, (count[node.node_id], node.utilisation(), place))
    return layout


_Arrange: TypeAlias = "Callable[[_Numbered, Sequence[Capacity], Collection[str]], Layout | None]"

_STRATEGIES: Final[dict[str, _Arrange]] = {
    "PACK": _pack,
    "SPREAD": _spread,
    "STRICT_PACK": _strict_pack,
    "STRICT_SPREAD": _strict_spread,
}
