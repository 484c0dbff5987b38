"""Functions of tensors that programs import from ``ray.rllib.utils.torch_utils``."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import gymnasium
import numpy as np

from raycompat._old.rllib.numpy_math import SMALL_NUMBER, on_each
from raycompat._old.rllib.utils import try_import_torch

torch, nn = try_import_torch()

#: Numbers at the limits of float32, which stand for minus and plus infinity in masks of logits.
FLOAT_MIN, FLOAT_MAX = -3.4e38, 3.4e38


def convert_to_torch_tensor(
    x: Any,
    device: Any = None,
    pin_memory: bool = False,
    use_stream: bool = False,
    stream: Any = None,
) -> Any:
    """Return arrays as tensors; of dicts, lists and tuples, each part.

    Parameters
    ----------
    x : array, tensor, number, or dict, list or tuple of these
        None stays None. Numbers of float64 become float32.
    device : str or torch.device, optional
        Where the tensors are. Default: the CPU.
    pin_memory : bool, default False
        Whether the memory of the tensors is pinned, where there is a GPU.
    use_stream, stream : optional
        They have no effect.
    """
    return on_each(lambda each: _as_tensor(each, device, pin_memory), x)


def _as_tensor(x: Any, device: Any, pin_memory: bool) -> Any:
    if not torch.is_tensor(x):
        array = np.asarray(x)
        if array.dtype.kind in "OSU":  # of no numbers
            return x
        x = torch.from_numpy(np.array(array))
    tensor = x.float() if x.dtype == torch.float64 else x
    if pin_memory and torch.cuda.is_available():
        tensor = tensor.pin_memory()
    return tensor if device is None else tensor.to(device)


def copy_torch_tensors(x: Any, device: Any = None) -> Any:
    """Return copies of tensors; of dicts, lists and tuples, of each part.

    Parameters
    ----------
    x : tensor, or dict, list or tuple of tensors
        Other values stay as they are.
    device : str or torch.device, optional
        Where the copies are. Default: where the tensors are.
    """

    def copy(each: Any) -> Any:
        if not torch.is_tensor(each):
            return each
        return each.detach().clone() if device is None else each.detach().clone().to(device)

    return on_each(copy, x)


def explained_variance(y: Any, pred: Any) -> Any:
    """Return which part of the variance of `y` predictions explain: 1 for all, at least -1.

    Parameters
    ----------
    y, pred : tensor, shape (rows,)
    """
    explained = 1 - torch.var(y - pred, dim=0) / (torch.var(y, dim=0) + SMALL_NUMBER)
    return torch.clamp(explained, min=-1)


def global_norm(tensors: Iterable[Any]) -> Any:
    """Return the norm of all numbers of some tensors together.

    Parameters
    ----------
    tensors : iterable of tensors
        None among them does not count.
    """
    norms = [torch.linalg.vector_norm(each) for each in tensors if each is not None]
    return torch.linalg.vector_norm(torch.stack(norms)) if norms else torch.tensor(0.0)


def compute_global_norm(gradients_list: Iterable[Any]) -> Any:
    """Return the norm of all gradients together.

    Parameters
    ----------
    gradients_list : iterable of tensors
        None among them does not count.
    """
    return global_norm(gradients_list)


def huber_loss(x: Any, delta: float = 1.0) -> Any:
    """Return half the squares of errors; beyond `delta` the losses grow linearly.

    Parameters
    ----------
    x : tensor
    delta : float, default 1.0
    """
    size = x.abs()
    return torch.where(size < delta, 0.5 * x**2, delta * (size - 0.5 * delta))


def l2_loss(x: Any) -> Any:
    """Return half the sum of the squares.

    Parameters
    ----------
    x : tensor
    """
    return 0.5 * (x**2).sum()


def one_hot(x: Any, space: Any) -> Any:
    """Return choices of a space as vectors of 0 and 1.

    Parameters
    ----------
    x : tensor of int, shape (...) or, for several choices, (..., choices)
    space : gymnasium.spaces.Discrete or MultiDiscrete

    Raises
    ------
    ValueError
        When the space is another one.
    """
    if isinstance(space, gymnasium.spaces.Discrete):
        return nn.functional.one_hot(x.long() - int(space.start), int(space.n)).float()
    if isinstance(space, gymnasium.spaces.MultiDiscrete):
        parts = [
            nn.functional.one_hot(x[..., place].long(), int(count)).float()
            for place, count in enumerate(space.nvec.ravel())
        ]
        return torch.cat(parts, -1)
    raise ValueError(f"one_hot: {space!r} has no choices: expected a Discrete or MultiDiscrete.")


def reduce_mean_ignore_inf(x: Any, axis: int | None = None) -> Any:
    """Return the mean of the finite numbers.

    Parameters
    ----------
    x : tensor
    axis : int, optional
        Along which to take it. Default: of all numbers.
    """
    finite = torch.isfinite(x)
    kept = torch.where(finite, x, torch.zeros_like(x))
    if axis is None:
        return kept.sum() / finite.sum()
    return kept.sum(axis) / finite.sum(axis)


def sequence_mask(
    lengths: Any, maxlen: int | None = None, dtype: Any = None, time_major: bool = False
) -> Any:
    """Return which steps of padded sequences are in them.

    Parameters
    ----------
    lengths : tensor of int, shape (sequences,)
    maxlen : int, optional
        The number of steps with padding. Default: the longest of the lengths.
    dtype : torch.dtype, default torch.bool
    time_major : bool, default False
        Whether the first axis is that of steps.

    Returns
    -------
    tensor, shape (sequences, maxlen)
    """
    steps = torch.arange(int(lengths.max()) if maxlen is None else maxlen, device=lengths.device)
    mask = steps[None, :] < lengths[:, None]
    mask = mask.T if time_major else mask
    return mask if dtype is None else mask.type(dtype)


def update_target_network(main_net: Any, target_net: Any, tau: float = 1.0) -> None:
    """Move the weights of a target network to those of another.

    Parameters
    ----------
    main_net, target_net : torch.nn.Module
        Of the same layers; the second one changes.
    tau : float, 0 to 1, default 1.0
        By how much: 1 copies the weights.
    """
    main = main_net.state_dict()
    target_net.load_state_dict(
        {
            name: torch.lerp(before, main[name], tau) if before.is_floating_point() else main[name]
            for name, before in target_net.state_dict().items()
        }
    )


__all__ = [
    "FLOAT_MAX",
    "FLOAT_MIN",
    "compute_global_norm",
    "convert_to_torch_tensor",
    "copy_torch_tensors",
    "explained_variance",
    "global_norm",
    "huber_loss",
    "l2_loss",
    "one_hot",
    "reduce_mean_ignore_inf",
    "sequence_mask",
    "update_target_network",
]
