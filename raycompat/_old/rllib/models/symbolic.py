"""Functions of TensorFlow in networks of Keras: ``tf.one_hot(keras.layers.Input(...), 4)``.

Until Keras 2 they could be called with what `keras.layers.Input` returns. Keras 3 wants each within a
layer.
"""

from __future__ import annotations

import functools
from typing import Any

from raycompat.rllib.networks import import_keras


@functools.cache
def allow_functions_of_tensorflow() -> None:
    """Let functions of TensorFlow take symbolic tensors of Keras in this process."""
    keras = import_keras()
    import tensorflow as tf

    dispatch: Any = tf.__internal__.dispatch
    symbolic = keras.KerasTensor

    class AsLayers(dispatch.GlobalOpDispatcher):
        """Makes a layer of each call of a function with a symbolic tensor."""

        def handle(self, op: Any, args: Any, kwargs: Any) -> Any:
            """Return the layer's outputs; `NOT_SUPPORTED` without a symbolic tensor."""
            given = tf.nest.flatten((args, kwargs))
            found = [each for each in given if isinstance(each, symbolic)]
            if not found:
                return self.NOT_SUPPORTED
            return _layer_of_call(keras)(op, args, kwargs)(found)

    AsLayers().register()


@functools.cache
def _layer_of_call(keras: Any) -> Any:
    """Return the class of a layer that calls a function again with the tensors of its inputs."""
    import tensorflow as tf

    class Call(keras.layers.Layer):
        def __init__(self, function: Any, args: Any, kwargs: Any) -> None:
            super().__init__(autocast=False)
            self._function = function
            # A tuple in an attribute would be searched for layers, and copied.
            self._given = functools.partial(lambda *given: given, args, kwargs)

        def call(self, tensors: Any) -> Any:
            waiting = iter(tensors)
            args, kwargs = tf.nest.map_structure(
                lambda each: next(waiting) if isinstance(each, keras.KerasTensor) else each,
                self._given(),
            )
            return self._function(*args, **kwargs)

    return Call
