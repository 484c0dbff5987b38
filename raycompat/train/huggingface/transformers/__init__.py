"""Train with a ``transformers.Trainer``. Transformers is imported when it is first needed."""

from raycompat.train.huggingface.transformers._trainer import (
    RayTrainReportCallback,
    prepare_trainer,
)

__all__ = ["RayTrainReportCallback", "prepare_trainer"]
