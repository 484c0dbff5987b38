"""Population based training: weak trials continue from strong ones, with changed hyperparameters."""

from __future__ import annotations

import copy
import json
import logging
import math
import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from raycompat._surface import forms
from raycompat._surface.modules import names_of
from raycompat.tune.error import TuneError
from raycompat.tune.result import TRAINING_ITERATION
from raycompat.tune.schedulers.trial_scheduler import (
    Controller,
    ScoredScheduler,
    TrialScheduler,
)
from raycompat.tune.search.sample import Domain, Function
from raycompat.tune.search.search_generator import SearchGenerator
from raycompat.tune.search.variant_generator import format_vars

if TYPE_CHECKING:
    from raycompat.tune.experiment.trial import Trial
    from raycompat.tune.trainable.nested import Config, Metrics

logger = logging.getLogger(__name__)

#: For each hyperparameter a list of values, a domain, a function that draws one, or a dict of these.
Mutations: TypeAlias = dict[str, Any]

#: The kind of change of each hyperparameter, in words, nested as the mutations.
Changes: TypeAlias = "dict[str, str | Changes]"


def explore(
    config: Config,
    mutations: Mutations,
    resample_probability: float = 0.25,
    perturbation_factors: tuple[float, float] = (1.2, 0.8),
    custom_explore_fn: Callable[[Config], Config] | None = None,
) -> tuple[Config, Changes]:
    """Return a changed config, and the kind of change of each hyperparameter.

    A value of a list moves to a neighbour, a number is multiplied by one of the factors; with the
    probability it is drawn again instead.

    Notes
    -----
    Draws from Python's `random` in the order in which Ray does: the same seed gives the same config.
    """
    new = copy.deepcopy(config)
    done: Changes = {}
    for name, space in mutations.items():
        if isinstance(space, dict):
            new[name], done[name] = explore(
                config[name], space, resample_probability, perturbation_factors
            )
        elif isinstance(space, list | tuple):
            new[name], done[name] = _neighbour(config[name], space, resample_probability)
        else:
            new[name], done[name] = _perturbed(
                config[name], space, resample_probability, perturbation_factors
            )
    if custom_explore_fn is not None:
        new = custom_explore_fn(new)
        if new is None:
            raise ValueError(f"{custom_explore_fn!r} returned None: expected the new config.")
    return new, done


def _neighbour(value: Any, space: Sequence[Any], resample_probability: float) -> tuple[Any, str]:
    if random.random() < resample_probability or value not in space:
        return random.choice(space), "resample"
    shift = random.choice([-1, 1])
    old = space.index(value)
    index = min(max(old + shift, 0), len(space) - 1)
    name = f"shift {'left' if shift == -1 else 'right'}"
    return space[index], name + (" (noop)" if index == old else "")


def _perturbed(
    value: Any, space: Any, resample_probability: float, factors: tuple[float, float]
) -> tuple[Any, str]:
    if random.random() < resample_probability:
        new, done = draw_value(space), "resample"
    else:
        factor = random.choice(factors)
        new, done = value * factor, f"* {factor}"
    if isinstance(value, bool):
        return bool(new), done
    return (round(new) if isinstance(value, int) else new), done


def draw_value(space: Any) -> Any:
    """Return a first value of a hyperparameter that the search space lacks."""
    if isinstance(space, Domain):
        return space.sample(None)
    if isinstance(space, list | tuple):
        return random.choice(space)
    if isinstance(space, dict):
        return {name: draw_value(inner) for name, inner in space.items()}
    return space()


def quantile_sizes(count: int, fraction: float) -> int:
    """Return how many trials are the best, and how many the worst; never more than half."""
    if count <= 1:
        return 0
    size = math.ceil(count * fraction)
    return count // 2 if size > count / 2 else size


def perturbed_tag(tag: str, config: Config, names: Iterable[str]) -> str:
    """Return the name of a trial whose config was changed."""
    changed = {("config", name): config[name] for name in names}
    return f"{tag}@perturbed[{format_vars(changed)}]"


