"""The tab of single calls: those that run, those that have ended, and those that wait.

The ended calls are in the history's spans, which are searched as they are. Only the calls that are
shown are unpacked, or all of them where the user sorts by what differs in a span. A search runs in
slices, between which the scheduler does its work, and viewers who want the same share its result.
"""

from __future__ import annotations

import heapq
import time
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import quote

from raycompat._protocol import failures, ids
from raycompat._protocol.plain import Row
from raycompat._protocol.spans import tasks_of, unpack
from raycompat._scheduler.pages import tables
from raycompat._scheduler.pages.sliced_table import SlicedTable, Steps
from raycompat._scheduler.pages.table_widget import Selection, arranged, has, is_meant, searched
from raycompat._scheduler.state.tasks import num_unlisted

if TYPE_CHECKING:
    from raycompat._scheduler.history import EndedCalls
    from raycompat._scheduler.watched_parts import WatchedParts

#: Waiting calls of the scheduler that are looked at; callers list as many as they list for any page.
_MANY_WAITING = 1_000

#: Among the newest so many calls are the newest to show: reports of several processes are mixed.
_MANY_NEWEST = 2_000

#: Spans, and calls, after which a search looks at the clock.
_FEW_SPANS, _FEW_CALLS = 100, 500

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

    parts: WatchedParts
    span: EndedCalls
    parts_of_ids: list[str]
    count: int
    _about: Row | None = None

    @property
    def about(self) -> Row:
        """What all calls of the span have in common."""
        if self._about is None:
            self._about = _common(self.parts, self.span)
        return self._about

    def calls(self) -> Iterator[tuple[str, float, float]]:
        """Iterate over the calls that are wanted."""
        for each in unpack(self.span.calls):
            if all(part in each[0] for part in self.parts_of_ids):
                yield each


class Calls(SlicedTable):
    """The table of calls. `read` is not used: the rows depend on what is wanted."""

    def __init__(self, parts: WatchedParts) -> None:
        super().__init__(parts, "calls")

    def _steps(self, wish: Mapping[str, Any]) -> Steps:
        """Return the rows that are wanted, and how many calls there are, in small steps."""
        job, exact = str(wish.get("job") or ""), wish.get("exact") or {}
        words = str(wish.get("search") or "").lower().split()
        spans, num_hidden = yield from self._spans(job, wish)
        ended = []
        for number, span in enumerate(spans):
            if (each := self._find(span, words, exact)) is not None:
                ended.append(each)
            if number % _FEW_SPANS == 0:
                yield
        listed, num_unlisted = self._unfinished()
        every = [row for row in listed if job in ("", row["job"])]
        meant = [row for row in every if is_meant(row, wish)]
        unfinished = searched(
            [row for row in meant if has(row, exact)], self._searched, " ".join(words)
        )
        yield
        first = yield from self._first(unfinished, ended, wish)
        if (attempt := exact.get("attempt")) is not None:
            first = [row for row in first if str(row["attempt"]) == attempt]
        return Selection(
            first,
            len(meant) + sum(span.count for span in spans),
            len(unfinished) + sum(each.count for each in ended),
            len(every) - len(meant) + num_hidden,
            num_unlisted,
        )

    def _spans(
        self, job: str, wish: Mapping[str, object]
    ) -> Generator[None, None, tuple[list[EndedCalls], int]]:
        """Return the spans of a job without raycompat's own, and the number of calls of those."""
        spans, num_hidden = [], 0
        for number, span in enumerate(self._parts.history.calls()):
            if job in ("", span.job):
                row = {"is_failed": span.failure is not None, "is_internal": span.is_internal}
                if is_meant(row, wish):
                    spans.append(span)
                else:
                    num_hidden += span.count
            if number % _FEW_SPANS == 0:
                yield
        return spans, num_hidden

    def _first(
        self, unfinished: list[Row], ended: list[_Found], wish: Mapping[str, object]
    ) -> Generator[None, None, list[Row]]:
        """Return the rows to show: without an order, those that run, that have ended, and that wait."""
        field, most, is_descending = wish.get("sort"), self._most, bool(wish.get("down"))
        attempts = _Attempts(self._parts)
        if field not in self._fields:
            newest = yield from _newest(ended, attempts, most)
            running = [row for row in unfinished if row["state"] == "RUNNING"]
            waiting = [row for row in unfinished if row["state"] != "RUNNING"]
            return [*running, *map(_row, newest), *waiting][:most]
        if by := _BY_CALL.get(field):
            pick = heapq.nlargest if is_descending else heapq.nsmallest
            calls = yield from _picked(ended, attempts, lambda few: pick(most, few, key=by))
        else:
            in_order = yield from _arranged(ended, field, is_descending=is_descending)
            yield from attempts.prepare(in_order[:most])
            calls = list(islice(_all(in_order, attempts), most))
        rows = [*map(_row, calls), *unfinished]
        return arranged(rows, field, is_descending=is_descending)[:most]

    def _find(self, span: EndedCalls, words: list[str], exact: Mapping[str, str]) -> _Found | None:
        """Return the calls of a span that are wanted, if there are any."""
        found = _Found(self._parts, span, [], span.count)
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

    def _unfinished(self) -> tuple[list[Row], int]:
        """Return the rows of unfinished calls, and how many calls the callers have not listed."""
        parts, now = self._parts, time.time()
        nodes = {info["node_id"]: address for address, info in parts.nodes.info.items()}
        num_failures, internal = parts.history.num_failures, parts.actors.internal_ids()
        rows, findings = [], parts.surveys.refresh()
        unfinished = parts.state.tasks.unfinished(findings, _MANY_WAITING)
        for each in unfinished:
            start, pid = (each.get("start_time_ms") or 0) / 1000, each["worker_pid"]
            address = nodes.get(each["node_id"])
            rows.append(
                {
                    "id": each["task_id"],
                    "name": each["name"],
                    "state": each["state"],
                    "attempt": num_failures(each["task_id"]),
                    "node": tables.node_of(parts, address),
                    "pid": pid or "",
                    "start": start,
                    "seconds": now - start if start else None,
                    "error": "",
                    "log": _log(address, pid, each["task_id"]),
                    "job": each["job_id"],
                    "actor": each.get("actor_id") or "",
                    "is_internal": each.get("actor_id") in internal,
                }
            )
        return rows, num_unlisted(findings, unfinished)


