"""Stoppers that look for a plateau: a metric that has stopped changing."""

from __future__ import annotations

import statistics
from collections import defaultdict, deque
from typing import TYPE_CHECKING, Any

from raycompat.tune.stopper.stopper import NoopStopper

if TYPE_CHECKING:
    from raycompat.tune.trainable.nested import Metrics


class ExperimentPlateauStopper(NoopStopper):
    """Stop everything when the best scores of all trials no longer differ.

    Parameters
    ----------
    metric : str
    std : float, default 0.001
        The standard deviation of the best scores at or below which they do not differ; above 0.
    top : int, default 10
        How many best scores; 2 or more.
    mode : {"min", "max"}, default "min"
    patience : int, default 0
        How many results in a row must see the plateau; 0 or more.

    Raises
    ------
    ValueError
        When a parameter is out of its range.

    Examples
    --------
    >>> from raycompat.tune.stopper import ExperimentPlateauStopper
    >>> stopper = ExperimentPlateauStopper("loss", mode="min", top=2, std=0.01)
    >>> for trial, loss in enumerate([0.9, 0.5, 0.5]):
    ...     _ = stopper(f"trial {trial}", {"loss": loss})
    ...     print(stopper.stop_all())
    False
    False
    True
    """

    def __init__(
        self,
        metric: str,
        std: float = 0.001,
        top: int = 10,
        mode: str = "min",
        patience: int = 0,
    ) -> None:
        if mode not in ("min", "max"):
            raise ValueError(f"mode={mode!r}: expected 'min' or 'max'.")
        if not isinstance(top, int) or top <= 1:
            raise ValueError(f"top={top!r}: expected an integer of 2 or more.")
        if not isinstance(patience, int) or patience < 0:
            raise ValueError(f"patience={patience!r}: expected an integer of 0 or more.")
        if not isinstance(std, float) or std <= 0:
            raise ValueError(f"std={std!r}: expected a float above 0.")
        self._metric, self._std, self._top, self._mode = metric, std, top, mode
        self._patience = patience
        self._num_seen = 0
        self._best: list[float] = []

    def __call__(self, trial_id: str, result: Metrics) -> bool:
        ordered = sorted([*self._best, result[self._metric]], reverse=self._mode == "max")
        self._best = ordered[: self._top]
        self._num_seen = self._num_seen + 1 if self.has_plateaued() else 0
        return self.stop_all()

    def has_plateaued(self) -> bool:
        """Return whether there are enough best scores, and they do not differ."""
        return len(self._best) == self._top and statistics.pstdev(self._best) <= self._std

    def stop_all(self) -> bool:
        return self.has_plateaued() and self._num_seen >= self._patience


class TrialPlateauStopper(NoopStopper):
    """Stop a trial when its last scores no longer differ.

    Parameters
    ----------
    metric : str
    std : float, default 0.01
        The standard deviation of the last scores below which they do not differ.
    num_results : int, default 4
        How many scores are looked at.
    grace_period : int, default 4
        How many results come before a trial can stop.
    metric_threshold : float, optional
        A trial stops only when its score is as good as this.
    mode : {"min", "max"}, optional
        Which way is better; needed with `metric_threshold`.

    Examples
    --------
    The last four losses differ by less than 0.01:

    >>> from raycompat.tune.stopper import TrialPlateauStopper
    >>> stopper = TrialPlateauStopper(
    ...     metric="loss", std=0.01, num_results=4, grace_period=4
    ... )
    >>> losses = [0.9, 0.5, 0.301, 0.3, 0.3, 0.301]
    >>> [
    ...     stopper("trial_1", {"loss": loss, "training_iteration": 1})
    ...     for loss in losses
    ... ]
    [False, False, False, False, False, True]
    """

    def __init__(
        self,
        metric: str,
        std: float = 0.01,
        num_results: int = 4,
        grace_period: int = 4,
        metric_threshold: float | None = None,
        mode: str | None = None,
    ) -> None:
        if metric_threshold is not None and mode not in ("min", "max"):
            raise ValueError(f"mode={mode!r}: metric_threshold needs mode='min' or mode='max'.")
        self._metric, self._std, self._num_results = metric, std, num_results
        self._grace_period, self._threshold, self._mode = grace_period, metric_threshold, mode
        self._counts: defaultdict[str, int] = defaultdict(int)
        self._last: dict[str, deque[Any]] = {}

    def __call__(self, trial_id: str, result: Metrics) -> bool:
        value = result.get(self._metric)
        last = self._last.setdefault(trial_id, deque(maxlen=self._num_results))
        last.append(value)
        self._counts[trial_id] += 1
        if self._counts[trial_id] < self._grace_period or len(last) < self._num_results:
            return False
        if value is None or None in last or not self._is_good_enough(value):
            return False
        return bool(statistics.pstdev(last) < self._std)

    def _is_good_enough(self, value: float) -> bool:
        threshold: float | None = self._threshold
        if threshold is None:
            return True
        return value <= threshold if self._mode == "min" else value >= threshold
