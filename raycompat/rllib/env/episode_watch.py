"""`EpisodeWatch`: calls the callbacks of episodes in a runner, and keeps what they leave."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from raycompat.rllib._types import Action, AgentID, Array, Observation
from raycompat.rllib.env.episode import Environments, Episode, EpisodeRecord, call_hook
from raycompat.rllib.env.single_agent_episode import SingleAgentEpisode
from raycompat.rllib.metrics_logger import Logged, MetricsLogger

if TYPE_CHECKING:
    from raycompat.rllib.callbacks.callbacks import RLlibCallback
    from raycompat.rllib.env.multi_agent_episode import WatchedEpisode


def overridden_any(hooks: list[RLlibCallback], name: str) -> bool:
    """Return whether one of the callbacks overrides a method."""
    from raycompat.rllib.callbacks.callbacks import overridden

    return any(overridden(hook, (name,)) for hook in hooks)


def agents_in(episode: WatchedEpisode) -> dict[AgentID, Episode]:
    """Return the episodes of the agents; of one agent, its own."""
    own: dict[AgentID, Episode] = getattr(episode, "agent_episodes", None) or {"agent0": episode}
    return own


def policy_in(episode: WatchedEpisode, agent: Hashable) -> str:
    """Return the policy of an agent."""
    return episode.policy_for(agent)


def _part_since(episode: WatchedEpisode, begin: int) -> WatchedEpisode:
    """Return the steps since a number of them, with the step before as lookback.

    An open episode is copied, because it continues; a whole one that has ended is returned itself.
    """
    if episode.is_done and not begin:
        return episode
    return episode.slice(slice(begin, None), len_lookback_buffer=min(begin, 1))


class WatchedSample(Protocol):
    """What `on_sample_end` needs of a sample: the episodes that ended in it, and those that go on."""

    played: Sequence[WatchedEpisode]


class WatchedRunner(Protocol):
    """What callbacks that see batches need of a runner; see `Runner`."""

    def encode_batch(self, policy: str, batch: dict[str, Array]) -> None:
        """Let a batch have observations as the network sees them."""

    def take_changes(self, place: int, agent: Hashable, begin: int, observations: Array) -> None:
        """Learn from observations that a callback has changed in a batch."""


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

    def __init__(self, runner: WatchedRunner, hooks: list[RLlibCallback]) -> None:
        self._runner, self._hooks = runner, hooks
        self._logger = MetricsLogger()
        self._envs = Environments([])
        self._episodes: dict[int, WatchedEpisode] = {}
        self._records: list[EpisodeRecord] = []
        #: Episodes that ended since the last sample.
        self._done: list[WatchedEpisode] = []
        #: Episodes that ended since `collect` began; None where it does not run.
        self._ended: list[WatchedEpisode] | None = None
        #: What a callback raised: it is not a failure of the environment.
        self.error: Exception | None = None
        #: How many steps of each agent's episode callbacks have seen as a batch, by its id.
        self._seen: dict[str, int] = {}
        self._sees_batches = overridden_any(hooks, "on_postprocess_trajectory")
        # Callbacks import episodes.
        from raycompat.rllib.step_writer import StepWriter

        self._writers = [each for each in hooks if isinstance(each, StepWriter)]

    def made(self, envs: Environments) -> None:
        """Note that the environments have been made."""
        self._envs = envs
        for index, env in enumerate(envs.envs):
            self._call("on_sub_environment_created", index, sub_environment=env, env_context=None)
        self._call("on_environment_created", 0, env_context=None)

    def begins(self, place: int, episode: WatchedEpisode) -> None:
        """Note that an environment will be reset, for this episode."""
        self._episodes[place] = episode
        self._call("on_episode_created", place, episode=episode)

    def began(self, place: int, observation: Observation, info: Mapping[Any, Any]) -> None:
        """Note that an environment was reset."""
        episode = self._episodes[place]
        episode.begin(observation, info)
        self._call("on_episode_start", place, episode=episode)

    def stepped(self, place: int, action: Action, found: tuple[Any, ...]) -> None:
        """Note a step, which may be the last one of the episode."""
        episode = self._episodes[place]
        episode.add(action, found)
        self._call("on_episode_step", place, episode=episode)
        if episode.is_done:
            self._show_batches(place)
            self._call("on_episode_end", place, episode=episode, prev_episode_chunks=[])
            self._records.append(self.record_of(place))
            self._done.append(episode)
            if self._ended is not None:
                self._ended.append(episode)

    def record_of(self, place: int) -> EpisodeRecord:
        """Return what callbacks have left in the episode of an environment so far."""
        episode = self._episodes[place]
        return EpisodeRecord(episode.custom_metrics, episode.hist_data)

    def custom_data(self) -> list[dict[str, Any]]:
        """Return what callbacks have left in the episodes that are played now, by environment."""
        return [self._episodes[place].custom_data for place in sorted(self._episodes)]

    def single_agent_episodes(self) -> list[SingleAgentEpisode]:
        """Return the episodes that are played now in environments of one agent, by environment."""
        episodes = (self._episodes[place] for place in sorted(self._episodes))
        return [each for each in episodes if isinstance(each, SingleAgentEpisode)]

    @property
    def metrics_logger(self) -> MetricsLogger:
        """What programs log into; its values travel with `take`."""
        return self._logger

    @property
    def sees_batches(self) -> bool:
        """Whether a callback sees the steps of agents as batches."""
        return self._sees_batches

    def show_batches(self) -> None:
        """Show callbacks the steps that they have not seen as a batch."""
        for place in self._episodes:
            self._show_batches(place)

    def sampled(self, sample: WatchedSample) -> LeftByCallbacks:
        """Note that a sample is ready; return what the callbacks have left."""
        self.show_batches()
        going_on = [each for each in self._episodes.values() if len(each) and not each.is_done]
        sample.played = [*self._done, *going_on]
        self._call("on_sample_end", 0, samples=sample)
        sample.played = ()  # they do not leave the runner
        return self.take()

    def _show_batches(self, place: int) -> None:
        """Show callbacks the steps of each agent that they have not seen as a batch."""
        if not self._sees_batches:
            return
        episode = self._episodes[place]
        batches, begins = {}, {}
        for agent, own in agents_in(episode).items():
            begin = self._seen.get(own.id_, 0)
            if len(own) > begin:
                batch = batches[agent] = own.batch(begin)
                self._runner.encode_batch(policy_in(episode, agent), batch)
                begins[agent] = begin, batch["obs"].copy()
                self._seen[own.id_] = len(own)
            if own.is_done or episode.is_done:
                self._seen.pop(own.id_, None)
        pairs = {agent: (None, batch) for agent, batch in batches.items()}
        for agent, batch in batches.items():
            self._call(
                "on_postprocess_trajectory",
                place,
                episode=episode,
                agent_id=agent,
                policy_id=policy_in(episode, agent),
                postprocessed_batch=batch,
                original_batches=pairs,
                post_batch=batch,
                pre_batch=batch,
                all_pre_batches=pairs,
            )
        for agent, (begin, before) in begins.items():
            if not np.array_equal(batches[agent]["obs"], before):
                self._runner.take_changes(place, agent, begin, batches[agent]["obs"])

    def take(self) -> LeftByCallbacks:
        """Return what the callbacks have left since the last call."""
        for writer in self._writers:
            writer.flush()
        records, self._records, self._done = self._records, [], []
        return LeftByCallbacks(records, self._logger.take())

    def put_back(self, left: LeftByCallbacks) -> None:
        """Take what `take` returned, and no result has had."""
        self._records[:0] = left.records
        self._logger.put_back(left.logged)

    def collect(
        self, play: Callable[[], int], num_episodes: int | None, num_timesteps: int | None
    ) -> list[WatchedEpisode]:
        """Return a number of episodes, or the parts of episodes that a number of steps has.

        Parameters
        ----------
        play : callable
            Steps all environments, and returns the number of steps.
        num_episodes, num_timesteps : int or None
            One of them.
        """
        ended: list[WatchedEpisode] = []
        begun = {each.id_: len(each) for each in self._episodes.values()}
        self._ended, num_steps = ended, 0
        try:
            while len(ended) < (num_episodes or 0) or num_steps < (num_timesteps or 0):
                num_steps += play()
        finally:
            self._ended = None
        if num_episodes is not None:
            return ended[:num_episodes]
        open_now = [each for each in self._episodes.values() if not each.is_done]
        parts = [_part_since(each, begun.get(each.id_, 0)) for each in [*ended, *open_now]]
        return [each for each in parts if len(each)]

    def _call(self, name: str, place: int, **given: object) -> None:
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
            try:
                call_hook(getattr(hook, name), everything)
            except Exception as error:
                self.error = error
                raise
