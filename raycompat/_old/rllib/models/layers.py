"""`ModelSource`: a network of a class as a layer of Keras, with which algorithms learn and act.

A network of PyTorch computes in PyTorch. Its parameters are variables of the layer, and their gradients
come from PyTorch, so that all algorithms and their losses stay as they are.
"""

from __future__ import annotations

import copy
import functools
import inspect
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from gymnasium import spaces

from raycompat._old.rllib.models.modelv2 import ModelV2, TorchModelV2, check_kind
from raycompat.rllib.networks import import_keras


def is_class(model: Any) -> bool:
    """Return whether a registered model is a class of RLlib's kind."""
    return isinstance(model, type) and issubclass(model, ModelV2)


@dataclass(frozen=True)
class ModelSource:
    """Makes the layer of a network.

    Parameters
    ----------
    cls : subclass of ModelV2
    space, action_space : gymnasium.Space
        Of the environment.
    num_outputs : int
    options : dict
        The option ``model``.
    gives_value : bool
        Whether the critic's values are a second output.
    """

    cls: type[ModelV2]
    space: Any
    action_space: Any
    num_outputs: int
    options: Mapping[str, Any]
    gives_value: bool

    def __call__(self, shape: tuple[int, ...]) -> Any:
        """Return a layer from encoded observations of a shape to a list of outputs."""
        model = self._model(shape)
        check_kind(model)
        kind = _torch_layer if isinstance(model, TorchModelV2) else _keras_layer
        return kind(import_keras())(self, model)

    def _model(self, shape: tuple[int, ...]) -> ModelV2:
        own = dict(self.options["custom_model_config"])
        given = (_encoded(self.space, shape), self.action_space, self.num_outputs)
        config = {**self.options, "custom_model_config": own, "custom_options": own}
        try:
            inspect.signature(self.cls).bind(*given, config, "model", **own)
        except TypeError:  # the class reads them from the config
            own = {}
        return self.cls(*given, config, "model", **own)

    def run(self, model: ModelV2, flat: Any, reshape: Callable[..., Any]) -> list[Any]:
        """Return the outputs of a network, of shape (rows, num_outputs), and (rows, 1) of a critic."""
        given = {"obs": _restored(self.space, flat, reshape), "obs_flat": flat}
        outputs, _ = ModelV2.__call__(model, given)
        found = [reshape(outputs, (-1, self.num_outputs))]
        if self.gives_value:
            found.append(reshape(model.value_function(), (-1, 1)))
        return found


def _encoded(space: Any, shape: tuple[int, ...]) -> Any:
    """Return the space that a network is told: that of encoded observations."""
    is_box = isinstance(space, spaces.Box)
    found: Any = copy.copy(space) if is_box else spaces.Box(-np.inf, np.inf, shape, np.float32)
    found.original_space = space
    return found


def _restored(space: Any, flat: Any, reshape: Callable[..., Any]) -> Any:
    """Return encoded observations in the form of their space; choices stay one-hot vectors."""
    if isinstance(space, spaces.Box):
        return reshape(flat, (-1, *space.shape))
    if not isinstance(space, spaces.Dict | spaces.Tuple):
        return flat
    parts = space.spaces.values() if isinstance(space, spaces.Dict) else space.spaces
    found, begin = [], 0
    for part in parts:
        end = begin + spaces.flatdim(part)
        found.append(_restored(part, flat[:, begin:end], reshape))
        begin = end
    if isinstance(space, spaces.Dict):
        return dict(zip(space.spaces, found, strict=True))
    return tuple(found)


@functools.cache
def _keras_layer(keras: Any) -> Any:
    class KerasModel(keras.layers.Layer):
        """A network of Keras layers."""

        def __init__(self, source: ModelSource, model: ModelV2) -> None:
            super().__init__()
            self._source, self._network = source, model
            #: Keras tracks the layers of a list.
            self.parts = _layers_of(model, keras.layers.Layer)

        def call(self, inputs: Any) -> Any:
            return self._source.run(self._network, inputs, keras.ops.reshape)

    return KerasModel


