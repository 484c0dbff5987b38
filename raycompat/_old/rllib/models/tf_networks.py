"""Networks of Keras layers that programs build theirs of: ``ray.rllib.models.tf``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from raycompat._old.rllib.models.modelv2 import TFModelV2
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

    base_model: Any

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

    def _finish(self, inputs: Any, trunk: Any, critic: Any) -> None:
        """Put the last layers on the two trunks."""
        dense = import_keras().layers.Dense
        if self.num_outputs is None:
            self.num_outputs, outputs = int(trunk.shape[-1]), trunk
        else:
            outputs = dense(self.num_outputs, kernel_initializer=normc_initializer(0.01))(trunk)
        values = dense(1, kernel_initializer=normc_initializer(0.01))(critic)
        self.base_model = import_keras().Model(inputs, [outputs, values])


class FullyConnectedNetwork(_Layers):
    """Dense layers: see `ModelV2`."""

    def __init__(
        self,
        obs_space: Any,
        action_space: Any,
        num_outputs: int | None,
        model_config: Mapping[str, Any],
        name: str,
    ) -> None:
        super().__init__(obs_space, action_space, num_outputs, model_config, name)
        inputs = import_keras().Input((int(np.prod(obs_space.shape)),))
        trunk = self._hidden(inputs)
        shares = model_config.get("vf_share_layers", False)
        self._finish(inputs, trunk, trunk if shares else self._hidden(inputs))

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

    def __init__(
        self,
        obs_space: Any,
        action_space: Any,
        num_outputs: int | None,
        model_config: Mapping[str, Any],
        name: str,
    ) -> None:
        super().__init__(obs_space, action_space, num_outputs, model_config, name)
        layers = import_keras().layers
        inputs = x = import_keras().Input(obs_space.shape)
        for filters, side, step in model_config.get("conv_filters") or default_filters(
            obs_space.shape
        ):
            x = layers.Conv2D(filters, side, step, "same", activation="relu")(x)
        trunk = layers.Dense(256, "relu")(layers.Flatten()(x))
        self._finish(inputs, trunk, trunk)
