"""`ModuleLearner`: a policy that learns by a `TorchLearner`, in the training loop of PPO.

The samples, advantages and minibatches are those of PPO, whatever class of a program learns.
`ImitatingModuleLearner` does the same for BC.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
import torch

from raycompat.exceptions import UnsupportedRayFeatureError
from raycompat.rllib._types import AlgorithmOptions, Metrics, State, TensorBatch, TensorBatches
from raycompat.rllib.checkpoint_state import SavedModule, SavedWeights
from raycompat.rllib.connectors.learned import LearnerConnectors, episodes_of
from raycompat.rllib.connectors.pipeline import change_tensors
from raycompat.rllib.env.runner import POLICY_ID, Columns
from raycompat.rllib.fixed_policies import RLModuleSpec
from raycompat.rllib.learner import check_finite, minibatches
from raycompat.rllib.memory import learned_batch
from raycompat.rllib.metrics_logger import LoggedMetrics
from raycompat.rllib.module_apis import ValueFunctionAPI
from raycompat.rllib.networks import Weights
from raycompat.rllib.policy_learner import PolicyLearner, PolicySetup
from raycompat.rllib.policy_spec import specs_of
from raycompat.rllib.replay_learner import make_buffer
from raycompat.rllib.returns import normalized_advantages, with_advantages
from raycompat.rllib.spaces import mapped
from raycompat.rllib.torch_learner import (
    LOSS_MASK,
    MARWILTorchLearner,
    PPOTorchLearner,
    TorchLearner,
)
from raycompat.rllib.torch_module import (
    INPUTS,
    OBS,
    SEQ_LENS,
    DefaultBCTorchRLModule,
    DefaultPPOTorchRLModule,
    ModuleNetwork,
    ModulePolicy,
    TorchRLModule,
    as_weights_are,
    at_most_threads,
    get_weights,
    set_weights,
)

#: Ray's names of the columns of a batch, by ours.
_NAMES = {
    "actions": "actions",
    "rewards": "rewards",
    "terminateds": "terminateds",
    "truncateds": "truncateds",
    "log_probabilities": "action_logp",
    "parameters": INPUTS,
    "values": "vf_preds",
    "advantages": "advantages",
    "targets": "value_targets",
    "mask": LOSS_MASK,
}


_OUR_NAMES = {theirs: ours for ours, theirs in _NAMES.items()}

#: Columns of samples that a batch does not have; it has all others, also those of connectors.
_NOT_LEARNED = {"valid", "next_values", "next_observations"}


class ModuleLearner(PolicyLearner):
    """Lets a `TorchLearner` of a program, or a module of a program, learn as PPO does.

    Parameters
    ----------
    setup : PolicySetup
    network : ModuleNetwork
    seed : int
    """

    policy_class: ClassVar[Any] = ModulePolicy
    #: What learns, without a class of the program; and its network.
    default_class: ClassVar[type[TorchLearner]] = PPOTorchLearner
    default_module: ClassVar[type[TorchRLModule]] = DefaultPPOTorchRLModule

    def __init__(self, setup: PolicySetup, network: Any, seed: int) -> None:
        super().__init__(setup, network, seed)
        self._network: ModuleNetwork = network
        self._spaces = setup.observation_space, setup.action_space
        self._module: TorchRLModule = network.build(seed)
        cls = self.config.class_of_learner() or self.default_class
        if not issubclass(cls, TorchLearner):
            raise UnsupportedRayFeatureError(
                f"learner_class={cls!r}",
                "Learners of programs are in PyTorch",
                f"derive from {self.default_class.__name__} or TorchLearner",
            )
        #: The modules that learn with the policy's, and by which no agent acts.
        self.learner_only = {
            name: ModuleNetwork(each).build(seed + 1 + place)
            for place, (name, each) in enumerate(setup.learner_only.items())
        }
        self.torch_learner: Any = None
        self._metrics = LoggedMetrics()
        self._of_others: dict[str, Metrics] = {}
        self._make_learner(cls)

    def _make_learner(self, cls: type[TorchLearner]) -> None:
        """Make what learns; a program's class may put connectors into its pipeline.

        Raises
        ------
        UnsupportedRayFeatureError
            When there are modules beside those of several policies, or connectors of tensors for a
            recurrent module.
        """
        policies = sorted(specs_of(self.config.policies))
        if self.learner_only and len(policies) > 1:
            raise UnsupportedRayFeatureError(
                f"RLModuleSpec(learner_only=True) of {[*self.learner_only]} beside {policies}",
                "Each of several policies has its own learner",
                "use one policy, or derive the algorithm from Algorithm, with a training_step that "
                "calls learner_group.update(episodes=...)",
            )
        modules = {POLICY_ID: self._module, **self.learner_only}
        self.torch_learner = cls(config=self.config, module=modules)
        self.torch_learner.build()
        seeing_episodes, self._seeing_tensors = self.torch_learner._learner_connector.parts()
        self.connectors = LearnerConnectors.of(seeing_episodes)
        if self._seeing_tensors and self.network.memory is not None:
            names = [type(each).__name__ for each in self._seeing_tensors]
            raise UnsupportedRayFeatureError(
                f"The connectors {names} after NumpyToTensor with a recurrent module",
                "They see steps, and the module learns from sequences",
                "put them before NumpyToTensor, where they see episodes",
            )

    @classmethod
    def for_modules(cls) -> type[PolicyLearner]:
        """Return this class."""
        return cls

    @classmethod
    def network_of(cls, setup: PolicySetup) -> Any:
        """Return what makes the module.

        Raises
        ------
        UnsupportedRayFeatureError
            When the module shares layers with those of other policies.
        """
        spec, config = setup.config.rl_module_spec, setup.config
        if getattr(spec, "part_of", None) is not None:
            raise UnsupportedRayFeatureError(
                "MultiRLModuleSpec(multi_rl_module_class=...) in an algorithm of RLlib",
                "Its policies learn one after the other, each with its own network",
                "derive the algorithm from Algorithm, with a training_step that calls "
                "learner_group.update(episodes=...), or leave it out",
            )
        spec = copy.copy(spec) if isinstance(spec, RLModuleSpec) else RLModuleSpec()
        spec.module_class = spec.module_class or cls.default_module
        spec.model_config = config.model if spec.model_config is None else spec.model_config
        spec.observation_space, spec.action_space = setup.observation_space, setup.action_space
        return ModuleNetwork(spec).with_memory()

    def learn(self, parts: list[Columns], num_steps: int, rng: np.random.Generator) -> Metrics:
        """Learn from what was played by the policy.

        Parameters
        ----------
        parts : list of dict of arrays
            The columns of each sample, with one valid step at least.
        num_steps : int
            All steps so far, for schedules.
        rng : numpy.random.Generator
            Draws the minibatches.
        """
        settings = self.config
        parts, others = self._changed(parts)
        batches = {POLICY_ID: self._batch(parts), **others}
        size = settings.minibatch_size
        if self.network.memory is not None:  # rows are sequences
            size = max(1, size // self.network.memory.max_length)
        drawn = minibatches_of_modules(batches, rng, settings.num_epochs, size)
        statistics = self._learn_minibatches(drawn, num_steps)
        if isinstance(self.torch_learner, PPOTorchLearner) and "mean_kl_loss" in statistics:
            self.torch_learner.adapt(POLICY_ID, statistics["mean_kl_loss"])
            statistics["curr_kl_coeff"] = self.torch_learner.curr_kl_coeffs_per_module[POLICY_ID]
        return statistics

    def _learn_minibatches(self, drawn: Iterator[TensorBatches], num_steps: int) -> Metrics:
        """Learn from minibatches of modules; return statistics."""
        with at_most_threads(max(1, int(self.config.num_cpus_for_main_process))):
            self.torch_learner.learn(drawn, num_steps)
        statistics = self._logged()
        for each in (statistics, *self._of_others.values()):
            numbers = {n: v for n, v in each.items() if isinstance(v, float)}
            check_finite(numbers, f"{type(self.torch_learner).__name__}, after {num_steps} steps")
        return statistics

    def _changed(self, parts: list[Columns]) -> tuple[list[Columns], TensorBatches]:
        """Return samples as connectors of tensors leave them, and the batches of other modules."""
        if not self._seeing_tensors:
            return parts, {}
        changed, others = [], []
        for columns in parts:
            valid = columns["valid"]
            steps = {n: each[valid] for n, each in columns.items() if n not in _NOT_LEARNED}
            given = self._tensors(steps)
            seen = given[OBS]
            episodes = episodes_of(POLICY_ID, columns, self._spaces)
            found = change_tensors(
                self._seeing_tensors, {POLICY_ID: given}, self.torch_learner, episodes
            )
            own = {n: v for n, v in found[POLICY_ID].items() if n != OBS or v is not seen}
            made = {}
            for name, value in own.items():
                values = value.detach().numpy()
                column = made[_OUR_NAMES.get(name, name)] = np.zeros(
                    (*valid.shape, *values.shape[1:]), values.dtype
                )
                column[valid] = values
            changed.append({**columns, **made})
            others.append({n: each for n, each in found.items() if n != POLICY_ID})
        return changed, _joined(others)

    def _tensors(self, columns: Columns) -> TensorBatch:
        """Return columns as tensors, by Ray's names."""
        tensors = {name: torch.from_numpy(np.ascontiguousarray(v)) for name, v in columns.items()}
        seen = self._network.batch(as_weights_are(self._module, tensors.pop("observations")))
        if "mask" in tensors:
            seen[SEQ_LENS] = tensors["mask"].sum(-1)
        return {**seen, **{_NAMES.get(name, name): each for name, each in tensors.items()}}

    def _batch(self, parts: list[Columns]) -> TensorBatch:
        """Return the valid steps of samples in one batch, of tensors, by Ray's names."""
        settings = self.config
        if isinstance(self._module, ValueFunctionAPI):
            parts = [with_advantages(each, settings) for each in parts]
        else:
            parts = [_without_critic(each, settings) for each in parts]
        common = set.intersection(*(set(each) for each in parts)) - _NOT_LEARNED
        names = ["observations", *sorted(common - {"observations"})]
        joined = learned_batch(parts, names, self.network.memory)
        joined["advantages"] = normalized_advantages(joined["advantages"], joined.get("mask"))
        batch = self._tensors(joined)
        own = getattr(type(self._module), "compute_values", DefaultPPOTorchRLModule.compute_values)
        if own is not DefaultPPOTorchRLModule.compute_values:
            # A module of a program may take its observations apart in this call, as in Ray.
            with torch.no_grad():
                self._module.compute_values(batch)
        return batch

    def described(self) -> Metrics:
        """Return what the learner has logged, by module."""
        logged = self.torch_learner.metrics.take()
        self._metrics.add(replace(each, value=_plain(each.value)) for each in logged)
        return self._metrics.described()

    def _logged(self) -> Metrics:
        described = self.described()
        own = described.pop(POLICY_ID, {})
        self._of_others = {n: described.pop(n) for n in self.learner_only if n in described}
        return {**described, **own}

    def statistics_of_others(self) -> dict[str, Metrics]:
        """Return what modules have to say that learn with the policy's."""
        return self._of_others

    @property
    def model(self) -> TorchRLModule:
        """The module."""
        return self._module

    def saved_module(self) -> SavedModule:
        """Return the module, as a checkpoint has it beside the state of the algorithm."""
        made: SavedModule = self._module.saved()
        return made

    def take_saved(self, state: SavedWeights) -> None:
        """Take the weights of `SavedModule.state`; layers that it does not have stay as they are."""
        self._module.set_state(state)

    def get_weights(self) -> Weights:
        """Return the weights of the module."""
        return get_weights(self._module)

    def set_weights(self, weights: Weights) -> None:
        """Replace the weights of the module."""
        set_weights(self._module, weights)

    def get_state(self) -> State:
        """Return the weights, the optimizers and the divergence's coefficient."""
        coefficients = getattr(self.torch_learner, "curr_kl_coeffs_per_module", {})
        return {
            "weights": self.get_weights(),
            "learner_only": {n: get_weights(each) for n, each in self.learner_only.items()},
            "optimizers": self.torch_learner.get_optimizer_state(),
            "schedulers": self.torch_learner.get_scheduler_state(),
            "kl_coeffs": dict(coefficients),
        }

    def set_state(self, state: State) -> None:
        """Take what `get_state` returned."""
        self.set_weights(state["weights"])
        for name, own in state.get("learner_only", {}).items():
            set_weights(self.learner_only[name], own)
        self.torch_learner.set_optimizer_state(state["optimizers"])
        self.torch_learner.set_scheduler_state(state.get("schedulers", {}))
        getattr(self.torch_learner, "curr_kl_coeffs_per_module", {}).update(state["kl_coeffs"])


