"""`UserCallback`: user code that runs in the process of `fit`, during a run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from raycompat.train._configs import RayTrainCallback

if TYPE_CHECKING:
    from raycompat.train._checkpoint import Checkpoint
    from raycompat.train._run import TrainRunContext
    from raycompat.train._types import Metrics


class UserCallback(RayTrainCallback):
    """Inherit from this to be told of reports and failures. Methods that are not overridden do nothing.

    Examples
    --------
    >>> import tempfile
    >>> from raycompat import train
    >>> from raycompat.train.data_parallel_trainer import DataParallelTrainer
    >>> class Printer(train.UserCallback):
    ...     def after_report(self, run_context, metrics, checkpoint):
    ...         print("loss of each rank:", [each["loss"] for each in metrics])
    >>> def learn():
    ...     train.report({"loss": 0.5 + train.get_context().get_world_rank()})
    >>> trainer = DataParallelTrainer(
    ...     learn,
    ...     scaling_config=train.ScalingConfig(num_workers=2),
    ...     run_config=train.RunConfig(
    ...         storage_path=tempfile.mkdtemp(), callbacks=[Printer()]
    ...     ),
    ... )
    >>> result = trainer.fit()
    loss of each rank: [0.5, 1.5]

    Notes
    -----
    Ray source: ``ray.train.UserCallback``, 2.60.0. Differs: it runs in the process that called `fit`.
    """

    def after_report(
        self,
        run_context: TrainRunContext,
        metrics: list[Metrics],
        checkpoint: Checkpoint | None,
    ) -> None:
        """Handle a report.

        Parameters
        ----------
        run_context : TrainRunContext
            The configurations of the run.
        metrics : list of dict
            The metrics of each rank, in the order of ranks.
        checkpoint : Checkpoint or None
            The common checkpoint of all ranks.
        """

    def after_exception(
        self, run_context: TrainRunContext, worker_exceptions: dict[int, Exception]
    ) -> None:
        """Handle a failure.

        Parameters
        ----------
        run_context : TrainRunContext
            The configurations of the run.
        worker_exceptions : dict of int to Exception
            The exception of each failed rank, or how its process ended.

        Examples
        --------
        >>> class Alarm(train.UserCallback):
        ...     def after_exception(self, run_context, worker_exceptions):
        ...         print("failed ranks:", sorted(worker_exceptions))
        >>> config = train.RunConfig(callbacks=[Alarm()])
        """


UserCallback.__module__ = "raycompat.train"
