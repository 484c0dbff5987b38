"""The operator of `Dataset.mix`: blocks of several data sets in turn, by weights."""

from __future__ import annotations

import enum
from collections.abc import Sequence

from raycompat.data.operators import Operator


class MixStoppingCondition(enum.Enum):
    """When a mixed data set ends.

    ``STOP_ON_SHORTEST``: with the first data set that has no more rows. ``STOP_ON_LONGEST_DROP``: with
    the last one; those that have no more are left out from then on.

    Examples
    --------
    >>> from raycompat.data import MixStoppingCondition
    >>> ones = ray.data.from_items([1, 1, 1], override_num_blocks=3)
    >>> twos = ray.data.from_items([2], override_num_blocks=1)
    >>> shortest = MixStoppingCondition.STOP_ON_SHORTEST
    >>> ones.mix(twos, stopping_condition=shortest).count() < 4
    True
    """

    STOP_ON_SHORTEST = "stop_on_shortest"
    STOP_ON_LONGEST_DROP = "stop_on_longest_drop"


class MixOperator(Operator):
    """Hands on the next block of the input that is most behind its share of the rows.

    It waits for that input rather than take another, so the order does not depend on time.
    """

    def __init__(self, weights: Sequence[float], condition: MixStoppingCondition) -> None:
        super().__init__("Mix", len(weights))
        self._shares = [weight / sum(weights) for weight in weights]
        self._stops_early = condition is MixStoppingCondition.STOP_ON_SHORTEST
        self._num_rows = [0] * len(weights)
        self._has_stopped = False

    def step(self) -> None:
        """Hand on blocks as long as the input that has its turn has one."""
        while not self._has_stopped:
            port = self._next_port()
            if port is None or self._has_ended(port):
                self._has_stopped = True
            elif not self.inputs[port]:
                return
            else:
                bundle = self.inputs[port].popleft()
                self._num_rows[port] += bundle.num_rows
                self.outputs.ready.append(bundle)
        for queue in self.inputs:
            queue.clear()

    def _has_ended(self, port: int) -> bool:
        return self.closed[port] and not self.inputs[port]

    def _next_port(self) -> int | None:
        """Return the input that lacks the most rows; of equal ones the heavier, then the first.

        None when all have ended. An input that has ended has its turn only if it ends all of them.
        """
        total = sum(self._num_rows)
        waiting = [
            port
            for port in range(len(self.inputs))
            if self._stops_early or not self._has_ended(port)
        ]
        return max(
            waiting,
            key=lambda port: (
                self._shares[port] * total - self._num_rows[port],
                self._shares[port],
                -port,
            ),
            default=None,
        )

    def admits(self, port: int) -> bool:
        """Whether a port has its turn, or has no block for when it has."""
        return not self._has_stopped and (not self.inputs[port] or port == self._next_port())

    @property
    def wants_no_more(self) -> bool:
        """Whether it has ended before its inputs."""
        return self._has_stopped

    @property
    def has_all_input(self) -> bool:
        """Whether it has ended."""
        return self._has_stopped
