"""`BayesOptSearch`: the package bayesian-optimization suggests the configs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from raycompat._old_forms.packages import require
from raycompat._old_forms.tune import searchers
from raycompat.tune.search.library import LibrarySearcher, unknown_domain
from raycompat.tune.search.sample import Domain, Float, Uniform

if TYPE_CHECKING:
    from raycompat.tune.analysis.experiment_analysis import ExperimentAnalysis
    from raycompat.tune.search.library import Handle
    from raycompat.tune.trainable.nested import Config, Space

__all__ = ["BayesOptSearch"]


@searchers.takes_old_options("ray.tune.search.bayesopt.BayesOptSearch")
class BayesOptSearch(LibrarySearcher):
    """Let a Gaussian process suggest configs, over the package bayesian-optimization.

    Parameters
    ----------
    space : dict, optional
        Bounds, such as ``{"lr": (0.01, 0.1)}``, or uniform domains of Tune. By default the
        ``param_space`` of the Tuner.
    metric : str, optional
    mode : {"min", "max"}, optional
    points_to_evaluate : list of dict, optional
        Configs that come first.
    utility_kwargs : dict, optional
        Arguments of the acquisition function: ``kind`` ("ucb", "ei" or "poi"), ``kappa``, ``xi``.
    random_state : int, default 42
        Seeds the search.
    random_search_steps : int, default 10
        How many random points come first.
    verbose, patience, skip_duplicate, analysis : optional
        `skip_duplicate` and `patience`: a config that was suggested before is not suggested again, but
        after `patience` times in a row the search ends. An `analysis` tells the results of another
        experiment.

    Raises
    ------
    ImportError
        When the package is not installed: ``pip install 'bayesian-optimization>=2'``.
    ValueError
        When a parameter is not a uniform float.

    Notes
    -----
    Ray source: ``ray.tune.search.bayesopt.BayesOptSearch``, 2.60.0.
    """

    library = "bayesian-optimization"

    def __init__(
        self,
        space: Space | None = None,
        metric: str | None = None,
        mode: str | None = None,
        points_to_evaluate: list[Config] | None = None,
        utility_kwargs: dict[str, Any] | None = None,
        random_state: int = 42,
        random_search_steps: int = 10,
        verbose: int = 0,
        patience: int = 5,
        skip_duplicate: bool = True,
        analysis: ExperimentAnalysis | None = None,
    ) -> None:
        require("bayes_opt", "BayesOptSearch")
        if patience <= 0:
            raise ValueError(f"patience={patience!r}: expected an integer above 0.")
        self._utility = dict(utility_kwargs or {})
        self._random = np.random.RandomState(random_state)
        self._seed, self._left = random_state, random_search_steps
        self._patience, self._skips = patience, skip_duplicate
        self._seen: set[tuple[tuple[str, float], ...]] = set()
        self._analysis = analysis
        super().__init__(space, metric, mode, points_to_evaluate)

    def start(self, domains: dict[str, Domain]) -> None:
        package = require("bayes_opt", "BayesOptSearch")
        if not hasattr(package, "acquisition"):
            raise ImportError(
                "BayesOptSearch needs bayesian-optimization 2 or later, and an older one is installed: "
                "pip install 'bayesian-optimization>=2'."
            )
        bounds = {}
        for name, domain in domains.items():
            if not isinstance(domain, Float) or not isinstance(domain.get_sampler(), Uniform):
                raise unknown_domain(self.library, name, domain, "uniform")
            bounds[name] = (domain.lower, domain.upper)
        self._bounds = bounds
        self._optimizer = package.BayesianOptimization(
            f=None,
            pbounds=bounds,
            acquisition_function=self._acquisition(package),
            random_state=self._seed,
            verbose=0,
            allow_duplicate_points=True,
        )
        if self._analysis is not None:
            self._learn(self._analysis)

    def _acquisition(self, package: Any) -> Any:
        kind = self._utility.get("kind", "ucb")
        kappa, xi = self._utility.get("kappa", 2.576), self._utility.get("xi", 0.0)
        made = {
            "ucb": lambda: package.acquisition.UpperConfidenceBound(kappa=kappa),
            "ei": lambda: package.acquisition.ExpectedImprovement(xi=xi),
            "poi": lambda: package.acquisition.ProbabilityOfImprovement(xi=xi),
        }
        if kind not in made:
            raise ValueError(f"utility_kwargs has kind={kind!r}: expected one of {sorted(made)}.")
        return made[kind]()

    def _learn(self, analysis: ExperimentAnalysis) -> None:
        for trial in analysis.trials:
            value = trial.last_result.get(self.metric)
            if value is not None:
                self.tell({name: trial.config[name] for name in self._bounds}, value)

    def _take(self, space: Space) -> None:
        from raycompat.tune.search.sample import uniform

        super()._take(
            {
                name: uniform(*value) if isinstance(value, tuple | list) else value
                for name, value in space.items()
            }
        )

    def ask(self, point: Config | None) -> tuple[Handle, Config] | None:
        if point is not None:
            return point, point
        for _ in range(self._patience):
            found = self._next()
            key = tuple(sorted(found.items()))
            if not self._skips or key not in self._seen:
                self._seen.add(key)
                return found, found
        return None

    def _next(self) -> dict[str, float]:
        if self._left > 0:
            self._left -= 1
            return {name: float(self._random.uniform(*b)) for name, b in self._bounds.items()}
        return {name: float(value) for name, value in self._optimizer.suggest().items()}

    def tell(self, handle: Handle, value: float) -> None:
        self._optimizer.register(params=handle, target=-self.sign * value)
