"""`TorchLearner`: losses of programs in PyTorch, ``config.training(learner_class=...)``.

A class of a program gives ``compute_loss_for_module``, or adds to that of `PPOTorchLearner`.
`ModuleLearner` lets it learn in PPO's training loop: the same samples, advantages and minibatches.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
import torch

from raycompat.exceptions import UnsupportedRayFeatureError
from raycompat.rllib.checkpoint_state import SavedModule
from raycompat.rllib.connectors.learned import LearnerConnectors, episodes_of
from raycompat.rllib.connectors.pipeline import LearnerPipeline, change_tensors
from raycompat.rllib.env.runner import POLICY_ID, Columns
from raycompat.rllib.fixed_policies import RLModuleSpec
from raycompat.rllib.learner import check_finite, minibatches
from raycompat.rllib.memory import learned_batch
from raycompat.rllib.metrics_logger import LoggedMetrics, MetricsLogger
from raycompat.rllib.module_apis import SelfSupervisedLossAPI, ValueFunctionAPI
from raycompat.rllib.modules_by_name import Modules
from raycompat.rllib.networks import Weights
from raycompat.rllib.policy_learner import PolicyLearner, PolicySetup
from raycompat.rllib.policy_spec import specs_of
from raycompat.rllib.replay_learner import make_buffer
from raycompat.rllib.returns import normalized_advantages, with_advantages
from raycompat.rllib.schedules import adapted_kl_coeff, scheduled
from raycompat.rllib.spaces import mapped
from raycompat.rllib.torch_module import (
    EMBEDDINGS,
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

#: Of the steps of sequences, False after the end of one: those of recurrent modules differ in length.
LOSS_MASK = "loss_mask"

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


class TorchLearner:
    """How modules learn. Subclass it, and write `compute_loss_for_module`.

    Parameters
    ----------
    config : AlgorithmConfig
    module : dict of TorchRLModule, or MultiRLModule
        By name.

    Attributes
    ----------
    config : AlgorithmConfig
    module : mapping of str to TorchRLModule
    metrics : MetricsLogger
        What is logged under ``(module_id, name)`` is in results, among the policy's.

    Notes
    -----
    Ray source: ``ray.rllib.core.learner.torch.torch_learner.TorchLearner``, 2.60.0. Differs from Ray:
    an algorithm makes it; it has the methods that classes of programs override and call.
    """

    framework = "torch"

    def __init__(self, *, config: Any, module: Mapping[str, Any]) -> None:
        self.config = config
        self._configs = {name: config.get_config_for_module(name) for name in module}
        self.module = module if isinstance(module, Modules) else Modules(dict(module))
        #: Its name in methods that classes of programs override.
        self._module = self.module
        self.metrics = MetricsLogger()
        self._device = torch.device("cpu")
        #: The optimizers by module and name, and the parameters that each changes.
        self._optimizers: dict[tuple[str, str], Any] = {}
        self._rates: dict[tuple[str, str], Any] = {}
        #: What changes the rates of optimizers after each iteration.
        self._schedulers: dict[tuple[str, str], list[Any]] = {}
        scaler = getattr(config, "_torch_grad_scaler_class", None)
        #: What keeps small gradients from becoming zero, by module.
        self._scalers: dict[str, Any] = {} if scaler is None else {m: scaler() for m in self.module}
        self._num_steps = 0
        #: What a program's ``build`` lets change the batches of episodes.
        self._learner_connector = LearnerPipeline()

    def build(self) -> None:
        """Make the optimizers."""
        self.configure_optimizers()

    def configure_optimizers(self) -> None:
        """Make the optimizers of each module."""
        for name in self.module:
            self.configure_optimizers_for_module(name, config=self._configs[name])

    def rl_module_is_compatible(self, module: Any) -> bool:
        """Return whether a module is one of PyTorch."""
        return isinstance(module, torch.nn.Module)

    def configure_optimizers_for_module(self, module_id: str, config: Any = None) -> None:
        """Make the optimizers of a module: Adam, for all its parameters.

        Parameters
        ----------
        module_id : str
        config : AlgorithmConfig
        """
        parameters = self.get_parameters(self.module[module_id])
        rate = (config or self._configs[module_id]).lr
        self.register_optimizer(
            module_id=module_id,
            optimizer=torch.optim.Adam(parameters, lr=scheduled(rate, 0)),
            params=parameters,
            lr_or_lr_schedule=rate,
        )

    def register_optimizer(
        self,
        *,
        module_id: str = POLICY_ID,
        optimizer_name: str = "default_optimizer",
        optimizer: Any,
        params: Any,
        lr_or_lr_schedule: Any = None,
    ) -> None:
        """Let an optimizer change parameters of a module.

        Parameters
        ----------
        module_id : str
        optimizer_name : str, default "default_optimizer"
        optimizer : torch.optim.Optimizer
        params : list of torch.nn.Parameter
            Those that it changes.
        lr_or_lr_schedule : float or points of a schedule, optional
            Its learning rate. Default: as it was made.
        """
        key = (module_id, optimizer_name)
        self._optimizers[key] = optimizer
        classes = getattr(self.config, "_torch_lr_scheduler_classes", None) or []
        self._schedulers[key] = [each(optimizer) for each in classes]
        if lr_or_lr_schedule is not None and not classes:
            self._rates[key] = lr_or_lr_schedule

    def get_parameters(self, module: Any) -> list[Any]:
        """Return the parameters of a module."""
        return list(module.parameters())

    def get_param_ref(self, param: Any) -> Any:
        """Return what stands for a parameter in dicts of gradients: itself."""
        return param

    def get_optimizer(
        self, module_id: str = POLICY_ID, optimizer_name: str = "default_optimizer"
    ) -> Any:
        """Return an optimizer.

        Raises
        ------
        KeyError
            When there is none of that name.
        """
        return self._optimizers[module_id, optimizer_name]

    def get_optimizers_for_module(self, module_id: str) -> list[tuple[str, Any]]:
        """Return the names and optimizers of a module."""
        return [(name, each) for (of, name), each in self._optimizers.items() if of == module_id]

    def compute_losses(self, *, fwd_out: dict[str, Any], batch: dict[str, Any]) -> dict[str, Any]:
        """Return the losses by module.

        Parameters
        ----------
        fwd_out, batch : dict of dict of tensors
            By module.
        """
        found = {}
        for name, own in fwd_out.items():
            config = self._configs[name]
            given = {"module_id": name, "config": config, "batch": batch[name], "fwd_out": own}
            module = self.module[name]
            if isinstance(module, SelfSupervisedLossAPI):
                found[name] = module.compute_self_supervised_loss(learner=self, **given)
            else:
                found[name] = self.compute_loss_for_module(**given)
        return found

    def compute_loss_for_module(
        self, *, module_id: str, config: Any, batch: dict[str, Any], fwd_out: dict[str, Any]
    ) -> Any:
        """Return the loss of a module, a scalar tensor.

        Parameters
        ----------
        module_id : str
        config : AlgorithmConfig
        batch : dict of tensors, of shape (rows, ...)
            ``obs``, ``actions``, ``rewards``, ``terminateds``, ``truncateds``, ``action_logp``,
            ``action_dist_inputs``, ``advantages`` and ``value_targets``. Of a recurrent module, they
            are of shape (sequences, steps, ...), and there are ``state_in`` and ``loss_mask``.
        fwd_out : dict of tensors
            What the module's ``_forward_train`` returned.
        """
        raise NotImplementedError(f"{type(self).__name__}.compute_loss_for_module is not written.")

    def compute_gradients(self, loss_per_module: dict[str, Any], **kwargs: Any) -> dict[Any, Any]:
        """Return the gradients of the sum of losses, by parameter; scaled where there is a scaler."""
        for optimizer in self._optimizers.values():
            optimizer.zero_grad(set_to_none=True)
        total: Any = sum(
            self._scalers[name].scale(loss) if name in self._scalers else loss
            for name, loss in loss_per_module.items()
        )
        total.backward()
        parameters = [each for m in self.module.values() for each in self.get_parameters(m)]
        return {each: each.grad for each in parameters if each.grad is not None}

    def postprocess_gradients(self, gradients_dict: dict[Any, Any]) -> dict[Any, Any]:
        """Return the gradients that are applied: those of each module, clipped if the config asks."""
        found: dict[Any, Any] = {}
        for name, module in self.module.items():
            own = {
                each: gradients_dict[each]
                for each in self.get_parameters(module)
                if each in gradients_dict
            }
            found |= self.postprocess_gradients_for_module(
                module_id=name, config=self._configs[name], module_gradients_dict=own
            )
        return found

    def postprocess_gradients_for_module(
        self, *, module_id: str, config: Any = None, module_gradients_dict: dict[Any, Any]
    ) -> dict[Any, Any]:
        """Return the gradients of a module, scaled so that their norm is at most ``grad_clip``."""
        limit = (config or self._configs[module_id]).grad_clip
        if not limit or not module_gradients_dict:
            return module_gradients_dict
        norm = torch.linalg.vector_norm(
            torch.stack([torch.linalg.vector_norm(each) for each in module_gradients_dict.values()])
        )
        scale = (limit / (norm + 1e-6)).clamp(max=1.0)
        return {each: gradient * scale for each, gradient in module_gradients_dict.items()}

    def apply_gradients(self, gradients_dict: dict[Any, Any]) -> None:
        """Let the optimizers change the parameters."""
        for parameter, gradient in gradients_dict.items():
            parameter.grad = gradient
        for (name, _), optimizer in self._optimizers.items():
            if name in self._scalers:
                self._scalers[name].step(optimizer)
            else:
                optimizer.step()
        for scaler in self._scalers.values():
            scaler.update()

    def before_gradient_based_update(self, *, timesteps: dict[str, Any]) -> None:
        """Do nothing; called before the minibatches of an iteration.

        Parameters
        ----------
        timesteps : dict
            ``num_env_steps_sampled_lifetime``.
        """

    def after_gradient_based_update(self, *, timesteps: dict[str, Any]) -> None:
        """Do nothing; called after the minibatches of an iteration.

        Parameters
        ----------
        timesteps : dict
            ``num_env_steps_sampled_lifetime``.
        """

    def learn(self, batches: Iterator[dict[str, Any]], num_steps: int) -> None:
        """Learn from minibatches.

        Parameters
        ----------
        batches : iterator of dict of dict of tensors
            By module.
        num_steps : int
            All steps so far, for schedules.
        """
        self._num_steps = num_steps
        timesteps = {"num_env_steps_sampled_lifetime": num_steps}
        for key, rate in self._rates.items():
            for group in self._optimizers[key].param_groups:
                group["lr"] = scheduled(rate, num_steps)
        self.before_gradient_based_update(timesteps=timesteps)
        for batch in batches:
            self._update(batch)
        for scheduler in (each for own in self._schedulers.values() for each in own):
            scheduler.step()
        self.after_gradient_based_update(timesteps=timesteps)

    def _update(self, batch: dict[str, Any]) -> tuple[Any, Any, dict[str, Any]]:
        """Learn from one minibatch; programs override it, to learn in ``torch.autocast``.

        Returns
        -------
        outputs, losses : dict
            By module.
        metrics : dict
            It is empty: what is logged is in ``metrics``.
        """
        found = self.module.forward_train(batch)
        losses = self.compute_losses(fwd_out=found, batch=batch)
        for name, loss in losses.items():
            self.metrics.log_value((name, "total_loss"), loss, window=1)
        gradients = self.postprocess_gradients(self.compute_gradients(losses))
        self.apply_gradients(gradients)
        return found, losses, {}

    def get_optimizer_state(self) -> dict[tuple[str, str], Any]:
        """Return the states of the optimizers."""
        return {key: each.state_dict() for key, each in self._optimizers.items()}

    def set_optimizer_state(self, state: dict[tuple[str, str], Any]) -> None:
        """Take what `get_optimizer_state` returned."""
        for key, own in state.items():
            self._optimizers[key].load_state_dict(own)

    def get_scheduler_state(self) -> dict[tuple[str, str], list[Any]]:
        """Return the states of what changes the learning rates."""
        return {key: [each.state_dict() for each in own] for key, own in self._schedulers.items()}

    def set_scheduler_state(self, state: dict[tuple[str, str], list[Any]]) -> None:
        """Take what `get_scheduler_state` returned."""
        for key, states in state.items():
            for scheduler, own in zip(self._schedulers[key], states, strict=True):
                scheduler.load_state_dict(own)


class PPOTorchLearner(TorchLearner):
    """PPO's loss in PyTorch, the same as `raycompat.rllib.algorithms.ppo.ppo_loss`.

    Parameters
    ----------
    config : AlgorithmConfig
    module : dict of TorchRLModule

    Attributes
    ----------
    curr_kl_coeffs_per_module : dict of float
        The coefficients of the divergence from the policy that played.

    Notes
    -----
    Ray source: ``ray.rllib.algorithms.ppo.torch.ppo_torch_learner.PPOTorchLearner``, 2.60.0. Differs
    from Ray: see `TorchLearner`.
    """

    def __init__(self, *, config: Any, module: Mapping[str, Any]) -> None:
        super().__init__(config=config, module=module)
        start = config.kl_coeff if config.use_kl_loss else 0.0
        self.curr_kl_coeffs_per_module = dict.fromkeys(module, start)

    def compute_loss_for_module(
        self, *, module_id: str, config: Any, batch: dict[str, Any], fwd_out: dict[str, Any]
    ) -> Any:
        """Return the clipped objective, with the losses of critic, entropy and divergence.

        Parameters
        ----------
        module_id : str
        config : AlgorithmConfig
        batch, fwd_out : dict of tensors
            See `TorchLearner.compute_loss_for_module`.
        """
        module = self.module[module_id]
        cls = module.get_train_action_dist_cls()
        now, played = cls.from_logits(fwd_out[INPUTS]), cls.from_logits(batch[INPUTS])
        ratio = torch.exp(now.logp(batch["actions"]) - batch["action_logp"])
        clip, advantages = scheduled(config.clip_param, self._num_steps), batch["advantages"]
        gain = torch.minimum(ratio * advantages, ratio.clamp(1 - clip, 1 + clip) * advantages)
        policy_loss, entropy = -_mean(gain, batch), _mean(now.entropy(), batch)
        kl = _mean(played.kl(now), batch)
        coefficient = scheduled(config.entropy_coeff, self._num_steps)
        total = policy_loss - coefficient * entropy
        if config.use_kl_loss:
            total = total + self.curr_kl_coeffs_per_module[module_id] * kl
        parts = {"policy_loss": policy_loss, "entropy": entropy, "mean_kl_loss": kl}
        if config.use_critic:
            values = module.compute_values(batch, embeddings=fwd_out.get(EMBEDDINGS))
            squared = (values - batch["value_targets"]) ** 2
            vf_loss = _mean(squared.clamp(max=float(config.vf_clip_param or np.inf)), batch)
            total = total + config.vf_loss_coeff * vf_loss
            parts["vf_loss"] = vf_loss
        self.metrics.log_dict(parts, key=module_id, window=1)
        return total

    def adapt(self, module_id: str, divergence: float) -> None:
        """Adapt the coefficient of the divergence to how far the policy has moved."""
        if self.config.use_kl_loss:
            before = self.curr_kl_coeffs_per_module[module_id]
            after = adapted_kl_coeff(before, divergence, self.config.kl_target)
            self.curr_kl_coeffs_per_module[module_id] = after


class MARWILTorchLearner(TorchLearner):
    """BC's loss in PyTorch: `raycompat.rllib.algorithms.marwil.marwil_loss` with a ``beta`` of 0.

    Parameters
    ----------
    config : AlgorithmConfig
    module : dict of TorchRLModule

    Notes
    -----
    Ray source: ``ray.rllib.algorithms.marwil.torch.marwil_torch_learner.MARWILTorchLearner``, 2.60.0.
    Differs from Ray: it is that of BC, which has no critic; and see `TorchLearner`.
    """

    def compute_loss_for_module(
        self, *, module_id: str, config: Any, batch: dict[str, Any], fwd_out: dict[str, Any]
    ) -> Any:
        """Return the mean of how unlikely the recorded actions are, as a logarithm.

        Parameters
        ----------
        module_id : str
        config : AlgorithmConfig
        batch, fwd_out : dict of tensors
            ``obs`` and ``actions``; and what the module's ``_forward_train`` returned.
        """
        distribution = (
            self.module[module_id].get_train_action_dist_cls().from_logits(fwd_out[INPUTS])
        )
        policy_loss = -distribution.logp(batch["actions"]).mean()
        self.metrics.log_value((module_id, "policy_loss"), policy_loss, window=1)
        return policy_loss


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
        self._module = network.build(seed)
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
        self._of_others: dict[str, dict[str, Any]] = {}
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

    def learn(
        self, parts: list[Columns], num_steps: int, rng: np.random.Generator
    ) -> dict[str, Any]:
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

    def _learn_minibatches(
        self, drawn: Iterator[dict[str, dict[str, Any]]], num_steps: int
    ) -> dict[str, Any]:
        """Learn from minibatches of modules; return statistics."""
        with at_most_threads(max(1, int(self.config.num_cpus_for_main_process))):
            self.torch_learner.learn(drawn, num_steps)
        statistics = self._logged()
        for each in (statistics, *self._of_others.values()):
            numbers = {n: v for n, v in each.items() if isinstance(v, float)}
            check_finite(numbers, f"{type(self.torch_learner).__name__}, after {num_steps} steps")
        return statistics

    def _changed(self, parts: list[Columns]) -> tuple[list[Columns], dict[str, dict[str, Any]]]:
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

    def _tensors(self, columns: Columns) -> dict[str, Any]:
        """Return columns as tensors, by Ray's names."""
        tensors = {name: torch.from_numpy(np.ascontiguousarray(v)) for name, v in columns.items()}
        seen = self._network.batch(as_weights_are(self._module, tensors.pop("observations")))
        if "mask" in tensors:
            seen[SEQ_LENS] = tensors["mask"].sum(-1)
        return {**seen, **{_NAMES.get(name, name): each for name, each in tensors.items()}}

    def _batch(self, parts: list[Columns]) -> dict[str, Any]:
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

    def described(self) -> dict[str, Any]:
        """Return what the learner has logged, by module."""
        logged = self.torch_learner.metrics.take()
        self._metrics.add(replace(each, value=_plain(each.value)) for each in logged)
        return self._metrics.described()

    def _logged(self) -> dict[str, Any]:
        described = self.described()
        own = described.pop(POLICY_ID, {})
        self._of_others = {n: described.pop(n) for n in self.learner_only if n in described}
        return {**described, **own}

    def statistics_of_others(self) -> dict[str, dict[str, Any]]:
        """Return what modules have to say that learn with the policy's."""
        return self._of_others

    @property
    def model(self) -> Any:
        """The module."""
        return self._module

    def saved_module(self) -> SavedModule:
        """Return the module, as a checkpoint has it beside the state of the algorithm."""
        made: SavedModule = self._module.saved()
        return made

    def take_saved(self, state: Any) -> None:
        """Take the weights of `SavedModule.state`; layers that it does not have stay as they are."""
        self._module.set_state(state)

    def get_weights(self) -> Weights:
        """Return the weights of the module."""
        return get_weights(self._module)

    def set_weights(self, weights: Weights) -> None:
        """Replace the weights of the module."""
        set_weights(self._module, weights)

    def get_state(self) -> dict[str, Any]:
        """Return the weights, the optimizers and the divergence's coefficient."""
        coefficients = getattr(self.torch_learner, "curr_kl_coeffs_per_module", {})
        return {
            "weights": self.get_weights(),
            "learner_only": {n: get_weights(each) for n, each in self.learner_only.items()},
            "optimizers": self.torch_learner.get_optimizer_state(),
            "schedulers": self.torch_learner.get_scheduler_state(),
            "kl_coeffs": dict(coefficients),
        }

    def set_state(self, state: dict[str, Any]) -> None:
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

    def learn_minibatches(self, count: int, num_steps: int) -> dict[str, Any]:
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


