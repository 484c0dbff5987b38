"""`TorchConfig`: the preparation of workers for PyTorch."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Any, ClassVar

import raycompat as ray
from raycompat._pytorch import imported
from raycompat._surface.modules import names_of
from raycompat.exceptions import RayError
from raycompat.train._worker_group import WorkerGroup
from raycompat.train.backend import Backend, BackendConfig
from raycompat.train.torch import _process_group
from raycompat.train.torch._process_group import Member
from raycompat.train.torch.train_loop_utils import get_device

__all__ = ["TorchConfig"]

_log = logging.getLogger("raycompat.train")

#: Seconds for the end of a process group when training has succeeded; Ray's variable and default.
_SHUTDOWN_S = float(os.environ.get("TORCH_PROCESS_GROUP_SHUTDOWN_TIMEOUT_S", "30"))


@contextmanager
def _on_device() -> Iterator[None]:
    """Make this worker's first GPU the current device of the thread that trains."""
    torch = imported("raycompat.train.torch")
    if torch.cuda.is_available():
        device = get_device()
        if device.type == "cuda":
            torch.cuda.set_device(device)
    yield


@dataclass
class TorchConfig(BackendConfig):
    """Connect the workers in a process group of ``torch.distributed``.

    Each worker also gets the variables that PyTorch's own launcher sets: ``MASTER_ADDR``,
    ``MASTER_PORT``, ``RANK``, ``WORLD_SIZE``, ``LOCAL_RANK``, ``LOCAL_WORLD_SIZE`` and ``NODE_RANK``.

    Parameters
    ----------
    backend : str, optional
        The library that sends the tensors: ``"gloo"``, ``"nccl"``, or another that
        ``torch.distributed.init_process_group`` takes. By default nccl for workers with GPUs, and
        gloo for others.
    init_method : {"env", "tcp"}, default "env"
        Whether the workers find rank 0 by the variables, or by its address.
    timeout_s : int, default 1800
        Seconds within which all workers must join the group, and take part in each operation.

    Raises
    ------
    ValueError
        When `init_method` is not one of the two.

    Examples
    --------
    >>> from raycompat.train.torch import TorchConfig
    >>> config = TorchConfig(backend="gloo", timeout_s=120)

    Notes
    -----
    Ray source: ``ray.train.torch.TorchConfig``, 2.60.0. Differs: an invalid `init_method` is an error
    at once; gloo uses the network interface of the node's address unless ``GLOO_SOCKET_IFNAME`` is
    set; no TPUs.
    """

    backend: str | None = None
    init_method: str = "env"
    timeout_s: int = 1800

    def __post_init__(self) -> None:
        if self.init_method not in _process_group.INIT_METHODS:
            raise ValueError(f"init_method={self.init_method!r}: expected 'env' or 'tcp'.")

    @property
    def backend_cls(self) -> type[Backend]:
        return _TorchBackend

    @property
    def train_func_context(self) -> Callable[[], AbstractContextManager[object]]:
        """A context manager in which this worker's GPU is the current device.

        Examples
        --------
        >>> from raycompat.train.torch import TorchConfig
        >>> enter = TorchConfig().train_func_context
        >>> with enter():
        ...     print("new tensors of CUDA are on this worker's GPU")
        new tensors of CUDA are on this worker's GPU
        """
        return _on_device

    @property
    def framework(self) -> Any:
        return "torch"

    def to_dict(self) -> dict[str, object]:
        """Return the settings."""
        return {
            "backend": self.backend,
            "init_method": self.init_method,
            "timeout_s": self.timeout_s,
        }


class _TorchBackend(Backend):
    """Sets `TorchConfig` up."""

    #: NCCL finds the GPUs of its peers on a node only if their processes see them.
    share_cuda_visible_devices: ClassVar[bool] = True

    def on_start(self, worker_group: WorkerGroup, backend_config: TorchConfig) -> None:
        """Let rank 0 choose a port, and all join the group."""
        has_gpus = worker_group.get_resources_per_worker().get("GPU", 0) > 0
        backend = backend_config.backend or ("nccl" if has_gpus else "gloo")
        if backend == "nccl":
            _check_one_gpu_each(worker_group)
        host, size = worker_group.workers[0].place.node_ip, len(worker_group)
        port = worker_group.execute_single(
            0, _process_group.listen, host, size, backend_config.timeout_s
        )
        refs = [
            worker_group.execute_single_async(
                worker.rank,
                _process_group.join,
                Member(
                    host=host,
                    port=port,
                    rank=worker.rank,
                    size=size,
                    local_rank=worker.local_rank,
                    local_size=worker.local_size,
                    node_rank=worker.node_rank,
                ),
                backend,
                backend_config.init_method,
                backend_config.timeout_s,
            )
            for worker in worker_group.workers
        ]
        ray.get(refs)  # raises as soon as one has failed, although the others still wait for it

    def on_shutdown(self, worker_group: WorkerGroup, backend_config: TorchConfig) -> None:
        """Destroy the group. The run has succeeded, whatever happens: the processes are killed next."""
        try:
            ray.get(worker_group.execute_async(_process_group.leave), timeout=_SHUTDOWN_S)
        except RayError as error:
            _log.warning("The process group of PyTorch could not be destroyed in order: %s", error)


def _check_one_gpu_each(worker_group: WorkerGroup) -> None:
    """Raise if two workers use one GPU, which NCCL refuses only in its first operation."""
    users: dict[tuple[str, str], list[int]] = {}
    for worker in worker_group.workers:
        for gpu in worker.place.gpu_ids[:1]:
            users.setdefault((worker.place.node_id, gpu), []).append(worker.rank)
    shared = [ranks for ranks in users.values() if len(ranks) > 1]
    if shared:
        raise ValueError(
            f"The backend nccl needs one GPU for each worker, and the workers {shared[0]} have the "
            "same one. Give each worker a whole GPU, or choose gloo: TorchConfig(backend='gloo')."
        )


#: Names of older Rays.
__getattr__ = names_of(__name__)
