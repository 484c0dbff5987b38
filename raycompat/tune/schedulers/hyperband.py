"""HyperBand: successive halving in brackets, each a different trade of trials for time."""

from __future__ import annotations

import logging
import math
from collections import Counter
from typing import TYPE_CHECKING

import numpy as np

from raycompat._surface import forms
from raycompat.tune.schedulers.async_hyperband import check_ranges
from raycompat.tune.schedulers.trial_scheduler import (
    Controller,
    ScoredScheduler,
    TrialScheduler,
)

if TYPE_CHECKING:
    from raycompat.tune.experiment.trial import Trial
    from raycompat.tune.trainable.nested import Metrics

logger = logging.getLogger(__name__)


def bracket_sizes(max_t: int, eta: float) -> list[tuple[int, int]]:
    """Return for each bracket s = 0, 1, ... how many trials it begins with, and their first time limit.

    Examples
    --------
    The last is pure exploration, the first runs every trial to its end:

    >>> bracket_sizes(81, 3)
    [(5, 81), (8, 27), (15, 9), (34, 3), (81, 1)]
    """
    count = int(np.round(np.log(max_t) / np.log(eta))) + 1
    return [
        (int(np.ceil(count / (s + 1) * eta**s)), int(max_t * eta ** (-s))) for s in range(count)
    ]


def halvings(
    num_trials: int, first_t: int, s: int, eta: float, max_t: int
) -> list[tuple[int, int]]:
    """Return how many trials a bracket has after each halving, and until when they train.

    Examples
    --------
    >>> halvings(81, 1, 4, 3, 81)
    [(81, 1), (27, 3), (9, 9), (3, 27), (1, 81)]
    """
    rounds = [(num_trials, first_t)]
    for _ in range(s):
        size, time = rounds[-1]
        rounds.append((math.ceil(size / eta), int(min(time * eta, max_t))))
    return rounds


@forms.takes_old_options_in_constructor("ray.tune.schedulers.HyperBandScheduler")
class HyperBandScheduler(ScoredScheduler):
    """Train trials in brackets: pause each at a limit, keep the best 1/η, and raise the limit.

    Parameters
    ----------
    time_attr : str, default "training_iteration"
        The result's measure of time.
    metric : str, optional
    mode : {"min", "max"}, optional
    max_t : int, default 81
        R, the longest that a trial trains, in units of `time_attr`.
    reduction_factor : float, default 3
        η, above 1.
    stop_last_trials : bool, default True
        Whether the last trials of a bracket stop at `max_t`.

    Examples
    --------
    >>> from raycompat import tune
    >>> from raycompat.tune.schedulers import HyperBandScheduler
    >>> scheduler = HyperBandScheduler(time_attr="training_iteration", max_t=27)
    >>> config = tune.TuneConfig(
    ...     metric="loss", mode="min", scheduler=scheduler, num_samples=9
    ... )

    Notes
    -----
    Ray source: ``ray.tune.schedulers.HyperBandScheduler``, 2.60.0. L. Li and others, "Hyperband: A
    Novel Bandit-Based Approach to Hyperparameter Optimization", JMLR 18 (2018), Algorithm 1.
    Differs from the paper, as Ray does: the number of survivors is rounded up, the limits are
    multiplied from the first one, and a bracket begins before it is full. Trials must be able to
    pause: they need checkpoints.
    """

    def __init__(
        self,
        time_attr: str = "training_iteration",
        metric: str | None = None,
        mode: str | None = None,
        max_t: int = 81,
        reduction_factor: float = 3,
        stop_last_trials: bool = True,
    ) -> None:
        check_ranges(max_t=max_t, reduction_factor=reduction_factor - 1)
        super().__init__(metric, mode)
        self._time_attr = time_attr
        self._eta, self._max_t = reduction_factor, max_t
        self._stop_last_trials = stop_last_trials
        self._sizes = bracket_sizes(max_t, reduction_factor)
        #: The brackets s of a round, in their order. One whose first limit rounds to 0 is left out.
        self._order = [s for s, (_, first_t) in enumerate(self._sizes) if first_t]
        #: Rounds of all brackets; within a round in their order.
        self._bands: list[list[Bracket]] = [[]]
        self._bracket_of: dict[Trial, Bracket] = {}
        self._num_stopped = 0

    def on_trial_add(self, tune_controller: Controller, trial: Trial) -> None:
        """Put the trial into the bracket that is being filled."""
        super().on_trial_add(tune_controller, trial)
        bracket = self._bands[-1][-1] if self._bands[-1] else None
        if bracket is None or bracket.filled():
            bracket = self._new_bracket()
        bracket.add_trial(trial)
        self._bracket_of[trial] = bracket

    def _new_bracket(self) -> Bracket:
        if len(self._bands[-1]) == len(self._order):
            self._bands.append([])
        s = self._order[len(self._bands[-1])]
        num_trials, first_t = self._sizes[s]
        limits = halvings(num_trials, first_t, s, self._eta, self._max_t)
        bracket = Bracket(self._time_attr, limits, self._stop_last_trials)
        self._bands[-1].append(bracket)
        return bracket

    def on_trial_result(self, tune_controller: Controller, trial: Trial, result: Metrics) -> str:
        if self._time_attr not in result or self._metric not in result:
            return TrialScheduler.CONTINUE
        bracket = self._bracket_of[trial]
        bracket.results[trial] = result
        bracket.released.discard(trial)
        if bracket.continues(trial):
            return TrialScheduler.CONTINUE
        return self._process(tune_controller, bracket)

    def _process(self, tune_controller: Controller, bracket: Bracket) -> str:
        """Halve a bracket whose trials have all reached the limit; return the running one's action."""
        if not bracket.round_is_done():
            return TrialScheduler.PAUSE
        if bracket.finished():
            for trial in list(bracket.results):
                if trial.status == "PAUSED":
                    tune_controller.stop_trial(trial)
            return TrialScheduler.STOP
        good, bad = bracket.halve(self.score)
        self._num_stopped += len(bad)
        action = TrialScheduler.PAUSE
        bracket.is_being_processed = True
        for trial in bad:
            action = self._end(tune_controller, bracket, trial, action)
        for trial in good:
            if bracket.continues(trial):
                action = self._release(bracket, trial, action)
            elif bracket.finished() and self._stop_last_trials:
                action = self._end(tune_controller, bracket, trial, action)
        bracket.is_being_processed = False
        return action

    def _end(self, tune_controller: Controller, bracket: Bracket, trial: Trial, action: str) -> str:
        if trial.status == "RUNNING" and not trial.is_saving:
            bracket.results.pop(trial, None)
            return TrialScheduler.STOP
        tune_controller.stop_trial(trial)
        return action

    def _release(self, bracket: Bracket, trial: Trial, action: str) -> str:
        if trial.status == "RUNNING" and not trial.is_saving:
            return TrialScheduler.CONTINUE
        bracket.released.add(trial)
        return action

    def on_trial_remove(self, tune_controller: Controller, trial: Trial) -> None:
        """Continue without the trial, which can end the bracket's round."""
        bracket = self._bracket_of.pop(trial, None)
        if bracket is None:
            return
        bracket.results.pop(trial, None)
        bracket.released.discard(trial)
        if not bracket.finished() and not bracket.is_being_processed:
            self._process(tune_controller, bracket)

    def on_trial_complete(self, tune_controller: Controller, trial: Trial, result: Metrics) -> None:
        self.on_trial_remove(tune_controller, trial)

    def on_trial_error(self, tune_controller: Controller, trial: Trial) -> None:
        self.on_trial_remove(tune_controller, trial)

    def choose_trial_to_run(self, tune_controller: Controller) -> Trial | None:
        """Return a trial of the bracket that is furthest behind."""
        for band in self._bands:
            for bracket in sorted(band, key=Bracket.completion):
                for trial in bracket.results:
                    if trial.status == "PENDING" or (
                        trial.status == "PAUSED" and trial in bracket.released
                    ):
                        return trial
        return None

    def debug_string(self) -> str:
        num_brackets = sum(map(len, self._bands))
        lines = [f"HyperBand: {self._num_stopped} trials stopped early, {num_brackets} brackets"]
        for number, band in enumerate(self._bands):
            lines += [f"Round {number}:", *[f"  {bracket!r}" for bracket in band]]
        return "\n".join(lines)


