"""The numbers of a node's accelerators beside GPUs: which devices each of its calls has.

The scheduler counts amounts of them, as of any resource, so a call that comes here can have as many as
it requested.
"""

from __future__ import annotations

import glob
import math
import os
from collections.abc import Mapping

from raycompat._protocol import accelerator_kinds as kinds

_DEVICES = "/dev"


def detected() -> dict[str, int]:
    """Return how many accelerators of each kind this machine has device files of.

    The variable of a kind restricts the node to some of them.
    """
    found = {}
    for resource, kind in kinds.KINDS.items():
        paths = [path for each in kind.files for path in glob.glob(f"{_DEVICES}/{each}")]
        # Drivers of other devices make a folder /dev/accel.
        number = sum(not os.path.isdir(path) for path in paths)
        listed = _listed(kind.variable)
        if number:
            found[resource] = number if listed is None else min(number, len(listed))
    return found


def _listed(variable: str) -> list[str] | None:
    value = os.environ.get(variable)
    return None if value is None else [each for each in value.split(",") if each]


class Numbers:
    """Which accelerators each call of a node has. A call keeps them until `give`."""

    def __init__(self, totals: Mapping[str, float]) -> None:
        #: What is held of each accelerator, by kind; the position in the list is the number.
        self._held = {
            resource: [0.0] * math.ceil(totals[resource]) for resource in kinds.in_(totals)
        }
        self._of_calls: dict[str, dict[str, list[int]]] = {}
        self._amounts: dict[str, Mapping[str, float]] = {}

    def take(self, key: str, resources: Mapping[str, float]) -> dict[str, list[str]]:
        """Return the ids of the accelerators of a call, by kind: the same for each of its tries."""
        if key not in self._of_calls and kinds.in_(resources):
            self._amounts[key] = resources
            self._of_calls[key] = {
                resource: self._choose(resource, resources[resource])
                for resource in sorted(kinds.in_(resources) & self._held.keys())
            }
        return {
            resource: _names(resource, numbers)
            for resource, numbers in self._of_calls.get(key, {}).items()
        }

    def _choose(self, resource: str, amount: float) -> list[int]:
        """Hold so much: whole ones that are free, or a part of one that is shared already."""
        held = self._held[resource]
        each = min(amount, 1.0)
        with_room = [number for number, part in enumerate(held) if part + each <= 1.0 + 1e-9]
        # Parts of several can add up to what a call wants, without room in any.
        order = sorted(with_room, key=held.__getitem__, reverse=amount < 1) or sorted(
            range(len(held)), key=held.__getitem__
        )
        chosen = sorted(order[: math.ceil(amount)])
        for number in chosen:
            held[number] += each
        return chosen

    def give(self, key: str) -> None:
        """Free the accelerators of a call, if it has any."""
        amounts = self._amounts.pop(key, {})
        for resource, numbers in self._of_calls.pop(key, {}).items():
            for number in numbers:
                self._held[resource][number] -= min(amounts[resource], 1.0)


def _names(resource: str, numbers: list[int]) -> list[str]:
    """Return the ids for the variable: the node's own variable may name its accelerators."""
    listed = _listed(kinds.KINDS[resource].variable) or []
    return [listed[each] if each < len(listed) else str(each) for each in numbers]
