"""`EnvToModulePipeline` and `ModuleToEnvPipeline`: what lies around a network in a program's own loop.

A checkpoint of an algorithm has one of each, with which a program plays as the env runners do:

1. ``env_to_module(episodes=..., rl_module=...)`` makes a batch of the newest observations.
2. ``rl_module.forward_inference(batch)`` returns the outputs of the network.
3. ``module_to_env(batch=outputs, ...)`` returns actions, and what the episode keeps of the outputs.
"""

from __future__ import annotations

import operator
import pickle
from collections.abc import Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import cloudpickle
import numpy as np

from raycompat.exceptions import UnsupportedRayFeatureError
from raycompat.rllib._types import Array, Nested
from raycompat.rllib.connectors.connector_v2 import Batch, key_of
from raycompat.rllib.connectors.pipeline import ConnectorPipelineV2
from raycompat.rllib.distributions import distribution_of
from raycompat.rllib.filters import NoFilter
from raycompat.rllib.fixed_policies import stacked
from raycompat.rllib.spaces import ActionDecoder, mapped

if TYPE_CHECKING:
    from raycompat.rllib.env.single_agent_episode import SingleAgentEpisode

#: The file of a folder with one pipeline.
_FILE = "pipeline.pkl"

#: The folders in the checkpoint of an algorithm.
ENV_TO_MODULE = ("env_runner", "env_to_module_connector")
MODULE_TO_ENV = ("env_runner", "module_to_env_connector")


class _SavedPipeline(ConnectorPipelineV2):
    """A pipeline that a checkpoint has."""

    def save_to_path(self, path: str | PathLike[str]) -> str:
        """Write the pipeline into a folder, which is made where it does not exist; return its path.

        Parameters
        ----------
        path : str or path-like
        """
        Path(path).mkdir(parents=True, exist_ok=True)
        Path(path, _FILE).write_bytes(cloudpickle.dumps(self))
        return str(path)

    @classmethod
    def from_checkpoint(cls, path: str | PathLike[str], **kwargs: object) -> Self:
        """Return the pipeline of a checkpoint.

        Parameters
        ----------
        path : str or path-like
            The folder ``env_runner/env_to_module_connector`` or ``env_runner/module_to_env_connector``
            in the checkpoint of an algorithm with one policy. It is unpickled: it must come from a
            trusted source.
        **kwargs
            They have no effect.

        Raises
        ------
        ValueError
            When it is not a folder of this pipeline.
        """
        file = Path(path, _FILE)
        found = pickle.loads(file.read_bytes()) if file.exists() else None
        if not isinstance(found, cls):
            place = "/".join(ENV_TO_MODULE if cls is EnvToModulePipeline else MODULE_TO_ENV)
            raise ValueError(
                f"{path} has no {cls.__name__}: expected the folder {place} in the checkpoint of an "
                "algorithm of one agent."
            )
        return found


class EnvToModulePipeline(_SavedPipeline):
    """Makes a batch for a network of the newest observations of episodes.

    Parameters
    ----------
    input_observation_space, input_action_space : gymnasium.Space, optional
        Of the environment.
    connectors : list of ConnectorV2, optional
        They are called first, and may change the observations of episodes, or write the column ``obs``
        of the batch, which has priority.

    Attributes
    ----------
    observation_filter : MeanStdFilter, FilterOfUser or NoFilter, optional
        It is called last, and counts nothing.

    Notes
    -----
    Ray source: ``ray.rllib.connectors.env_to_module.EnvToModulePipeline``, 2.60.0. Differs from Ray: it
    is for episodes of single agents, and an algorithm does not call it.
    """

    observation_filter: Any = None

    def __call__(
        self,
        *,
        rl_module: Any = None,
        episodes: Sequence[Any] = (),
        batch: Batch | None = None,
        **given: Any,
    ) -> Batch:
        """Return the batch for a network.

        Parameters
        ----------
        rl_module : TorchRLModule or keras.Model
            What `RLModule.from_checkpoint` returns.
        episodes : list of SingleAgentEpisode
        batch : dict, optional
        **given
            ``explore``, ``shared_data`` and ``metrics``: given to each connector.

        Returns
        -------
        dict
            ``obs``, of shape (episodes, ...). For a network with a memory, ``obs`` of shape
            (episodes, 1, ...), and ``state_in``. Tensors for a network of PyTorch, of float32 where an
            array has float64; else arrays.

        Raises
        ------
        ValueError
            When a connector has added to a column for some of the episodes only.
        """
        batch = super().__call__(rl_module=rl_module, episodes=episodes, batch=batch or {}, **given)
        found = {name: _batched(name, column, episodes) for name, column in batch.items()}
        if "obs" not in found:
            found["obs"] = stacked([each.get_observations(-1) for each in episodes])
        if self.observation_filter is not None and not isinstance(
            self.observation_filter, NoFilter
        ):
            found["obs"] = self.observation_filter(found["obs"], False)
        initial = rl_module.get_initial_state() if hasattr(rl_module, "get_initial_state") else {}
        if initial:
            found["obs"] = mapped(lambda each: each[:, None], found["obs"])
            found["state_in"] = stacked([_state_of(each, initial) for each in episodes])
        if getattr(rl_module, "framework", None) != "torch":
            return found
        import torch

        tensors: dict[str, Any] = mapped(torch.as_tensor, mapped(_single, found))
        return tensors


