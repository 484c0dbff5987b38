"""`TrialScheduler`: decides after each result whether a trial continues, pauses or stops."""

from __future__ import annotations

import pickle
from collections.abc import Collection
from typing import TYPE_CHECKING, Any, Protocol

import cloudpickle

from raycompat._old_forms.tune import modes
from raycompat.tune.error import InvalidModeError
from raycompat.tune.result import DEFAULT_METRIC

if TYPE_CHECKING:
    from raycompat.tune.experiment.trial import Trial
    from raycompat.tune.search.search_algorithm import SearchAlgorithm
    from raycompat.tune.trainable.nested import Metrics


class Controller(Protocol):
    """The interface of the trial runner for schedulers."""

    search_alg: SearchAlgorithm

    def get_trials(self) -> list[Trial]:
        """Return all trials of the experiment."""
        ...

    def get_live_trials(self) -> Collection[Trial]:
        """Return the trials that have not ended."""
        ...

    def cluster_resources(self) -> dict[str, float]:
        """Return the resources of all nodes."""
        ...

    def stop_trial(self, trial: Trial) -> None:
        """End a trial."""
        ...

    def pause_trial(self, trial: Trial, should_checkpoint: bool = True) -> None:
        """Give a trial's resources to others."""
        ...

    def schedule_trial_save(self, trial: Trial, result: Metrics | None = None) -> Any:
        """Ask a trial for a checkpoint; the answer's ``resolve()`` waits for it."""
        ...


class TrialScheduler:
    """Decides how trials continue. Subclass it for your own scheduler.

    Examples
    --------
    >>> from raycompat import tune
    >>> from raycompat.tune.schedulers import FIFOScheduler, TrialScheduler
    >>> class StopAtZero(FIFOScheduler):
    ...     def on_trial_result(self, controller, trial, result):
    ...         ended = result["loss"] <= 0
    ...         return TrialScheduler.STOP if ended else TrialScheduler.CONTINUE
    >>> config = tune.TuneConfig(metric="loss", mode="min", scheduler=StopAtZero())

    A scheduler from the ground up says which trial runs next, and takes note of what happens:

    >>> class NewestFirst(TrialScheduler):
    ...     added = completed = lost = 0
    ...
    ...     def on_trial_add(self, controller, trial):
    ...         self.added += 1
    ...
    ...     def choose_trial_to_run(self, controller):
    ...         trials = controller.get_live_trials()
    ...         pending = [trial for trial in trials if trial.status == "PENDING"]
    ...         return pending[-1] if pending else None
    ...
    ...     def on_trial_result(self, controller, trial, result):
    ...         return TrialScheduler.CONTINUE
    ...
    ...     def on_trial_complete(self, controller, trial, result):
    ...         self.completed += 1
    ...
    ...     def on_trial_error(self, controller, trial):
    ...         self.lost += 1
    ...
    ...     def on_trial_remove(self, controller, trial):
    ...         self.lost += 1
    ...
    ...     def debug_string(self):
    ...         return f"newest first: {self.completed} of {self.added} completed"
    >>> import os, tempfile
    >>> newest = NewestFirst()
    >>> newest.set_search_properties(metric="loss", mode="min"), newest.metric
    (True, 'loss')
    >>> results = tune.Tuner(
    ...     lambda config: {"loss": config["x"]},
    ...     param_space={"x": tune.grid_search([1, 2, 3])},
    ...     tune_config=tune.TuneConfig(scheduler=newest),
    ...     run_config=tune.RunConfig(storage_path=tempfile.mkdtemp(), verbose=0),
    ... ).fit()
    >>> newest.debug_string()
    'newest first: 3 of 3 completed'

    An experiment that is restored goes on with the saved state:

    >>> file = os.path.join(tempfile.mkdtemp(), "scheduler")
    >>> newest.save(file)
    >>> restored = NewestFirst()
    >>> restored.restore(file)
    >>> restored.completed
    3
    """

    #: What `on_trial_result` returns: train on; give up the resources; end; do nothing.
    CONTINUE = "CONTINUE"
    PAUSE = "PAUSE"
    STOP = "STOP"
    NOOP = "NOOP"

    _metric: str | None = None

    @property
    def metric(self) -> str | None:
        """The metric that decides."""
        return self._metric

    @property
    def supports_buffered_results(self) -> bool:
        """Whether it can take several results of a trial at once; a trial gives them one by one.

        Examples
        --------
        >>> from raycompat.tune.schedulers import FIFOScheduler
        >>> FIFOScheduler().supports_buffered_results
        True
        """
        return True

    def set_search_properties(self, metric: str | None, mode: str | None, **spec: object) -> bool:
        """Take metric and mode of the experiment.

        Returns
        -------
        bool
            False when the scheduler has its own already.
        """
        if self._metric and metric:
            return False
        self._metric = metric or self._metric or DEFAULT_METRIC
        return True

    def on_trial_add(self, tune_controller: Controller, trial: Trial) -> None:
        """Take note of a new trial."""
        raise NotImplementedError

    def on_trial_error(self, tune_controller: Controller, trial: Trial) -> None:
        """Take note that a running trial has failed for good."""
        raise NotImplementedError

    def on_trial_result(self, tune_controller: Controller, trial: Trial, result: Metrics) -> str:
        """Return the next action of a running trial."""
        raise NotImplementedError

    def on_trial_complete(self, tune_controller: Controller, trial: Trial, result: Metrics) -> None:
        """Take note that a running trial has ended."""
        raise NotImplementedError

    def on_trial_remove(self, tune_controller: Controller, trial: Trial) -> None:
        """Take note that a trial was ended that did not run."""
        raise NotImplementedError

    def choose_trial_to_run(self, tune_controller: Controller) -> Trial | None:
        """Return the pending or paused trial that runs next; None when none shall."""
        raise NotImplementedError

    def debug_string(self) -> str:
        """Return a line or more for the progress report."""
        raise NotImplementedError

    def save(self, checkpoint_path: str) -> None:
        """Write the scheduler's state to a file."""
        with open(checkpoint_path, "wb") as file:
            cloudpickle.dump(self.__dict__, file)

    def restore(self, checkpoint_path: str) -> None:
        """Continue from a file of `save`, which must come from a trusted source: it is unpickled."""
        with open(checkpoint_path, "rb") as file:
            self.__dict__.update(pickle.load(file))


