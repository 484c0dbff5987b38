"""What a network of a class sees of earlier steps: its ``view_requirements``.

The observations and rewards before a step are states of a network with a memory, so they travel as
states do.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from raycompat.exceptions import UnsupportedRayFeatureError


class View(NamedTuple):
    """Observations or rewards that a network sees under one name.

    Parameters
    ----------
    shifts : list of int
        Their steps: 0 is the newest one, -1 the one before it. The last reward is that of step -1.
    is_single : bool
        Whether it is one value, without an axis of steps.
    """

    shifts: list[int]
    is_single: bool

    def of(self, whole: Any, length: int, shape: tuple[int, ...], ops: Any) -> Any:
        """Return the values of sequences, a row for each step.

        Parameters
        ----------
        whole : tensor, shape (sequences, steps, ...)
            It ends with the values of the newest `length` steps, and has those before them.
        length : int
        shape : tuple of int
            Of a value.
        ops : object
            See `ModelSource.run`.
        """
        begin = ops.shape(whole)[1] - length
        steps = [whole[:, begin + shift : begin + shift + length, None] for shift in self.shifts]
        axes = () if self.is_single else (len(steps),)
        return ops.reshape(ops.concatenate(steps, 2), (-1, *axes, *shape))


#: The requirement of the newest observation.
_NEWEST = View([0], is_single=True)


class Views(NamedTuple):
    """The views of a network.

    Parameters
    ----------
    observations, rewards : dict of View
        By name.
    """

    observations: dict[str, View]
    rewards: dict[str, View]

    def initial_states(self, shape: tuple[int, ...]) -> list[NDArray[np.float32]]:
        """Return the observations, and where they are seen the rewards, before an episode: zeros.

        Parameters
        ----------
        shape : tuple of int
            Of an observation. One is kept at least, as no state is empty.
        """
        states = [np.zeros((max(1, _furthest(self.observations)), *shape), np.float32)]
        num_rewards = _furthest(self.rewards) - 1  # the last one is an input
        return [*states, np.zeros(num_rewards, np.float32)] if num_rewards > 0 else states

    def seen(
        self, inputs: Any, shape: tuple[int, ...], before: list[Any], ops: Any
    ) -> tuple[dict[str, Any], list[Any]]:
        """Return what a network sees by name, a row for each step, and the states after sequences.

        Parameters
        ----------
        inputs : tensor, shape (sequences, steps, numbers)
            Observations, states, and the last reward where it is seen.
        shape : tuple of int
            Of an observation.
        before : list of tensors, shape (sequences, ...)
            The states before, see `initial_states`.
        ops : object
            See `ModelSource.run`.
        """
        num, length = ops.shape(inputs)[:2]
        own = ops.reshape(inputs[..., : math.prod(shape)], (num, length, *shape))
        whole = ops.concatenate([before[0], own], 1)
        found = {n: view.of(whole, length, shape, ops) for n, view in self.observations.items()}
        after = [whole[:, length:]]
        if self.rewards:
            rewards = ops.concatenate([*before[1:], inputs[..., -1]], 1)
            # The newest reward among the inputs is that of step -1.
            moved = {
                n: View([each + 1 for each in v.shifts], v.is_single)
                for n, v in self.rewards.items()
            }
            found |= {n: view.of(rewards, length, (), ops) for n, view in moved.items()}
            after += [rewards[:, length:]] * len(before[1:])
        return found, after


def _furthest(views: Mapping[str, View]) -> int:
    """Return how many steps before the newest one are seen."""
    return max((-shift for view in views.values() for shift in view.shifts), default=0)


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
        When it asks for something else than observations up to the newest one, or earlier rewards.
    """
    views = Views({}, {})
    for name, each in requirements.items():
        column, view = each.data_col or name, _view_of(each.shift)
        if column == "obs" and view is not None:
            if (name, view) != ("obs", _NEWEST):  # a network sees it in any case, in its own form
                views.observations[name] = view
        elif column == "rewards" and view is not None and max(view.shifts) < 0:
            views.rewards[name] = view
        else:
            raise UnsupportedRayFeatureError(
                f"view_requirements[{name!r}] of {column!r} with shift={each.shift!r}",
                "Networks see observations up to the newest one, and the rewards before it",
                "use shift='-3:0' of obs or shift='-3:-1' of rewards, or a RecurrentNetwork",
            )
    return views if views.observations or views.rewards else None
