"""Folding of lines that many processes print alike: the first is shown, the others are counted.

Two lines are alike when they differ only in words with digits in them: "step 3" and "step 4". What one
process alone prints is never folded.
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

#: Lines whose likes are looked for at once, and the longest of them.
_MANY_LINES, _LONG_LINE = 10_000, 5_000

_HAS_DIGIT = re.compile(r"\d").search

Source = TypeVar("Source")


@dataclass(slots=True)
class _Alike(Generic[Source]):
    since: float
    #: The last line of these that was not shown, and where it came from.
    line: str
    source: Source
    #: Those that have printed one.
    processes: set[Hashable]
    #: How many were not shown.
    count: int = 0


@dataclass(frozen=True, slots=True)
class Folded(Generic[Source]):
    """Lines that were not shown: the last of them, and how many they are."""

    source: Source
    line: str
    count: int


@dataclass(slots=True)
class Folding(Generic[Source]):
    """See the module. Not safe for several threads."""

    #: Seconds for which lines are counted before that is shown.
    window_s: float
    #: Lines in which this is found are shown always.
    allow: re.Pattern[str] | None = None
    #: Lines in which this is found are not shown.
    skip: re.Pattern[str] | None = None
    _alike: dict[str, _Alike[Source]] = field(default_factory=dict)
    _crowded_out: list[Folded[Source]] = field(default_factory=list)

    def fold(
        self, source: Source, lines: Iterable[str], now: float, process: Hashable = None
    ) -> list[str]:
        """Return which of these lines are to be shown now.

        `process` says which process it was that has printed them; by default the source does.
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
            return True  # all that there is to see are the numbers
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
        """Return what was counted for a window's time; go on counting what was more than one."""
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
        """Return when there may be something due; None for never."""
        if self._crowded_out:
            return 0.0
        first = next(iter(self._alike.values()), None)
        return first.since + self.window_s if first is not None else None

    def flush(self) -> Sequence[Folded[Source]]:
        """Return all that has been counted, and forget everything."""
        found, self._crowded_out = self._crowded_out, []
        for alike in self._alike.values():
            found += self._folded(alike)
        self._alike.clear()
        return found
