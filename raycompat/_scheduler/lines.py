"""Lines of calls that wait for resources. A line has the calls of one shape, in order.

Each line is stored under a resource that was scarce when it was last tried, by the units that it needs.
The dispatcher offers free resources only to the lines for which they may be enough. So thousands of
shapes that wait for CPUs cost nothing while no CPU is free. Pure: no network, no Dask.
"""

from __future__ import annotations

import itertools
from bisect import bisect_left, bisect_right, insort
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, TypeAlias

from raycompat._protocol.strategy import InGroup, OnNode, without_selectors

if TYPE_CHECKING:
    from raycompat._protocol.resource_set import ResourceSet
    from raycompat._protocol.strategy import Strategy

#: The owner, the request and the strategy of a call or lease.
Shape: TypeAlias = "tuple[str, ResourceSet, Strategy]"

#: The owner of the resources for which a line waits: a placement group's id, or None for the nodes.
Site: TypeAlias = "str | None"

#: The resource of lines that may be served at any time. Names of resources are not empty.
_ANY = ""


class Line:
    """The waiting calls of one shape, in order."""

    __slots__ = ("_place", "counts", "is_told", "is_untried", "keys", "round", "shape", "turn")

    def __init__(self, shape: Shape, turn: int) -> None:
        self.shape = shape
        #: Keys of the calls with the kind of each; the number of calls of each kind.
        self.keys: OrderedDict[str, str] = OrderedDict()
        self.counts: Counter[str] = Counter()
        #: Lines are served in the order of their turns; a line that was served gets a new one.
        self.turn = turn
        #: The last round in which it was tried.
        self.round = 0
        #: Whether it was not tried since its creation, or since the nodes last changed.
        self.is_untried = True
        #: Whether its owner was notified that no node can run it.
        self.is_told = False
        #: The resource that it lacks, and the units that it needs.
        self._place = (_ANY, 0)

    @property
    def first(self) -> str:
        """The key of the call that has waited longest."""
        return next(iter(self.keys))

    @property
    def must_be_tried(self) -> bool:
        """Whether its first call must be tried without free resources: it may fail at once."""
        strategy = without_selectors(self.shape[2])
        return self.is_untried or (isinstance(strategy, OnNode) and strategy.fails_when_busy)

    @property
    def site(self) -> Site:
        """The owner of the resources for which it waits."""
        strategy = self.shape[2]
        return strategy.group if isinstance(strategy, InGroup) else None


class _Shelf:
    """Lines that lack one resource, by the units that they need."""

    __slots__ = ("by_need", "needs")

    def __init__(self) -> None:
        self.by_need: dict[int, OrderedDict[Shape, Line]] = {}
        self.needs: list[int] = []

    def put(self, line: Line, need: int) -> None:
        lines = self.by_need.get(need)
        if lines is None:
            lines = self.by_need[need] = OrderedDict()
            insort(self.needs, need)
        lines[line.shape] = line

    def drop(self, line: Line, need: int) -> None:
        lines = self.by_need[need]
        del lines[line.shape]
        if not lines:
            del self.by_need[need]
            del self.needs[bisect_left(self.needs, need)]

    def heads(self, units: int) -> Iterator[Line]:
        """Yield the first line of each need for which `units` are enough."""
        for need in self.needs[: bisect_right(self.needs, units)]:
            yield next(iter(self.by_need[need].values()))


class Lines:
    """All lines, by shape and by scarce resource."""

    def __init__(self) -> None:
        self._by_shape: OrderedDict[Shape, Line] = OrderedDict()
        self._shelves: dict[Site, dict[str, _Shelf]] = {}
        self._turns = itertools.count()

    def __len__(self) -> int:
        return len(self._by_shape)

    def __iter__(self) -> Iterator[Line]:
        return iter(self._by_shape.values())

    def sites(self) -> list[Site]:
        """Return the owners of the resources for which lines wait."""
        return list(self._shelves)

    def add(self, key: str, kind: str, shape: Shape) -> Line:
        """Put a call at the end of its line, and return the line."""
        line = self._by_shape.get(shape)
        if line is None:
            line = self._by_shape[shape] = Line(shape, next(self._turns))
            self._put(line, _ANY, 0)
        line.keys[key] = kind
        line.counts[kind] += 1
        return line

    def remove(self, key: str, line: Line) -> None:
        """Remove a call that will not start."""
        line.counts[line.keys.pop(key)] -= 1
        if not line.keys:
            self._take_off(line)
            del self._by_shape[line.shape]

    def remove_started(self, key: str, line: Line) -> None:
        """Remove a call that has started or failed, and move its line behind the others."""
        self.remove(key, line)
        if line.keys:
            line.turn = next(self._turns)
            self._move(line, _ANY, 0)

    def next(self, site: Site, most_free: Callable[[str], int], round_: int) -> Line | None:
        """Return the next line in turn that may be served, each at most once a round.

        `most_free` returns the units of a resource that are free in one place.
        """
        best = None
        for resource, shelf in self._shelves.get(site, {}).items():
            for line in shelf.heads(most_free(resource) if resource else round_):
                if line.round != round_ and (best is None or line.turn < best.turn):
                    best = line
        return best

    def lacks(self, line: Line, resource: str) -> None:
        """Record that a line lacks a resource."""
        self._move(line, resource, line.shape[1].get(resource))

    def try_again(self, line: Line, round_: int) -> None:
        """Record that a line could not be served in this round for another reason.

        Its place on the shelf is that of the round: so it does not hide lines that were not tried.
        """
        line.round = round_
        self._move(line, _ANY, round_)

    def mark_all_untried(self) -> None:
        """Mark every line as not tried, because the nodes have changed."""
        for line in self._by_shape.values():
            line.is_untried = True
            self._move(line, _ANY, 0)

    def some(self, count: int) -> list[Line]:
        """Return at most `count` lines, others at each call until all were returned."""
        shapes = list(itertools.islice(self._by_shape, count))
        for shape in shapes:
            self._by_shape.move_to_end(shape)
        return [self._by_shape[shape] for shape in shapes]

    def _put(self, line: Line, resource: str, need: int) -> None:
        line._place = (resource, need)
        shelves = self._shelves.setdefault(line.site, {})
        shelf = shelves.get(resource)
        if shelf is None:
            shelf = shelves[resource] = _Shelf()
        shelf.put(line, need)

    def _take_off(self, line: Line) -> None:
        resource, need = line._place
        shelves = self._shelves[line.site]
        shelves[resource].drop(line, need)
        if not shelves[resource].needs:
            del shelves[resource]
            if not shelves:
                del self._shelves[line.site]

    def _move(self, line: Line, resource: str, need: int) -> None:
        self._take_off(line)
        self._put(line, resource, need)
