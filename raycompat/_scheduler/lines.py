"""Lines of calls that wait for resources. A line has the calls of one shape, in order.

Each line is kept under a resource of which too little was free when it was tried last, by the units
that it needs. The dispatcher then offers free resources to the lines that they may be enough for, and
to no others: thousands of shapes that wait for CPUs cost nothing while no CPU is free. Pure.
"""

from __future__ import annotations

import itertools
from bisect import bisect_left, bisect_right, insort
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, TypeAlias

from raycompat._protocol.strategy import InGroup, OnNode

if TYPE_CHECKING:
    from raycompat._scheduler.leases import Shape

#: Whose resources a line waits for: a placement group's, by its id, or the nodes' own.
Site: TypeAlias = "str | None"

#: The resource of lines that may be served whatever is free. Resources have names that are not empty.
_ANY = ""


class Line:
    """The calls of one shape that wait, in order."""

    __slots__ = ("_place", "counts", "is_told", "is_untried", "keys", "round", "shape", "turn")

    def __init__(self, shape: Shape, turn: int) -> None:
        self.shape = shape
        #: Keys of the calls, and the kind of each; how many there are of each kind.
        self.keys: OrderedDict[str, str] = OrderedDict()
        self.counts: Counter[str] = Counter()
        #: Lines are served in the order of their turns; a line that was served gets a new one.
        self.turn = turn
        #: The round of serving in which it was tried last.
        self.round = 0
        #: Whether none of its calls had to wait since it came, or since nodes have come or gone.
        self.is_untried = True
        #: Whether its owner was notified that it waits in vain.
        self.is_told = False
        #: The resource that it lacks, and the units of it that it needs.
        self._place = (_ANY, 0)

    @property
    def first(self) -> str:
        """The key of the call that has waited longest."""
        return next(iter(self.keys))

    @property
    def must_be_tried(self) -> bool:
        """Whether its first call is to be tried even if it lacks something: it may fail at once."""
        strategy = self.shape[2]
        return self.is_untried or (isinstance(strategy, OnNode) and strategy.fails_when_busy)

    @property
    def site(self) -> Site:
        """Whose resources it waits for."""
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
        """Yield the first line of each need that so many units are enough for."""
        for need in self.needs[: bisect_right(self.needs, units)]:
            yield next(iter(self.by_need[need].values()))


class Lines:
    """See the module."""

    def __init__(self) -> None:
        self._by_shape: OrderedDict[Shape, Line] = OrderedDict()
        self._shelves: dict[Site, dict[str, _Shelf]] = {}
        self._turns = itertools.count()

    def __len__(self) -> int:
        return len(self._by_shape)

    def __iter__(self) -> Iterator[Line]:
        return iter(self._by_shape.values())

    def sites(self) -> list[Site]:
        """Return whose resources lines wait for."""
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
        """Take a call out that is not to start."""
        line.counts[line.keys.pop(key)] -= 1
        if not line.keys:
            self._take_off(line)
            del self._by_shape[line.shape]

    def served(self, key: str, line: Line) -> None:
        """Take a call out that has started, or failed; its line is behind the others now."""
        self.remove(key, line)
        if line.keys:
            line.turn = next(self._turns)
            self._move(line, _ANY, 0)

    def next(self, site: Site, most_free: Callable[[str], int], round_: int) -> Line | None:
        """Return the line whose turn it is among those that may be served, once a round at most.

        `most_free` returns the units of a resource that are free in one place.
        """
        best = None
        for resource, shelf in self._shelves.get(site, {}).items():
            for line in shelf.heads(most_free(resource) if resource else 0):
                if line.round != round_ and (best is None or line.turn < best.turn):
                    best = line
        return best

    def lacks(self, line: Line, resource: str) -> None:
        """Enter that too little of a resource is free for a line."""
        self._move(line, resource, line.shape[1].get(resource))

    def try_again(self, line: Line, round_: int) -> None:
        """Enter that a line could not be served in this round, for other reasons than what is free."""
        line.round = round_
        self._move(line, _ANY, 0)

    def try_all(self) -> None:
        """Mark every line as not tried: nodes have come or gone."""
        for line in self._by_shape.values():
            line.is_untried = True
            self._move(line, _ANY, 0)

    def some(self, count: int) -> list[Line]:
        """Return so many lines at most, others at each call until all were returned."""
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
