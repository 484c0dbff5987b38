"""What callbacks of libraries that boost trees report, and when there is a checkpoint."""

from __future__ import annotations

import os
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Self

from raycompat.train._checkpoint import Checkpoint

if TYPE_CHECKING:
    from raycompat.train._types import Config, Metrics

MetricNames = str | list[str] | dict[str, str] | None


def chosen(metrics: MetricNames, found: Metrics) -> Metrics:
    """Return the metrics that are reported: names of the library, or new names for them; none is all.

    Raises
    ------
    KeyError
        When the library has none of that name.
    """
    if not metrics:
        return dict(found)
    listed = [metrics] if isinstance(metrics, str) else metrics
    names = listed if isinstance(listed, dict) else {name: name for name in listed}
    missing = [name for name in names.values() if name not in found]
    if missing:
        raise KeyError(f"The metrics {missing} are not among those reported: {sorted(found)}.")
    return {new: found[name] for new, name in names.items()}


def report_by(
    report: Callable[..., None], metrics: Metrics, write: Callable[[str], object] | None
) -> None:
    """Call `report` with metrics, and with a checkpoint if `write` makes one in a folder."""
    if write is None:
        report(metrics)
        return
    with tempfile.TemporaryDirectory(prefix="checkpoint-") as folder:
        write(folder)
        report(metrics, checkpoint=Checkpoint.from_directory(folder))


class MakesCheckpoints(ABC):
    """A training function that makes checkpoints as often as a configuration says."""

    @abstractmethod
    def __call__(self, config: Config, /) -> Any:
        """Train."""

    @abstractmethod
    def with_checkpoints(self, config: object) -> Self:
        """Return the function for a configuration; where that says nothing, all stays as it is.

        Parameters
        ----------
        config : CheckpointConfig or None
            Its `checkpoint_frequency` and `checkpoint_at_end` count.
        """


class RoundReports:
    """Reports after each round of a library that boosts trees, with the model as a checkpoint.

    Parameters
    ----------
    metrics : str, list of str or dict, optional
        Which, such as ``"eval-logloss"``; by default all.
    filename : str, optional
        The model's file in the checkpoint; by default `CHECKPOINT_NAME`.
    frequency : int, default 0
        At each which round there is a checkpoint; 0 for none.
    checkpoint_at_end : bool, default True
        Whether there is one at the end too.
    results_postprocessing_fn : callable, optional
        Changes what is reported.
    """

    CHECKPOINT_NAME: str

    def __init__(
        self,
        metrics: MetricNames = None,
        filename: str | None = None,
        frequency: int = 0,
        checkpoint_at_end: bool = True,
        results_postprocessing_fn: Callable[[Metrics], Metrics] | None = None,
    ) -> None:
        super().__init__()
        self._metrics, self._filename = metrics, filename or self.CHECKPOINT_NAME
        self._frequency, self._at_end = frequency, checkpoint_at_end
        self._changed = results_postprocessing_fn
        self._last: Metrics = {}

    @classmethod
    def get_model(cls, checkpoint: Checkpoint, filename: str | None = None) -> Any:
        """Return the model of a checkpoint that the callback made.

        Parameters
        ----------
        checkpoint : Checkpoint
            For example ``Result.checkpoint``.
        filename : str, optional
            As it was given to the callback; by default `CHECKPOINT_NAME`.
        """
        with checkpoint.as_directory() as folder:
            return cls._load(os.path.join(folder, filename or cls.CHECKPOINT_NAME))

    @staticmethod
    def _load(path: str) -> Any:
        """Return the library's model from its file."""
        raise NotImplementedError

    def _send(self, metrics: Metrics, write: Callable[[str], object] | None) -> None:
        """Report metrics; with a checkpoint that `write` makes in a folder."""
        raise NotImplementedError

    def _report(self, model: object, number: int, found: Metrics, is_last: bool) -> bool:
        """Report the evaluations of a round, counted from 1; return whether with a checkpoint."""
        self._last = chosen(self._metrics, found)
        if self._changed is not None:
            self._last = self._changed(self._last)
        is_due = self._frequency > 0 and number % self._frequency == 0
        is_saved = is_due or (is_last and self._at_end)
        self._send(self._last, self._writer(model) if is_saved else None)
        return is_saved

    def _writer(self, model: Any) -> Callable[[str], object]:
        return lambda folder: model.save_model(os.path.join(folder, self._filename))
