"""The callback of Lightning that reports to Train."""

from __future__ import annotations

import os
import shutil
import tempfile
from typing import Any

from raycompat.train import _functions
from raycompat.train._checkpoint import Checkpoint
from raycompat.train._joined import Joined

_CALLBACKS = ("lightning.pytorch.callbacks", "pytorch_lightning.callbacks")


class RayTrainReportCallback(Joined):
    """Report the metrics of Lightning after each epoch of training, with a checkpoint.

    The metrics are those of ``trainer.callback_metrics``, with ``epoch`` and ``step``. The checkpoint
    has one file, ``checkpoint.ckpt``, which ``Trainer.fit(ckpt_path=...)`` takes. `args` and `kwargs`
    are those of Lightning's ``Callback``.

    Examples
    --------
    In the function of a worker, where `ray.train.get_checkpoint` returns the last one::

        trainer = lightning.Trainer(callbacks=[RayTrainReportCallback()], ...)

    Raises
    ------
    ImportError
        When Lightning is not installed.
    """

    _library = (_CALLBACKS, "Callback")
    CHECKPOINT_NAME = "checkpoint.ckpt"

    def on_train_epoch_end(self, trainer: Any, pl_module: Any) -> None:
        """Report; Lightning calls this on each worker."""
        metrics = {name: value.item() for name, value in trainer.callback_metrics.items()}
        metrics |= {"epoch": trainer.current_epoch, "step": trainer.global_step}
        context = _functions.get_context()
        is_first_here = context.get_local_rank() == 0
        own = tempfile.mkdtemp(prefix="checkpoint-") if context.get_world_rank() == 0 else ""
        # All write into a folder of one name: each node has its own, and a sharded model is one folder.
        folder = trainer.strategy.broadcast(own)
        try:
            os.makedirs(folder, exist_ok=True)
            path = os.path.join(folder, self.CHECKPOINT_NAME)
            trainer.save_checkpoint(path, weights_only=False)
            trainer.strategy.barrier()
            has_files = is_first_here and bool(os.listdir(folder))
            checkpoint = Checkpoint.from_directory(folder) if has_files else None
            _functions.report(metrics, checkpoint=checkpoint)
            trainer.strategy.barrier()
        finally:
            if is_first_here:
                shutil.rmtree(folder, ignore_errors=True)
