"""Names of trainables and environments, so that experiments can be written as text."""

from __future__ import annotations

import difflib
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from raycompat._surface.modules import names_of
from raycompat._upper import upper
from raycompat.tune.error import TuneError
from raycompat.tune.trainable.function_trainable import wrap_function
from raycompat.tune.trainable.trainable import Trainable

if TYPE_CHECKING:
    from raycompat.tune.trainable.nested import Config

_trainables: dict[str, type[Trainable]] = {}
_environments: dict[str, Callable[..., object]] = {}


def register_trainable(
    name: str, trainable: Callable[..., object] | type, warn: bool = True
) -> None:
    """Give a trainable a name, by which experiments can run it.

    Parameters
    ----------
    name : str
    trainable : callable or subclass of Trainable
        A function of the config, or of config and reporter; or a class.
    warn : bool, default True
        Has no effect.

    Raises
    ------
    TypeError
        When it is neither, or the name is not a text.

    Examples
    --------
    >>> from raycompat import tune
    >>> tune.register_trainable(
    ...     "square", lambda config: {"score": config["x"] ** 2}
    ... )
    """
    if not isinstance(name, str):
        raise TypeError(f"register_trainable: the name {name!r} is not a str.")
    _trainables[name] = trainable_class(trainable, name)


def trainable_class(trainable: object, name: str | None = None) -> type[Trainable]:
    """Return the class that trains: the class itself, or one around the function."""
    if isinstance(trainable, type):
        if issubclass(trainable, Trainable):
            return trainable
        if not is_trainable_like(trainable):
            raise TypeError(f"{trainable!r}: expected a function or a subclass of tune.Trainable.")
        found: Any = trainable
        return found  # type: ignore[no-any-return]
    if not callable(trainable):
        raise TypeError(f"{trainable!r}: expected a function or a subclass of tune.Trainable.")
    return wrap_function(trainable, name)


def is_trainable_like(cls: type) -> bool:
    """Return whether a class has Trainable's methods without being a subclass, like RL algorithms."""
    return all(callable(getattr(cls, name, None)) for name in ("train", "save", "restore", "stop"))


def get_trainable_cls(trainable_name: str) -> type[Trainable]:
    """Return the trainable of a name; the algorithms of `raycompat.rllib` have theirs.

    Raises
    ------
    TuneError
        When there is none.
    """
    if trainable_name not in _trainables:
        algorithms = upper("rllib.algorithms.registry")
        if trainable_name in algorithms.ALGORITHMS or trainable_name in algorithms.REMOVED:
            found: type[Trainable] = algorithms.get_algorithm_class(trainable_name)
            return found
        algorithms.refuse_if_lacking(trainable_name)
        names = [*_trainables, *algorithms.ALGORITHMS]
        near = difflib.get_close_matches(trainable_name, names) or sorted(_trainables)
        hint = f"The names are {near}." if near else "No name is registered."
        raise TuneError(
            f"Unknown trainable {trainable_name!r}. {hint} Register it with "
            f"tune.register_trainable({trainable_name!r}, f), or "
            "pass the function or class itself."
        )
    return _trainables[trainable_name]


def register_env(name: str, env_creator: Callable[..., object]) -> None:
    """Give an environment of reinforcement learning a name.

    Parameters
    ----------
    name : str
    env_creator : callable
        Returns the environment for a config.

    Raises
    ------
    TypeError
        When it cannot be called.

    Examples
    --------
    >>> import gymnasium
    >>> from raycompat import tune
    >>> def make(config):
    ...     return gymnasium.make("CartPole-v1", max_episode_steps=config["steps"])
    >>> tune.register_env("short pole", make)
    """
    if not callable(env_creator):
        raise TypeError(
            f"env_creator={env_creator!r}: expected a function of the environment's config."
        )
    _environments[name] = env_creator


class RegisteredEnv(str):
    """The name of an environment, with the function that makes it.

    Trials run in processes in which the program has not called `register_env`; the name brings the
    function along.

    Parameters
    ----------
    name : str
    create : callable
    """

    create: Callable[..., object]

    def __new__(cls, name: str, create: Callable[..., object]) -> RegisteredEnv:
        found = super().__new__(cls, name)
        found.create = create
        return found

    def __reduce__(self) -> tuple[object, ...]:
        """Pickle the function, too."""
        return RegisteredEnv, (str(self), self.create)


def with_registered_names(config: Config) -> Config:
    """Return a config whose ``env``, or each of a grid, networks and input bring functions along."""
    env = config.get("env")
    if inputs := {key: config[key] for key in _INPUTS if isinstance(config.get(key), str)}:
        readers = upper("_old.rllib.input_readers")
        made = {key: readers.registered_input(name) or name for key, name in inputs.items()}
        config = {**config, **made}
    named = {key: config[key] for key in _WITH_MODELS if config.get(key)}
    if named:
        config = {**config, **upper("rllib.models.catalog").bringing_models(named)}
    if isinstance(env, dict) and isinstance(env.get("grid_search"), list):
        return {**config, "env": {"grid_search": [_bringing(each) for each in env["grid_search"]]}}
    return config if env is None else {**config, "env": _bringing(env)}


#: The options that may have the name of a reader of recorded steps.
_INPUTS = ("input", "input_")

#: The options that may have networks: of the algorithm, and of policies.
_WITH_MODELS = ("model", "multiagent", "policies")


def _bringing(env: Any) -> Any:
    create = get_env_creator(env) if isinstance(env, str) else None
    return env if create is None else RegisteredEnv(env, create)


def get_env_creator(name: str) -> Callable[..., Any] | None:
    """Return what makes the environment of a name; None when there is none."""
    return name.create if isinstance(name, RegisteredEnv) else _environments.get(name)


#: Names of older Rays.
__getattr__ = names_of(__name__)
