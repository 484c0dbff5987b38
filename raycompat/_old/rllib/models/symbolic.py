"""Forms of Keras 2 in networks of classes, which Keras 3 does without.

* Functions of TensorFlow take symbolic tensors: ``tf.one_hot(keras.layers.Input(...), 4)``.
* A network of layers is called with a state and lengths, too: ``model(x, state, seq_lens)``.
* Any layer takes its first argument as ``inputs``: ``keras.layers.LSTM(8)(inputs=x)``.
* An input may have a number as its shape: ``keras.layers.Input(shape=(4))``.
* ``tf.compat.v1.layers`` has layers, see `raycompat._old.rllib.models.scopes`.
* The shape of a symbolic tensor has the methods of TensorFlow's: ``x.shape.as_list()``.
"""

from __future__ import annotations

import functools
import inspect
from typing import Any

from raycompat._old.rllib.models.scopes import allow_layers_of_tensorflow_1
from raycompat.rllib.networks import import_keras


class _Shape(tuple[int | None, ...]):
    """The shape of a symbolic tensor, or a slice of it."""

    def __getitem__(self, place: Any) -> Any:
        found = super().__getitem__(place)
        return _Shape(found) if isinstance(place, slice) else found

    def as_list(self) -> list[int | None]:
        """Return the sizes, None for those that are not known."""
        return list(self)

    @property
    def rank(self) -> int:
        """The number of axes."""
        return len(self)

    ndims = rank


@functools.cache
def allow_forms_of_keras_2() -> None:
    """Let networks be written as for Keras 2 in this process; what Keras 3 accepts stays as it is."""
    keras = import_keras()
    _allow_functions_of_tensorflow(keras)
    _allow_inputs_by_name(keras.layers.Layer)
    _allow_state_by_place(keras.Model)
    _allow_numbers_as_shapes(keras.layers.InputLayer)
    allow_layers_of_tensorflow_1()
    shape = keras.KerasTensor.shape
    keras.KerasTensor.shape = property(lambda tensor: _Shape(shape.fget(tensor)), shape.fset)


def _allow_state_by_place(model: Any) -> None:
    called = model.__call__

    @functools.wraps(called)
    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        # A state and lengths mean nothing to a network of layers: Keras 2 took them for switches.
        is_of_layers = hasattr(self, "_functional") or hasattr(self, "_operations")
        if is_of_layers and len(args) > 1 and not isinstance(args[1], bool):
            args = args[:1]
        return called(self, *args, **kwargs)

    model.__call__ = call


def _allow_inputs_by_name(layer: Any) -> None:
    called = layer.__call__

    @functools.wraps(called)
    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        is_by_name = not args and "inputs" in kwargs
        if is_by_name and "inputs" not in inspect.signature(self.call).parameters:
            args = (kwargs.pop("inputs"),)
        return called(self, *args, **kwargs)

    layer.__call__ = call


def _allow_numbers_as_shapes(layer: Any) -> None:
    made = layer.__init__

    @functools.wraps(made)
    def init(self: Any, shape: Any = None, **kwargs: Any) -> None:
        made(self, (shape,) if isinstance(shape, int) else shape, **kwargs)

    layer.__init__ = init


def _allow_functions_of_tensorflow(keras: Any) -> None:
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
