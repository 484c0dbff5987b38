"""Environments from names, classes and functions, checked before they are used."""

from __future__ import annotations

import difflib
import importlib
import inspect
import warnings
from collections.abc import Callable
from typing import Any, Never, TypeAlias

import gymnasium

from raycompat._old_forms.gym.adapters import of_today
from raycompat._old_forms.gym.registration import with_environments
from raycompat._old_forms.packages import advice
from raycompat.exceptions import UnsupportedRayFeatureError
from raycompat.rllib._types import Action, Env, Observation, Space
from raycompat.rllib.env.env_context import EnvContext
from raycompat.rllib.env.multi_agent_env import is_multi_agent
from raycompat.rllib.utils.error import EnvError
from raycompat.tune.registry import get_env_creator

#: Makes an environment, by its config.
EnvCreator = Callable[[EnvContext], Env]

#: An environment as programs name it: a name that is registered, a class, or a function of the config.
GivenEnv: TypeAlias = str | Callable[..., object]


class SpacesAlone(gymnasium.Env[Observation, Action]):
    """Stands for the environment of an algorithm that learns from recorded steps alone.

    Parameters
    ----------
    observation_space, action_space : gymnasium.Space
    """

    def __init__(self, observation_space: Space, action_space: Space) -> None:
        self.observation_space, self.action_space = observation_space, action_space

    def reset(self, *, seed: int | None = None, options: dict[str, object] | None = None) -> Never:
        """Raise: nothing can be played.

        Raises
        ------
        EnvError
            Says what to do.
        """
        raise EnvError(
            "The config has spaces and no environment, so nothing can be played or evaluated: give "
            "one to .environment(...), or to evaluation_config as 'env'."
        )


def env_creator(env: Any) -> EnvCreator:
    """Return what makes environments.

    Parameters
    ----------
    env : str, class or callable
        A name given to `tune.register_env`, one of gymnasium's, or a dotted path to a class; or what
        takes the environment's config and returns the environment.

    Raises
    ------
    EnvError
        When the name is unknown, or it is something else, or cannot be called with a config.
    """
    if env is None:
        raise EnvError(
            "The config names no environment: expected, for example, "
            '.environment("CartPole-v1") or {"env": "CartPole-v1"}.'
        )
    if isinstance(env, str):
        registered = get_env_creator(env)
        return registered or _creator_of_name(env)
    if callable(env):
        _check_takes_config(env)
        return env  # type: ignore[no-any-return]
    raise EnvError(
        f"env={env!r}: expected a name of gymnasium's, a name given to tune.register_env, a class, or "
        "a function of the environment's config."
    )


def _check_takes_config(env: Callable[..., object]) -> None:
    try:
        signature = inspect.signature(env)
    except ValueError:  # of a class in C; the call itself will tell
        return
    try:
        signature.bind({})
    except TypeError as error:
        raise EnvError(
            f"env={env!r} cannot be called with the dict env_config: {error}. Expected a class with "
            "__init__(self, config), or a function of the config, such as lambda config: MyEnv()."
        ) from error


def _creator_of_name(name: str) -> EnvCreator:
    name = with_environments(name)
    try:
        gymnasium.spec(name)
    except gymnasium.error.UnregisteredEnv as error:
        found = _class_of_path(name)
        if found is None:
            raise EnvError(_unknown(name)) from error
        return found
    except (gymnasium.error.Error, ImportError) as error:
        raise EnvError(f"gymnasium cannot make the environment {name!r}: {error}") from error

    def make(context: EnvContext) -> Env:
        with warnings.catch_warnings():
            # The program chose this version of the environment.
            warnings.filterwarnings("ignore", ".*out of date.*")
            # `checked` checks the first reset; the checker would check every step.
            return gymnasium.make(name, **{"disable_env_checker": True, **context})

    return make


def _class_of_path(path: str) -> EnvCreator | None:
    module, _, name = path.rpartition(".")
    if not module.replace(".", "_").isidentifier():
        return None
    try:
        found = getattr(importlib.import_module(module), name, None)
    except ImportError:
        return None
    return found if callable(found) else None


