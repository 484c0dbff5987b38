"""Functions of arrays that programs import from ``ray.rllib.utils.numpy``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

#: The least chance that `softmax` gives.
SMALL_NUMBER = 1e-6
#: More than any count of steps or batches.
LARGE_INTEGER = 100_000_000
#: Between which limits networks give logarithms of deviations.
MIN_LOG_NN_OUTPUT, MAX_LOG_NN_OUTPUT = -5, 2


def softmax(x: Any, axis: int = -1, epsilon: float | None = None) -> NDArray[Any]:
    """Return the chances that unnormalized logarithms stand for.

    Parameters
    ----------
    x : array or list of float
    axis : int, default -1
        Along which the chances add up to 1.
    epsilon : float, default 1e-6
        The least chance: smaller ones are replaced by it.
    """
    numbers = np.asarray(x, np.float64)
    exponentials = np.exp(numbers - numbers.max(axis=axis, keepdims=True))
    chances = exponentials / exponentials.sum(axis=axis, keepdims=True)
    return np.asarray(np.maximum(chances, epsilon or SMALL_NUMBER))


def sigmoid(x: Any, derivative: bool = False) -> NDArray[Any]:
    """Return ``1 / (1 + exp(-x))``.

    Parameters
    ----------
    x : array or list of float
    derivative : bool, default False
        Return ``x * (1 - x)`` instead: the derivative, where x are values of the function.
    """
    numbers = np.asarray(x)
    return np.asarray(numbers * (1 - numbers) if derivative else 1 / (1 + np.exp(-numbers)))


def relu(x: Any, alpha: float = 0.0) -> NDArray[Any]:
    """Return numbers as they are where they are positive, and times `alpha` elsewhere.

    Parameters
    ----------
    x : array or list of float
    alpha : float, default 0.0
    """
    numbers = np.asarray(x)
    return np.asarray(np.maximum(numbers, alpha * numbers))


def one_hot(
    x: Any,
    depth: int = 0,
    on_value: float = 1.0,
    off_value: float = 0.0,
    dtype: Any = np.float32,
) -> NDArray[Any]:
    """Return choices as vectors with one number each that differs from the others.

    Parameters
    ----------
    x : array or list of int
    depth : int
        How many choices there are; 0: as many as the largest choice needs.
    on_value, off_value : float
        The numbers of what is chosen, and of what is not.
    dtype : type, default float32
    """
    chosen = np.asarray(x, np.int64)
    is_chosen = np.eye(depth or int(chosen.max()) + 1, dtype=bool)[chosen]
    return np.where(is_chosen, on_value, off_value).astype(dtype)


def on_each(function: Callable[[Any], Any], x: Any) -> Any:
    """Return what a function makes of `x`; of dicts, lists and tuples, of each part."""
    if isinstance(x, Mapping):
        return {name: on_each(function, each) for name, each in x.items()}
    if isinstance(x, list | tuple):
        parts = [on_each(function, each) for each in x]
        return type(x)(*parts) if hasattr(x, "_fields") else type(x)(parts)
    return function(x)


def convert_to_numpy(x: Any, reduce_type: bool = True, *, reduce_floats: bool = False) -> Any:
    """Return tensors as arrays; of dicts, lists and tuples, each part.

    Parameters
    ----------
    x : array, tensor, number, or dict, list or tuple of these
        Others stay as they are.
    reduce_type : bool, default True
        Whether arrays of float64 and int64 become float32 and int32.
    reduce_floats : bool, default False
        The form of `reduce_type` for some time, which it does not change: it has no effect.
    """
    return on_each(lambda each: _as_array(each, reduce_type), x)


def _as_array(x: Any, reduce_type: bool) -> Any:
    found = x.detach().cpu() if hasattr(x, "detach") else x
    found = found.numpy() if callable(getattr(found, "numpy", None)) else found
    if found is not x and np.ndim(found) == 0:
        return found.item()  # a tensor with one number
    if reduce_type and isinstance(found, np.ndarray):
        smaller = {np.dtype(np.float64): np.float32, np.dtype(np.int64): np.int32}
        return found.astype(smaller.get(found.dtype, found.dtype), copy=False)
    return found


def fc(x: Any, weights: Any, biases: Any = None, framework: str | None = None) -> NDArray[Any]:
    """Return what a dense layer makes of its inputs.

    Parameters
    ----------
    x : array, shape (rows, inputs)
    weights : array, shape (inputs, outputs)
        Of PyTorch: (outputs, inputs).
    biases : array, shape (outputs,), optional
    framework : str, optional
        "torch" for weights of PyTorch.
    """
    numbers, kernel = convert_to_numpy(x), convert_to_numpy(weights)
    found = numbers @ (kernel.T if framework == "torch" else kernel)
    return np.asarray(found if biases is None else found + convert_to_numpy(biases))


def huber_loss(x: Any, delta: float = 1.0) -> NDArray[Any]:
    """Return half the squares of errors; beyond `delta` the losses grow linearly.

    Parameters
    ----------
    x : array or list of float
    delta : float, default 1.0
    """
    size = np.abs(np.asarray(x))
    found: NDArray[Any] = np.where(size < delta, 0.5 * size**2, delta * (size - 0.5 * delta))
    return found


def l2_loss(x: Any) -> float:
    """Return half the sum of the squares.

    Parameters
    ----------
    x : array or list of float
    """
    return 0.5 * float(np.sum(np.square(x)))


__all__ = [
    "LARGE_INTEGER",
    "MAX_LOG_NN_OUTPUT",
    "MIN_LOG_NN_OUTPUT",
    "SMALL_NUMBER",
    "convert_to_numpy",
    "fc",
    "huber_loss",
    "l2_loss",
    "one_hot",
    "relu",
    "sigmoid",
    "softmax",
]
