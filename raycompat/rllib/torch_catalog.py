"""`Catalog`: makes the parts of modules in PyTorch, from the spaces and the options of a model.

The ``build`` of a config makes one part: an encoder, or a head on top of it. The default modules are
made of these parts; a program's catalog replaces some of them, and a program's module may ask for them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import gymnasium
import numpy as np
import torch
from torch import nn

from raycompat.exceptions import UnsupportedRayFeatureError
from raycompat.rllib._types import Options, Space, TensorBatch, TensorBatches
from raycompat.rllib.core.rl_module.default_model_config import DefaultModelConfig
from raycompat.rllib.networks import Initializer
from raycompat.rllib.spaces import ActionDecoder, check_has_deviations
from raycompat.rllib.torch_distributions import TorchDistribution, class_for

#: What an encoder gives, and its parts where there are an actor and a critic.
ENCODER_OUT, ACTOR, CRITIC = "encoder_out", "actor", "critic"

_ACTIVATIONS: dict[str | None, type[nn.Module] | None] = {
    None: None,
    "linear": None,
    "tanh": nn.Tanh,
    "relu": nn.ReLU,
    "silu": nn.SiLU,
    "swish": nn.SiLU,
    "elu": nn.ELU,
    "gelu": nn.GELU,
}

#: A function of ``torch.nn.init``, or its name; and its other arguments.
_Function = Callable[..., object] | str | None
_Arguments = Options | None


def get_activation_fn(name: str | None = None, framework: str = "torch") -> type[nn.Module] | None:
    """Return the class of an activation; None for a linear layer.

    Raises
    ------
    ValueError
        When there is no activation of the name.
    """
    key = name.lower() if isinstance(name, str) else name
    if key not in _ACTIVATIONS:
        known = [each for each in _ACTIVATIONS if each]
        raise ValueError(f"activation={name!r}: expected one of {known}.")
    return _ACTIVATIONS[key]


class TorchModel(nn.Module):
    """A part of a module. Subclass it, and write ``_forward``.

    Notes
    -----
    Ray source: ``ray.rllib.core.models.torch.base.TorchModel``, 2.60.0. Differs from Ray: the shapes of
    inputs are not checked.
    """

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.config = config

    # Inputs and outputs are Any: tensors, or dicts of them, as each class says.

    def forward(self, inputs: Any, **kwargs: object) -> Any:
        """Return what ``_forward`` returns."""
        return self._forward(inputs, **kwargs)

    def _forward(self, inputs: Any, **kwargs: object) -> Any:
        raise NotImplementedError(f"{type(self).__name__}._forward is not written.")


class Encoder:
    """A part that makes features of a batch: a class of a program derives from it and `TorchModel`."""


@dataclass
class ModelConfig:
    """How a part is made. Subclass it, and write ``build``, and ``output_dims`` of an encoder.

    Parameters
    ----------
    input_dims : sequence of int
        The shape of one input.
    always_check_shapes : bool
        Has no effect.
    """

    input_dims: Sequence[int] = ()
    always_check_shapes: bool = False

    @property
    def output_dims(self) -> tuple[int, ...]:
        """The shape of one output."""
        raise NotImplementedError(f"{type(self).__name__}.output_dims is not written.")

    def build(self, framework: str = "torch") -> nn.Module:
        """Return the part."""
        raise NotImplementedError(f"{type(self).__name__}.build is not written.")


@dataclass
class _MLPConfig(ModelConfig):
    """Dense layers, and one more where it has a width; names and defaults are those of Ray."""

    hidden_layer_dims: Sequence[int] = (256, 256)
    hidden_layer_use_bias: bool = True
    hidden_layer_activation: str | None = "relu"
    hidden_layer_use_layernorm: bool = False
    hidden_layer_weights_initializer: _Function = None
    hidden_layer_weights_initializer_config: _Arguments = None
    hidden_layer_bias_initializer: _Function = None
    hidden_layer_bias_initializer_config: _Arguments = None
    output_layer_dim: int | None = None
    output_layer_use_layernorm: bool = False
    output_layer_use_bias: bool = True
    output_layer_activation: str | None = "linear"
    output_layer_weights_initializer: _Function = None
    output_layer_weights_initializer_config: _Arguments = None
    output_layer_bias_initializer: _Function = None
    output_layer_bias_initializer_config: _Arguments = None
    clip_log_std: bool = False
    log_std_clip_param: float = 20.0

    @property
    def output_dims(self) -> tuple[int, ...]:
        """The shape of one output."""
        return (self.output_layer_dim or [*self.input_dims, *self.hidden_layer_dims][-1],)

    def layers(self) -> nn.Sequential:
        """Return the layers, one after the other."""
        made: list[nn.Module] = []
        (width,) = self.input_dims
        rows = [("hidden", each) for each in self.hidden_layer_dims]
        rows += [("output", self.output_layer_dim)] if self.output_layer_dim else []
        for kind, following in rows:
            option = {
                name.removeprefix(f"{kind}_layer_"): value for name, value in vars(self).items()
            }
            layer = nn.Linear(width, following, bias=option["use_bias"])
            for name, tensor in (("weights", layer.weight), ("bias", layer.bias)):
                function = option[f"{name}_initializer"]
                if function is not None and tensor is not None:
                    given = option[f"{name}_initializer_config"]
                    Initializer(f"{kind}_layer_{name}_initializer", function, given).fill(tensor)
            made.append(layer)
            if option["use_layernorm"]:
                made.append(nn.LayerNorm(following))
            activation = get_activation_fn(option["activation"])
            made += [activation()] if activation else []
            width = following
        return nn.Sequential(*made)


class _Head(TorchModel):
    """Dense layers, whose outputs are one tensor; some may be numbers that no input changes."""

    config: _MLPConfig

    def __init__(self, config: _MLPConfig, num_free: int = 0) -> None:
        super().__init__(config)
        self.net = config.layers()
        self.log_std = nn.Parameter(torch.zeros(num_free)) if num_free else None

    def _forward(self, inputs: torch.Tensor, **kwargs: object) -> torch.Tensor:
        found = self.net(inputs)
        if self.log_std is not None:
            found = torch.cat([found, self.log_std.expand(*found.shape[:-1], -1)], -1)
        if not self.config.clip_log_std:
            return found
        means, log_std = found.chunk(2, -1)
        limit = self.config.log_std_clip_param
        return torch.cat([means, log_std.clamp(-limit, limit)], -1)


class MLPHeadConfig(_MLPConfig):
    """A head of dense layers: a tensor of features goes in, a tensor comes out."""

    def build(self, framework: str = "torch") -> TorchModel:
        """Return the head."""
        return _Head(self)


class FreeLogStdMLPHeadConfig(_MLPConfig):
    """The same, with logarithms of deviations that do not depend on the features."""

    def build(self, framework: str = "torch") -> TorchModel:
        """Return the head."""
        count = int(self.output_layer_dim or 0) // 2
        return _Head(_MLPConfig(**{**vars(self), "output_layer_dim": count}), count)


class _Encoder(TorchModel, Encoder):
    def __init__(self, config: _MLPConfig) -> None:
        super().__init__(config)
        self.net = config.layers()

    def _forward(self, inputs: TensorBatch, **kwargs: object) -> TensorBatch:
        return {ENCODER_OUT: self.net(inputs["obs"])}


class MLPEncoderConfig(_MLPConfig):
    """An encoder of dense layers: a batch with the column ``obs`` goes in."""

    def build(self, framework: str = "torch") -> TorchModel:
        """Return the encoder."""
        return _Encoder(self)


class _ImageEncoder(TorchModel, Encoder):
    """Convolutions of images, whose channels are the last axis."""

    def __init__(self, config: CNNEncoderConfig) -> None:
        super().__init__(config)
        activation = get_activation_fn(config.cnn_activation)
        layers: list[nn.Module] = []
        channels = config.input_dims[-1]
        for each in config.convolutions():
            layer = nn.Conv2d(channels, each.channels, each.sides, each.steps)
            nn.init.kaiming_normal_(layer.weight)
            nn.init.zeros_(layer.bias)
            for name, tensor in (("kernel", layer.weight), ("bias", layer.bias)):
                function = getattr(config, f"cnn_{name}_initializer")
                if function is not None:
                    given = getattr(config, f"cnn_{name}_initializer_config")
                    Initializer(f"conv_{name}_initializer", function, given).fill(tensor)
            layers += [nn.ZeroPad2d(each.edges), layer]
            layers += [activation()] if activation else []
            channels = each.channels
        self.net = nn.Sequential(*layers)

    def _forward(self, inputs: TensorBatch, **kwargs: object) -> TensorBatch:
        images = inputs["obs"].movedim(-1, -3).to(next(self.parameters()).dtype)
        return {ENCODER_OUT: self.net(images).movedim(-3, -1).flatten(-3)}


class _Convolution(NamedTuple):
    """One layer: its sides and steps, the zeros beyond the edges, and the size of what it gives."""

    channels: int
    sides: tuple[int, int]
    steps: tuple[int, int]
    #: Left, right, top and bottom.
    edges: tuple[int, int, int, int]
    size: tuple[int, int]


@dataclass
class CNNEncoderConfig(ModelConfig):
    """An encoder of convolutions: a batch with images of shape (height, width, channels) goes in.

    Parameters
    ----------
    input_dims, always_check_shapes
        See `ModelConfig`.
    cnn_filter_specifiers : sequence
        ``(channels, side, step)`` of each layer, and "valid", where it does not see beyond the edges.
    cnn_activation : str, optional
    cnn_kernel_initializer, cnn_bias_initializer : callable or str, optional
        A function of ``torch.nn.init``, or its name.
    cnn_kernel_initializer_config, cnn_bias_initializer_config : dict, optional
        Its other arguments.
    """

    cnn_filter_specifiers: Sequence[Any] = ((16, 4, 2), (32, 4, 2), (64, 8, 2))
    cnn_activation: str | None = "relu"
    cnn_kernel_initializer: _Function = None
    cnn_kernel_initializer_config: _Arguments = None
    cnn_bias_initializer: _Function = None
    cnn_bias_initializer_config: _Arguments = None

    def convolutions(self) -> Iterator[_Convolution]:
        """Yield the layers, from the first.

        Raises
        ------
        ValueError
            When a padding is unknown, or an image is smaller than a filter without padding.
        """
        height, width = self.input_dims[:2]
        for channels, side, step, *padding in self.cnn_filter_specifiers:
            sides, steps = ((n, n) if isinstance(n, int) else tuple(n) for n in (side, step))
            axes = zip((height, width), sides, steps, strict=True)
            if padding not in ([], ["same"], ["valid"]):
                raise ValueError(
                    f"conv_filters: padding={padding[0]!r}: expected 'same' or 'valid', after the step."
                )
            if padding == ["valid"] and (height < sides[0] or width < sides[1]):
                raise ValueError(
                    f"conv_filters: a filter of {sides[0]} x {sides[1]} with 'valid' is larger than "
                    f"its input of {height} x {width}. Expected a smaller filter, or 'same'."
                )
            if padding == ["valid"]:
                height, width = (-(-(n - side + 1) // step) for n, side, step in axes)
                yield _Convolution(channels, sides, steps, (0, 0, 0, 0), (height, width))
                continue
            # As many places as steps fit; a larger part of the zeros is right and below.
            high, wide = (-(-n // step) * step - step + side - n for n, side, step in axes)
            height, width = -(-height // steps[0]), -(-width // steps[1])
            edges = wide // 2, wide - wide // 2, high // 2, high - high // 2
            yield _Convolution(channels, sides, steps, edges, (height, width))

    @property
    def output_dims(self) -> tuple[int, ...]:
        """The shape of one output, a vector."""
        *_, last = self.convolutions()
        return (last.channels * last.size[0] * last.size[1],)

    def build(self, framework: str = "torch") -> TorchModel:
        """Return the encoder."""
        return _ImageEncoder(self)


@dataclass
class _DenseEncoderConfig(MLPEncoderConfig):
    """The encoder of a catalog; a module with its own layers does not build it.

    Parameters
    ----------
    asked : sequence of str
        Options of the model that ask for other layers.
    """

    asked: Sequence[str] = ()

    def build(self, framework: str = "torch") -> TorchModel:
        """Return the encoder.

        Raises
        ------
        UnsupportedRayFeatureError
            When the model asks for other layers.
        """
        if self.asked:
            raise UnsupportedRayFeatureError(
                f"{', '.join(self.asked)} in a network of PyTorch",
                "Its layers are dense, or convolutions of images",
                "leave out learner_class and options that begin with _torch_, or give a TorchRLModule "
                "with these layers as module_class of an RLModuleSpec",
            )
        return super().build(framework)


class _ActorCriticEncoder(TorchModel, Encoder):
    """The encoders below the two heads; one for both where they share."""

    config: ActorCriticEncoderConfig

    def __init__(self, config: ActorCriticEncoderConfig) -> None:
        super().__init__(config)
        self.actor_encoder = config.base_encoder_config.build("torch")
        if not config.shared:
            self.critic_encoder = config.base_encoder_config.build("torch")

    def _forward(self, inputs: TensorBatch, **kwargs: object) -> TensorBatches:
        actor = critic = self.actor_encoder(inputs, **kwargs)[ENCODER_OUT]
        if not self.config.shared:
            critic = self.critic_encoder(inputs, **kwargs)[ENCODER_OUT]
        return {ENCODER_OUT: {ACTOR: actor, CRITIC: critic}}


@dataclass
class ActorCriticEncoderConfig(ModelConfig):
    """The encoders of an actor and a critic, which may be one.

    Parameters
    ----------
    base_encoder_config : ModelConfig
    shared : bool
    inference_only : bool
        Has no effect.
    """

    base_encoder_config: Any = None
    shared: bool = True
    inference_only: bool = False

    def build(self, framework: str = "torch") -> TorchModel:
        """Return the encoders."""
        return _ActorCriticEncoder(self)


def has_dense_layers(encoder: object) -> bool:
    """Return whether an encoder, or that of an actor, is one of this module: it takes vectors."""
    return isinstance(getattr(encoder, "actor_encoder", encoder), _Encoder)


#: Options of a model that dense layers do not carry out.
_NOT_DENSE = ("conv_filters", "custom_model", "use_attention", "use_lstm")

#: The same of its heads.
_NOT_OF_HEADS = (
    "head_fcnet_use_layernorm",
    "head_fcnet_kernel_initializer",
    "head_fcnet_bias_initializer",
    "log_std_clip_param",
)


class Catalog:
    """Makes the encoder and the distribution of a module. Subclass it to replace them.

    Parameters
    ----------
    observation_space, action_space : gymnasium.Space
    model_config_dict : dict or DefaultModelConfig
        The options of the model.

    Attributes
    ----------
    latent_dims : tuple of int
        The shape of an encoder's output.

    Notes
    -----
    Ray source: ``ray.rllib.core.models.catalog.Catalog``, 2.60.0. Differs from Ray: layers are dense,
    or convolutions of images, and those of PyTorch.
    """

    def __init__(
        self,
        observation_space: Space,
        action_space: Space,
        model_config_dict: Mapping[str, Any] | DefaultModelConfig | None,
    ) -> None:
        given = model_config_dict or {}
        self.observation_space, self.action_space = observation_space, action_space
        self._model_config_dict: Options = {
            **vars(DefaultModelConfig()),
            **(given if isinstance(given, Mapping) else vars(given)),
        }
        self.latent_dims: Any = None
        self._determine_components_hook()

    def _determine_components_hook(self) -> None:
        model = self._model_config_dict
        self._encoder_config = self._get_encoder_config(self.observation_space, model)
        self._action_dist_class_fn: Callable[..., type[TorchDistribution]] = self._distribution
        self.latent_dims = self._encoder_config.output_dims

    @classmethod
    def _get_encoder_config(
        cls,
        observation_space: Space,
        model_config_dict: Options,
        action_space: Space | None = None,
    ) -> ModelConfig:
        model, shape = model_config_dict, observation_space.shape or ()
        others = [name for name in _NOT_DENSE if model.get(name)]
        if others == ["conv_filters"] and len(shape) == 3:
            return CNNEncoderConfig(
                input_dims=shape,
                cnn_filter_specifiers=model["conv_filters"],
                cnn_activation=model.get("conv_activation"),
                cnn_kernel_initializer=model.get("conv_kernel_initializer"),
                cnn_kernel_initializer_config=model.get("conv_kernel_initializer_kwargs"),
                cnn_bias_initializer=model.get("conv_bias_initializer"),
                cnn_bias_initializer_config=model.get("conv_bias_initializer_kwargs"),
            )
        *hiddens, last = model.get("fcnet_hiddens") or [256, 256]
        return _DenseEncoderConfig(
            asked=others,
            input_dims=[gymnasium.spaces.flatdim(observation_space)],
            hidden_layer_dims=hiddens,
            output_layer_dim=last,
            **_of_layers("hidden", model),
            **_of_layers("output", model),
        )

    def build_encoder(self, framework: str = "torch") -> nn.Module:
        """Return the encoder."""
        return self._encoder_config.build(framework=framework)

    def get_action_dist_cls(self, framework: str = "torch") -> type[TorchDistribution]:
        """Return the class of the actions' distribution."""
        return self._action_dist_class_fn(framework=framework)

    def _distribution(self, framework: str = "torch") -> type[TorchDistribution]:
        return class_for(ActionDecoder(self.action_space).layout)

    def _head(self, width: int, gain: float) -> MLPHeadConfig:
        """Return a head whose last layer begins with weights of a size."""
        model = self._model_config_dict
        activation = model.get("head_fcnet_activation") or model.get("fcnet_activation")
        return MLPHeadConfig(
            input_dims=self.latent_dims,
            hidden_layer_dims=model.get("head_fcnet_hiddens") or [],
            output_layer_dim=width,
            output_layer_weights_initializer="orthogonal_",
            output_layer_weights_initializer_config={"gain": gain},
            output_layer_bias_initializer="zeros_",
            **_of_layers("hidden", {"fcnet_activation": activation}),
        )


