"""Functions of tensors that programs import from ``ray.rllib.utils.tf_utils``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np

from raycompat._old.rllib.numpy_math import SMALL_NUMBER


def _tf() -> Any:
    import tensorflow

    return tensorflow


def explained_variance(y: Any, pred: Any) -> Any:
    """Return which part of the variance of `y` predictions explain: 1 for all, at least -1.

    Parameters
    ----------
    y, pred : tensor, shape (rows,)
    """
    tf = _tf()
    left = tf.math.reduce_variance(y - pred, 0)
    return tf.maximum(-1.0, 1 - left / (tf.math.reduce_variance(y, 0) + SMALL_NUMBER))


def huber_loss(x: Any, delta: float = 1.0) -> Any:
    """Return half the squares of errors; beyond `delta` the losses grow linearly.

    Parameters
    ----------
    x : tensor
    delta : float, default 1.0
    """
    tf = _tf()
    size = tf.abs(x)
    return tf.where(size < delta, 0.5 * tf.square(x), delta * (size - 0.5 * delta))


def l2_loss(x: Any) -> Any:
    """Return half the sum of the squares.

    Parameters
    ----------
    x : tensor
    """
    return _tf().nn.l2_loss(x)


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
    tf = _tf()
    if isinstance(space, gymnasium.spaces.Discrete):
        return tf.one_hot(tf.cast(x, tf.int64) - int(space.start), int(space.n))
    if isinstance(space, gymnasium.spaces.MultiDiscrete):
        parts = [
            tf.one_hot(x[..., place], int(count)) for place, count in enumerate(space.nvec.ravel())
        ]
        return tf.concat(parts, -1)
    raise ValueError(f"one_hot: {space!r} has no choices: expected a Discrete or MultiDiscrete.")


def reduce_mean_ignore_inf(x: Any, axis: int | None = None) -> Any:
    """Return the mean of the finite numbers.

    Parameters
    ----------
    x : tensor
    axis : int, optional
        Along which to take it. Default: of all numbers.
    """
    tf = _tf()
    finite = tf.math.is_finite(x)
    total = tf.reduce_sum(tf.where(finite, x, tf.zeros_like(x)), axis)
    return total / tf.reduce_sum(tf.cast(finite, x.dtype), axis)


def make_tf_callable(
    session_or_none: Any = None, dynamic_shape: bool = False
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return a decorator of functions of tensors, after which arrays can be given to them.

    Parameters
    ----------
    session_or_none : optional
        Has no effect: TensorFlow 2 computes without a session.
    dynamic_shape : bool, default False
        Has no effect.
    """
    tf = _tf()

    def tensors(value: Any) -> Any:
        if isinstance(value, list | np.ndarray):
            return tf.convert_to_tensor(value)
        return value

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            given = {name: tensors(each) for name, each in kwargs.items()}
            return function(*map(tensors, args), **given)

        return call

    return decorate
