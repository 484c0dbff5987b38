"""Networks of PyTorch that programs build theirs of: ``ray.rllib.models.torch``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from raycompat._old.rllib.models.modelv2 import BelowValues, RecurrentModel, TorchModelV2
from raycompat._old.rllib.utils import try_import_torch

torch, nn = try_import_torch()
#: Programs for either framework import these names where PyTorch is missing.
_Module: Any = object if nn is None else nn.Module


def normc_initializer(std: float = 1.0) -> Callable[[Any], None]:
    """Return what fills a tensor with normal numbers; the weights of each output have the norm `std`.

    Parameters
    ----------
    std : float, default 1.0
    """

    def initialize(tensor: Any) -> None:
        tensor.data.normal_(0, 1)
        tensor.data *= std / torch.sqrt(tensor.data.pow(2).sum(1, keepdim=True))

    return initialize


def _activation(name: Any) -> Any:
    if name is None or name == "linear":
        return None
    return {"relu": nn.ReLU, "tanh": nn.Tanh, "swish": nn.SiLU, "silu": nn.SiLU}.get(name, name)


_Pair = tuple[int, int]


def _pair(size: Any) -> _Pair:
    return (size, size) if isinstance(size, int) else (int(size[0]), int(size[1]))


def same_padding(in_size: Any, filter_size: Any, stride_size: Any) -> tuple[Any, _Pair]:
    """Return the padding with which a convolution keeps an image's size, divided by its step.

    Parameters
    ----------
    in_size, filter_size, stride_size : int or (int, int)
        Heights and widths.

    Returns
    -------
    padding : tuple of int
        Left, right, top and bottom, as ``torch.nn.ZeroPad2d`` takes it.
    size : tuple of int
        Height and width of what the convolution gives.
    """
    before, kernel, step = _pair(in_size), _pair(filter_size), _pair(stride_size)
    after = (-(-before[0] // step[0]), -(-before[1] // step[1]))
    more = [
        max(0, (out - 1) * by + side - size)
        for out, by, side, size in zip(after, step, kernel, before, strict=True)
    ]
    (top, bottom), (left, right) = ((each // 2, each - each // 2) for each in more)
    return (left, right, top, bottom), after


def valid_padding(in_size: Any, filter_size: Any, stride_size: Any) -> _Pair:
    """Return the height and width of what a convolution without padding gives.

    Parameters
    ----------
    in_size, filter_size, stride_size : int or (int, int)
        Heights and widths.
    """
    before, kernel, step = _pair(in_size), _pair(filter_size), _pair(stride_size)
    height, width = (
        -(-(size - side + 1) // by) for size, side, by in zip(before, kernel, step, strict=True)
    )
    return height, width


class SlimFC(_Module):
    """A dense layer.

    Parameters
    ----------
    in_size, out_size : int
    initializer : callable, optional
        Fills the weights; by default by Xavier's rule.
    activation_fn : str or class of ``torch.nn``, optional
    use_bias : bool, default True
    bias_init : float, default 0.0
    """

    def __init__(
        self,
        in_size: int,
        out_size: int,
        initializer: Callable[[Any], Any] | None = None,
        activation_fn: Any = None,
        use_bias: bool = True,
        bias_init: float = 0.0,
    ) -> None:
        super().__init__()
        linear = nn.Linear(in_size, out_size, bias=use_bias)
        (initializer or nn.init.xavier_uniform_)(linear.weight)
        if use_bias:
            nn.init.constant_(linear.bias, bias_init)
        found = _activation(activation_fn)
        self._model = nn.Sequential(linear, *([] if found is None else [found()]))

    def forward(self, x: Any) -> Any:
        """Return the layer's outputs."""
        return self._model(x)


