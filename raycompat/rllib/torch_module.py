"""`TorchRLModule`: networks of programs in PyTorch, and how they act.

A program's class has layers in ``setup`` and gives the parameters of the actions' distribution in
``_forward``; with `ValueFunctionAPI` it has a critic, too. It sees observations with the shapes of
their space. `TorchLearner` of `raycompat.rllib.torch_learner` changes it.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

import gymnasium
import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from raycompat.rllib._types import Array, Observation, Space, TensorBatch, Values
from raycompat.rllib.checkpoint_state import (
    SavedModule,
    SavedWeights,
    read_only_module,
    write_module,
)
from raycompat.rllib.distributions import Layout, distribution_of
from raycompat.rllib.fixed_policies import RLModule, RLModuleConfig, RLModuleSpec, model_config_of
from raycompat.rllib.memory import Memory
from raycompat.rllib.module_apis import ValueFunctionAPI
from raycompat.rllib.networks import Weights
from raycompat.rllib.policies import Extras
from raycompat.rllib.spaces import ActionDecoder, ObservationEncoder, mapped
from raycompat.rllib.torch_catalog import (
    ACTOR,
    CRITIC,
    ENCODER_OUT,
    BCCatalog,
    PPOCatalog,
    has_dense_layers,
)
from raycompat.rllib.torch_distributions import TorchDistribution, class_for

#: The names of columns that modules give and see.
OBS, ACTIONS, INPUTS, EMBEDDINGS = "obs", "actions", "action_dist_inputs", "embeddings"
LOG_PROBABILITIES, STATE_IN, STATE_OUT = "action_logp", "state_in", "state_out"
SEQ_LENS = "seq_lens"

#: The parts of an actor and its critic, in the order in which a network of Keras has their weights.
_IN_KERAS = ("encoder.actor_encoder.", "pi.net.", "pi.log_std", "encoder.critic_encoder.", "vf.")


class TorchRLModule(nn.Module, RLModule):
    """A network of a program in PyTorch. Subclass it, and write ``setup`` and ``_forward``.

    Parameters
    ----------
    observation_space, action_space, inference_only, learner_only, model_config, catalog_class, config
        See `RLModule`.
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
        observation_space: Space | RLModuleConfig | None = None,
        action_space: Space | None = None,
        *,
        inference_only: bool = False,
        learner_only: bool = False,
        model_config: object = None,
        catalog_class: Callable[..., Any] | None = None,
        config: RLModuleConfig | None = None,
        **kwargs: object,
    ) -> None:
        nn.Module.__init__(self)
        RLModule.__init__(
            self,
            observation_space,
            action_space,
            inference_only=inference_only,
            learner_only=learner_only,
            model_config=model_config,
            catalog_class=catalog_class,
            config=config,
            **kwargs,
        )

    def _forward_inference(self, batch: TensorBatch, **kwargs: object) -> TensorBatch:
        with torch.no_grad():
            return self._forward(batch, **kwargs)

    def _forward_exploration(self, batch: TensorBatch, **kwargs: object) -> TensorBatch:
        with torch.no_grad():
            return self._forward(batch, **kwargs)

    def _forward_train(self, batch: TensorBatch, **kwargs: object) -> TensorBatch:
        return self._forward(batch, **kwargs)

    def forward_inference(self, batch: TensorBatch, **kwargs: object) -> TensorBatch:
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

    def forward_exploration(self, batch: TensorBatch, **kwargs: object) -> TensorBatch:
        """Return the module's outputs for acting with exploring; see `forward_inference`."""
        return self._forward_exploration(batch, **kwargs)

    def forward_train(self, batch: TensorBatch, **kwargs: object) -> TensorBatch:
        """Return the module's outputs for learning; see `forward_inference`."""
        return self._forward_train(batch, **kwargs)

    def forward(self, batch: TensorBatch, **kwargs: object) -> TensorBatch:
        """Return the same as `forward_train`."""
        return self.forward_train(batch, **kwargs)

    def unwrapped(self) -> Self:
        """Return the module itself."""
        return self

    def is_stateful(self) -> bool:
        """Return whether it is recurrent."""
        return bool(self.get_initial_state())

    def get_initial_state(self) -> Any:
        """Return the states at the beginning of an episode: a dict of arrays; none by default."""
        return {}

    def get_state(self, *args: Any, **kwargs: Any) -> dict[str, Array]:
        """Return all weights by name, arrays."""
        return {name: each.detach().cpu().numpy() for name, each in self.state_dict().items()}

    def set_state(self, state: SavedWeights) -> None:
        """Take what `get_state` returned, or a list in its order; other layers stay as they are.

        Raises
        ------
        ValueError
            When no name is one of this module.
        """
        if isinstance(state, list):
            state = self._named(state)
        own = self.state_dict()
        if state and not set(state) & set(own):
            raise ValueError(
                f"the state has weights of {sorted(state)}, and {type(self).__name__} has none of "
                f"these: expected some of {sorted(own)}"
            )
        tensors = {name: torch.as_tensor(each) for name, each in state.items()}
        self.load_state_dict(tensors, strict=False)

    def _named(self, weights: Weights) -> dict[str, Array]:
        return dict(zip(self.state_dict(), weights, strict=True))

    def save_to_path(self, path: str | os.PathLike[str] | None = None) -> str:
        """Save the module as a folder, by default a new temporary one; return its path."""
        folder = Path(tempfile.mkdtemp(prefix="module-") if path is None else path)
        write_module(folder, self.saved())
        return str(folder)

    def saved(self) -> SavedModule:
        """Return the module's spec and weights, which a checkpoint stores."""
        own = self.config
        spaces, options = (own.observation_space, own.action_space), own.model_config_dict
        spec = RLModuleSpec(
            type(self), *spaces, model_config=options, catalog_class=own.catalog_class
        )
        return SavedModule(spec, self.get_state())

    def restore_from_path(self, path: str | os.PathLike[str], **kwargs: object) -> None:
        """Take the weights of a folder; those of other layers stay as they are.

        Parameters
        ----------
        path : str or path-like
            What `save_to_path` returned, or a folder within the checkpoint of an algorithm.
        **kwargs
            They have no effect.

        Raises
        ------
        ValueError
            When there are no weights, or they do not fit.
        """
        saved = read_only_module(path)
        if saved is None:
            raise ValueError(
                f"{path} has no weights of a module: expected what save_to_path() returned, or "
                "learner_group/learner/rl_module/default_policy in the checkpoint of an algorithm."
            )
        try:
            self.set_state(saved.state)
        except (RuntimeError, ValueError) as error:
            raise ValueError(
                f"The weights in {path} do not fit {type(self).__name__}: {error}. Give the module the "
                "model_config with which they were saved."
            ) from error

    def get_train_action_dist_cls(self) -> type[TorchDistribution]:
        """Return the class of the actions' distribution."""
        if self.catalog is not None:
            found: type[TorchDistribution] = self.catalog.get_action_dist_cls(framework="torch")
            return found
        return class_for(ActionDecoder(self.action_space).layout)

    get_inference_action_dist_cls = get_exploration_action_dist_cls = get_train_action_dist_cls


