"""`HyperOptSearch`: HyperOpt's tree-structured Parzen estimator suggests the configs."""

from __future__ import annotations

import copy
import functools
import math
from typing import TYPE_CHECKING, Any

import numpy as np

from raycompat._old_forms.packages import require
from raycompat._old_forms.tune import searchers
from raycompat._surface import forms
from raycompat.tune.result import DEFAULT_METRIC
from raycompat.tune.search.sample import (
    Categorical,
    Domain,
    Float,
    Integer,
    LogUniform,
    Normal,
    Uniform,
    without_step,
)
from raycompat.tune.search.searcher import Searcher, refuse_grid, require_space
from raycompat.tune.search.variant_generator import assign_value, parse_spec_vars, path_name

if TYPE_CHECKING:
    from raycompat.tune.trainable.nested import Config, Metrics, Space


@searchers.takes_old_options("ray.tune.search.hyperopt.HyperOptSearch")
class HyperOptSearch(Searcher):
    """Let HyperOpt suggest configs; spaces may be conditional.

    Parameters
    ----------
    space : dict, optional
        HyperOpt's space, or domains of Tune. By default the ``param_space`` of the Tuner.
    metric : str, optional
    mode : {"min", "max"}, optional
    points_to_evaluate : list of dict, optional
        Configs that come first.
    n_initial_points : int, default 20
        How many random points come before the first estimate.
    random_state_seed : int, optional
    gamma : float, default 0.25
        The fraction of results that counts as good.

    Raises
    ------
    ImportError
        When HyperOpt is not installed: ``pip install raycompat[tune-hyperopt]``.

    Notes
    -----
    Ray source: ``ray.tune.search.hyperopt.HyperOptSearch``, 2.60.0. J. Bergstra and others, "Algorithms
    for Hyper-Parameter Optimization", NIPS 2011.
    """

    def __init__(
        self,
        space: Space | None = None,
        metric: str | None = None,
        mode: str | None = None,
        points_to_evaluate: list[Config] | None = None,
        n_initial_points: int = 20,
        random_state_seed: int | None = None,
        gamma: float = 0.25,
    ) -> None:
        hyperopt = require("hyperopt", "HyperOptSearch")
        super().__init__(metric=metric, mode=mode)
        self._suggest = functools.partial(
            hyperopt.tpe.suggest, n_startup_jobs=n_initial_points, gamma=gamma
        )
        self._points = copy.deepcopy(points_to_evaluate or [])
        self._random = np.random.RandomState(random_state_seed)
        self._live: dict[str, dict[str, Any]] = {}
        self._domain: object = None
        self._space: Space | None = None
        if space:
            self._start(self.convert_search_space(space))

    def _start(self, space: Space) -> None:
        hyperopt = require("hyperopt", "HyperOptSearch")
        if self._metric is None and self._mode:
            self._metric = DEFAULT_METRIC
        self._space = space
        self._domain = hyperopt.Domain(lambda config: config, space)
        self._trials = hyperopt.Trials()
        if self._points:
            points = [_with_indices(point, space) for point in self._points]
            self._trials = require("hyperopt.fmin", "HyperOptSearch").generate_trials_to_calculate(
                points
            )
            self._trials.refresh()
        self._queued = list(self._trials.trials)

    def set_search_properties(
        self, metric: str | None, mode: str | None, config: Config, **spec: object
    ) -> bool:
        if self._domain is not None:
            return False
        self._metric, self._mode = metric or self._metric, mode or self._mode
        self._start(self.convert_search_space(config))
        return True

    def suggest(self, trial_id: str) -> Config | None:
        require_space(self, self._space)
        hyperopt = require("hyperopt", "HyperOptSearch")
        document = self._queued.pop(0) if self._queued else self._new_document()
        self._live[trial_id] = document
        chosen = hyperopt.base.spec_from_misc(document["misc"])
        config = hyperopt.space_eval(self._space, chosen)
        return {name: _plain(value) for name, value in config.items()}

    def _new_document(self) -> dict[str, Any]:
        ids = self._trials.new_trial_ids(1)
        self._trials.refresh()
        seed = int(self._random.randint(2**31 - 1))
        documents = self._suggest(ids, self._domain, self._trials, seed)
        self._trials.insert_trial_docs(documents)
        self._trials.refresh()
        number = documents[0]["tid"]
        found: dict[str, object] = next(t for t in self._trials.trials if t["tid"] == number)
        return found

    def on_trial_complete(
        self, trial_id: str, result: Metrics | None = None, error: bool = False
    ) -> None:
        document = self._live.pop(trial_id, None)
        if document is None:
            return
        base = require("hyperopt", "HyperOptSearch").base
        value = (result or {}).get(self.metric)
        if error or value is None or value != value:
            document["state"] = base.JOB_STATE_ERROR
            document["misc"]["error"] = ("TuneError", f"no score: {value!r}")
        else:
            document["state"] = base.JOB_STATE_DONE
            loss = -value if self.mode == "max" else value
            document["result"] = {"loss": float(loss), "status": "ok"}
        self._trials.refresh()

    @staticmethod
    def convert_search_space(spec: Space, prefix: str = "") -> Space:
        """Return Tune's search space as HyperOpt's expressions.

        Raises
        ------
        ValueError
            When HyperOpt has no such distribution, or a parameter is a grid.
        """
        spec = copy.deepcopy(spec)
        _, domains, grids = parse_spec_vars(spec)
        refuse_grid(grids, "HyperOpt")
        for path, domain in domains:
            name = path_name((prefix, *path) if prefix else path)
            assign_value(spec, path, _expression(name, domain))
        return spec


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value