def _layers_of(value: Any, kind: type[Any]) -> list[Any]:
    """Return the Keras layers among the attributes of a network, and of those that are in it."""
    if isinstance(value, kind):
        return [value]
    if isinstance(value, ModelV2):
        value = vars(value)
    if isinstance(value, Mapping):
        value = list(value.values())
    if isinstance(value, list | tuple):
        return [layer for each in value for layer in _layers_of(each, kind)]
    return []


class _Computation:
    """A network of PyTorch as two functions of arrays.

    Parameters
    ----------
    source : ModelSource
    model : TorchModelV2, which is a torch.nn.Module
        It computes as in evaluation: without dropout, and with the first statistics of its batches.
    """

    def __init__(self, source: ModelSource, model: Any) -> None:
        self._source, self._model = source, model.eval()
        self.parameters = list(model.parameters())
        # TensorFlow may compute two batches at a time, and a network remembers its last one.
        self._lock = threading.Lock()

    def forward(self, inputs: Any, *weights: Any) -> Any:
        """Return the outputs for observations."""
        import torch

        with self._lock, torch.no_grad():
            return [output.float().numpy() for output in self._run(inputs, weights)]

    def backward(self, inputs: Any, *others: Any) -> Any:
        """Return the gradients of all weights; `others` are these, and the gradients of the outputs."""
        import torch

        count = len(self.parameters)
        wanted = [each for each in self.parameters if each.requires_grad]
        with self._lock, torch.enable_grad():
            pairs = zip(self._run(inputs, others[:count]), others[count:], strict=True)
            known = [(output, torch.tensor(each)) for output, each in pairs if output.requires_grad]
            outputs, upstream = zip(*known, strict=True)
            gradients = torch.autograd.grad(outputs, wanted, upstream, allow_unused=True)
        found = dict(zip(map(id, wanted), gradients, strict=True))
        return [_array(found.get(id(each)), each) for each in self.parameters]

    def _run(self, inputs: Any, weights: Any) -> list[Any]:
        import torch

        with torch.no_grad():
            for parameter, weight in zip(self.parameters, weights, strict=True):
                parameter.copy_(torch.tensor(weight))
        return self._source.run(self._model, torch.tensor(inputs), torch.reshape)


def _array(gradient: Any, parameter: Any) -> Any:
    return np.zeros(parameter.shape, np.float32) if gradient is None else gradient.numpy()


@functools.cache
def _torch_layer(keras: Any) -> Any:
    import tensorflow as tf

    class TorchModel(keras.layers.Layer):
        """A network of PyTorch."""

        def __init__(self, source: ModelSource, model: Any) -> None:
            super().__init__()
            self._network, self._computation = model, _Computation(source, model)
            self._sizes = [source.num_outputs, *([1] if source.gives_value else [])]
            self._own = [self._variable(each) for each in self._computation.parameters]

        def _variable(self, parameter: Any) -> Any:
            made = self.add_weight(
                shape=tuple(parameter.shape), initializer="zeros", trainable=parameter.requires_grad
            )
            made.assign(parameter.detach().numpy())
            return made

        def call(self, inputs: Any) -> Any:
            return list(tf.custom_gradient(self._outputs)(inputs, *[w.value for w in self._own]))

        def _outputs(self, inputs: Any, *weights: Any) -> Any:
            shapes = [(inputs.shape[0], size) for size in self._sizes]
            outputs = _called(self._computation.forward, [inputs, *weights], shapes)

            def gradient(*upstream: Any) -> Any:
                given = [inputs, *weights, *upstream]
                shapes = [weight.shape for weight in weights]
                return (tf.zeros_like(inputs), *_called(self._computation.backward, given, shapes))

            return tuple(outputs), gradient

    return TorchModel


def _called(function: Callable[..., Any], given: list[Any], shapes: list[Any]) -> list[Any]:
    """Return the tensors of these shapes that a function of arrays returns."""
    import tensorflow as tf

    found = tf.numpy_function(function, given, [tf.float32] * len(shapes))
    found = list(found) if isinstance(found, list | tuple) else [found]  # eagerly, one comes alone
    for tensor, shape in zip(found, shapes, strict=True):
        tensor.set_shape(shape)
    return found
