"""Distributions of actions, in numpy for acting; the losses have the same formulas in TensorFlow.

A layout says of which parts an action consists: choices, numbers, or several of either, which are
independent of each other. ``logits`` are unnormalized logarithms of chances, of shape
(rows, choices). The parameters of normal distributions are means and logarithms of standard deviations,
one after the other, of shape (rows, 2 * numbers).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from raycompat.rllib._types import Array, Tensor

#: Parameters of distributions, for acting or for a loss.
_Parameters = TypeVar("_Parameters", NDArray[np.float32], "Tensor")

_HALF_LOG_2_PI = 0.5 * float(np.log(2 * np.pi))
#: Limits of the logarithm of a standard deviation, so that its exponential stays finite.
LOG_STD_RANGE = (-20.0, 2.0)


class Part(NamedTuple):
    """A part of an action.

    Parameters
    ----------
    is_discrete : bool
        Whether it is one of several choices; if not, it is one or more numbers.
    size : int
        How many choices there are, or how many numbers.
    """

    is_discrete: bool
    size: int

    @property
    def num_parameters(self) -> int:
        """How many numbers a network gives for it."""
        return self.size if self.is_discrete else 2 * self.size

    @property
    def width(self) -> int:
        """How many columns it has in an array of actions."""
        return 1 if self.is_discrete else self.size


#: The parts of an action. An array of actions of one discrete part has the shape (rows,) and an integer
#: dtype; all others have the shape (rows, the sum of the parts' widths) and dtype float32.
Layout = tuple[Part, ...]


class Distribution(Protocol):
    """A distribution of actions for each row."""

    def mode(self) -> Array:
        """Return the likeliest actions."""

    def sample(self, rng: np.random.Generator) -> Array:
        """Return random actions."""

    def log_probability(self, actions: Array) -> NDArray[np.float32]:
        """Return the logarithms of the actions' chances or densities, of shape (rows,)."""


class Categorical:
    """One of several actions.

    Parameters
    ----------
    logits : array of float32, shape (rows, choices)
    """

    def __init__(self, logits: NDArray[np.float32]) -> None:
        self.logits = logits

    def mode(self) -> NDArray[np.intp]:
        """Return the likeliest actions."""
        best: NDArray[np.intp] = self.logits.argmax(axis=-1)
        return best

    def sample(self, rng: np.random.Generator) -> NDArray[np.intp]:
        """Return random actions, by the Gumbel-max trick."""
        noise = rng.gumbel(size=self.logits.shape)
        drawn: NDArray[np.intp] = (self.logits + noise).argmax(axis=-1)
        return drawn

    def log_probability(self, actions: Array) -> NDArray[np.float32]:
        """Return the logarithms of the actions' chances."""
        largest = self.logits.max(axis=-1, keepdims=True)
        shifted = self.logits - largest
        chosen = shifted[np.arange(len(actions)), actions]
        found: NDArray[np.float32] = chosen - np.log(np.exp(shifted).sum(axis=-1))
        return found


class DiagonalGaussian:
    """Numbers, each normally distributed and independent of the others.

    Parameters
    ----------
    parameters : array of float32, shape (rows, 2 * numbers)
    """

    def __init__(self, parameters: NDArray[np.float32]) -> None:
        self.mean, log_std = np.split(parameters, 2, axis=-1)
        self.log_std = np.clip(log_std, *LOG_STD_RANGE)

    def mode(self) -> NDArray[np.float32]:
        """Return the likeliest actions."""
        return self.mean

    def sample(self, rng: np.random.Generator) -> NDArray[np.float32]:
        """Return random actions."""
        noise = rng.standard_normal(self.mean.shape, dtype=np.float32)
        drawn: Array = self.mean + np.exp(self.log_std) * noise
        return drawn

    def log_probability(self, actions: Array) -> NDArray[np.float32]:
        """Return the logarithms of the actions' densities."""
        scaled = (actions - self.mean) / np.exp(self.log_std)
        each = -0.5 * scaled**2 - self.log_std - _HALF_LOG_2_PI
        found: NDArray[np.float32] = each.sum(axis=-1)
        return found


