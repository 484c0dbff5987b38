"""The options of compiled graphs that concern tensors and GPUs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from raycompat.dag.context import DAGContext
from raycompat.exceptions import UnsupportedRayFeatureError

_REASON = "compiled graphs have no communicators: actors copy tensors from each other's memory"

#: Today's name of a transport or device, by the names that Ray accepts.
_TRANSPORTS = {"auto": "auto", "shm": "shm", "nccl": "accelerator", "accelerator": "accelerator"}
_DEVICES = {"default": "default", "cpu": "cpu", "gpu": "cuda", "cuda": "cuda"}


@dataclass(frozen=True)
class TensorTransport:
    """How the tensors in the value of a node travel, and where they land.

    Attributes
    ----------
    name : str
        ``"auto"``: through the memory of the GPU where all readers can use it, otherwise through that
        of the host. ``"shm"``: always through the memory of the host. ``"accelerator"``: as "auto",
        between actors with GPUs.
    device : str
        ``"default"``, ``"cpu"`` or ``"cuda"``.
    is_static : bool
        Whether types and shapes of the tensors must be those of the first execution.
    is_direct : bool
        Whether the value must be a tensor itself.
    """

    name: str
    device: str
    is_static: bool = False
    is_direct: bool = False

    @property
    def may_use_gpu(self) -> bool:
        """Whether tensors may go through the memory of a GPU."""
        return self.name != "shm" and self.device != "cpu"


def check_options(
    buffer_size_bytes: int | None, overlap: bool | None, default_communicator: Any
) -> None:
    """Check the options of `DAGNode.experimental_compile` without which its graphs work."""
    context = DAGContext.get_current()
    size = context.buffer_size_bytes if buffer_size_bytes is None else buffer_size_bytes
    if not isinstance(size, int) or size <= 0:
        raise ValueError(f"_buffer_size_bytes={size!r}: expected a number of bytes above 0.")
    if isinstance(default_communicator, str) and default_communicator != "create":
        raise ValueError(
            f'_default_communicator={default_communicator!r}: the only text that is valid is "create".'
        )
    if default_communicator is not None and not isinstance(default_communicator, str):
        if not hasattr(default_communicator, "initialize"):
            raise ValueError(
                f'_default_communicator={default_communicator!r}: expected "create" or None.'
            )
        raise UnsupportedRayFeatureError(
            "experimental_compile(_default_communicator=...)", _REASON, "leave it out"
        )
    if context.overlap_gpu_communication if overlap is None else overlap:
        raise UnsupportedRayFeatureError(
            "experimental_compile(_overlap_gpu_communication=True)", _REASON, "leave it out"
        )


def tensor_transport(
    transport: Any, device: Any, static_shape: bool, direct_return: bool
) -> TensorTransport:
    """Check the arguments of `DAGNode.with_tensor_transport`, and return what they mean."""
    if device not in _DEVICES:
        raise ValueError(f"device={device!r}: expected 'default', 'cpu', 'gpu' or 'cuda'.")
    if not isinstance(transport, str) and hasattr(transport, "initialize"):
        raise UnsupportedRayFeatureError(
            f"with_tensor_transport({transport!r})", _REASON, "use 'auto' or 'accelerator'"
        )
    if transport not in _TRANSPORTS:
        raise ValueError(
            f"transport={transport!r}: expected 'auto', 'shm', 'nccl' or 'accelerator'."
        )
    found = TensorTransport(_TRANSPORTS[transport], _DEVICES[device], static_shape, direct_return)
    if found.name == "accelerator" and found.device == "cpu":
        raise ValueError(
            f"transport={transport!r} sends tensors from GPU to GPU, so device='cpu' does not go with "
            "it. Use transport='shm'."
        )
    return found
