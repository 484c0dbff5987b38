"""`Env` and `Wrapper` of gym, in their form until 2022."""

from __future__ import annotations

from typing import Any, ClassVar, Self

from raycompat._old_forms.gym import seeding


class Env:
    """An environment whose ``reset`` returns an observation, and whose ``step`` returns four values."""

    #: How `raycompat.rllib` knows environments of this form.
    is_of_gym: ClassVar[bool] = True

    metadata: ClassVar[dict[str, Any]] = {"render.modes": []}
    reward_range = (-float("inf"), float("inf"))
    spec: Any = None
    action_space: Any = None
    observation_space: Any = None
    np_random: Any = None

    def step(self, action: Any) -> tuple[Any, float, bool, dict[str, Any]]:
        """Do an action; return observation, reward, whether the episode has ended, and details."""
        raise NotImplementedError

    def reset(self) -> Any:
        """Begin an episode; return its first observation."""
        raise NotImplementedError

    def render(self, mode: str = "human") -> Any:
        """Show the state."""
        raise NotImplementedError

    def close(self) -> None:
        """Free what it holds."""

    def seed(self, seed: int | None = None) -> list[int]:
        """Set the seed of its random numbers."""
        self.np_random, used = seeding.np_random(seed)
        return [used]

    @property
    def unwrapped(self) -> Any:
        """The environment without wrappers."""
        return self

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()


class Wrapper(Env):
    """An environment around another one.

    Parameters
    ----------
    env : Env
    """

    def __init__(self, env: Any) -> None:
        self.env = env
        self.action_space = env.action_space
        self.observation_space = env.observation_space
        self.metadata = env.metadata  # type: ignore[misc]
        self.reward_range = getattr(env, "reward_range", self.reward_range)
        self.spec = getattr(env, "spec", None)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name == "env":
            raise AttributeError(f"{type(self).__name__!r} has no attribute {name!r}")
        return getattr(self.env, name)

    def step(self, action: Any) -> tuple[Any, float, bool, dict[str, Any]]:
        """Do an action in the environment within."""
        found: tuple[Any, float, bool, dict[str, Any]] = self.env.step(action)
        return found

    def reset(self, **kwargs: Any) -> Any:
        """Begin an episode in the environment within."""
        return self.env.reset(**kwargs)

    def render(self, mode: str = "human") -> Any:
        """Show the state of the environment within."""
        return self.env.render(mode)

    def close(self) -> None:
        """Close the environment within."""
        self.env.close()

    def seed(self, seed: int | None = None) -> list[int]:
        """Set the seed of the environment within."""
        found: list[int] = self.env.seed(seed)
        return found

    @property
    def unwrapped(self) -> Any:
        """The environment without wrappers."""
        return self.env.unwrapped


class ObservationWrapper(Wrapper):
    """A wrapper whose ``observation`` changes observations."""

    def reset(self, **kwargs: Any) -> Any:
        """Return the changed first observation."""
        return self.observation(self.env.reset(**kwargs))

    def step(self, action: Any) -> tuple[Any, float, bool, dict[str, Any]]:
        """Return a step with the changed observation."""
        observation, reward, done, info = self.env.step(action)
        return self.observation(observation), reward, done, info

    def observation(self, observation: Any) -> Any:
        """Return what stands for an observation."""
        raise NotImplementedError


class RewardWrapper(Wrapper):
    """A wrapper whose ``reward`` changes rewards."""

    def step(self, action: Any) -> tuple[Any, float, bool, dict[str, Any]]:
        """Return a step with the changed reward."""
        observation, reward, done, info = self.env.step(action)
        return observation, self.reward(reward), done, info

    def reward(self, reward: Any) -> Any:
        """Return what stands for a reward."""
        raise NotImplementedError


class ActionWrapper(Wrapper):
    """A wrapper whose ``action`` changes actions."""

    def step(self, action: Any) -> tuple[Any, float, bool, dict[str, Any]]:
        """Do the changed action."""
        found: tuple[Any, float, bool, dict[str, Any]] = self.env.step(self.action(action))
        return found

    def action(self, action: Any) -> Any:
        """Return what stands for an action."""
        raise NotImplementedError
