"""`TorchLearner`: losses of programs in PyTorch, ``config.training(learner_class=...)``.

A class of a program gives ``compute_loss_for_module``, or adds to that of `PPOTorchLearner`.
`raycompat.rllib.module_learner` gives it the batches of a policy.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import torch

from raycompat.rllib._types import AlgorithmOptions, Metrics, State, TensorBatch, TensorBatches
from raycompat.rllib.connectors.pipeline import LearnerPipeline
from raycompat.rllib.env.runner import POLICY_ID
from raycompat.rllib.metrics_logger import MetricsLogger
from raycompat.rllib.module_apis import SelfSupervisedLossAPI
from raycompat.rllib.modules_by_name import Modules
from raycompat.rllib.schedules import Schedule, adapted_kl_coeff, scheduled
from raycompat.rllib.torch_module import EMBEDDINGS, INPUTS, TorchRLModule

#: Of the steps of sequences, False after the end of one: those of recurrent modules differ in length.
LOSS_MASK = "loss_mask"

#: Gradients by parameter.
Gradients = dict[torch.nn.Parameter, torch.Tensor]

# The config is Any where a class of a program overrides the method, because it may name its own class.


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

    def __init__(self, *, config: AlgorithmOptions, module: Mapping[str, TorchRLModule]) -> None:
        self.config = config
        self._configs = {name: config.get_config_for_module(name) for name in module}
        self.module = module if isinstance(module, Modules) else Modules(dict(module))
        #: Its name in methods that classes of programs override.
        self._module = self.module
        self.metrics = MetricsLogger()
        self._device = torch.device("cpu")
        #: The optimizers by module and name, and the parameters that each changes.
        self._optimizers: dict[tuple[str, str], torch.optim.Optimizer] = {}
        self._rates: dict[tuple[str, str], Schedule] = {}
        #: What changes the rates of optimizers after each iteration.
        self._schedulers: dict[tuple[str, str], list[torch.optim.lr_scheduler.LRScheduler]] = {}
        scaler = getattr(config, "_torch_grad_scaler_class", None)
        #: What keeps small gradients from becoming zero, by module.
        self._scalers: dict[str, torch.amp.GradScaler] = (
            {} if scaler is None else {m: scaler() for m in self.module}
        )
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

    def rl_module_is_compatible(self, module: object) -> bool:
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
        optimizer: torch.optim.Optimizer,
        params: object,
        lr_or_lr_schedule: Schedule | None = None,
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

    def get_parameters(self, module: torch.nn.Module) -> list[torch.nn.Parameter]:
        """Return the parameters of a module."""
        return list(module.parameters())

    def get_param_ref(self, param: torch.nn.Parameter) -> torch.nn.Parameter:
        """Return what stands for a parameter in dicts of gradients: itself."""
        return param

    def get_optimizer(
        self, module_id: str = POLICY_ID, optimizer_name: str = "default_optimizer"
    ) -> torch.optim.Optimizer:
        """Return an optimizer.

        Raises
        ------
        KeyError
            When there is none of that name.
        """
        return self._optimizers[module_id, optimizer_name]

    def get_optimizers_for_module(self, module_id: str) -> list[tuple[str, torch.optim.Optimizer]]:
        """Return the names and optimizers of a module."""
        return [(name, each) for (of, name), each in self._optimizers.items() if of == module_id]

    def compute_losses(
        self, *, fwd_out: TensorBatches, batch: TensorBatches
    ) -> dict[str, torch.Tensor]:
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
        self, *, module_id: str, config: Any, batch: TensorBatch, fwd_out: TensorBatch
    ) -> torch.Tensor:
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

    def compute_gradients(
        self, loss_per_module: dict[str, torch.Tensor], **kwargs: object
    ) -> Gradients:
        """Return the gradients of the sum of losses, by parameter; scaled where there is a scaler."""
        for optimizer in self._optimizers.values():
            optimizer.zero_grad(set_to_none=True)
        total: torch.Tensor = sum(
            self._scalers[name].scale(loss) if name in self._scalers else loss
            for name, loss in loss_per_module.items()
        )
        total.backward()
        parameters = [each for m in self.module.values() for each in self.get_parameters(m)]
        return {each: each.grad for each in parameters if each.grad is not None}

    def postprocess_gradients(self, gradients_dict: Gradients) -> Gradients:
        """Return the gradients that are applied: those of each module, clipped if the config asks."""
        found: Gradients = {}
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
        self,
        *,
        module_id: str,
        config: Any = None,
        module_gradients_dict: Gradients,
    ) -> Gradients:
        """Return the gradients of a module, scaled so that their norm is at most ``grad_clip``."""
        limit = (config or self._configs[module_id]).grad_clip
        if not limit or not module_gradients_dict:
            return module_gradients_dict
        norm = torch.linalg.vector_norm(
            torch.stack([torch.linalg.vector_norm(each) for each in module_gradients_dict.values()])
        )
        scale = (limit / (norm + 1e-6)).clamp(max=1.0)
        return {each: gradient * scale for each, gradient in module_gradients_dict.items()}

    def apply_gradients(self, gradients_dict: Gradients) -> None:
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

    def before_gradient_based_update(self, *, timesteps: dict[str, int]) -> None:
        """Do nothing; called before the minibatches of an iteration.

        Parameters
        ----------
        timesteps : dict
            ``num_env_steps_sampled_lifetime``.
        """

    def after_gradient_based_update(self, *, timesteps: dict[str, int]) -> None:
        """Do nothing; called after the minibatches of an iteration.

        Parameters
        ----------
        timesteps : dict
            ``num_env_steps_sampled_lifetime``.
        """

    def learn(self, batches: Iterator[TensorBatches], num_steps: int) -> None:
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

    def _update(
        self, batch: TensorBatches
    ) -> tuple[TensorBatches, dict[str, torch.Tensor], Metrics]:
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

    def get_optimizer_state(self) -> dict[tuple[str, str], State]:
        """Return the states of the optimizers."""
        return {key: each.state_dict() for key, each in self._optimizers.items()}

    def set_optimizer_state(self, state: dict[tuple[str, str], State]) -> None:
        """Take what `get_optimizer_state` returned."""
        for key, own in state.items():
            self._optimizers[key].load_state_dict(own)

    def get_scheduler_state(self) -> dict[tuple[str, str], list[State]]:
        """Return the states of what changes the learning rates."""
        return {key: [each.state_dict() for each in own] for key, own in self._schedulers.items()}

    def set_scheduler_state(self, state: dict[tuple[str, str], list[State]]) -> None:
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

    def __init__(self, *, config: AlgorithmOptions, module: Mapping[str, TorchRLModule]) -> None:
        super().__init__(config=config, module=module)
        start = config.kl_coeff if config.use_kl_loss else 0.0
        self.curr_kl_coeffs_per_module = dict.fromkeys(module, start)

    def compute_loss_for_module(
        self, *, module_id: str, config: Any, batch: TensorBatch, fwd_out: TensorBatch
    ) -> torch.Tensor:
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
        self, *, module_id: str, config: Any, batch: TensorBatch, fwd_out: TensorBatch
    ) -> torch.Tensor:
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


def _mean(values: torch.Tensor, batch: TensorBatch) -> torch.Tensor:
    """Return the mean over the steps of a batch; those after the end of a sequence do not count."""
    return (values[batch[LOSS_MASK]] if LOSS_MASK in batch else values).mean()
