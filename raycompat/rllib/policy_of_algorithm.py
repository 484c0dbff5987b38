"""`PolicyOfAlgorithm`: what `Algorithm.get_policy` returns."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from raycompat._storage import Folder
from raycompat._surface import forms
from raycompat.exceptions import UnsupportedRayFeatureError
from raycompat.rllib._types import Action, AlgorithmOptions, Observation, State, Values
from raycompat.rllib.acting import PolicyPlan
from raycompat.rllib.checkpoint_state import POLICY_FILE
from raycompat.rllib.networks import Weights

# The algorithm is Any below: its module imports this one.


@forms.has_old_members("ray.rllib.policy.policy.Policy")
class PolicyOfAlgorithm:
    """One policy of an algorithm.

    Parameters
    ----------
    algorithm : Algorithm
    name : str
    plan : PolicyPlan

    Attributes
    ----------
    observation_space, action_space : gymnasium.Space

    Notes
    -----
    Ray source: ``ray.rllib.policy.policy.Policy``, 2.60.0, as ``get_policy`` returns it. Differs from
    Ray: it has what programs call to act, and to read and replace weights.
    """

    def __init__(self, algorithm: Any, name: str, plan: PolicyPlan) -> None:
        self._algorithm, self._name, self._plan = algorithm, name, plan
        self.observation_space, self.action_space = plan.observation_space, plan.action_space

    @property
    def model(self) -> Any:
        """The network as a Keras model; None where it is none."""
        learner = self._algorithm.learners.get(self._name)
        return None if learner is None else learner.model

    @property
    def config(self) -> AlgorithmOptions:
        """The options of the algorithm."""
        found: AlgorithmOptions = self._algorithm.config
        return found

    def compute_single_action(
        self,
        obs: Observation,
        state: Sequence[Values] | None = None,
        prev_action: Action | None = None,
        prev_reward: float | None = None,
        *,
        explore: bool | None = None,
        **kwargs: object,
    ) -> tuple[Action, list[Values], dict[str, Values]]:
        """Return the action for one observation, the next states, and what the policy remembers.

        Parameters
        ----------
        obs : object
            Of the observation space.
        state : list, optional
            Of a network with a memory, or of a rule of a user: what it returned last.
        prev_action : object, optional
            The last action, where the network sees it.
        prev_reward : float, optional
            The last reward, where the network sees it.
        explore : bool, optional
            Draw the action, instead of taking the best; by default as the config says.
        **kwargs
            They have no effect: the policy sees the observation alone.
        """
        action, states, known = self._algorithm.compute_single_action(
            obs,
            state,
            prev_action=prev_action,
            prev_reward=prev_reward,
            policy_id=self._name,
            explore=explore,
            full_fetch=True,
        )
        # As in Ray, it is a number of numpy, which has a shape.
        return np.int64(action) if isinstance(action, int) else action, states, known

    def compute_actions(
        self,
        obs_batch: Sequence[Observation],
        state_batches: Sequence[Values] | None = None,
        prev_action_batch: Sequence[Action] | None = None,
        prev_reward_batch: Sequence[float] | None = None,
        *args: object,
        explore: bool | None = None,
        **kwargs: object,
    ) -> tuple[list[Action], list[Values], dict[str, Values]]:
        """Return the actions for several observations, the next states, and an empty dict.

        Parameters
        ----------
        obs_batch : sequence
            Of the observation space.
        state_batches : sequence of arrays, optional
            For each state of `get_initial_state` its values for these observations. Default: those at
            the beginning of an episode.
        prev_action_batch : sequence, optional
            The last action before each observation, where the network sees it.
        prev_reward_batch : sequence of float, optional
            The last reward before each observation, where the network sees it.
        *args, **kwargs
            They have no effect.
        explore : bool, optional
            Draw the actions, instead of taking the best; by default as the config says.
        """
        columns = [] if state_batches is None else list(state_batches)
        found = [
            self.compute_single_action(
                each,
                [column[n] for column in columns] or None,
                None if prev_action_batch is None else prev_action_batch[n],
                None if prev_reward_batch is None else prev_reward_batch[n],
                explore=explore,
            )
            for n, each in enumerate(obs_batch)
        ]
        # The states of a rule may be anything.
        joined: Callable[[Sequence[Values]], Values] = (
            list if self._plan.network is None else np.stack
        )
        nexts = [joined(each) for each in zip(*(states for _, states, _ in found), strict=True)]
        return [action for action, _, _ in found], nexts, {}

    def get_weights(self) -> Weights:
        """Return the weights, a list of arrays; none for a rule of a user."""
        learner = self._algorithm.learners.get(self._name)
        return [] if learner is None else learner.get_weights()

    def set_weights(self, weights: Weights) -> None:
        """Replace the weights by what `get_weights` returned."""
        self._algorithm.set_weights({self._name: weights})

    def get_state(self) -> State:
        """Return the weights, and all else that learns."""
        found: State = self._algorithm.learners[self._name].get_state()
        return found

    def set_state(self, state: State) -> None:
        """Take what `get_state` returned."""
        self._algorithm.learners[self._name].set_state(state)
        self._algorithm.weights_changed()

    def get_initial_state(self) -> list[Values]:
        """Return the states at the beginning of an episode; none for a network without a memory."""
        network = self._plan.network
        if network is None:
            return list(self._plan.make().initial_state())  # type: ignore[union-attr]
        return [] if network.memory is None else [each.copy() for each in network.memory.initial]

    def export_checkpoint(self, export_dir: str) -> None:
        """Write the policy into a folder, which `Policy.from_checkpoint` takes.

        Parameters
        ----------
        export_dir : str
            Local, or a URI that fsspec knows. It has the state of the whole algorithm, too.
        """
        folder = Folder(self._algorithm.save_to_path(export_dir))
        folder.write(POLICY_FILE, self._name.encode())

    def export_model(self, export_dir: str, onnx: int | None = None) -> None:
        """Write the network into a folder.

        Parameters
        ----------
        export_dir : str
            Of a network of Keras, it becomes a SavedModel of TensorFlow. One of PyTorch is pickled as
            ``model.pt``, which ``torch.load`` reads.
        onnx : int, optional
            Refused.

        Raises
        ------
        UnsupportedRayFeatureError
            When `onnx` is given, or the policy acts by a rule.
        """
        if onnx is not None:
            raise UnsupportedRayFeatureError(
                f"export_model(onnx={onnx!r})",
                "A network is written in the form of its framework",
                "call torch.onnx.export(policy.model, ...) for a network of PyTorch",
            )
        if self.model is None:
            raise UnsupportedRayFeatureError(
                f"export_model() of the policy {self._name!r}",
                "It acts by a rule, which has no network",
                "call export_checkpoint()",
            )
        if hasattr(self.model, "export"):
            self.model.export(export_dir, verbose=False)
            return
        import torch

        Path(export_dir).mkdir(parents=True, exist_ok=True)
        torch.save(self.model, Path(export_dir, "model.pt"))
