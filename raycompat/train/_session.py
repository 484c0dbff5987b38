"""The part of a run in a worker: its context, and its messages to the controller.

A report goes in steps, which all ranks take together:

1. The worker puts a `Reported` into its outbox and waits. The controller fetches it.
2. When all ranks have done this, the controller answers with the name of the checkpoint's folder.
3. The worker copies its files there, as a folder that is not committed yet, and puts a `Saved`.
4. When all have, the controller commits the folder, writes the run's state, and answers with the
   checkpoint. Then `report` returns.

Without a checkpoint a report ends with step 2.
"""

from __future__ import annotations

import queue
import sys
import threading
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import cloudpickle

from raycompat import _storage
from raycompat._surface import forms
from raycompat.train._checkpoint import Checkpoint
from raycompat.train._report_options import CheckpointUploadMode, ValidationTaskConfig

if TYPE_CHECKING:
    from raycompat.train._types import Metrics


class WorkerContext(Protocol):
    """The part of a `TrainContext` that a session and its functions read."""

    @property
    def world_rank(self) -> int:
        """The number of this worker among all, from 0."""

    def get_world_rank(self) -> int:
        """Return the number of this worker among all, from 0."""

    def get_world_size(self) -> int:
        """Return the number of workers."""


@dataclass(frozen=True)
class Reported:
    """A worker has reported."""

    index: int
    metrics: Metrics
    has_checkpoint: bool
    name: str | None
    validation: bool | ValidationTaskConfig = False


@dataclass(frozen=True)
class Saved:
    """A worker has saved its part of a checkpoint: in the run's folder, or elsewhere by itself."""

    index: int
    elsewhere: Checkpoint | None = None


@dataclass(frozen=True)
class Returned:
    """The training function of a worker has returned."""

    num_reports: int
    value: object


@dataclass(frozen=True)
class Asked:
    """A worker's request for the checkpoints of the run, with those of its first `num_reports`."""

    index: int
    num_reports: int
    consistency: str


@dataclass(frozen=True)
class Met:
    """A worker waits for the others in a function of `raycompat.train.collective`.

    Attributes
    ----------
    function : str
        Which; every rank calls the same.
    value : bytes or None
        That of rank 0, pickled.
    """

    function: str
    value: bytes | None = None


@dataclass(frozen=True)
class ReportOptions:
    """The options with which a report's checkpoint is saved, from `report`."""

    name: str | None = None
    mode: CheckpointUploadMode = CheckpointUploadMode.SYNC
    delete: bool | None = None
    upload: Callable[[Checkpoint, str], Checkpoint] | None = None
    validation: bool | ValidationTaskConfig = False


