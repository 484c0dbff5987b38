"""`TensorflowTrainer`: a training function with TensorFlow, on many workers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from raycompat._surface import forms
from raycompat.train._checkpoint import Checkpoint
from raycompat.train._configs import RunConfig, ScalingConfig
from raycompat.train._data_config import DataConfig
from raycompat.train._report_options import ValidationConfig
from raycompat.train.data_parallel_trainer import DataParallelTrainer
from raycompat.train.tensorflow.config import TensorflowConfig

if TYPE_CHECKING:
    from raycompat.train._types import Config

__all__ = ["TensorflowTrainer"]


@forms.takes_old_options_in_constructor("ray.train.tensorflow.TensorflowTrainer")
class TensorflowTrainer(DataParallelTrainer):
    """Runs a training function with TensorFlow on many workers, which are connected to each other.

    Each worker is a fresh process with the variable ``TF_CONFIG``, so that
    ``tf.distribute.MultiWorkerMirroredStrategy()`` connects it to the others. Such a strategy trains
    with Keras 2, which the worker gets as ``tf.keras``; with Keras 3 use
    `raycompat.train.tensorflow.keras.DistributedOptimizer`.

    Parameters
    ----------
    train_loop_per_worker : callable
        The function for each worker; it takes no argument, or `train_loop_config`.
    train_loop_config : dict, optional
        The function's argument.
    tensorflow_config : TensorflowConfig, optional
        How the workers are made ready.
    scaling_config, dataset_config, run_config, datasets, resume_from_checkpoint, validation_config
        As in `DataParallelTrainer`.
    metadata : dict, optional
        Not supported.
    tensorflow_backend : TensorflowConfig, optional
        The name of `tensorflow_config` in older guides.

    Examples
    --------
    >>> import json, os, tempfile
    >>> from raycompat import train
    >>> from raycompat.train.tensorflow import TensorflowTrainer
    >>> def addresses():
    ...     return len(json.loads(os.environ["TF_CONFIG"])["cluster"]["worker"])
    >>> TensorflowTrainer(
    ...     addresses,
    ...     scaling_config=train.ScalingConfig(num_workers=2),
    ...     run_config=train.RunConfig(storage_path=tempfile.mkdtemp()),
    ... ).fit().return_value
    2

    Notes
    -----
    Ray source: ``ray.train.tensorflow.TensorflowTrainer``, 2.60.0. Differs: see `TensorflowConfig` and
    `DataParallelTrainer`.
    """

    _backend_option = "tensorflow_config"

    def __init__(
        self,
        train_loop_per_worker: Callable[..., object],
        *,
        train_loop_config: Config | None = None,
        tensorflow_config: TensorflowConfig | None = None,
        scaling_config: ScalingConfig | None = None,
        dataset_config: DataConfig | None = None,
        run_config: RunConfig | None = None,
        datasets: Mapping[str, object] | None = None,
        validation_config: ValidationConfig | None = None,
        metadata: Mapping[str, object] | None = None,
        resume_from_checkpoint: Checkpoint | None = None,
        tensorflow_backend: TensorflowConfig | None = None,
    ) -> None:
        if tensorflow_config is not None and tensorflow_backend is not None:
            raise ValueError(
                "tensorflow_config and tensorflow_backend are two names of one option: pass "
                "tensorflow_config."
            )
        super().__init__(
            train_loop_per_worker,
            train_loop_config=train_loop_config,
            backend_config=tensorflow_config or tensorflow_backend or TensorflowConfig(),
            scaling_config=scaling_config,
            dataset_config=dataset_config,
            run_config=run_config,
            datasets=datasets,
            metadata=metadata,
            resume_from_checkpoint=resume_from_checkpoint,
            validation_config=validation_config,
        )


TensorflowTrainer.__module__ = "raycompat.train.tensorflow"
