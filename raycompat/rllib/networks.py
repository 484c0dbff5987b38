"""Networks: a plain description, its Keras layers for learning, and a quick way to act by it.

A network is a trunk, which all heads share, and heads, each with separate layers. Networks of dense
layers act in numpy, which for one observation is many times quicker than a call into TensorFlow; others
act in a `tf.function`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from types import ModuleType
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from raycompat.rllib._types import Array, Tensor
from raycompat.rllib.memory import Memory, memory_layer, rows_layer

if TYPE_CHECKING:
    import keras
    import torch
    from keras.layers import Layer

#: Makes the layers below the heads, for the shape of an observation.
TrunkMaker: TypeAlias = "Callable[[tuple[int, ...]], keras.Model]"

#: The arrays of a network, in the order of its layers.
Weights = list[Array]

#: The values of the option ``fcnet_activation``, in numpy; Keras has the same names.
ACTIVATIONS: dict[str, Callable[[NDArray[np.float32]], NDArray[np.float32]]] = {
    "tanh": np.tanh,
    "relu": lambda x: np.maximum(x, 0),
    "linear": lambda x: x,
    "swish": lambda x: x / (1 + np.exp(-x)),
    "silu": lambda x: x / (1 + np.exp(-x)),
}


@dataclass(frozen=True)
class Head:
    """One output of a network.

    Parameters
    ----------
    name : str
    num_outputs : int
    hiddens : tuple of int
        The widths of the layers of this output alone.
    scale : float
        The gain of the last layer's initial weights. Small: all outputs begin nearly equal.
    num_free : int
        How many further outputs are learned numbers that do not depend on the observation; 0 at first.
    noise : float
        The weights of all its layers have learned noise: this, divided by the root of the number of a
        layer's inputs, is the first standard deviation. 0: there is none.

    Notes
    -----
    Fortunato et al., "Noisy networks for exploration" (arXiv 1706.10295), with factorised noise.
    """

    name: str
    num_outputs: int
    hiddens: tuple[int, ...] = ()
    scale: float = 1.0
    num_free: int = 0
    noise: float = 0.0

    @property
    def num_weights(self) -> int:
        """How many arrays its weights are: a noisy layer has deviations, too."""
        return (1 + len(self.hiddens)) * (4 if self.noise else 2) + bool(self.num_free)


@dataclass(frozen=True)
class Initializer:
    """The first kernels or biases of hidden dense layers, by a function of ``torch.nn.init``.

    Parameters
    ----------
    name : str
        Of the option of the model, for errors.
    function : callable or str
        Changes a tensor of shape (outputs, inputs) or (outputs,); or its name.
    options : dict, optional
        Its other arguments.

    Raises
    ------
    ValueError
        When there is no function of the name.
    """

    name: str
    function: str | Callable[..., object]
    options: Mapping[str, object] | None = None

    def __post_init__(self) -> None:
        self._called()

    def _called(self) -> Callable[..., object]:
        if callable(self.function):
            return self.function
        from torch.nn import init

        found: Callable[..., object] | None = getattr(init, str(self.function), None)
        if found is None:
            raise ValueError(
                f"{self.name}={self.function!r}: expected a function of torch.nn.init, or "
                "the name of one, such as 'xavier_uniform_'."
            )
        return found

    def fill(self, kernel: torch.Tensor) -> None:
        """Change a tensor of PyTorch."""
        self._called()(kernel, **(self.options or {}))

    def made(self, shape: Sequence[int], seed: int) -> NDArray[np.float32]:
        """Return an array of shape (inputs, outputs) or (outputs,)."""
        import torch

        found = torch.empty(*shape[::-1])
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            self.fill(found)
        return np.ascontiguousarray(found.detach().numpy().T)

    @classmethod
    def of(cls, model: Mapping[str, Any], name: str) -> Initializer | None:
        """Return what an option of a model names; None without, and for biases of 0."""
        function = model.get(name)
        if function is None or (name, function) == ("fcnet_bias_initializer", "zeros_"):
            return None
        return cls(name, function, model.get(f"{name}_kwargs"))


@dataclass(frozen=True)
class NetworkSpec:
    """Layers and heads of a network.

    Parameters
    ----------
    observation_shape : tuple of int
        One axis, or the three of an image.
    heads : tuple of Head
    trunk : tuple of int
        The widths of the dense layers that all heads share.
    activation : str
        A key of `ACTIVATIONS`.
    conv_filters : tuple of (int, int, int)
        Before the trunk: the numbers of filters, the sides of their windows, and their steps.
    custom_trunk : callable, optional
        In place of filters and trunk: returns a Keras model for the observation's shape.
    gives_heads : bool
        Whether that model has the outputs of the heads, in their order, and needs no layers on top.
    memory : Memory, optional
        What it remembers. Its inputs are sequences then, see `raycompat.rllib.memory`; and it has the
        further output ``states``, those after each sequence.
    distribution : DistributionOfUser, optional
        In place of the one that follows from the space of actions.
    kernel_initializer, bias_initializer : Initializer, optional
        Of the dense layers but the last of each head. Default: orthogonal matrices, and 0.
    """

    observation_shape: tuple[int, ...]
    heads: tuple[Head, ...]
    trunk: tuple[int, ...] = ()
    activation: str = "tanh"
    conv_filters: tuple[tuple[int, int, int], ...] = ()
    custom_trunk: TrunkMaker | None = None
    gives_heads: bool = False
    memory: Memory | None = None
    distribution: Any = None
    kernel_initializer: Initializer | None = None
    bias_initializer: Initializer | None = None

    @property
    def is_dense(self) -> bool:
        """Whether all layers are dense."""
        return not self.conv_filters and self.custom_trunk is None and self.memory is None

    @property
    def is_noisy(self) -> bool:
        """Whether a head has noise."""
        return any(head.noise for head in self.heads)

    def without_noise(self) -> NetworkSpec:
        """Return the same network, whose weights are those of `drawn_weights`."""
        return replace(self, heads=tuple(replace(head, noise=0.0) for head in self.heads))

    @property
    def num_parameters(self) -> int:
        """Number of parameters of a dense network without noise."""
        assert self.is_dense, "only dense networks are counted without being made"
        return sum(
            (before + 1) * width
            for layers in self.dense_layers()
            for before, width in pairwise(layers)
        ) + sum(head.num_free for head in self.heads)

    def dense_layers(self) -> list[list[int]]:
        """Return the widths along the trunk and along each head, the inputs' first."""
        inputs = int(np.prod(self.observation_shape))
        trunk = [inputs, *self.trunk]
        return [trunk, *([trunk[-1], *head.hiddens, head.num_outputs] for head in self.heads)]