def _unknown(name: str) -> str:
    near = difflib.get_close_matches(name, gymnasium.registry)
    hint = f" The closest names are {near}." if near else ""
    return (
        f"The environment {name!r} is neither registered with tune.register_env nor known to "
        f"gymnasium.{hint} Register it: tune.register_env({name!r}, lambda config: MyEnv(config))."
    )


def make_env(create: EnvCreator, context: EnvContext, described: object) -> Env:
    """Return a new environment that has the form of gymnasium, or is one of several agents.

    Parameters
    ----------
    create : callable
        See `env_creator`.
    context : EnvContext
    described : object
        The user's name of it, for errors.

    Raises
    ------
    EnvError
        When it cannot be made, or see `checked`.
    """
    try:
        env = create(context)
    except (UnsupportedRayFeatureError, EnvError):
        raise
    except Exception as error:
        raise EnvError(
            f"The environment {described!r} cannot be made with env_config={dict(context)}: "
            f"{type(error).__name__}: {error}. {_what_to_do(error)}"
        ) from error
    return env if is_multi_agent(env) else checked(of_today(env), described)


def _what_to_do(error: BaseException) -> str:
    """Return what to do about an error of an environment's constructor.

    An error that the program raised while it handled a missing package is the one that matters, so
    only what an error was raised from is looked at.
    """
    cause: BaseException | None = error
    while cause is not None:
        known = advice(cause)
        if known:
            return f"{known}."
        if isinstance(cause, ModuleNotFoundError):
            return (
                f"Install the package that has {cause.name!r}; if it is a file of your program, let "
                "the processes of the cluster find it, as by runtime_env={'working_dir': '.'}."
            )
        cause = cause.__cause__
    return "Correct env_config, or the environment's constructor."


def checked(env: Any, described: object) -> Env:
    """Return the environment if it has the form of gymnasium.

    Parameters
    ----------
    env : object
    described : object
        The user's name of it, for errors.

    Raises
    ------
    EnvError
        When it is not an environment, or one of the old gym.
    """
    missing = [
        name
        for name in ("reset", "step", "observation_space", "action_space")
        if getattr(env, name, None) is None
    ]
    if missing:
        raise EnvError(
            f"The environment {described!r} is {env!r}, without {', '.join(missing)}: expected a "
            "gymnasium.Env, whose __init__ sets observation_space and action_space."
        )
    if not isinstance(env.observation_space, gymnasium.Space):
        raise EnvError(
            f"The environment {described!r} has the observation space {env.observation_space!r}: "
            f"expected one of gymnasium.spaces.{_OLD_GYM}"
        )
    if not isinstance(env, gymnasium.Env) and "seed" not in inspect.signature(env.reset).parameters:
        raise EnvError(
            f"The environment {described!r} has a reset() without the parameter seed.{_OLD_GYM}"
        )
    made: Env = env
    return made


_OLD_GYM = (
    " Environments of the old gym, whose reset() returns an observation alone and whose step() "
    "returns four values, can be wrapped: pip install shimmy, and "
    "shimmy.GymV21CompatibilityV0(env=env)."
)


def check_reset(found: object, described: object) -> Observation:
    """Return the observation that a reset returned.

    Raises
    ------
    EnvError
        When the reset returned something else than an observation and a dict.
    """
    if not (isinstance(found, tuple) and len(found) == 2 and isinstance(found[1], dict)):
        raise EnvError(
            f"reset() of the environment {described!r} returned {type(found).__name__}: expected a "
            f"tuple of an observation and a dict.{_OLD_GYM}"
        )
    return found[0]


def check_step(found: object, described: object) -> None:
    """Check the result of a step.

    Raises
    ------
    EnvError
        When it is not a tuple of five.
    """
    if not (isinstance(found, tuple) and len(found) == 5):
        size = f"{len(found)} values" if isinstance(found, tuple) else type(found).__name__
        raise EnvError(
            f"step() of the environment {described!r} returned {size}: expected observation, reward, "
            f"terminated, truncated and a dict.{_OLD_GYM}"
        )
