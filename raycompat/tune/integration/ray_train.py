"""`TuneReportCallback`: reports of a trainer that runs in a trial become reports of the trial."""

from __future__ import annotations

from typing import TYPE_CHECKING

from raycompat.train import UserCallback
from raycompat.tune.trainable import session

if TYPE_CHECKING:
    from raycompat.train import Checkpoint
    from raycompat.tune.trainable.nested import Metrics

__all__ = ["TuneReportCallback"]

#: The metric with the path of the checkpoint that the workers reported.
CHECKPOINT_PATH_KEY = "checkpoint_path"


class TuneReportCallback(UserCallback):
    """Report the metrics of rank 0 to Tune, for a trainer that the function of a trial runs.

    Metrics of a report with a checkpoint get the path of its folder, as ``checkpoint_path``; the
    checkpoint stays in the folder of the trainer's run.

    Raises
    ------
    RuntimeError
        When no trial runs in this process.

    Examples
    --------
    The trainer's workers have their own resources, beside those of the trial::

        def train_driver(config):
            trainer = TensorflowTrainer(
                train_loop,
                train_loop_config=config,
                scaling_config=ScalingConfig(num_workers=2),
                run_config=RunConfig(
                    name=f"train-{tune.get_context().get_trial_id()}",
                    callbacks=[TuneReportCallback()],
                ),
            )
            trainer.fit()


        tune.Tuner(
            train_driver, param_space={"lr": tune.grid_search([0.1, 0.01])}
        ).fit()

    Notes
    -----
    Ray source: ``ray.tune.integration.ray_train.TuneReportCallback``, 2.60.0. Differs from Ray: the
    training continues after Tune's decision on the report; when Tune stops the trial, `fit` ends and
    its workers with it.
    """

    def __init__(self) -> None:
        if not session.is_in_trial():
            raise RuntimeError(
                "TuneReportCallback() works in the function of a trial, and no trial runs in this "
                "process: make the trainer in a function, and pass the function to tune.Tuner(...)."
            )

    def after_report(
        self,
        run_context: object,
        metrics: list[Metrics],
        checkpoint: Checkpoint | None,
    ) -> None:
        """Report the metrics of rank 0 to Tune."""
        result = dict(metrics[0])
        if checkpoint is not None:
            result[CHECKPOINT_PATH_KEY] = checkpoint.path
        session.report(result)
