"""`OptunaSearch`: Optuna's samplers suggest the configs."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from raycompat._old_forms.packages import require
from raycompat.tune.result import DEFAULT_METRIC, TRAINING_ITERATION
from raycompat.tune.search.sample import (
    Categorical,
    Domain,
    Float,
    Integer,
    LogUniform,
    Uniform,
    without_step,
)
from raycompat.tune.search.searcher import Names, Searcher, refuse_grid, require_space
from raycompat.tune.search.variant_generator import parse_spec_vars, path_name
from raycompat.tune.trainable.nested import flatten_dict, unflatten_dict

if TYPE_CHECKING:
    import optuna
    from optuna.trial import Trial

    from raycompat.tune.trainable.nested import Config, Metrics, Space

logger = logging.getLogger(__name__)


class OptunaSearch(Searcher):
    """Let Optuna suggest configs; by default its tree-structured Parzen estimator does.

    Parameters
    ----------
    space : dict or callable, optional
        Optuna's distributions by name; a function that calls ``trial.suggest_...``; or domains of
        Tune. By default the ``param_space`` of the Tuner.
    metric : str or list of str, optional
        The metric; several are several objectives.
    mode : {"min", "max"} or list, optional
    points_to_evaluate : list of dict, optional
        Configs that come first.
    sampler : optuna.samplers.BaseSampler, optional
        By default ``TPESampler(seed=seed)``.
    study_name : str, default "optuna"
        The study in `storage`.
    storage : optuna.storages.BaseStorage, optional
        Where Optuna keeps the study. By default in memory, and in the experiment's folder.
    seed : int, optional
        For the default sampler.
    evaluated_rewards : list of float, optional
        Known scores of `points_to_evaluate`, which are then not run.

    Raises
    ------
    ImportError
        When Optuna is not installed: ``pip install raycompat[tune]``.

    Notes
    -----
    Ray source: ``ray.tune.search.optuna.OptunaSearch``, 2.60.0. Differs from Ray: ``qlograndint`` is an
    error, because Optuna has no distribution for it. T. Akiba and others, "Optuna: A Next-generation
    Hyperparameter Optimization Framework", KDD 2019.
    """

    def __init__(
        self,
        space: Space | Callable[..., object] | None = None,
        metric: Names = None,
        mode: Names = None,
        points_to_evaluate: list[Config] | None = None,
        sampler: optuna.samplers.BaseSampler | None = None,
        study_name: str | None = None,
        storage: optuna.storages.BaseStorage | None = None,
        seed: int | None = None,
        evaluated_rewards: list[float] | None = None,
    ) -> None:
        optuna = require("optuna", "OptunaSearch")
        super().__init__(metric=metric, mode=mode)
        _check_type("sampler", sampler, optuna.samplers.BaseSampler)
        _check_type("storage", storage, optuna.storages.BaseStorage)
        if sampler is not None and seed is not None:
            raise ValueError(f"seed={seed}: the sampler has its own seed; pass one of the two.")
        self._points = points_to_evaluate or []
        self._rewards = evaluated_rewards
        if self._rewards is not None and len(self._rewards) != len(self._points):
            raise ValueError(
                f"{len(self._rewards)} evaluated_rewards for {len(self._points)} points_to_evaluate: "
                "expected one for each."
            )
        self._sampler, self._seed = sampler, seed
        self._storage, self._study_name = storage, study_name or "optuna"
        self._trials: dict[str, Trial] = {}
        self._completed: set[str] = set()
        self._study: Any = None
        self._space = space
        if isinstance(space, dict) and space:
            _, domains, grids = parse_spec_vars(space)
            tunes = bool(domains or grids)
            self._space = self.convert_search_space(space) if tunes else flatten_dict(space)
        if self._space:
            self._start_study()

    def _start_study(self) -> None:
        optuna = require("optuna", "OptunaSearch")
        if self._metric is None and isinstance(self._mode, str):
            self._metric = DEFAULT_METRIC
        if self._metric is None and self._mode is not None:
            raise ValueError(
                f"mode={self._mode!r}: several objectives need a list of metrics, too."
            )
        modes = self._mode if isinstance(self._mode, list) else [self._mode]
        self._study = optuna.create_study(
            storage=self._storage,
            sampler=self._sampler or optuna.samplers.TPESampler(seed=self._seed),
            pruner=optuna.pruners.NopPruner(),
            study_name=self._study_name,
            load_if_exists=True,
            directions=["minimize" if mode == "min" else "maximize" for mode in modes],
        )
        if self._rewards is None:
            for point in self._points:
                self._study.enqueue_trial(flatten_dict(point))
        else:
            for point, reward in zip(self._points, self._rewards, strict=True):
                self.add_evaluated_point(flatten_dict(point), reward)

    def set_search_properties(
        self, metric: str | None, mode: str | None, config: Config, **spec: object
    ) -> bool:
        if self._space:
            return False
        self._space = self.convert_search_space(config)
        self._metric, self._mode = metric or self._metric, mode or self._mode
        self._start_study()
        return True

    def suggest(self, trial_id: str) -> Config | None:
        require_space(self, self._space)
        if not callable(self._space):
            trial = self._study.ask(fixed_distributions=self._space)
            self._trials[trial_id] = trial
            return unflatten_dict(trial.params)
        trial = self._study.ask()
        self._trials[trial_id] = trial
        return unflatten_dict(_by_function(self._space, trial))

    def on_trial_result(self, trial_id: str, result: Metrics) -> None:
        several = isinstance(self.metric, list)  # Optuna takes no results between of several
        if not several and trial_id in self._trials and self.metric in result:
            self._trials[trial_id].report(result[self.metric], result[TRAINING_ITERATION])

    def on_trial_complete(
        self, trial_id: str, result: Metrics | None = None, error: bool = False
    ) -> None:
        if trial_id in self._completed or trial_id not in self._trials:
            return
        optuna = require("optuna", "OptunaSearch")
        states = optuna.trial.TrialState
        metrics = self.metric if isinstance(self.metric, list) else [self.metric]
        values = [(result or {}).get(metric) for metric in metrics]
        self._completed.add(trial_id)
        if None in values or any(value != value for value in values):  # absent, or NaN
            state = states.FAIL if error or None not in values else states.PRUNED
            self._study.tell(self._trials[trial_id], state=state)
        else:
            self._study.tell(self._trials[trial_id], values, state=states.COMPLETE)

    def add_evaluated_point(
        self,
        parameters: Config,
        value: float | None,
        error: bool = False,
        pruned: bool = False,
        intermediate_values: list[float] | None = None,
    ) -> None:
        require_space(self, self._space)
        if callable(self._space):
            raise TypeError(
                "A space that is a function cannot be told of points: pass a dict of distributions."
            )
        optuna = require("optuna", "OptunaSearch")
        states = optuna.trial.TrialState
        state = states.FAIL if error else states.PRUNED if pruned else states.COMPLETE
        self._study.add_trial(
            optuna.trial.create_trial(
                state=state,
                value=None if error else value,
                params=parameters,
                distributions=self._space,
                intermediate_values=dict(enumerate(intermediate_values or [])),
            )
        )

    @staticmethod
    def convert_search_space(spec: Space) -> dict[str, optuna.distributions.BaseDistribution]:
        """Return Tune's search space as Optuna's distributions, by names such as ``model/units``.

        Raises
        ------
        ValueError
            When Optuna has no such distribution, or a parameter is a grid.
        """
        _, domains, grids = parse_spec_vars(spec)
        refuse_grid(grids, "Optuna")
        return {path_name(path): _distribution(path_name(path), domain) for path, domain in domains}


def _distribution(name: str, domain: Domain) -> Any:
    """Return the distribution of Optuna that draws the same values as the domain."""
    distributions = require("optuna", "OptunaSearch").distributions
    sampler, step = without_step(domain.get_sampler())
    log = isinstance(sampler, LogUniform)
    known = isinstance(sampler, Uniform | LogUniform)
    if isinstance(domain, Float) and known:
        if log and step:
            logger.warning("Optuna draws %r without its step q=%r.", name, step)
            step = None
        return distributions.FloatDistribution(domain.lower, domain.upper, log=log, step=step)
    if isinstance(domain, Integer) and known and not (log and step):
        # Optuna's upper bound is included; so is ours of a domain with a step.
        upper = domain.upper if step else domain.upper - 1
        return distributions.IntDistribution(domain.lower, upper, log=log, step=step or 1)
    if isinstance(domain, Categorical) and known:
        return distributions.CategoricalDistribution(domain.categories)
    raise ValueError(
        f"Optuna has no distribution for the parameter {name!r}, {type(domain).__name__}"
        f"{domain.domain_str} drawn by {type(sampler).__name__}: use uniform, loguniform, quniform, "
        "randint, lograndint, qrandint or choice."
    )


def _by_function(space: Callable[..., object], trial: Trial) -> Config:
    """Return the suggestions and the result of the user's function."""
    recorded = _Recorded(trial)
    returned = space(recorded)
    if returned is not None and not (
        isinstance(returned, dict) and all(isinstance(name, str) for name in returned)
    ):
        raise TypeError(
            f"The space's function returned {returned!r}: expected a dict of names, or None."
        )
    return {**recorded.suggested, **(returned or {})}


class _Recorded:
    """An Optuna trial that records the suggestions."""

    def __init__(self, trial: Trial) -> None:
        self._trial = trial
        self.suggested: Config = {}

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._trial, name)
        if not name.startswith("suggest_"):
            return method

        def suggest(*args: object, **kwargs: object) -> Any:
            parameter = inspect.signature(method).bind(*args, **kwargs).arguments["name"]
            self.suggested[parameter] = method(*args, **kwargs)
            return self.suggested[parameter]

        return suggest


def _check_type(name: str, value: object, expected: type) -> None:
    if value is not None and not isinstance(value, expected):
        raise TypeError(
            f"{name}={value!r}: expected an instance of {expected.__module__}.{expected.__name__}."
        )
