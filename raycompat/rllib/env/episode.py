"""`Episode`: what callbacks see of an episode that is being played."""

from __future__ import annotations

import inspect
import uuid
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from typing import Any, Never

import gymnasium
import numpy as np

from raycompat._upper import upper
from raycompat.exceptions import UnsupportedRayFeatureError
from raycompat.rllib._types import Action, Array, Observation, Values
from raycompat.rllib.env.single_agent_episode import Indices, LookbackBuffer, SingleAgentEpisode
from raycompat.rllib.metrics_logger import REDUCTIONS


class ForCallbacks:
    """What callbacks of all years find at an episode, of one agent or several.

    Attributes
    ----------
    episode_id : int
        The form of ``id_`` until 2024.
    user_data, custom_data : dict
        For callbacks, as long as the episode lasts.
    custom_metrics : dict of float
        Mean, minimum and maximum of each over the episodes are in results, under ``custom_metrics``.
    hist_data : dict of list
        All values are in results, under ``hist_stats``.
    """

    id_: str
    custom_data: dict[str, Any]

    def _prepare(self) -> None:
        self.episode_id = uuid.uuid4().int >> 66
        self.user_data: dict[str, Any] = {}
        self.custom_metrics: dict[str, float] = {}
        self.hist_data: dict[str, list[float]] = {}
        self._temporary: dict[str, list[object]] = {}

    @property
    def length(self) -> int:
        """The number of steps."""
        return len(self)  # type: ignore[arg-type]

    @property
    def batch_builder(self) -> Any:
        """The steps until now by policy, the form of 2020 to 2022."""
        return upper("_old.rllib.batch_builder").BatchBuilder(self)

    def add_temporary_timestep_data(self, key: str, data: object) -> None:
        """Keep a value of this step as long as the episode lasts."""
        self._temporary.setdefault(key, []).append(data)

    def get_temporary_timestep_data(self, key: str, indices: Indices = None) -> Values:
        """Return the values that were kept.

        Raises
        ------
        ValueError
            When none was kept under the key.
        """
        if key not in self._temporary:
            raise ValueError(
                f"{key!r} was not added to this episode: the keys are {sorted(self._temporary)}. Call "
                "add_temporary_timestep_data() first."
            )
        return LookbackBuffer(self._temporary[key]).get(indices)


