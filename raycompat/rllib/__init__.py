"""Reinforcement learning: PPO, DQN, A3C, A2C and ES on gymnasium, in the forms of 2017 and of today.

`algorithms` has the algorithms and their configs; `ppo`, `dqn`, `a3c` and `es` the agents of Ray 0.2
and 0.3; `agents` the trainers of the years between. All are imported when they are first used.
"""

import importlib
from typing import Any

from raycompat._surface.modules import names_of

_of_older_rays = names_of(__name__)

_MODULES = (
    "a3c",
    "agent",
    "agents",
    "algorithms",
    "callbacks",
    "dqn",
    "env",
    "es",
    "models",
    "ppo",
    "utils",
)


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return importlib.import_module(f"{__name__}.{name}")
    return _of_older_rays(name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_MODULES})


__all__ = [*_MODULES]  # noqa: PLE0604