class FullyConnectedNetwork(TorchModelV2, _Module):
    """Dense layers: see `ModelV2`."""

    def __init__(
        self,
        obs_space: Any,
        action_space: Any,
        num_outputs: int | None,
        model_config: Mapping[str, Any],
        name: str,
    ) -> None:
        _Module.__init__(self)
        TorchModelV2.__init__(self, obs_space, action_space, num_outputs, model_config, name)
        self._hidden_layers, width = self._hidden()
        shares = self.model_config.get("vf_share_layers", False)
        self._critic_layers = None if shares else self._hidden()[0]
        self._logits = None
        if self.num_outputs is None:
            self.num_outputs = width
        else:
            self._logits = SlimFC(width, self.num_outputs, normc_initializer(0.01))
        self._value_branch = SlimFC(width, 1, normc_initializer(0.01))

    def _hidden(self) -> tuple[Any, int]:
        before, layers = int(np.prod(self.obs_space.shape)), []
        activation = self.model_config.get("fcnet_activation", "tanh")
        for width in self.model_config.get("fcnet_hiddens", (256, 256)):
            layers.append(SlimFC(before, width, normc_initializer(1.0), activation))
            before = width
        return nn.Sequential(*layers), before

    def forward(
        self, input_dict: dict[str, Any], state: list[Any], seq_lens: Any
    ) -> tuple[Any, list[Any]]:
        """Return the outputs, and remember the observations for `value_function`."""
        flat = input_dict["obs_flat"].float()
        self._seen = flat.reshape(flat.shape[0], -1)
        self._features = self._hidden_layers(self._seen)
        outputs = self._features if self._logits is None else self._logits(self._features)
        return outputs, state

    def value_function(self) -> Any:
        """Return the values of the observations that `forward` saw last."""
        critic = self._critic_layers
        features = self._features if critic is None else critic(self._seen)
        return self._value_branch(features).squeeze(1)

    def take_keras_weights(self, weights: list[Any]) -> None:
        """Take the weights of an algorithm's network of Keras with the same dense layers.

        Parameters
        ----------
        weights : list of arrays
            The hidden layers and the outputs, then those of the critic; of each a kernel of shape
            (inputs, outputs), and a bias.

        Raises
        ------
        ValueError
            When it has other layers.
        """
        hidden, critic = (
            [f"{name}.{n}" for n in range(len(getattr(self, name) or ()))]
            for name in ("_hidden_layers", "_critic_layers")
        )
        layers = [*hidden, "_logits", *critic, "_value_branch"]
        names = [f"{each}._model.0.{kind}" for each in layers for kind in ("weight", "bias")]
        own, shapes = self.state_dict(), [each.shape[::-1] for each in weights]
        if shapes != [tuple(own[name].shape) for name in names]:
            raise ValueError(
                f"The weights have the shapes {shapes}: expected those of {names}, "
                f"{[tuple(own[name].shape) for name in names]}. Leave head_fcnet_hiddens, filters and "
                "free_log_std out of the options of the model."
            )
        pairs = zip(names, weights, strict=True)
        self.load_state_dict({name: torch.as_tensor(each.T.copy()) for name, each in pairs})


class RecurrentNetwork(RecurrentModel, TorchModelV2):
    """A network of PyTorch with a memory. Subclasses write `forward_rnn`: see `ModelV2`."""

    def _in_sequences(self, flat: Any, seq_lens: Any) -> Any:
        return flat.float().reshape(len(seq_lens), -1, flat.shape[-1])

    def _in_rows(self, outputs: Any) -> Any:
        return outputs.reshape(-1, self.num_outputs)


class LSTMNetwork(RecurrentNetwork, _Module):
    """Dense layers below a long short-term memory, which outputs and values share: see `ModelV2`."""

    def __init__(
        self,
        obs_space: Any,
        action_space: Any,
        num_outputs: int | None,
        model_config: Mapping[str, Any],
        name: str,
    ) -> None:
        _Module.__init__(self)
        TorchModelV2.__init__(self, obs_space, action_space, num_outputs, model_config, name)
        below = FullyConnectedNetwork(obs_space, action_space, None, model_config, name)
        self._below, cells = below._hidden_layers, model_config["lstm_cell_size"]
        self._memory = nn.LSTM(below.num_outputs, cells, batch_first=True)
        self.num_outputs = cells if num_outputs is None else num_outputs
        self._logits, self._value_branch = SlimFC(cells, self.num_outputs), SlimFC(cells, 1)

    def get_initial_state(self) -> list[Any]:
        """Return the states of output and cells at the beginning of an episode."""
        return [torch.zeros(self._memory.hidden_size) for _ in range(2)]

    def forward_rnn(self, inputs: Any, state: list[Any], seq_lens: Any) -> tuple[Any, list[Any]]:
        """Return the outputs for sequences, and the states after them."""
        before = tuple(each[None] for each in state)
        self._features, after = self._memory(self._below(inputs), before)
        return self._logits(self._features), [each[0] for each in after]

    def value_function(self) -> Any:
        """Return the values of the observations that `forward` saw last."""
        return self._value_branch(self._features).reshape(-1)


class DQNTorchModel(BelowValues, TorchModelV2, _Module):
    """The layers below the values of actions, of PyTorch: see `BelowValues`."""

    def __init__(self, *given: Any, **options: Any) -> None:
        _Module.__init__(self)
        BelowValues.__init__(self, *given, **options)