class Episode(ForCallbacks, SingleAgentEpisode):
    """An episode of an agent, from its beginning, as callbacks see it.

    Notes
    -----
    Ray source: ``ray.rllib.env.single_agent_episode.SingleAgentEpisode``, 2.60.0, and
    ``ray.rllib.evaluation.episode.Episode`` of 0.8 to 2.10. Differs from Ray: it has what callbacks
    read of either.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._prepare()

    def begin(self, observation: Observation, info: Mapping[str, object]) -> None:
        """Add what the reset of the environment returned."""
        self.add_env_reset(observation, dict(info))

    def add(self, action: Action, found: tuple[Any, ...]) -> None:
        """Add a step."""
        observation, reward, terminated, truncated, info = found
        self.add_env_step(
            observation,
            action,
            np.float64(reward),  # as in Ray, callbacks and connectors may call astype()
            dict(info),
            terminated=terminated,
            truncated=truncated,
        )

    @property
    def total_reward(self) -> float:
        """The sum of its rewards."""
        return self.get_return()

    def policy_for(self, agent_id: Hashable = None) -> str:
        """Return the policy of the agent."""
        return "default_policy"

    module_for = policy_for

    def batch(self, begin: int = 0) -> Any:
        """Return the steps from `begin` as a batch, of which only observations can be changed."""
        count = len(self)
        ends = [False] * (count - begin - 1) + [self.is_terminated]
        cuts = [False] * (count - begin - 1) + [self.is_truncated]
        made = upper("_old.rllib.sample_batch").SampleBatch(
            {
                "obs": _column(self.observations.values[begin:count]),
                "new_obs": _column(self.observations.values[begin + 1 :]),
                "actions": _column(self.actions.values[begin:]),
                "rewards": np.array(self.rewards.values[begin:], np.float32),
                "terminateds": np.array(ends),
                "truncateds": np.array(cuts),
                "dones": np.array(ends) | np.array(cuts),
                "infos": _objects(self.infos.values[begin + 1 :]),
                "t": np.arange(begin, count),
                "eps_id": np.full(count - begin, self.episode_id),
            }
        )
        for name, column in made.items():
            column.setflags(write=name in ("obs", "new_obs"))
        return made

    def last_observation_for(self, agent_id: Hashable = None) -> Observation:
        """Return the newest observation."""
        return self.observations.values[-1]

    last_raw_obs_for = last_observation_for

    def last_info_for(self, agent_id: Hashable = None) -> dict[str, Any]:
        """Return the newest info."""
        info: dict[str, Any] = self.infos.values[-1]
        return info

    def last_action_for(self, agent_id: Hashable = None) -> Action:
        """Return the newest action; None before the first step."""
        return self.actions.values[-1] if self.actions.values else None

    def last_reward_for(self, agent_id: Hashable = None) -> float:
        """Return the newest reward; 0 before the first step."""
        return self.rewards.values[-1] if self.rewards.values else 0.0


def _column(values: list[object]) -> Array:
    """Return values as one array; an array of objects where they have parts."""
    is_nested = any(isinstance(each, dict | tuple) for each in values[:1])
    return _objects(values) if is_nested else np.asarray(values)


def _objects(values: list[object]) -> Array:
    found = np.empty(len(values), object)
    found[:] = values
    return found


class Environments(gymnasium.vector.VectorEnv[Any, Any, Any]):
    """The environments of a runner, for programs; the runner alone resets and steps them together.

    Other attributes are those of the first environment.

    Parameters
    ----------
    envs : list
    """

    def __init__(self, envs: list[Any]) -> None:
        self.envs = envs
        self.num_envs = len(envs)
        self.__dict__["spec"] = getattr(envs[0], "spec", None) if envs else None

    def __getattr__(self, name: str) -> Any:
        """Return an attribute of the first environment, or of its spaces."""
        if name.startswith("_") or not self.__dict__.get("envs"):
            raise AttributeError(name)
        found = getattr(self.envs[0], name.removeprefix("single_"))
        if callable(found) and self.num_envs > 1:
            raise AttributeError(
                f"env.{name}() would be of the first of {self.num_envs} environments: call all by "
                f"env.call({name!r}, ...), or one by env.envs[0].{name}(...)."
            )
        return found

    def __setattr__(self, name: str, value: object) -> None:
        if name not in ("envs", "num_envs", "closed") and not name.startswith("_"):
            raise AttributeError(
                f"env.{name} = {value!r} would not reach the environments: set it in all by "
                f"env.set_attr({name!r}, {value!r}), or in one by env.envs[0].unwrapped.{name} = ..."
            )
        super().__setattr__(name, value)

    def reset(self, **options: object) -> Never:
        """Refuse: the runner resets them."""
        raise self._refused("reset")

    def step(self, actions: object) -> Never:
        """Refuse: the runner steps them."""
        raise self._refused("step")

    def _refused(self, name: str) -> UnsupportedRayFeatureError:
        return UnsupportedRayFeatureError(
            f"env.{name}() of a runner's environments",
            "The runner resets and steps them for its episodes",
            "call env_runner.sample(num_episodes=1), or make another environment",
        )

    def call(self, name: str, *args: object, **kwargs: object) -> tuple[Any, ...]:
        """Return an attribute of each environment, or what their method returns.

        Parameters
        ----------
        name : str
        *args, **kwargs
            Of the method.
        """
        found = [_attribute_of(env, name) for env in self.envs]
        return tuple(each(*args, **kwargs) if callable(each) else each for each in found)

    def get_attr(self, name: str) -> tuple[Any, ...]:
        """Return an attribute of each environment.

        Parameters
        ----------
        name : str
        """
        return self.call(name)

    def set_attr(self, name: str, values: object) -> None:
        """Set an attribute of each environment.

        Parameters
        ----------
        name : str
        values : object, or list or tuple of objects
            A list or a tuple has one for each.

        Raises
        ------
        ValueError
            When it has another number of them.
        """
        given = list(values) if isinstance(values, list | tuple) else [values] * self.num_envs
        if len(given) != self.num_envs:
            raise ValueError(
                f"set_attr({name!r}): {len(given)} values, and {self.num_envs} environments: expected "
                "one for each. A list that all get is given as [value] * env.num_envs."
            )
        for env, value in zip(self.envs, given, strict=True):
            if isinstance(env, gymnasium.Env):
                env.set_wrapper_attr(name, value)
            else:
                setattr(env, name, value)

    def render(self) -> tuple[Any, ...]:
        """Return the picture of each environment."""
        return tuple(env.render() for env in self.envs)

    def close_extras(self, **kwargs: object) -> None:
        """Close each environment."""
        for env in self.envs:
            getattr(env, "close", lambda: None)()

    @property
    def unwrapped(self) -> Environments:
        """The environments themselves."""
        return self

    def get_sub_environments(self) -> list[Any]:
        """Return the environments."""
        return self.envs

    get_unwrapped = get_sub_environments


def _attribute_of(env: Any, name: str) -> Any:
    """Return an attribute of an environment, or of one that it wraps."""
    is_of_gymnasium = isinstance(env, gymnasium.Env)
    return env.get_wrapper_attr(name) if is_of_gymnasium else getattr(env, name)


@dataclass(frozen=True)
class EpisodeRecord:
    """What callbacks have left at the end of an episode."""

    custom_metrics: dict[str, float]
    hist_data: dict[str, list[float]]


def describe_records(records: list[EpisodeRecord], keeps_each: bool = False) -> dict[str, Any]:
    """Return what results have of callbacks' metrics.

    Parameters
    ----------
    records : list of EpisodeRecord
    keeps_each : bool, default False
        Return the values of all episodes, in place of their mean, minimum and maximum.
    """
    values: dict[str, list[float]] = {}
    histograms: dict[str, list[float]] = {}
    for record in records:
        for name, value in record.custom_metrics.items():
            values.setdefault(name, []).append(value)
        for name, each in record.hist_data.items():
            histograms.setdefault(name, []).extend(each)
    found: dict[str, object] = {"custom_metrics": dict(values), "hist_stats": histograms}
    if not keeps_each:
        found["custom_metrics"] = {
            f"{name}_{kind}": REDUCTIONS[kind](each)
            for name, each in values.items()
            for kind in ("mean", "min", "max")
        }
    return found


def call_hook(hook: Callable[..., object], given: Mapping[str, object]) -> None:
    """Call a callback with those keywords that its signature has."""
    try:
        parameters = inspect.signature(hook).parameters.values()
    except (TypeError, ValueError):
        hook(**given)
        return
    if any(each.kind is each.VAR_KEYWORD for each in parameters):
        hook(**given)
        return
    names = {each.name for each in parameters}
    hook(**{name: value for name, value in given.items() if name in names})
