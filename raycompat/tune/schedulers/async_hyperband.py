"""ASHA: successive halving that waits for no trial."""

from __future__ import annotations

import bisect
import math
from typing import TYPE_CHECKING, Any

import numpy as np

from raycompat._surface import forms
from raycompat.tune.error import InvalidRangeError
from raycompat.tune.schedulers.trial_scheduler import (
    Controller,
    ScoredScheduler,
    TrialScheduler,
)

if TYPE_CHECKING:
    from raycompat.tune.experiment.trial import Trial
    from raycompat.tune.trainable.nested import Metrics


@forms.takes_old_options_in_constructor("ray.tune.schedulers.AsyncHyperBandScheduler")
class AsyncHyperBandScheduler(ScoredScheduler):
    """Stop a trial at a rung when it is not among the best 1/η that reached the rung so far.

    Rungs are at ``grace_period * reduction_factor ** k``, up to `max_t`. Unlike HyperBand, no
    trial waits for others.

    Parameters
    ----------
    time_attr : str, default "training_iteration"
        The result's measure of time.
    metric : str, optional
    mode : {"min", "max"}, optional
    max_t : float, default 100
        A trial stops here, in units of `time_attr`.
    grace_period : float, default 1
        No trial stops before, in units of `time_attr`.
    reduction_factor : float, default 4
        η, above 1: one of η trials survives a rung.
    brackets : int, default 1
        How many brackets; each starts its rungs η times later than the one before.
    stop_last_trials : bool, default True
        Whether trials stop at `max_t`.

    Raises
    ------
    ValueError
        When a parameter is out of its range.

    Examples
    --------
    Of three trials, those that are behind stop at one of the steps 1, 3 and 9:

    >>> import tempfile
    >>> from raycompat import tune
    >>> from raycompat.tune.schedulers import AsyncHyperBandScheduler
    >>> def learn(config):
    ...     for step in range(1, 10):
    ...         tune.report({"loss": config["height"] / step})
    >>> results = tune.Tuner(
    ...     learn,
    ...     param_space={"height": tune.grid_search([1, 2, 3])},
    ...     tune_config=tune.TuneConfig(
    ...         metric="loss",
    ...         mode="min",
    ...         max_concurrent_trials=1,
    ...         scheduler=AsyncHyperBandScheduler(
    ...             max_t=9, grace_period=1, reduction_factor=3
    ...         ),
    ...     ),
    ...     run_config=tune.RunConfig(storage_path=tempfile.mkdtemp(), verbose=0),
    ... ).fit()
    >>> [result.metrics["training_iteration"] for result in results]
    [9, 1, 1]

    Notes
    -----
    Ray source: ``ray.tune.schedulers.AsyncHyperBandScheduler``, 2.60.0. L. Li and others, "A System for
    Massively Parallel Hyperparameter Tuning", MLSys 2020 (https://arxiv.org/abs/1810.05934).
    Differs from the paper, as Ray does: a stopped trial is never promoted later. A rung's scores
    are kept sorted, so that a decision among thousands costs microseconds.
    """

    def __init__(
        self,
        time_attr: str = "training_iteration",
        metric: str | None = None,
        mode: str | None = None,
        max_t: float = 100,
        grace_period: float = 1,
        reduction_factor: float = 4,
        brackets: int = 1,
        stop_last_trials: bool = True,
    ) -> None:
        check_ranges(max_t=max_t, grace_period=grace_period, brackets=brackets)
        if grace_period > max_t:
            raise InvalidRangeError(
                f"grace_period={grace_period!r}: expected at most max_t={max_t!r}."
            )
        if not reduction_factor > 1:
            raise InvalidRangeError(f"reduction_factor={reduction_factor!r}: expected above 1.")
        super().__init__(metric, mode)
        self._time_attr = time_attr
        self._max_t = max_t
        self._stop_last_trials = stop_last_trials
        self._brackets = [
            Bracket(grace_period, max_t, reduction_factor, s, stop_last_trials)
            for s in range(brackets)
        ]
        self._bracket_of: dict[str, Bracket] = {}
        self._num_stopped = 0

    def on_trial_add(self, tune_controller: Controller, trial: Trial) -> None:
        """Put the trial into a bracket; one with more rungs is likelier."""
        super().on_trial_add(tune_controller, trial)
        sizes = np.array([len(bracket.rungs) for bracket in self._brackets])
        weights = np.e ** (sizes - sizes.max())
        index = np.random.choice(len(self._brackets), p=weights / weights.sum())
        self._bracket_of[trial.trial_id] = self._brackets[index]

    def on_trial_result(self, tune_controller: Controller, trial: Trial, result: Metrics) -> str:
        if self._time_attr not in result or self._metric not in result:
            return TrialScheduler.CONTINUE
        time = result[self._time_attr]
        if time >= self._max_t and self._stop_last_trials:
            action = TrialScheduler.STOP
        else:
            bracket = self._bracket_of[trial.trial_id]
            action = bracket.on_result(trial, time, self.score(result))
        self._num_stopped += action == TrialScheduler.STOP
        return action

    def on_trial_complete(self, tune_controller: Controller, trial: Trial, result: Metrics) -> None:
        """Record the last score of a trial that ended by itself."""
        bracket = self._bracket_of.get(trial.trial_id)
        if bracket is None or self._time_attr not in result or self._metric not in result:
            return
        bracket.on_result(trial, result[self._time_attr], self.score(result))
        del self._bracket_of[trial.trial_id]

    def on_trial_remove(self, tune_controller: Controller, trial: Trial) -> None:
        self._bracket_of.pop(trial.trial_id, None)

    def debug_string(self) -> str:
        lines = [f"AsyncHyperBand: {self._num_stopped} trials stopped early"]
        return "\n".join(lines + [bracket.debug_str() for bracket in self._brackets])


