"""`EpisodeLearner`: policies that learn from episodes, in a ``training_step`` of the program.

An algorithm of a program lets runners play, gives episodes to ``learner_group.update``, and sends the
weights to the runners. All its policies learn by one `TorchLearner`, so that they may share layers.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
import torch
from torch import nn

from raycompat.exceptions import UnsupportedRayFeatureError
from raycompat.rllib._types import AlgorithmOptions, Metrics, TensorBatch, Values
from raycompat.rllib.acting import ActingPolicy
from raycompat.rllib.checkpoint_state import SavedModule
from raycompat.rllib.connectors.connector_v2 import ConnectorV2, joined_items, key_of
from raycompat.rllib.connectors.pipeline import ConnectorPipelineV2, change_tensors, learned_by
from raycompat.rllib.env.multi_agent_episode import MultiAgentEpisode
from raycompat.rllib.env.runner import POLICY_ID, Columns
from raycompat.rllib.env.single_agent_episode import SingleAgentEpisode
from raycompat.rllib.learner import check_finite
from raycompat.rllib.module_learner import ModuleLearner, minibatches_of_modules
from raycompat.rllib.modules_by_name import Modules, MultiRLModule
from raycompat.rllib.policy_learner import PolicySetup
from raycompat.rllib.torch_learner import TorchLearner
from raycompat.rllib.torch_module import ModuleNetwork, TorchRLModule, at_most_threads

#: See `key_of`.
EpisodeKey = tuple[object, ...]


class PartOfModules(TorchRLModule):
    """One policy's part of a `MultiRLModule`, with the layers of all modules.

    Parameters
    ----------
    modules : MultiRLModule
    name : str
        Of the policy.
    """

    def __init__(self, modules: MultiRLModule, name: str) -> None:
        nn.Module.__init__(self)
        self.all, self.name = modules, name
        self.layers = nn.ModuleList(modules.values())
        own = modules[name]
        self.observation_space, self.action_space = own.observation_space, own.action_space
        self.model_config, self.config, self.catalog = own.model_config, own.config, own.catalog

    def saved(self) -> SavedModule:
        """Return the weights; the algorithm of the checkpoint makes the module."""
        return SavedModule(None, self.get_state())

    def _forward_inference(self, batch: TensorBatch, **kwargs: object) -> TensorBatch:
        return self.all.forward_inference({self.name: batch}, **kwargs)[self.name]

    def _forward_exploration(self, batch: TensorBatch, **kwargs: object) -> TensorBatch:
        return self.all.forward_exploration({self.name: batch}, **kwargs)[self.name]

    def _forward_train(self, batch: TensorBatch, **kwargs: object) -> TensorBatch:
        return self.all.forward_train({self.name: batch}, **kwargs)[self.name]


@dataclass(frozen=True)
class PartNetwork(ModuleNetwork):
    """The network of a policy that is a part of a `MultiRLModule`; it makes the whole."""

    def with_memory(self) -> Self:
        """Return the same network: its parts see single steps."""
        return self

    def build(self, seed: int | None = None) -> PartOfModules:
        """Return the part."""
        whole, name = self.spec.part_of
        with torch.random.fork_rng(devices=[]), at_most_threads(1):
            if seed is not None:
                torch.manual_seed(seed)
            return PartOfModules(whole.build(), name)


class EpisodeLearner(ModuleLearner):
    """A policy of an algorithm whose ``training_step`` is the program's.

    Parameters
    ----------
    setup : PolicySetup
    network : ModuleNetwork
    seed : int
    """

    default_class: ClassVar[type[TorchLearner]] = TorchLearner

    def _make_learner(self, cls: type[TorchLearner]) -> None:
        """Wait for `JoinedLearner`, which makes one for all policies."""
        self._class, self._name = cls, POLICY_ID

    @classmethod
    def network_of(cls, setup: PolicySetup) -> Any:
        """Return what makes the module, or the modules among which it is."""
        spec = setup.config.rl_module_spec
        if getattr(spec, "part_of", None) is not None:
            part = copy.copy(spec)
            part.observation_space, part.action_space = setup.observation_space, setup.action_space
            return PartNetwork(part)
        network = super().network_of(setup)
        if network.memory is not None:
            name = network.spec.module_class.__name__
            raise UnsupportedRayFeatureError(
                f"{name}.get_initial_state() in a training_step of a program",
                "Episodes do not have the states of their steps",
                "use PPO",
            )
        return network

    def join(self, name: str, learner: TorchLearner | None, modules: MultiRLModule | None) -> None:
        """Learn by the learner of all policies.

        Parameters
        ----------
        name : str
            Of the policy.
        learner : TorchLearner, optional
            Default: none yet.
        modules : MultiRLModule, optional
            Of which the policy takes its part.
        """
        self._name, self.torch_learner = name, learner
        if modules is not None:
            self._module = PartOfModules(modules, name)

    def columns_of(
        self,
        episode: SingleAgentEpisode,
        acting: ActingPolicy,
        added: Mapping[str, Mapping[EpisodeKey, list[Values]]],
    ) -> Columns:
        """Return the steps of an episode of one agent as arrays.

        Parameters
        ----------
        episode : SingleAgentEpisode
        acting : ActingPolicy
        added : dict
            Columns of connectors, by `key_of`.

        Raises
        ------
        ValueError
            When connectors have added another number of items than there are steps.
        """
        count, key = len(episode), key_of(episode)
        seen = [episode.get_observations(step) for step in range(count)]
        ends = np.arange(count) == count - 1
        columns = {
            "observations": acting.observe(seen, update=False),
            "actions": acting.decode.learned(list(episode.get_actions())),
            "rewards": np.asarray(episode.get_rewards(), np.float32),
            "terminateds": ends & episode.is_terminated,
            "truncateds": ends & episode.is_truncated,
        }
        for name, by_key in added.items():
            if key in by_key:
                columns[name] = joined_items(name, by_key[key], count)
        return columns

    def tensors(self, parts: Sequence[Columns]) -> TensorBatch:
        """Return the columns of episodes as one batch."""
        names = {name for each in parts for name in each}
        for name in sorted(names):
            count = sum(name in each for each in parts)
            if count != len(parts):
                raise ValueError(
                    f"Connectors have added the column {name!r} for {count} of {len(parts)} episodes: "
                    "expected items for each step of all, or of none."
                )
        joined = {name: np.concatenate([each[name] for each in parts]) for name in parts[0]}
        return self._tensors(joined)


class JoinedLearner:
    """One learner for the policies of an algorithm of a program.

    Parameters
    ----------
    config : AlgorithmConfig
    learners : dict of EpisodeLearner
        By policy.
    acting : dict of ActingPolicy
        By policy.
    connectors : list of ConnectorV2
        Of the option ``learner_connector``.
    """

    def __init__(
        self,
        config: AlgorithmOptions,
        learners: dict[str, EpisodeLearner],
        acting: Mapping[str, ActingPolicy],
        connectors: Sequence[ConnectorV2],
    ) -> None:
        self._learners, self._acting, self._config = learners, acting, config
        first = next(iter(learners.values()))
        whole = getattr(first.model, "all", None)
        for name, each in learners.items():
            each.join(name, None, whole)
        modules = whole or Modules(
            {**{n: each.model for n, each in learners.items()}, **first.learner_only}
        )
        made: TorchLearner = first._class(config=config, module=modules)
        made._learner_connector.connectors[:0] = connectors
        made.build()
        for name, each in learners.items():
            each.join(name, made, whole)
        self.torch_learner = made

    def update(
        self,
        episodes: Sequence[SingleAgentEpisode | MultiAgentEpisode],
        num_steps: int,
        rng: np.random.Generator,
        num_epochs: int,
        minibatch_size: int | None,
    ) -> dict[str, Metrics]:
        """Learn from episodes; return what is logged, by module.

        Parameters
        ----------
        episodes : list of SingleAgentEpisode or MultiAgentEpisode
        num_steps : int
            All steps so far, for schedules.
        rng : numpy.random.Generator
            Draws the minibatches.
        num_epochs : int
        minibatch_size : int, optional
            Default: all steps of a policy.

        Raises
        ------
        ValueError
            When no episode has a step of a policy that learns.
        FloatingPointError
            When a loss became NaN.
        """
        learner = self.torch_learner
        seeing_episodes, seeing_tensors = learner._learner_connector.parts()
        pipeline = ConnectorPipelineV2(connectors=seeing_episodes)
        added = learned_by(pipeline, {}, list(episodes), {}, learner)
        singles = list(ConnectorV2.single_agent_episode_iterator(episodes, False))
        keys = {key_of(each) for each in singles}
        for name, by_key in added.items():
            if not isinstance(by_key, Mapping) or not set(by_key) <= keys:
                raise ValueError(
                    f"A connector has added items to the column {name!r} without an episode: expected "
                    "single_agent_episode in add_batch_item() and add_n_batch_items()."
                )
        parts: dict[str, list[Columns]] = {}
        for each in singles:
            name = each.module_id or POLICY_ID
            if name in self._learners and len(each):
                columns = self._learners[name].columns_of(each, self._acting[name], added)
                parts.setdefault(name, []).append(columns)
        if not parts:
            raise ValueError(
                f"learner_group.update(): {len(episodes)} episodes have no step of a policy that "
                f"learns: expected some of {sorted(self._learners)}."
            )
        batches = {name: self._learners[name].tensors(own) for name, own in parts.items()}
        batches = change_tensors(seeing_tensors, batches, learner, episodes)
        threads = max(1, int(self._config.num_cpus_for_main_process))
        with at_most_threads(threads):
            learner.learn(
                minibatches_of_modules(batches, rng, num_epochs, minibatch_size), num_steps
            )
        return self._logged(num_steps)

    def _logged(self, num_steps: int) -> dict[str, Metrics]:
        first = next(iter(self._learners.values()))
        found = first.described()
        for name, own in found.items():
            numbers = {n: v for n, v in own.items() if isinstance(v, float)}
            check_finite(
                numbers, f"{type(self.torch_learner).__name__}, {name}, after {num_steps} steps"
            )
        return found
