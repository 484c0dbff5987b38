"""`Callback`: callbacks of an experiment."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from raycompat.train import Checkpoint
    from raycompat.tune.experiment.trial import Trial
    from raycompat.tune.stopper.stopper import Stop
    from raycompat.tune.trainable.nested import Metrics


class Callback:
    """Methods that the runner calls. Users write their own as subclasses.

    Each gets ``iteration``, the runner's step, and ``trials``, all trials; most get ``trial``.

    Examples
    --------
    >>> from raycompat import tune
    >>> class Shout(tune.Callback):
    ...     def on_trial_complete(self, iteration, trials, trial, **info):
    ...         print(f"{trial} is done")

    A callback that keeps what happened; its state survives when the experiment is restored:

    >>> import tempfile
    >>> class Diary(tune.Callback):
    ...     def setup(
    ...         self, stop=None, num_samples=None, total_num_samples=None, **info
    ...     ):
    ...         self.lines, self.steps = [f"{total_num_samples} trials planned"], 0
    ...
    ...     def on_step_begin(self, iteration, trials, **info):
    ...         self.steps += 1
    ...
    ...     def on_step_end(self, iteration, trials, **info):
    ...         self.running = sum(trial.status == "RUNNING" for trial in trials)
    ...
    ...     def on_trial_start(self, iteration, trials, trial, **info):
    ...         self.lines.append(f"start {trial.config['x']}")
    ...
    ...     def on_experiment_end(self, trials, **info):
    ...         self.lines.append(
    ...             f"{len(trials)} trials made, {self.running} running"
    ...         )
    ...
    ...     def get_state(self):
    ...         return {"lines": self.lines}
    ...
    ...     def set_state(self, state):
    ...         self.lines = state["lines"]
    >>> diary = Diary()
    >>> results = tune.Tuner(
    ...     lambda config: {"cost": config["x"]},
    ...     param_space={"x": tune.grid_search([1, 2])},
    ...     tune_config=tune.TuneConfig(max_concurrent_trials=1),
    ...     run_config=tune.RunConfig(
    ...         storage_path=tempfile.mkdtemp(), verbose=0, callbacks=[diary]
    ...     ),
    ... ).fit()
    >>> diary.lines
    ['2 trials planned', 'start 1', 'start 2', '2 trials made, 0 running']

    One that follows checkpoints and failures; the trial is tried once more:

    >>> class Failures(tune.Callback):
    ...     def on_trial_save(self, iteration, trials, trial, **info):
    ...         print("saved")
    ...
    ...     def on_checkpoint(self, iteration, trials, trial, checkpoint, **info):
    ...         print("checkpoint", type(checkpoint).__name__)
    ...
    ...     def on_trial_recover(self, iteration, trials, trial, **info):
    ...         print("failed, is tried again")
    ...
    ...     def on_trial_restore(self, iteration, trials, trial, **info):
    ...         print("goes on from its checkpoint")
    ...
    ...     def on_trial_error(self, iteration, trials, trial, **info):
    ...         print("failed for good")
    >>> class Fragile(tune.Trainable):
    ...     def step(self):
    ...         if self.iteration == 1:
    ...             raise ValueError("no second step")
    ...         return {"loss": 1.0}
    ...
    ...     def save_checkpoint(self, checkpoint_dir):
    ...         return {}
    ...
    ...     def load_checkpoint(self, checkpoint):
    ...         pass
    >>> results = tune.Tuner(
    ...     Fragile,
    ...     run_config=tune.RunConfig(
    ...         storage_path=tempfile.mkdtemp(),
    ...         verbose=0,
    ...         callbacks=[Failures()],
    ...         failure_config=tune.FailureConfig(max_failures=1),
    ...         checkpoint_config=tune.CheckpointConfig(checkpoint_frequency=1),
    ...     ),
    ... ).fit()
    checkpoint Checkpoint
    saved
    failed, is tried again
    goes on from its checkpoint
    failed for good
    """

    def setup(
        self,
        stop: Stop | None = None,
        num_samples: int | None = None,
        total_num_samples: int | None = None,
        **info: object,
    ) -> None:
        """Prepare; called once, before everything else."""

    def on_step_begin(self, iteration: int, trials: list[Trial], **info: object) -> None:
        """Take note that the runner's step begins."""

    def on_step_end(self, iteration: int, trials: list[Trial], **info: object) -> None:
        """Take note that the runner's step ends."""

    def on_trial_start(
        self, iteration: int, trials: list[Trial], trial: Trial, **info: object
    ) -> None:
        """Handle the start of a trial, or its continuation."""

    def on_trial_restore(
        self, iteration: int, trials: list[Trial], trial: Trial, **info: object
    ) -> None:
        """Handle the restoring of a trial from a checkpoint."""

    def on_trial_save(
        self, iteration: int, trials: list[Trial], trial: Trial, **info: object
    ) -> None:
        """Take note that a trial has made a checkpoint."""

    def on_trial_result(
        self,
        iteration: int,
        trials: list[Trial],
        trial: Trial,
        result: Metrics,
        **info: object,
    ) -> None:
        """Handle a result.

        Examples
        --------
        >>> import tempfile
        >>> from raycompat import tune
        >>> class Printer(tune.Callback):
        ...     def on_trial_result(self, iteration, trials, trial, result, **info):
        ...         print("loss", result["loss"])
        >>> def halve(config):
        ...     for step in (1, 2):
        ...         tune.report({"loss": 1 / 2**step})
        >>> folder = tempfile.mkdtemp()
        >>> run_config = tune.RunConfig(
        ...     storage_path=folder, verbose=0, callbacks=[Printer()]
        ... )
        >>> results = tune.Tuner(halve, run_config=run_config).fit()
        loss 0.5
        loss 0.25
        """

    def on_trial_complete(
        self, iteration: int, trials: list[Trial], trial: Trial, **info: object
    ) -> None:
        """Take note that a trial has ended."""

    def on_trial_recover(
        self, iteration: int, trials: list[Trial], trial: Trial, **info: object
    ) -> None:
        """Take note that a trial has failed and is tried again."""

    def on_trial_error(
        self, iteration: int, trials: list[Trial], trial: Trial, **info: object
    ) -> None:
        """Take note that a trial has failed for good."""

    def on_checkpoint(
        self,
        iteration: int,
        trials: list[Trial],
        trial: Trial,
        checkpoint: Checkpoint,
        **info: object,
    ) -> None:
        """Handle a checkpoint."""

    def on_experiment_end(self, trials: list[Trial], **info: object) -> None:
        """Finish; called once, after everything else."""

    def get_state(self) -> dict[str, Any] | None:
        """Return what `set_state` needs after a restore; None is nothing."""
        return None

    def set_state(self, state: dict[str, Any]) -> None:
        """Continue from a state of `get_state`."""


class CallbackList:
    """Several callbacks as one.

    Parameters
    ----------
    callbacks : list of Callback
    """

    def __init__(self, callbacks: list[Callback]) -> None:
        self.callbacks = callbacks

    def __call__(self, method: str, **info: object) -> None:
        """Call a method of each."""
        for callback in self.callbacks:
            getattr(callback, method)(**info)

    def __getattr__(self, method: str) -> Callable[..., None]:
        """Return the function that calls a method of each: ``on_trial_start`` and others."""
        if method != "setup" and not method.startswith("on_"):
            raise AttributeError(f"{type(self).__name__!r} has no attribute {method!r}")
        return functools.partial(self, method)

    def get_state(self) -> dict[int, dict[str, Any]]:
        """Return the states of the callbacks that have one, by position."""
        states = enumerate(callback.get_state() for callback in self.callbacks)
        return {number: state for number, state in states if state is not None}

    def set_state(self, state: dict[int, dict[str, Any]] | list[dict[str, Any] | None]) -> None:
        """Give the callbacks the states of `get_state`; older experiments have stored a list."""
        states = dict(enumerate(state)) if isinstance(state, list) else state
        for number, each in states.items():
            if number < len(self.callbacks) and each is not None:
                self.callbacks[number].set_state(each)
