"""The functions for use in training functions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from raycompat._old_forms.reports import takes_metrics_as_keywords
from raycompat._recordable import recordable
from raycompat._storage import checked_name
from raycompat._upper import upper
from raycompat.train import _session
from raycompat.train._checkpoint import Checkpoint
from raycompat.train._errors import PreemptionInfo
from raycompat.train._report_options import (
    CheckpointConsistencyMode,
    CheckpointUploadMode,
    ReportedCheckpoint,
    ReportedCheckpointStatus,
    ValidationTaskConfig,
)

if TYPE_CHECKING:
    from raycompat.train._types import Metrics

#: The name of a data set that is not named, and how `get_dataset_shard` finds it.
TRAIN_DATASET_KEY = "train"


@takes_metrics_as_keywords("ray.train.report with metrics as keywords")
def report(
    metrics: Metrics,
    checkpoint: Checkpoint | None = None,
    checkpoint_dir_name: str | None = None,
    checkpoint_upload_mode: CheckpointUploadMode = CheckpointUploadMode.SYNC,
    delete_local_checkpoint_after_upload: bool | None = None,
    checkpoint_upload_fn: Callable[[Checkpoint, str], Checkpoint] | None = None,
    validation: bool | ValidationTaskConfig = False,
) -> None:
    """Report metrics, and optionally a checkpoint. Every rank must call it equally often.

    It waits for the other ranks. Their files go into one folder; if several ranks save a file with the
    same name, one of these files remains.

    Parameters
    ----------
    metrics : dict
        Metrics by name. The run's metrics are those of rank 0.
    checkpoint : Checkpoint, optional
        The checkpoint to keep. Its files are copied into the run's folder.
    checkpoint_dir_name : str, optional
        Name of the target folder; that of rank 0 is used. By default it is made from the time.
    checkpoint_upload_mode : CheckpointUploadMode, default SYNC
        When they are copied.
    delete_local_checkpoint_after_upload : bool, optional
        Whether the original is deleted then. By default with ASYNC.
    checkpoint_upload_fn : callable, optional
        Copies them instead: takes the checkpoint and the name, returns the copy as a `Checkpoint`.
    validation : bool or ValidationTaskConfig, default False
        Whether the trainer's validation function is run on the checkpoint.

    Raises
    ------
    TypeError
        When `metrics` is not a dict, or `checkpoint` not a `Checkpoint`.
    ValueError
        When there is something to be validated, and no checkpoint or no function for it.
    FileNotFoundError
        When the checkpoint's folder is missing.
    OSError
        When there is not enough room for it.
    RuntimeError
        Outside a training function.

    Examples
    --------
    >>> from raycompat import train
    >>> from raycompat.train.data_parallel_trainer import DataParallelTrainer
    >>> def halve():
    ...     loss = 1.0
    ...     for epoch in range(3):
    ...         loss /= 2
    ...         train.report({"epoch": epoch, "loss": loss})
    >>> here = train.ScalingConfig(num_workers=0)
    >>> DataParallelTrainer(halve, scaling_config=here).fit().metrics
    {'epoch': 2, 'loss': 0.125}

    Notes
    -----
    Ray source: ``ray.train.report``, 2.60.0. Differs: a rank that ends while others wait in `report`
    fails the run; in Ray they wait without limit.
    """
    if _session.is_for_tune("report"):
        upper("tune").report(metrics, checkpoint=checkpoint)
        return
    session = _session.current("report")
    checkpoint, session.unreported = checkpoint or session.unreported, None
    if not isinstance(metrics, Mapping):
        raise TypeError(
            f"report({metrics!r}): expected a dict of metrics, for example report({{'loss': 0.5}})."
        )
    if checkpoint is not None and not isinstance(checkpoint, Checkpoint):
        raise TypeError(
            f"report(checkpoint={checkpoint!r}): expected a Checkpoint, for example "
            "Checkpoint.from_directory(path)."
        )
    if validation and checkpoint is None:
        raise ValueError(
            "report(validation=...) needs a checkpoint to validate: pass checkpoint=..."
        )
    delete = delete_local_checkpoint_after_upload
    if delete is None:
        delete = checkpoint_upload_mode.default_delete_local_checkpoint_after_upload()
    options = _session.ReportOptions(
        checkpoint_dir_name, checkpoint_upload_mode, delete, checkpoint_upload_fn, validation
    )
    if checkpoint_dir_name is not None:
        checked_name("report(checkpoint_dir_name", checkpoint_dir_name)
    metrics = recordable(metrics, "train.report")
    plain = {str(name): _plain(value) for name, value in metrics.items()}
    session.report(plain, checkpoint, options)


def _plain(value: object) -> Any:
    """Return a tensor's value as numpy's, so that it can be read where TensorFlow is not imported."""
    if isinstance(value, Mapping):
        return {key: _plain(inner) for key, inner in value.items()}
    as_numpy = getattr(value, "numpy", None)
    if callable(as_numpy):
        value = as_numpy()
    if getattr(value, "ndim", None) == 0 and hasattr(value, "item"):
        return value.item()
    return value


def get_checkpoint() -> Checkpoint | None:
    """Return the last checkpoint: this worker's, or the one from which the run is resumed.

    Returns
    -------
    Checkpoint or None
        None at the start of a new run.

    Examples
    --------
    A run that continues begins where its checkpoint says:

    >>> from raycompat import train
    >>> from raycompat.train.data_parallel_trainer import DataParallelTrainer
    >>> def count():
    ...     found = train.get_checkpoint()
    ...     first = found.get_metadata()["epoch"] + 1 if found else 0
    ...     train.report({"first epoch": first})
    >>> import tempfile
    >>> saved = train.Checkpoint(tempfile.mkdtemp())
    >>> saved.set_metadata({"epoch": 3})
    >>> here = train.ScalingConfig(num_workers=0)
    >>> DataParallelTrainer(count, scaling_config=here).fit().metrics
    {'first epoch': 0}
    >>> DataParallelTrainer(
    ...     count, scaling_config=here, resume_from_checkpoint=saved
    ... ).fit().metrics
    {'first epoch': 4}
    """
    if _session.is_for_tune("get_checkpoint"):
        found: Checkpoint | None = upper("tune").get_checkpoint()
        return found
    return _session.current("get_checkpoint").checkpoint


def get_context() -> Any:
    """Return the worker's description of itself and of its run.

    Returns
    -------
    TrainContext

    Examples
    --------
    >>> import tempfile
    >>> from raycompat import train
    >>> from raycompat.train.data_parallel_trainer import DataParallelTrainer
    >>> def which():
    ...     context = train.get_context()
    ...     return context.get_world_rank(), context.get_world_size()
    >>> trainer = DataParallelTrainer(
    ...     which,
    ...     scaling_config=train.ScalingConfig(num_workers=2),
    ...     run_config=train.RunConfig(storage_path=tempfile.mkdtemp()),
    ... )
    >>> trainer.fit().return_value  # of rank 0
    (0, 2)
    """
    if _session.is_for_tune("get_context"):
        return upper("_old.train.trials").ContextOfTrial()
    return _session.current("get_context").context


def get_dataset_shard(dataset_name: str | None = None) -> Any:
    """Return this worker's part of a data set that the trainer was given.

    Parameters
    ----------
    dataset_name : str, optional
        Its name. By default the only one, or the one named ``"train"``.

    Raises
    ------
    KeyError
        When the trainer was not given a data set of that name.

    Examples
    --------
    >>> import tempfile
    >>> from raycompat import train
    >>> from raycompat.train.data_parallel_trainer import DataParallelTrainer
    >>> def add_up():
    ...     return sum(
    ...         row["id"] for row in train.get_dataset_shard("train").iter_rows()
    ...     )
    >>> trainer = DataParallelTrainer(
    ...     add_up,
    ...     scaling_config=train.ScalingConfig(num_workers=1),
    ...     run_config=train.RunConfig(storage_path=tempfile.mkdtemp()),
    ...     datasets={"train": ray.data.range(10)},
    ... )
    >>> trainer.fit().return_value
    45

    Notes
    -----
    Ray source: ``ray.train.get_dataset_shard``, 2.60.0. Differs: a list is a data set, too.
    """
    shards = _session.current("get_dataset_shard").shards
    name = dataset_name
    if name is None:
        name = next(iter(shards)) if len(shards) == 1 else TRAIN_DATASET_KEY
    if name not in shards:
        raise KeyError(
            f"There is no data set {name!r}. The trainer was given {sorted(shards)}: pass "
            f"datasets={{{name!r}: ...}} to it."
        )
    return shards[name]


def get_all_reported_checkpoints(
    consistency_mode: CheckpointConsistencyMode = CheckpointConsistencyMode.VALIDATED,
    timeout_s: float | None = None,
) -> list[ReportedCheckpoint]:
    """Return all checkpoints of the run that are kept, in the order of `Result.best_checkpoints`.

    Parameters
    ----------
    consistency_mode : CheckpointConsistencyMode, default VALIDATED
        Whether to wait for validations.
    timeout_s : float, optional
        Seconds to wait at most.

    Examples
    --------
    >>> import tempfile
    >>> from raycompat import train
    >>> from raycompat.train.data_parallel_trainer import DataParallelTrainer
    >>> def save_twice():
    ...     for loss in (0.5, 0.25):
    ...         with tempfile.TemporaryDirectory() as folder:
    ...             train.report(
    ...                 {"loss": loss}, checkpoint=train.Checkpoint(folder)
    ...             )
    ...     return [each.metrics for each in train.get_all_reported_checkpoints()]
    >>> trainer = DataParallelTrainer(
    ...     save_twice, run_config=train.RunConfig(storage_path=tempfile.mkdtemp())
    ... )
    >>> trainer.fit().return_value
    [{'loss': 0.5}, {'loss': 0.25}]
    """
    session = _session.current("get_all_reported_checkpoints")
    if isinstance(session, _session.LocalSession):
        return []
    found = session.list_checkpoints(consistency_mode.value, timeout_s)
    return [
        ReportedCheckpoint(checkpoint, metrics, ReportedCheckpointStatus(status))
        for checkpoint, metrics, status in found
    ]


def get_preemption_info() -> PreemptionInfo | None:
    """Return the nodes that are about to be preempted: always None, because there is no notice here.

    Examples
    --------
    >>> import tempfile
    >>> from raycompat import train
    >>> from raycompat.train.data_parallel_trainer import DataParallelTrainer
    >>> result = DataParallelTrainer(
    ...     train.get_preemption_info,
    ...     run_config=train.RunConfig(storage_path=tempfile.mkdtemp()),
    ... ).fit()
    >>> result.return_value is None
    True
    """
    _session.current("get_preemption_info")
    return None


for _function in (
    report,
    get_checkpoint,
    get_context,
    get_dataset_shard,
    get_all_reported_checkpoints,
    get_preemption_info,
):
    _function.__module__ = "raycompat.train"
