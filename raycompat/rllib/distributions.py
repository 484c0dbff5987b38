"""Distributions of actions, in numpy for acting; the losses have the same formulas in TensorFlow.

``logits`` are unnormalized logarithms of chances, of shape (rows, choices). The parameters of normal
distributions are means and logarithms of standard deviations, one after the other, of shape
(rows, 2 * numbers).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

_HALF_LOG_2_PI = 0.5 * float(np.log(2 * np.pi))
#: Limits of the logarithm of a standard deviation, so that its exponential stays finite.
LOG_STD_RANGE = (-20.0, 2.0)


class Categorical:
    """One of several actions.

    Parameters
    ----------
    logits : array of float32, shape (rows, choices)
    """

    def __init__(self, logits: NDArray[Any]) -> None:
        self.logits = logits

    @staticmethod
    def num_parameters(num_choices: int) -> int:
        """Return how many numbers a network gives for it."""
        return num_choices

    def mode(self) -> NDArray[Any]:
        """Return the likeliest actions."""
        best: NDArray[Any] = self.logits.argmax(axis=-1)
        return best

    def sample(self, rng: np.random.Generator) -> NDArray[Any]:
        """Return random actions, by the Gumbel-max trick."""
        noise = rng.gumbel(size=self.logits.shape)
        drawn: NDArray[Any] = (self.logits + noise).argmax(axis=-1)
        return drawn

    def log_probability(self, actions: NDArray[Any]) -> NDArray[Any]:
        """Return the logarithms of the actions' chances."""
        largest = self.logits.max(axis=-1, keepdims=True)
        shifted = self.logits - largest
        chosen = shifted[np.arange(len(actions)), actions]
        found: NDArray[Any] = chosen - np.log(np.exp(shifted).sum(axis=-1))
        return found


class DiagonalGaussian:
    """Numbers, each normally distributed and independent of the others.

    Parameters
    ----------
    parameters : array of float32, shape (rows, 2 * numbers)
    """

    def __init__(self, parameters: NDArray[Any]) -> None:
        self.mean, log_std = np.split(parameters, 2, axis=-1)
        self.log_std = np.clip(log_std, *LOG_STD_RANGE)

    @staticmethod
    def num_parameters(num_choices: int) -> int:
        """Return how many numbers a network gives for it."""
        return 2 * num_choices

    def mode(self) -> NDArray[Any]:
        """Return the likeliest actions."""
        return self.mean

    def sample(self, rng: np.random.Generator) -> NDArray[Any]:
        """Return random actions."""
        noise = rng.standard_normal(self.mean.shape, dtype=np.float32)
        drawn: NDArray[Any] = self.mean + np.exp(self.log_std) * noise
        return drawn

    def log_probability(self, actions: NDArray[Any]) -> NDArray[Any]:
        """Return the logarithms of the actions' densities."""
        scaled = (actions - self.mean) / np.exp(self.log_std)
        each = -0.5 * scaled**2 - self.log_std - _HALF_LOG_2_PI
        found: NDArray[Any] = each.sum(axis=-1)
        return found


def distribution_class(is_discrete: bool) -> type[Categorical] | type[DiagonalGaussian]:
    """Return the distribution of an action space."""
    return Categorical if is_discrete else DiagonalGaussian


# The same in TensorFlow, for losses.


def tf_log_probability(is_discrete: bool, parameters: Any, actions: Any) -> Any:
    """Return the logarithms of chances or densities, a tensor of shape (rows,)."""
    import tensorflow as tf

    if is_discrete:
        return -tf.nn.sparse_softmax_cross_entropy_with_logits(actions, parameters)
    mean, log_std = _tf_gaussian(parameters)
    each = -0.5 * ((actions - mean) / tf.exp(log_std)) ** 2 - log_std - _HALF_LOG_2_PI
    return tf.reduce_sum(each, -1)


def tf_entropy(is_discrete: bool, parameters: Any) -> Any:
    """Return the entropies, a tensor of shape (rows,), in nats."""
    import tensorflow as tf

    if is_discrete:
        logs = tf.nn.log_softmax(parameters)
        return -tf.reduce_sum(tf.exp(logs) * logs, -1)
    _, log_std = _tf_gaussian(parameters)
    return tf.reduce_sum(log_std + 0.5 + _HALF_LOG_2_PI, -1)


def tf_kl_divergence(is_discrete: bool, parameters: Any, others: Any) -> Any:
    """Return how far `others` are from the distributions of `parameters`, a tensor of shape (rows,)."""
    import tensorflow as tf

    if is_discrete:
        logs, other_logs = tf.nn.log_softmax(parameters), tf.nn.log_softmax(others)
        return tf.reduce_sum(tf.exp(logs) * (logs - other_logs), -1)
    mean, log_std = _tf_gaussian(parameters)
    other_mean, other_log_std = _tf_gaussian(others)
    spread = tf.exp(2 * log_std) + (mean - other_mean) ** 2
    each = other_log_std - log_std + 0.5 * spread / tf.exp(2 * other_log_std) - 0.5
    return tf.reduce_sum(each, -1)


def _tf_gaussian(parameters: Any) -> tuple[Any, Any]:
    import tensorflow as tf

    mean, log_std = tf.split(parameters, 2, axis=-1)
    return mean, tf.clip_by_value(log_std, *LOG_STD_RANGE)
