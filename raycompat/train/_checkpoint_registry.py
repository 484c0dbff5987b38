"""The checkpoints of a run or a trial: which are kept, which is the latest, which are the best.

Pure bookkeeping: no file is touched here.
"""

from __future__ import annotations

import logging
import math
import numbers
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from raycompat.train._checkpoint import Checkpoint

if TYPE_CHECKING:
    from raycompat.train._types import Metrics

_log = logging.getLogger(__name__)


def lookup(metric: str, metrics: Mapping[str, object]) -> Any:
    """Return a metric by its name, which for one in nested dicts is ``outer/inner``; None: missing."""
    found: object = metrics
    if metric in metrics:
        return metrics[metric]
    for part in metric.split("/"):
        if not isinstance(found, Mapping) or part not in found:
            return None
        found = found[part]
    return found


class Retention(Protocol):
    """Which checkpoints are kept: a `CheckpointConfig` of Train, Tune or the older one."""

    num_to_keep: int | None
    checkpoint_score_attribute: str | None
    checkpoint_score_order: str | None


@dataclass(eq=False)
class Registered:
    """A checkpoint with the metrics that were reported with it.

    Attributes
    ----------
    checkpoint : Checkpoint
        The checkpoint.
    metrics : dict
        Its metrics.
    index : int
        Number of the report with the checkpoint.
    status : str
        Its status, as in `ReportedCheckpointStatus`.
    """

    checkpoint: Checkpoint
    metrics: Metrics
    index: int
    status: str = "COMMITTED"


class CheckpointRegistry:
    """Rank checkpoints, and choose those to delete.

    Parameters
    ----------
    config : Retention
        How many are kept, and by which score.

    Attributes
    ----------
    ranked : list of Registered
        The kept checkpoints, worst first; without a score, in the order of reports.
    latest : Registered or None
        The checkpoint that was registered last.
    """

    def __init__(self, config: Retention) -> None:
        self._config = config
        self.ranked: list[Registered] = []
        self.latest: Registered | None = None

    def register(self, entry: Registered, pinned: tuple[Registered, ...] = ()) -> list[Registered]:
        """Add a checkpoint.

        Parameters
        ----------
        entry : Registered
            The checkpoint to add.
        pinned : tuple of Registered
            Checkpoints that must be kept for now, whatever their scores.

        Returns
        -------
        list of Registered
            Checkpoints to delete, because they are not kept any more. Never the latest.
        """
        self.latest = entry
        self.ranked.append(entry)
        return self.rank(pinned)

    def rank(self, pinned: tuple[Registered, ...] = ()) -> list[Registered]:
        """Sort again, after metrics have changed; see `register`."""
        if self._config.checkpoint_score_attribute is not None:
            self.ranked.sort(key=lambda entry: (self._score(entry.metrics), entry.index))
        number = self._config.num_to_keep
        if number is None:
            return []
        doomed = [
            entry
            for entry in self.ranked[:-number]
            if entry is not self.latest and entry not in pinned
        ]
        self.ranked = [entry for entry in self.ranked if entry not in doomed]
        return doomed

    @property
    def best(self) -> list[Registered]:
        """The best checkpoints, best last, up to the number that the run keeps."""
        return self.ranked[-(self._config.num_to_keep or 0) :]

    def _score(self, metrics: Mapping[str, object]) -> tuple[bool, float]:
        """Return the sort key of a checkpoint; one without a score, or with NaN, comes first."""
        name = str(self._config.checkpoint_score_attribute)
        value = lookup(name, metrics)
        if value is None:
            _log.error(
                "A checkpoint has no metric %r to be compared by (checkpoint_score_attribute); it "
                "counts as the worst. Its metrics: %s",
                name,
                sorted(metrics),
            )
            return False, -math.inf
        if not isinstance(value, numbers.Number) and not hasattr(value, "__float__"):
            raise ValueError(
                f"checkpoint_score_attribute={name!r}: the metric is {value!r}, expected a number."
            )
        score = float(value)
        if math.isnan(score):
            return False, -math.inf
        return True, score if self._config.checkpoint_score_order == "max" else -score
