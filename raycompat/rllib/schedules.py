"""Schedules: values that change with the number of steps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np

#: A constant; or values at numbers of steps, between which they change linearly.
Schedule: TypeAlias = float | Sequence[tuple[int, float]]


def scheduled(value: Schedule, num_steps: int) -> float:
    """Return a value after some steps.

    Parameters
    ----------
    value : float, or sequence of (int, float)
        A constant; or values at numbers of steps, between which they change linearly.
    num_steps : int, at least 0

    Returns
    -------
    float

    Examples
    --------
    >>> scheduled([(0, 1.0), (100, 0.0)], 25)
    0.75
    """
    if not isinstance(value, Sequence):
        return float(value)
    steps, values = zip(*value, strict=True)
    return float(np.interp(num_steps, steps, values))


def check_schedule(name: str, value: object) -> None:
    """Raise for values that `scheduled` cannot use.

    Raises
    ------
    ValueError
        Describes the invalid option.
    """
    if isinstance(value, int | float) and not isinstance(value, bool):
        return
    points = value if isinstance(value, Sequence) and not isinstance(value, str) else ()
    if points and all(isinstance(p, Sequence) and len(p) == 2 for p in points):
        steps = [point[0] for point in points]
        if steps[0] == 0 and steps == sorted(set(steps)):
            return
    raise ValueError(
        f"{name}={value!r}: expected a number, or points such as [(0, 1e-3), (100000, 1e-4)] whose "
        "numbers of steps begin with 0 and grow."
    )


def adapted_kl_coeff(coefficient: float, divergence: float, target: float) -> float:
    """Return the next coefficient of the divergence: larger where the policy moved too far.

    Notes
    -----
    arXiv 1707.06347, section 4, with Ray's bounds: 2 and 0.5 times the target.
    """
    if divergence > 2.0 * target:
        return coefficient * 1.5
    return coefficient * 0.5 if divergence < 0.5 * target else coefficient
