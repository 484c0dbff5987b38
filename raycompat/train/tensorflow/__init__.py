"""Train with TensorFlow and Keras. TensorFlow itself is imported in the workers alone."""

from raycompat.train.tensorflow.config import TensorflowConfig
from raycompat.train.tensorflow.tensorflow_checkpoint import TensorflowCheckpoint
from raycompat.train.tensorflow.tensorflow_trainer import TensorflowTrainer
from raycompat.train.tensorflow.train_loop_utils import prepare_dataset_shard

__all__ = [
    "TensorflowCheckpoint",
    "TensorflowConfig",
    "TensorflowTrainer",
    "prepare_dataset_shard",
]
