"""`SkOptSearch`: scikit-optimize suggests the configs."""

from __future__ import annotations

from typing import Any

import numpy as np

from raycompat._old_forms.packages import require
from raycompat._surface import forms
from raycompat.tune.search.library import LibrarySearcher, numbers_of
from raycompat.tune.search.sample import Categorical, Domain

__all__ = ["SkOptSearch"]


@forms.takes_old_options_in_constructor("ray.tune.search.skopt.SkOptSearch")
class SkOptSearch(LibrarySearcher):
    """Let scikit-optimize suggest configs.

    Parameters
    ----------
    optimizer : skopt.Optimizer, optional
        With its space; `space` is then the list of its parameters' names.
    space : dict or list of str, optional
        By name a pair of bounds or a list of values; or a space of Tune. By default the experiment's.
    metric : str, optional
    mode : {"min", "max"}, optional
    points_to_evaluate : list of dict, or of list, optional
        Configs that come first.
    evaluated_rewards : list of float, optional
        Their values, where they are known.
    convert_to_python : bool, default True
        Whether values are Python's numbers, not numpy's.
    max_concurrent : int, optional
        Number of trials at a time.

    Raises
    ------
    ImportError
        When it is not installed: ``pip install scikit-optimize``.
    ValueError
        When it has no such distribution.

    Notes
    -----
    Ray source: ``ray.tune.search.skopt.SkOptSearch``, 2.10.0. No known difference.
    """

    library = "scikit-optimize"

    def __init__(
        self,
        optimizer: Any = None,
        space: Any = None,
        metric: str | None = None,
        mode: str | None = None,
        points_to_evaluate: list[Any] | None = None,
        evaluated_rewards: list[float] | None = None,
        convert_to_python: bool = True,
        max_concurrent: int | None = None,
    ) -> None:
        require("skopt", "SkOptSearch")
        if optimizer is not None and not isinstance(space, list):
            raise ValueError(
                f"space={space!r}: expected the list of the names of the optimizer's parameters."
            )
        self._optimizer, self._converts = optimizer, convert_to_python
        is_tunes = isinstance(space, dict) and any(isinstance(v, Domain) for v in space.values())
        names = [] if is_tunes else list(space or [])
        super().__init__(
            space if is_tunes else None,
            metric,
            mode,
            points_to_evaluate,
            evaluated_rewards,
            max_concurrent,
        )
        if names:
            self._space, self._paths = {}, {name: (name,) for name in names}
            self._names = names
            if optimizer is None:
                self._begin(list(space.values()))

    def start(self, domains: dict[str, Domain]) -> None:
        self._names = list(domains)
        self._begin([_dimension(name, domain) for name, domain in domains.items()])

    def _begin(self, dimensions: list[Any]) -> None:
        self._optimizer = require("skopt", "SkOptSearch").Optimizer(dimensions)

    def ask(self, point: dict[str, Any] | None) -> tuple[Any, dict[str, Any]] | None:
        found = self._optimizer.ask() if point is None else [point[name] for name in self._names]
        values = [self._python(value) for value in found]
        return found, dict(zip(self._names, values, strict=True))

    def _flat(self, point: Any) -> dict[str, Any]:
        if isinstance(point, list | tuple):  # in the order of the parameters
            return dict(zip(self._names, point, strict=True))
        return super()._flat(point)

    def _python(self, value: Any) -> Any:
        return value.item() if self._converts and isinstance(value, np.generic) else value

    def tell(self, handle: Any, value: float) -> None:
        self._optimizer.tell(handle, self.sign * value)


def _dimension(name: str, domain: Domain) -> Any:
    """Return the dimension of scikit-optimize for a domain."""
    space = require("skopt.space", "SkOptSearch")
    if isinstance(domain, Categorical):
        return space.Categorical(list(domain.categories), name=name)
    found = numbers_of(SkOptSearch.library, name, domain)
    prior = "log-uniform" if found.is_log else "uniform"
    kind = space.Integer if found.is_int else space.Real
    return kind(found.lower, found.upper, prior=prior, name=name)
