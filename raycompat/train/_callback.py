"""`UserCallback`: user code that runs in the process of `fit`, during a run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from raycompat.train._checkpoint import Checkpoint
    from raycompat.train._run import TrainRunContext


class RayTrainCallback:
    """Base class of all callbacks."""


class UserCallback(RayTrainCallback):
    """Inherit from this to be told of reports and failures. Methods that are not overridden do nothing.

    Notes
    -----
    Ray source: ``ray.train.UserCallback``, 2.60.0. Differs: it runs in the process that called `fit`.
    """

    def after_report(
        self,
        run_context: TrainRunContext,
        metrics: list[dict[str, Any]],
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
        """


UserCallback.__module__ = "raycompat.train"