def _of_layers(layers: str, model: Mapping[str, Any]) -> Options:
    """Return the options of a config for the dense layers of a model."""
    kernel, bias = model.get("fcnet_kernel_initializer"), model.get("fcnet_bias_initializer")
    orthogonal = {"gain": float(np.sqrt(2))}
    found = {
        "activation": model.get("fcnet_activation") or "tanh",
        "use_layernorm": bool(model.get("fcnet_use_layernorm")),
        "weights_initializer": kernel or "orthogonal_",
        "weights_initializer_config": model.get("fcnet_kernel_initializer_kwargs")
        if kernel
        else orthogonal,
        "bias_initializer": bias or "zeros_",
        "bias_initializer_config": model.get("fcnet_bias_initializer_kwargs") if bias else None,
    }
    return {f"{layers}_layer_{name}": value for name, value in found.items()}


class BCCatalog(Catalog):
    """Makes the encoder, the head and the distribution of a policy; see `Catalog`.

    Notes
    -----
    Ray source: ``ray.rllib.algorithms.bc.bc_catalog.BCCatalog``, 2.60.0.
    """

    def build_pi_head(self, framework: str = "torch") -> nn.Module:
        """Return the head that gives the parameters of the actions' distribution.

        Raises
        ------
        UnsupportedSpaceException
            When deviations are to be free, and an action is not made of numbers alone.
        """
        cls, model = self.get_action_dist_cls(framework=framework), self._model_config_dict
        asked = [name for name in _NOT_OF_HEADS if model.get(name)]
        if asked:
            raise UnsupportedRayFeatureError(
                f"{', '.join(asked)} in a network of PyTorch",
                "Its heads have dense layers with orthogonal weights and no limits of deviations",
                "leave them out, or write build_pi_head and build_vf_head in a subclass",
            )
        if model.get("free_log_std"):
            check_has_deviations(self.action_space)
        width = cls.required_input_dim(space=self.action_space, model_config=model)
        self.pi_head_config: _MLPConfig = self._head(width, 0.01)
        if model.get("free_log_std"):
            self.pi_head_config = FreeLogStdMLPHeadConfig(**vars(self.pi_head_config))
        return self.pi_head_config.build(framework=framework)


class PPOCatalog(BCCatalog):
    """Makes the encoders, the two heads and the distribution of actor and critic; see `Catalog`.

    Notes
    -----
    Ray source: ``ray.rllib.algorithms.ppo.ppo_catalog.PPOCatalog``, 2.60.0.
    """

    def __init__(
        self,
        observation_space: Space,
        action_space: Space,
        model_config_dict: Mapping[str, Any] | DefaultModelConfig | None,
    ) -> None:
        super().__init__(observation_space, action_space, model_config_dict)
        shares = bool(self._model_config_dict.get("vf_share_layers"))
        self.actor_critic_encoder_config = ActorCriticEncoderConfig(
            base_encoder_config=self._encoder_config, shared=shares
        )
        self.vf_head_config = self._head(1, 1.0)

    def build_actor_critic_encoder(self, framework: str = "torch") -> nn.Module:
        """Return the encoders, whose outputs are ``actor`` and ``critic``."""
        return self.actor_critic_encoder_config.build(framework=framework)

    def build_vf_head(self, framework: str = "torch") -> nn.Module:
        """Return the head of the critic, with one output."""
        return self.vf_head_config.build(framework=framework)