class Bracket:
    """Trials that are halved together.

    Parameters
    ----------
    time_attr : str
    limits : list of (int, int)
        How many trials each round has, and until when they train.
    stop_last_trials : bool
    """

    def __init__(
        self, time_attr: str, limits: list[tuple[int, int]], stop_last_trials: bool
    ) -> None:
        self._time_attr = time_attr
        self._limits = limits
        self._round = 0
        self._stop_last_trials = stop_last_trials
        self._all_trials: list[Trial] = []
        #: The last result of each trial that is still in the race; None when it has none yet.
        self.results: dict[Trial, Metrics | None] = {}
        #: Paused trials that may continue.
        self.released: set[Trial] = set()
        self.is_being_processed = False

    @property
    def limit(self) -> int:
        """Until when trials train in this round."""
        return self._limits[self._round][1]

    @property
    def _is_last_round(self) -> bool:
        return self._round == len(self._limits) - 1

    def filled(self) -> bool:
        return len(self.results) >= self._limits[self._round][0]

    def add_trial(self, trial: Trial) -> None:
        self.results[trial] = None
        self._all_trials.append(trial)

    def _time(self, trial: Trial) -> float:
        result = self.results.get(trial)
        return 0 if result is None else result[self._time_attr]

    def round_is_done(self) -> bool:
        """Return whether every trial has reached the limit."""
        return all(self._time(trial) >= self.limit for trial in self.results)

    def finished(self) -> bool:
        return self._stop_last_trials and self._is_last_round and self.round_is_done()

    def continues(self, trial: Trial) -> bool:
        """Return whether a trial continues to train in this round."""
        if not self._stop_last_trials and self._is_last_round:
            return True
        return self._time(trial) < self.limit

    def halve(self, score: object) -> tuple[list[Trial], list[Trial]]:
        """Begin the next round; return the trials that stay and those that stop."""
        if self._is_last_round:
            return list(self.results), []
        self._round += 1
        size = self._limits[self._round][0]
        known = {trial: score(result) for trial, result in self.results.items()}  # type: ignore[operator]
        # NaN is worse than any score.
        ordered = sorted(known, key=lambda t: -math.inf if math.isnan(known[t]) else known[t])
        return ordered[-size:], ordered[:-size]

    def completion(self) -> float:
        """Return the fraction of the bracket's work that is done."""
        if self.finished():
            return 1.0
        work = sum(size * time for size, time in self._limits)
        done = sum(self._time(trial) for trial in self.results)
        return min(done / work, 1.0)

    def __repr__(self) -> str:
        counts = Counter(trial.status for trial in self._all_trials)
        statuses = ", ".join(f"{status}: {count}" for status, count in sorted(counts.items()))
        return f"Bracket(n={self._limits[self._round][0]}, until {self.limit}): {{{statuses}}}"
