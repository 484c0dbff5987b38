"""Networks of Keras layers that programs build theirs of: ``ray.rllib.models.tf``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from raycompat._old.rllib.models.modelv2 import RecurrentModel, TFModelV2
from raycompat.rllib.networks import default_filters, import_keras


def normc_initializer(std: float = 1.0) -> Callable[..., Any]:
    """Return an initializer of normal numbers; the weights of each output have the norm `std`.

    Parameters
    ----------
    std : float, default 1.0
    """

    def initialize(shape: Any, dtype: Any = None, partition_info: Any = None) -> Any:
        drawn = np.random.standard_normal(shape)
        norms = np.sqrt(np.square(drawn).sum(axis=0, keepdims=True))
        return import_keras().ops.convert_to_tensor((std * drawn / norms).astype("float32"))

    return initialize


class _Layers(TFModelV2):
    """A Keras model with outputs and values."""

    def __init__(
        self,
        obs_space: Any,
        action_space: Any,
        num_outputs: int | None,
        model_config: Mapping[str, Any],
        name: str,
    ) -> None:
        super().__init__(obs_space, action_space, num_outputs, model_config, name)
        inputs, trunk, critic = self._layers()
        dense = import_keras().layers.Dense
        if self.num_outputs is None:
            self.num_outputs, outputs = int(trunk.shape[-1]), trunk
        else:
            outputs = dense(self.num_outputs, kernel_initializer=normc_initializer(0.01))(trunk)
        values = dense(1, kernel_initializer=normc_initializer(0.01))(critic)
        self.base_model = import_keras().Model(inputs, [outputs, values])

    def _layers(self) -> tuple[Any, Any, Any]:
        """Return the inputs, and the layers below the outputs and below the values."""
        raise NotImplementedError

    def forward(
        self, input_dict: dict[str, Any], state: list[Any], seq_lens: Any
    ) -> tuple[Any, list[Any]]:
        """Return the outputs, and remember the values."""
        outputs, self._values = self.base_model(self._inputs(input_dict))
        return outputs, state

    def _inputs(self, input_dict: dict[str, Any]) -> Any:
        return input_dict["obs"]

    def value_function(self) -> Any:
        """Return the values that `forward` remembered."""
        return import_keras().ops.reshape(self._values, (-1,))


class FullyConnectedNetwork(_Layers):
    """Dense layers: see `ModelV2`."""

    def _layers(self) -> tuple[Any, Any, Any]:
        inputs = import_keras().Input((int(np.prod(self.obs_space.shape)),))
        trunk = self._hidden(inputs)
        shares = self.model_config.get("vf_share_layers", False)
        return inputs, trunk, trunk if shares else self._hidden(inputs)

    def _hidden(self, x: Any) -> Any:
        activation = self.model_config.get("fcnet_activation", "tanh")
        for width in self.model_config.get("fcnet_hiddens", (256, 256)):
            dense = import_keras().layers.Dense
            x = dense(width, activation, kernel_initializer=normc_initializer(1.0))(x)
        return x

    def _inputs(self, input_dict: dict[str, Any]) -> Any:
        return input_dict["obs_flat"]


class VisionNetwork(_Layers):
    """Filters for images, which the critic shares: see `ModelV2`."""

    def _layers(self) -> tuple[Any, Any, Any]:
        layers, shape = import_keras().layers, self.obs_space.shape
        inputs = x = import_keras().Input(shape)
        for filters, side, step in self.model_config.get("conv_filters") or default_filters(shape):
            x = layers.Conv2D(filters, side, step, "same", activation="relu")(x)
        trunk = layers.Dense(256, "relu")(layers.Flatten()(x))
        return inputs, trunk, trunk


class RecurrentNetwork(RecurrentModel, TFModelV2):
    """A network of Keras layers with a memory. Subclasses write `forward_rnn`: see `ModelV2`."""

    def _in_sequences(self, flat: Any, seq_lens: Any) -> Any:
        ops = import_keras().ops
        return ops.reshape(flat, (ops.shape(seq_lens)[0], -1, flat.shape[-1]))

    def _in_rows(self, outputs: Any) -> Any:
        return import_keras().ops.reshape(outputs, (-1, self.num_outputs))
