"""The memory of CUDA tensors, which another process of the host opens without a copy (CUDA IPC)."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from raycompat._pickling import tensor_bytes
from raycompat._pickling.tensor_bytes import Tensor

#: A reader counts down in shared memory of this name when it is done. PyTorch expects exactly one
#: reader, so readers are given a name that does not exist, which PyTorch ignores.
_NO_COUNTER = b"/raycompat-has-no-counter"

#: Addresses of memory that another process owns. PyTorch cannot hand it over once more.
_foreign: set[int] = set()

# A forked process has opened nothing.
os.register_at_fork(after_in_child=_foreign.clear)


@dataclass(slots=True)
class GpuMemory:
    """The memory of a CUDA tensor, for processes that can use the same GPU."""

    #: The UUID of the GPU.
    gpu: str
    #: Arguments of PyTorch's ``_new_shared_cuda`` after the device.
    handle: tuple[Any, ...]
    kind: str
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int
    requires_grad: bool


def share(tensor: Tensor) -> tuple[GpuMemory, Callable[[], object]] | None:
    """Let other processes open the memory of a tensor; None where CUDA cannot.

    Return what they open, and what this process must call when it drops the tensor. The tensor must
    live until the last process has closed its memory.
    """
    import torch

    gpu = gpu_of(tensor)
    storage = tensor.untyped_storage()
    if gpu is None or storage.data_ptr() in _foreign:
        return None
    try:
        _, *handle = storage._share_cuda_()
    except RuntimeError:  # memory of a kind that cannot be opened elsewhere
        return None
    counter, number, index = handle[3], handle[4], tensor.device.index

    def release() -> None:
        # PyTorch keeps the memory until a reader has released it. There may be no reader or several, so
        # this process does the release.
        torch.UntypedStorage._release_ipc_counter(counter, number, device=index)

    memory = GpuMemory(
        gpu,
        tuple(handle),
        str(tensor.dtype).removeprefix("torch."),
        tuple(tensor.shape),
        tensor.stride(),
        tensor.storage_offset(),
        tensor.requires_grad,
    )
    return memory, release


def opened(memory: GpuMemory, device: int, owner: object) -> Tensor:
    """Return a tensor in the memory of another process, which keeps it as long as `owner` exists."""
    import torch

    handle, size, offset, _, _, *event = memory.handle
    arguments = (handle, size, offset, _NO_COUNTER, 0, *event)
    with torch.cuda.device(device):
        storage = torch.UntypedStorage._new_shared_cuda(device, *arguments)
        flat = torch.as_tensor(_Opened(storage, owner), device=torch.device("cuda", device))
    tensor = flat.view(getattr(torch, memory.kind))
    tensor = tensor.as_strided(memory.shape, memory.strides, memory.offset)
    return tensor.requires_grad_(memory.requires_grad)


def copied(memory: GpuMemory) -> Tensor:
    """Return a copy of a tensor of another process; when this returns, the copy is complete."""
    import torch

    device = device_of(memory.gpu)
    if device is None:
        raise RuntimeError(
            f"A tensor came by the memory of the GPU {memory.gpu}, which this process no longer sees. "
            "Do not change CUDA_VISIBLE_DEVICES in an actor of a compiled graph."
        )
    with torch.cuda.device(device):
        copy = opened(memory, device, None).detach().clone()
        torch.cuda.current_stream().synchronize()
    return copy.requires_grad_(memory.requires_grad)


class _Opened:
    """The opened memory of another process. Tensors in it keep this object, which keeps the owner."""

    def __init__(self, storage: Tensor, owner: object) -> None:
        self._storage = storage
        self._owner = owner
        self._address = storage.data_ptr()
        _foreign.add(self._address)

    @property
    def __cuda_array_interface__(self) -> dict[str, object]:
        """The memory as bytes, in CUDA's common form."""
        return {
            "shape": (self._storage.nbytes(),),
            "typestr": "|u1",
            "data": (self._address, False),
            "version": 2,
        }

    def __del__(self) -> None:
        _foreign.discard(self._address)


def gpu_of(tensor: Tensor) -> str | None:
    """Return the UUID of a tensor's GPU; None on the CPU, or where PyTorch is too old to say it."""
    return _uuid(tensor.device.index) if tensor.is_cuda else None


def device_of(gpu: str) -> int | None:
    """Return the number of a GPU in this process, by its UUID; None if the process has no use of it."""
    found = usable()
    return found.index(gpu) if gpu in found else None


def usable() -> list[str | None]:
    """Return the UUIDs of the GPUs that this process may use, in the order of their numbers."""
    if not tensor_bytes.may_use_gpu():
        return []
    import torch

    return [_uuid(number) for number in range(torch.cuda.device_count())]


def _uuid(device: int) -> str | None:
    import torch

    found = getattr(torch.cuda.get_device_properties(device), "uuid", None)
    return None if found is None else str(found)
