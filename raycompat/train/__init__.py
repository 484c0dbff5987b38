"""Train models on many processes, with PyTorch, TensorFlow and Keras, or any other library."""

# The life of a run, ``trainer.fit()``:
#
# 1. The trainer binds the training function to its configuration (`data_parallel_trainer`).
# 2. The controller, in the process that called `fit`, reads the run's folder. A run of that name goes
#    on from its last checkpoint (`_controller`, `_run_state`).
# 3. It reserves a placement group and starts an actor for each rank, a fresh process (`_worker_group`,
#    `_worker`), which the backend makes ready for its library (`backend`, `tensorflow.config`,
#    `torch.config`).
# 4. All ranks call the training function (`_attempt`). Their reports are combined rank by rank
#    (`_session`, `_rounds`), and so are calls of `collective` (`_meetings`). A checkpoint is written
#    beside its place and renamed (`raycompat._storage`).
# 5. When a rank raises, dies or hangs (`_health`), all are killed, and a new attempt starts at step 3
#    from the last checkpoint that is complete, as often as `FailureConfig` allows.

from raycompat._surface.modules import names_of
from raycompat.train._callback import UserCallback
from raycompat.train._checkpoint import Checkpoint
from raycompat.train._configs import (
    CheckpointConfig,
    FailureConfig,
    LoggingConfig,
    RunConfig,
    ScalingConfig,
)
from raycompat.train._context import TrainContext
from raycompat.train._data_config import DataConfig
from raycompat.train._errors import (
    ControllerError,
    NCCLHangError,
    PreemptionError,
    PreemptionInfo,
    TrainingFailedError,
    WorkerGroupError,
)
from raycompat.train._functions import (
    TRAIN_DATASET_KEY,
    get_all_reported_checkpoints,
    get_checkpoint,
    get_context,
    get_dataset_shard,
    get_preemption_info,
    report,
)
from raycompat.train._report_options import (
    CheckpointConsistencyMode,
    CheckpointUploadMode,
    ReportedCheckpoint,
    ReportedCheckpointStatus,
    ValidationConfig,
    ValidationFn,
    ValidationTaskConfig,
)
from raycompat.train._result import Result
from raycompat.train._sync_config import SyncConfig
from raycompat.train.backend import BackendConfig

# Programs that import Train or Tune read `ray.util.queue` without another import.
from raycompat.util import queue as _queue  # noqa: F401

#: Names of older Rays.
__getattr__ = names_of(__name__)

__all__ = [
    "TRAIN_DATASET_KEY",
    "BackendConfig",
    "Checkpoint",
    "CheckpointConfig",
    "CheckpointConsistencyMode",
    "CheckpointUploadMode",
    "ControllerError",
    "DataConfig",
    "FailureConfig",
    "LoggingConfig",
    "NCCLHangError",
    "PreemptionError",
    "PreemptionInfo",
    "ReportedCheckpoint",
    "ReportedCheckpointStatus",
    "Result",
    "RunConfig",
    "ScalingConfig",
    "SyncConfig",
    "TrainContext",
    "TrainingFailedError",
    "UserCallback",
    "ValidationConfig",
    "ValidationFn",
    "ValidationTaskConfig",
    "WorkerGroupError",
    "get_all_reported_checkpoints",
    "get_checkpoint",
    "get_context",
    "get_dataset_shard",
    "get_preemption_info",
    "report",
]
