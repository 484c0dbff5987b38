"""`SearchAlgorithm`: the interface from which the runner gets trials."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from raycompat.tune.experiment.experiment import Experiment
    from raycompat.tune.experiment.trial import Trial
    from raycompat.tune.trainable.nested import Config, Metrics


class SearchAlgorithm:
    """Makes the trials of experiments, one when asked.

    Examples
    --------
    >>> from raycompat.tune.search import BasicVariantGenerator, SearchAlgorithm
    >>> isinstance(BasicVariantGenerator(), SearchAlgorithm)
    True

    The runner uses one in these steps:

    >>> import tempfile
    >>> from raycompat import tune
    >>> def experiment():
    ...     return tune.Experiment(
    ...         "squares",
    ...         lambda config: {"cost": config["x"] ** 2},
    ...         config={"x": tune.grid_search([1, 2, 3])},
    ...         storage_path=tempfile.mkdtemp(),
    ...     )
    >>> search = BasicVariantGenerator()
    >>> search.set_search_properties("cost", "min", config={})
    True
    >>> search.add_configurations([experiment()])
    >>> search.total_samples
    3
    >>> first, second = search.next_trial(), search.next_trial()
    >>> first.config, second.config
    ({'x': 1}, {'x': 2})
    >>> search.on_trial_result(first.trial_id, {"cost": 1})
    >>> search.on_trial_complete(first.trial_id, {"cost": 1})

    In another process it goes on from the state:

    >>> restored = BasicVariantGenerator()
    >>> restored.add_configurations([experiment()])
    >>> restored.set_state(search.get_state())
    >>> restored.next_trial().config
    {'x': 3}
    >>> restored.next_trial(), restored.is_finished()
    (None, True)

    Notes
    -----
    Ray source: ``ray.tune.search.SearchAlgorithm``, 2.60.0. State is one picklable dict
    (`get_state`, `set_state`) that the experiment's folder keeps.
    """

    _finished = False

    @property
    def metric(self) -> str | None:
        return None

    @property
    def total_samples(self) -> int:
        """Maximum number of trials; 0 if unknown."""
        return 0

    def set_search_properties(
        self, metric: str | None, mode: str | None, config: Config, **spec: object
    ) -> bool:
        """Take metric, mode and search space of the experiment; False refuses them."""
        return True

    def add_configurations(
        self, experiments: Experiment | Mapping[str, object] | Sequence[object]
    ) -> None:
        """Set the experiments for which this makes trials."""
        raise NotImplementedError

    def next_trial(self) -> Trial | None:
        """Return the next trial, or None when there is none now."""
        raise NotImplementedError

    def on_trial_result(self, trial_id: str, result: Metrics) -> None:
        """Take note of a trial's result."""

    def on_trial_complete(
        self, trial_id: str, result: Metrics | None = None, error: bool = False
    ) -> None:
        """Take note of a trial's end."""

    def is_finished(self) -> bool:
        """Return whether every trial was created."""
        return self._finished

    def set_finished(self) -> None:
        self._finished = True

    def get_state(self) -> dict[str, Any]:
        """Return the state with which `set_state` continues in another process."""
        return {}

    def set_state(self, state: dict[str, Any]) -> None:
        """Continue from a state of `get_state`."""


def experiment_list(
    experiments: Experiment | Mapping[str, object] | Sequence[object],
) -> list[Experiment]:
    """Return experiments as a list: from one, a list, or a dict of names and specs of 2018."""
    from raycompat.tune.experiment.experiment import convert_to_experiment_list

    return convert_to_experiment_list(experiments)
