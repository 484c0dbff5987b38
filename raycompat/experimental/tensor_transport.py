"""Tensors that stay in the actor that made them: what programs may ask about them."""

from __future__ import annotations

from typing import Any

from raycompat._caller import kept_tensors


def wait_tensor_freed(tensor: Any, timeout: float | None = None) -> None:
    """Wait until no process needs a tensor that a method returned with a tensor transport.

    The actor keeps the tensor itself, not a copy, so readers on the same GPU see changes. Call this
    before you write to the tensor again.

    Parameters
    ----------
    tensor : torch.Tensor
        A tensor that this actor has returned from a method with a tensor transport, or put with one.
    timeout : float, optional
        Maximum seconds to wait. By default, wait without limit.

    Raises
    ------
    TimeoutError
        When a reference to the tensor exists after that time.
    """
    if not kept_tensors.wait_until_freed(tensor, timeout):
        raise TimeoutError(
            f"A tensor of shape {tuple(tensor.shape)} is still needed after {timeout} s: references to "
            "a value that contains it exist. Drop them, or wait longer."
        )
