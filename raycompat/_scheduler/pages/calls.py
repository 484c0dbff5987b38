"""The tab of single calls: those that run, those that have ended, and those that wait.

The ended calls are in the history's spans, which are searched as they are. Only the calls that are
shown are unpacked, or all of them where the user sorts by what differs in a span.
"""

from __future__ import annotations

import heapq
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import quote

from raycompat._protocol import failures, ids
from raycompat._protocol.spans import tasks_of, unpack
from raycompat._scheduler.pages import tables
from raycompat._scheduler.pages.table_widget import Selection, Table, arranged, has, searched

if TYPE_CHECKING:
    from raycompat._scheduler.history import EndedCalls
    from raycompat._scheduler.pages.tables import Row
    from raycompat._scheduler.parts import Parts

#: Waiting calls of the scheduler that are looked at; callers list as many as they list for any page.
_MANY_WAITING = 1_000

#: Among the newest so many calls are the newest to show: reports of several processes are mixed.
_MANY_NEWEST = 2_000

#: The time between two updates, as a multiple of the time that an update takes the scheduler.
_PAUSES = 20

#: Columns that differ within a span, and the numbers of a call by which they are sorted.
_BY_CALL: dict[str, Callable[[_Call], Any]] = {
    "id": lambda call: call.id,
    "attempt": lambda call: call.attempt,
    "start": lambda call: call.start,
    "end": lambda call: call.stop,
    "seconds": lambda call: call.stop - call.start,
}


class _Call(NamedTuple):
    """An ended call."""

    id: str
    attempt: int
    start: float
    stop: float
    about: Row


@dataclass(slots=True)
class _Found:
    """A span with calls that are wanted: all, or those with some ids."""

    span: EndedCalls
    parts_of_ids: list[str]
    count: int
    _about: Row | None = None

    @property
    def about(self) -> Row:
        """What all calls of the span have in common."""
        if self._about is None:
            self._about = _common(self.span)
        return self._about

    def calls(self) -> Iterator[tuple[str, float, float]]:
        """Iterate over the calls that are wanted."""
        for each in unpack(self.span.calls):
            if all(part in each[0] for part in self.parts_of_ids):
                yield each


class Calls(Table):
    """The table of calls. `read` is not used: the rows depend on what is wanted."""

    def __init__(self, parts: Parts) -> None:
        super().__init__(parts, "calls", lambda parts: [])
        #: What was wanted at the last update, and when the next one is due if that stays so.
        self._wanted: list[Any] | None = None
        self._due = 0.0

    def update(self) -> None:
        """Show what is there now. An update that has taken long is not repeated soon."""
        wanted, began = list(self.source.tags), time.monotonic()
        if wanted == self._wanted and began < self._due:
            return
        super().update()
        self._wanted = wanted
        self._due = began + _PAUSES * (time.monotonic() - began)

    def select(self, wish: Mapping[str, Any]) -> Selection:
        """Return the rows that are wanted, and how many calls there are."""
        job, exact = str(wish.get("job") or ""), wish.get("exact") or {}
        words = str(wish.get("search") or "").lower().split()
        history = self._parts.endings.history
        of_job = [each for each in history.calls() if job in ("", each.job)]
        ended = [each for span in of_job if (each := self._find(span, words, exact)) is not None]
        all_unfinished = [row for row in self._unfinished() if job in ("", row["job"])]
        unfinished = searched(
            [row for row in all_unfinished if has(row, exact)], self._searched, " ".join(words)
        )
        first = self._first(unfinished, ended, wish)
        if (attempt := exact.get("attempt")) is not None:
            first = [row for row in first if str(row["attempt"]) == attempt]
        return Selection(
            first,
            len(all_unfinished) + sum(each.count for each in of_job),
            len(unfinished) + sum(each.count for each in ended),
        )

    def _first(
        self, unfinished: list[Row], ended: list[_Found], wish: Mapping[str, Any]
    ) -> list[Row]:
        """Return the rows to show: without an order, those that run, that have ended, and that wait."""
        field, most, is_descending = wish.get("sort"), self._most, bool(wish.get("down"))
        attempts = _Attempts(self._parts, ended)
        if field not in self._fields:
            newest = heapq.nlargest(most, _newest(ended, attempts), key=lambda call: call.stop)
            running = [row for row in unfinished if row["state"] == "RUNNING"]
            waiting = [row for row in unfinished if row["state"] != "RUNNING"]
            return [*running, *map(_row, newest), *waiting][:most]
        if by := _BY_CALL.get(field):
            pick = heapq.nlargest if is_descending else heapq.nsmallest
            calls = pick(most, _all(ended, attempts), key=by)
        else:
            in_order = _arranged(ended, field, is_descending=is_descending)
            calls = list(islice(_all(in_order, attempts), most))
        rows = [*map(_row, calls), *unfinished]
        return arranged(rows, field, is_descending=is_descending)[:most]

    def _find(self, span: EndedCalls, words: list[str], exact: Mapping[str, str]) -> _Found | None:
        """Return the calls of a span that are wanted, if there are any."""
        found = _Found(span, [], span.count)
        parts_of_ids: list[str] = []
        if (wanted := exact.get("id")) is not None:
            if not _contains(span, wanted):
                return None
            parts_of_ids.append(wanted)
        if (name := exact.get("name")) is not None and span.name != name:
            return None
        rest = {field: each for field, each in exact.items() if field not in ("id", "attempt")}
        if rest and not has(found.about, rest):
            return None
        if words:
            text = "\n".join(map(str, found.about.values()))
            missing = [word for word in words if word not in text.lower()]
            if not all(_contains(span, word) for word in missing):
                return None
            parts_of_ids += missing
        if parts_of_ids:
            found.parts_of_ids = parts_of_ids
            found.count = sum(1 for _ in found.calls())
        return found if found.count else None

    def _unfinished(self) -> list[Row]:
        parts, now = self._parts, time.time()
        nodes = {
            info["node_id"]: tables.node_name(address) for address, info in parts.nodes.info.items()
        }
        num_failures = parts.endings.history.num_failures
        rows = []
        for each in parts.state.tasks.unfinished(parts.surveys.refresh(), _MANY_WAITING):
            start, pid = (each.get("start_time_ms") or 0) / 1000, each["worker_pid"]
            node = nodes.get(each["node_id"], "")
            rows.append(
                {
                    "id": each["task_id"],
                    "name": each["name"],
                    "state": each["state"],
                    "attempt": num_failures(each["task_id"]),
                    "node": node,
                    "pid": pid or "",
                    "start": start,
                    "seconds": now - start if start else None,
                    "error": "",
                    "log": _log(node, pid, each["task_id"]),
                    "job": each["job_id"],
                    "actor": each.get("actor_id") or "",
                }
            )
        return rows


