"""Ray's environment variables that a node, or a driver without a node on its host, reads."""

from __future__ import annotations

import math
import os
from typing import Final

#: The share of a disk that may be in use when a value is written to it. A disk needs some room for
#: everything else; Ray's default is 0.95.
_DISK_SHARE: Final = ("RAY_local_fs_capacity_threshold", 0.9, 1.0)


def number(name: str, default: float, most: float) -> float:
    """Return the number in a variable, or its default.

    Raises
    ------
    ValueError
        When the value is not a number from 0 to `most`.
    """
    value = os.environ.get(name)
    try:
        found = default if value is None else float(value)
    except ValueError:
        found = math.nan
    if not 0 <= found <= most:
        raise ValueError(f"{name}={value!r}: expected a number from 0 to {most:g}.")
    return found


def disk_share() -> float:
    """Return the share of a disk that may be in use when a value is written to it.

    Raises
    ------
    ValueError
        When the variable is not a number from 0 to 1.
    """
    return number(*_DISK_SHARE)
