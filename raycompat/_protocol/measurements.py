"""Values that a program records with `ray.util.metrics`: each process sends them once a second."""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from raycompat._protocol.delayed_flush import DelayedFlush

Kind: TypeAlias = Literal["counter", "gauge", "histogram"]


@dataclass(frozen=True, slots=True)
class About:
    """The description of a metric, and the names of its tags."""

    kind: Kind
    name: str
    #: Metrics whose descriptions differ are the same metric.
    description: str = field(compare=False)
    tag_keys: tuple[str, ...]
    #: Upper bounds of the buckets of a histogram.
    boundaries: tuple[float, ...] = ()


@dataclass(slots=True)
class _Sample:
    """The values since the last message: the sum or last value, and the count of each bucket."""

    value: float = 0.0
    buckets: list[int] = field(default_factory=list)


class Measurements:
    """The values of one process; `send` sends them, `later(seconds, function)` is a timer."""

    def __init__(
        self,
        send: Callable[[list[Any]], None],
        later: Callable[[float, Callable[[], None]], None],
    ) -> None:
        self._send = send
        # A finalizer can record a value while this thread holds the lock.
        self._lock = threading.RLock()
        self._samples: dict[tuple[About, tuple[str, ...]], _Sample] = {}
        self._delayed = DelayedFlush(self.flush, later)

    def record(self, about: About, tags: tuple[str, ...], value: float) -> None:
        """Record a value."""
        with self._lock:
            sample = self._samples.get((about, tags))
            if sample is None:
                new = _Sample()
                if about.kind == "histogram":
                    new.buckets = [0] * (len(about.boundaries) + 1)
                sample = self._samples.setdefault((about, tags), new)
            if about.kind == "gauge":
                sample.value = value
            else:
                sample.value += value
            if about.kind == "histogram":
                sample.buckets[bisect_left(about.boundaries, value)] += 1
        self._delayed.schedule()

    def flush(self) -> None:
        """Send the values that were recorded since the last call."""
        self._delayed.begin()
        with self._lock:
            samples, self._samples = self._samples, {}
        if samples:
            self._send(
                [
                    [_describe(about), list(tags), sample.value, sample.buckets]
                    for (about, tags), sample in samples.items()
                ]
            )


def _describe(about: About) -> list[Any]:
    return [about.kind, about.name, about.description, about.tag_keys, about.boundaries]


def about_from_wire(wire: Sequence[Any]) -> About:
    """Return the metric that a message describes."""
    kind, name, description, tag_keys, boundaries = wire
    return About(kind, name, description, tuple(tag_keys), tuple(boundaries))
