"""`BlendSearch` and `CFO`: FLAML suggests the configs, cheap ones first."""

from __future__ import annotations

import itertools
from typing import Any

from raycompat._old_forms.packages import require
from raycompat.tune.search.library import LibrarySearcher, numbers_of
from raycompat.tune.search.sample import Categorical, Domain
from raycompat.tune.trainable.nested import flatten_dict, unflatten_dict

__all__ = ["CFO", "BlendSearch"]

#: What FLAML takes as if it were a search space.
_SETTINGS = ("time_budget_s", "num_samples")


class BlendSearch(LibrarySearcher):
    """Let FLAML's BlendSearch suggest configs: local searches from points of a global one.

    Parameters
    ----------
    metric : str, optional
    mode : {"min", "max"}, optional
    space : dict, optional
        A space of Tune. By default the experiment's.
    low_cost_partial_config : dict, optional
        Values, by flat names, with which a trial is cheap.
    points_to_evaluate : list of dict, optional
        Configs that come first.
    evaluated_rewards : list of float, optional
        Their values, where they are known.
    time_budget_s : float, optional
        Seconds of the whole search.
    **options
        Further arguments of ``flaml.BlendSearch``.

    Raises
    ------
    ImportError
        When FLAML is not installed: ``pip install flaml``.
    ValueError
        When FLAML has no such distribution.

    Notes
    -----
    Ray source: ``ray.tune.search.flaml.BlendSearch``, 2.10.0. No known difference.
    """

    library = "FLAML"

    def __init__(
        self,
        metric: str | None = None,
        mode: str | None = None,
        space: dict[str, Any] | None = None,
        low_cost_partial_config: dict[str, Any] | None = None,
        points_to_evaluate: list[dict[str, Any]] | None = None,
        evaluated_rewards: list[float] | None = None,
        time_budget_s: float | None = None,
        **options: Any,
    ) -> None:
        require("flaml", type(self).__name__)
        self._options = {
            **options,
            "low_cost_partial_config": low_cost_partial_config,
            "time_budget_s": time_budget_s,
        }
        self._given, self._given_rewards = list(points_to_evaluate or []), evaluated_rewards
        self._numbers = itertools.count()
        super().__init__(space, metric, mode)

    def set_search_properties(
        self,
        metric: str | None = None,
        mode: str | None = None,
        config: dict[str, Any] | None = None,
        **spec: Any,
    ) -> bool:
        """Take metric, mode and search space of the experiment, or FLAML's ``time_budget_s``.

        Returns
        -------
        bool
            False when the searcher has its own space.
        """
        space = config or {}
        settings = {name: space[name] for name in _SETTINGS if name in space}
        if not settings:
            return super().set_search_properties(metric, mode, space, **spec)
        self._options.update(settings)
        if self._space is not None:
            self._search.set_search_properties(None, None, settings)
        return True

    def start(self, domains: dict[str, Domain]) -> None:
        space = {name: _domain(name, domain) for name, domain in domains.items()}
        options = {name: value for name, value in self._options.items() if value is not None}
        self._search = getattr(require("flaml", type(self).__name__), type(self).__name__)(
            metric=self.metric,
            mode=self.mode,
            space=unflatten_dict(space),
            points_to_evaluate=[unflatten_dict(self._flat(each)) for each in self._given] or None,
            evaluated_rewards=self._given_rewards,
            **options,
        )

    def ask(self, point: dict[str, Any] | None) -> tuple[Any, dict[str, Any]] | None:
        number = str(next(self._numbers))
        suggested = self._search.suggest(number)
        if suggested is None:
            return None
        found = flatten_dict(suggested)
        values = {name: found[name] for name in self._paths}
        return (number, values), values

    def on_trial_result(self, trial_id: str, result: dict[str, Any]) -> None:
        if trial_id in self._asked and result.get(self.metric) is not None:
            number, values = self._asked[trial_id]
            self._search.on_trial_result(number, _with_config(result, values))

    def on_trial_complete(
        self, trial_id: str, result: dict[str, Any] | None = None, error: bool = False
    ) -> None:
        handle = self._asked.pop(trial_id, None)
        if handle is not None:
            number, values = handle
            is_known = bool(result) and (result or {}).get(self.metric) is not None
            known = _with_config(result or {}, values) if is_known else None
            self._search.on_trial_complete(number, known, error or known is None)


class CFO(BlendSearch):
    """Let FLAML's CFO suggest configs: local searches from cheap points; see `BlendSearch`.

    Notes
    -----
    Ray source: ``ray.tune.search.flaml.CFO``, 2.10.0. No known difference.
    """


def _with_config(result: dict[str, Any], values: dict[str, Any]) -> dict[str, Any]:
    """Return a result as FLAML reads it: with the values that it had suggested."""
    others = {name: value for name, value in result.items() if not name.startswith("config/")}
    return {**others, **{f"config/{name}": value for name, value in values.items()}}


def _domain(name: str, domain: Domain) -> Any:
    """Return FLAML's description of a domain."""
    tune = require("flaml.tune", "BlendSearch")
    if isinstance(domain, Categorical):
        return tune.choice(list(domain.categories))
    found = numbers_of(BlendSearch.library, name, domain, takes_steps=True)
    kind = ("log" if found.is_log else "") + ("randint" if found.is_int else "uniform")
    bounds = found.lower, found.upper + found.is_int  # FLAML's integers end before the upper one
    if found.step:
        return getattr(tune, f"q{kind}")(*bounds, found.step)
    return getattr(tune, kind)(*bounds)
