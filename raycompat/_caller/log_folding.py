"""Folding of equal lines that many processes print: the first is shown, the others are counted.

Two lines are equal when they differ only in words with digits: "step 3" and "step 4". Lines that only
one process prints are never folded.
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

#: The number of lines that are compared at the same time, and the length of the longest of them.
_MANY_LINES, _LONG_LINE = 10_000, 5_000

_HAS_DIGIT = re.compile(r"\d").search

Source = TypeVar("Source")


@dataclass(slots=True)
class _Alike(Generic[Source]):
    since: float
    #: The last of these lines that was not shown, and its source.
    line: str
    source: Source
    #: The processes that have printed one.
    processes: set[Hashable]
    #: The number of lines that were not shown.
    count: int = 0


@dataclass(frozen=True, slots=True)
class Folded(Generic[Source]):
    """Lines that were not shown: the last of them, and their number."""

    source: Source
    line: str
    count: int


@dataclass(slots=True)
class Folding(Generic[Source]):
    """The folding of one stream. It is not thread-safe."""

    #: Seconds for which lines are counted before the count is shown.
    window_s: float
    #: Lines that match are always shown.
    allow: re.Pattern[str] | None = None
    #: Lines that match are not shown.
    skip: re.Pattern[str] | None = None
    _alike: dict[str, _Alike[Source]] = field(default_factory=dict)
    _crowded_out: list[Folded[Source]] = field(default_factory=list)

    def fold(
        self, source: Source, lines: Iterable[str], now: float, process: Hashable = None
    ) -> list[str]:
        """Return those of the lines that are to be shown now.

        `process` identifies the process that has printed them; the default is the source.
        """
        process = source if process is None else process
        return [line for line in lines if self._is_shown(source, process, line, now)]

    def _is_shown(self, source: Source, process: Hashable, line: str, now: float) -> bool:
        if self.allow is not None and self.allow.search(line):
            return True
        if self.skip is not None and self.skip.search(line):
            return False
        if len(line) > _LONG_LINE:
            return True
        key = " ".join([word for word in line.split() if not _HAS_DIGIT(word)])
        if not key:
            return True  # the line has no words without digits
        alike = self._alike.get(key)
        if alike is None:
            if len(self._alike) >= _MANY_LINES:
                self._crowded_out += self._folded(self._alike.pop(next(iter(self._alike))))
            self._alike[key] = _Alike(now, line, source, {process})
            return True
        alike.processes.add(process)
        if len(alike.processes) == 1:
            return True
        alike.line, alike.source = line, source
        alike.count += 1
        return False

    @staticmethod
    def _folded(alike: _Alike[Source]) -> list[Folded[Source]]:
        return [Folded(alike.source, alike.line, alike.count)] if alike.count else []

    def due(self, now: float) -> Sequence[Folded[Source]]:
        """Return the lines that were counted for a whole window; lines still in use stay counted."""
        found, self._crowded_out = self._crowded_out, []
        while self._alike:
            key, alike = next(iter(self._alike.items()))
            if now - alike.since < self.window_s:
                break
            del self._alike[key]
            found += self._folded(alike)
            if alike.count > 1:
                alike.since, alike.count = now, 0
                self._alike[key] = alike
        return found

    def next_due(self) -> float | None:
        """Return the time at which a count is due; None for never."""
        if self._crowded_out:
            return 0.0
        first = next(iter(self._alike.values()), None)
        return first.since + self.window_s if first is not None else None

    def flush(self) -> Sequence[Folded[Source]]:
        """Return all counts, and start again."""
        found, self._crowded_out = self._crowded_out, []
        for alike in self._alike.values():
            found += self._folded(alike)
        self._alike.clear()
        return found
