"""Variables that a network makes in its ``forward`` by name, as for TensorFlow 1.

``tf1.variable_scope``, ``tf1.get_variable`` and ``tf1.layers`` make each variable once, and find it by
its name afterwards. A network's `NamedVariables` keeps them as variables of Keras, which learn.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

#: The outermost scope; numbers of layers without a name begin again each time that it is entered.
_OUTER = "network"


def makes_variables(function: Callable[..., Any]) -> bool:
    """Return whether a method ``forward`` makes variables by name."""
    code = getattr(function, "__code__", None)
    names = set(getattr(code, "co_names", ()))
    return bool(names & {"variable_scope", "get_variable"}) or (
        "layers" in names and "keras" not in names
    )


class NamedVariables:
    """The variables of one network by name.

    Attributes
    ----------
    made : dict of keras.Variable
        In the order in which ``forward`` made them.
    """

    def __init__(self) -> None:
        from tensorflow.python.ops import (
            variable_scope,  # `as_default` is not public in TensorFlow 2
        )

        self.made: dict[str, Any] = {}
        self._store = variable_scope.EagerVariableStore()

    @contextlib.contextmanager
    def active(self) -> Iterator[None]:
        """Let names mean the network's variables."""
        import tensorflow as tf

        tf1 = tf.compat.v1
        outer = tf1.variable_scope(_OUTER, custom_getter=self._get, reuse=tf1.AUTO_REUSE)
        with self._store.as_default(), outer:
            yield

    def _get(
        self,
        getter: Any,
        name: str,
        shape: Any = None,
        dtype: Any = None,
        initializer: Any = None,
        trainable: bool | None = True,
        regularizer: Any = None,
        **_: Any,
    ) -> Any:
        found = self.made.get(name)
        if found is None:
            if regularizer is not None:
                raise ValueError(
                    f"get_variable({name!r}, regularizer={regularizer!r}): an algorithm's loss has "
                    "no such term. Write it into custom_loss of the network."
                )
            found = self.made[name] = _made(shape, dtype, initializer, trainable is not False)
        return found.value


def _made(shape: Any, dtype: Any, initializer: Any, trainable: bool) -> Any:
    import keras
    import numpy as np

    kind = getattr(dtype, "name", dtype) or "float32"
    if initializer is None:
        initializer = keras.initializers.GlorotUniform() if np.ndim(shape) else "zeros"
    initializer = keras.initializers.get(initializer)
    if callable(initializer):
        value = initializer(tuple(int(each) for each in np.reshape(shape, -1)), dtype=kind)
    else:
        value = initializer
    return keras.Variable(keras.ops.cast(value, kind), trainable=trainable)


# The layers of ``tf.compat.v1.layers`` that programs make, which Keras 3 lacks.


@contextlib.contextmanager
def _scope(name: str | None, default: str) -> Iterator[Any]:
    import tensorflow as tf

    tf1 = tf.compat.v1
    if name:
        scope = tf1.variable_scope(name, reuse=tf1.AUTO_REUSE)
    else:  # reuses variables as the scope around it does
        scope = tf1.variable_scope(None, default_name=default)
    with scope:
        yield tf1.get_variable


def dense(
    inputs: Any,
    units: int,
    activation: Any = None,
    use_bias: bool = True,
    kernel_initializer: Any = None,
    bias_initializer: Any = "zeros",
    name: str | None = None,
    reuse: Any = None,
) -> Any:
    """Return the outputs of a dense layer: ``tf.layers.dense``.

    Parameters
    ----------
    inputs : tensor, shape (rows, ..., numbers)
    units : int
    activation : callable, optional
    use_bias : bool, default True
    kernel_initializer, bias_initializer : callable or str, optional
    name : str, optional
        Under which its variables are found again.
    reuse : optional
        Has no effect: variables of a name are used again.
    """
    import tensorflow as tf

    with _scope(name, "dense") as get:
        kernel = get("kernel", (int(inputs.shape[-1]), units), initializer=kernel_initializer)
        outputs = tf.tensordot(inputs, kernel, 1)
        if use_bias:
            outputs += get("bias", (units,), initializer=bias_initializer)
    return outputs if activation is None else activation(outputs)


def conv2d(
    inputs: Any,
    filters: int,
    kernel_size: Any,
    strides: Any = 1,
    padding: str = "valid",
    activation: Any = None,
    kernel_initializer: Any = None,
    name: str | None = None,
) -> Any:
    """Return the outputs of a layer of filters: ``tf.layers.conv2d``.

    Parameters
    ----------
    inputs : tensor, shape (rows, height, width, channels)
    filters : int
    kernel_size : int or pair of int
    strides : int or pair of int, default 1
    padding : {"valid", "same"}, default "valid"
    activation : callable, optional
    kernel_initializer : callable or str, optional
    name : str, optional
        Under which its variables are found again.
    """
    import tensorflow as tf

    side = kernel_size if isinstance(kernel_size, tuple | list) else (kernel_size, kernel_size)
    with _scope(name, "conv2d") as get:
        shape = (*side, int(inputs.shape[-1]), filters)
        kernel = get("kernel", shape, initializer=kernel_initializer)
        outputs = tf.nn.conv2d(inputs, kernel, strides, padding.upper())
        outputs += get("bias", (filters,), initializer="zeros")
    return outputs if activation is None else activation(outputs)


def batch_normalization(
    inputs: Any, epsilon: float = 1e-3, training: bool = False, name: str | None = None
) -> Any:
    """Return inputs of mean 0 and deviation 1, scaled and moved: ``tf.layers.batch_normalization``.

    Parameters
    ----------
    inputs : tensor, shape (rows, ..., numbers)
    epsilon : float, default 1e-3
    training : bool, default False
        Use the mean and the deviation of these rows. Networks are computed as in evaluation, where
        ``input_dict["is_training"]`` is False: with mean 0 and deviation 1, as they begin.
    name : str, optional
        Under which its variables are found again.
    """
    import tensorflow as tf

    with _scope(name, "batch_normalization") as get:
        shape = (int(inputs.shape[-1]),)
        gamma = get("gamma", shape, initializer="ones")
        beta = get("beta", shape, initializer="zeros")
        if training:
            mean, variance = tf.nn.moments(inputs, list(range(len(inputs.shape) - 1)))
        else:
            mean, variance = 0.0, 1.0
        return tf.nn.batch_normalization(inputs, mean, variance, beta, gamma, epsilon)


def flatten(inputs: Any, name: str | None = None) -> Any:
    """Return each row as one vector: ``tf.layers.flatten``.

    Parameters
    ----------
    inputs : tensor, shape (rows, ...)
    name : str, optional
        Has no effect.
    """
    import math

    import tensorflow as tf

    return tf.reshape(inputs, (-1, math.prod(inputs.shape[1:])))


def allow_layers_of_tensorflow_1() -> None:
    """Give ``tf.compat.v1.layers`` the functions above, where TensorFlow lacks them."""
    import tensorflow as tf

    there = getattr(tf.compat.v1, "layers", None)
    if not hasattr(there, "dense"):
        functions = (dense, conv2d, batch_normalization, flatten)
        tf.compat.v1.layers = SimpleNamespace(**{each.__name__: each for each in functions})
