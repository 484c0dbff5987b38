"""`SearchGenerator`: makes trials from the suggestions of a `Searcher`."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from raycompat.tune.error import TuneError
from raycompat.tune.search.repeater import Repeater, warn_of_remainder
from raycompat.tune.search.search_algorithm import SearchAlgorithm, experiment_list
from raycompat.tune.search.searcher import Searcher
from raycompat.tune.search.variant_generator import format_vars
from raycompat.tune.trainable.identifiers import new_trial_id
from raycompat.tune.trainable.nested import flatten_dict, merge_dicts, nested_paths

if TYPE_CHECKING:
    from raycompat.tune.experiment.experiment import Experiment
    from raycompat.tune.experiment.trial import Trial
    from raycompat.tune.trainable.nested import Config, Metrics


class SearchGenerator(SearchAlgorithm):
    """The search algorithm of an experiment that has the `Searcher` `searcher`.

    Examples
    --------
    >>> from raycompat import tune
    >>> from raycompat.tune.search import SearchGenerator
    >>> searcher = tune.create_searcher("hyperopt", metric="loss", mode="min")
    >>> search = SearchGenerator(searcher)
    >>> search.metric, search.total_samples
    ('loss', 0)
    >>> search.add_configurations(
    ...     tune.Experiment("learn", lambda config: None, num_samples=4)
    ... )
    >>> search.total_samples
    4
    >>> config = tune.TuneConfig(search_alg=search)
    """

    def __init__(self, searcher: Searcher) -> None:
        if not isinstance(searcher, Searcher):
            raise TypeError(f"{searcher!r}: expected an instance of Searcher.")
        self.searcher = searcher
        self._experiment: Any = None
        self._num_made = 0
        self._total_samples = 0

    @property
    def metric(self) -> Any:
        return self.searcher.metric

    @property
    def total_samples(self) -> int:
        return self._total_samples

    def set_search_properties(
        self, metric: str | None, mode: str | None, config: Config, **spec: object
    ) -> bool:
        return self.searcher.set_search_properties(metric, mode, config, **spec)

    def add_configurations(
        self, experiments: Experiment | Mapping[str, object] | Sequence[object]
    ) -> None:
        found = experiment_list(experiments)
        if self._experiment is not None or len(found) != 1:
            raise TuneError("A searcher serves one experiment: run them one after the other.")
        self._experiment = found[0]
        self._total_samples = self._experiment.spec.get("num_samples", 1)
        if isinstance(self.searcher, Repeater):
            warn_of_remainder(self.searcher, self._total_samples)

    def next_trial(self) -> Trial | None:
        if self.is_finished():
            return None
        trial_id = new_trial_id()
        suggested = self.searcher.suggest(trial_id)
        if isinstance(suggested, str) and suggested == Searcher.FINISHED:
            self.set_finished()
            return None
        if suggested is None:
            return None
        if not isinstance(suggested, dict):
            raise TypeError(
                f"{type(self.searcher).__name__}.suggest returned {suggested!r}: expected a dict, None "
                "or Searcher.FINISHED."
            )
        config = merge_dicts(self._experiment.spec.get("config", {}), copy.deepcopy(suggested))
        self._num_made += 1
        trial: Trial = self._experiment.make_trial(
            config,
            trial_id=trial_id,
            experiment_tag=f"{self._num_made}_{format_vars(nested_paths(config))}",
            evaluated_params=flatten_dict(suggested),
        )
        return trial

    def on_trial_result(self, trial_id: str, result: Metrics) -> None:
        self.searcher.on_trial_result(trial_id, result)

    def on_trial_complete(
        self, trial_id: str, result: Metrics | None = None, error: bool = False
    ) -> None:
        self.searcher.on_trial_complete(trial_id, result=result, error=error)

    def is_finished(self) -> bool:
        return self._finished or 0 <= self._total_samples <= self._num_made

    def get_state(self) -> dict[str, Any]:
        return {
            "searcher": self.searcher,
            "num_made": self._num_made,
            "finished": self._finished,
        }

    def set_state(self, state: dict[str, Any]) -> None:
        self.searcher = state["searcher"]
        self._num_made, self._finished = state["num_made"], state["finished"]

    def skip_made(self, num_made: int) -> None:
        """Count trials that the experiment has but the state does not know yet."""
        self._num_made = max(self._num_made, num_made)
