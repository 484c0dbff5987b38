"""The tensors in the values of compiled graphs: which go through the memory of the host, which not.

A tensor on a GPU that all readers of the value can use is *lent*: its actor copies it to memory that
the readers open (CUDA IPC). Each reader copies it too, and then frees it with a message. So the actor
may change its own tensor at once, and a reader keeps its copy when the graph has ended. All others are
written to the memory of the host, without PyTorch's pickle.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

from raycompat._pickling import tensor_bytes
from raycompat._protocol import gpu_memory
from raycompat.dag.gpu_options import TensorTransport


class Loan:
    """Copies of the tensors of one value, until its readers have copied them too."""

    def __init__(self) -> None:
        self._tensors: list[Any] = []
        self._releases: list[Callable[[], object]] = []

    def add(self, tensor: Any) -> gpu_memory.GpuMemory | None:
        """Copy a tensor, and let the readers open the copy; None where CUDA cannot."""
        copy = tensor.detach().clone().requires_grad_(tensor.requires_grad)
        shared = gpu_memory.share(copy)
        if shared is None:
            return None
        self._tensors.append(copy)
        self._releases.append(shared[1])
        return shared[0]

    def end(self) -> None:
        """Free the memory."""
        while self._releases:
            self._releases.pop()()
        self._tensors.clear()


class Sender(tensor_bytes.Reducer):
    """Reduces the tensors of one value.

    Parameters
    ----------
    transport : TensorTransport, optional
        By default, only tensors on a GPU are reduced here, and go through the memory of the host.
    gpus : collection of str
        The UUIDs of the GPUs that all readers can use.
    """

    def __init__(
        self, transport: TensorTransport | None = None, gpus: Collection[str] = ()
    ) -> None:
        if transport is not None:
            self.place = transport.device
        self._transport = transport
        self._gpus = gpus
        self.loan: Loan | None = None
        #: The types and shapes of the tensors.
        self.forms: list[tuple[str, tuple[int, ...]]] = []

    def reduce(self, tensor: Any, library: str) -> Any:
        """Reduce a tensor to its memory on the GPU, or to its bytes."""
        if self._transport is None:
            return super().reduce(tensor, library)
        if library != "torch" or not tensor_bytes.is_plain(tensor):
            return NotImplemented
        self.forms.append((str(tensor.dtype), tuple(tensor.shape)))
        if self._gpus and gpu_memory.gpu_of(tensor) in self._gpus:
            self.loan = self.loan or Loan()
            memory = self.loan.add(tensor)
            if memory is not None:
                return gpu_memory.copied, (memory,)
        return self.to_bytes(tensor)

    def end_loan(self) -> None:
        """Free what was lent: the value is not sent."""
        if self.loan is not None:
            self.loan.end()


class Checks:
    """What the hints of an accelerator's transport promise about the values of one node."""

    def __init__(self, transport: TensorTransport | None) -> None:
        is_accelerator = transport is not None and transport.name == "accelerator"
        self._is_static = is_accelerator and transport is not None and transport.is_static
        self._is_direct = is_accelerator and transport is not None and transport.is_direct
        self._forms: list[tuple[str, tuple[int, ...]]] | None = None

    def before(self, value: Any) -> None:
        """Raise ValueError for a value that is not a tensor, with ``_direct_return=True``."""
        if self._is_direct and not tensor_bytes.is_tensor(value):
            raise ValueError(
                f"The method returned a value of the type {type(value).__name__}, but "
                "with_tensor_transport(_direct_return=True) promises a torch.Tensor. Leave the option "
                "out."
            )

    def after(self, sender: Sender) -> None:
        """Raise ValueError for tensors of other shapes than before, with ``_static_shape=True``."""
        if not self._is_static:
            return
        if self._forms is None:
            self._forms = sender.forms
        elif self._forms != sender.forms:
            raise ValueError(
                f"The method returned tensors of the types and shapes {sender.forms}, but "
                f"with_tensor_transport(_static_shape=True) promises {self._forms}, as in the first "
                "execution. Leave the option out."
            )
