"""Functions for training functions: `report`, `get_checkpoint`, `get_context`."""

from __future__ import annotations

import logging
import os
import queue
import sys
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from raycompat._old_forms.reports import takes_metrics_as_keywords
from raycompat._surface import forms
from raycompat.tune.result import CHECKPOINT_DIR_NAME, RESULT_DUPLICATE, SHOULD_CHECKPOINT
from raycompat.tune.trainable.place import TrialPlace

if TYPE_CHECKING:
    from raycompat.train import Checkpoint
    from raycompat.tune.execution.placement_groups import PlacementGroupFactory
    from raycompat.tune.trainable.nested import Metrics


_log = logging.getLogger(__name__)


class TrialStopped(SystemExit):
    """The trial was stopped while its function waited in `report`."""


class FunctionSession:
    """A training function in a thread that moves only while the trial trains.

    `report` waits until the runner asks for the next result. So a trial does nothing between its report
    and the decision on it.

    Parameters
    ----------
    function : callable
        Called without arguments; its result is the last result.
    place : TrialPlace or None
        Where checkpoints go.
    checkpoint : Checkpoint or None
        What `get_checkpoint` returns at first.
    """

    def __init__(
        self,
        function: Callable[[], object],
        place: TrialPlace | None,
        checkpoint: Checkpoint | None = None,
    ) -> None:
        self.place = place
        self.checkpoint = checkpoint
        #: A checkpoint that the next report takes with it.
        self.unreported: Checkpoint | None = None
        #: Whether the last report came with a checkpoint.
        self.has_new_checkpoint = False
        self._function = function
        self._results: queue.SimpleQueue[tuple[str, Any]] = queue.SimpleQueue()
        self._may_go_on = threading.Semaphore(0)
        self._reporting = threading.Lock()
        self._stopped = False
        self._thread = threading.Thread(target=self._run, name="train", daemon=True)

    def _run(self) -> None:
        self._may_go_on.acquire()
        if self._stopped:
            return
        _begin(self)
        try:
            self._function()
            last: tuple[str, object] = ("result", {RESULT_DUPLICATE: True})
        except TrialStopped:
            return
        except BaseException as error:  # raised again in the caller of `next_result`
            last = ("error", error)
        finally:
            _end(self)
        self._results.put(last)

    def next_result(self) -> Metrics:
        """Let the function continue until it reports; raise its error."""
        if self._thread.ident is None:  # not yet started; it may have ended while a thread reports
            self._thread.start()
        self._may_go_on.release()
        kind, value = self._results.get()
        if kind == "error":
            raise value
        found: Metrics = value
        return found

    def report(
        self, metrics: Metrics, checkpoint: Checkpoint | None, is_kept: bool = False
    ) -> None:
        """Pass a result to the runner, and wait until training may continue.

        A checkpoint is copied into the trial's folder, unless `is_kept` says that it stays where it is.
        """
        with self._reporting:  # threads of the training function report one at a time
            if self._stopped:
                raise TrialStopped
            self._pass_on(dict(metrics), checkpoint, is_kept)

    def _pass_on(self, result: Metrics, checkpoint: Checkpoint | None, is_kept: bool) -> None:
        if checkpoint is None:
            checkpoint = self.unreported
        self.unreported = None
        self.has_new_checkpoint = checkpoint is not None
        result.setdefault(CHECKPOINT_DIR_NAME, None)
        if checkpoint is not None:
            assert self.place is not None
            self.checkpoint = checkpoint if is_kept else self.place.keep_checkpoint(checkpoint)
            result[CHECKPOINT_DIR_NAME] = os.path.basename(self.checkpoint.path)
            result[SHOULD_CHECKPOINT] = True
        self._results.put(("result", result))
        self._may_go_on.acquire()
        if self._stopped:
            raise TrialStopped

    def keep_unreported(self) -> None:
        """Keep a checkpoint that no report has taken with it, at the end of the function."""
        if self.unreported is not None and self.place is not None:
            self.checkpoint = self.place.keep_checkpoint(self.unreported)
            self.unreported, self.has_new_checkpoint = None, True

    def folder_to_begin_with(self) -> str | None:
        """Return the local folder of the checkpoint from which the trial continues."""
        if self.checkpoint is None:
            return None
        if self.checkpoint._folder.is_local:
            return str(self.checkpoint.path)
        return self.checkpoint.to_directory()

    def stop(self, timeout_s: float) -> bool:
        """End the function where it waits; say whether its thread has ended."""
        self._stopped = True
        self._may_go_on.release()
        if self._thread.is_alive():
            self._thread.join(timeout_s)
        return not self._thread.is_alive()


#: The session of the function that began last in this process, while it runs.
_session: FunctionSession | None = None

#: Has the session whose function a thread runs: in local mode the process has several trials.
_of_this_thread = threading.local()


def _begin(session: FunctionSession) -> None:
    """Set the session of this thread, and of threads that the training function starts."""
    global _session
    _of_this_thread.session = _session = session


def _end(session: FunctionSession) -> None:
    """Forget a session whose function has ended."""
    global _session
    if _session is session:
        _session = None


def _found() -> FunctionSession | None:
    return getattr(_of_this_thread, "session", _session)


def is_in_trial() -> bool:
    """Return whether the function of a trial runs in this process."""
    return _found() is not None


def _is_on_worker() -> bool:
    """Return whether this process is a worker of Train, and has no trial."""
    trains = sys.modules.get("raycompat.train._session")
    return not is_in_trial() and trains is not None and trains.is_entered()


def current(what: str) -> FunctionSession:
    """Return the session of this process, for the function `what` of `tune`.

    Raises
    ------
    RuntimeError
        When no trial runs in this process.
    """
    session = _found()
    if session is None:
        raise RuntimeError(
            f"tune.{what} works in the function of a trial, and no trial runs in this process: "
            "pass the function to tune.Tuner(...)."
        )
    return session


