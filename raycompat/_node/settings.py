"""Ray's environment variables that a node reads at its start."""

from __future__ import annotations

import math
import os


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