def _without_critic(columns: Columns, settings: Any) -> Columns:
    """Return the columns of a sample with the returns of its steps as advantages."""
    zeros = np.zeros_like(columns["rewards"])
    known = {**columns, "values": zeros, "next_values": zeros}
    found = with_advantages(known, settings)
    return {name: each for name, each in found.items() if name not in ("values", "next_values")}


def _joined(parts: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the rows of nested batches of the same structure in one."""

    def join(values: list[Any]) -> Any:
        if isinstance(values[0], dict):
            return {name: join([each[name] for each in values]) for name in values[0]}
        if isinstance(values[0], tuple):
            return tuple(join(list(each)) for each in zip(*values, strict=True))
        return torch.cat(values)

    joined: dict[str, Any] = join(parts)
    return joined


def minibatches_of_modules(
    batches: dict[str, dict[str, Any]],
    rng: np.random.Generator,
    num_epochs: int,
    size: int | None,
) -> Iterator[dict[str, dict[str, Any]]]:
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


def rows_of_batch(batch: dict[str, Any], rows: Any) -> Any:
    """Return some rows of a batch, also of nested observations."""
    return mapped(lambda each: each[rows], batch)


def _mean(values: Any, batch: dict[str, Any]) -> Any:
    """Return the mean over the steps of a batch; those after the end of a sequence do not count."""
    return (values[batch[LOSS_MASK]] if LOSS_MASK in batch else values).mean()


def _plain(value: Any) -> Any:
    """Return a tensor with one number as a float."""
    return (
        value.detach().item() if isinstance(value, torch.Tensor) and value.numel() == 1 else value
    )
