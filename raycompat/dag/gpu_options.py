"""The options of compiled graphs that concern GPUs: what is valid, and what is refused."""

from __future__ import annotations

from typing import Any

from raycompat.dag.context import DAGContext
from raycompat.exceptions import UnsupportedRayFeatureError

_REASON = "compiled graphs send values through the memory of the CPU"


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


def check_transport(transport: Any, device: Any) -> None:
    """Check the arguments of `DAGNode.with_tensor_transport`."""
    if device not in ("default", "cpu", "gpu", "cuda"):
        raise ValueError(
            f"device={device!r}: expected 'default', 'cpu', or 'gpu' or 'cuda', which are refused."
        )
    is_communicator = hasattr(transport, "initialize") and not isinstance(transport, str)
    if transport not in ("auto", "shm", "nccl", "accelerator") and not is_communicator:
        raise ValueError(
            f"transport={transport!r}: expected 'auto' or 'shm'; 'nccl' and 'accelerator' are refused."
        )
    if is_communicator or transport in ("nccl", "accelerator"):
        raise UnsupportedRayFeatureError(
            f"with_tensor_transport({transport!r})", _REASON, "use 'auto' or 'shm'"
        )
    if device in ("gpu", "cuda"):
        raise UnsupportedRayFeatureError(
            f"with_tensor_transport(device={device!r})",
            _REASON,
            "use 'default', and move tensors to the GPU in the method",
        )
