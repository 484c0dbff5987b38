"""`make`, `register` and `spec` of gym: its environments are registered with gymnasium."""

from __future__ import annotations

import functools
import importlib
import logging
import re
from collections.abc import Callable
from typing import Any

import gymnasium
from gymnasium.envs.registration import find_highest_version, get_env_id, parse_env_id

from raycompat._old_forms.gym.adapters import OfItsTime, of_today
from raycompat._old_forms.packages import require

logger = logging.getLogger(__name__)


def with_environments(id: str) -> str:
    """Return the name of an environment, in the newest version where gymnasium has left out its own.

    Parameters
    ----------
    id : str
        Its name. Those of Atari are registered by their package, which this imports.

    Raises
    ------
    ImportError
        When the package of Atari's environments is missing; says how to install it.
    """
    try:
        gymnasium.spec(id)
    except gymnasium.error.DeprecatedEnv:
        namespace, name, _ = parse_env_id(id)
        # None where the only one has no version, which gymnasium offers in its place.
        version = find_highest_version(namespace, name)
        newest = get_env_id(namespace, name, version)
        _say(id, newest)
        return newest
    except gymnasium.error.UnregisteredEnv:
        if _ATARI.fullmatch(id):
            gymnasium.register_envs(require("ale_py", f"The environment {id!r}"))
    return id


#: The games of Atari's environments.
_GAMES = (
    "Adventure|AirRaid|Alien|Amidar|Assault|Asterix|Asteroids|Atlantis|BankHeist|BattleZone|"
    "BeamRider|Berzerk|Bowling|Boxing|Breakout|Carnival|Centipede|ChopperCommand|CrazyClimber|"
    "Defender|DemonAttack|DoubleDunk|ElevatorAction|Enduro|FishingDerby|Freeway|Frostbite|Gopher|"
    "Gravitar|Hero|IceHockey|Jamesbond|JourneyEscape|Kangaroo|Krull|KungFuMaster|"
    "MontezumaRevenge|MsPacman|NameThisGame|Phoenix|Pitfall|Pong|Pooyan|PrivateEye|Qbert|"
    "Riverraid|RoadRunner|Robotank|Seaquest|Skiing|Solaris|SpaceInvaders|StarGunner|Tennis|"
    "TimePilot|Tutankham|UpNDown|Venture|VideoPinball|WizardOfWor|YarsRevenge|Zaxxon"
)

#: Names of Atari's environments that no other package has.
_ATARI = re.compile(rf"ALE/.*|\w+?(NoFrameskip|Deterministic)-v\d|({_GAMES})(-ram)?-v\d")


@functools.cache
def _say(id: str, newest: str) -> None:
    logger.warning("gymnasium no longer has the environment %r: %r is used.", id, newest)


def make(id: Any, **kwargs: Any) -> Any:
    """Return an environment of gymnasium in the form of gym.

    Parameters
    ----------
    id : str
        Its name.
    **kwargs
        What it is made with.
    """
    return OfItsTime(gymnasium.make(with_environments(id), disable_env_checker=True, **kwargs))


def register(id: str, entry_point: Any = None, **kwargs: Any) -> None:
    """Register an environment of gym with gymnasium.

    Parameters
    ----------
    id : str
        Its name.
    entry_point : str or callable
        ``"module:Class"``, or what makes it.
    **kwargs
        As in gymnasium: ``max_episode_steps``, ``kwargs``.
    """

    def create(**options: Any) -> Any:
        return of_today(_found(entry_point)(**options))

    gymnasium.register(id, create, **kwargs)


def _found(entry_point: Any) -> Callable[..., Any]:
    if not isinstance(entry_point, str):
        return entry_point  # type: ignore[no-any-return]
    module, _, name = entry_point.partition(":")
    found: Callable[..., Any] = getattr(importlib.import_module(module), name)
    return found


def spec(id: str) -> Any:
    """Return what gymnasium knows of an environment."""
    return gymnasium.spec(with_environments(id))


EnvSpec = gymnasium.envs.registration.EnvSpec
registry = gymnasium.registry

__all__ = ["EnvSpec", "make", "register", "registry", "spec"]
