"""What a module of a program can do beside acting; a class of a program derives from these."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from raycompat.rllib._types import TensorBatch

if TYPE_CHECKING:
    import torch

#: The name of what a target network gives in place of ``action_dist_inputs``.
TARGET_NETWORK_ACTION_DIST_INPUTS = "target_network_action_dist_inputs"


def _not_written(module: object, method: str) -> NotImplementedError:
    return NotImplementedError(f"{type(module).__name__}.{method} is not written.")


class ValueFunctionAPI:
    """A module that has a critic. Write `compute_values`."""

    def compute_values(
        self, batch: TensorBatch, embeddings: torch.Tensor | None = None
    ) -> torch.Tensor:
        """Return the critic's values, a tensor of shape (rows,).

        Parameters
        ----------
        batch : dict of tensors
        embeddings : optional
            What ``_forward_train`` has given under this name.
        """
        raise _not_written(self, "compute_values")


class InferenceOnlyAPI:
    """A module that can leave layers out where it only acts.

    Notes
    -----
    Ray source: ``ray.rllib.core.rl_module.apis.InferenceOnlyAPI``, 2.60.0. Differs from Ray: runners
    have all layers.
    """

    def get_non_inference_attributes(self) -> list[str]:
        """Return the names of attributes that only learning needs."""
        raise _not_written(self, "get_non_inference_attributes")


class SelfSupervisedLossAPI:
    """A module that computes its own loss, whatever the algorithm's is.

    Notes
    -----
    Ray source: ``ray.rllib.core.rl_module.apis.SelfSupervisedLossAPI``, 2.60.0. No known difference.
    """

    # The learner and the config are Any, because a class of a program may name its own classes.
    def compute_self_supervised_loss(
        self,
        *,
        learner: Any,
        module_id: str,
        config: Any,
        batch: TensorBatch,
        fwd_out: TensorBatch,
    ) -> torch.Tensor:
        """Return the loss, a scalar tensor.

        Parameters
        ----------
        learner : TorchLearner
        module_id : str
        config : AlgorithmConfig
        batch, fwd_out : dict of tensors
            See `TorchLearner.compute_loss_for_module`.
        """
        raise _not_written(self, "compute_self_supervised_loss")


class TargetNetworkAPI:
    """A module that has copies of its layers, which follow them slowly.

    Notes
    -----
    Ray source: ``ray.rllib.core.rl_module.apis.TargetNetworkAPI``, 2.60.0. Differs from Ray: the
    algorithms that learn by a program's module have no use for the copies, so none of the methods is
    called.
    """

    def make_target_networks(self) -> None:
        """Make the copies."""
        raise _not_written(self, "make_target_networks")

    def get_target_network_pairs(self) -> list[tuple[torch.nn.Module, torch.nn.Module]]:
        """Return pairs of a network and its copy."""
        raise _not_written(self, "get_target_network_pairs")

    def forward_target(self, batch: TensorBatch) -> TensorBatch:
        """Return the outputs of the copies.

        Parameters
        ----------
        batch : dict of tensors
        """
        raise _not_written(self, "forward_target")


class QNetAPI:
    """A module that values actions.

    Notes
    -----
    Ray source: ``ray.rllib.core.rl_module.apis.QNetAPI``, 2.60.0. Differs from Ray: DQN learns by its
    own network, so none of the methods is called.
    """

    def compute_q_values(self, batch: TensorBatch) -> TensorBatch:
        """Return the values of actions, under ``qf_preds``.

        Parameters
        ----------
        batch : dict of tensors
        """
        raise _not_written(self, "compute_q_values")


__all__ = [
    "TARGET_NETWORK_ACTION_DIST_INPUTS",
    "InferenceOnlyAPI",
    "QNetAPI",
    "SelfSupervisedLossAPI",
    "TargetNetworkAPI",
    "ValueFunctionAPI",
]
