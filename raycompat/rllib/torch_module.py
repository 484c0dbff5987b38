"""`TorchRLModule`: networks of programs in PyTorch, and how they act.

A program's class has layers in ``setup`` and gives the parameters of the actions' distribution in
``_forward``; with `ValueFunctionAPI` it has a critic, too. It sees observations with the shapes of
their space. `TorchLearner` of `raycompat.rllib.torch_learner` changes it.
"""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, Self

import gymnasium
import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from raycompat.exceptions import UnsupportedRayFeatureError
from raycompat.rllib.distributions import Layout, distribution_of, num_parameters
from raycompat.rllib.fixed_policies import RLModule
from raycompat.rllib.memory import Memory
from raycompat.rllib.module_apis import ValueFunctionAPI
from raycompat.rllib.networks import Initializer, Weights
from raycompat.rllib.policies import Extras
from raycompat.rllib.spaces import ActionDecoder, ObservationEncoder
from raycompat.rllib.torch_distributions import class_for

#: The names of columns that modules give and see.
OBS, ACTIONS, INPUTS, EMBEDDINGS = "obs", "actions", "action_dist_inputs", "embeddings"
LOG_PROBABILITIES, STATE_IN, STATE_OUT = "action_logp", "state_in", "state_out"


@dataclass
class RLModuleConfig:
    """What the constructor of a module took until 2024.

    Parameters
    ----------
    observation_space, action_space : gymnasium.Space
    model_config_dict : dict, optional
    inference_only : bool
    catalog_class : optional
        None.
    """

    observation_space: Any = None
    action_space: Any = None
    model_config_dict: Any = None
    inference_only: bool = False
    catalog_class: Any = None

    @property
    def model_config(self) -> Any:
        """The same as ``model_config_dict``."""
        return self.model_config_dict


class TorchRLModule(nn.Module, RLModule):
    """A network of a program in PyTorch. Subclass it, and write ``setup`` and ``_forward``.

    Parameters
    ----------
    observation_space : gymnasium.Space or RLModuleConfig
        The second holds all parameters, the form until 2024.
    action_space : gymnasium.Space
    inference_only, learner_only : bool
        They have no effect.
    model_config : dict or DefaultModelConfig, optional
        The options of its `RLModuleSpec`.
    **kwargs
        They have no effect.

    Notes
    -----
    Ray source: ``ray.rllib.core.rl_module.torch.TorchRLModule``, 2.60.0. Differs from Ray: a recurrent
    module, whose ``get_initial_state`` returns arrays, learns in PPO alone.
    """

    framework = "torch"

    def __init__(
        self,
        observation_space: Any = None,
        action_space: Any = None,
        *,
        inference_only: bool = False,
        learner_only: bool = False,
        model_config: Any = None,
        config: Any = None,
        **kwargs: Any,
    ) -> None:
        nn.Module.__init__(self)
        given = observation_space if isinstance(observation_space, RLModuleConfig) else config
        if given is None:
            options = _as_dict(model_config)
            given = RLModuleConfig(observation_space, action_space, options, inference_only)
        #: The parameters in one, the form until 2024.
        self.config = given
        RLModule.__init__(
            self,
            given.observation_space,
            given.action_space,
            inference_only=given.inference_only,
            model_config=given.model_config_dict,
        )

    @classmethod
    def of_spaces(cls, observation_space: Any, action_space: Any, model_config: Any) -> Self:
        """Return a module, by the constructor that the class has.

        Parameters
        ----------
        observation_space, action_space : gymnasium.Space
        model_config : dict or DefaultModelConfig, optional
        """
        model_config = _as_dict(model_config)
        names = list(inspect.signature(cls.__init__).parameters)[1:]
        if names[:1] == ["config"]:  # until 2024
            return cls(RLModuleConfig(observation_space, action_space, model_config))
        return cls(
            observation_space=observation_space,
            action_space=action_space,
            model_config=model_config,
        )

    def _forward_train(self, batch: dict[str, Any], **kwargs: Any) -> dict[str, Any]:
        return self._forward(batch, **kwargs)

    def forward_inference(self, batch: dict[str, Any], **kwargs: Any) -> dict[str, Any]:
        """Return the module's outputs for acting without exploring.

        Parameters
        ----------
        batch : dict of tensors
            ``obs``, of shape (rows, ...); of a recurrent module (rows, steps, ...), and ``state_in``,
            of the structure of ``get_initial_state``.
        **kwargs
            Given to the class's own method.
        """
        return self._forward_inference(batch, **kwargs)

    def forward_exploration(self, batch: dict[str, Any], **kwargs: Any) -> dict[str, Any]:
        """Return the module's outputs for acting with exploring; see `forward_inference`."""
        return self._forward_exploration(batch, **kwargs)

    def forward_train(self, batch: dict[str, Any], **kwargs: Any) -> dict[str, Any]:
        """Return the module's outputs for learning; see `forward_inference`."""
        return self._forward_train(batch, **kwargs)

    def forward(self, batch: dict[str, Any], **kwargs: Any) -> dict[str, Any]:
        """Return the same as `forward_train`."""
        return self.forward_train(batch, **kwargs)

    def unwrapped(self) -> Any:
        """Return the module itself."""
        return self

    def is_stateful(self) -> bool:
        """Return whether it is recurrent."""
        return bool(self.get_initial_state())

    def get_initial_state(self) -> Any:
        """Return the states at the beginning of an episode: a dict of arrays; none by default."""
        return {}

    def get_state(self, *args: Any, **kwargs: Any) -> dict[str, Any]:
        """Return all weights by name, arrays."""
        return {name: each.detach().cpu().numpy() for name, each in self.state_dict().items()}

    def set_state(self, state: dict[str, Any]) -> None:
        """Take what `get_state` returned."""
        self.load_state_dict({name: torch.as_tensor(each) for name, each in state.items()})

    def _layout(self) -> Layout:
        return ActionDecoder(self.action_space).layout

    def get_inference_action_dist_cls(self) -> Any:
        """Return the class of the actions' distribution."""
        return class_for(self._layout())

    def get_exploration_action_dist_cls(self) -> Any:
        """Return the class of the actions' distribution."""
        return class_for(self._layout())

    def get_train_action_dist_cls(self) -> Any:
        """Return the class of the actions' distribution."""
        return class_for(self._layout())


