"""Tensors as flat numpy arrays that share their memory."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from raycompat.util.collective.types import ReduceOp

#: A flat array; any dtype of numbers.
Array: TypeAlias = NDArray[Any]

#: ``op(a, b, out=c)``.
Reduction: TypeAlias = Callable[..., Any]

_REDUCTIONS: dict[ReduceOp, Reduction] = {
    ReduceOp.SUM: np.add,
    ReduceOp.PRODUCT: np.multiply,
    ReduceOp.MIN: np.minimum,
    ReduceOp.MAX: np.maximum,
}


def reduction(op: ReduceOp) -> Reduction:
    """Return numpy's function for a reduction."""
    try:
        return _REDUCTIONS[op]
    except (KeyError, TypeError):
        names = ", ".join(f"ReduceOp.{each.name}" for each in ReduceOp)
        raise ValueError(f"{op!r} is not a reduction: give one of {names}.") from None


def check_tensor(tensor: Any) -> None:
    """Raise for anything but a numpy array or a torch tensor in this host's memory."""
    if isinstance(tensor, np.ndarray):
        if tensor.dtype.hasobject or tensor.dtype.names or tensor.dtype.kind in "SUmM":
            raise TypeError(
                f"Arrays of dtype {tensor.dtype} have no numbers to combine or send. Give an array of "
                "integers, floating point or complex numbers, or booleans."
            )
        return
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(tensor, torch.Tensor):
        if tensor.device.type not in ("cpu", "cuda"):
            raise RuntimeError(
                f"A tensor on {tensor.device} cannot take part: groups work with tensors in CPU memory "
                "and on CUDA's devices. Call tensor.cpu() first."
            )
        return
    hint = "call .numpy() first, " if hasattr(tensor, "numpy") else ""
    raise RuntimeError(
        f"Unrecognized tensor type {type(tensor)}: give a numpy.ndarray or a torch.Tensor ({hint}and "
        "use the array that the operation has filled)."
    )


def _is_on_gpu(tensor: Any) -> bool:
    return not isinstance(tensor, np.ndarray) and tensor.device.type == "cuda"


def _pinned(tensor: Any) -> Any:
    """Return a copy of a tensor on a GPU in pinned memory, which the GPU copies at full speed."""
    torch = sys.modules["torch"]
    copy = torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=torch.cuda.is_available())
    return copy.copy_(tensor.detach())


def _as_array(tensor: Any) -> Array:
    """Return an array with the tensor's memory; of a tensor on a GPU, an array with a copy."""
    if isinstance(tensor, np.ndarray):
        return tensor
    array: Array = (_pinned(tensor) if _is_on_gpu(tensor) else tensor.detach()).numpy()
    return array


def readable(tensor: Any) -> Array:
    """Return a tensor's values, flat; a copy if they are not contiguous in memory."""
    return np.ascontiguousarray(_as_array(tensor)).reshape(-1)


@contextlib.contextmanager
def writable(tensor: Any) -> Iterator[Array]:
    """Give a tensor's values, flat; changes in the block are in the tensor afterwards.

    Raises
    ------
    ValueError
        When the array is read-only, like those that `get` returns.
    """
    if _is_on_gpu(tensor):
        host = _pinned(tensor)
        yield host.numpy().reshape(-1)
        tensor.detach().copy_(host)
        return
    array = _as_array(tensor)
    if not array.flags.writeable:
        raise ValueError(
            "The operation stores its result in the array that it is given, and this one is read-only, "
            "as arrays from ray.get are. Give it a copy: array.copy()."
        )
    if array.flags.c_contiguous:
        yield array.reshape(-1)
    else:
        flat = np.ascontiguousarray(array).reshape(-1)
        yield flat
        array[...] = flat.reshape(array.shape)


def parts_of(array: Array, num_parts: int) -> list[Array]:
    """Cut a flat array into parts of equal length; the last ones may be shorter or empty."""
    length = -(-len(array) // num_parts)
    return [array[rank * length : (rank + 1) * length] for rank in range(num_parts)]


def as_bytes(array: Array) -> memoryview:
    """Return the memory of a flat array."""
    return array.view(np.uint8).data if array.size else memoryview(bytearray())


def describe(array: Any) -> str:
    """Return dtype and shape as text, which the ranks compare."""
    values = _as_array(array[:0] if _is_on_gpu(array) and array.ndim else array)
    if _is_on_gpu(array):
        return f"{values.dtype} {list(array.shape)}"
    return f"{values.dtype} {list(values.shape)}"
