"""Why a run has failed."""

from __future__ import annotations

from dataclasses import dataclass

from raycompat.exceptions import RayError


class TrainingFailedError(RayError):
    """The error that `fit` raises when a run has failed.

    Examples
    --------
    >>> import tempfile
    >>> from raycompat import train
    >>> from raycompat.train.data_parallel_trainer import DataParallelTrainer
    >>> def fail():
    ...     raise ValueError("no rows")
    >>> try:
    ...     DataParallelTrainer(
    ...         fail, run_config=train.RunConfig(storage_path=tempfile.mkdtemp())
    ...     ).fit()
    ... except train.TrainingFailedError as error:
    ...     print(type(error).__name__, error.worker_failures)
    WorkerGroupError {0: ValueError('no rows')}
    """


class WorkerGroupError(TrainingFailedError):
    """Workers have failed more often than `FailureConfig` allows.

    Parameters
    ----------
    error_message : str
        For each failed rank its node, its process and its traceback.
    worker_failures : dict of int to Exception
        The exception of each failed rank, or how its process ended.

    Examples
    --------
    >>> import tempfile
    >>> from raycompat import train
    >>> from raycompat.train.data_parallel_trainer import DataParallelTrainer
    >>> def fail():
    ...     raise ValueError("no such file")
    >>> run_config = train.RunConfig(storage_path=tempfile.mkdtemp())
    >>> try:
    ...     DataParallelTrainer(fail, run_config=run_config).fit()
    ... except train.WorkerGroupError as error:
    ...     for rank, cause in error.worker_failures.items():
    ...         print(rank, repr(cause))
    0 ValueError('no such file')
    """

    def __init__(self, error_message: str, worker_failures: dict[int, Exception]) -> None:
        super().__init__(error_message)
        self._error_message = error_message
        self.worker_failures = worker_failures

    def __reduce__(self) -> tuple[type, tuple[str, dict[int, Exception]]]:
        return type(self), (self._error_message, self.worker_failures)


class NCCLHangError(WorkerGroupError):
    """A collective of GPUs hangs. Never raised here."""


class ControllerError(TrainingFailedError):
    """A run has failed outside of its workers: they cannot be placed, or its folder not be written.

    Parameters
    ----------
    controller_failure : Exception
        Why.

    Examples
    --------
    >>> from raycompat import train
    >>> error = train.ControllerError(OSError("the disk is full"))
    >>> error.controller_failure
    OSError('the disk is full')
    """

    def __init__(self, controller_failure: Exception) -> None:
        super().__init__(f"The run failed outside of its workers:\n{controller_failure}")
        self.controller_failure = controller_failure
        self.with_traceback(controller_failure.__traceback__)

    def __reduce__(self) -> tuple[type, tuple[Exception]]:
        return type(self), (self.controller_failure,)


@dataclass(frozen=True)
class PreemptionInfo:
    """The nodes that are about to be preempted.

    Attributes
    ----------
    deadline_ms : int or None
        When, in milliseconds since 1970.
    preempted_node_to_ranks : dict
        For each node's id the list of its ranks.

    Examples
    --------
    >>> from raycompat.train import PreemptionInfo
    >>> PreemptionInfo(None, {"a node": [0, 1]}).preempted_ranks
    [0, 1]
    >>> info = PreemptionInfo(1_700_000_000_000, {"node b": [2], "node a": [0, 1]})
    >>> info.preempted_node_ids, info.preempted_node_to_ranks["node a"]
    (['node a', 'node b'], [0, 1])
    >>> from datetime import UTC, datetime
    >>> str(datetime.fromtimestamp(info.deadline_ms / 1000, UTC))
    '2023-11-14 22:13:20+00:00'

    Notes
    -----
    Ray source: ``ray.train.PreemptionInfo``, 2.60.0. raycompat gets no notice of such nodes.
    """

    deadline_ms: int | None
    preempted_node_to_ranks: dict[str, list[int]]

    @property
    def preempted_node_ids(self) -> list[str]:
        """The nodes, sorted."""
        return sorted(self.preempted_node_to_ranks)

    @property
    def preempted_ranks(self) -> list[int]:
        """The ranks on them, sorted."""
        return sorted({rank for ranks in self.preempted_node_to_ranks.values() for rank in ranks})


class PreemptionError(TrainingFailedError):
    """Nodes have been taken away. Never raised here: see `WorkerGroupError`.

    Parameters
    ----------
    preemption_info : PreemptionInfo
        Which.
    drain_timed_out : bool
        Whether workers did not end in time.
    """

    def __init__(self, preemption_info: PreemptionInfo, drain_timed_out: bool = False) -> None:
        self.preemption_info = preemption_info
        self.drain_timed_out = drain_timed_out
        super().__init__(
            f"The nodes of ranks {preemption_info.preempted_ranks} were taken away "
            f"(in time: {not drain_timed_out})."
        )

    def __reduce__(self) -> tuple[type, tuple[PreemptionInfo, bool]]:
        return type(self), (self.preemption_info, self.drain_timed_out)


for _class in (
    TrainingFailedError,
    WorkerGroupError,
    NCCLHangError,
    ControllerError,
    PreemptionInfo,
    PreemptionError,
):
    _class.__module__ = "raycompat.train"