def _dense(sizes: list[int], activation: str, model_config: Any = None) -> list[nn.Module]:
    layers: list[nn.Module] = []
    first = Initializer.of(model_config or {}, "fcnet_kernel_initializer")
    bias = Initializer.of(model_config or {}, "fcnet_bias_initializer")
    kind = {"tanh": nn.Tanh, "relu": nn.ReLU, "silu": nn.SiLU, "swish": nn.SiLU}.get(activation)
    for before, width in pairwise(sizes):
        layer = nn.Linear(before, width)
        if first is None:
            nn.init.orthogonal_(layer.weight, float(np.sqrt(2)))
        else:
            first.fill(layer.weight)
        nn.init.zeros_(layer.bias)
        if bias is not None:
            bias.fill(layer.bias)
        layers += [layer] if kind is None else [layer, kind()]
    return layers


def _last(before: int, width: int, gain: float) -> nn.Linear:
    layer = nn.Linear(before, width)
    nn.init.orthogonal_(layer.weight, gain)
    nn.init.zeros_(layer.bias)
    return layer


class _Encoders(nn.Module):
    """The layers below the two heads; one for both where they share."""

    def __init__(self, actor: nn.Module, critic: nn.Module | None) -> None:
        super().__init__()
        self.actor_encoder = actor
        if critic is not None:
            self.critic_encoder = critic

    def of_critic(self) -> nn.Module:
        return getattr(self, "critic_encoder", self.actor_encoder)


#: Options of a model that dense layers do not carry out.
_NOT_DENSE = (
    "conv_filters",
    "custom_model",
    "free_log_std",
    "use_attention",
    "use_lstm",
)


