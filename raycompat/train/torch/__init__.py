"""Train with PyTorch. PyTorch itself is imported in the workers alone."""

from raycompat._surface.modules import names_of
from raycompat.train.torch.config import TorchConfig
from raycompat.train.torch.torch_checkpoint import TorchCheckpoint
from raycompat.train.torch.torch_trainer import TorchTrainer
from raycompat.train.torch.train_loop_utils import (
    accelerate,
    backward,
    enable_reproducibility,
    get_device,
    get_devices,
    prepare_data_loader,
    prepare_model,
    prepare_optimizer,
)

#: Names of older Rays.
__getattr__ = names_of(__name__)

__all__ = [
    "TorchCheckpoint",
    "TorchConfig",
    "TorchTrainer",
    "accelerate",
    "backward",
    "enable_reproducibility",
    "get_device",
    "get_devices",
    "prepare_data_loader",
    "prepare_model",
    "prepare_optimizer",
]
