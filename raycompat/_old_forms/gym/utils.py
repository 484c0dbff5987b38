"""``gym.utils``: that of gymnasium, with gym's random numbers."""

from __future__ import annotations

from typing import Any

import gymnasium.utils

from raycompat._old_forms.gym import seeding

#: Modules below this one are found by `raycompat._surface.gym_finder`.
__path__: list[str] = []


def __getattr__(name: str) -> Any:
    return getattr(gymnasium.utils, name)


__all__ = ["seeding"]
