"""`TuneBOHB`: hpbandster's model of good and bad configs suggests the next ones."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from raycompat._old_forms.packages import require
from raycompat._surface.modules import names_of
from raycompat.tune.search.library import LibrarySearcher, unknown_domain
from raycompat.tune.search.sample import (
    Categorical,
    Domain,
    Float,
    Integer,
    LogUniform,
    Normal,
    without_step,
)

if TYPE_CHECKING:
    from raycompat.tune.search.library import Handle
    from raycompat.tune.trainable.nested import Config, Metrics

__all__ = ["TuneBOHB"]


class TuneBOHB(LibrarySearcher):
    """Let BOHB suggest configs; its scheduler is `HyperBandForBOHB`.

    Parameters
    ----------
    space : ConfigurationSpace or dict, optional
        ConfigSpace's description of the space, or one of Tune. By default the ``param_space`` of the
        Tuner.
    bohb_config : dict, optional
        Arguments of hpbandster's model, such as ``min_points_in_model``.
    max_concurrent : int, default 10
        Number of trials at a time; paused ones do not count.
    metric : str, optional
    mode : {"min", "max"}, optional
    points_to_evaluate : list of dict, optional
        Configs that come first.
    seed : int, optional
        Seeds the space.

    Raises
    ------
    ImportError
        When a package is not installed: ``pip install hpbandster ConfigSpace``.
    ValueError
        When ConfigSpace has no such distribution.

    Notes
    -----
    Ray source: ``ray.tune.search.bohb.TuneBOHB``, 2.60.0. Falkner and others, "BOHB: Robust and
    efficient hyperparameter optimization at scale" (arXiv 1807.01774).
    """

    library = "ConfigSpace"

    def __init__(
        self,
        space: Any = None,
        bohb_config: Config | None = None,
        max_concurrent: int = 10,
        metric: str | None = None,
        mode: str | None = None,
        points_to_evaluate: list[Config] | None = None,
        seed: int | None = None,
    ) -> None:
        require(_MODEL, "TuneBOHB")
        require("ConfigSpace", "TuneBOHB")
        self._config, self._seed = dict(bohb_config or {}), seed
        self._paused: set[str] = set()
        #: The time until which each trial was last learned from.
        self._budgets: dict[str, float] = {}
        own = space is not None and not isinstance(space, dict)
        super().__init__(
            None if own else space, metric, mode, points_to_evaluate, None, max_concurrent
        )
        if own:
            self._space, self._paths = {}, {name: (name,) for name in space}
            self._begin(space)

    def set_max_concurrency(self, max_concurrent: int) -> bool:
        """Limit the number of trials that run; paused ones do not count."""
        self._limit = max_concurrent
        return True

    def start(self, domains: dict[str, Domain]) -> None:
        space = require("ConfigSpace", "TuneBOHB").ConfigurationSpace()
        for name, domain in domains.items():
            space.add(_parameter(name, domain))
        self._begin(space)

    def _begin(self, space: Any) -> None:
        if self._seed is not None:
            space.seed(self._seed)
        self._model = require(_MODEL, "TuneBOHB").BOHB(space, **self._config)

    def num_running(self) -> int:
        return len(self._asked.keys() - self._paused)

    def ask(self, point: Config | None) -> tuple[Handle, Config] | None:
        values = self._model.get_config(None)[0] if point is None else point
        found = {
            name: value.item() if isinstance(value, np.generic) else value
            for name, value in dict(values).items()
        }
        return found, found

    def on_trial_result(self, trial_id: str, result: Metrics) -> None:
        """Learn from a trial that reached the limit of its bracket, which the scheduler says."""
        info = result.get(BRACKET, {})
        if info.get("paused"):
            self._paused.add(trial_id)
        else:
            self._paused.discard(trial_id)
        self._learn(trial_id, result)

    def on_trial_complete(
        self, trial_id: str, result: Metrics | None = None, error: bool = False
    ) -> None:
        if result is not None and not error:
            self._learn(trial_id, result)
        self._paused.discard(trial_id)
        self._budgets.pop(trial_id, None)
        self._asked.pop(trial_id, None)

    def _learn(self, trial_id: str, result: Metrics) -> None:
        config, value = self._asked.get(trial_id), result.get(self.metric)
        budget = result.get(BRACKET, {}).get("budget")
        if config is None or value is None or budget is None:
            return
        if self._budgets.get(trial_id) != budget:
            self._budgets[trial_id] = budget
            self._model.new_result(_Job({"loss": self.sign * float(value)}, budget, config))


_MODEL = "hpbandster.optimizers.config_generators.bohb"

#: The key of a result with what the scheduler did: ``budget``, the limit of the bracket that the
#: trial reached, and whether the trial is ``paused`` at it.
BRACKET = "hyperband_info"


@dataclass
class _Job:
    """A result in the form in which hpbandster takes it."""

    result: dict[str, float]
    budget: float
    config: Config
    exception: object = None

    @property
    def kwargs(self) -> dict[str, Any]:
        """What the job was given."""
        return {"budget": self.budget, "config": self.config}


def _parameter(name: str, domain: Domain) -> Any:
    """Return ConfigSpace's description of a domain."""
    space = require("ConfigSpace", "TuneBOHB")
    sampler, step = without_step(domain.get_sampler())
    is_log = isinstance(sampler, LogUniform)
    if isinstance(domain, Categorical):
        return space.CategoricalHyperparameter(name, list(domain.categories))
    if step or isinstance(sampler, Normal) or not isinstance(domain, Float | Integer):
        raise unknown_domain(
            "ConfigSpace", name, domain, "uniform, loguniform, randint, lograndint or choice"
        )
    if isinstance(domain, Integer):
        return space.UniformIntegerHyperparameter(name, domain.lower, domain.upper - 1, log=is_log)
    return space.UniformFloatHyperparameter(name, domain.lower, domain.upper, log=is_log)


#: Names of older Rays.
__getattr__ = names_of(__name__)