class DefaultBCTorchRLModule(TorchRLModule):
    """A policy of dense layers, ``encoder`` and ``pi``, which its catalog makes.

    ``model_config`` has ``fcnet_hiddens``, ``head_fcnet_hiddens`` and ``fcnet_activation``.

    Notes
    -----
    Ray source: ``ray.rllib.algorithms.bc.torch.default_bc_torch_rl_module.DefaultBCTorchRLModule``,
    2.60.0. Differs from Ray: layers are those of `Catalog`.
    """

    default_catalog = BCCatalog

    def setup(self) -> None:
        """Make the layers.

        Raises
        ------
        UnsupportedRayFeatureError
            When ``model_config`` asks for other layers.
        """
        #: That of what the layers see: a subclass may take a mask out of its observations.
        self._seen_space = self.observation_space
        self.encoder = self._made_encoder()
        self.pi = self.catalog.build_pi_head(framework="torch")

    def _made_encoder(self) -> nn.Module:
        made: nn.Module = self.catalog.build_encoder(framework="torch")
        return made

    def _encoded(self, batch: TensorBatch) -> torch.Tensor | TensorBatch:
        """Return what the encoder gives; only encoders of programs see images in their shape."""
        seen, shape = batch[OBS], getattr(self._seen_space, "shape", None) or ()
        if len(shape) != 3 or has_dense_layers(self.encoder):
            seen = as_weights_are(self, flattened(self._seen_space, seen))
        return self.encoder({**batch, OBS: seen})[ENCODER_OUT]

    def _forward(self, batch: TensorBatch, **kwargs: object) -> TensorBatch:
        return {INPUTS: self.pi(self._encoded(batch))}


