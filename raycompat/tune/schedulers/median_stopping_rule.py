"""The median stopping rule: a trial stops that is worse than the median of the others."""

from __future__ import annotations

import bisect
import math
import statistics
from collections import defaultdict
from typing import TYPE_CHECKING

from raycompat._surface import forms
from raycompat.tune.schedulers.trial_scheduler import (
    Controller,
    ScoredScheduler,
    TrialScheduler,
)

if TYPE_CHECKING:
    from raycompat.tune.experiment.trial import Trial
    from raycompat.tune.trainable.nested import Metrics


@forms.takes_old_options_in_constructor("ray.tune.schedulers.MedianStoppingRule")
class MedianStoppingRule(ScoredScheduler):
    """Stop a trial whose best score is below the median of the other trials' running means.

    Parameters
    ----------
    time_attr : str, default "time_total_s"
        The result's measure of time.
    metric : str, optional
    mode : {"min", "max"}, optional
    grace_period : float, default 60
        No trial stops before, in units of `time_attr`.
    min_samples_required : int, default 3
        How many other trials must have come as far.
    min_time_slice : float, default 0
        How long a trial trains at least before it makes room for waiting ones.
    hard_stop : bool, default True
        Stop such a trial; otherwise it pauses, and continues when the others have ended.

    Examples
    --------
    The third trial is worse than the median of those before it, so it stops after two steps:

    >>> import tempfile
    >>> from raycompat import tune
    >>> from raycompat.tune.schedulers import MedianStoppingRule
    >>> def learn(config):
    ...     for step in range(1, 6):
    ...         tune.report({"loss": config["height"] / step})
    >>> results = tune.Tuner(
    ...     learn,
    ...     param_space={"height": tune.grid_search([1, 1, 3])},
    ...     tune_config=tune.TuneConfig(
    ...         metric="loss",
    ...         mode="min",
    ...         max_concurrent_trials=1,
    ...         scheduler=MedianStoppingRule(
    ...             time_attr="training_iteration",
    ...             grace_period=2,
    ...             min_samples_required=2,
    ...         ),
    ...     ),
    ...     run_config=tune.RunConfig(storage_path=tempfile.mkdtemp(), verbose=0),
    ... ).fit()
    >>> [result.metrics["training_iteration"] for result in results]
    [5, 5, 2]

    Notes
    -----
    Ray source: ``ray.tune.schedulers.MedianStoppingRule``, 2.60.0. D. Golovin and others, "Google
    Vizier: A Service for Black-Box Optimization", KDD 2017, section 3.2.
    """

    def __init__(
        self,
        time_attr: str = "time_total_s",
        metric: str | None = None,
        mode: str | None = None,
        grace_period: float = 60.0,
        min_samples_required: int = 3,
        min_time_slice: float = 0,
        hard_stop: bool = True,
    ) -> None:
        super().__init__(metric, mode)
        self._time_attr = time_attr
        self._grace_period = grace_period
        self._min_samples_required = min_samples_required
        self._min_time_slice = min_time_slice
        self._hard_stop = hard_stop
        self._stopped: set[Trial] = set()
        self._last_pause: defaultdict[Trial, float] = defaultdict(lambda: -math.inf)
        self._curves: dict[Trial, Curve] = {}

    def on_trial_result(self, tune_controller: Controller, trial: Trial, result: Metrics) -> str:
        if self._time_attr not in result or self._metric not in result or trial in self._stopped:
            return TrialScheduler.CONTINUE
        time = result[self._time_attr]
        self._record(trial, result)
        if time < self._grace_period:
            return TrialScheduler.CONTINUE
        means = [
            mean
            for other, curve in self._curves.items()
            if other is not trial and curve.last_time >= time
            for mean in [curve.running_mean(time)]
            if math.isfinite(mean)
        ]
        if len(means) < self._min_samples_required:
            return self._yield_to_others(tune_controller, trial, time)
        if not self._curves[trial].best >= statistics.median(means):
            self._stopped.add(trial)
            return TrialScheduler.STOP if self._hard_stop else TrialScheduler.PAUSE
        return TrialScheduler.CONTINUE

    def on_trial_complete(self, tune_controller: Controller, trial: Trial, result: Metrics) -> None:
        if self._time_attr in result and self._metric in result:
            self._record(trial, result)

    def _record(self, trial: Trial, result: Metrics) -> None:
        curve = self._curves.setdefault(trial, Curve(self._grace_period))
        curve.append(result[self._time_attr], self.score(result))

    def _yield_to_others(self, tune_controller: Controller, trial: Trial, time: float) -> str:
        """Pause when others wait and the trial had its slice of time: too few are there to compare."""
        if time - self._last_pause[trial] <= self._min_time_slice:
            return TrialScheduler.CONTINUE
        if any(t.status in ("PENDING", "PAUSED") for t in tune_controller.get_live_trials()):
            self._last_pause[trial] = time
            return TrialScheduler.PAUSE
        return TrialScheduler.CONTINUE

    def debug_string(self) -> str:
        return f"MedianStoppingRule: {len(self._stopped)} trials stopped early"


class Curve:
    """The scores of a trial, with their sums, so that a running mean needs no walk.

    Parameters
    ----------
    grace_period : float
        Scores before are not in the running means.
    """

    def __init__(self, grace_period: float) -> None:
        self._grace_period = grace_period
        self._times: list[float] = []
        self._sums = [0.0]
        self.last_time = -math.inf
        self.best = -math.inf

    def append(self, time: float, score: float) -> None:
        self.last_time = time
        self.best = max(self.best, score)
        if time >= self._grace_period:
            self._times.append(time)
            self._sums.append(self._sums[-1] + score)

    def running_mean(self, time: float) -> float:
        """Return the mean of the scores up to a time; NaN when there are none."""
        count = bisect.bisect_right(self._times, time)
        return self._sums[count] / count if count else math.nan
