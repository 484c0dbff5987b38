"""`XGBoostTrainer`: a training function with XGBoost, on many workers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from raycompat._old_forms.packages import require
from raycompat._surface import forms
from raycompat.train._boosting import refuse_parameters, takes_parameters
from raycompat.train._checkpoint import Checkpoint
from raycompat.train._configs import RunConfig, ScalingConfig
from raycompat.train._data_config import DataConfig
from raycompat.train._report_options import ValidationConfig
from raycompat.train.data_parallel_trainer import DataParallelTrainer
from raycompat.train.xgboost._callback import RayTrainReportCallback
from raycompat.train.xgboost.config import XGBoostConfig

if TYPE_CHECKING:
    from raycompat.train._types import Config

__all__ = ["XGBoostTrainer"]

_NAME = "ray.train.xgboost.XGBoostTrainer"


class XGBoostTrainer(DataParallelTrainer):
    """Runs a training function with XGBoost on many workers, which build one model together.

    Each worker calls ``xgboost.train`` with its part of the rows.

    Parameters
    ----------
    train_loop_per_worker : callable
        The function for each worker; it takes no argument, or `train_loop_config`.
    train_loop_config : dict, optional
        The function's argument.
    xgboost_config : XGBoostConfig, optional
        How the workers are connected.
    scaling_config, run_config, datasets, dataset_config, validation_config, resume_from_checkpoint
        As in `DataParallelTrainer`.
    metadata : dict, optional
        Not supported.
    label_column : str, optional
        Without a function, as until Ray 2.48: the column that is predicted.
    params : dict, optional
        Without a function: the parameters of ``xgboost.train``. Other keywords of that function
        are taken too.
    num_boost_round : int, optional
        Without a function: how many rounds, 10 by default.

    Raises
    ------
    ImportError
        When XGBoost is not installed.
    DeprecationWarning
        When parameters of XGBoost come with a function.

    Examples
    --------
    In a program with XGBoost::

        from raycompat import train
        from raycompat.train.xgboost import RayTrainReportCallback, XGBoostTrainer


        def train_trees(config):
            rows = train.get_dataset_shard("train").materialize().to_pandas()
            matrix = xgboost.DMatrix(rows.drop(columns="y"), label=rows["y"])
            xgboost.train(
                {"objective": "reg:squarederror"},
                matrix,
                evals=[(matrix, "train")],
                callbacks=[RayTrainReportCallback()],
            )


        trainer = XGBoostTrainer(
            train_trees,
            datasets={"train": dataset},
            scaling_config=train.ScalingConfig(num_workers=2),
        )
        result = trainer.fit()
        model = RayTrainReportCallback.get_model(result.checkpoint)

    Notes
    -----
    Ray source: ``ray.train.xgboost.XGBoostTrainer``, 2.60.0. Differs: the form without a function still
    works; see `DataParallelTrainer`.
    """

    _backend_option = "xgboost_config"
    _also_searched: ClassVar[dict[str, str]] = {"params": "train_loop_config"}

    @takes_parameters(_NAME)
    @forms.takes_old_options(_NAME)
    def __init__(
        self,
        train_loop_per_worker: Callable[..., object],
        *,
        train_loop_config: Config | None = None,
        xgboost_config: XGBoostConfig | None = None,
        scaling_config: ScalingConfig | None = None,
        run_config: RunConfig | None = None,
        datasets: Mapping[str, object] | None = None,
        dataset_config: DataConfig | None = None,
        validation_config: ValidationConfig | None = None,
        metadata: Mapping[str, object] | None = None,
        resume_from_checkpoint: Checkpoint | None = None,
        label_column: str | None = None,
        params: dict[str, Any] | None = None,
        num_boost_round: int | None = None,
    ) -> None:
        require("xgboost", "XGBoostTrainer")
        refuse_parameters(
            "XGBoostTrainer",
            label_column=label_column,
            params=params,
            num_boost_round=num_boost_round,
        )
        super().__init__(
            train_loop_per_worker,
            train_loop_config=train_loop_config,
            backend_config=xgboost_config or XGBoostConfig(),
            scaling_config=scaling_config,
            run_config=run_config,
            datasets=datasets,
            dataset_config=dataset_config,
            validation_config=validation_config,
            metadata=metadata,
            resume_from_checkpoint=resume_from_checkpoint,
        )

    @classmethod
    def get_model(cls, checkpoint: Checkpoint) -> Any:
        """Return the model of a checkpoint, as until Ray 2.48.

        Parameters
        ----------
        checkpoint : Checkpoint
            For example ``Result.checkpoint``.
        """
        forms.used(f"{_NAME}.get_model", refusal=DeprecationWarning)
        return RayTrainReportCallback.get_model(checkpoint)


XGBoostTrainer.__module__ = "raycompat.train.xgboost"
