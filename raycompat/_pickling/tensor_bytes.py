"""PyTorch's tensors in values: those on a GPU travel as bytes, and land where the reader may use a GPU.

PyTorch's own pickle copies a CUDA tensor to pageable memory, into the pickle, and on reading always to
``cuda:N``. Here the bytes are copied through pinned memory in pieces, straight into the segment of the
value (`DeviceBytes`). A reader that has no GPU of its own gets a CPU tensor: a CUDA context would take
half a GiB of a GPU that the process was not given.

This module does not import PyTorch before a value contains a tensor.
"""

from __future__ import annotations

import os
import pickle
import sys
from collections.abc import Iterator
from typing import Any, TypeAlias

#: A tensor or an array of PyTorch, CuPy or JAX, or a buffer of one: none of them need be installed.
Tensor: TypeAlias = Any

#: With the value "gpu", CUDA tensors land on the GPU in every process, as in Ray.
VARIABLE = "RAYCOMPAT_CUDA_TENSORS"

#: Bytes of each of the two pinned buffers: large enough for the full speed of the bus.
_PIECE_BYTES = 32 << 20

#: The libraries of arrays, by the names of their classes and the packages of these.
_LIBRARIES = {
    "Tensor": {"torch": "torch"},
    "ndarray": {"cupy": "cupy"},
    "ArrayImpl": {"jaxlib": "jax", "jax": "jax"},
}

#: Whether the calls of this process were given GPUs.
_was_given_gpus = False


def note_gpus(gpus: bool) -> None:
    """Note whether the call of this process was given GPUs."""
    global _was_given_gpus
    _was_given_gpus = gpus


def may_use_gpu() -> bool:
    """Return whether this process has a GPU: it was given one, or has initialised CUDA itself."""
    import torch

    is_wanted = (
        _was_given_gpus
        or os.environ.get(VARIABLE, "").lower() == "gpu"
        or torch.cuda.is_initialized()
    )
    return bool(is_wanted and torch.cuda.is_available())


def is_tensor(value: object) -> bool:
    """Return whether a value is a tensor of PyTorch, and not of a subclass. Imports nothing."""
    return library_of(value) == "torch"


def library_of(value: object) -> str | None:
    """Return the library of a tensor or an array that may be on a GPU; None for other values."""
    kind = type(value)
    libraries = _LIBRARIES.get(kind.__name__)
    return None if libraries is None else libraries.get(kind.__module__.partition(".")[0])


def is_plain(tensor: Tensor) -> bool:
    """Return whether the elements of a tensor say all about it, besides its type and shape."""
    torch = sys.modules["torch"]
    return bool(
        tensor.layout is torch.strided
        and not tensor.is_quantized
        and tensor.device.type in ("cpu", "cuda")
        and not tensor.is_conj()
        and not tensor.is_neg()
    )


class DeviceBytes:
    """The bytes of a CUDA tensor, as a part of a block that is written in pieces."""

    def __init__(self, tensor: object) -> None:
        self._flat = _flat(tensor)
        self.nbytes: int = self._flat.numel()

    def pieces(self) -> Iterator[memoryview]:
        """Yield the bytes in pieces; each is valid until the next one.

        While the caller writes one piece, the GPU copies the next one into the other pinned buffer.
        """
        torch = sys.modules["torch"]
        size = min(_PIECE_BYTES, self.nbytes)
        starts = range(0, self.nbytes, size or 1)
        device = self._flat.device
        buffers = [torch.empty(size, dtype=torch.uint8, pin_memory=True) for _ in range(2)]
        with torch.cuda.device(device):
            stream = torch.cuda.Stream(device)
            stream.wait_stream(torch.cuda.current_stream(device))

            def begin(number: int) -> Tensor:
                start = starts[number]
                part = self._flat[start : start + size]
                with torch.cuda.stream(stream):
                    buffers[number % 2][: len(part)].copy_(part, non_blocking=True)
                    return stream.record_event(), len(part)

            coming = [begin(0)] if starts else []
            for number in range(len(starts)):
                event, length = coming.pop()
                if number + 1 < len(starts):
                    coming.append(begin(number + 1))
                event.synchronize()
                yield memoryview(buffers[number % 2][:length].numpy())


def pieces_of(part: Tensor) -> Iterator[memoryview]:
    """Yield the bytes of a part of a block."""
    if isinstance(part, DeviceBytes):
        yield from part.pieces()
    else:
        yield memoryview(part).cast("B") if not isinstance(part, bytes) else memoryview(part)


