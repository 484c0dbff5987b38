"""Connectors from environments to networks, for ``env_runners(env_to_module_connector=...)``.

Each makes an observation of an observation, by what has happened in the episode; so they are wrapped
around environments, see `connected`. A class of a program may change batches, see `ConnectorV2`. What
connectors remember lasts for an episode; the statistics of `MeanStdFilter` are those of the option
``observation_filter``, and travel with checkpoints.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Hashable, Mapping
from typing import TYPE_CHECKING, Any

import gymnasium
import numpy as np
from numpy.typing import NDArray

from raycompat._surface.modules import names_of
from raycompat.exceptions import UnsupportedRayFeatureError
from raycompat.rllib._types import AgentID, Observation, Space
from raycompat.rllib.connectors.connector_v2 import ConnectorV2
from raycompat.rllib.connectors.past import Past

if TYPE_CHECKING:
    from raycompat.rllib.env.multi_agent_episode import MultiAgentEpisode
    from raycompat.rllib.env.single_agent_episode import SingleAgentEpisode


class FlattenObservations(ConnectorV2):
    """Make one vector of an observation; choices become one-hot.

    Parameters
    ----------
    input_observation_space, input_action_space : gymnasium.Space, optional
        They have no effect.
    multi_agent, as_learner_connector, agent_ids : optional
        They have no effect: the observations of all agents are made vectors.
    keys_to_remove : list of str, optional
        Of a Dict space, what is left out.

    Notes
    -----
    Ray source: ``ray.rllib.connectors.env_to_module.FlattenObservations``, 2.60.0. No known difference.
    """

    def __init__(
        self,
        input_observation_space: Space | None = None,
        input_action_space: Space | None = None,
        *,
        multi_agent: bool = False,
        as_learner_connector: bool = False,
        agent_ids: Hashable | Collection[Hashable] = None,
        keys_to_remove: list[str] | None = None,
        **kwargs: object,
    ) -> None:
        super().__init__(input_observation_space, input_action_space)
        self._removed = set(keys_to_remove or ())
        #: Of all agents.
        self._spaces: list[Space] = []

    def recompute_output_observation_space(
        self, input_observation_space: Space, input_action_space: Space
    ) -> Space:
        """Return the space of vectors, without the keys that are removed."""
        space: Any = input_observation_space
        if self._removed:
            spaces = space.spaces.items()
            space = gymnasium.spaces.Dict({k: s for k, s in spaces if k not in self._removed})
        if space not in self._spaces:
            self._spaces.append(space)
        flat: Any = gymnasium.spaces.flatten_space(space)
        return gymnasium.spaces.Box(
            flat.low.astype(np.float32), flat.high.astype(np.float32), dtype=np.float32
        )

    def observe(self, observation: Observation, past: Past) -> Observation:
        """Return the observation as a vector, without the keys that are removed."""
        if self._removed:
            kept = {name: v for name, v in observation.items() if name not in self._removed}
            observation = kept
        space = self._spaces[0] if len(self._spaces) == 1 else self._space_of(observation)
        return np.asarray(gymnasium.spaces.flatten(space, observation), np.float32)

    def _space_of(self, observation: Observation) -> Space:
        exact = [each for each in self._spaces if each.contains(observation)]
        for space in exact or [each for each in self._spaces if _has_shape(each, observation)]:
            return space
        raise ValueError(
            f"FlattenObservations: the observation {observation!r} is of none of the agents' spaces "
            f"{self._spaces}. Let reset() and step() return observations of observation_spaces."
        )


def _has_shape(space: Space, observation: Observation) -> bool:
    """Return whether an observation has the parts and shapes of a space, of any dtype and limits."""
    spaces = gymnasium.spaces
    if isinstance(space, spaces.Dict):
        return (
            isinstance(observation, Mapping)
            and set(space) == set(observation)
            and all(_has_shape(part, observation[name]) for name, part in space.items())
        )
    if isinstance(space, spaces.Tuple):
        return (
            isinstance(observation, tuple)
            and len(space) == len(observation)
            and all(map(_has_shape, space, observation))
        )
    if isinstance(space, spaces.Box):
        return bool(np.shape(observation) == space.shape)
    return bool(space.contains(observation))


class MeanStdFilter(ConnectorV2):
    """Make observations relative to their running mean and deviation: see ``observation_filter``.

    Parameters
    ----------
    multi_agent : bool
        Has no effect: each policy has its own statistics.
    de_mean_to_zero, de_std_to_one, update_stats : bool
        True.
    clip_by_value : float, optional
        Cut off what is larger, default 10.

    Notes
    -----
    Ray source: ``ray.rllib.connectors.env_to_module.MeanStdFilter``, 2.60.0. Differs from Ray: it comes
    last, after connectors that change observations.
    """

    def __init__(
        self,
        *,
        multi_agent: bool = False,
        de_mean_to_zero: bool = True,
        de_std_to_one: bool = True,
        clip_by_value: float | None = 10.0,
        update_stats: bool = True,
        **kwargs: object,
    ) -> None:
        super().__init__()
        options = {
            "de_mean_to_zero": de_mean_to_zero,
            "de_std_to_one": de_std_to_one,
            "update_stats": update_stats,
        }
        for name, value in options.items():
            if not value:
                raise UnsupportedRayFeatureError(
                    f"MeanStdFilter({name}={value!r})",
                    "Observations become relative to mean and deviation of all that were seen",
                    "leave it out, or derive from SingleAgentObservationPreprocessor",
                )
        self.clip_by_value = clip_by_value


class PrevActionsPrevRewards(ConnectorV2):
    """Add the last actions and rewards to an observation; 0 before the first.

    Parameters
    ----------
    input_observation_space, input_action_space : gymnasium.Space, optional
        They have no effect.
    multi_agent : bool
        Has no effect: it follows from the environment.
    n_prev_actions, n_prev_rewards : int, default 1
        How many of them, the newest last.

    Notes
    -----
    Ray source: ``ray.rllib.connectors.env_to_module.PrevActionsPrevRewards``, 2.60.0. No known
    difference.
    """

    def __init__(
        self,
        input_observation_space: Space | None = None,
        input_action_space: Space | None = None,
        *,
        multi_agent: bool = False,
        n_prev_actions: int = 1,
        n_prev_rewards: int = 1,
        **kwargs: object,
    ) -> None:
        super().__init__(input_observation_space, input_action_space)
        self._num_actions, self._num_rewards = n_prev_actions, n_prev_rewards
        self.num_past = max(n_prev_actions, n_prev_rewards)

    def recompute_output_observation_space(
        self, input_observation_space: Space, input_action_space: Space
    ) -> Space:
        """Return a Dict space of observation, actions and rewards."""
        size = gymnasium.spaces.flatdim(input_action_space) * self._num_actions
        parts: dict[str, Space] = {"_orig_obs": input_observation_space}
        if self._num_actions:
            parts["_prev_n_actions"] = _numbers(size)
        if self._num_rewards:
            parts["_prev_n_rewards"] = _numbers(self._num_rewards)
        return gymnasium.spaces.Dict(parts)

    def observe(self, observation: Observation, past: Past) -> Observation:
        """Return a dict of observation, actions and rewards."""
        found = {"_orig_obs": observation}
        if self._num_actions:
            found["_prev_n_actions"] = self._actions(past)
        if self._num_rewards:
            rewards = list(past.rewards)[-self._num_rewards :]
            padded = [0.0] * (self._num_rewards - len(rewards)) + rewards
            found["_prev_n_rewards"] = np.array(padded, np.float32)
        return found

    def _actions(self, past: Past) -> NDArray[np.float32]:
        space = past.action_space
        size = gymnasium.spaces.flatdim(space)
        flat = [
            np.asarray(gymnasium.spaces.flatten(space, each), np.float32)
            for each in list(past.actions)[-self._num_actions :]
        ]
        zeros = [np.zeros(size, np.float32)] * (self._num_actions - len(flat))
        return np.concatenate([*zeros, *flat])


def _numbers(count: int) -> gymnasium.spaces.Box:
    return gymnasium.spaces.Box(-np.inf, np.inf, (count,), np.float32)


class FrameStackingEnvToModule(ConnectorV2):
    """Put the last observations into one, along the last axis; zeros before the first.

    Parameters
    ----------
    input_observation_space, input_action_space : gymnasium.Space, optional
        They have no effect.
    num_frames : int, default 1
        How many observations.
    multi_agent, as_learner_connector : bool
        They have no effect.

    Notes
    -----
    Ray source: ``ray.rllib.connectors.env_to_module.frame_stacking.FrameStackingEnvToModule``, 2.60.0.
    No known difference.
    """

    def __init__(
        self,
        input_observation_space: Space | None = None,
        input_action_space: Space | None = None,
        *,
        num_frames: int = 1,
        multi_agent: bool = False,
        as_learner_connector: bool = False,
        **kwargs: object,
    ) -> None:
        super().__init__(input_observation_space, input_action_space)
        self._num_frames = num_frames

    def recompute_output_observation_space(
        self, input_observation_space: Space, input_action_space: Space
    ) -> Space:
        """Return the space of several observations."""
        space = input_observation_space
        if not isinstance(space, gymnasium.spaces.Box):
            raise UnsupportedRayFeatureError(
                f"FrameStackingEnvToModule for observations of {space!r}",
                "Frames are arrays",
                "use an environment with a Box space",
            )
        if space.shape[-1:] == (1,) and len(space.shape) > 1:
            low, high = (np.repeat(each, self._num_frames, -1) for each in (space.low, space.high))
        else:
            low, high = (
                np.stack([each] * self._num_frames, -1) for each in (space.low, space.high)
            )
        return gymnasium.spaces.Box(
            np.minimum(low, 0),
            np.maximum(high, 0),
            dtype=space.dtype,
        )

    def observe(self, observation: Observation, past: Past) -> Observation:
        """Return the last observations, the newest last."""
        frames = past.memory.setdefault(id(self), deque(maxlen=self._num_frames))
        frames.append(np.asarray(observation))
        zeros = [np.zeros_like(frames[0])] * (self._num_frames - len(frames))
        parts = [*zeros, *frames]
        has_channel = parts[0].ndim > 1 and parts[0].shape[-1] == 1
        return np.concatenate(parts, -1) if has_channel else np.stack(parts, -1)


class FrameStackingLearner(FrameStackingEnvToModule):
    """The same for ``learner_connector``: steps that are learned have the stacked observations."""


class SingleAgentObservationPreprocessor(ConnectorV2):
    """A function of one agent's observation. Subclass it, and write `preprocess`.

    Notes
    -----
    Ray source:
    ``ray.rllib.connectors.env_to_module.observation_preprocessor.SingleAgentObservationPreprocessor``,
    2.60.0. No known difference.
    """

    def preprocess(self, observation: Observation, episode: SingleAgentEpisode) -> Observation:
        """Return what stands for the observation.

        Parameters
        ----------
        observation : object
        episode : Episode
            With the observations so far, this one among them.
        """
        raise NotImplementedError(f"{type(self).__name__}.preprocess is not written.")

    def observe(self, observation: Observation, past: Past) -> Observation:
        """Return what `preprocess` returns."""
        return self.preprocess(observation, past.episode)


class MultiAgentObservationPreprocessor(ConnectorV2):
    """A function of the observations of all agents. Subclass it, and write `preprocess`.

    Notes
    -----
    Ray source:
    ``ray.rllib.connectors.env_to_module.observation_preprocessor.MultiAgentObservationPreprocessor``,
    2.60.0. No known difference.
    """

    def preprocess(
        self, observations: dict[AgentID, Observation], episode: MultiAgentEpisode
    ) -> dict[AgentID, Observation]:
        """Return what stands for the observations.

        Parameters
        ----------
        observations : dict
            By agent.
        episode : MultiAgentEpisode
        """
        raise NotImplementedError(f"{type(self).__name__}.preprocess is not written.")


def connectors_of(found: Any, option: str = "env_to_module_connector") -> list[ConnectorV2]:
    """Return the connectors that a program's function returned.

    Parameters
    ----------
    found : ConnectorV2, list of it, or None
    option : str
        Its name, for errors.

    Raises
    ------
    UnsupportedRayFeatureError
        When one is something else.
    """
    given = list(found) if isinstance(found, list | tuple) else [] if found is None else [found]
    for each in given:
        if not isinstance(each, ConnectorV2):
            raise UnsupportedRayFeatureError(
                f"{option}: {each!r}",
                "It is not a ConnectorV2",
                "return an object of a class that derives from ConnectorV2, or a list of them",
            )
    return given


def filter_of(connectors: list[ConnectorV2]) -> MeanStdFilter | None:
    """Return the filter among connectors.

    Raises
    ------
    UnsupportedRayFeatureError
        When one comes after it that changes observations.
    """
    for index, each in enumerate(connectors):
        if isinstance(each, MeanStdFilter):
            if not all(type(later) is FlattenObservations for later in connectors[index + 1 :]):
                raise UnsupportedRayFeatureError(
                    "A connector after MeanStdFilter",
                    "The statistics are of what the network sees",
                    "put MeanStdFilter last",
                )
            return each
    return None


#: Ray has modules below this one, so it is a package for the import system.
__path__: list[str] = []
__getattr__ = names_of(__name__)
