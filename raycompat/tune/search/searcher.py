"""`Searcher`: suggests configs, and learns from their results. Users write their own as subclasses."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import cloudpickle

from raycompat._old_forms.tune import modes, searchers
from raycompat._surface import forms
from raycompat._surface.modules import names_of
from raycompat.tune.error import InvalidModeError
from raycompat.tune.search.variant_generator import parse_spec_vars

if TYPE_CHECKING:
    from raycompat.tune.search.sample import Domain
    from raycompat.tune.trainable.nested import Config, Metrics

#: A metric, or several for more than one objective.
Names = str | list[str] | None


@searchers.takes_old_options("ray.tune.search.Searcher")
class Searcher:
    """Suggests configs one by one, and learns from the reports of the trials.

    Subclasses write `suggest` and `on_trial_complete`; `save` and `restore` when their state is not all
    in picklable attributes.

    Parameters
    ----------
    metric : str or list of str, optional
        The metric to optimize; several are several objectives.
    mode : {"min", "max"} or list, optional
        Its direction; a list has one for each metric.

    Raises
    ------
    ValueError
        When a mode is neither "min" nor "max", or the lists differ in length.

    Examples
    --------
    >>> from raycompat.tune.search import Searcher
    >>> class Countdown(Searcher):
    ...     left = 3
    ...
    ...     def suggest(self, trial_id):
    ...         self.left -= 1
    ...         return {"x": self.left} if self.left >= 0 else Searcher.FINISHED
    ...
    ...     def on_trial_complete(self, trial_id, result=None, error=False):
    ...         pass

    A searcher that learns: it looks beside the best point so far. `on_trial_result` learns before a
    trial has ended; `on_pause` and `on_unpause` count the trials that a scheduler holds back:

    >>> class Beside(Searcher):
    ...     def __init__(self):
    ...         super().__init__(metric="loss", mode="min")
    ...         self.best, self.tried, self.paused = (float("inf"), 0), {}, 0
    ...
    ...     def set_search_properties(self, metric, mode, config, **spec):
    ...         self.best = (float("inf"), config.get("start", 0))
    ...         return True
    ...
    ...     def suggest(self, trial_id):
    ...         self.tried[trial_id] = self.best[1] + 1
    ...         return {"x": self.tried[trial_id]}
    ...
    ...     def on_trial_result(self, trial_id, result):
    ...         self.add_evaluated_point(
    ...             {"x": self.tried[trial_id]}, result["loss"]
    ...         )
    ...
    ...     def on_trial_complete(self, trial_id, result=None, error=False):
    ...         del self.tried[trial_id]
    ...
    ...     def add_evaluated_point(self, parameters, value, **more):
    ...         self.best = min(self.best, (value, parameters["x"]))
    ...
    ...     def on_pause(self, trial_id):
    ...         self.paused += 1
    ...
    ...     def on_unpause(self, trial_id):
    ...         self.paused -= 1
    >>> searcher = Beside()
    >>> searcher.set_search_properties("loss", "min", {"start": 5})
    True
    >>> searcher.suggest("a")
    {'x': 6}
    >>> searcher.on_trial_result("a", {"loss": 0.5})
    >>> searcher.suggest("b")
    {'x': 7}

    It keeps its state in a file, or gives it as a dict:

    >>> import os, tempfile
    >>> file = os.path.join(tempfile.mkdtemp(), "searcher")
    >>> searcher.save(file)
    >>> other = Beside()
    >>> other.restore(file)
    >>> other.best
    (0.5, 6)
    >>> folder = tempfile.mkdtemp()
    >>> searcher.save_to_dir(folder, "first")
    >>> other.restore_from_dir(folder)
    >>> os.listdir(folder), other.best
    (['searcher-state-first.pkl'], (0.5, 6))
    >>> Searcher.CKPT_FILE_TMPL.format("first")
    'searcher-state-first.pkl'
    >>> other.set_state({**searcher.get_state(), "best": (0.1, 9)})
    >>> other.suggest("c")
    {'x': 10}
    >>> other.metric, other.mode
    ('loss', 'min')

    It can begin with the results of another experiment. It does not limit the number of trials
    at one time:

    >>> from raycompat import tune
    >>> trials = tune.run(
    ...     lambda config: {"loss": abs(config["x"] - 4)},
    ...     config={"x": tune.grid_search([2, 4])},
    ...     storage_path=tempfile.mkdtemp(),
    ...     verbose=0,
    ... ).trials
    >>> searcher = Beside()
    >>> searcher.add_evaluated_trials(trials, metric="loss")
    >>> searcher.best, searcher.set_max_concurrency(1)
    ((0, 4), False)
    """

    #: What `suggest` returns when there will be no more configs.
    FINISHED = "FINISHED"
    #: The name of a file of `save_to_dir`, for a session.
    CKPT_FILE_TMPL = "searcher-state-{}.pkl"

    def __init__(self, metric: Names = None, mode: Names = None) -> None:
        metric, mode = modes.of_searcher(type(self).__name__, metric, mode)
        self._metric: Any = metric
        self._mode: Any = mode
        if metric and mode:
            _check_objectives(metric, mode)

    @property
    def metric(self) -> Any:
        """The metric, or the list of metrics."""
        return self._metric

    @property
    def mode(self) -> Any:
        """The mode, or the list of modes."""
        return self._mode

    def set_search_properties(
        self, metric: str | None, mode: str | None, config: Config, **spec: object
    ) -> bool:
        """Take metric, mode and search space of the experiment.

        Returns
        -------
        bool
            False when the searcher has its own space.
        """
        return False

    def set_max_concurrency(self, max_concurrent: int) -> bool:
        """Limit the number of unfinished suggestions; True when the searcher itself does so."""
        return False

    def suggest(self, trial_id: str) -> Config | str | None:
        """Return a config; `FINISHED` at the end, None when it cannot suggest one now."""
        raise NotImplementedError

    def on_trial_result(self, trial_id: str, result: Metrics) -> None:
        """Take note of a result; it may lack the metric, or be NaN."""

    def on_trial_complete(
        self, trial_id: str, result: Metrics | None = None, error: bool = False
    ) -> None:
        """Take note of a trial's end; `result` is its last, None when it has none."""
        raise NotImplementedError

    def add_evaluated_point(
        self,
        parameters: Config,
        value: float,
        error: bool = False,
        pruned: bool = False,
        intermediate_values: list[float] | None = None,
    ) -> None:
        """Learn from a point that was evaluated elsewhere; not every searcher can."""
        raise NotImplementedError(f"{type(self).__name__} cannot learn from points of elsewhere.")

    def add_evaluated_trials(self, trials_or_analysis: Any, metric: str) -> None:
        """Learn from the trials of an experiment that has run.

        Parameters
        ----------
        trials_or_analysis : Trial, list of Trial, or ExperimentAnalysis
        metric : str
            Which of their metrics is the value.
        """
        trials = getattr(trials_or_analysis, "trials", trials_or_analysis)
        for trial in trials if isinstance(trials, list | tuple) else [trials]:
            if metric in trial.last_result:
                self.add_evaluated_point(
                    trial.config, trial.last_result[metric], error=trial.status == "ERROR"
                )

    def get_state(self) -> dict[str, Any]:
        """Return the state as a dict; by default every attribute."""
        return self.__dict__.copy()

    def set_state(self, state: dict[str, Any]) -> None:
        """Continue from a state of `get_state`."""
        self.__dict__.update(state)

    @forms.takes_old_options("ray.tune.search.Searcher.save")
    def save(self, checkpoint_path: str) -> None:
        """Write the state to a file."""
        with open(checkpoint_path, "wb") as file:
            cloudpickle.dump(self.get_state(), file)

    @forms.takes_old_options("ray.tune.search.Searcher.restore")
    def restore(self, checkpoint_path: str) -> None:
        """Continue from a file of `save`, which must come from a trusted source: it is unpickled."""
        with open(checkpoint_path, "rb") as file:
            self.set_state(pickle.load(file))

    def save_to_dir(self, checkpoint_dir: str, session_str: str = "default") -> None:
        """Write the state into a folder, as the file of a session."""
        unfinished = Path(checkpoint_dir, f".{self.CKPT_FILE_TMPL.format(session_str)}")
        self.save(str(unfinished))
        unfinished.replace(unfinished.with_name(unfinished.name[1:]))

    def restore_from_dir(self, checkpoint_dir: str) -> None:
        """Continue from the newest file of `save_to_dir`.

        Raises
        ------
        RuntimeError
            When the folder has none.
        """
        files = list(Path(checkpoint_dir).glob(self.CKPT_FILE_TMPL.format("*")))
        if not files:
            raise RuntimeError(
                f"{checkpoint_dir!r} has no state of a searcher: write it by save_to_dir()."
            )
        self.restore(str(max(files, key=lambda file: file.stat().st_mtime_ns)))

    def on_pause(self, trial_id: str) -> None:
        """Take note that a trial was paused."""

    def on_unpause(self, trial_id: str) -> None:
        """Handle the continuation of a trial."""


