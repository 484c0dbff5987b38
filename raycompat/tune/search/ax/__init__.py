"""`AxSearch`: Ax suggests the configs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from raycompat._old_forms.packages import require
from raycompat._old_forms.tune import searchers
from raycompat.tune.search.library import LibrarySearcher, numbers_of
from raycompat.tune.search.sample import Categorical, Domain

if TYPE_CHECKING:
    from raycompat.tune.search.library import Handle
    from raycompat.tune.trainable.nested import Config, Metrics

__all__ = ["AxSearch"]


@searchers.takes_old_options("ray.tune.search.ax.AxSearch")
class AxSearch(LibrarySearcher):
    """Let Ax suggest configs.

    Parameters
    ----------
    space : list of dict or dict, optional
        Ax's parameters, or a space of Tune. By default the ``param_space`` of the Tuner.
    metric : str, optional
    mode : {"min", "max"}, optional
    points_to_evaluate : list of dict, optional
        Configs that come first.
    parameter_constraints, outcome_constraints : list of str, optional
        As in ``AxClient.create_experiment``.
    ax_client : AxClient, optional
        A client that has its own experiment.
    **ax_kwargs
        Further arguments of ``AxClient``.

    Raises
    ------
    ImportError
        When Ax is not installed: ``pip install ax-platform``.
    ValueError
        When Ax has no such distribution.

    Notes
    -----
    Ray source: ``ray.tune.search.ax.AxSearch``, 2.60.0.
    """

    library = "Ax"

    def __init__(
        self,
        space: object = None,
        metric: str | None = None,
        mode: str | None = None,
        points_to_evaluate: list[Config] | None = None,
        parameter_constraints: list[str] | None = None,
        outcome_constraints: list[str] | None = None,
        ax_client: object = None,
        **ax_kwargs: object,
    ) -> None:
        service = require("ax.service.ax_client", "AxSearch")
        self._constraints = (parameter_constraints, outcome_constraints)
        self._client: Any = ax_client
        if self._client is None:
            settings = {"verbose_logging": False, "enforce_sequential_optimization": False}
            self._client = service.AxClient(**{**settings, **ax_kwargs})
        self._is_begun = ax_client is not None
        super().__init__(
            space if isinstance(space, dict) else None, metric, mode, points_to_evaluate
        )
        if isinstance(space, list):
            self._space, self._paths = {}, {each["name"]: (each["name"],) for each in space}
            self._given: list[dict[str, Any]] | None = space
        else:
            self._given = None
        if self._is_begun:
            names = list(self._client.experiment.parameters)
            self._space, self._paths = {}, {name: (name,) for name in names}

    def set_search_properties(
        self, metric: str | None, mode: str | None, config: Config, **spec: object
    ) -> bool:
        if self._given is not None and not config:
            self._metric, self._mode = metric or self._metric, mode or self._mode
            return True
        return super().set_search_properties(metric, mode, config, **spec)

    def start(self, domains: dict[str, Domain]) -> None:
        self._given = [_parameter(name, domain) for name, domain in domains.items()]

    def _begin(self) -> None:
        """Create Ax's experiment, when the metric is known."""
        properties = require("ax.service.ax_client", "AxSearch").ObjectiveProperties
        on_parameters, on_outcomes = self._constraints
        self._client.create_experiment(
            parameters=self._given,
            objectives={self.metric: properties(minimize=self.mode != "max")},
            parameter_constraints=on_parameters,
            outcome_constraints=on_outcomes,
        )
        self._is_begun = True

    def ask(self, point: Config | None) -> tuple[Handle, Config] | None:
        if not self._is_begun:
            self._begin()
        if point is not None:
            values, index = self._client.attach_trial(point)
        else:
            values, index = self._client.get_next_trial()
        return index, values

    def on_trial_complete(
        self, trial_id: str, result: Metrics | None = None, error: bool = False
    ) -> None:
        index = self._asked.pop(trial_id, None)
        if index is None:
            return
        names = [self.metric, *self._outcomes()]
        found = result or {}
        if error or any(found.get(name) is None for name in names):
            self._client.log_trial_failure(index)
            return
        data = {name: (float(found[name]), 0.0) for name in names}
        self._client.complete_trial(trial_index=index, raw_data=data)

    def _outcomes(self) -> list[str]:
        """Return the metrics that constraints are on."""
        return [constraint.split()[0] for constraint in self._constraints[1] or ()]


def _parameter(name: str, domain: Domain) -> dict[str, Any]:
    """Return Ax's description of a domain."""
    if isinstance(domain, Categorical):
        kind = {"type": "choice", "values": list(domain.categories), "is_ordered": False}
        return {"name": name, **kind, "sort_values": False}
    found = numbers_of("Ax", name, domain)
    return {
        "name": name,
        "type": "range",
        "bounds": [found.lower, found.upper],
        "value_type": "int" if found.is_int else "float",
        "log_scale": found.is_log,
    }