def _flat(tensor: Tensor) -> Tensor:
    """Return the elements as a contiguous array of bytes on the tensor's device."""
    torch = sys.modules["torch"]
    return tensor.detach().contiguous().reshape(-1).view(torch.uint8)


class Reducer:
    """The default for tensors in a value: those on a GPU are reduced to their bytes.

    Their buffers are placeholders, whose memory is never touched; `real` returns what is to be written.
    """

    #: Whether the bytes are written beside the pickle.
    is_out_of_band = True
    #: Where the tensors land: "default" as described above, "cpu" or "cuda".
    place = "default"
    #: What is to be written for the placeholders, by their addresses. None until there is one: each
    #: value has a reducer, and hardly any value has a tensor.
    _real: dict[int, DeviceBytes] | None = None

    def reduce(self, tensor: Tensor, library: str) -> object:
        """Reduce a tensor of PyTorch on a GPU; leave others to their libraries."""
        is_ours = library == "torch" and tensor.is_cuda and is_plain(tensor)
        return self.to_bytes(tensor) if is_ours else NotImplemented

    def to_bytes(self, tensor: Tensor) -> Tensor:
        """Reduce a plain tensor to its bytes, its type, its shape and its device."""
        import numpy as np

        buffer: Tensor
        if not tensor.is_cuda:
            buffer = _flat(tensor).numpy()
        else:
            source = DeviceBytes(tensor)
            buffer = np.empty(source.nbytes, np.uint8)
            if self.is_out_of_band and source.nbytes:
                self._real = self._real or {}
                self._real[buffer.ctypes.data] = source
            else:
                start = 0
                for piece in source.pieces():
                    buffer[start : start + len(piece)] = piece
                    start += len(piece)
        kind = str(tensor.dtype).removeprefix("torch.")
        index = tensor.device.index if tensor.is_cuda else None
        about = (kind, tuple(tensor.shape), index, tensor.requires_grad, self.place)
        return from_bytes, (pickle.PickleBuffer(buffer), *about)

    def real(self, view: memoryview) -> memoryview | DeviceBytes:
        """Return what is to be written for a buffer of the pickle."""
        if not self._real or not view.nbytes:
            return view
        import numpy as np

        return self._real.get(np.frombuffer(view, np.uint8).ctypes.data, view)


class InBandReducer(Reducer):
    """Reduces tensors on a GPU to their bytes inside the pickle. It has no state."""

    is_out_of_band = False


def from_bytes(
    buffer: Tensor,
    kind: str,
    shape: tuple[int, ...],
    index: int | None,
    requires_grad: bool,
    place: str = "default",
) -> Tensor:
    """Return a tensor from its bytes. `index` is that of its GPU; None for a CPU tensor."""
    import numpy as np
    import torch

    from raycompat._host.warm_memory import copy_array

    source = np.frombuffer(buffer, np.uint8)
    device = _device(index, place)
    tensor = torch.empty(shape, dtype=getattr(torch, kind), device=device)
    if len(source):
        flat = tensor.reshape(-1).view(torch.uint8)
        if device.type == "cpu":
            copy_array(source, flat.numpy())  # copied, because a tensor can be written to
        else:
            _copy_to_gpu(source, flat)
    return tensor.requires_grad_(requires_grad)


def _device(index: int | None, place: str) -> Tensor:
    """Return the device on which a tensor lands here."""
    import torch

    if place == "cuda":
        if not torch.cuda.is_available():
            raise RuntimeError(
                "A tensor shall land on a GPU, but this process has none. Give the actor a GPU, for "
                "example .options(num_gpus=1), or use device='default', which keeps it on the CPU here."
            )
    elif place == "cpu" or index is None or not may_use_gpu():
        return torch.device("cpu")
    is_known = index is not None and index < torch.cuda.device_count()
    return torch.device("cuda", index if is_known else torch.cuda.current_device())


def _copy_to_gpu(source: Tensor, target: Tensor) -> None:
    """Copy bytes to a GPU in pieces, through two pinned buffers."""
    import torch

    from raycompat._host.warm_memory import copy_array

    size = min(_PIECE_BYTES, len(source))
    buffers = [torch.empty(size, dtype=torch.uint8, pin_memory=True) for _ in range(2)]
    free: list[Tensor] = [None, None]
    with torch.cuda.device(target.device):
        for number, start in enumerate(range(0, len(source), size)):
            piece = source[start : start + size]
            which = number % 2
            if free[which] is not None:
                free[which].synchronize()
            pinned = buffers[which][: len(piece)]
            copy_array(piece, pinned.numpy())
            target[start : start + len(piece)].copy_(pinned, non_blocking=True)
            free[which] = torch.cuda.current_stream(target.device).record_event()
