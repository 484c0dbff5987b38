"""What a network of a class sees of earlier steps: its ``view_requirements``.

The observations before a step are the states of a network with a memory, so they travel as states do.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from raycompat.exceptions import UnsupportedRayFeatureError


class Views(NamedTuple):
    """The views of a network.

    Parameters
    ----------
    frames : dict of int
        By name, how many observations it sees: the newest one is the last.
    rewards : list of str
        The names under which it sees the last reward.
    """

    frames: dict[str, int]
    rewards: list[str]

    @property
    def most(self) -> int:
        """The most observations that are seen at once."""
        return max(self.frames.values(), default=1)

    def initial_states(self, shape: tuple[int, ...]) -> list[Any]:
        """Return the observations before an episode: zeros."""
        return [np.zeros((self.most - 1, *shape), np.float32)]

    def seen(
        self, inputs: Any, shape: tuple[int, ...], before: Any, ops: Any
    ) -> tuple[dict[str, Any], Any]:
        """Return what a network sees by name, a row for each step, and the states after sequences.

        Parameters
        ----------
        inputs : tensor, shape (sequences, steps, numbers)
            Observations, states and the last reward.
        shape : tuple of int
            Of an observation.
        before : tensor, shape (sequences, observations, ...)
            The states before.
        ops : object
            See `ModelSource.run`.
        """
        num, length = ops.shape(inputs)[:2]
        own = ops.reshape(inputs[..., : math.prod(shape)], (num, length, *shape))
        whole = ops.concatenate([before, own], 1)
        found = {}
        for name, count in self.frames.items():
            steps = ops.arange(length)[:, None] + ops.arange(count)[None, :] + self.most - count
            found[name] = ops.reshape(ops.take(whole, steps, 1), (-1, count, *shape))
        for name in self.rewards:
            found[name] = ops.reshape(inputs[..., -1], (-1,))
        return found, whole[:, length:]


def views_of(requirements: Mapping[str, Any]) -> Views | None:
    """Return the views that a network asks for; None where it sees the newest observation alone.

    Raises
    ------
    UnsupportedRayFeatureError
        When it asks for something else than observations up to the newest one, or the last reward.
    """
    views = Views({}, [])
    for name, each in requirements.items():
        column, first, _, last = each.data_col or name, *str(each.shift).partition(":")
        if column == "obs" and last in ("", "0") and int(first) <= 0 and (last or first == "0"):
            views.frames[name] = 1 - int(first)
        elif column == "rewards" and (first, last) == ("-1", ""):
            views.rewards.append(name)
        else:
            raise UnsupportedRayFeatureError(
                f"view_requirements[{name!r}] of {column!r} with shift={each.shift!r}",
                "Networks see observations up to the newest one, and the last reward",
                "use shift='-3:0' of obs or shift=-1 of rewards, or a RecurrentNetwork",
            )
    return views if views.most > 1 or views.rewards else None
