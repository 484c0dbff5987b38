"""`ZOOptSearch`: ZOOpt suggests the configs, by asynchronous sequential RACOS."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from raycompat._old_forms.packages import require
from raycompat.tune.search.library import LibrarySearcher, unknown_domain
from raycompat.tune.search.sample import (
    Categorical,
    Domain,
    Float,
    Integer,
    Uniform,
    without_step,
)

if TYPE_CHECKING:
    from raycompat.tune.search.library import Handle
    from raycompat.tune.trainable.nested import Config, Space

__all__ = ["ZOOptSearch"]

#: The precision of a float that has no step.
_PRECISION = 1e-12


class ZOOptSearch(LibrarySearcher):
    """Let ZOOpt suggest configs.

    Parameters
    ----------
    algo : {"asracos", "sracos"}, default "asracos"
        The algorithm.
    budget : int
        Number of trials.
    dim_dict : dict, optional
        ZOOpt's description of the space, or one of Tune. By default the ``param_space`` of the Tuner.
    metric : str, optional
    mode : {"min", "max"}, optional
    points_to_evaluate : list of dict, optional
        Configs that come first.
    parallel_num : int, default 1
        Number of trials at a time.
    **kwargs
        Further arguments of ``zoopt.Parameter``.

    Raises
    ------
    ImportError
        When ZOOpt is not installed: ``pip install zoopt``.
    ValueError
        When ZOOpt has no such distribution, or `budget` is missing.

    Notes
    -----
    Ray source: ``ray.tune.search.zoopt.ZOOptSearch``, 2.60.0.
    """

    library = "ZOOpt"

    def __init__(
        self,
        algo: str = "asracos",
        budget: int | None = None,
        dim_dict: Space | None = None,
        metric: str | None = None,
        mode: str | None = None,
        points_to_evaluate: list[Config] | None = None,
        parallel_num: int = 1,
        **kwargs: object,
    ) -> None:
        require("zoopt", "ZOOptSearch")
        if algo.lower() not in ("asracos", "sracos"):
            raise ValueError(f"algo={algo!r}: expected 'asracos' or 'sracos'.")
        if budget is None:
            raise ValueError("budget=None: expected the number of trials.")
        self._budget, self._parallel, self._kwargs = budget, parallel_num, kwargs
        own = dim_dict is not None and all(isinstance(d, tuple) for d in dim_dict.values())
        super().__init__(None if own else dim_dict, metric, mode, points_to_evaluate)
        if own:
            self._space, self._paths = {}, {name: (name,) for name in dim_dict or ()}
            self._begin(dict(dim_dict or {}))

    def start(self, domains: dict[str, Domain]) -> None:
        self._begin({name: _dimension(name, domain) for name, domain in domains.items()})

    def _begin(self, dimensions: Config) -> None:
        package = require("zoopt", "ZOOptSearch")
        algorithm = require("zoopt.algos.opt_algorithms.racos.sracos", "ZOOptSearch").SRacosTune
        self._names = list(dimensions)
        self._algorithm = algorithm(
            dimension=package.Dimension2(list(dimensions.values())),
            parameter=package.Parameter(budget=self._budget, **self._kwargs),
            parallel_num=self._parallel,
        )

    def ask(self, point: Config | None) -> tuple[Handle, Config] | None:
        if point is not None:
            solution = require("zoopt", "ZOOptSearch").Solution()
            solution.set_x([point[name] for name in self._names])
            return None, point
        solution = self._algorithm.suggest()
        if solution is None or isinstance(solution, str):  # the budget is spent
            return None
        return solution, dict(zip(self._names, solution.get_x(), strict=True))

    def tell(self, handle: Handle, value: float) -> None:
        self._algorithm.complete(handle, self.sign * value)


def _dimension(name: str, domain: Domain) -> Any:
    """Return ZOOpt's description of a domain: kind, range, and precision or order."""
    kinds = require("zoopt", "ZOOptSearch").ValueType
    sampler, step = without_step(domain.get_sampler())
    if isinstance(domain, Categorical):
        return (kinds.GRID, domain.categories, False, False)
    if isinstance(sampler, Uniform) and isinstance(domain, Float):
        return (kinds.CONTINUOUS, [domain.lower, domain.upper], step or _PRECISION)
    if isinstance(sampler, Uniform) and isinstance(domain, Integer):
        return (kinds.DISCRETE, [domain.lower, domain.upper - 1], True)
    raise unknown_domain("ZOOpt", name, domain, "uniform, randint or choice")
