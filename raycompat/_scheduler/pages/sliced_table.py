"""Tables with many rows: a search among them runs in slices, between which the scheduler does its work.

Viewers who want the same share its result.
"""

from __future__ import annotations

import json
import time
from collections import OrderedDict
from collections.abc import Generator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary, WeakSet

from raycompat._protocol.plain import Row
from raycompat._scheduler.pages import tables
from raycompat._scheduler.pages.table_widget import LONG_S, PAUSES, Selection, Table

if TYPE_CHECKING:
    from raycompat._scheduler.history import History
    from raycompat._scheduler.watched_parts import WatchedParts

#: Seconds for which a search may keep the scheduler from its work, and of the pause after that.
_SLICE_S, _BETWEEN_SLICES_S = 0.008, 0.01

#: Rows of actors after which a search looks at the clock.
_FEW_ROWS = 300

#: Results that are kept for other viewers, and the seconds for which one is as good as a new search.
_MANY_RESULTS, _FRESH_S = 20, 0.4


@dataclass(slots=True)
class _Shared:
    """What the viewers of one history share: the time that they may take, and results.

    All times are those of the monotonic clock.
    """

    #: When the next slice of any search may begin, and by table the next repetition of a search.
    next_slice: float = 0.0
    next_search: dict[str, float] = field(default_factory=dict)
    #: The tables whose search is not complete: they take turns.
    searching: WeakSet[SlicedTable] = field(default_factory=WeakSet)
    #: When each result was complete, and the result, by the table and what was wanted.
    results: OrderedDict[str, tuple[float, Selection]] = field(default_factory=OrderedDict)

    def keep(self, wanted: str, found: Selection) -> None:
        """Keep a result, and the last others."""
        self.results[wanted] = time.monotonic(), found
        self.results.move_to_end(wanted)
        if len(self.results) > _MANY_RESULTS:
            self.results.popitem(last=False)


#: By history: a process has one, but in tests.
_SHARED: WeakKeyDictionary[History, _Shared] = WeakKeyDictionary()

#: A search: it yields where it may pause.
Steps = Generator[None, None, Selection]


class SlicedTable(Table):
    """A table whose search is done in steps. `read` is not used."""

    def __init__(self, parts: WatchedParts, name: str) -> None:
        super().__init__(parts, name, lambda parts: [])
        self._shared = _SHARED.setdefault(parts.history, _Shared())
        #: What was wanted at the last update, and when the result that is shown was complete.
        self._wanted, self._shown = "", 0.0
        #: The search that runs, and the seconds that it has taken.
        self._search: Steps | None = None
        self._took_s = 0.0
        #: Whether the next slice is due already.
        self._is_due = False

    def update(self) -> None:
        """Show what is there now, or go on with the search for it."""
        wish = self.wish()
        wanted = json.dumps([self._page, wish], sort_keys=True)
        if wanted != self._wanted:
            self._wanted, self._search = wanted, self._steps(wish)
            self._took_s = 0.0
        elif self._search is None:
            done, found = self._shared.results.get(wanted, (0.0, None))
            now = time.monotonic()
            must_wait = now < self._shared.next_search.get(self._page, 0.0)
            if found is not None and done > self._shown and (must_wait or now < done + _FRESH_S):
                self._shown = done
                self.show(found)
                return
            if must_wait:
                return
            self._search, self._took_s = self._steps(wish), 0.0
        self._go_on(self._search)

    @property
    def is_searching(self) -> bool:
        """Whether a search has begun and is not complete."""
        return self._search is not None

    def _go_on(self, search: Steps) -> None:
        """Do one slice of a search, and show its result if it is complete."""
        shared, began = self._shared, time.monotonic()
        shared.searching.add(self)
        if began >= shared.next_slice:
            try:
                found = _slice(search, began + _SLICE_S)
            except BaseException:
                self._end_search()
                raise
            now = time.monotonic()
            self._took_s += now - began
            shared.next_slice = now + _BETWEEN_SLICES_S
            if found is not None:
                self._end_search()
                if self._took_s > LONG_S:
                    shared.next_search[self._page] = now + PAUSES * self._took_s
                shared.keep(self._wanted, found)
                self._shown = shared.results[self._wanted][0]
                self.show(found)
                return
        doc = self.root.document
        if not self._is_due and doc is not None and doc.session_context is not None:
            self._is_due = True
            pause_s = _BETWEEN_SLICES_S * len(shared.searching)
            doc.add_timeout_callback(self._soon, round(1000 * pause_s))

    def _end_search(self) -> None:
        self._search = None
        self._shared.searching.discard(self)

    def _soon(self) -> None:
        self._is_due = False
        if self._search is not None:
            self.update()

    def select(self, wish: Mapping[str, object]) -> Selection:
        """Return the rows that are wanted."""
        found = _slice(self._steps(wish), float("inf"))
        assert found is not None
        return found

    def _steps(self, wish: Mapping[str, object]) -> Steps:
        """Return the rows that are wanted, in small steps."""
        raise NotImplementedError


class Actors(SlicedTable):
    """The table of actors, and of the last ones that have ended."""

    def __init__(self, parts: WatchedParts) -> None:
        super().__init__(parts, "actors")

    def _steps(self, wish: Mapping[str, object]) -> Steps:
        """Return the rows that are wanted. Each step keeps the first ones of those looked at so far."""
        job, every = str(wish.get("job") or ""), tables.every_actor(self._parts)
        first: list[Row] = []
        num_all = num_found = num_internal = 0
        while few := list(islice(every, _FEW_ROWS)):
            rows = [row for row in few if job in ("", row["job"])]
            num_meant, found = self._chosen(tables.ranked(rows), wish)
            num_all, num_found = num_all + num_meant, num_found + len(found)
            num_internal += len(rows) - num_meant
            if found:
                first = self._arrange(tables.ranked([*first, *found]), wish)[: self._most]
            yield
        return Selection(first, num_all, num_found, num_internal)


def _slice(search: Steps, until: float) -> Selection | None:
    """Go on with a search until a time of the monotonic clock; return its result if it is complete."""
    while True:
        try:
            next(search)
        except StopIteration as done:
            found: Selection = done.value
            return found
        if time.monotonic() >= until:
            return None