def _common(span: EndedCalls) -> Row:
    """Return what all calls of a span have in common."""
    failure = span.failure
    return {
        "name": span.name,
        "state": "FINISHED" if failure is None else "FAILED",
        "node": tables.node_name(span.address or None),
        "pid": span.pid or "",
        "error": failures.line_of(failure) if failure is not None else "",
        "text": failure.text if failure is not None else "",
        "job": span.job,
        "actor": span.actor or "",
        "is_failed": failure is not None,
    }


def _contains(span: EndedCalls, part: str) -> bool:
    """Return whether some digits may be in the ids of the calls of a span."""
    return part in span.calls[: span.count * ids.TASK_ID_BYTES].hex()


def _arranged(ended: list[_Found], field: str, *, is_descending: bool) -> list[_Found]:
    """Return spans sorted by what all their calls have in common."""
    by_row = {id(each.about): each for each in ended}
    rows = arranged([each.about for each in ended], field, is_descending=is_descending)
    return [by_row[id(row)] for row in rows]


class _Attempts:
    """The numbers of the attempts of calls: how often each had failed before."""

    def __init__(self, parts: Parts, ended: list[_Found]) -> None:
        self._history = parts.endings.history
        self._earlier: dict[tuple[int, str], int] | None = None
        self._spans = [each.span for each in ended if each.span.failure is not None]

    def of(self, span: EndedCalls, task: str) -> int:
        """Return the number of an ended attempt."""
        num_failures = self._history.num_failures(task)
        if span.failure is None or num_failures < 2:
            return num_failures if span.failure is None else 0
        if self._earlier is None:
            self._earlier, counts = {}, Counter[str]()
            for each in self._history.calls():
                for found in map(
                    bytes.hex, tasks_of(each.calls) if each.failure is not None else ()
                ):
                    self._earlier[id(each), found] = counts[found]
                    counts[found] += 1
        return self._earlier.get((id(span), task), 0)


def _newest(ended: list[_Found], attempts: _Attempts) -> list[_Call]:
    """Return some of the newest calls."""
    calls: list[_Call] = []
    for each in reversed(ended):
        calls += _all([each], attempts)
        if len(calls) >= _MANY_NEWEST:
            break
    return calls


def _all(ended: Iterable[_Found], attempts: _Attempts) -> Iterator[_Call]:
    for each in ended:
        for task, start, stop in each.calls():
            yield _Call(task, attempts.of(each.span, task), start, stop, each.about)


def _row(call: _Call) -> Row:
    about = call.about
    return {
        **about,
        "id": call.id,
        "attempt": call.attempt,
        "start": call.start,
        "end": call.stop,
        "seconds": call.stop - call.start,
        "log": _log(about["node"], about["pid"], call.id),
    }


def _log(node: str, pid: int | None, task: str) -> str:
    """Return the address of what a call has printed; empty where it has not run."""
    return (
        f"individual-ray-logs?process={quote(f'{node} {pid}')}&task={task}" if node and pid else ""
    )
