"""The metrics that the functions of an iterator share."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from raycompat.util.timer import _Timer

if TYPE_CHECKING:
    from raycompat.actor import ActorHandle

__all__ = ["MetricsContext", "SharedMetrics"]


class MetricsContext:
    """Numbers, times and values that the functions of an iterator keep.

    A function gets it from `LocalIterator.get_metrics`. `counters` has numbers, and a new one is 0;
    `timers` has timers; `info` has other values. `current_actor` is the handle of the actor that made
    the current item, in iterators of ``gather_async``, otherwise None.

    Examples
    --------
    >>> from raycompat.util.iter_metrics import MetricsContext
    >>> metrics = MetricsContext()
    >>> metrics.counters["rows"] += 5
    >>> copy = MetricsContext()
    >>> copy.restore(metrics.save())
    >>> copy.counters["rows"]
    5
    """

    def __init__(self) -> None:
        self.counters: defaultdict[str, int] = defaultdict(int)
        self.timers: defaultdict[str, _Timer] = defaultdict(_Timer)
        self.info: dict[str, Any] = {}
        self.current_actor: ActorHandle[Any] | None = None

    def save(self) -> dict[str, Any]:
        """Return the counters and values for `restore`; times are not kept, as in Ray."""
        return {"counters": dict(self.counters), "info": dict(self.info), "timers": None}

    def restore(self, values: Mapping[str, Any]) -> None:
        """Replace the counters and values by those of `save`, and forget the times."""
        self.counters.clear()
        self.counters.update(values["counters"])
        self.timers.clear()
        self.info = values["info"]


class SharedMetrics:
    """A reference to the metrics of an iterator, which the iterators that it joins use too.

    Parameters
    ----------
    metrics : MetricsContext, optional
        New by default.
    parents : list of SharedMetrics, optional
        Those of the joined iterators.

    Examples
    --------
    >>> from raycompat.util.iter_metrics import MetricsContext, SharedMetrics
    >>> shared = SharedMetrics()
    >>> shared.set(MetricsContext())
    >>> shared.get().counters["rows"]
    0
    """

    def __init__(
        self,
        metrics: MetricsContext | None = None,
        parents: Sequence[SharedMetrics] | None = None,
    ) -> None:
        self.parents = list(parents or ())
        self.set(metrics or MetricsContext())

    def set(self, metrics: MetricsContext) -> None:
        """Let this and all joined iterators use these metrics."""
        self.metrics = metrics
        for parent in self.parents:
            parent.set(metrics)

    def get(self) -> MetricsContext:
        """Return the metrics."""
        return self.metrics