class TanhGaussian(DiagonalGaussian):
    """Numbers between -1 and 1: the hyperbolic tangents of normally distributed ones.

    Parameters
    ----------
    parameters : array of float32, shape (rows, 2 * numbers)
    """

    def mode(self) -> NDArray[np.float32]:
        """Return the tangents of the means."""
        tangents: NDArray[np.float32] = np.tanh(self.mean)
        return tangents

    def sample(self, rng: np.random.Generator) -> NDArray[np.float32]:
        """Return random actions."""
        tangents: NDArray[np.float32] = np.tanh(super().sample(rng))
        return tangents

    def log_probability(self, actions: Array) -> NDArray[np.float32]:
        """Return the logarithms of the actions' densities."""
        inner = np.arctanh(np.clip(actions, -1 + 1e-6, 1 - 1e-6))
        stretched: NDArray[np.float32] = 2 * (np.log(2) - inner - np.logaddexp(0, -2 * inner))
        found: NDArray[np.float32] = super().log_probability(inner) - stretched.sum(axis=-1)
        return found


class Independent:
    """Several parts, each independent of the others.

    Parameters
    ----------
    layout : tuple of Part
    parameters : array of float32, shape (rows, parameters of all parts)
    """

    def __init__(self, layout: Layout, parameters: NDArray[np.float32]) -> None:
        self._layout = layout
        self._parts = [
            distribution_of((part,), columns)
            for part, columns in zip(layout, columns_of(layout, parameters), strict=True)
        ]

    def mode(self) -> Array:
        """Return the likeliest actions."""
        return _joined([part.mode() for part in self._parts])

    def sample(self, rng: np.random.Generator) -> Array:
        """Return random actions."""
        return _joined([part.sample(rng) for part in self._parts])

    def log_probability(self, actions: Array) -> NDArray[np.float32]:
        """Return the logarithms of the actions' chances and densities, multiplied."""
        begin, found = 0, np.zeros(len(actions), np.float32)
        for part, distribution in zip(self._layout, self._parts, strict=True):
            own = actions[:, begin : begin + part.width]
            found += distribution.log_probability(
                own[:, 0].astype(np.int64) if part.is_discrete else own
            )
            begin += part.width
        return found


def distribution_of(layout: Layout, parameters: NDArray[np.float32]) -> Distribution:
    """Return the distributions with these parameters, an array of shape (rows, numbers)."""
    if len(layout) > 1:
        return Independent(layout, parameters)
    return Categorical(parameters) if layout[0].is_discrete else DiagonalGaussian(parameters)


def num_parameters(layout: Layout) -> int:
    """Return how many numbers a network gives for an action."""
    return sum(part.num_parameters for part in layout)


def columns_of(layout: Layout, parameters: _Parameters) -> list[_Parameters]:
    """Return the parameters of each part."""
    found, begin = [], 0
    for part in layout:
        found.append(parameters[:, begin : begin + part.num_parameters])
        begin += part.num_parameters
    return found


def _joined(actions: list[Array]) -> NDArray[np.float32]:
    columns = [each[:, None] if each.ndim == 1 else each for each in actions]
    return np.concatenate([each.astype(np.float32) for each in columns], axis=1)


# The same in TensorFlow, for losses. Of several parts, the values are added.


def tf_log_probability(layout: Layout, parameters: Tensor, actions: Tensor) -> Tensor:
    """Return the logarithms of chances or densities, a tensor of shape (rows,)."""
    import tensorflow as tf

    if len(layout) == 1:
        return _tf_log_probability(layout[0], parameters, actions)
    found, begin = 0.0, 0
    for part, columns in zip(layout, columns_of(layout, parameters), strict=True):
        own = actions[:, begin : begin + part.width]
        own = tf.cast(own[:, 0], tf.int32) if part.is_discrete else own
        found += _tf_log_probability(part, columns, own)
        begin += part.width
    return found


def tf_entropy(layout: Layout, parameters: Tensor) -> Tensor:
    """Return the entropies, a tensor of shape (rows,), in nats."""
    return _sum_of_parts(_tf_entropy, layout, parameters)


def tf_kl_divergence(layout: Layout, parameters: Tensor, others: Tensor) -> Tensor:
    """Return how far `others` are from the distributions of `parameters`, a tensor of shape (rows,)."""
    return _sum_of_parts(_tf_kl_divergence, layout, parameters, others)


class Terms(NamedTuple):
    """What losses are made of; tensors of shape (rows,).

    Parameters
    ----------
    log_probabilities : tensor
        Of the actions, under the policy that learns.
    entropies : tensor
        In nats.
    divergences : tensor or None
        How far the policy is from the one that played; None where its parameters were not given.
    """

    log_probabilities: Tensor
    entropies: Tensor
    divergences: Tensor | None


