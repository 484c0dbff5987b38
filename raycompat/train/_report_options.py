"""The options of `report`, and the descriptions of reported checkpoints."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any, Protocol

from raycompat.train._checkpoint import Checkpoint

if TYPE_CHECKING:
    from raycompat.train._types import Metrics


class CheckpointUploadMode(Enum):
    """When `report` copies a checkpoint to the run's folder.

    Examples
    --------
    >>> from raycompat.train import CheckpointUploadMode
    >>> [mode.name for mode in CheckpointUploadMode]
    ['ASYNC', 'SYNC', 'NO_UPLOAD']
    >>> CheckpointUploadMode.ASYNC.default_delete_local_checkpoint_after_upload()
    True
    """

    #: In parallel to the training: `report` returns at once.
    ASYNC = "ASYNC"
    #: Before `report` returns.
    SYNC = "SYNC"
    #: Not at all: the checkpoint stays where it is.
    NO_UPLOAD = "NO_UPLOAD"

    def default_delete_local_checkpoint_after_upload(self) -> bool:
        """Return whether the original is deleted by default."""
        return self is CheckpointUploadMode.ASYNC


class CheckpointConsistencyMode(Enum):
    """The event for which `get_all_reported_checkpoints` waits.

    Examples
    --------
    >>> from raycompat import train
    >>> [mode.name for mode in train.CheckpointConsistencyMode]
    ['COMMITTED', 'VALIDATED']
    """

    #: That all reports so far are written.
    COMMITTED = "COMMITTED"
    #: And validated, if validation was requested.
    VALIDATED = "VALIDATED"


class ReportedCheckpointStatus(Enum):
    """The progress of a checkpoint.

    Examples
    --------
    >>> from raycompat import train
    >>> train.ReportedCheckpointStatus.VALIDATED.name
    'VALIDATED'
    """

    COMMITTED = "COMMITTED"
    PENDING_VALIDATION = "PENDING_VALIDATION"
    VALIDATED = "VALIDATED"
    VALIDATION_TIMEOUT = "VALIDATION_TIMEOUT"
    VALIDATION_FAILED = "VALIDATION_FAILED"


@dataclass
class ReportedCheckpoint:
    """A checkpoint of the run, with its metrics.

    Attributes
    ----------
    checkpoint : Checkpoint
        The checkpoint.
    metrics : dict
        The metrics of its report, and of its validation.
    status : ReportedCheckpointStatus
        The progress of the checkpoint.

    Examples
    --------
    >>> import tempfile
    >>> from raycompat import train
    >>> from raycompat.train.data_parallel_trainer import DataParallelTrainer
    >>> def learn():
    ...     for loss in (0.5, 0.25):
    ...         checkpoint = train.Checkpoint(tempfile.mkdtemp())
    ...         train.report({"loss": loss}, checkpoint=checkpoint)
    ...     reported = train.get_all_reported_checkpoints()
    ...     paths = {each.checkpoint.path for each in reported}
    ...     found = [(each.metrics["loss"], each.status.name) for each in reported]
    ...     return len(paths), found
    >>> result = DataParallelTrainer(
    ...     learn, run_config=train.RunConfig(storage_path=tempfile.mkdtemp())
    ... ).fit()
    >>> result.return_value
    (2, [(0.5, 'COMMITTED'), (0.25, 'COMMITTED')])
    """

    checkpoint: Checkpoint
    metrics: Metrics
    status: ReportedCheckpointStatus


class ValidationFn(Protocol):
    """A function that takes a checkpoint, and returns metrics for it."""

    def __call__(self, checkpoint: Checkpoint, **kwargs: Any) -> Metrics:
        """Validate a checkpoint."""


@dataclass
class ValidationTaskConfig:
    """The settings of one validation.

    Parameters
    ----------
    fn_kwargs : dict, optional
        Arguments of the function, by name.
    timeout_s : float, optional
        Seconds that it may take, more than 0. By default any number.

    Examples
    --------
    >>> from raycompat import train
    >>> def validate(checkpoint, rows):
    ...     return {"accuracy": 0.9}
    >>> config = train.ValidationConfig(
    ...     validate,
    ...     train.ValidationTaskConfig(fn_kwargs={"rows": 100}, timeout_s=600),
    ... )
    """

    fn_kwargs: dict[str, object] | None = None
    timeout_s: float | None = None

    def __post_init__(self) -> None:
        self.fn_kwargs = self.fn_kwargs or {}
        if self.timeout_s is not None and self.timeout_s <= 0:
            raise AssertionError(
                f"timeout_s={self.timeout_s!r}: expected more than 0 seconds, or None."
            )


class ValidationConfig:
    """The validation of checkpoints in parallel to the training.

    Parameters
    ----------
    fn : callable
        Takes the checkpoint and the arguments of `task_config`; returns metrics.
    task_config : ValidationTaskConfig, optional
        The settings of a validation whose report has none.
    ray_remote_kwargs : dict, optional
        Options of the remote function that is made from `fn`.

    Examples
    --------
    >>> import tempfile
    >>> from raycompat import train
    >>> from raycompat.train.data_parallel_trainer import DataParallelTrainer
    >>> def validate(checkpoint, scale=1):
    ...     return {"score": scale * checkpoint.get_metadata()["value"]}
    >>> def save():
    ...     with tempfile.TemporaryDirectory() as folder:
    ...         checkpoint = train.Checkpoint(folder)
    ...         checkpoint.set_metadata({"value": 2})
    ...         settings = train.ValidationTaskConfig(fn_kwargs={"scale": 10})
    ...         train.report(
    ...             {"loss": 0.5}, checkpoint=checkpoint, validation=settings
    ...         )
    >>> trainer = DataParallelTrainer(
    ...     save,
    ...     run_config=train.RunConfig(storage_path=tempfile.mkdtemp()),
    ...     validation_config=train.ValidationConfig(validate),
    ... )
    >>> ((checkpoint, metrics),) = trainer.fit().best_checkpoints
    >>> metrics
    {'loss': 0.5, 'score': 20}
    """

    def __init__(
        self,
        fn: ValidationFn | Callable[..., Metrics],
        task_config: ValidationTaskConfig | None = None,
        ray_remote_kwargs: dict[str, Any] | None = None,
    ) -> None:
        self.fn = fn
        self.task_config = task_config or ValidationTaskConfig()
        self.ray_remote_kwargs = ray_remote_kwargs or {}


for _class in (
    CheckpointUploadMode,
    CheckpointConsistencyMode,
    ReportedCheckpointStatus,
    ReportedCheckpoint,
    ValidationFn,
    ValidationTaskConfig,
    ValidationConfig,
):
    _class.__module__ = "raycompat.train"