class ModuleToEnvPipeline(_SavedPipeline):
    """Makes actions of the outputs of a network.

    Parameters
    ----------
    input_observation_space, input_action_space : gymnasium.Space, optional
        Of the environment.
    connectors : list of ConnectorV2, optional
        They are called first.

    Attributes
    ----------
    decode : ActionDecoder, optional
        Makes the actions of an environment. Default: as the space of actions says.

    Notes
    -----
    Ray source: ``ray.rllib.connectors.module_to_env.ModuleToEnvPipeline``, 2.60.0. Differs from Ray:
    see `EnvToModulePipeline`.
    """

    decode: ActionDecoder | None = None

    def __call__(
        self, *, batch: Batch, explore: bool | None = None, **given: Any
    ) -> dict[str, list[Any]]:
        """Return actions, and what episodes keep of the outputs: lists with one item an episode.

        Parameters
        ----------
        batch : dict
            The outputs of a network.
        explore : bool, optional
            Draw the actions, instead of taking the best.
        **given
            ``episodes``, ``rl_module``, ``shared_data`` and ``metrics``: given to each connector.

        Returns
        -------
        dict of list
            ``actions``; ``actions_for_env``, where an environment takes others than networks learn;
            and the outputs, ``state_out`` among them.

        Raises
        ------
        UnsupportedRayFeatureError
            When the network gives neither actions nor the parameters of their distribution.
        """
        decode = self.decode or ActionDecoder(self.input_action_space)
        found = super().__call__(batch=batch, explore=explore, **given)
        found = {k: stacked(each) if isinstance(each, list) else each for k, each in found.items()}
        batch = mapped(_as_array, found)
        states = batch.pop("state_out", None)
        if states is not None:  # outputs are of sequences of one step
            batch = mapped(lambda each: each[:, 0], batch)
        if "actions" not in batch:
            if "action_dist_inputs" not in batch:
                raise UnsupportedRayFeatureError(
                    f"module_to_env of outputs {sorted(batch)}",
                    "Actions are drawn from their distribution",
                    "let the network give action_dist_inputs or actions",
                )
            drawn = distribution_of(decode.layout, batch["action_dist_inputs"])
            batch["actions"] = drawn.sample(np.random.default_rng()) if explore else drawn.mode()
            batch["action_logp"] = drawn.log_probability(batch["actions"])
        if not decode.is_choice:
            batch["actions_for_env"] = decode(batch["actions"])
        if states is not None:
            counted = range(len(next(iter(states.values()))))
            batch["state_out"] = [mapped(operator.itemgetter(n), states) for n in counted]
        return {name: list(column) for name, column in batch.items()}


def _state_of(episode: SingleAgentEpisode, initial: Nested) -> Any:
    """Return what a network remembers of an episode."""
    outputs = episode.extra_model_outputs
    if not len(episode) or "state_out" not in outputs:
        return mapped(_as_array, initial)
    return episode.get_extra_model_outputs("state_out", -1)


def _as_array(value: object) -> Array:
    return value.detach().cpu().numpy() if hasattr(value, "detach") else np.asarray(value)


def _single(value: object) -> Any:
    """Return float64 as float32, which the weights of networks have; another value as it is."""
    return np.asarray(value, np.float32) if np.asarray(value).dtype == np.float64 else value


def _batched(name: str, column: object, episodes: Sequence[SingleAgentEpisode]) -> Any:
    """Return a column to which connectors have added items as one batch; another one as it is."""
    keys = [key_of(each) for each in episodes]
    if isinstance(column, Mapping) and not set(keys).isdisjoint(column):
        missing = [key for key in keys if key not in column]
        if missing:
            raise ValueError(
                f"A connector has added to the column {name!r}, and nothing for the episodes "
                f"{missing}: expected an item for each episode, with single_agent_episode."
            )
        return stacked([column[key][-1] for key in keys])
    return stacked(column) if isinstance(column, list) else column