class DefaultBCTorchRLModule(TorchRLModule):
    """A policy of dense layers, ``encoder`` and ``pi``.

    ``model_config`` has ``fcnet_hiddens``, ``head_fcnet_hiddens`` and ``fcnet_activation``.

    Notes
    -----
    Ray source: ``ray.rllib.algorithms.bc.torch.default_bc_torch_rl_module.DefaultBCTorchRLModule``,
    2.60.0. Differs from Ray: layers are dense.
    """

    def setup(self) -> None:
        """Make the layers.

        Raises
        ------
        UnsupportedRayFeatureError
            When ``model_config`` asks for other layers.
        """
        asked = [name for name in _NOT_DENSE if self.model_config.get(name)]
        if asked:
            raise UnsupportedRayFeatureError(
                f"{', '.join(asked)} in a network of PyTorch",
                "Its layers are dense",
                "leave out learner_class and _torch_lr_scheduler_classes, or give a TorchRLModule "
                "with these layers as module_class of an RLModuleSpec",
            )
        #: That of what the layers see: a subclass may take a mask out of its observations.
        self._seen_space = self.observation_space
        self.encoder = _Encoders(nn.Sequential(*self._hidden()), None)
        self.pi = self._head(num_parameters(self._layout()), 0.01)

    def _sizes(self) -> list[int]:
        hiddens = list(self.model_config.get("fcnet_hiddens") or [256, 256])
        return [gymnasium.spaces.flatdim(self.observation_space), *hiddens]

    def _head(self, width: int, gain: float) -> nn.Module:
        """Return the layers of one output: ``head_fcnet_hiddens``, and a last one."""
        sizes = [self._sizes()[-1], *(self.model_config.get("head_fcnet_hiddens") or [])]
        last = _last(sizes[-1], width, gain)
        activation = self.model_config.get("fcnet_activation") or "tanh"
        return nn.Sequential(*_dense(sizes, activation), last) if len(sizes) > 1 else last

    def _hidden(self) -> list[nn.Module]:
        activation = self.model_config.get("fcnet_activation") or "tanh"
        return _dense(self._sizes(), activation, self.model_config)

    def _forward(self, batch: dict[str, Any], **kwargs: Any) -> dict[str, Any]:
        observations = flattened(self._seen_space, batch[OBS])
        return {INPUTS: self.pi(self.encoder.actor_encoder(observations))}


class DefaultPPOTorchRLModule(DefaultBCTorchRLModule, ValueFunctionAPI):
    """A policy and its critic of dense layers, ``encoder``, ``pi`` and ``vf``.

    ``model_config`` has ``fcnet_hiddens``, ``head_fcnet_hiddens``, ``fcnet_activation`` and
    ``vf_share_layers``.

    Notes
    -----
    Ray source: ``ray.rllib.algorithms.ppo.torch.default_ppo_torch_rl_module.DefaultPPOTorchRLModule``,
    2.60.0. Differs from Ray: layers are dense.
    """

    def setup(self) -> None:
        """Make the layers."""
        super().setup()
        if not self.model_config.get("vf_share_layers"):
            self.encoder.critic_encoder = nn.Sequential(*self._hidden())
        self.vf = self._head(1, 1.0)

    def compute_values(self, batch: dict[str, Any], embeddings: Any = None) -> Any:
        """Return the critic's values, a tensor of shape (rows,).

        Parameters
        ----------
        batch : dict of tensors
        embeddings : optional
            Has no effect.
        """
        observations = flattened(self._seen_space, batch[OBS])
        return self.vf(self.encoder.of_critic()(observations)).squeeze(-1)


def unflattened(space: Any, rows: Any) -> Any:
    """Return encoded observations as a module sees them: in the structure of their space.

    Parameters
    ----------
    space : gymnasium.Space
    rows : torch.Tensor, shape (rows, ...)
        See `ObservationEncoder`. Choices become numbers, images get their 0 to 255 back.
    """
    spaces = gymnasium.spaces
    if isinstance(space, spaces.Dict | spaces.Tuple):
        items = space.spaces.items() if isinstance(space, spaces.Dict) else enumerate(space.spaces)
        found, begin = {}, 0
        for name, each in items:
            size = spaces.flatdim(each)
            found[name] = unflattened(each, rows[:, begin : begin + size])
            begin += size
        return found if isinstance(space, spaces.Dict) else tuple(found.values())
    if isinstance(space, spaces.Discrete):
        return rows.argmax(-1) + int(space.start)
    if isinstance(space, spaces.Box):
        shaped = rows.reshape(len(rows), *space.shape)
        return shaped * 255 if ObservationEncoder(space).is_image else shaped
    return rows