@dataclass
class Session:
    """The functions of a worker that its training function uses.

    Attributes
    ----------
    context : WorkerContext
        Ranks and names.
    folder : Folder
        The run's folder.
    checkpoint : Checkpoint or None
        The last checkpoint.
    shards : dict
        This worker's part of each data set, by name.
    validates : bool
        Whether checkpoints can be validated.
    num_reports : int
        Reports of this worker so far.
    """

    context: WorkerContext
    folder: _storage.Folder
    checkpoint: Checkpoint | None
    shards: dict[str, object]
    validates: bool = False
    num_reports: int = 0
    #: A checkpoint that the next report takes with it.
    unreported: Checkpoint | None = None
    outbox: queue.SimpleQueue[Any] = field(default_factory=queue.SimpleQueue)
    _answers: dict[tuple[str, int], Future[Any]] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _uploads: list[threading.Thread] = field(default_factory=list)
    _upload_error: BaseException | None = None
    _num_questions: int = 0
    _num_meetings: int = 0

    def answer(self, about: str, index: int, value: Any) -> None:
        """Take an answer of the controller's."""
        if about == "committed":
            self.checkpoint = value
        self._future(about, index).set_result(value)

    def _future(self, about: str, index: int) -> Future[Any]:
        with self._lock:
            return self._answers.setdefault((about, index), Future())

    def _wait_for(self, about: str, index: int) -> Any:
        answer = self._future(about, index).result()
        with self._lock:
            del self._answers[about, index]
        return answer

    def report(
        self, metrics: Metrics, checkpoint: Checkpoint | None, options: ReportOptions
    ) -> None:
        """See `raycompat.train.report`."""
        self._raise_upload_error()
        if options.validation and not self.validates:
            raise ValueError(
                "report(validation=...): the trainer has no function for it. Pass "
                "validation_config=ValidationConfig(fn=...) to the trainer."
            )
        self._check_delete(checkpoint, options)
        index = self.num_reports
        self.num_reports += 1
        has_checkpoint = checkpoint is not None
        self.outbox.put(Reported(index, metrics, has_checkpoint, options.name, options.validation))
        name = self._wait_for("name", index)
        if checkpoint is None:
            return
        if options.mode is CheckpointUploadMode.ASYNC:
            self._save_beside(index, name, checkpoint, options)
            return
        self._save(index, name, checkpoint, options)
        self._wait_for("committed", index)

    def meet(self, function: str, value: object) -> Any:
        """Wait until all ranks have called this; return the value of rank 0."""
        is_first = self.context.world_rank == 0
        call = Met(function, cloudpickle.dumps(value) if is_first else None)
        index = self._num_meetings
        self._num_meetings += 1
        self.outbox.put(call)
        received = self._wait_for("met", index)
        return value if is_first else cloudpickle.loads(received)

    def list_checkpoints(
        self, consistency: str, timeout_s: float | None
    ) -> list[tuple[Checkpoint, Metrics, str]]:
        """Ask the controller for all checkpoints of the run."""
        with self._lock:
            index = self._num_questions
            self._num_questions += 1
        answer: Future[list[tuple[Checkpoint, Metrics, str]]]
        answer = self._future("checkpoints", index)
        self.outbox.put(Asked(index, self.num_reports, consistency))
        try:
            return answer.result(timeout_s)
        except TimeoutError:  # then without the checkpoints that are not ready
            answer = self._future("checkpoints_now", index)
            self.outbox.put(Asked(index, 0, "now"))
            return answer.result()

    def _check_delete(self, checkpoint: Checkpoint | None, options: ReportOptions) -> None:
        if not options.delete or checkpoint is None:
            return
        if Path(self.folder.path).is_relative_to(Path(checkpoint.path)):
            raise ValueError(
                f"delete_local_checkpoint_after_upload: {checkpoint.path} contains the run's folder "
                f"{self.folder.path}, which would be deleted with it. Save checkpoints in a separate "
                "folder."
            )

    def _save(self, index: int, name: str, checkpoint: Checkpoint, options: ReportOptions) -> None:
        elsewhere = None
        if options.upload is not None:
            elsewhere = options.upload(checkpoint, name)
            if not isinstance(elsewhere, Checkpoint):
                raise ValueError(
                    f"checkpoint_upload_fn returned {elsewhere!r}: expected a train.Checkpoint."
                )
        elif options.mode is CheckpointUploadMode.NO_UPLOAD:
            elsewhere = checkpoint
        else:
            with checkpoint.as_directory() as source:
                self.folder.stage(name).receive(source)
        if options.delete:
            checkpoint._folder.delete()
        self.outbox.put(Saved(index, elsewhere))

    def _save_beside(
        self, index: int, name: str, checkpoint: Checkpoint, options: ReportOptions
    ) -> None:
        """Save in a thread, after the saves that are in progress."""
        before = self._uploads[-1] if self._uploads else None

        def save() -> None:
            if before is not None:
                before.join()
            try:
                self._save(index, name, checkpoint, options)
            except BaseException as error:  # raised by the next report, or at the end
                self._upload_error = error

        thread = threading.Thread(target=save, name=f"upload-{name}", daemon=True)
        self._uploads.append(thread)
        thread.start()

    def _raise_upload_error(self) -> None:
        if self._upload_error is not None:
            raise self._upload_error

    def finish(self) -> None:
        """Wait for the saves in progress; raise their error."""
        for thread in self._uploads:
            thread.join()
        self._raise_upload_error()


@dataclass
class LocalSession:
    """The functions for a training function in the caller's process."""

    context: WorkerContext
    shards: dict[str, object]
    checkpoint: Checkpoint | None = None
    metrics: Metrics | None = None
    #: A checkpoint that the next report takes with it.
    unreported: Checkpoint | None = None
    #: Called with the metrics and the checkpoint of each report.
    on_report: Callable[[Metrics, Checkpoint | None], None] | None = None

    @staticmethod
    def meet(function: str, value: object) -> Any:
        """Return the value: there are no other ranks."""
        return value

    def report(
        self, metrics: Metrics, checkpoint: Checkpoint | None, options: ReportOptions
    ) -> None:
        """Keep the metrics and the checkpoint of the last report."""
        self.metrics = metrics
        self.checkpoint = checkpoint or self.checkpoint
        if self.on_report is not None:
            self.on_report(metrics, checkpoint)


#: The session of this process.
_current: Session | LocalSession | None = None


def enter(session: Session | LocalSession | None) -> None:
    """Make a session that of this process; None: end it."""
    global _current
    _current = session


def is_entered() -> bool:
    """Return whether this process has a session."""
    return _current is not None


def is_for_tune(caller: str) -> bool:
    """Return whether the function of a trial of Tune calls, as in Ray 2.0 to 2.48.

    Raises
    ------
    RuntimeError
        When the chosen version of Ray refuses that.
    """
    if _current is not None:
        return False
    tunes = sys.modules.get("raycompat.tune.trainable.session")
    if tunes is None or not tunes.is_in_trial():
        return False
    forms.used(f"ray.train.{caller} in a trial", refusal=RuntimeError)
    return True


def current(caller: str) -> Session | LocalSession:
    """Return the session of this process.

    Raises
    ------
    RuntimeError
        When this process is not a worker.
    """
    if _current is None:
        raise RuntimeError(
            f"train.{caller}() works in the function that a trainer runs on its workers, not here. "
            "Call it in there, and start it with trainer.fit()."
        )
    return _current