class Rung:
    """A point in time, and the scores that trials had there.

    Parameters
    ----------
    milestone : float
        When a trial is compared.
    """

    def __init__(self, milestone: float) -> None:
        self.milestone = milestone
        self.trial_ids: set[str] = set()
        self._sorted: list[float] = []

    def __contains__(self, trial_id: object) -> bool:
        return trial_id in self.trial_ids

    def record(self, trial_id: str, score: float) -> None:
        """Record a trial's score; NaN is not used for comparison."""
        self.trial_ids.add(trial_id)
        if not math.isnan(score):
            bisect.insort(self._sorted, score)

    def cutoff(self, reduction_factor: float) -> float | None:
        """Return the score that separates the best 1/η; None when nothing was recorded."""
        if not self.trial_ids:
            return None
        # By way of percents, as Ray rounds.
        return percentile(self._sorted, (1 - 1 / reduction_factor) * 100 / 100)


def percentile(ordered: list[float], fraction: float) -> float:
    """Return the value at a fraction of a sorted list, interpolated as numpy does; NaN of none."""
    if not ordered:
        return math.nan
    position = (len(ordered) - 1) * fraction
    below = math.floor(position)
    above = min(below + 1, len(ordered) - 1)
    weight, difference = position - below, ordered[above] - ordered[below]
    if weight >= 0.5:  # numpy's rounding
        return ordered[above] - difference * (1 - weight)
    return ordered[below] + difference * weight


class Bracket:
    """The rungs of asynchronous successive halving, the last first.

    Parameters
    ----------
    min_t, max_t : float
        Between these times trials are compared.
    reduction_factor : float
        η.
    s : int
        How many rungs later the bracket starts.
    stop_last_trials : bool, default True
        Whether a trial is compared again at a rung that it has passed.
    """

    def __init__(
        self,
        min_t: float,
        max_t: float,
        reduction_factor: float,
        s: int,
        stop_last_trials: bool = True,
    ) -> None:
        self._reduction_factor = reduction_factor
        self._stop_last_trials = stop_last_trials
        num_rungs = int(np.log(max_t / min_t) / np.log(reduction_factor) - s + 1)
        self.rungs = [Rung(min_t * reduction_factor ** (k + s)) for k in reversed(range(num_rungs))]

    def on_result(self, trial: Trial, time: float, score: float) -> str:
        """Compare and record the score at the last rung that the trial has reached."""
        for rung in self.rungs:
            if time < rung.milestone:
                continue
            if trial.trial_id in rung:
                if self._stop_last_trials:
                    continue
                break
            cutoff = rung.cutoff(self._reduction_factor)
            rung.record(trial.trial_id, score)
            if cutoff is not None and score < cutoff:
                return TrialScheduler.STOP
            break
        return TrialScheduler.CONTINUE

    def debug_str(self) -> str:
        """Return the rungs' cutoffs in one line."""
        shown = [f"{r.milestone:g}: {r.cutoff(self._reduction_factor)}" for r in self.rungs]
        return "Bracket (time: cutoff): " + " | ".join(shown)


def check_ranges(**values: Any) -> None:
    """Raise when a value is not above 0."""
    for name, value in values.items():
        if not value > 0:
            raise InvalidRangeError(f"{name}={value!r}: expected a number above 0.")


ASHAScheduler = AsyncHyperBandScheduler
