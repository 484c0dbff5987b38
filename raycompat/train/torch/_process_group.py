"""A worker's part of the process group, in the worker's process.

Rank 0 listens at a port that the kernel chooses, and only then tells the others; so no two groups of a
machine try the same port. PyTorch connects to the *store* at the port when the group is initialized. In
rank 0 it would start a store of its own there. It takes the one that listens already, because both are
``multi_tenant``.
"""

from __future__ import annotations

import os
import socket
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import psutil

import raycompat as ray
from raycompat._pytorch import imported

if TYPE_CHECKING:
    import torch

INIT_METHODS = ("env", "tcp")

#: The variable with the name of the network interface that gloo uses.
_INTERFACE = "GLOO_SOCKET_IFNAME"

#: Rank 0's store, until the group has it.
_store: Any = None


@dataclass(frozen=True)
class Member:
    """A worker's place in the group.

    Attributes
    ----------
    host, port : str, int
        Where rank 0 listens.
    rank, size, local_rank, local_size, node_rank : int
        The worker's numbers.
    """

    host: str
    port: int
    rank: int
    size: int
    local_rank: int
    local_size: int
    node_rank: int

    @property
    def variables(self) -> dict[str, str]:
        """The environment variables that PyTorch and libraries on it read."""
        return {
            "MASTER_ADDR": self.host,
            "MASTER_PORT": str(self.port),
            "RANK": str(self.rank),
            "WORLD_SIZE": str(self.size),
            "LOCAL_RANK": str(self.local_rank),
            "LOCAL_WORLD_SIZE": str(self.local_size),
            "NODE_RANK": str(self.node_rank),
        }

    def url(self, init_method: str) -> str:
        """Return how PyTorch finds rank 0."""
        if init_method == "env":
            return "env://"
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"tcp://{host}:{self.port}"


def _distributed() -> Any:
    torch = imported("raycompat.train.torch")
    if not torch.distributed.is_available():
        raise RuntimeError(
            "This build of PyTorch has no torch.distributed, which connects workers. Install one that "
            "has it, or train with DataParallelTrainer."
        )
    return torch.distributed


def listen(host: str, size: int, timeout_s: float) -> int:
    """Listen for the members of the group, in rank 0; return the port."""
    global _store
    _store = _distributed().TCPStore(
        host,
        0,
        size,
        is_master=True,
        timeout=timedelta(seconds=timeout_s),
        wait_for_workers=False,
        multi_tenant=True,
    )
    return int(_store.port)


def join(member: Member, backend: str, init_method: str, timeout_s: float) -> None:
    """Set the variables, and wait until all members have joined."""
    global _store
    distributed = _distributed()
    check_gpus_exist(devices(), backend)
    os.environ.update(member.variables)
    # Hugging Face Accelerate takes this device.
    os.environ["ACCELERATE_TORCH_DEVICE"] = str(devices()[0])
    interface = interface_of(ray.util.get_node_ip_address())
    if interface is not None:
        os.environ.setdefault(_INTERFACE, interface)
    distributed.init_process_group(
        backend,
        init_method=member.url(init_method),
        rank=member.rank,
        world_size=member.size,
        timeout=timedelta(seconds=timeout_s),
    )
    _store = None  # the group keeps it, and frees the port when it is destroyed


def check_gpus_exist(given: list[torch.device], backend: str = "nccl") -> None:
    """Raise if a machine has fewer GPUs than were declared: CUDA would fail in the program's code.

    On a machine without any, GPUs are numbers, as in Ray. A program can be tried there with gloo, as
    long as it moves nothing to them.
    """
    torch = imported("raycompat.train.torch")
    count = torch.cuda.device_count()
    missing = [each for each in given if each.type == "cuda" and each.index >= count]
    if not missing or (not count and backend != "nccl"):
        return
    advice = (
        "Declare as many as there are, or give workers parts of one: "
        "ScalingConfig(use_gpu=True, resources_per_worker={'GPU': 0.5})."
        if count
        else "Train with ScalingConfig(use_gpu=False). To try the program as it is, use "
        "TorchConfig(backend='gloo'), and move_to_device=False in prepare_model and "
        "prepare_data_loader."
    )
    raise RuntimeError(
        f"This worker was given the GPUs {ray.get_gpu_ids()}, and PyTorch sees {count} GPUs on its "
        "node. The cluster has more GPUs than the machine: they were declared with num_gpus. "
        + advice
    )


def leave() -> None:
    """Destroy the group, unless the program has done that."""
    distributed = _distributed()
    if distributed.is_initialized():
        distributed.destroy_process_group()


def interface_of(address: str) -> str | None:
    """Return the network interface that has an address of this host; None if none has."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    for name, entries in psutil.net_if_addrs().items():
        if any(entry.family is family and entry.address == address for entry in entries):
            return name
    return None


def devices() -> list[torch.device]:
    """Return the devices of this process: its GPUs, or the CPU.

    Raises
    ------
    RuntimeError
        When ``CUDA_VISIBLE_DEVICES`` lacks one of its GPUs.
    """
    torch = imported("raycompat.train.torch")
    gpus = [str(gpu) for gpu in ray.get_gpu_ids()]
    if not gpus:
        return [torch.device("cpu")]
    visible = os.environ.get("CUDA_VISIBLE_DEVICES", "")
    numbers = {gpu: number for number, gpu in enumerate(visible.split(","))}
    hidden = [gpu for gpu in gpus if gpu not in numbers]
    if hidden:
        raise RuntimeError(
            f"CUDA_VISIBLE_DEVICES={visible!r} does not show the GPUs {', '.join(hidden)}, which this "
            "worker has. The trainer sets the variable: remove the code that changes it."
        )
    return [torch.device("cuda", numbers[gpu]) for gpu in gpus]
