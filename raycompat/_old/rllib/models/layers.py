"""`ModelSource`: a network of a class as a layer of Keras, with which algorithms learn and act.

A network of PyTorch computes in PyTorch. Its parameters are variables of the layer, and their gradients
come from PyTorch, so that all algorithms and their losses stay as they are.
"""

from __future__ import annotations

import contextlib
import copy
import functools
import inspect
import logging
import math
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from gymnasium import spaces

from raycompat._old.rllib.models.modelv2 import ModelV2, TorchModelV2, parts_of
from raycompat._old.rllib.models.original_spaces import restored
from raycompat._old.rllib.models.scopes import NamedVariables, makes_variables
from raycompat._old.rllib.models.symbolic import allow_forms_of_keras_2
from raycompat._old.rllib.models.views import views_of
from raycompat.exceptions import UnsupportedRayFeatureError
from raycompat.rllib.networks import import_keras
from raycompat.rllib.spaces import ObservationEncoder

logger = logging.getLogger(__name__)


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
        kind = _torch_layer if isinstance(model, TorchModelV2) else _keras_layer
        return kind(import_keras())(self, model, shape)

    def past(self, shape: tuple[int, ...]) -> tuple[tuple[Any, ...], bool]:
        """Return a network's first states, () without a memory, and whether it sees the last reward.

        A network is made to ask it: what it sees of earlier steps may be set anywhere.

        Parameters
        ----------
        shape : tuple of int
            Of an encoded observation.
        """
        made = self._model(shape)
        return tuple(map(_as_state, made.get_initial_state())), _sees_reward(made)

    def _model(self, shape: tuple[int, ...]) -> ModelV2:
        allow_forms_of_keras_2()
        own = dict(self.options["custom_model_config"])
        given = (_encoded(self.space, shape), self.action_space, self.num_outputs)
        config = {**self.options, "custom_model_config": own, "custom_options": own}
        try:
            inspect.signature(self.cls).bind(*given, config, "model", **own)
        except TypeError:  # the class reads them from the config
            if unknown := _not_taken(self.cls, own):
                _say_not_taken(self.cls.__name__, unknown)
            own = {}
        made = self.cls(*given, config, "model", **own)
        if views := views_of(made.view_requirements):
            states = [*views.initial_states(shape), *made.get_initial_state()]
            made.get_initial_state = lambda: states  # type: ignore[method-assign]
        return made

    def run(self, model: ModelV2, inputs: Any, shape: tuple[int, ...], ops: Any) -> list[Any]:
        """Return the outputs of a network, of shape (rows, num_outputs), and (rows, 1) of a critic.

        Of a network with a memory, also the states after the sequences that are the inputs.

        Parameters
        ----------
        model : ModelV2
        inputs : tensor
        shape : tuple of int
            Of an encoded observation.
        ops : object
            Its functions make tensors: ``keras.ops``, or `_TorchOps`.

        Raises
        ------
        ValueError
            When it gives another number of outputs, values or states.
        """
        initial = model.get_initial_state()
        flat, lengths = inputs, None
        states: list[Any] = []
        if initial:
            flat, states, lengths = self._sequences(
                inputs, shape, list(map(_as_state, initial)), ops
            )
        rows, reshape = flat.shape[0], ops.reshape
        given = {
            "obs": restored(self.space, flat, reshape),
            "obs_flat": reshape(flat, (-1, math.prod(shape))),
        }
        if views := views_of(model.view_requirements):
            count = len(views.initial_states(shape))
            seen, before = views.seen(inputs, shape, states[:count], ops)
            own_lengths = lengths if states[count:] else None
            outputs, own = ModelV2.__call__(model, {**given, **seen}, states[count:], own_lengths)
            after = [*before, *own]
        else:
            outputs, after = ModelV2.__call__(model, given, states, lengths)
        name = type(model).__name__
        _check_size(f"{name}.forward", outputs, rows, self.num_outputs)
        found = [reshape(outputs, (-1, self.num_outputs))]
        if self.gives_value:
            values = model.value_function()
            _check_size(f"{name}.value_function", values, rows, 1)
            found.append(reshape(values, (-1, 1)))
        if initial:
            if len(after) != len(initial):
                raise ValueError(
                    f"{name}.forward returned {len(after)} states: expected {len(initial)}, as "
                    "get_initial_state returns."
                )
            sizes = [math.prod(each.shape[1:]) for each in states]
            flat_states = [reshape(each, (-1, n)) for each, n in zip(after, sizes, strict=True)]
            found.append(ops.concatenate(flat_states, -1))
        return found

    @staticmethod
    def _sequences(
        inputs: Any, shape: tuple[int, ...], initial: list[Any], ops: Any
    ) -> tuple[Any, list[Any], Any]:
        """Return the observations of sequences as rows, their first states, and their lengths."""
        begin = math.prod(shape)
        flat = ops.reshape(inputs[..., :begin], (-1, *shape))
        states = []
        for each in initial:
            own = inputs[:, 0, begin : begin + each.size]
            states.append(ops.reshape(own, (-1, *each.shape)))
            begin += each.size
        num, length = ops.shape(inputs)[:2]
        return flat, states, ops.full((num,), length, dtype="int32")