def default_filters(shape: tuple[int, ...]) -> tuple[tuple[int, int, int], ...]:
    """Return the filters for images of a shape (height, width, channels); none for vectors."""
    if len(shape) != 3:
        return ()
    if min(shape[:2]) >= 64:
        return (16, 8, 4), (32, 4, 2), (64, 3, 2)
    return (16, 3, 2), (32, 3, 2)


def initial_weights(spec: NetworkSpec, seed: int) -> Weights:
    """Return the weights that a dense network begins with, without TensorFlow.

    Parameters
    ----------
    spec : NetworkSpec
    seed : int

    Returns
    -------
    list of array of float32
        A kernel of shape (inputs, outputs) and a bias for each layer, in the order of
        `NetworkSpec.dense_layers`, and their deviations where it is noisy; after those of a head its
        free numbers, if it has some.

    Notes
    -----
    Orthogonal kernels (Saxe et al., arXiv 1312.6120) if the spec says nothing else, biases of 0; in
    noisy layers uniform numbers, as in arXiv 1706.10295.
    """
    rng = np.random.default_rng(seed)
    weights: Weights = []
    gain = 1.0 if spec.activation == "linear" else float(np.sqrt(2))
    trunk, *heads = spec.dense_layers()
    # The last layer of a head begins as the head says, whatever the others begin with.
    scales = [None, *(head.scale for head in spec.heads)]
    free = [0, *(head.num_free for head in spec.heads)]
    noise = [0.0, *(head.noise for head in spec.heads)]
    for layers, last_scale, num_free, own in zip([trunk, *heads], scales, free, noise, strict=True):
        for index in range(len(layers) - 1):
            if own:
                weights += _noisy_weights(rng, layers[index], layers[index + 1], own)
                continue
            scale = last_scale if index == len(layers) - 2 else None
            size = layers[index], layers[index + 1]
            if scale is None and spec.kernel_initializer is not None:
                kernel = spec.kernel_initializer.made(size, seed + len(weights))
            else:
                kernel = (gain if scale is None else scale) * _orthogonal(rng, *size)
            weights.append(kernel)
            if scale is None and spec.bias_initializer is not None:
                weights.append(spec.bias_initializer.made(size[1:], seed + len(weights)))
            else:
                weights.append(np.zeros(layers[index + 1], np.float32))
        if num_free:
            weights.append(np.zeros(num_free, np.float32))
    return weights