@dataclass
class _State:
    """A member of the population: its last score, and the checkpoint from which others can continue."""

    tag: str
    score: float | None = None
    #: A checkpoint, one that is being made, or None for a trial that is not among the best.
    checkpoint: Any = None
    result: Metrics | None = None
    perturbed_at: float = 0
    trained_until: float = 0


@forms.takes_old_options_in_constructor("ray.tune.schedulers.PopulationBasedTraining")
class PopulationBasedTraining(ScoredScheduler):
    """At regular intervals, let the worst trials copy the best, and change the copied hyperparameters.

    Parameters
    ----------
    time_attr : str, default "time_total_s"
        The result's measure of time.
    metric : str, optional
    mode : {"min", "max"}, optional
    perturbation_interval : float, default 60
        Time between two perturbations of a trial, in units of `time_attr`.
    burn_in_period : float, default 0
        No perturbation before.
    hyperparam_mutations : dict, optional
        For each hyperparameter that may change a list of values, a domain, or a function without
        parameters; dicts nest.
    quantile_fraction : float, default 0.25
        How many are the best, and the worst; 0 to 0.5.
    resample_probability : float, default 0.25
        How often a hyperparameter is drawn again, not perturbed; 0 to 1.
    perturbation_factors : (float, float), default (1.2, 0.8)
        The factors for numbers.
    custom_explore_fn : callable, optional
        Changes the new config last, and returns it.
    log_config : bool, default True
        Write each change to ``pbt_policy_<trial>.txt``, for `PopulationBasedTrainingReplay`.
    require_attrs : bool, default True
        Whether a result without metric or time is an error.
    synch : bool, default False
        Whether trials wait for each other at perturbations.

    Raises
    ------
    ValueError
        When a parameter is out of its range.
    TuneError
        When nothing could change.

    Examples
    --------
    >>> from raycompat import tune
    >>> from raycompat.tune.schedulers import PopulationBasedTraining
    >>> scheduler = PopulationBasedTraining(
    ...     time_attr="training_iteration",
    ...     perturbation_interval=5,
    ...     hyperparam_mutations={
    ...         "lr": tune.loguniform(1e-4, 1e-1),
    ...         "batch_size": [16, 32, 64],
    ...     },
    ... )
    >>> config = tune.TuneConfig(
    ...     metric="loss", mode="min", scheduler=scheduler, num_samples=8
    ... )

    Notes
    -----
    Ray source: ``ray.tune.schedulers.PopulationBasedTraining``, 2.60.0. M. Jaderberg and others,
    "Population Based Training of Neural Networks", 2017 (https://arxiv.org/abs/1711.09846): truncation
    selection, perturbation and resampling. Trials need checkpoints.
    """

    def __init__(
        self,
        time_attr: str = "time_total_s",
        metric: str | None = None,
        mode: str | None = None,
        perturbation_interval: float = 60.0,
        burn_in_period: float = 0.0,
        hyperparam_mutations: Mutations | None = None,
        quantile_fraction: float = 0.25,
        resample_probability: float = 0.25,
        perturbation_factors: tuple[float, float] = (1.2, 0.8),
        custom_explore_fn: Callable[[Config], Config] | None = None,
        log_config: bool = True,
        require_attrs: bool = True,
        synch: bool = False,
    ) -> None:
        super().__init__(metric, mode)
        self._mutations = hyperparam_mutations or {}
        _check_mutations(self._mutations)
        if not self._mutations and custom_explore_fn is None:
            raise TuneError("Nothing can change: pass hyperparam_mutations or custom_explore_fn.")
        if not 0 <= quantile_fraction <= 0.5:
            raise ValueError(f"quantile_fraction={quantile_fraction!r}: expected 0 to 0.5.")
        if perturbation_interval <= 0:
            raise ValueError(f"perturbation_interval={perturbation_interval!r}: expected above 0.")
        self._time_attr = time_attr
        self._perturbation_interval = perturbation_interval
        self._burn_in_period = burn_in_period
        self._quantile_fraction = quantile_fraction
        self._resample_probability = resample_probability
        self._perturbation_factors = perturbation_factors
        self._custom_explore_fn = custom_explore_fn
        self._log_config = log_config
        self._require_attrs = require_attrs
        self._synch = synch
        self._next_synch = max(perturbation_interval, burn_in_period)
        self._states: dict[Trial, _State] = {}
        self._num_checkpoints = self._num_perturbations = 0

    def on_trial_add(self, tune_controller: Controller, trial: Trial) -> None:
        """Draw the hyperparameters that the search space lacks."""
        if isinstance(tune_controller.search_alg, SearchGenerator):
            raise ValueError(
                f"{type(self).__name__} makes its own configs: leave out "
                f"search_alg={type(tune_controller.search_alg.searcher).__name__}."
            )
        super().on_trial_add(tune_controller, trial)
        self._states[trial] = _State(trial.experiment_tag)
        for name, space in self._mutations.items():
            if name not in trial.config:
                trial.config[name] = draw_value(space)
                trial.evaluated_params[name] = trial.config[name]

    def on_trial_result(self, tune_controller: Controller, trial: Trial, result: Metrics) -> str:
        if not self._has_attributes(result):
            return TrialScheduler.CONTINUE
        time, state = result[self._time_attr], self._states[trial]
        too_early = time - state.perturbed_at < self._perturbation_interval
        if time < self._burn_in_period or too_early:
            return TrialScheduler.CONTINUE
        state.score, state.trained_until, state.result = self.score(result), time, result
        if self._synch:
            self._perturb_together(tune_controller, trial, time)
            paused = trial.status == "PAUSED"
            return TrialScheduler.NOOP if paused else TrialScheduler.PAUSE
        state.perturbed_at = time
        lower, upper = self.quantiles()
        waiting = any(
            each.status in ("PENDING", "PAUSED") for each in tune_controller.get_live_trials()
        )
        self._save_or_exploit(tune_controller, trial, lower, upper)
        if trial.status == "PAUSED":
            return TrialScheduler.NOOP
        return TrialScheduler.PAUSE if waiting else TrialScheduler.CONTINUE

    def _has_attributes(self, result: Metrics) -> bool:
        missing = [name for name in (self._time_attr, self._metric) if name not in result]
        if missing and self._require_attrs:
            raise RuntimeError(
                f"A result lacks {missing}; it has {sorted(result)}. Report it, or pass "
                "require_attrs=False."
            )
        return not missing

    def _perturb_together(self, tune_controller: Controller, trial: Trial, time: float) -> None:
        """Perturb the whole population when its last trial has reached the time."""
        if any(
            self._states[other].trained_until < self._next_synch
            for other in tune_controller.get_live_trials()
            if other is not trial
        ):
            return
        lower, upper = self.quantiles()
        trials = tune_controller.get_trials()
        rest = [each for each in trials if each not in lower and each not in upper]
        for each in [*upper, *rest, *lower]:  # the best save before the worst copy
            self._states[each].perturbed_at = time
            self._save_or_exploit(tune_controller, each, lower, upper)
        latest = max(self._states[each].trained_until for each in trials)
        self._next_synch = max(self._next_synch + self._perturbation_interval, latest)

    def quantiles(self) -> tuple[list[Trial], list[Trial]]:
        """Return the worst and the best of the trials that have a score and have not ended."""
        known = [
            (state.score, trial)
            for trial, state in self._states.items()
            if state.score is not None and not math.isnan(state.score) and not trial.is_finished()
        ]
        ordered = [trial for _, trial in sorted(known, key=lambda entry: entry[0])]
        size = quantile_sizes(len(ordered), self._quantile_fraction)
        return ordered[:size], ordered[len(ordered) - size :]

    def _save_or_exploit(
        self,
        tune_controller: Controller,
        trial: Trial,
        lower: list[Trial],
        upper: list[Trial],
    ) -> None:
        state = self._states[trial]
        state.checkpoint = None
        if trial in upper:
            if trial.status == "PAUSED" and not trial.is_saving:
                state.checkpoint = trial.checkpoint
            else:
                state.checkpoint = tune_controller.schedule_trial_save(trial, result=state.result)
            self._num_checkpoints += 1
        if trial in lower:
            donor = random.choice(upper)
            checkpoint = self._resolved(self._states[donor])
            if checkpoint is None:
                logger.info("%s has no checkpoint: %s continues without a copy.", donor, trial)
            else:
                self._exploit(tune_controller, trial, donor, checkpoint)

    def _resolved(self, state: _State) -> Any:
        """Return the checkpoint of one of the best, once it is written."""
        if hasattr(state.checkpoint, "resolve"):
            made = state.checkpoint.resolve()
            state.checkpoint = None if made is None else made.checkpoint
            state.result = state.result if made is None else made.metrics
        return state.checkpoint

    def _exploit(
        self, tune_controller: Controller, trial: Trial, donor: Trial, checkpoint: Any
    ) -> None:
        state, donor_state = self._states[trial], self._states[donor]
        new_config, done = self.explored(trial, donor)
        logger.info("%s continues from %s: %s", trial, donor, done)
        if self._log_config:
            self._log_change(state, donor_state, trial, donor, new_config)
        if trial.status != "PAUSED":
            tune_controller.pause_trial(trial, should_checkpoint=False)
        trial.set_experiment_tag(perturbed_tag(state.tag, new_config, self._mutations))
        trial.set_config(new_config)
        trial.continue_from(checkpoint, donor_state.result or {})
        self._num_perturbations += 1
        state.perturbed_at = donor_state.perturbed_at
        state.trained_until = donor_state.trained_until

    def explored(self, trial: Trial, donor: Trial) -> tuple[Config, Changes]:
        """Return the config with which a trial continues from another, and what was changed."""
        return explore(
            donor.config,
            self._mutations,
            self._resample_probability,
            self._perturbation_factors,
            self._custom_explore_fn,
        )

    def _log_change(
        self,
        state: _State,
        donor_state: _State,
        trial: Trial,
        donor: Trial,
        new_config: Config,
    ) -> None:
        """Write the change to the experiment's log, and to the trial's own, which is now the
        donor's.
        """
        line = json.dumps(
            [
                state.tag,
                donor_state.tag,
                trial.last_result.get(TRAINING_ITERATION, 0),
                donor.last_result.get(TRAINING_ITERATION, 0),
                donor.config,
                new_config,
            ],
            default=repr,
        )
        folder = trial.experiment_folder
        folder.append_line("pbt_global.txt", line)
        own, donors = (f"pbt_policy_{each.trial_id}.txt" for each in (trial, donor))
        if folder.exists(donors):
            folder.write(own, folder.read(donors))
        folder.append_line(own, line)

    def choose_trial_to_run(self, tune_controller: Controller) -> Trial | None:
        """Return the waiting trial that has trained least."""
        waiting = [
            trial
            for trial in tune_controller.get_live_trials()
            if trial.status in ("PENDING", "PAUSED")
            and (not self._synch or self._states[trial].trained_until < self._next_synch)
        ]
        return min(waiting, key=lambda trial: self._states[trial].trained_until, default=None)

    def debug_string(self) -> str:
        return (
            f"PopulationBasedTraining: {self._num_checkpoints} checkpoints, "
            f"{self._num_perturbations} perturbs"
        )


def _check_mutations(mutations: Mutations) -> None:
    for name, space in mutations.items():
        if isinstance(space, Function):
            raise ValueError(
                f"hyperparam_mutations[{name!r}] is a tune.sample_from: use a domain such as "
                "tune.uniform, or a function without parameters."
            )
        if not (isinstance(space, dict | list | tuple | Domain) or callable(space)):
            raise TypeError(
                f"hyperparam_mutations[{name!r}]={space!r}: expected a list, a domain such as "
                "tune.uniform(0, 1), a function without parameters, or a dict of these."
            )


#: Names of older Rays.
__getattr__ = names_of(__name__)
