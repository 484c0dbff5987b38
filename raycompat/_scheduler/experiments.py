"""Experiments of programs, for the dashboard: their trials, with parameters, states and curves.

All tables are bounded: long curves are thinned; old experiments and curves of old trials are removed.
"""

from __future__ import annotations

import math
import time
from array import array
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from raycompat._messages.watching import Tracked
from raycompat._protocol import tracked

#: The most experiments, and trials of all of them. Beyond this, the oldest experiments are removed.
_MANY_EXPERIMENTS, _MANY_TRIALS = 50, 20_000

#: Trials that keep their curves: those that have reported last.
_MANY_WITH_CURVES = 1_000

#: Figures of one trial with different names, and points of one curve.
_MANY_FIGURES, _MANY_POINTS = 30, 200

#: States in which a trial does not run and will not.
ENDED_STATES = frozenset({"TERMINATED", "ERROR"})


class Curve:
    """A figure over the steps. When it has too many points, every second one is removed."""

    def __init__(self) -> None:
        self.steps, self.values = array("d"), array("d")
        #: Every how many points one is kept; the number of points so far.
        self._every, self._num_seen = 1, 0

    def add(self, step: float, value: float) -> None:
        """Add a point."""
        if self._num_seen % self._every == 0:
            if len(self.steps) >= _MANY_POINTS:
                self.steps, self.values = self.steps[::2], self.values[::2]
                self._every *= 2
            self.steps.append(step)
            self.values.append(value)
        self._num_seen += 1


@dataclass(slots=True)
class Trial:
    """One trial, as the program has reported it."""

    name: str
    state: str = "RUNNING"
    parameters: dict[str, Any] = field(default_factory=dict)
    #: Why it has failed; empty if it has not.
    error: str = ""
    #: The times of the first and the last report, in seconds since 1970; 0 before.
    begun: float = 0.0
    reported: float = 0.0
    step: float = 0.0
    #: The last figures by name.
    figures: dict[str, float] = field(default_factory=dict)
    curves: dict[str, Curve] = field(default_factory=dict)


@dataclass(slots=True)
class Experiment:
    """Trials of one kind. `version` grows with each change."""

    id: str
    name: str
    kind: str
    metric: str
    mode: str
    job: str
    started: float = field(default_factory=time.time)
    has_ended: bool = False
    trials: dict[str, Trial] = field(default_factory=dict)
    #: The names of all figures, in the order in which they came.
    figures: dict[str, None] = field(default_factory=dict)
    version: int = 0

    def rank(self, value: float | None) -> tuple[bool, float]:
        """Return what to sort trials by for the best first; NaN and None are last."""
        if value is None or math.isnan(value):
            return True, 0.0
        return False, value if self.mode == "min" else -value

    def best(self, figure: str) -> list[Trial]:
        """Return the trials that have a figure, the best first; those where it is NaN are last."""
        found = [trial for trial in self.trials.values() if figure in trial.figures]
        return sorted(found, key=lambda trial: self.rank(trial.figures[figure]))


class Experiments:
    """The experiments of all programs, the newest last."""

    def __init__(self) -> None:
        self.all: OrderedDict[str, Experiment] = OrderedDict()
        self._num_trials = 0
        #: The trials with curves; the one that reported last is at the end.
        self._with_curves: OrderedDict[tuple[str, str], Trial] = OrderedDict()

    def on_report(self, sender: str, message: Tracked) -> None:
        """Enter the records of a process."""
        self._enter(message.records)

    def job_ended(self, job: str) -> None:
        """End the experiments of a job."""
        for experiment in self.all.values():
            if experiment.job == job:
                self._end(experiment)

    def _enter(self, records: Sequence[Any]) -> None:
        for kind, id_, *rest in records:
            if kind == tracked.EXPERIMENT:
                self._make_room()
                self.all[id_] = Experiment(id_, *rest)
                continue
            experiment = self.all.get(id_)
            if experiment is None:
                continue  # it was dropped
            if kind == tracked.TRIAL:
                self._note(experiment, *rest)
            elif kind == tracked.FIGURES:
                self._report(experiment, *rest)
            else:
                self._end(experiment)
            experiment.version += 1

    def _make_room(self) -> None:
        while len(self.all) >= _MANY_EXPERIMENTS or self._num_trials >= _MANY_TRIALS:
            ended = (each.id for each in self.all.values() if each.has_ended)
            self._drop(next(ended, next(iter(self.all))))

    def _drop(self, id_: str) -> None:
        dropped = self.all.pop(id_)
        self._num_trials -= len(dropped.trials)
        for name in dropped.trials:
            self._with_curves.pop((id_, name), None)

    def _trial(self, experiment: Experiment, name: str) -> Trial | None:
        trial = experiment.trials.get(name)
        if trial is None and self._num_trials < _MANY_TRIALS:
            trial = experiment.trials[name] = Trial(name)
            self._num_trials += 1
        return trial

    def _note(
        self,
        experiment: Experiment,
        name: str,
        state: str,
        parameters: dict[str, object] | None,
        error: str,
    ) -> None:
        trial = self._trial(experiment, name)
        if trial is not None:
            trial.state, trial.error = state, error
            if parameters is not None:
                trial.parameters = parameters

    def _report(
        self, experiment: Experiment, name: str, step: float, figures: dict[str, float], now: float
    ) -> None:
        trial = self._trial(experiment, name)
        if trial is None:
            return
        trial.begun = trial.begun or now
        trial.reported, trial.step = now, step
        for figure, value in figures.items():
            is_known = figure in trial.figures or figure == experiment.metric
            if len(trial.figures) >= _MANY_FIGURES and not is_known:
                continue
            trial.figures[figure] = value
            experiment.figures.setdefault(figure)
            trial.curves.setdefault(figure, Curve()).add(step, value)
        self._with_curves[experiment.id, name] = trial
        self._with_curves.move_to_end((experiment.id, name))
        if len(self._with_curves) > _MANY_WITH_CURVES:
            _, oldest = self._with_curves.popitem(last=False)
            oldest.curves = {}

    def _end(self, experiment: Experiment) -> None:
        experiment.has_ended = True
        experiment.version += 1
        for trial in experiment.trials.values():
            if trial.state not in ENDED_STATES:
                trial.state = "STOPPED"