class _TorchOps:
    """The functions of ``keras.ops`` that a network is run with, in PyTorch."""

    @staticmethod
    def shape(tensor: Any) -> tuple[int, ...]:
        return tuple(tensor.shape)

    @staticmethod
    def reshape(tensor: Any, shape: tuple[int, ...]) -> Any:
        return tensor.reshape(shape)

    @staticmethod
    def concatenate(tensors: list[Any], axis: int) -> Any:
        import torch

        return torch.cat(tensors, axis)

    @staticmethod
    def full(shape: tuple[int, ...], value: int, dtype: str) -> Any:
        import torch

        return torch.full(shape, value, dtype=getattr(torch, dtype))


def model_of_class(
    base: Any,
    interface: type[Any] | None,
    is_torch: bool,
    parts: tuple[Any, ...],
    options: Mapping[str, Any],
) -> Any:
    """Return a network for its own use, not as a layer.

    Parameters
    ----------
    base : class, callable or None
        Its class, or what was registered. None: dense layers, or filters for images.
    interface : type or None
        A class whose methods it has, too.
    is_torch : bool
        Whether it is in PyTorch, where there is no class.
    parts : tuple
        Observation space, action space, number of outputs, the option ``model``, and name.
    options : mapping
        More arguments of the class.
    """
    space, *others = parts
    encoded = _encoded(space, ObservationEncoder(space).shape)
    found = base or _default_class(len(encoded.shape) == 3, is_torch)
    if not is_class(found):
        raise UnsupportedRayFeatureError(
            f"ModelCatalog.get_model_v2 of {found!r}",
            "An algorithm puts its heads on a function's model",
            "register a subclass of TFModelV2 or TorchModelV2",
        )
    if interface is not None and not issubclass(found, interface):
        found = type(found.__name__, (interface, found), {})
    allow_forms_of_keras_2()
    return found(encoded, *others, **options)


def _default_class(is_image: bool, is_torch: bool) -> type[Any]:
    from raycompat._old.rllib.models import tf_networks, torch_networks

    if is_torch and is_image:
        raise UnsupportedRayFeatureError(
            "ModelCatalog.get_model_v2(framework='torch') for images",
            "The filters are of Keras",
            "register a subclass of TorchModelV2, or leave framework out",
        )
    if is_torch:
        return torch_networks.FullyConnectedNetwork
    return tf_networks.VisionNetwork if is_image else tf_networks.FullyConnectedNetwork


def _sees_reward(model: ModelV2) -> bool:
    """Return whether the last reward is a further input of a network."""
    views = views_of(model.view_requirements)
    return views is not None and bool(views.rewards)


