"""`Past`: what connectors see of an agent's episode."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any

from raycompat.rllib._types import Action, Observation, Space

if TYPE_CHECKING:
    from raycompat.rllib.env.single_agent_episode import SingleAgentEpisode


class Past:
    """The last actions and rewards of an agent in an episode.

    Parameters
    ----------
    action_space : gymnasium.Space
    memory : dict
        What connectors remember for the episode, by their id.
    episode : Episode
    num_past : int
        How many actions and rewards are kept.
    """

    def __init__(
        self, action_space: Space, memory: dict[int, Any], episode: Any, num_past: int = 0
    ) -> None:
        self.action_space, self.memory, self.episode = action_space, memory, episode
        #: The same episode, as programs' connectors change it; None where there are none.
        self.steps: SingleAgentEpisode | None = None
        #: What programs' connectors leave for those after them.
        self.shared: dict[str, object] = {}
        self.batch: dict[str, Any] = {}
        self.actions: deque[Action] = deque(maxlen=num_past)
        self.rewards: deque[float] = deque(maxlen=num_past)

    def note(self, observation: Observation) -> None:
        """Add the step that ``episode`` ends with to what programs' connectors change.

        Parameters
        ----------
        observation : object
        """
        self.batch = {}
        episode = self.episode
        info = episode.last_info_for()
        assert self.steps is not None, "programs' connectors need an episode"
        if not self.steps.is_reset:
            self.steps.add_env_reset(observation, info)
            return
        self.steps.add_env_step(
            observation,
            episode.last_action_for(),
            episode.last_reward_for(),
            info,
            terminated=episode.is_terminated,
            truncated=episode.is_truncated,
        )

    def add(self, action: Action, reward: float) -> None:
        """Add a step."""
        self.actions.append(action)
        self.rewards.append(float(reward))
