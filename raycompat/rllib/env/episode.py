"""`Episode`: what callbacks see of an episode that is being played, and `MetricsLogger`."""

from __future__ import annotations

import inspect
import uuid
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import gymnasium
import numpy as np

from raycompat._upper import upper
from raycompat.rllib.env.single_agent_episode import LookbackBuffer, SingleAgentEpisode

#: Of the values that are averaged without a window, the weight of the newest.
_NEWEST_WEIGHT = 0.01

_REDUCTIONS: dict[str, Callable[[list[Any]], Any]] = {
    "mean": lambda values: float(np.nanmean(values)),
    "min": lambda values: float(np.nanmin(values)),
    "max": lambda values: float(np.nanmax(values)),
    "sum": lambda values: float(np.nansum(values)),
}


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
        self.custom_metrics: dict[str, Any] = {}
        self.hist_data: dict[str, list[Any]] = {}
        self._temporary: dict[str, list[Any]] = {}

    @property
    def length(self) -> int:
        """The number of steps."""
        return len(self)  # type: ignore[arg-type]

    @property
    def batch_builder(self) -> Any:
        """The steps until now by policy, the form of 2020 to 2022."""
        return upper("_old.rllib.batch_builder").BatchBuilder(self)

    def add_temporary_timestep_data(self, key: str, data: Any) -> None:
        """Keep a value of this step as long as the episode lasts."""
        self._temporary.setdefault(key, []).append(data)

    def get_temporary_timestep_data(self, key: str, indices: Any = None) -> Any:
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

    def begin(self, observation: Any, info: Mapping[str, Any]) -> None:
        """Add what the reset of the environment returned."""
        self.add_env_reset(observation, dict(info))

    def add(self, action: Any, found: tuple[Any, Any, bool, bool, Mapping[str, Any]]) -> None:
        """Add a step."""
        observation, reward, terminated, truncated, info = found
        self.add_env_step(
            observation,
            action,
            float(reward),
            dict(info),
            terminated=terminated,
            truncated=truncated,
        )

    @property
    def total_reward(self) -> float:
        """The sum of its rewards."""
        return self.get_return()

    def policy_for(self, agent_id: Any = None) -> str | None:
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

    def last_observation_for(self, agent_id: Any = None) -> Any:
        """Return the newest observation."""
        return self.observations.values[-1]

    last_raw_obs_for = last_observation_for

    def last_info_for(self, agent_id: Any = None) -> dict[str, Any]:
        """Return the newest info."""
        info: dict[str, Any] = self.infos.values[-1]
        return info

    def last_action_for(self, agent_id: Any = None) -> Any:
        """Return the newest action; None before the first step."""
        return self.actions.values[-1] if self.actions.values else None

    def last_reward_for(self, agent_id: Any = None) -> float:
        """Return the newest reward; 0 before the first step."""
        return self.rewards.values[-1] if self.rewards.values else 0.0


def _column(values: list[Any]) -> Any:
    """Return values as one array; an array of objects where they have parts."""
    is_nested = any(isinstance(each, dict | tuple) for each in values[:1])
    return _objects(values) if is_nested else np.asarray(values)


def _objects(values: list[Any]) -> Any:
    found = np.empty(len(values), object)
    found[:] = values
    return found


class Environments(gymnasium.vector.VectorEnv[Any, Any, Any]):
    """The environments of a runner, for callbacks; the runner alone resets and steps them.

    Parameters
    ----------
    envs : list
    """

    def __init__(self, envs: list[Any]) -> None:
        self.envs = envs
        self.num_envs = len(envs)

    def render(self) -> tuple[Any, ...]:
        """Return the picture of each environment."""
        return tuple(env.render() for env in self.envs)

    @property
    def unwrapped(self) -> Environments:
        """The environments themselves."""
        return self

    def get_sub_environments(self) -> list[Any]:
        """Return the environments."""
        return self.envs

    get_unwrapped = get_sub_environments


@dataclass(frozen=True)
class Logged:
    """A value that a callback has logged.

    Parameters
    ----------
    path : tuple of str
        The keys that lead to it in results.
    value : object
    reduce : str or None
        "mean", "min", "max", "sum", "lifetime_sum"; None keeps all values as a list.
    window : int, optional
        Of how many values.
    weight : float
        Of the newest value in a mean without a window.
    clears : bool
        Whether each result begins without values.
    """

    path: tuple[str, ...]
    value: Any
    reduce: str | None
    window: int | None
    weight: float
    clears: bool


