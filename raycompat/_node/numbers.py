"""The numbers of a node's accelerators beside GPUs: which devices each of its calls has.

The scheduler counts amounts of them, as of any resource. A call's are free there when they are free
here (`Freed`), so a call that comes here can have as many as it requested.
"""

from __future__ import annotations

import glob
import math
import os
from collections.abc import Iterable, Mapping

from raycompat._host import device_files
from raycompat._protocol import accelerator_kinds as kinds


def detected() -> dict[str, int]:
    """Return how many accelerators of each kind this machine has device files of.

    The variable of a kind restricts the node to some of them.
    """
    found = {}
    for resource, kind in kinds.KINDS.items():
        paths = [path for each in kind.files for path in glob.glob(f"{device_files.FOLDER}/{each}")]
        # Drivers of other devices make a folder /dev/accel.
        number = sum(not os.path.isdir(path) for path in paths)
        listed = _listed(kind.variable)
        if number:
            found[resource] = number if listed is None else min(number, len(listed))
    return found


def _listed(variable: str) -> list[str] | None:
    value = os.environ.get(variable)
    return None if value is None else [each for each in value.split(",") if each]


#: What a call has of each accelerator, by kind and number.
Taken = dict[str, dict[int, float]]


class Numbers:
    """Which accelerators of a node are free."""

    def __init__(self, totals: Mapping[str, float]) -> None:
        #: What is held of each accelerator, by kind; the position in the list is the number.
        self._held = {
            resource: [0.0] * math.ceil(totals[resource]) for resource in kinds.in_(totals)
        }

    def take(self, resources: Mapping[str, float]) -> Taken:
        """Hold the accelerators of a call until `give`."""
        return {
            resource: self._choose(resource, resources[resource])
            for resource in sorted(kinds.in_(resources) & self._held.keys())
        }

    def _choose(self, resource: str, amount: float) -> dict[int, float]:
        """Hold whole ones that are free, or a part of one that is shared already.

        Parts that are free on several can add up to what a call wants and no single one has. Then it
        shares one that has less.
        """
        held = self._held[resource]
        each = min(amount, 1.0)
        by_room = sorted(range(len(held)), key=held.__getitem__)
        with_room = [number for number in by_room if held[number] + each <= 1.0 + 1e-9]
        if amount < 1:
            with_room.sort(key=held.__getitem__, reverse=True)
        without = [number for number in by_room if number not in with_room]
        chosen = sorted([*with_room, *without][: math.ceil(amount)])
        for number in chosen:
            held[number] += each
        return dict.fromkeys(chosen, each)

    def give(self, taken: Taken) -> None:
        """Free the accelerators of a call."""
        for resource, parts in taken.items():
            for number, part in parts.items():
                self._held[resource][number] -= part


def ids(taken: Taken) -> dict[str, list[str]]:
    """Return the ids of accelerators by kind: the node's own variable may name them."""
    return {resource: _names(resource, numbers) for resource, numbers in taken.items()}


def _names(resource: str, numbers: Iterable[int]) -> list[str]:
    listed = _listed(kinds.KINDS[resource].variable) or []
    return [listed[each] if each < len(listed) else str(each) for each in numbers]
