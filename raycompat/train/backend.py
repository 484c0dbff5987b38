"""`Backend` and `BackendConfig`: the preparation of a group of workers for a library."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any, ClassVar

from raycompat._surface.modules import names_of
from raycompat.train._worker_group import WorkerGroup
from raycompat.util._shown import as_table

__all__ = ["Backend", "BackendConfig"]


class BackendConfig:
    """Inherit from this to set up the workers for a library.

    Examples
    --------
    >>> import os, tempfile
    >>> from raycompat import train
    >>> from raycompat.train.backend import Backend
    >>> from raycompat.train.data_parallel_trainer import DataParallelTrainer
    >>> def set_language():
    ...     os.environ["LANGUAGE"] = "en"
    >>> class LanguageBackend(Backend):
    ...     def on_start(self, worker_group, backend_config):
    ...         worker_group.execute(set_language)
    >>> class LanguageConfig(train.BackendConfig):
    ...     @property
    ...     def backend_cls(self):
    ...         return LanguageBackend
    >>> DataParallelTrainer(
    ...     lambda: os.environ["LANGUAGE"],
    ...     backend_config=LanguageConfig(),
    ...     run_config=train.RunConfig(storage_path=tempfile.mkdtemp()),
    ... ).fit().return_value
    'en'
    """

    @property
    def backend_cls(self) -> type[Backend]:
        """The class that does it.

        Examples
        --------
        >>> from raycompat.train import torch
        >>> backend = torch.TorchConfig().backend_cls
        >>> backend.share_cuda_visible_devices
        True
        """
        return Backend

    @property
    def train_func_context(self) -> Callable[[], AbstractContextManager[object]]:
        """A context manager that the training function runs in.

        Examples
        --------
        >>> from raycompat import train
        >>> with train.BackendConfig().train_func_context():
        ...     print("the training function runs")
        the training function runs
        """
        return nullcontext

    @property
    def framework(self) -> Any:
        """The library, where Train knows it.

        Examples
        --------
        >>> from raycompat import train
        >>> from raycompat.train.tensorflow import TensorflowConfig
        >>> TensorflowConfig().framework, train.BackendConfig().framework
        ('tensorflow', None)
        """
        return None

    def to_dict(self) -> dict[str, object]:
        """Return the settings.

        Examples
        --------
        >>> from raycompat.train.torch import TorchConfig
        >>> TorchConfig(backend="gloo").to_dict()
        {'backend': 'gloo', 'init_method': 'env', 'timeout_s': 1800}
        """
        return {}

    def _variables(self, function: Callable[..., object], given: dict[str, str]) -> dict[str, str]:
        """Return environment variables for the start of the workers' processes.

        Parameters
        ----------
        function : callable
            The training function.
        given : dict of str to str
            The user's variables for the workers.
        """
        return {}

    def _repr_html_(self) -> str:
        return as_table(type(self).__name__, self.to_dict())


class Backend:
    """Inherit from this to run code around the training function.

    Attributes
    ----------
    share_cuda_visible_devices : bool
        Whether each worker sees the GPUs of all workers on its node.

    Examples
    --------
    >>> from raycompat.train.backend import Backend
    >>> class Timed(Backend):
    ...     def on_start(self, worker_group, backend_config):
    ...         print("the workers are ready")
    ...
    ...     def on_training_start(self, worker_group, backend_config):
    ...         print("training begins")
    ...
    ...     def on_shutdown(self, worker_group, backend_config):
    ...         print("training has ended")

    `BackendConfig` shows how a trainer gets it.
    """

    share_cuda_visible_devices: ClassVar[bool] = False
    has_replica_groups: ClassVar[bool] = False

    def on_start(self, worker_group: WorkerGroup, backend_config: Any) -> None:
        """Run when the workers' processes are there."""

    def on_shutdown(self, worker_group: WorkerGroup, backend_config: Any) -> None:
        """Run before the workers' processes are ended."""

    def on_training_start(self, worker_group: WorkerGroup, backend_config: Any) -> None:
        """Run when the workers are about to call the training function."""


BackendConfig.__module__ = "raycompat.train"


#: Names of older Rays.
__getattr__ = names_of(__name__)