class DefaultPPOTorchRLModule(DefaultBCTorchRLModule, ValueFunctionAPI):
    """A policy and its critic of dense layers, ``encoder``, ``pi`` and ``vf``.

    ``model_config`` has ``fcnet_hiddens``, ``head_fcnet_hiddens``, ``fcnet_activation`` and
    ``vf_share_layers``.

    Notes
    -----
    Ray source: ``ray.rllib.algorithms.ppo.torch.default_ppo_torch_rl_module.DefaultPPOTorchRLModule``,
    2.60.0. Differs from Ray: layers are those of `Catalog`.
    """

    default_catalog = PPOCatalog

    def setup(self) -> None:
        """Make the layers."""
        super().setup()
        self.vf = self.catalog.build_vf_head(framework="torch")

    def _made_encoder(self) -> nn.Module:
        made: nn.Module = self.catalog.build_actor_critic_encoder(framework="torch")
        return made

    def _forward(self, batch: TensorBatch, **kwargs: object) -> TensorBatch:
        encoded = self._encoded(batch)
        return {INPUTS: self.pi(encoded[ACTOR]), EMBEDDINGS: encoded[CRITIC]}

    def _named(self, weights: Weights) -> dict[str, Array]:
        """Return weights by the names of these layers; they may be those of a network of Keras."""
        shapes = [tuple(each.shape) for each in self.state_dict().values()]
        if shapes == [each.shape for each in weights]:
            return super()._named(weights)
        names = [n for part in _IN_KERAS for n in self.state_dict() if n.startswith(part)]
        pairs = zip(names, weights, strict=True)
        return {name: np.asarray(each).T for name, each in pairs}

    def compute_values(
        self, batch: TensorBatch, embeddings: torch.Tensor | None = None
    ) -> torch.Tensor:
        """Return the critic's values, a tensor of shape (rows,).

        Parameters
        ----------
        batch : dict of tensors
        embeddings : torch.Tensor, optional
            What the critic's encoder gave.
        """
        embeddings = self._encoded(batch)[CRITIC] if embeddings is None else embeddings
        return self.vf(embeddings).squeeze(-1)


def unflattened(space: Space, rows: torch.Tensor) -> Observation:
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


def flattened(space: Space, observations: Observation) -> torch.Tensor:
    """Return observations of a module as vectors: the other way of `unflattened`."""
    spaces = gymnasium.spaces
    if isinstance(space, spaces.Dict | spaces.Tuple):
        items = space.spaces.items() if isinstance(space, spaces.Dict) else enumerate(space.spaces)
        return torch.cat([flattened(each, observations[name]) for name, each in items], -1)
    if isinstance(space, spaces.Discrete) and not observations.is_floating_point():
        return nn.functional.one_hot(observations - int(space.start), int(space.n)).float()
    return observations.reshape(len(observations), -1).float()