def _noisy_weights(rng: np.random.Generator, inputs: int, outputs: int, noise: float) -> Weights:
    bound = inputs**-0.5
    shapes = (inputs, outputs), (outputs,)
    means = [rng.uniform(-bound, bound, shape).astype(np.float32) for shape in shapes]
    return [*means, *(np.full(shape, noise * bound, np.float32) for shape in shapes)]


def drawn_weights(spec: NetworkSpec, weights: Weights, rng: np.random.Generator | None) -> Weights:
    """Return the weights of `NetworkSpec.without_noise`, with noise that is drawn.

    Parameters
    ----------
    spec : NetworkSpec
    weights : list of array
        Of the noisy network.
    rng : numpy.random.Generator or None
        None: without noise.
    """
    begin = len(weights) - sum(head.num_weights for head in spec.heads)
    found, rest = weights[:begin], iter(weights[begin:])
    for head in spec.heads:
        for _ in range(1 + len(head.hiddens)):
            kernel, bias = next(rest), next(rest)
            if head.noise:
                of_kernel, of_bias = next(rest), next(rest)
                if rng is not None:
                    inputs, outputs = kernel.shape
                    of_inputs = _root(rng.standard_normal((inputs,)))
                    of_outputs = _root(rng.standard_normal((outputs,)))
                    kernel = kernel + of_kernel * np.outer(of_inputs, of_outputs)
                    bias = bias + of_bias * of_outputs
            found += [kernel.astype(np.float32), bias.astype(np.float32)]
        if head.num_free:
            found.append(next(rest))
    return found


