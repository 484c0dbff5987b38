"""Between environments of gym and of gymnasium."""

from __future__ import annotations

import inspect
import logging
from typing import Any, ClassVar

import gymnasium

from raycompat._old_forms.gym.core import Env

logger = logging.getLogger(__name__)

#: What gym wrote into the details of a step when a limit of time ended the episode.
_TRUNCATED = "TimeLimit.truncated"


class OfToday(gymnasium.Env[Any, Any]):
    """An environment of gym as one of gymnasium.

    Parameters
    ----------
    env : object
        Its ``reset`` returns an observation and its ``step`` four values; or both are of gymnasium's
        form, as gym had it in its last version.
    """

    is_of_gym: ClassVar[bool] = False

    def __init__(self, env: Any) -> None:
        self.env = env
        self.observation_space = _as_tuple(env.observation_space)
        self.action_space = _as_tuple(env.action_space)
        self._takes_seed = "seed" in inspect.signature(env.reset).parameters

    def __getattr__(self, name: str) -> Any:
        """Return an attribute of the environment, such as a method that callbacks call."""
        if name.startswith("_") or name == "env":
            raise AttributeError(f"{type(self).__name__!r} has no attribute {name!r}")
        return getattr(self.env, name)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Begin an episode."""
        if self._takes_seed:
            found = self.env.reset(seed=seed)
        else:
            if seed is not None and hasattr(self.env, "seed"):
                self.env.seed(seed)
            found = self.env.reset()
        if isinstance(found, tuple) and len(found) == 2 and isinstance(found[1], dict):
            return found
        return found, {}

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Do an action."""
        found = self.env.step(action)
        if not isinstance(found, tuple) or len(found) != 4:
            return found  # of today's form, or the runner says what is wrong
        observation, reward, done, info = found
        truncated = bool(info.get(_TRUNCATED, False))
        return observation, reward, bool(done) and not truncated, truncated, info

    def render(self) -> Any:
        """Show the state."""
        return self.env.render()

    def close(self) -> None:
        """Close the environment, where it can be closed: RLlib of its time did not do it."""
        close = getattr(self.env, "close", None)
        if close is None:
            return
        try:
            close()
        except Exception:
            logger.warning("The environment %r could not be closed.", self.env, exc_info=True)


def _as_tuple(space: Any) -> Any:
    """Return a list of spaces, one for each agent until Ray 0.6, as one space of tuples."""
    return gymnasium.spaces.Tuple(space) if isinstance(space, list) else space


class OfItsTime(Env):
    """An environment of gymnasium as one of gym.

    Parameters
    ----------
    env : gymnasium.Env
    """

    def __init__(self, env: Any) -> None:
        self.env = env
        self.observation_space, self.action_space = env.observation_space, env.action_space
        self.metadata = env.metadata  # type: ignore[misc]
        self.spec = env.spec
        self._seed: int | None = None

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name == "env":
            raise AttributeError(f"{type(self).__name__!r} has no attribute {name!r}")
        return getattr(self.env.unwrapped, name)

    def reset(self) -> Any:
        """Begin an episode; return its first observation."""
        seed, self._seed = self._seed, None
        return self.env.reset(seed=seed)[0]

    def step(self, action: Any) -> tuple[Any, float, bool, dict[str, Any]]:
        """Do an action; return observation, reward, whether the episode has ended, and details."""
        return as_four(self.env.step(action))

    def render(self, mode: str = "human") -> Any:
        """Show the state."""
        return self.env.render()

    def seed(self, seed: int | None = None) -> list[int]:
        """Set the seed of the next episode."""
        self._seed = seed
        return [] if seed is None else [seed]

    def close(self) -> None:
        """Close the environment."""
        self.env.close()

    @property
    def unwrapped(self) -> Any:
        """The environment without wrappers, in gymnasium's form."""
        return self.env.unwrapped


def as_four(
    found: tuple[Any, Any, bool, bool, dict[str, Any]],
) -> tuple[Any, float, bool, dict[str, Any]]:
    """Return a step of gymnasium as one of gym."""
    observation, reward, terminated, truncated, info = found
    if truncated:
        info = {**info, _TRUNCATED: not terminated}
    return observation, float(reward), bool(terminated or truncated), info


def of_today(env: Any) -> Any:
    """Return an environment for an algorithm: gym's as gymnasium's, others as they are."""
    if isinstance(env, OfItsTime):
        return env.env
    return OfToday(env) if getattr(env, "is_of_gym", False) else env


def of_its_time(env: Any) -> Any:
    """Return an environment for a program of gym's time: gymnasium's as gym's, others as they are."""
    return OfItsTime(env) if isinstance(env, gymnasium.Env) else env


def class_of_its_time(cls: type[Any]) -> type[Any]:
    """Return a subclass of a class of gymnasium with gym's form, for programs that derive from it."""

    def reset(self: Any, **kwargs: Any) -> Any:
        return cls.reset(self, **kwargs)[0]

    def step(self: Any, action: Any) -> tuple[Any, float, bool, dict[str, Any]]:
        return as_four(cls.step(self, action))

    def seed(self: Any, seed: int | None = None) -> list[int]:
        cls.reset(self, seed=seed)
        return [] if seed is None else [seed]

    body = {"is_of_gym": True, "reset": reset, "step": step, "seed": seed, "__module__": __name__}
    return type(cls.__name__, (cls,), body)