def as_weights_are(module: nn.Module, rows: torch.Tensor) -> torch.Tensor:
    """Return rows of float32 in the dtype of a module's weights: a program may make these shorter."""
    first = next(module.parameters(), None)
    return rows if first is None else rows.to(first.dtype)


@contextlib.contextmanager
def at_most_threads(count: int) -> Iterator[None]:
    """Let PyTorch compute in fewer threads; of small layers, threads wait longer than they compute."""
    before = torch.get_num_threads()
    torch.set_num_threads(min(before, count))
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _flat(structure: Values, nested: Values) -> list[Values]:
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
    spec : RLModuleSpec
        With class, spaces and options.
    memory : Memory, optional
        Of a recurrent module.
    initial_state : dict
        What its ``get_initial_state`` returned.
    """

    spec: RLModuleSpec
    memory: Memory | None = None
    initial_state: Any = None
    distribution: None = None

    def with_memory(self) -> Self:
        """Return the same network with what its module remembers; it makes a module to ask it."""
        if self.spec.module_class.get_initial_state is TorchRLModule.get_initial_state:
            return self
        state = self.build().get_initial_state()
        initial = tuple(np.asarray(each, np.float32) for each in _flat(state, state))
        if not initial:
            return self
        length = (model_config_of(self.spec.model_config) or {}).get("max_seq_len", 20)
        return replace(self, memory=Memory(initial, length), initial_state=state)

    def build(self, seed: int | None = None) -> TorchRLModule:
        """Return the module."""
        with torch.random.fork_rng(devices=[]), at_most_threads(1):
            if seed is not None:
                torch.manual_seed(seed)
            made: TorchRLModule = self.spec.build()
            return made

    def batch(self, rows: torch.Tensor) -> TensorBatch:
        """Return the columns that the module sees.

        Parameters
        ----------
        rows : torch.Tensor, shape (rows, ...) or (sequences, steps, numbers)
            Encoded observations, see `unflattened`; with a memory, as `Memory` describes them.

        Returns
        -------
        dict
            ``obs``; with a memory, of shape (sequences, steps, ...), ``state_in``, of shape
            (sequences, ...), and ``seq_lens``. Rows are sequences of one step then.
        """
        if self.memory is None:
            return {OBS: unflattened(self.spec.observation_space, rows)}
        sequences = rows if rows.ndim == 3 else rows[:, None]
        num, length = sequences.shape[:2]
        count = sequences.shape[-1] - self.memory.num_states
        observations = unflattened(
            self.spec.observation_space, sequences[..., :count].flatten(0, 1)
        )
        sizes = [each.size for each in self.memory.initial]
        parts = sequences[:, 0, count:].split(sizes, -1)
        pairs = zip(parts, self.memory.initial, strict=True)
        states = iter([part.reshape(num, *each.shape) for part, each in pairs])
        return {
            OBS: mapped(lambda each: each.reshape(num, length, *each.shape[1:]), observations),
            STATE_IN: mapped(lambda _: next(states), self.initial_state),
            SEQ_LENS: torch.full((num,), length),
        }

    def states(self, found: Values) -> NDArray[np.float32]:
        """Return the states that a module gives, of shape (rows, numbers)."""
        flat = _flat(self.initial_state, found)
        joined: NDArray[np.float32] = torch.cat([each.flatten(1) for each in flat], -1).numpy()
        return joined


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
        #: What programs see in an env runner.
        self.module = network.build().eval()
        self._decode = ActionDecoder(network.spec.action_space)
        self._has_critic = isinstance(self.module, ValueFunctionAPI)

    def _batch(self, observations: NDArray[np.float32]) -> TensorBatch:
        rows = torch.from_numpy(np.ascontiguousarray(observations, np.float32))
        return self._network.batch(as_weights_are(self.module, rows))

    def act(
        self, observations: NDArray[np.float32], rng: np.random.Generator, explore: bool
    ) -> tuple[Array, Extras]:
        """Return actions; remember the parameters of their distributions, and the values."""
        module, memory = self.module, self._network.memory
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
            values = self.values(observations, found.get(EMBEDDINGS))
            assert values is not None, "it has a critic"
            extras["values"] = values
        if memory is not None:
            extras["memories"] = memory.after(self._network.states(found[STATE_OUT]), actions)
        return actions, extras

    def _chosen(
        self, found: TensorBatch, rng: np.random.Generator, explore: bool
    ) -> tuple[Array, Extras]:
        """Return actions for outputs of the module, and what to remember of their distributions."""
        if INPUTS not in found:
            return self._given(found[ACTIONS]), {}
        found = self._drawn(found, rng, explore)
        parameters = found[INPUTS].float().numpy()
        if ACTIONS in found and LOG_PROBABILITIES in found:
            actions, logs = self._given(found[ACTIONS]), found[LOG_PROBABILITIES].float().numpy()
            return actions, {"parameters": parameters, "log_probabilities": logs}
        distribution = distribution_of(self._layout, parameters)
        if ACTIONS in found:
            actions = self._given(found[ACTIONS])
        else:
            actions = distribution.sample(rng) if explore else distribution.mode()
        logs = distribution.log_probability(actions)
        return actions, {"parameters": parameters, "log_probabilities": logs}

    def _drawn(self, found: TensorBatch, rng: np.random.Generator, explore: bool) -> TensorBatch:
        """Return outputs with actions and their chances, where a program has its own distribution."""
        module = self.module
        classes = module.get_inference_action_dist_cls, module.get_exploration_action_dist_cls
        cls = classes[explore]()
        if cls is class_for(self._layout):
            return found
        with torch.no_grad(), torch.random.fork_rng(devices=[]), at_most_threads(1):
            torch.manual_seed(int(rng.integers(2**31)))
            distribution = cls.from_logits(found[INPUTS])
            drawn = found.get(ACTIONS)
            if drawn is None:
                drawn = (distribution if explore else distribution.to_deterministic()).sample()
            return {LOG_PROBABILITIES: distribution.logp(drawn), **found, ACTIONS: drawn}

    def _given(self, actions: torch.Tensor | tuple[torch.Tensor, ...]) -> Array:
        """Return the actions that a module has chosen; of several parts, it gives a tuple."""
        if not isinstance(actions, tuple):
            return self._decode.learned(list(np.asarray(actions)), is_normalized=True)
        parts = [np.asarray(each).reshape(len(each), -1) for each in actions]
        return np.concatenate(parts, -1).astype(np.float32)

    def values(
        self, observations: NDArray[np.float32], embeddings: torch.Tensor | None = None
    ) -> NDArray[np.float32] | None:
        """Return the critic's values, of shape (rows,); None without a critic."""
        if not self._has_critic:
            return None
        with torch.no_grad(), at_most_threads(1):
            # The class of a program may take the batch alone.
            own = type(self.module).compute_values is DefaultPPOTorchRLModule.compute_values
            given = {"embeddings": embeddings} if own else {}
            batch = self._batch(observations)
            found: NDArray[np.float32] = self.module.compute_values(batch, **given).float().numpy()
        return found.reshape(len(observations))

    def set_weights(self, weights: Weights) -> None:
        """Replace all weights."""
        set_weights(self.module, weights)

    def set_exploration(self, epsilon: float) -> None:
        """Do nothing: the distribution itself explores."""


def get_weights(module: nn.Module) -> Weights:
    """Return copies of a module's weights."""
    return [each.detach().cpu().numpy().copy() for each in module.state_dict().values()]


def set_weights(module: nn.Module, weights: Weights) -> None:
    """Replace a module's weights by what `get_weights` returned.

    Raises
    ------
    ValueError
        When their number differs.
    """
    names = list(module.state_dict())
    pairs = zip(names, weights, strict=True)
    module.load_state_dict({name: torch.tensor(each) for name, each in pairs})
