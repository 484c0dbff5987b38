"""`Learner`: a network with its optimizer; and the minibatches from which it learns."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, TypeVar, TypeVarTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from raycompat.rllib._types import State, Tensor
from raycompat.rllib.networks import KerasNetwork, NetworkSpec, Weights, import_keras

if TYPE_CHECKING:
    import keras
    import tensorflow as tf

_Arguments = TypeVarTuple("_Arguments")
_Result = TypeVar("_Result")


class Learner:
    """A network, and Adam, which changes it.

    Parameters
    ----------
    network : NetworkSpec
    seed : int
        The seed of the initial weights.
    grad_clip : float, optional
        The largest norm of all gradients together; larger ones are scaled down.
    epsilon : float
        Adam's.

    Notes
    -----
    Kingma and Ba, "Adam: a method for stochastic optimization" (arXiv 1412.6980).
    """

    def __init__(
        self,
        network: NetworkSpec,
        seed: int,
        grad_clip: float | None = None,
        epsilon: float = 1e-7,
    ) -> None:
        self.network = KerasNetwork(network, seed)
        self._grad_clip = grad_clip
        self._optimizer = import_keras().optimizers.Adam(1.0, epsilon=epsilon)
        self._optimizer.build(self.network.variables)
        self._rate = 1.0

    @property
    def optimizer(self) -> keras.optimizers.Optimizer:
        """What changes the network: Adam, of Keras."""
        return self._optimizer

    def set_learning_rate(self, rate: float) -> None:
        """Set the length of the next steps."""
        if rate != self._rate:
            self._optimizer.learning_rate.assign(rate)
            self._rate = rate

    def apply(self, gradients: Sequence[Tensor]) -> Tensor:
        """Change the network by gradients, in a `tf.function`; return their norm before clipping."""
        import tensorflow as tf

        norm = tf.linalg.global_norm(gradients)
        if self._grad_clip is not None:
            gradients, _ = tf.clip_by_global_norm(gradients, self._grad_clip, norm)
        self._optimizer.apply(gradients, self.network.variables)
        return norm

    def get_weights(self) -> Weights:
        """Return copies of the network's weights."""
        return self.network.get_weights()

    def get_state(self) -> State:
        """Return the weights, and the state of the optimizer."""
        optimizer = [variable.numpy() for variable in self._optimizer.variables]
        return {"weights": self.get_weights(), "optimizer": optimizer}

    def set_state(self, state: State) -> None:
        """Take what `get_state` returned from a learner of the same network."""
        self.network.set_weights(state["weights"])
        for variable, value in zip(self._optimizer.variables, state["optimizer"], strict=True):
            variable.assign(value)
        self._rate = float(self._optimizer.learning_rate.numpy())


def compiled_for_any_rows(
    function: Callable[[*_Arguments], _Result],
) -> Callable[[*_Arguments], _Result]:
    """Return a function compiled by TensorFlow once, at its first call, for arrays of any length.

    The number of rows differs from batch to batch where agents come and go; compiling for each number
    takes seconds.

    Parameters
    ----------
    function : callable
        Its arguments are arrays, or dicts of them. The first axis of each may have any length; the
        second of an array of integers with two axes, too (the rows of minibatches).
    """
    import tensorflow as tf

    compiled: list[tf.types.experimental.PolymorphicFunction] = []

    def spec(value: object) -> tf.TensorSpec | dict[str, tf.TensorSpec]:
        if isinstance(value, dict):
            return {name: spec(each) for name, each in value.items()}
        array = np.asarray(value)
        shape: list[int | None] = list(array.shape)
        shape[:1] = [None] * len(shape[:1])
        if array.ndim == 2 and np.issubdtype(array.dtype, np.integer):
            shape = [None, None]
        return tf.TensorSpec(shape, array.dtype)

    def call(*args: *_Arguments) -> _Result:
        if not compiled:
            compiled.append(tf.function(function, input_signature=[spec(each) for each in args]))
        found: _Result = compiled[0](*args)
        return found

    return call


def check_finite(statistics: Mapping[str, ArrayLike], what: str) -> None:
    """Raise for losses that are not finite.

    Raises
    ------
    FloatingPointError
        Names them.
    """
    broken = sorted(name for name, value in statistics.items() if not np.isfinite(value).all())
    if broken:
        raise FloatingPointError(
            f"{what}: {', '.join(broken)} became NaN or infinite, and so may the weights. Go on from "
            "the last checkpoint with a smaller lr or with grad_clip, and see that no observation "
            "or reward of the environment is NaN or very large "
            "(observation_filter='MeanStdFilter' scales observations)."
        )


def minibatches(
    num_rows: int, size: int, num_epochs: int, rng: np.random.Generator
) -> NDArray[np.int32]:
    """Return the rows of all minibatches: each epoch has every row once, in a new order.

    Rows that do not fill a last minibatch are left out in this epoch.

    Parameters
    ----------
    num_rows : int, at least 1
    size : int, at least 1
    num_epochs : int, at least 1
    rng : numpy.random.Generator

    Returns
    -------
    array of int32, shape (minibatches, size)
    """
    size = min(size, num_rows)
    per_epoch = num_rows // size
    orders = [rng.permutation(num_rows)[: per_epoch * size] for _ in range(num_epochs)]
    return np.concatenate(orders).reshape(-1, size).astype(np.int32)