def _with_indices(point: Config, space: Space) -> Config:
    """Return a point with categories by their position, as HyperOpt keeps them."""
    changed = dict(point)
    for name, value in point.items():
        expression = space.get(name)
        if getattr(expression, "name", None) == "switch":
            categories = [_literal(each) for each in expression.pos_args[1:]]  # type: ignore[union-attr]
            if value not in categories and _is_position(value, categories):
                forms.used("ray.tune.search.hyperopt.HyperOptSearch with positions of choices")
                continue
            if value not in categories:
                raise ValueError(
                    f"{name}={value!r} in points_to_evaluate: expected one of {categories}."
                )
            changed[name] = categories.index(value)
        elif isinstance(value, dict) and isinstance(expression, dict):
            changed[name] = _with_indices(value, expression)
    return changed


def _is_position(value: object, categories: list[object]) -> bool:
    """Return whether a value is the position of a category, as HyperOpt itself has it."""
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < len(categories)


def _literal(expression: object) -> Any:
    return getattr(expression, "obj", None)


def _expression(name: str, domain: Domain) -> Any:
    """Return the expression of HyperOpt that draws the same values as the domain."""
    sampler, step = without_step(domain.get_sampler())
    known = isinstance(sampler, Uniform | LogUniform | Normal)
    if isinstance(domain, Float) and known:
        return _float(name, domain, sampler, step)
    if isinstance(domain, Integer) and known:
        return _integer(name, domain, sampler, step)
    if isinstance(domain, Categorical) and known:
        hp = require("hyperopt", "HyperOptSearch").hp
        return hp.choice(
            name, [_category(name, i, each) for i, each in enumerate(domain.categories)]
        )
    raise ValueError(
        f"HyperOpt has no distribution for the parameter {name!r}, {type(domain).__name__}"
        f"{domain.domain_str}: use uniform, loguniform, randn, randint, lograndint or choice."
    )


def _float(name: str, domain: Float, sampler: object, step: float | None) -> Any:
    hp = require("hyperopt", "HyperOptSearch").hp
    last = [step] if step else []
    if isinstance(sampler, Normal):
        return (hp.qnormal if step else hp.normal)(name, sampler.mean, sampler.sd, *last)
    if isinstance(sampler, LogUniform):
        draw = hp.qloguniform if step else hp.loguniform
        return draw(name, math.log(domain.lower), math.log(domain.upper), *last)
    return (hp.quniform if step else hp.uniform)(name, domain.lower, domain.upper, *last)


def _integer(name: str, domain: Integer, sampler: object, step: float | None) -> Any:
    hyperopt = require("hyperopt", "HyperOptSearch")
    hp, whole = hyperopt.hp, hyperopt.pyll.scope.int
    upper = domain.upper if step else domain.upper - 1
    if isinstance(sampler, LogUniform):
        drawn = hp.qloguniform(name, math.log(domain.lower), math.log(upper), step or 1)
        return whole(drawn)
    if step:
        return whole(hp.quniform(name, domain.lower, upper, step))
    return hp.uniformint(name, domain.lower, upper)


def _category(name: str, index: int, category: object) -> Any:
    """Return a value of a choice; it can be a search space again."""
    if isinstance(category, Domain):
        return _expression(f"{name}/{index}", category)
    if isinstance(category, dict):
        return HyperOptSearch.convert_search_space(category, prefix=f"{name}/{index}")
    return category
