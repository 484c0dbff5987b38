"""`PolicyLearner`: one policy of an algorithm, with its network and what it learns by.

An algorithm has one for each policy; an algorithm of one agent has one.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from raycompat._upper import upper
from raycompat.exceptions import UnsupportedRayFeatureError
from raycompat.rllib._types import (
    AlgorithmOptions,
    Array,
    Metrics,
    Observation,
    Options,
    Space,
    State,
    Tensor,
    Values,
)
from raycompat.rllib.acting import PolicyPlan
from raycompat.rllib.checkpoint_state import SavedModule, SavedWeights
from raycompat.rllib.connectors.learned import LearnerConnectors
from raycompat.rllib.distributions import Layout, num_parameters
from raycompat.rllib.filters import FilterMaker
from raycompat.rllib.fixed_policies import RLModuleSpec
from raycompat.rllib.learner import Learner
from raycompat.rllib.memory import AttentionOptions, Memory, attention_memory, lstm_memory
from raycompat.rllib.networks import (
    Head,
    Initializer,
    NetworkSpec,
    TrunkMaker,
    Weights,
    default_filters,
    import_keras,
)
from raycompat.rllib.policies import StochasticPolicy, best_choices
from raycompat.rllib.spaces import ActionDecoder, ObservationEncoder, check_has_deviations

if TYPE_CHECKING:
    import keras


@dataclass
class PolicySetup:
    """The options and spaces of a policy.

    Parameters
    ----------
    config : AlgorithmConfig
        With the policy's own options in place of the algorithm's.
    observation_space, action_space : gymnasium.Space
    observation_filter : str or callable
        See `make_filter`.

    Raises
    ------
    UnsupportedSpaceException
        When a space cannot be handled.
    """

    config: AlgorithmOptions
    observation_space: Space
    action_space: Space
    observation_filter: str | FilterMaker = "NoFilter"
    #: The specs of modules that learn with the policy's, and by which no agent acts.
    learner_only: Mapping[str, RLModuleSpec] = field(default_factory=dict)
    encode: ObservationEncoder = field(init=False)
    decode: ActionDecoder = field(init=False)

    def __post_init__(self) -> None:
        config = self.config
        self.encode = ObservationEncoder(self.observation_space)
        self.decode = ActionDecoder(
            self.action_space, config.normalize_actions, config.clip_actions
        )

    def plan(self, policy_class: Any, network: NetworkSpec | None) -> PolicyPlan:
        """Return how runners make the policy."""
        config = self.config
        return PolicyPlan(
            policy_class,
            network,
            self.observation_space,
            self.action_space,
            self.observation_filter,
            config.normalize_actions,
            config.clip_actions,
        )

    def body_options(self) -> Options:
        """Return the settings of the layers below the heads, from the model's options."""
        model, shape = self.config.model, self.encode.shape
        trunk = None
        if model["custom_model"] is not None:
            trunk = self._features_of_class() or self._registered_trunk()
        names = ("fcnet_kernel_initializer", "fcnet_bias_initializer")
        if model["head_fcnet_hiddens"] and any(Initializer.of(model, each) for each in names):
            raise UnsupportedRayFeatureError(
                f"{' or '.join(names)} with head_fcnet_hiddens",
                "All hidden layers begin in one way",
                "leave head_fcnet_hiddens out, or use a TorchRLModule, whose setup sets its weights",
            )
        given = model["conv_filters"]
        filters = default_filters(shape) if given is None else tuple(map(tuple, given))
        return {
            "observation_shape": shape,
            "activation": model["fcnet_activation"],
            "conv_filters": filters,
            "custom_trunk": trunk,
            "kernel_initializer": Initializer.of(model, "fcnet_kernel_initializer"),
            "bias_initializer": Initializer.of(model, "fcnet_bias_initializer"),
        }

    def _registered_trunk(self) -> TrunkMaker | None:
        from raycompat.rllib.models.catalog import custom_trunk

        model = self.config.model
        return custom_trunk(model["custom_model"], model["custom_model_config"])

    def _features_of_class(self) -> TrunkMaker | None:
        """Return the features below an algorithm's heads; None without a network as a class."""
        cls = self.custom_class()
        return None if cls is None else _FirstOutput(self._source_of_features(cls))

    def _source_of_features(self, cls: Callable[..., object]) -> Any:
        count = int((self.config.model["fcnet_hiddens"] or [256])[-1])
        return upper("_old.rllib.models.layers").ModelSource(
            cls, self.observation_space, self.action_space, count, self.config.model, False
        )

    def _states_of(self, cls: Callable[..., object]) -> Sequence[Array]:
        """Return the states of a network of a class; () without a memory."""
        found: Sequence[Array] = self._source_of_features(cls).past(self.encode.shape)[0]
        return found

    def custom_class(self) -> Callable[..., object] | None:
        """Return the network that the user registered as a class; None without one."""
        if self.config.model["custom_model"] is None:
            return None
        from raycompat.rllib.models.catalog import registered_model

        found = registered_model(self.config.model["custom_model"])
        return found if upper("_old.rllib.models.layers").is_class(found) else None

    def network_of_class(self, cls: Callable[..., object], heads: tuple[Head, ...]) -> NetworkSpec:
        """Return the network of a class, with the outputs of the heads: one, or also the critic's."""
        spaces = self.observation_space, self.action_space
        gives_value = len(heads) > 1
        count, options = heads[0].num_outputs, self.config.model
        layers = upper("_old.rllib.models.layers")
        source = layers.ModelSource(cls, *spaces, count, options, gives_value)
        states, sees_reward = source.past(self.encode.shape)
        length = self.config.model["max_seq_len"]
        return NetworkSpec(
            self.encode.shape,
            heads,
            custom_trunk=source,
            gives_heads=True,
            memory=Memory(states, length, sees_reward=sees_reward) if states else None,
            distribution=self.distribution(),
        )

    def distribution(self) -> Any:
        """Return the distribution of actions that the user registered; None without one."""
        named = self.config.model["custom_action_dist"]
        if named is None:
            return None
        from raycompat.rllib.models.catalog import registered_action_dist

        cls = registered_action_dist(named)
        old = upper("_old.rllib.action_distributions")
        return old.DistributionOfUser(cls, self.action_space, self.decode.layout, self.config.model)

    def memory(self) -> Memory | None:
        """Return the memory that the model's options ask for; None without one.

        Raises
        ------
        ValueError
            When they ask for two.
        """
        model = self.config.model
        if not (model["use_lstm"] or model["use_attention"]):
            return None
        if model["use_lstm"] and model["use_attention"]:
            raise ValueError(
                "model: use_lstm and use_attention are both True: expected one of them."
            )
        length = model["max_seq_len"]
        if model["use_attention"]:
            sizes = AttentionOptions(
                model["attention_num_transformer_units"],
                model["attention_dim"],
                model["attention_num_heads"],
                model["attention_head_dim"],
                model["attention_memory_inference"],
                model["attention_position_wise_mlp_dim"],
                float(model["attention_init_gru_gate_bias"]),
            )
            return attention_memory(sizes, max_length=length)
        return lstm_memory(
            model["lstm_cell_size"],
            max_length=length,
            actions=self.decode.layout if model["lstm_use_prev_action"] else (),
            sees_reward=bool(model["lstm_use_prev_reward"]),
        )

    def refuse_memory(self, algorithm: str) -> None:
        """Raise where a network is to remember.

        Raises
        ------
        UnsupportedRayFeatureError
            When the options ask for a memory, or a network of a class has one.
        """
        model, cls = self.config.model, self.custom_class()
        if model["use_lstm"] or model["use_attention"] or (cls and self._states_of(cls)):
            raise UnsupportedRayFeatureError(
                f"A network with a memory in {algorithm}",
                f"{algorithm} learns from single steps",
                "use A2C, A3C, APPO, IMPALA or PPO, or the connector FrameStackingEnvToModule",
            )

    def policy_head(self, hiddens: tuple[int, ...] = ()) -> Head:
        """Return the head that gives the parameters of the actions' distribution.

        Raises
        ------
        UnsupportedSpaceException
            When deviations are to be free, and an action is not made of numbers alone.
        """
        layout, of_user = self.decode.layout, self.distribution()
        if of_user is not None:
            return Head("policy", of_user.num_parameters, hiddens, 0.01)
        count = num_parameters(layout)
        if not self.config.model["free_log_std"]:
            return Head("policy", count, hiddens, 0.01)
        check_has_deviations(self.action_space)
        return Head("policy", count // 2, hiddens, 0.01, num_free=count // 2)

    def actor_critic_network(self) -> NetworkSpec:
        """Return a network with the heads ``policy`` and ``value``.

        They share layers if the model's option says so, or if there are filters, a memory or a custom
        model.
        """
        cls, memory = self.custom_class(), self.memory()
        if cls is not None and memory is None:
            return self.network_of_class(cls, (self.policy_head(), Head("value", 1)))
        if cls is not None and self._states_of(cls):
            raise ValueError(
                f"model: {cls.__name__} has its own memory, because its get_initial_state returns "
                "states, and the options ask for another one: leave out use_lstm and use_attention."
            )
        body, model = self.body_options(), self.config.model
        hiddens = tuple(model["fcnet_hiddens"])
        shares = bool(
            model["vf_share_layers"]
            or body["conv_filters"]
            or body["custom_trunk"] is not None
            or memory is not None
        )
        own = (() if shares else hiddens) + tuple(model["head_fcnet_hiddens"])
        heads = (self.policy_head(own), Head("value", 1, own, 1.0))
        return NetworkSpec(
            heads=heads,
            trunk=hiddens if shares else (),
            memory=memory,
            distribution=self.distribution(),
            **body,
        )


@dataclass(frozen=True)
class _FirstOutput:
    """Makes a Keras model of the first output of a layer."""

    source: TrunkMaker

    def __call__(self, shape: tuple[int, ...]) -> keras.Model:
        keras = import_keras()
        inputs = keras.Input(shape)
        return keras.Model(inputs, self.source(shape)(inputs)[0])


def forward_of_module(
    network: Callable[[Array], dict[str, Tensor]],
    encode: ObservationEncoder,
    memory: Memory | None,
    layout: Layout,
    batch: Mapping[str, Values],
    **kwargs: object,
) -> dict[str, Values]:
    """Return a network's outputs by the names that modules give them.

    Parameters
    ----------
    network : callable
        A `KerasNetwork`, or its method ``drawn``.
    encode : ObservationEncoder
    memory : Memory, optional
        Of the network.
    layout : tuple of Part
        Of actions.
    batch : mapping
        ``obs``: an array or a PyTorch tensor of several observations, or a dict of these. A filter of
        observations is not applied. With a memory, see `_forward_with_memory`.
    **kwargs
        They have no effect.

    Returns
    -------
    dict of arrays, or of tensors where the observations are tensors
        ``action_dist_inputs`` and ``vf_preds``; or ``actions``, of a network of values of actions.
    """
    if memory is not None:
        return _forward_with_memory(network, encode, memory, batch)
    observations = rows_of(batch["obs"])
    outputs = {name: each.numpy() for name, each in network(encode(observations)).items()}
    found: dict[str, Array] = {}
    if "policy" in outputs:
        found["action_dist_inputs"] = outputs["policy"]
    if "value" in outputs and "policy" in outputs:
        found["vf_preds"] = outputs["value"][:, 0]
    if "advantage" in outputs:
        found["actions"] = best_choices(outputs, layout[0].size)
    if not hasattr(batch["obs"], "detach"):
        return found
    import torch

    return {name: torch.as_tensor(each) for name, each in found.items()}


def states_by_name(memory: Memory, states: Sequence[Array]) -> dict[str | int, Array]:
    """Return the states of a network by the names that modules give them."""
    names = ("h", "c") if isinstance(memory.layer, int) else range(len(states))
    return dict(zip(names, states, strict=True))


def _forward_with_memory(
    network: Callable[[Array], dict[str, Tensor]],
    encode: ObservationEncoder,
    memory: Memory,
    batch: Mapping[str, Values],
) -> dict[str, Values]:
    """Return a network's outputs for sequences.

    Parameters
    ----------
    network : KerasNetwork
    encode : ObservationEncoder
    memory : Memory
    batch : mapping
        ``obs`` of shape (sequences, steps, ...), and ``state_in``, see `states_by_name`, of shape
        (sequences, ...).

    Raises
    ------
    UnsupportedRayFeatureError
        When the network sees the last action or reward, which a batch does not have.
    """
    if memory.num_past:
        raise UnsupportedRayFeatureError(
            "forward_inference() of a network that sees the last action or reward",
            "A batch has observations and states",
            "call algorithm.compute_single_action(observation, state, prev_action=..., "
            "prev_reward=...), or use the connector PrevActionsPrevRewards",
        )
    seen = np.asarray(batch["obs"])
    num, length = seen.shape[:2]
    encoded = encode(list(seen.reshape(num * length, *seen.shape[2:]))).reshape(num, length, -1)
    states = [np.asarray(each) for each in batch["state_in"].values()]
    rows = np.stack([memory.joined([each[n] for each in states]) for n in range(num)])
    repeated = np.repeat(rows[:, None], length, axis=1)
    found = network(np.concatenate([encoded, repeated], -1, dtype=np.float32))
    outputs = {name: each.numpy() for name, each in found.items()}
    after = [memory.parted(row) for row in outputs["states"]]
    joined = [np.stack(each) for each in zip(*after, strict=True)]
    return {
        "action_dist_inputs": outputs["policy"].reshape(num, length, -1),
        "vf_preds": outputs["value"].reshape(num, length),
        "state_out": states_by_name(memory, joined),
    }


def rows_of(values: Values) -> list[Observation]:
    """Return several observations one by one; of a dict of arrays, dicts."""
    if isinstance(values, Mapping):
        parts = {name: rows_of(each) for name, each in values.items()}
        count = len(next(iter(parts.values())))
        return [{name: each[index] for name, each in parts.items()} for index in range(count)]
    return list(np.asarray(values.detach().cpu() if hasattr(values, "detach") else values))


class PolicyLearner(ABC):
    """The network of one policy, and how it learns.

    Parameters
    ----------
    setup : PolicySetup
    network : NetworkSpec
        What `network_of` returned for the setup.
    seed : int
    """

    #: What acts by the network.
    policy_class: ClassVar[Any] = StochasticPolicy
    #: Connectors of a learner of a program, which see the policy's part of samples as episodes.
    connectors: LearnerConnectors | None = None

    def __init__(self, setup: PolicySetup, network: NetworkSpec, seed: int) -> None:
        self.config, self.layout = setup.config, setup.decode.layout
        self.network = network

    @classmethod
    @abstractmethod
    def network_of(cls, setup: PolicySetup) -> NetworkSpec:
        """Return the network of a policy."""

    @classmethod
    def for_modules(cls) -> type[PolicyLearner]:
        """Return what learns in place of this class for a module or a learner of a program in PyTorch.

        Raises
        ------
        UnsupportedRayFeatureError
            When the algorithm is another one than PPO and BC.
        """
        name = cls.__name__.removesuffix("Learner")
        raise UnsupportedRayFeatureError(
            f"A TorchRLModule or learner_class in {name}",
            f"{name} learns with its own network and loss",
            "use PPO, or BC for recorded steps, or ModelCatalog.register_custom_model",
        )

    @abstractmethod
    def get_weights(self) -> Weights:
        """Return the weights of the policy."""

    @abstractmethod
    def set_weights(self, weights: Weights) -> None:
        """Replace the weights of the policy."""

    @abstractmethod
    def get_state(self) -> State:
        """Return what learns, the weights under the key ``weights`` among it."""

    @abstractmethod
    def set_state(self, state: State) -> None:
        """Take what `get_state` returned."""

    @property
    def model(self) -> Any:
        """The network as a Keras model; None where it is none."""
        return None

    def metrics_of_model(self) -> dict[str, float]:
        """Return what the network of a program says beside the losses; nothing by default."""
        return {}

    def statistics_of_others(self) -> dict[str, Metrics]:
        """Return what modules have to say that learn with the policy's; nothing by default."""
        return {}

    def saved_module(self) -> SavedModule:
        """Return the weights that a checkpoint stores in the folder of the network."""
        return SavedModule(None, self.get_weights())

    def take_saved(self, state: SavedWeights) -> None:
        """Take the weights of `SavedModule.state`.

        Raises
        ------
        ValueError
            When they are those of another network.
        """
        if isinstance(state, Mapping):
            raise ValueError(
                "The weights are those of a module in PyTorch, and the algorithm learns with its own "
                "network: expected its class as module_class of an RLModuleSpec."
            )
        self.set_weights(state)


class KerasLearner(PolicyLearner):
    """A policy whose network is a Keras model.

    Parameters
    ----------
    setup : PolicySetup
    network : NetworkSpec
    seed : int
    """

    def __init__(self, setup: PolicySetup, network: NetworkSpec, seed: int) -> None:
        super().__init__(setup, network, seed)
        self.learner = Learner(network, seed, self.config.grad_clip, **self._adam())
        memory, keras_network = network.memory, self.learner.network
        outputs_of: dict[str, Callable[[Array], dict[str, Tensor]]] = {
            "forward_inference": keras_network,
            "forward_exploration": keras_network.drawn,
            "forward_train": keras_network.drawn,
        }
        for name, outputs in outputs_of.items():
            forward = partial(forward_of_module, outputs, setup.encode, memory, self.layout)
            setattr(self.model, name, forward)
        if memory is not None:
            self.model.get_initial_state = lambda: states_by_name(memory, memory.initial)

    def _adam(self) -> dict[str, float]:
        """Return more options of the optimizer."""
        return {}

    def metrics_of_model(self) -> dict[str, float]:
        """Return the numbers of its ``metrics``, without those that TensorFlow computes later."""
        of_class = self.learner.network.of_class
        found = {} if of_class is None else of_class.metrics()
        known = {n: v.numpy() if hasattr(v, "numpy") else v for n, v in found.items()}
        return {n: float(v) for n, v in known.items() if isinstance(v, int | float | np.number)}

    def get_weights(self) -> Weights:
        """Return the weights of the network."""
        return self.learner.get_weights()

    def set_weights(self, weights: Weights) -> None:
        """Replace the weights of the network."""
        self.learner.network.set_weights(weights)

    def get_state(self) -> State:
        """Return the weights and the optimizer."""
        return self.learner.get_state()

    def set_state(self, state: State) -> None:
        """Take what `get_state` returned."""
        self.learner.set_state(state)

    @property
    def model(self) -> keras.Model:
        """The network as a Keras model."""
        return self.learner.network.model
