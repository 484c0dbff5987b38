"""``gym.wrappers``: a limit of steps. The others are in ``gymnasium.wrappers``."""

from __future__ import annotations

from typing import Any

from raycompat._old_forms.gym.core import Wrapper


class TimeLimit(Wrapper):
    """End episodes after a number of steps.

    Parameters
    ----------
    env : Env
    max_episode_steps : int
    """

    def __init__(self, env: Any, max_episode_steps: int) -> None:
        super().__init__(env)
        self._most, self._steps = max_episode_steps, 0

    def reset(self, **kwargs: Any) -> Any:
        """Begin an episode."""
        self._steps = 0
        return self.env.reset(**kwargs)

    def step(self, action: Any) -> tuple[Any, float, bool, dict[str, Any]]:
        """Do an action, and end the episode at the limit."""
        observation, reward, done, info = self.env.step(action)
        self._steps += 1
        if self._steps >= self._most:
            info = {**info, "TimeLimit.truncated": not done}
            done = True
        return observation, reward, done, info


def __getattr__(name: str) -> Any:
    if name.startswith("_"):
        raise AttributeError(f"module 'gym.wrappers' has no attribute {name!r}")
    from raycompat._surface.missing import MissingName

    return MissingName(
        f"gym.wrappers.{name}", "Only gymnasium is installed", f"use gymnasium.wrappers.{name}"
    )
