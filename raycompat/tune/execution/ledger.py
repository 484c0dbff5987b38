"""Which resources the running trials have, and whether there is room for another."""

from __future__ import annotations

import time
from collections.abc import Callable

from raycompat.tune.execution.placement_groups import PlacementGroupFactory

#: Seconds for which the cluster's size is taken as known.
REFRESH_S = 1.0

#: Sums of fractions such as 0.1 differ from whole numbers by less than this.
ROUNDING = 1e-6


class Ledger:
    """Keeps account of what trials use.

    Parameters
    ----------
    cluster_resources : callable
        Returns the resources of all nodes together.
    """

    def __init__(self, cluster_resources: Callable[[], dict[str, float]]) -> None:
        self._cluster_resources = cluster_resources
        self._total: dict[str, float] = {}
        self._read_at = float("-inf")
        self._used: dict[str, float] = {}

    @property
    def total(self) -> dict[str, float]:
        """The cluster's resources; nodes that come are seen within a second."""
        if time.monotonic() - self._read_at > REFRESH_S:
            self._total = self._cluster_resources()
            self._read_at = time.monotonic()
        return self._total

    def get_num_cpus(self) -> float:
        """Return the CPUs of the cluster."""
        return self.total.get("CPU", 0.0)

    def get_num_gpus(self) -> float:
        """Return the GPUs of the cluster."""
        return self.total.get("GPU", 0.0)

    @property
    def cpu(self) -> float:
        """The CPUs of the cluster: the name of Ray up to 1.8."""
        return self.get_num_cpus()

    @property
    def gpu(self) -> float:
        """The GPUs of the cluster: the name of Ray up to 1.8."""
        return self.get_num_gpus()

    def fits(self, request: PlacementGroupFactory) -> bool:
        """Return whether the request fits into the unused resources."""
        return self._fits(request, self._used)

    def can_ever_fit(self, request: PlacementGroupFactory) -> bool:
        """Return whether the request fits into the empty cluster."""
        return self._fits(request, {})

    def _fits(self, request: PlacementGroupFactory, used: dict[str, float]) -> bool:
        total = self.total
        return all(
            used.get(name, 0) + amount <= total.get(name, 0) + ROUNDING
            for name, amount in request.required_resources.items()
        )

    def take(self, request: PlacementGroupFactory) -> None:
        for name, amount in request.required_resources.items():
            self._used[name] = self._used.get(name, 0) + amount

    def give_back(self, request: PlacementGroupFactory) -> None:
        for name, amount in request.required_resources.items():
            self._used[name] = max(self._used.get(name, 0) - amount, 0)

    def __str__(self) -> str:
        total = self.total
        shown = [
            f"{self._used.get(name, 0):g}/{total.get(name, 0):g} {name}s"
            for name in ("CPU", "GPU")
            if total.get(name)
        ]
        return "Logical resource usage: " + (", ".join(shown) or "none")