def flattened(space: Any, observations: Any) -> Any:
    """Return observations of a module as vectors: the other way of `unflattened`."""
    spaces = gymnasium.spaces
    if isinstance(space, spaces.Dict | spaces.Tuple):
        items = space.spaces.items() if isinstance(space, spaces.Dict) else enumerate(space.spaces)
        return torch.cat([flattened(each, observations[name]) for name, each in items], -1)
    if isinstance(space, spaces.Discrete) and not observations.is_floating_point():
        return nn.functional.one_hot(observations - int(space.start), int(space.n)).float()
    return observations.reshape(len(observations), -1).float()


@contextlib.contextmanager
def at_most_threads(count: int) -> Iterator[None]:
    """Let PyTorch compute in fewer threads; of small layers, threads wait longer than they compute."""
    before = torch.get_num_threads()
    torch.set_num_threads(min(before, count))
    try:
        yield
    finally:
        torch.set_num_threads(before)


def mapped(function: Callable[[Any], Any], nested: Any) -> Any:
    """Return dicts and tuples with what a function returns for each value in them."""
    if isinstance(nested, dict):
        return {name: mapped(function, each) for name, each in nested.items()}
    if isinstance(nested, tuple | list):
        return tuple(mapped(function, each) for each in nested)
    return function(nested)


def _flat(structure: Any, nested: Any) -> list[Any]:
    """Return the values in dicts and tuples, in the order of a structure like them."""
    if isinstance(structure, dict):
        return [v for name, each in structure.items() for v in _flat(each, nested[name])]
    if isinstance(structure, tuple | list):
        pairs = zip(structure, nested, strict=True)
        return [v for each, own in pairs for v in _flat(each, own)]
    return [nested]


@dataclass(frozen=True)
class ModuleNetwork:
    """The network of a policy whose class is a program's; it stands where a `NetworkSpec` does.

    Parameters
    ----------
    module_class : subclass of TorchRLModule
    observation_space, action_space : gymnasium.Space
        Those that the module sees.
    model_config : object
    memory : Memory, optional
        Of a recurrent module.
    initial_state : dict
        What its ``get_initial_state`` returned.
    """

    module_class: Any
    observation_space: Any
    action_space: Any
    model_config: Any
    memory: Memory | None = None
    initial_state: Any = None
    distribution: None = None

    def with_memory(self) -> Self:
        """Return the same network with what its module remembers; it makes a module to ask it."""
        if self.module_class.get_initial_state is TorchRLModule.get_initial_state:
            return self
        state = self.build().get_initial_state()
        initial = tuple(np.asarray(each, np.float32) for each in _flat(state, state))
        if not initial:
            return self
        length = (_as_dict(self.model_config) or {}).get("max_seq_len", 20)
        return replace(self, memory=Memory(initial, length), initial_state=state)

    def build(self, seed: int | None = None) -> Any:
        """Return the module."""
        with torch.random.fork_rng(devices=[]):
            if seed is not None:
                torch.manual_seed(seed)
            return self.module_class.of_spaces(
                self.observation_space, self.action_space, self.model_config
            )

    def batch(self, rows: Any) -> dict[str, Any]:
        """Return the columns that the module sees.

        Parameters
        ----------
        rows : torch.Tensor, shape (rows, ...) or (sequences, steps, numbers)
            Encoded observations, see `unflattened`; with a memory, as `Memory` describes them.

        Returns
        -------
        dict
            ``obs``; with a memory, of shape (sequences, steps, ...), and ``state_in``, of shape
            (sequences, ...). Rows are sequences of one step then.
        """
        if self.memory is None:
            return {OBS: unflattened(self.observation_space, rows)}
        sequences = rows if rows.ndim == 3 else rows[:, None]
        num, length = sequences.shape[:2]
        count = sequences.shape[-1] - self.memory.num_states
        observations = unflattened(self.observation_space, sequences[..., :count].flatten(0, 1))
        sizes = [each.size for each in self.memory.initial]
        parts = sequences[:, 0, count:].split(sizes, -1)
        pairs = zip(parts, self.memory.initial, strict=True)
        states = iter([part.reshape(num, *each.shape) for part, each in pairs])
        return {
            OBS: mapped(lambda each: each.reshape(num, length, *each.shape[1:]), observations),
            STATE_IN: mapped(lambda _: next(states), self.initial_state),
        }

    def states(self, found: Any) -> NDArray[Any]:
        """Return the states that a module gives, of shape (rows, numbers)."""
        flat = _flat(self.initial_state, found)
        joined: NDArray[Any] = torch.cat([each.flatten(1) for each in flat], -1).numpy()
        return joined


