"""The callback of Transformers that reports to Train, and trainers over data sets of Ray."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from raycompat._old_forms.packages import require
from raycompat._pytorch import imported
from raycompat.data.iterator import Again
from raycompat.data.torch import to_iterable_dataset
from raycompat.train import _functions, collective
from raycompat.train._checkpoint import Checkpoint
from raycompat.train._joined import Joined

if TYPE_CHECKING:
    from transformers import Trainer, TrainerControl, TrainerState, TrainingArguments

    from raycompat.train._types import Metrics


class RayTrainReportCallback(Joined):
    """Report what a ``transformers.Trainer`` has logged, whenever it saves a checkpoint.

    The metrics are the last value of each that it has logged since the last report. The checkpoint has
    its files in the folder ``checkpoint``. How often it logs and saves, `TrainingArguments` say.

    Examples
    --------
    In the function of a worker::

        trainer.add_callback(RayTrainReportCallback())
        trainer = prepare_trainer(trainer)
        trainer.train()

    Raises
    ------
    ImportError
        When Transformers is not installed.

    Notes
    -----
    Ray source: ``ray.train.huggingface.transformers.RayTrainReportCallback``, 2.60.0. No known
    difference.
    """

    _library = (("transformers.trainer_callback",), "TrainerCallback")
    CHECKPOINT_NAME = "checkpoint"

    def __init__(self) -> None:
        super().__init__()
        self.metrics: Metrics = {}

    def on_log(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        model: object = None,
        logs: Metrics | None = None,
        **_: object,
    ) -> None:
        """Keep the metrics for the next report; Transformers calls this."""
        self.metrics.update(logs or {})

    def on_save(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: object
    ) -> None:
        """Report with the checkpoint that was saved just now; Transformers calls this."""
        collective.barrier()  # each worker has written its files
        metrics, self.metrics = self.metrics, {}
        saved = require("transformers.trainer_utils", "RayTrainReportCallback").get_last_checkpoint(
            args.output_dir
        )
        if saved is None or _functions.get_context().get_local_rank() != 0:
            _functions.report(metrics)
            return
        with tempfile.TemporaryDirectory(prefix="checkpoint-") as folder:
            shutil.copytree(saved, os.path.join(folder, self.CHECKPOINT_NAME))
            _functions.report(metrics, checkpoint=Checkpoint.from_directory(folder))


def prepare_trainer(trainer: Trainer) -> Trainer:
    """Let a ``transformers.Trainer`` take its batches from ``iter_torch_batches`` of a data set.

    Parameters
    ----------
    trainer : transformers.Trainer
        Its `train_dataset` and `eval_dataset` may be what ``iter_torch_batches`` returns. Such data
        sets are already batches, and already the share of this worker.

    Returns
    -------
    transformers.Trainer
        The same object.

    Examples
    --------
    In the function of a worker::

        shard = ray.train.get_dataset_shard("train")
        batches = shard.iter_torch_batches(batch_size=8)
        arguments = TrainingArguments(output_dir, max_steps=100)
        trainer = prepare_trainer(Trainer(model, arguments, train_dataset=batches))

    Raises
    ------
    ImportError
        When Transformers or PyTorch is not installed.
    """
    base = type(trainer)

    def get_train_dataloader(self: Any) -> Any:
        if isinstance(self.train_dataset, Again):
            return _loader(self.train_dataset)
        return base.get_train_dataloader(self)

    def get_eval_dataloader(self: Any, eval_dataset: Any = None) -> Any:
        chosen = self.eval_dataset if eval_dataset is None else eval_dataset
        return (
            _loader(chosen) if isinstance(chosen, Again) else base.get_eval_dataloader(self, chosen)
        )

    methods = {
        "get_train_dataloader": get_train_dataloader,
        "get_eval_dataloader": get_eval_dataloader,
    }
    trainer.__class__ = type(base.__name__, (base,), {**methods, "__module__": base.__module__})
    return trainer


def _loader(batches: Iterable[object]) -> Any:
    """Return a ``DataLoader`` that yields these batches as they are."""
    loader = imported("prepare_trainer").utils.data.DataLoader
    return loader(to_iterable_dataset(batches), batch_size=None)