def _check_objectives(metric: Any, mode: Any) -> None:
    metrics, choices = ([metric], [mode]) if isinstance(metric, str) else (metric, mode)
    if isinstance(metric, str) != isinstance(mode, str) or len(metrics) != len(choices):
        raise ValueError(
            f"metric={metric!r}, mode={mode!r}: expected one of each, or lists of the same length."
        )
    for each in choices:
        if each not in ("min", "max", "obs") or (each == "obs" and isinstance(mode, str)):
            raise InvalidModeError(f"mode={each!r}: expected 'min' or 'max'.")


def has_search_space(config: Config) -> bool:
    """Return whether anything can be drawn or enumerated."""
    _, domains, grids = parse_spec_vars(config)
    return bool(domains or grids)


def refuse_grid(grids: Sequence[tuple[tuple[Any, ...], Domain]], library: str) -> None:
    """Raise when a space for a library's searcher has a grid."""
    if grids:
        from raycompat.tune.search.variant_generator import path_name

        names = [path_name(path) for path, _ in grids]
        raise ValueError(
            f"{library} draws its points itself, so {names} cannot be grids: use tune.choice(...)."
        )


def require_space(searcher: Searcher, space: object) -> None:
    """Raise when a searcher is asked for a point without a space, metric or mode.

    The mode of some metrics is known.
    """
    name = type(searcher).__name__
    if not space:
        raise RuntimeError(
            f"{name} has no search space: pass space= to it, or param_space= to the Tuner."
        )
    if not searcher.mode and not isinstance(searcher.metric, list):
        searcher._metric, searcher._mode = modes.completed(searcher.metric, None)
    if not searcher.metric or not searcher.mode:
        raise RuntimeError(
            f"{name} has metric={searcher.metric!r} and mode={searcher.mode!r}: pass both to it, or to "
            "TuneConfig."
        )


#: Names of older Rays.
__getattr__ = names_of(__name__)