def _as_dict(model_config: Any) -> Any:
    """Return the options of a model as a dict; a `DefaultModelConfig` is an object."""
    return model_config if isinstance(model_config, dict | None) else dict(vars(model_config))


class ModulePolicy:
    """Acts by a module of a program.

    Parameters
    ----------
    network : ModuleNetwork
    layout : tuple of Part
        Of actions.
    """

    def __init__(self, network: ModuleNetwork, layout: Layout) -> None:
        self._network, self._layout = network, layout
        self._module = network.build().eval()
        self._decode = ActionDecoder(network.action_space)
        self._has_critic = isinstance(self._module, ValueFunctionAPI)

    def _batch(self, observations: NDArray[Any]) -> dict[str, Any]:
        rows = torch.from_numpy(np.ascontiguousarray(observations, np.float32))
        return self._network.batch(rows)

    def act(
        self, observations: NDArray[Any], rng: np.random.Generator, explore: bool
    ) -> tuple[NDArray[Any], Extras]:
        """Return actions; remember the parameters of their distributions, and the values."""
        module, memory = self._module, self._network.memory
        with torch.no_grad(), torch.random.fork_rng(devices=[]), at_most_threads(1):
            torch.manual_seed(int(rng.integers(2**31)))
            forward = module.forward_exploration if explore else module.forward_inference
            found = forward(self._batch(observations))
        known = {
            name: found[name] for name in (INPUTS, ACTIONS, LOG_PROBABILITIES) if name in found
        }
        if memory is not None:  # one step of each sequence
            known = mapped(lambda each: each[:, 0], known)
        actions, extras = self._chosen(known, rng, explore)
        if extras and self._has_critic:
            values = self.values(observations)
            assert values is not None, "it has a critic"
            extras["values"] = values
        if memory is not None:
            extras["memories"] = memory.after(self._network.states(found[STATE_OUT]), actions)
        return actions, extras

    def _chosen(
        self, found: dict[str, Any], rng: np.random.Generator, explore: bool
    ) -> tuple[NDArray[Any], Extras]:
        """Return actions for outputs of the module, and what to remember of their distributions."""
        if INPUTS not in found:
            actions = self._decode.learned(list(np.asarray(found[ACTIONS])), is_normalized=True)
            return actions, {}
        parameters = found[INPUTS].numpy()
        distribution = distribution_of(self._layout, parameters)
        if ACTIONS in found:
            actions = self._decode.learned(list(found[ACTIONS].numpy()), is_normalized=True)
        else:
            actions = distribution.sample(rng) if explore else distribution.mode()
        if ACTIONS in found and LOG_PROBABILITIES in found:
            logs = found[LOG_PROBABILITIES].numpy()
        else:
            logs = distribution.log_probability(actions)
        return actions, {"parameters": parameters, "log_probabilities": logs}

    def values(self, observations: NDArray[Any]) -> NDArray[Any] | None:
        """Return the critic's values, of shape (rows,); None without a critic."""
        if not self._has_critic:
            return None
        with torch.no_grad(), at_most_threads(1):
            found: NDArray[Any] = self._module.compute_values(self._batch(observations)).numpy()
        return found.reshape(len(observations))

    def set_weights(self, weights: Weights) -> None:
        """Replace all weights."""
        set_weights(self._module, weights)

    def set_exploration(self, epsilon: float) -> None:
        """Do nothing: the distribution itself explores."""


def get_weights(module: Any) -> Weights:
    """Return copies of a module's weights."""
    return [each.detach().cpu().numpy().copy() for each in module.state_dict().values()]


def set_weights(module: Any, weights: Weights) -> None:
    """Replace a module's weights by what `get_weights` returned.

    Raises
    ------
    ValueError
        When their number differs.
    """
    names = list(module.state_dict())
    pairs = zip(names, weights, strict=True)
    module.load_state_dict({name: torch.tensor(each) for name, each in pairs})