def _root(noise: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the roots of numbers with their signs."""
    found: NDArray[np.float64] = np.sign(noise) * np.sqrt(np.abs(noise))
    return found


def _orthogonal(rng: np.random.Generator, rows: int, columns: int) -> NDArray[np.float32]:
    normal = rng.standard_normal((max(rows, columns), min(rows, columns)))
    q, r = np.linalg.qr(normal)
    q *= np.sign(np.diag(r))
    return (q if rows >= columns else q.T).astype(np.float32)


class Forward(Protocol):
    """A network that acts."""

    #: The network of a user's class; None where it is made of options.
    of_class: Any

    def __call__(self, observations: NDArray[np.float32]) -> dict[str, NDArray[np.float32]]:
        """Return the outputs of each head, of shape (rows, num_outputs)."""

    def set_weights(self, weights: Weights) -> None:
        """Replace all weights."""


def make_forward(spec: NetworkSpec) -> Forward:
    """Return what acts by networks of this kind; it has no weights yet."""
    return NumpyForward(spec) if spec.is_dense else KerasForward(spec)


class NumpyForward:
    """A dense network in numpy.

    Parameters
    ----------
    spec : NetworkSpec
    """

    of_class: Any = None

    def __init__(self, spec: NetworkSpec) -> None:
        self._spec = spec
        self._activate = ACTIVATIONS[spec.activation]
        self._weights: Weights = []

    def set_weights(self, weights: Weights) -> None:
        """Replace all weights."""
        self._weights = weights

    def __call__(self, observations: NDArray[np.float32]) -> dict[str, NDArray[np.float32]]:
        """Return the outputs of each head, of shape (rows, num_outputs)."""
        weights = iter(self._weights)
        trunk = observations
        for _ in self._spec.trunk:
            trunk = self._activate(trunk @ next(weights) + next(weights))
        outputs = {}
        for head in self._spec.heads:
            x = trunk
            for _ in head.hiddens:
                x = self._activate(x @ next(weights) + next(weights))
            x = x @ next(weights) + next(weights)
            if head.num_free:
                free = np.broadcast_to(next(weights), (len(x), head.num_free))
                x = np.concatenate([x, free], axis=-1)
            outputs[head.name] = x
        return outputs


class KerasNetwork:
    """A network of Keras layers, which learns.

    Parameters
    ----------
    spec : NetworkSpec
    seed : int
        The seed of its initial weights.

    Attributes
    ----------
    model : keras.Model
        From observations to a dict with the outputs of each head.
    """

    def __init__(self, spec: NetworkSpec, seed: int) -> None:
        self._keras = import_keras()
        self._seed = seed
        #: Keras orders weights by the depth of layers; these travel in the order of making.
        self._layers: list[Layer] = []
        inputs, trunk, outputs = self._inputs_and_trunk(spec)
        #: Outputs with noise, where heads have some.
        drawn = dict(outputs)
        for place, head in enumerate(spec.heads):
            if spec.gives_heads:
                x = trunk[place]
            elif head.noise:
                layers = self._noisy_layers(head, spec)
                x = functools.reduce(lambda below, layer: layer(below), layers, trunk)
                drawn[head.name] = functools.reduce(
                    lambda below, layer: layer(below, is_drawn=True), layers, trunk
                )
            else:
                x = trunk
                for width in head.hiddens:
                    x = self._hidden(x, width, spec)
                x = self._dense(x, head.num_outputs, None, head.scale)
            if head.num_free:
                x = self._added(_free_layer(self._keras)(head.num_free))(x)
            outputs[head.name] = x
        self.model = self._keras.Model(inputs, outputs)
        self._drawn = (
            self._keras.Model(inputs, {**outputs, **drawn}) if spec.is_noisy else self.model
        )
        self._variables = [variable for layer in self._layers for variable in layer.weights]
        self._read = _compiled_read(self._variables)
        if spec.is_dense:
            self.set_weights(initial_weights(spec, seed))

    def _inputs_and_trunk(
        self, spec: NetworkSpec
    ) -> tuple[Tensor, Tensor | list[Tensor], dict[str, Tensor]]:
        """Return the inputs, what the heads are on, and the states where there is a memory."""
        memory = spec.memory
        if memory is None:
            inputs = self._keras.Input(spec.observation_shape)
            return inputs, self._trunk(spec, inputs), {}
        num_observed = int(np.prod(spec.observation_shape))
        inputs = self._keras.Input((None, num_observed + memory.row.size))
        if spec.gives_heads:
            *trunk, states = self._trunk(spec, inputs)
            return inputs, trunk, {"states": states}
        features = self._trunk(spec, rows_layer(self._keras)(spec.observation_shape)(inputs))
        layer = self._added(memory_layer(self._keras)(memory, num_observed, self._next_seed()))
        trunk, states = layer(features, inputs)
        return inputs, trunk, {"states": states}

    def _trunk(self, spec: NetworkSpec, inputs: Tensor) -> Tensor:
        layers = self._keras.layers
        if spec.custom_trunk is not None:
            return self._added(spec.custom_trunk(spec.observation_shape))(inputs)
        x = inputs
        for filters, side, step in spec.conv_filters:
            initializer = self._keras.initializers.HeNormal(self._next_seed())
            layer = layers.Conv2D(
                filters, side, step, "same", activation="relu", kernel_initializer=initializer
            )
            x = self._added(layer)(x)
        if spec.conv_filters:
            x = layers.Flatten()(x)
        for width in spec.trunk:
            x = self._hidden(x, width, spec)
        return x

    def _hidden(self, x: Tensor, width: int, spec: NetworkSpec) -> Tensor:
        seed = self._next_seed()
        found = self._dense(x, width, spec.activation)
        kernel, bias = self._layers[-1].weights
        for made, variable in ((spec.kernel_initializer, kernel), (spec.bias_initializer, bias)):
            if made is not None:
                variable.assign(made.made(variable.shape, seed))
        return found

    def _dense(
        self, x: Tensor, width: int, activation: str | None, scale: float = float(np.sqrt(2))
    ) -> Tensor:
        initializer = self._keras.initializers.Orthogonal(scale, seed=self._next_seed())
        layer = self._keras.layers.Dense(
            width, activation=activation, kernel_initializer=initializer
        )
        return self._added(layer)(x)

    def _noisy_layers(self, head: Head, spec: NetworkSpec) -> list[Layer]:
        activations = [spec.activation] * len(head.hiddens)
        sizes = [*zip(head.hiddens, activations, strict=True), (head.num_outputs, None)]
        make = _noisy_layer(self._keras)
        return [
            self._added(make(width, activation, head.noise, self._next_seed()))
            for width, activation in sizes
        ]

    def _added(self, layer: Layer) -> Layer:
        self._layers.append(layer)
        return layer

    def _next_seed(self) -> int:
        return self._seed + len(self._layers)

    def __call__(self, observations: Array | Tensor) -> dict[str, Tensor]:
        """Return the outputs of each head as tensors of shape (rows, num_outputs).

        Of a network with a memory, observations have the shape (sequences, steps, numbers), and the
        rows of outputs are all steps of the first sequence, of the second one, and so on.
        """
        found: dict[str, Tensor] = self.model(observations, training=False)
        return found

    def drawn(self, observations: Array | Tensor) -> dict[str, Tensor]:
        """Return the outputs with new noise, the same for all rows; without noise, as `__call__`."""
        found: dict[str, Tensor] = self._drawn(observations, training=False)
        return found

    @property
    def of_class(self) -> Any:
        """The network of a user's class; None where it is made of options."""
        # Below heads of an algorithm, it is in a model of Keras.
        below = [part for each in self._layers for part in getattr(each, "layers", ())]
        layers = (getattr(layer, "of_class", None) for layer in [*self._layers, *below])
        return next((each for each in layers if each is not None), None)

    @property
    def variables(self) -> list[keras.Variable]:
        """The variables that learn."""
        found: list[keras.Variable] = self.model.trainable_variables
        return found

    def get_weights(self) -> Weights:
        """Return copies of all weights."""
        return [np.array(weight) for weight in self._read()]

    def set_weights(self, weights: Weights) -> None:
        """Replace all weights.

        Raises
        ------
        ValueError
            When their number or a shape differs.
        """
        for variable, weight in zip(self._variables, weights, strict=True):
            variable.assign(weight)


@functools.cache
def _free_layer(keras: Any) -> type[Layer]:
    """Return the class of a layer that adds learned outputs, which are the same for each input."""

    class Free(keras.layers.Layer):
        def __init__(self, count: int) -> None:
            super().__init__()
            self._count = count

        def build(self, input_shape: tuple[int | None, ...]) -> None:
            self.free = self.add_weight(shape=(self._count,), initializer="zeros", name="free")

        def call(self, inputs: Tensor) -> Tensor:
            rows = keras.ops.zeros_like(inputs[:, :1]) + self.free
            return keras.ops.concatenate([inputs, rows], -1)

    return Free


@functools.cache
def _noisy_layer(keras: Any) -> type[Layer]:
    """Return the class of a dense layer whose weights have learned noise; see `Head`."""

    class Noisy(keras.layers.Layer):
        def __init__(self, width: int, activation: str | None, noise: float, seed: int) -> None:
            super().__init__()
            self._width, self._noise, self._seed = width, noise, seed
            self._activate = keras.activations.get(activation)
            self._seeds = keras.random.SeedGenerator(seed)

        def build(self, input_shape: tuple[int | None, ...]) -> None:
            first = _noisy_weights(
                np.random.default_rng(self._seed),
                int(input_shape[-1] or 0),
                self._width,
                self._noise,
            )
            names = ("kernel", "bias", "kernel_deviations", "bias_deviations")
            self.kernel, self.bias, self.kernel_deviations, self.bias_deviations = (
                self.add_weight(shape=each.shape, initializer=_constant(each), name=name)
                for name, each in zip(names, first, strict=True)
            )

        def call(self, inputs: Tensor, is_drawn: bool = False) -> Tensor:
            kernel, bias = self.kernel, self.bias
            if is_drawn:
                of_inputs, of_outputs = (self._normal(count) for count in kernel.shape)
                kernel = kernel + self.kernel_deviations * of_inputs[:, None] * of_outputs
                bias = bias + self.bias_deviations * of_outputs
            return self._activate(keras.ops.matmul(inputs, kernel) + bias)

        def _normal(self, count: int) -> Tensor:
            noise = keras.random.normal((count,), seed=self._seeds)
            return keras.ops.sign(noise) * keras.ops.sqrt(keras.ops.abs(noise))

    return Noisy


def _constant(value: Array) -> Callable[..., Array]:
    return lambda shape, dtype=None: value


def _compiled_read(variables: list[keras.Variable]) -> Callable[[], list[Tensor]]:
    """Return a function that reads all variables in one call of TensorFlow."""
    import tensorflow as tf

    def read() -> list[Tensor]:
        return [tf.identity(variable.value) for variable in variables]

    compiled: Callable[[], list[Tensor]] = tf.function(read, autograph=False)
    return compiled


class KerasForward:
    """A network of any layers, which acts in a `tf.function`.

    Parameters
    ----------
    spec : NetworkSpec
    """

    def __init__(self, spec: NetworkSpec) -> None:
        import tensorflow as tf

        self._network = KerasNetwork(spec, seed=0)
        self._has_memory = spec.memory is not None
        self._forward = tf.function(self._network.__call__, reduce_retracing=True)
        self.of_class = self._network.of_class

    def set_weights(self, weights: Weights) -> None:
        """Replace all weights."""
        self._network.set_weights(weights)

    def __call__(self, observations: NDArray[np.float32]) -> dict[str, NDArray[np.float32]]:
        """Return the outputs of each head, of shape (rows, num_outputs)."""
        rows = observations[:, None] if self._has_memory else observations
        return {name: output.numpy() for name, output in self._forward(rows).items()}


def import_keras() -> ModuleType:
    """Return Keras 3 on TensorFlow.

    Raises
    ------
    ImportError
        When it is not installed, or computes with something else.
    """
    try:
        import keras
    except ImportError as error:
        raise ImportError(
            f"Algorithms learn with Keras and TensorFlow, which cannot be imported ({error}): "
            "pip install 'raycompat[rl]'."
        ) from error
    if keras.config.backend() != "tensorflow":
        raise ImportError(
            f"Keras computes with {keras.config.backend()!r}, and algorithms need TensorFlow: set "
            "KERAS_BACKEND=tensorflow in the environment before the program starts."
        )
    found: ModuleType = keras
    return found
