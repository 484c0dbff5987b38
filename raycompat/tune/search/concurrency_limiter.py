"""`ConcurrencyLimiter`: a searcher that waits for results before it suggests more."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from raycompat._surface import forms
from raycompat.tune.error import InvalidRangeError
from raycompat.tune.search.searcher import Searcher

if TYPE_CHECKING:
    from raycompat.tune.trainable.nested import Config, Metrics


class ConcurrencyLimiter(Searcher):
    """Limit how many suggestions of a searcher are unfinished at a time.

    Searchers learn from results. A searcher that must suggest all trials at once learns nothing.

    Parameters
    ----------
    searcher : Searcher
    max_concurrent : int
        How many trials may run at a time; 1 or more.
    batch : bool, default False
        Give the searcher the results of all of them together, and then ask for the next.

    Raises
    ------
    ValueError
        When `max_concurrent` is below 1.
    RuntimeError
        When `searcher` is not a Searcher.

    Examples
    --------
    Each trial begins when the one before has ended, so the search learns from it:

    >>> from raycompat import tune
    >>> from raycompat.tune.search import ConcurrencyLimiter, Searcher
    >>> class Walk(Searcher):
    ...     def __init__(self):
    ...         super().__init__(metric="loss", mode="min")
    ...         self.x = 0
    ...
    ...     def suggest(self, trial_id):
    ...         return {"x": self.x}
    ...
    ...     def on_trial_complete(self, trial_id, result=None, error=False):
    ...         self.x += 1 if result["loss"] > 0 else 0
    >>> import tempfile
    >>> results = tune.Tuner(
    ...     lambda config: {"loss": abs(config["x"] - 2)},
    ...     tune_config=tune.TuneConfig(
    ...         num_samples=4,
    ...         search_alg=ConcurrencyLimiter(Walk(), max_concurrent=1),
    ...     ),
    ...     run_config=tune.RunConfig(storage_path=tempfile.mkdtemp(), verbose=0),
    ... ).fit()
    >>> [result.config["x"] for result in results]
    [0, 1, 2, 2]
    >>> limited = ConcurrencyLimiter(Walk(), max_concurrent=1)
    >>> limited.metric, limited.mode
    ('loss', 'min')
    """

    def __init__(self, searcher: Searcher, max_concurrent: int, batch: bool = False) -> None:
        if not isinstance(max_concurrent, int) or max_concurrent < 1:
            raise InvalidRangeError(
                f"max_concurrent={max_concurrent!r}: expected an integer of 1 or more."
            )
        if not isinstance(searcher, Searcher):
            raise RuntimeError(
                f"ConcurrencyLimiter({searcher!r}): expected a Searcher. BasicVariantGenerator takes "
                "max_concurrent itself."
            )
        self.searcher = searcher
        self.max_concurrent = max_concurrent
        self.batch = batch
        self.live_trials: set[str] = set()
        self.cached_results: dict[str, tuple[dict[str, object] | None, bool]] = {}
        super().__init__(metric=searcher.metric, mode=searcher.mode)
        self._limits_itself = searcher.set_max_concurrency(max_concurrent)

    @property
    def metric(self) -> Any:
        return self.searcher.metric

    @property
    def mode(self) -> Any:
        return self.searcher.mode

    def set_max_concurrency(self, max_concurrent: int) -> bool:
        self.max_concurrent = max_concurrent
        return True

    def set_search_properties(
        self, metric: str | None, mode: str | None, config: Config, **spec: object
    ) -> bool:
        return self.searcher.set_search_properties(metric, mode, config, **spec)

    def suggest(self, trial_id: str) -> Config | str | None:
        if self._limits_itself:
            return self.searcher.suggest(trial_id)
        if len(self.live_trials) >= self.max_concurrent:
            return None
        suggestion = self.searcher.suggest(trial_id)
        if isinstance(suggestion, dict):
            self.live_trials.add(trial_id)
        return suggestion

    def on_trial_result(self, trial_id: str, result: Metrics) -> None:
        self.searcher.on_trial_result(trial_id, result)

    def on_trial_complete(
        self, trial_id: str, result: Metrics | None = None, error: bool = False
    ) -> None:
        if self._limits_itself:
            self.searcher.on_trial_complete(trial_id, result=result, error=error)
        elif trial_id in self.live_trials:
            self.cached_results[trial_id] = (result, error)
            if not self.batch or len(self.cached_results) == len(self.live_trials):
                self._pass_on()

    def _pass_on(self) -> None:
        done, self.cached_results = self.cached_results, {}
        for trial_id, (result, error) in done.items():
            self.searcher.on_trial_complete(trial_id, result=result, error=error)
            self.live_trials.discard(trial_id)

    def add_evaluated_point(
        self,
        parameters: Config,
        value: float,
        error: bool = False,
        pruned: bool = False,
        intermediate_values: list[float] | None = None,
    ) -> None:
        self.searcher.add_evaluated_point(parameters, value, error, pruned, intermediate_values)

    @forms.takes_old_options("ray.tune.search.Searcher.save")
    def save(self, checkpoint_path: str) -> None:
        self.searcher.save(checkpoint_path)

    @forms.takes_old_options("ray.tune.search.Searcher.restore")
    def restore(self, checkpoint_path: str) -> None:
        self.searcher.restore(checkpoint_path)

    def on_pause(self, trial_id: str) -> None:
        self.searcher.on_pause(trial_id)

    def on_unpause(self, trial_id: str) -> None:
        self.searcher.on_unpause(trial_id)
