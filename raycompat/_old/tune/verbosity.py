"""How much Tune shows, as ``ray.tune.utils.log`` set it for a process."""

from __future__ import annotations

from enum import Enum


class Verbosity(Enum):
    """The levels of the option `verbose`."""

    V0_MINIMAL = 0
    V1_EXPERIMENT = 1
    V2_TRIAL_NORM = 2
    V3_TRIAL_DETAILS = 3

    def __int__(self) -> int:
        return self.value


verbosity: int | Verbosity = Verbosity.V3_TRIAL_DETAILS


def set_verbosity(level: int | Verbosity) -> None:
    """Set the level that `has_verbosity` compares with."""
    global verbosity
    verbosity = Verbosity(level) if isinstance(level, int) else level


def has_verbosity(level: int | Verbosity) -> bool:
    """Return whether the level is at least this one."""
    return int(verbosity) >= int(level)
