"""`TorchTrainer`: a training function with PyTorch, on many workers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from raycompat._surface import forms
from raycompat.train._checkpoint import Checkpoint
from raycompat.train._configs import RunConfig, ScalingConfig
from raycompat.train._data_config import DataConfig
from raycompat.train._report_options import ValidationConfig
from raycompat.train.data_parallel_trainer import DataParallelTrainer
from raycompat.train.torch.config import TorchConfig

if TYPE_CHECKING:
    from raycompat.train._types import Config

__all__ = ["TorchTrainer"]


@forms.takes_old_options_in_constructor("ray.train.torch.TorchTrainer")
class TorchTrainer(DataParallelTrainer):
    """Runs a training function with PyTorch on many workers, which are connected to each other.

    Each worker is a fresh process, and a member of the default process group of ``torch.distributed``.
    In the function, `prepare_model` and `prepare_data_loader` make a model and a data loader parallel.

    Parameters
    ----------
    train_loop_per_worker : callable
        The function for each worker; it takes no argument, or `train_loop_config`.
    train_loop_config : dict, optional
        The function's argument.
    torch_config : TorchConfig, optional
        How the workers are connected.
    scaling_config, run_config, datasets, dataset_config, validation_config, resume_from_checkpoint
        As in `DataParallelTrainer`.
    metadata : dict, optional
        Not supported.

    Examples
    --------
    In a program::

        from raycompat import train

        from raycompat.train.torch import (
            TorchTrainer,
            prepare_data_loader,
            prepare_model,
        )


        def train_model(config):
            model = prepare_model(Network())
            optimizer = torch.optim.SGD(model.parameters(), config["learning_rate"])
            loader = prepare_data_loader(
                DataLoader(rows, batch_size=32, shuffle=True)
            )
            for epoch in range(10):
                for x, y in loader:
                    loss = compute_loss(model(x), y)
                    optimizer.zero_grad()
                    loss.backward()
                    optimizer.step()
                train.report({"loss": loss.item()})


        trainer = TorchTrainer(
            train_model,
            train_loop_config={"learning_rate": 0.1},
            scaling_config=train.ScalingConfig(num_workers=2),
        )
        result = trainer.fit()

    Notes
    -----
    Ray source: ``ray.train.torch.TorchTrainer``, 2.60.0. Differs: see `TorchConfig` and
    `DataParallelTrainer`; with ``num_workers=0``, the variables of ``torchrun`` are not read.
    """

    _backend_option = "torch_config"

    def __init__(
        self,
        train_loop_per_worker: Callable[..., object],
        *,
        train_loop_config: Config | None = None,
        torch_config: TorchConfig | None = None,
        scaling_config: ScalingConfig | None = None,
        run_config: RunConfig | None = None,
        datasets: Mapping[str, object] | None = None,
        dataset_config: DataConfig | None = None,
        validation_config: ValidationConfig | None = None,
        metadata: Mapping[str, object] | None = None,
        resume_from_checkpoint: Checkpoint | None = None,
    ) -> None:
        super().__init__(
            train_loop_per_worker,
            train_loop_config=train_loop_config,
            backend_config=torch_config or TorchConfig(),
            scaling_config=scaling_config,
            run_config=run_config,
            datasets=datasets,
            dataset_config=dataset_config,
            validation_config=validation_config,
            metadata=metadata,
            resume_from_checkpoint=resume_from_checkpoint,
        )


TorchTrainer.__module__ = "raycompat.train.torch"
