"""`EpisodeWatch`: calls the callbacks of episodes in a runner, and keeps what they leave."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from raycompat.rllib.env.episode import (
    Environments,
    EpisodeRecord,
    Logged,
    MetricsLogger,
    call_hook,
)


@dataclass(frozen=True)
class LeftByCallbacks:
    """What callbacks have left in a runner, for results.

    Parameters
    ----------
    records : list of EpisodeRecord
        Of episodes that ended.
    logged : list of Logged
    """

    records: list[EpisodeRecord]
    logged: list[Logged]


class EpisodeWatch:
    """The callbacks of a runner, with the episodes that it plays.

    Parameters
    ----------
    runner : EnvRunner
    hooks : list of RLlibCallback
    """

    def __init__(self, runner: Any, hooks: list[Any]) -> None:
        self._runner, self._hooks = runner, hooks
        self._logger = MetricsLogger()
        self._envs = Environments([])
        self._episodes: dict[int, Any] = {}
        self._records: list[EpisodeRecord] = []

    def made(self, envs: list[Any]) -> None:
        """Note that the environments have been made."""
        self._envs = Environments(envs)
        for index, env in enumerate(envs):
            self._call("on_sub_environment_created", index, sub_environment=env, env_context=None)
        self._call("on_environment_created", 0, env_context=None)

    def begins(self, place: int, episode: Any) -> None:
        """Note that an environment will be reset, for this episode."""
        self._episodes[place] = episode
        self._call("on_episode_created", place, episode=episode)

    def began(self, place: int, observation: Any, info: Mapping[str, Any]) -> None:
        """Note that an environment was reset."""
        episode = self._episodes[place]
        episode.begin(observation, info)
        self._call("on_episode_start", place, episode=episode)

    def stepped(self, place: int, action: Any, found: tuple[Any, Any, Any, Any, Any]) -> None:
        """Note a step, which may be the last one of the episode."""
        episode = self._episodes[place]
        episode.add(action, found)
        self._call("on_episode_step", place, episode=episode)
        if episode.is_done:
            self._call("on_episode_end", place, episode=episode, prev_episode_chunks=[])
            self._records.append(EpisodeRecord(episode.custom_metrics, episode.hist_data))

    def sampled(self, sample: Any) -> LeftByCallbacks:
        """Note that a sample is ready; return what the callbacks have left."""
        self._call("on_sample_end", 0, samples=sample)
        return self.take()

    def take(self) -> LeftByCallbacks:
        """Return what the callbacks have left since the last call."""
        records, self._records = self._records, []
        return LeftByCallbacks(records, self._logger.take())

    def _call(self, name: str, place: int, **given: Any) -> None:
        everything = {
            "env_runner": self._runner,
            "worker": self._runner,
            "env": self._envs,
            "base_env": self._envs,
            "env_index": place,
            "metrics_logger": self._logger,
            "policies": {},
            "policy": {},
            "rl_module": None,
            **given,
        }
        for hook in self._hooks:
            call_hook(getattr(hook, name), everything)
