"""Train with TensorFlow and Keras. TensorFlow itself is imported in the workers alone."""

from raycompat._surface.modules import names_of
from raycompat.train.tensorflow.config import TensorflowConfig
from raycompat.train.tensorflow.tensorflow_checkpoint import TensorflowCheckpoint
from raycompat.train.tensorflow.tensorflow_trainer import TensorflowTrainer
from raycompat.train.tensorflow.train_loop_utils import prepare_dataset_shard

#: Names of older Rays.
__getattr__ = names_of(__name__)

__all__ = [
    "TensorflowCheckpoint",
    "TensorflowConfig",
    "TensorflowTrainer",
    "prepare_dataset_shard",
]
