"""`Past`: what connectors see of an agent's episode."""

from __future__ import annotations

from collections import deque
from typing import Any


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
        self, action_space: Any, memory: dict[int, Any], episode: Any, num_past: int = 0
    ) -> None:
        self.action_space, self.memory, self.episode = action_space, memory, episode
        self.actions: deque[Any] = deque(maxlen=num_past)
        self.rewards: deque[float] = deque(maxlen=num_past)

    def add(self, action: Any, reward: float) -> None:
        """Add a step."""
        self.actions.append(action)
        self.rewards.append(float(reward))
