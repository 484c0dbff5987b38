"""What a network of a class sees of earlier steps: its ``view_requirements``.

The observations before a step are the states of a network with a memory, so they travel as states do.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from raycompat.exceptions import UnsupportedRayFeatureError


class View(NamedTuple):
    """Observations that a network sees under one name.

    Parameters
    ----------
    shifts : list of int
        Their steps: 0 is the newest one, -1 the one before it.
    is_single : bool
        Whether it is one observation, without an axis of steps.
    """

    shifts: list[int]
    is_single: bool


#: The requirement of the newest observation.
_NEWEST = View([0], is_single=True)


class Views(NamedTuple):
    """The views of a network.

    Parameters
    ----------
    observations : dict of View
        By name.
    rewards : list of str
        The names under which it sees the last reward.
    """

    observations: dict[str, View]
    rewards: list[str]

    @property
    def num_before(self) -> int:
        """How many observations before the newest one are kept: one at least, as no state is empty."""
        shifts = [shift for view in self.observations.values() for shift in view.shifts]
        return max(1, *(-shift for shift in shifts)) if shifts else 1

    def initial_state(self, shape: tuple[int, ...]) -> NDArray[np.float32]:
        """Return the observations before an episode: zeros."""
        return np.zeros((self.num_before, *shape), np.float32)

    def seen(
        self, inputs: Any, shape: tuple[int, ...], before: Any, ops: Any
    ) -> tuple[dict[str, Any], Any]:
        """Return what a network sees by name, a row for each step, and the state after sequences.

        Parameters
        ----------
        inputs : tensor, shape (sequences, steps, numbers)
            Observations, states, and the last reward where it is seen.
        shape : tuple of int
            Of an observation.
        before : tensor, shape (sequences, num_before, ...)
            The state before.
        ops : object
            See `ModelSource.run`.
        """
        num, length = ops.shape(inputs)[:2]
        own = ops.reshape(inputs[..., : math.prod(shape)], (num, length, *shape))
        whole = ops.concatenate([before, own], 1)
        found = {}
        for name, view in self.observations.items():
            begins = [self.num_before + shift for shift in view.shifts]
            steps = [whole[:, begin : begin + length, None] for begin in begins]
            axes = () if view.is_single else (len(steps),)
            found[name] = ops.reshape(ops.concatenate(steps, 2), (-1, *axes, *shape))
        for name in self.rewards:
            found[name] = ops.reshape(inputs[..., -1], (-1,))
        return found, whole[:, length:]


def _view_of(shift: Any) -> View | None:
    """Return the steps that a requirement names; None unless they are at most the newest one."""
    if isinstance(shift, str):
        parts = shift.split(":")
        are_numbers = all(each.removeprefix("-").isdecimal() for each in parts)
        if len(parts) not in (2, 3) or not are_numbers:
            return None
        first, last, *step = map(int, parts)
        shifts = list(range(first, last + 1, *step)) if step != [0] else []
    elif isinstance(shift, list | tuple | np.ndarray):
        shifts = [int(each) for each in shift]
    else:
        shifts = [int(shift)]
    if not shifts or max(shifts) > 0:
        return None
    return View(shifts, is_single=isinstance(shift, int | np.integer))


def views_of(requirements: Mapping[str, Any]) -> Views | None:
    """Return the views that a network asks for; None where it sees the newest observation alone.

    Raises
    ------
    UnsupportedRayFeatureError
        When it asks for something else than observations up to the newest one, or the last reward.
    """
    views = Views({}, [])
    for name, each in requirements.items():
        column, view = each.data_col or name, _view_of(each.shift)
        if column == "obs" and view is not None:
            if (name, view) != ("obs", _NEWEST):  # a network sees it in any case, in its own form
                views.observations[name] = view
        elif column == "rewards" and view == View([-1], is_single=True):
            views.rewards.append(name)
        else:
            raise UnsupportedRayFeatureError(
                f"view_requirements[{name!r}] of {column!r} with shift={each.shift!r}",
                "Networks see observations up to the newest one, and the last reward",
                "use shift='-3:0' of obs or shift=-1 of rewards, or a RecurrentNetwork",
            )
    return views if views.observations or views.rewards else None