@takes_metrics_as_keywords("ray.tune.report with metrics as keywords")
def report(metrics: Metrics, *, checkpoint: Checkpoint | None = None) -> None:
    """Report a result, and with it a checkpoint, from the function of a trial.

    Parameters
    ----------
    metrics : dict
        Values by name.
    checkpoint : Checkpoint, optional
        Its folder is copied into the trial's; a retried or resumed trial begins with it.

    Raises
    ------
    TypeError
        When `metrics` is not a dict.

    Examples
    --------
    >>> from raycompat import tune
    >>> def train(config):
    ...     for step in range(3):
    ...         tune.report({"score": config["x"] * step})

    Notes
    -----
    Ray source: ``ray.tune.report``, 2.60.0. No known difference: where no trial runs, as when you call
    the function yourself, it logs a warning and does nothing else.
    """
    if _is_on_worker():
        from raycompat import train

        forms.used("ray.tune.report on a worker of Train", refusal=RuntimeError)
        train.report(metrics, checkpoint=checkpoint)
        return
    session = _found()
    if session is None:
        _log.warning("tune.report has no effect here, because no trial runs in this process.")
        return
    if not isinstance(metrics, dict):
        raise TypeError(f"tune.report({metrics!r}): expected a dict, such as {{'score': 1.0}}.")
    session.report(metrics, checkpoint)


def get_checkpoint() -> Checkpoint | None:
    """Return the checkpoint from which the trial continues; None at the start or without a trial.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from raycompat import tune
    >>> def count(config):
    ...     start = 0
    ...     if checkpoint := tune.get_checkpoint():
    ...         with checkpoint.as_directory() as folder:
    ...             start = int(pathlib.Path(folder, "step").read_text()) + 1
    ...     for step in range(start, 3):
    ...         with tempfile.TemporaryDirectory() as folder:
    ...             pathlib.Path(folder, "step").write_text(str(step))
    ...             tune.report({"step": step}, checkpoint=tune.Checkpoint(folder))
    ...         if step == 1 and start == 0:
    ...             raise RuntimeError("the power failed")
    >>> results = tune.Tuner(
    ...     count,
    ...     run_config=tune.RunConfig(
    ...         storage_path=tempfile.mkdtemp(),
    ...         failure_config=tune.FailureConfig(max_failures=1),
    ...         verbose=0,
    ...     ),
    ... ).fit()
    >>> results[0].metrics_dataframe["step"].tolist()
    [0, 1, 2]
    """
    session = _found()
    return None if session is None else session.checkpoint


class TuneContext:
    """The description of a trial for its function.

    Examples
    --------
    >>> import tempfile
    >>> from raycompat import tune
    >>> def describe(config):
    ...     context = tune.get_context()
    ...     return {
    ...         "experiment": context.get_experiment_name(),
    ...         "trial": context.get_trial_id() in context.get_trial_name(),
    ...         "cpus": context.get_trial_resources().required_resources["CPU"],
    ...         "folder": "/names/" in context.get_trial_dir(),
    ...         "ranks": [
    ...             context.get_world_size(),
    ...             context.get_world_rank(),
    ...             context.get_local_rank(),
    ...             context.get_local_world_size(),
    ...             context.get_node_rank(),
    ...         ],
    ...     }
    >>> results = tune.Tuner(
    ...     describe,
    ...     run_config=tune.RunConfig(
    ...         name="names", storage_path=tempfile.mkdtemp(), verbose=0
    ...     ),
    ... ).fit()
    >>> found = results[0].metrics
    >>> found["experiment"], found["trial"], found["cpus"], found["folder"]
    ('names', True, 1.0, True)
    >>> found["ranks"]
    [None, None, None, None, None]
    """

    def __init__(self, place: TrialPlace | None) -> None:
        self._place = place

    def get_experiment_name(self) -> str | None:
        """Return the name of the experiment's folder."""
        return None if self._place is None else self._place.experiment_name

    def get_trial_name(self) -> str | None:
        """Return the trial's name."""
        return None if self._place is None else self._place.trial_name

    def get_trial_id(self) -> str | None:
        """Return the trial's id."""
        return None if self._place is None else self._place.trial_id

    def get_trial_resources(self) -> PlacementGroupFactory | None:
        """Return the resources of the trial."""
        return None if self._place is None else self._place.resources

    def get_trial_dir(self) -> str | None:
        """Return the trial's folder in the storage."""
        return None if self._place is None else self._place.folder.path

    def get_world_size(self) -> int | None:
        """Return None: only workers of Train have ranks."""
        return None

    def get_world_rank(self) -> int | None:
        """Return None."""
        return None

    def get_local_rank(self) -> int | None:
        """Return None."""
        return None

    def get_local_world_size(self) -> int | None:
        """Return None."""
        return None

    def get_node_rank(self) -> int | None:
        """Return None."""
        return None


def get_context() -> TuneContext:
    """Return the description of the trial.

    Examples
    --------
    >>> import tempfile
    >>> from raycompat import tune
    >>> def name(config):
    ...     return {"name": tune.get_context().get_experiment_name()}
    >>> results = tune.Tuner(
    ...     name,
    ...     run_config=tune.RunConfig(
    ...         name="first", storage_path=tempfile.mkdtemp(), verbose=0
    ...     ),
    ... ).fit()
    >>> results[0].metrics["name"]
    'first'

    Notes
    -----
    Ray source: ``ray.tune.get_context``, 2.60.0. No known difference: where no trial runs, all
    methods of the result return None.
    """
    session = _found()
    return TuneContext(None if session is None else session.place)