class FIFOScheduler(TrialScheduler):
    """Run trials in their order, each to its end.

    Examples
    --------
    >>> from raycompat import tune
    >>> from raycompat.tune.schedulers import FIFOScheduler
    >>> config = tune.TuneConfig(scheduler=FIFOScheduler())
    """

    def on_trial_add(self, tune_controller: Controller, trial: Trial) -> None:
        """Do nothing."""

    def on_trial_error(self, tune_controller: Controller, trial: Trial) -> None:
        """Do nothing."""

    def on_trial_result(self, tune_controller: Controller, trial: Trial, result: Metrics) -> str:
        return TrialScheduler.CONTINUE

    def on_trial_complete(self, tune_controller: Controller, trial: Trial, result: Metrics) -> None:
        """Do nothing."""

    def on_trial_remove(self, tune_controller: Controller, trial: Trial) -> None:
        """Do nothing."""

    def choose_trial_to_run(self, tune_controller: Controller) -> Trial | None:
        """Return the first pending trial, or the first paused one."""
        paused: Trial | None = None
        trial: Trial
        for trial in tune_controller.get_live_trials():
            if trial.status == "PENDING":
                return trial
            if trial.status == "PAUSED" and paused is None:
                paused = trial
        return paused

    def debug_string(self) -> str:
        return "FIFO: trials run in order, each to its end"


class ScoredScheduler(FIFOScheduler):
    """A scheduler that compares scores: it needs a metric and a mode.

    Parameters
    ----------
    metric : str, optional
    mode : {"min", "max"}, optional
    """

    def __init__(self, metric: str | None, mode: str | None) -> None:
        check_mode(mode)
        self._metric, self._mode = metric, mode

    def set_search_properties(self, metric: str | None, mode: str | None, **spec: object) -> bool:
        if (self._metric and metric) or (self._mode and mode):
            return False
        check_mode(mode)
        self._metric, self._mode = metric or self._metric, mode or self._mode
        if self._metric is None and self._mode:
            self._metric = DEFAULT_METRIC
        return True

    def score(self, result: Metrics) -> float:
        """Return the metric; more is better, whatever the mode."""
        value: float = result[self._metric]  # type: ignore[index]
        return value if self._mode == "max" else -value

    def on_trial_add(self, tune_controller: Controller, trial: Trial) -> None:
        """Check that there are a metric and a mode."""
        self._metric, self._mode = modes.completed(self._metric, self._mode)
        if not self._metric or not self._mode:
            old = " In a program of Ray 0.8 the mode is 'max' then: `raycompat run --ray 0.8`."
            raise ValueError(
                f"{type(self).__name__} has metric={self._metric!r} and mode={self._mode!r}: pass "
                f"both to it, or to TuneConfig.{'' if self._mode else old}"
            )


def check_mode(mode: str | None) -> None:
    """Raise when a mode is neither "min" nor "max"."""
    if mode is not None and mode not in ("min", "max"):
        raise InvalidModeError(f"mode={mode!r}: expected 'min' or 'max'.")