def _common(parts: WatchedParts, span: EndedCalls) -> Row:
    """Return what all calls of a span have in common."""
    failure = span.failure
    return {
        "name": span.name,
        "state": "FINISHED" if failure is None else "FAILED",
        "node": tables.node_of(parts, span.address or None),
        "address": span.address,
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


def _arranged(
    ended: list[_Found], field: str, *, is_descending: bool
) -> Generator[None, None, list[_Found]]:
    """Return spans sorted by what all their calls have in common."""
    by_value: dict[Any, list[_Found]] = {}
    for number, each in enumerate(ended):
        by_value.setdefault(each.about.get(field), []).append(each)
        if number % _FEW_SPANS == 0:
            yield
    values = arranged([{field: each} for each in by_value], field, is_descending=is_descending)
    return [each for row in values for each in by_value[row[field]]]


class _Attempts:
    """The numbers of the attempts of calls: how often each had failed before."""

    def __init__(self, parts: WatchedParts) -> None:
        self._history = parts.history
        #: By span and task, for tasks that have failed more than once.
        self._earlier: dict[tuple[int, str], int] = {}

    def prepare(self, ended: Sequence[_Found]) -> Generator[None, None, None]:
        """Count the failures before each call of some spans, if any has failed more than once."""
        failed = [each.span for each in ended if each.span.failure is not None]
        for number, span in enumerate(failed):
            if any(map(self._is_repeated, tasks_of(span.calls))):
                break
            if number % _FEW_SPANS == 0:
                yield
        else:
            return
        counts = Counter[bytes]()
        for number, span in enumerate(self._history.calls()):
            if span.failure is not None:
                for task in filter(self._is_repeated, tasks_of(span.calls)):
                    self._earlier[id(span), task.hex()] = counts[task]
                    counts[task] += 1
            if number % _FEW_SPANS == 0:
                yield

    def _is_repeated(self, task: bytes) -> bool:
        return self._history.num_failures(task.hex()) > 1

    def of(self, span: EndedCalls, task: str) -> int:
        """Return the number of an ended attempt. A failed span must have been prepared."""
        if span.failure is None:
            return self._history.num_failures(task)
        return self._earlier.get((id(span), task), 0)


def _newest(
    ended: list[_Found], attempts: _Attempts, most: int
) -> Generator[None, None, list[_Call]]:
    """Return the newest calls among some of the newest."""
    some, count = [], 0
    for each in reversed(ended):
        some.append(each)
        count += each.count
        if count >= _MANY_NEWEST:
            break
    return (
        yield from _picked(
            some, attempts, lambda few: heapq.nlargest(most, few, key=lambda call: call.stop)
        )
    )


def _picked(
    ended: Sequence[_Found], attempts: _Attempts, pick: Callable[[list[_Call]], list[_Call]]
) -> Generator[None, None, list[_Call]]:
    """Return the first calls in some order; `pick` returns those of a list."""
    yield from attempts.prepare(ended)
    found: list[_Call] = []
    few: list[_Call] = []
    for call in _all(ended, attempts):
        few.append(call)
        if len(few) == _FEW_CALLS:
            found, few = pick([*found, *few]), []
            yield
    return pick([*found, *few])


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
        "log": _log(about["address"], about["pid"], call.id),
    }


def _log(address: str | None, pid: int | None, task: str) -> str:
    """Return the address of what a call has printed; empty where it has not run."""
    if not address or not pid:
        return ""
    process = quote(f"{tables.node_name(address)} {pid}")
    return f"individual-ray-logs?process={process}&task={task}"