class ImitatingModuleLearner(ModuleLearner):
    """Lets a `TorchLearner` of a program, or a module of a program, learn as BC does.

    Parameters
    ----------
    setup : PolicySetup
    network : ModuleNetwork
    seed : int
    """

    default_class: ClassVar[type[TorchLearner]] = MARWILTorchLearner
    default_module: ClassVar[type[TorchRLModule]] = DefaultBCTorchRLModule

    def __init__(self, setup: PolicySetup, network: Any, seed: int) -> None:
        if network.memory is not None:
            raise UnsupportedRayFeatureError(
                f"{network.spec.module_class.__name__}.get_initial_state() in BC",
                "BC draws single steps from its buffer",
                "use PPO, or the connector FrameStackingEnvToModule",
            )
        super().__init__(setup, network, seed)
        self._buffer = make_buffer(self.config.replay_buffer_config, [seed, 1])

    @property
    def num_remembered(self) -> int:
        """How many steps are in the buffer."""
        return len(self._buffer)

    def remember(self, columns: Columns) -> int:
        """Put recorded steps into the buffer; count them."""
        names = ("observations", "actions")
        self._buffer.add({name: columns[name][columns["valid"]] for name in names})
        return int(columns["valid"].size)

    def learn_minibatches(self, count: int, num_steps: int) -> Metrics:
        """Learn from a number of minibatches that are drawn from the buffer.

        Parameters
        ----------
        count : int, at least 1
        num_steps : int
            All steps so far, for schedules.
        """
        drawn = self._buffer.sample(count * self.config.train_batch_size_per_learner)
        columns = {name: drawn[name] for name in ("observations", "actions")}
        order = torch.arange(len(drawn["actions"])).reshape(count, -1)
        batch = self._tensors(columns)
        each = ({POLICY_ID: rows_of_batch(batch, rows)} for rows in order)
        return self._learn_minibatches(each, num_steps)