def _example_shape(model: ModelV2, shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return the shape of inputs of a network for two rows, or for sequences where it has a memory."""
    states = model.get_initial_state()
    num_more = sum(_as_state(each).size for each in states) + _sees_reward(model)
    return (2, 3, math.prod(shape) + num_more) if states else (2, *shape)


def _as_state(state: Any) -> Any:
    """Return a state of a network, an array or a tensor, as an array of float32."""
    detach = getattr(state, "detach", None)
    return np.asarray(state if detach is None else detach().cpu().numpy(), np.float32)


def _not_taken(cls: type[ModelV2], names: Iterable[str]) -> tuple[str, ...]:
    """Return which names a class with parameters of its own lacks; a class without reads the config."""
    own = set(inspect.signature(cls).parameters) - _GIVEN
    return tuple(name for name in names if own and name not in own)


#: What each class is made with.
_GIVEN = set(inspect.signature(ModelV2).parameters) | {"given"}


@functools.cache
def _say_not_taken(name: str, unknown: tuple[str, ...]) -> None:
    logger.warning(
        "%s has no parameters %s, which custom_model_config names: it is made without any of "
        'custom_model_config, and can read it from model_config["custom_model_config"].',
        name,
        list(unknown),
    )


def _check_size(function: str, found: Any, rows: int | None, count: int) -> None:
    """Raise ValueError unless a tensor has `count` numbers a row, as far as its shape is known."""
    if getattr(found.shape, "rank", 0) is None:
        return
    shape: tuple[Any, ...] = tuple(found.shape)
    expected = count if rows is None else rows * count
    if None in (rows, *shape[:1]):
        shape, expected = shape[1:], count
    if None not in shape and math.prod(shape) != expected:
        raise ValueError(
            f"{function} returned a tensor of shape {tuple(found.shape)}: expected "
            f"({'rows' if rows is None else rows}, {count}), one row for each observation. The "
            f"number of outputs is the parameter num_outputs, {count} here; a critic has one value."
        )


def _encoded(space: Any, shape: tuple[int, ...]) -> Any:
    """Return the space that a network is told: that of encoded observations."""
    is_box = isinstance(space, spaces.Box)
    found: Any = copy.copy(space) if is_box else spaces.Box(-np.inf, np.inf, shape, np.float32)
    found.original_space = space
    return found


@functools.cache
def _keras_layer(keras: Any) -> Any:
    import tensorflow as tf

    class KerasModel(keras.layers.Layer):
        """A network of Keras layers."""

        def __init__(self, source: ModelSource, model: ModelV2, shape: tuple[int, ...]) -> None:
            super().__init__()
            self._source, self.of_class, self._shape = source, model, shape
            #: Keras tracks the layers and variables of a list.
            self.parts = parts_of(model, (keras.layers.Layer, keras.Variable), set())
            #: What ``forward`` makes by name.
            self._named: NamedVariables | None = None
            if makes_variables(type(model).forward):
                named = self._named = NamedVariables()
                self._run(tf.zeros(_example_shape(model, shape)))
                self.parts = [*self.parts, *named.made.values()]

        def _run(self, inputs: Any) -> Any:
            scope = contextlib.nullcontext() if self._named is None else self._named.active()
            with scope:
                return self._source.run(self.of_class, inputs, self._shape, keras.ops)

        def call(self, inputs: Any) -> Any:
            with tf.GradientTape() as tape:
                found = self._run(inputs)
            self._check_variables(tape.watched_variables())
            return found

        def _check_variables(self, used: Any) -> None:
            """Raise for variables that would neither learn nor reach other processes."""
            if self.compute_dtype != self.variable_dtype:
                return  # Keras shows copies of them
            known = {id(weight.value) for weight in self.weights}
            unknown = [f"{each.name} {tuple(each.shape)}" for each in used if id(each) not in known]
            if unknown:
                name = type(self.of_class).__name__
                raise ValueError(
                    f"{name}.forward uses variables that do not learn, because they are not among "
                    f"the network's: {unknown}. Keep Keras layers and keras.Variable (in place of "
                    f"tf.Variable) as attributes of {name}, or in lists and dicts of these."
                )

    return KerasModel


class _Computation:
    """A network of PyTorch as two functions of arrays.

    Parameters
    ----------
    source : ModelSource
    model : TorchModelV2, which is a torch.nn.Module
        It computes as in evaluation: without dropout, and with the first statistics of its batches.
    shape : tuple of int
        Of an encoded observation.
    """

    def __init__(self, source: ModelSource, model: Any, shape: tuple[int, ...]) -> None:
        self._source, self._model, self._shape = source, model.eval(), shape
        self.parameters = list(model.parameters())
        # TensorFlow may compute two batches at a time, and a network remembers its last one.
        self._lock = threading.Lock()

    def check(self) -> None:
        """Compute once for zeros: errors of a later call come from TensorFlow."""
        import torch

        shape = _example_shape(self._model, self._shape)
        with torch.no_grad():
            self._source.run(self._model, torch.zeros(shape), self._shape, _TorchOps)

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
        return self._source.run(self._model, torch.tensor(inputs), self._shape, _TorchOps)


def _array(gradient: Any, parameter: Any) -> Any:
    return np.zeros(parameter.shape, np.float32) if gradient is None else gradient.numpy()


@functools.cache
def _torch_layer(keras: Any) -> Any:
    import tensorflow as tf

    class TorchModel(keras.layers.Layer):
        """A network of PyTorch."""

        def __init__(self, source: ModelSource, model: Any, shape: tuple[int, ...]) -> None:
            super().__init__()
            self.of_class, self._computation = model, _Computation(source, model, shape)
            self._computation.check()
            self._sizes = [source.num_outputs, *([1] if source.gives_value else [])]
            states = model.get_initial_state()
            self._num_states = sum(_as_state(each).size for each in states)
            self._own = [self._variable(each) for each in self._computation.parameters]

        def _variable(self, parameter: Any) -> Any:
            made = self.add_weight(
                shape=tuple(parameter.shape), initializer="zeros", trainable=parameter.requires_grad
            )
            made.assign(parameter.detach().numpy())
            return made

        def take_gradients(self) -> list[tuple[Any, Any]]:
            """Return, once, what a backward pass of the program left at the parameters."""
            found = []
            for variable, parameter in zip(self._own, self._computation.parameters, strict=True):
                if parameter.grad is not None:
                    found.append((variable, parameter.grad.numpy()))
                    parameter.grad = None
            return found

        def call(self, inputs: Any) -> Any:
            return list(tf.custom_gradient(self._outputs)(inputs, *[w.value for w in self._own]))

        def _outputs(self, inputs: Any, *weights: Any) -> Any:
            rows = None if self._num_states else inputs.shape[0]
            shapes = [(rows, size) for size in self._sizes]
            if self._num_states:
                shapes.append((inputs.shape[0], self._num_states))
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
