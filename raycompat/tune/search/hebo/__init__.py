"""`HEBOSearch`: HEBO suggests the configs, by heteroscedastic evolutionary Bayesian optimization."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from raycompat._old_forms.packages import require
from raycompat.tune.search.library import LibrarySearcher, numbers_of
from raycompat.tune.search.sample import Categorical, Domain

if TYPE_CHECKING:
    from raycompat.tune.search.library import Handle
    from raycompat.tune.trainable.nested import Config

__all__ = ["HEBOSearch"]


class HEBOSearch(LibrarySearcher):
    """Let HEBO suggest configs, in batches.

    Parameters
    ----------
    space : DesignSpace or dict, optional
        HEBO's description of the space, or one of Tune. By default the ``param_space`` of the Tuner.
    metric : str, optional
    mode : {"min", "max"}, optional
    points_to_evaluate : list of dict, optional
        Configs that come first.
    evaluated_rewards : list of float, optional
        Their values, where they are known.
    random_state_seed : int, optional
        Seeds HEBO, and numpy's and PyTorch's global generators, which it draws from.
    max_concurrent : int, default 8
        The size of a batch. The next one is suggested when all trials of the last have ended.
    **kwargs
        Further arguments of ``hebo.optimizers.hebo.HEBO``.

    Raises
    ------
    ImportError
        When HEBO is not installed: ``pip install HEBO``.
    ValueError
        When HEBO has no such distribution.

    Notes
    -----
    Ray source: ``ray.tune.search.hebo.HEBOSearch``, 2.60.0. Cowen-Rivers and others, "HEBO: Pushing the
    limits of sample-efficient hyperparameter optimisation" (arXiv 2012.03826).
    """

    library = "HEBO"

    def __init__(
        self,
        space: Any = None,
        metric: str | None = None,
        mode: str | None = None,
        points_to_evaluate: list[Config] | None = None,
        evaluated_rewards: list[float] | None = None,
        random_state_seed: int | None = None,
        max_concurrent: int = 8,
        **kwargs: Any,
    ) -> None:
        require("hebo", "HEBOSearch")
        if not isinstance(max_concurrent, int) or max_concurrent < 1:
            raise ValueError(
                f"max_concurrent={max_concurrent!r}: expected an integer of 1 or more."
            )
        self._seed, self._size, self._kwargs = random_state_seed, max_concurrent, kwargs
        #: The rows of the batch that were not given to a trial yet.
        self._batch: list[Any] = []
        own = space is not None and not isinstance(space, dict)
        super().__init__(
            None if own else space, metric, mode, points_to_evaluate, evaluated_rewards
        )
        if own:
            self._space, self._paths = {}, {name: (name,) for name in space.para_names}
            self._begin(space)

    def start(self, domains: dict[str, Domain]) -> None:
        spaces = require("hebo.design_space.design_space", "HEBOSearch")
        parameters = [_parameter(name, domain) for name, domain in domains.items()]
        self._begin(spaces.DesignSpace().parse(parameters))

    def _begin(self, space: object) -> None:
        if self._seed is not None:
            np.random.seed(self._seed)
            require("torch", "HEBOSearch").manual_seed(self._seed)
        hebo = require("hebo.optimizers.hebo", "HEBOSearch").HEBO
        self._optimizer = hebo(space, **{"scramble_seed": self._seed, **self._kwargs})

    def ask(self, point: Config | None) -> tuple[Handle, Config] | None:
        if point is not None:
            return self._frame(point), point
        if not self._batch:
            if self.num_running():
                return None
            suggested = self._optimizer.suggest(n_suggestions=self._size)
            self._batch = suggested.to_dict("records")
        values = {name: _python(value) for name, value in self._batch.pop(0).items()}
        return self._frame(values), values

    @staticmethod
    def _frame(values: dict[str, object]) -> Any:
        return require("pandas", "HEBOSearch").DataFrame([values])

    def tell(self, handle: Handle, value: float) -> None:
        self._optimizer.observe(handle, np.array([[self.sign * value]]))


def _python(value: object) -> Any:
    return value.item() if isinstance(value, np.generic) else value


def _parameter(name: str, domain: Domain) -> dict[str, Any]:
    """Return HEBO's description of a domain."""
    if isinstance(domain, Categorical):
        return {"name": name, "type": "cat", "categories": list(domain.categories)}
    found = numbers_of("HEBO", name, domain)
    kind = ("pow" if found.is_log else "num", "pow_int" if found.is_log else "int")[found.is_int]
    return {"name": name, "type": kind, "lb": found.lower, "ub": found.upper}
