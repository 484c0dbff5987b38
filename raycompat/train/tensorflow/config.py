"""`TensorflowConfig`: the preparation of workers for TensorFlow."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from raycompat.train._ports import send_addresses
from raycompat.train._worker_group import WorkerGroup
from raycompat.train.backend import Backend, BackendConfig
from raycompat.train.tensorflow import _keras_choice
from raycompat.train.tensorflow._keras_watch import watch_keras

__all__ = ["TensorflowConfig"]


@dataclass
class TensorflowConfig(BackendConfig):
    """Give each worker the variable ``TF_CONFIG``, with the addresses of all, and the right Keras.

    Examples
    --------
    >>> from raycompat.train.data_parallel_trainer import DataParallelTrainer
    >>> from raycompat.train.tensorflow import TensorflowConfig
    >>> config = TensorflowConfig()
    >>> trainer = DataParallelTrainer(lambda: None, backend_config=config)

    Notes
    -----
    Ray source: ``ray.train.tensorflow.TensorflowConfig``, 2.60.0. Differs: ``TF_USE_LEGACY_KERAS`` is
    set before TensorFlow is imported, and only when the program needs it.
    """

    @property
    def backend_cls(self) -> type[Backend]:
        return _TensorflowBackend

    @property
    def framework(self) -> Any:
        return "tensorflow"

    def _variables(self, function: Callable[..., object], given: dict[str, str]) -> dict[str, str]:
        return _keras_choice.choose(function, given)


class _TensorflowBackend(Backend):
    """Sets `TensorflowConfig` up."""

    def on_start(self, worker_group: WorkerGroup, backend_config: Any) -> None:
        """Send the list of workers to each worker."""
        send_addresses(worker_group, _set_up)


def _set_up(addresses: list[str], rank: int) -> None:
    os.environ["TF_CONFIG"] = json.dumps(
        {"cluster": {"worker": addresses}, "task": {"type": "worker", "index": rank}}
    )
    watch_keras()