def tf_terms(
    layout: Layout, parameters: Tensor, actions: Tensor, played: Tensor | None = None
) -> Terms:
    """Return the terms of a loss; `played` are the parameters of the policy that played."""
    return Terms(
        tf_log_probability(layout, parameters, actions),
        tf_entropy(layout, parameters),
        None if played is None else tf_kl_divergence(layout, played, parameters),
    )


def tf_tanh_gaussian(parameters: Tensor, noise: Tensor) -> tuple[Tensor, Tensor]:
    """Return actions between -1 and 1, and the logarithms of their densities, of shape (rows,).

    Parameters
    ----------
    parameters : tensor of shape (rows, 2 * numbers)
    noise : tensor of shape (rows, numbers)
        Of the standard normal distribution.

    Notes
    -----
    arXiv 1812.05905, appendix C, in a form that stays finite.
    """
    import tensorflow as tf

    mean, log_std = _tf_gaussian(parameters)
    inner = mean + tf.exp(log_std) * noise
    return tf.tanh(inner), _tf_log_of_tangent(inner, noise, log_std)


def tf_tanh_gaussian_log_probability(parameters: Tensor, actions: Tensor) -> Tensor:
    """Return the logarithms of the densities of actions between -1 and 1, of shape (rows,)."""
    import tensorflow as tf

    mean, log_std = _tf_gaussian(parameters)
    inner = tf.atanh(tf.clip_by_value(actions, -1 + 1e-6, 1 - 1e-6))
    return _tf_log_of_tangent(inner, (inner - mean) / tf.exp(log_std), log_std)


def _tf_log_of_tangent(inner: Tensor, noise: Tensor, log_std: Tensor) -> Tensor:
    import tensorflow as tf

    stretched = 2 * (float(np.log(2)) - inner - tf.nn.softplus(-2 * inner))
    return tf.reduce_sum(-0.5 * noise**2 - log_std - _HALF_LOG_2_PI - stretched, -1)


def _sum_of_parts(function: Callable[..., Tensor], layout: Layout, *parameters: Tensor) -> Tensor:
    if len(layout) == 1:
        return function(layout[0], *parameters)
    columns = [columns_of(layout, each) for each in parameters]
    return sum(function(part, *own) for part, *own in zip(layout, *columns, strict=True))


def _tf_log_probability(part: Part, parameters: Tensor, actions: Tensor) -> Tensor:
    import tensorflow as tf

    if part.is_discrete:
        return -tf.nn.sparse_softmax_cross_entropy_with_logits(actions, parameters)
    mean, log_std = _tf_gaussian(parameters)
    each = -0.5 * ((actions - mean) / tf.exp(log_std)) ** 2 - log_std - _HALF_LOG_2_PI
    return tf.reduce_sum(each, -1)


def _tf_entropy(part: Part, parameters: Tensor) -> Tensor:
    import tensorflow as tf

    if part.is_discrete:
        logs = tf.nn.log_softmax(parameters)
        return -tf.reduce_sum(tf.exp(logs) * logs, -1)
    _, log_std = _tf_gaussian(parameters)
    return tf.reduce_sum(log_std + 0.5 + _HALF_LOG_2_PI, -1)


def _tf_kl_divergence(part: Part, parameters: Tensor, others: Tensor) -> Tensor:
    import tensorflow as tf

    if part.is_discrete:
        logs, other_logs = tf.nn.log_softmax(parameters), tf.nn.log_softmax(others)
        return tf.reduce_sum(tf.exp(logs) * (logs - other_logs), -1)
    mean, log_std = _tf_gaussian(parameters)
    other_mean, other_log_std = _tf_gaussian(others)
    spread = tf.exp(2 * log_std) + (mean - other_mean) ** 2
    each = other_log_std - log_std + 0.5 * spread / tf.exp(2 * other_log_std) - 0.5
    return tf.reduce_sum(each, -1)


def _tf_gaussian(parameters: Tensor) -> tuple[Tensor, Tensor]:
    import tensorflow as tf

    mean, log_std = tf.split(parameters, 2, axis=-1)
    return mean, tf.clip_by_value(log_std, *LOG_STD_RANGE)