class MetricsLogger:
    """Collects values of callbacks for results.

    Notes
    -----
    Ray source: ``ray.rllib.utils.metrics.metrics_logger.MetricsLogger``, 2.60.0. Differs from Ray: it
    has the methods that callbacks call.
    """

    def __init__(self) -> None:
        self._logged: list[Logged] = []

    def log_value(
        self,
        key: str | tuple[str, ...],
        value: Any,
        *,
        reduce: str | None = "mean",
        window: int | None = None,
        ema_coeff: float | None = None,
        clear_on_reduce: bool = False,
    ) -> None:
        """Log a value.

        Parameters
        ----------
        key : str or tuple of str
            Where results have it; a tuple is a path through dicts.
        value : object
        reduce : {"mean", "min", "max", "sum", "lifetime_sum", None}, default "mean"
            What results have of the values; None: all.
        window : int, optional
            Of how many values.
        ema_coeff : float, optional
            Of a mean without a window, the weight of the newest value. Default 0.01.
        clear_on_reduce : bool, default False
            Whether each result begins without values.

        Raises
        ------
        ValueError
            When `reduce` is something else.
        """
        if reduce not in (None, "lifetime_sum", *_REDUCTIONS):
            raise ValueError(
                f"log_value({key!r}, reduce={reduce!r}): expected None, 'lifetime_sum' or one of "
                f"{sorted(_REDUCTIONS)}."
            )
        path = (key,) if isinstance(key, str) else tuple(key)
        weight = _NEWEST_WEIGHT if ema_coeff is None else ema_coeff
        self._logged.append(Logged(path, value, reduce, window, weight, clear_on_reduce))

    def log_dict(self, value_dict: Mapping[str, Any], *, key: Any = None, **options: Any) -> None:
        """Log each value of a dict, under its key.

        Parameters
        ----------
        value_dict : dict
        key : str or tuple of str, optional
            What goes before each key.
        **options
            As of `log_value`.
        """
        head = () if key is None else (key,) if isinstance(key, str) else tuple(key)
        for name, value in value_dict.items():
            if isinstance(value, Mapping):
                self.log_dict(value, key=(*head, name), **options)
            else:
                self.log_value((*head, name), value, **options)

    def take(self) -> list[Logged]:
        """Return what was logged since the last call."""
        logged, self._logged = self._logged, []
        return logged


@dataclass
class _Kept:
    """The values of one key."""

    last: Logged
    values: list[Any] = field(default_factory=list)
    average: float | None = None


class LoggedMetrics:
    """Merges what callbacks have logged in all processes."""

    def __init__(self) -> None:
        self._kept: dict[tuple[str, ...], _Kept] = {}

    def add(self, logged: Iterable[Logged]) -> None:
        """Add values."""
        for each in logged:
            kept = self._kept.setdefault(each.path, _Kept(each))
            kept.last = each
            if each.reduce == "mean" and each.window is None and not each.clears:
                before = kept.average
                kept.average = (
                    float(each.value)
                    if before is None
                    else (1 - each.weight) * before + each.weight * float(each.value)
                )
                continue
            kept.values.append(each.value)
            if each.window is not None:
                del kept.values[: -each.window]
            elif each.reduce in ("min", "max", "sum", "lifetime_sum") and not each.clears:
                kept.values = [_reduced(kept)]

    def described(self) -> dict[str, Any]:
        """Return the reduced values, as dicts by their paths."""
        found: dict[str, Any] = {}
        for path, kept in self._kept.items():
            if kept.average is None and not kept.values:
                continue
            within = found
            for part in path[:-1]:
                within = within.setdefault(part, {})
            within[path[-1]] = _reduced(kept) if kept.average is None else kept.average
            if kept.last.clears or kept.last.reduce is None:
                kept.values = []
        return found


def _reduced(kept: _Kept) -> Any:
    reduce = kept.last.reduce
    if reduce is None:
        return list(kept.values)
    return _REDUCTIONS["sum" if reduce == "lifetime_sum" else reduce](kept.values)


@dataclass(frozen=True)
class EpisodeRecord:
    """What callbacks have left at the end of an episode."""

    custom_metrics: dict[str, Any]
    hist_data: dict[str, list[Any]]


def describe_records(records: list[EpisodeRecord], keeps_each: bool = False) -> dict[str, Any]:
    """Return what results have of callbacks' metrics.

    Parameters
    ----------
    records : list of EpisodeRecord
    keeps_each : bool, default False
        Return the values of all episodes, in place of their mean, minimum and maximum.
    """
    values: dict[str, list[Any]] = {}
    histograms: dict[str, list[Any]] = {}
    for record in records:
        for name, value in record.custom_metrics.items():
            values.setdefault(name, []).append(value)
        for name, each in record.hist_data.items():
            histograms.setdefault(name, []).extend(each)
    found: dict[str, Any] = {"custom_metrics": dict(values), "hist_stats": histograms}
    if not keeps_each:
        found["custom_metrics"] = {
            f"{name}_{kind}": _REDUCTIONS[kind](each)
            for name, each in values.items()
            for kind in ("mean", "min", "max")
        }
    return found


def call_hook(hook: Callable[..., Any], given: Mapping[str, Any]) -> None:
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
