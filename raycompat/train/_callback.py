"""`UserCallback`: code of the user's that runs beside a run, where `fit` was called."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from raycompat.train._checkpoint import Checkpoint
    from raycompat.train._run import TrainRunContext


class RayTrainCallback:
    """What all callbacks inherit from."""


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
        """Take a report in.

        Parameters
        ----------
        run_context : TrainRunContext
            The configurations of the run.
        metrics : list of dict
            What each rank has reported, in the order of ranks.
        checkpoint : Checkpoint or None
            What they have saved together.
        """

    def after_exception(
        self, run_context: TrainRunContext, worker_exceptions: dict[int, Exception]
    ) -> None:
        """Take a failure in.

        Parameters
        ----------
        run_context : TrainRunContext
            The configurations of the run.
        worker_exceptions : dict of int to Exception
            What each failed rank has raised, or how its process ended.
        """


UserCallback.__module__ = "raycompat.train"