def _without_critic(columns: Columns, settings: AlgorithmOptions) -> Columns:
    """Return the columns of a sample with the returns of its steps as advantages."""
    zeros = np.zeros_like(columns["rewards"])
    known = {**columns, "values": zeros, "next_values": zeros}
    found = with_advantages(known, settings)
    return {name: each for name, each in found.items() if name not in ("values", "next_values")}


def _joined(parts: list[TensorBatches]) -> TensorBatches:
    """Return the rows of nested batches of the same structure in one."""

    def join(values: list[Any]) -> Any:
        if isinstance(values[0], dict):
            return {name: join([each[name] for each in values]) for name in values[0]}
        if isinstance(values[0], tuple):
            return tuple(join(list(each)) for each in zip(*values, strict=True))
        return torch.cat(values)

    joined: TensorBatches = join(parts)
    return joined


def minibatches_of_modules(
    batches: TensorBatches,
    rng: np.random.Generator,
    num_epochs: int,
    size: int | None,
) -> Iterator[TensorBatches]:
    """Yield minibatches of all modules; those with fewer steps begin again.

    Parameters
    ----------
    batches : dict of dict of tensors
        By module.
    rng : numpy.random.Generator
        Draws the rows.
    num_epochs : int
    size : int, optional
        Rows of each minibatch. Default: all of a module.
    """
    counts = {
        name: len(next(each for each in batch.values() if isinstance(each, torch.Tensor)))
        for name, batch in batches.items()
    }
    orders = {
        name: torch.from_numpy(minibatches(count, size or count, num_epochs, rng)).long()
        for name, count in counts.items()
    }
    for index in range(max(map(len, orders.values()))):
        yield {
            name: rows_of_batch(batch, orders[name][index % len(orders[name])])
            for name, batch in batches.items()
        }


def rows_of_batch(batch: TensorBatch, rows: torch.Tensor) -> TensorBatch:
    """Return some rows of a batch, also of nested observations."""
    found: TensorBatch = mapped(lambda each: each[rows], batch)
    return found


def _plain(value: object) -> object:
    """Return a tensor with one number as a float."""
    return (
        value.detach().item() if isinstance(value, torch.Tensor) and value.numel() == 1 else value
    )
