"""Names of ``ray.util.sgd.utils``: keys of metrics, and their averages over batches."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from raycompat._old.rllib.utils import override

BATCH_COUNT = "batch_count"
NUM_SAMPLES = "num_samples"
#: The key of a config with the size of a worker's batches.
BATCH_SIZE = "*batch_size"


class AverageMeter:
    """The average of a metric, weighted by the numbers of samples.

    Attributes
    ----------
    val, avg, sum, count : float
        The newest value, the average, the weighted sum, and the number of samples.
    """

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Forget all values."""
        self.val: float
        self.avg: float
        self.sum: float
        self.count: float
        self.val = self.avg = self.sum = self.count = 0

    def update(self, val: float, n: float = 1) -> None:
        """Add the metric of a batch of `n` samples."""
        self.val = val
        self.sum += val * n
        self.count += n
        self.avg = self.sum / self.count


class AverageMeterCollection:
    """The averages of several metrics."""

    def __init__(self) -> None:
        self._batch_count = 0
        self.n: float = 0
        self._meters: dict[str, AverageMeter] = {}

    def update(self, metrics: Mapping[str, float], n: float = 1) -> None:
        """Add the metrics of a batch of `n` samples."""
        self._batch_count += 1
        self.n += n
        for name, value in metrics.items():
            self._meters.setdefault(name, AverageMeter()).update(value, n=n)

    def summary(self) -> dict[str, Any]:
        """Return the averages, and under ``last_NAME`` the newest values."""
        found: dict[str, Any] = {BATCH_COUNT: self._batch_count, NUM_SAMPLES: self.n}
        for name, meter in self._meters.items():
            found[str(name)] = meter.avg
            found[f"last_{name}"] = meter.val
        return found


__all__ = [
    "BATCH_COUNT",
    "BATCH_SIZE",
    "NUM_SAMPLES",
    "AverageMeter",
    "AverageMeterCollection",
    "override",
]
