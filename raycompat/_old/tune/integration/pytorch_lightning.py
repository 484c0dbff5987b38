"""Callbacks of Lightning that report to Tune."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from raycompat._old.tune.integration.reporting import report
from raycompat._old_forms.packages import require
from raycompat.train._round_reports import MetricNames, chosen


def _lightning() -> Any:
    """Return Lightning, under the name that is installed."""
    try:
        return require("lightning.pytorch", "ray.tune.integration.pytorch_lightning")
    except ImportError:
        return require("pytorch_lightning", "ray.tune.integration.pytorch_lightning")


_EVENTS = ("validation_end", "train_epoch_end", "train_batch_end", "fit_end", "train_end")


class TuneReportCheckpointCallback(_lightning().Callback):  # type: ignore[misc]
    """Report Lightning's metrics at its events, with a checkpoint.

    Parameters
    ----------
    metrics : str, list of str or dict, optional
        Which of ``trainer.callback_metrics``; by default all.
    filename : str, default "checkpoint"
        The file in the checkpoint.
    save_checkpoints : bool, default True
        Whether there are checkpoints.
    on : str or list of str, default "validation_end"
        Events at which it reports.

    Raises
    ------
    ValueError
        When Lightning has no such event.
    """

    def __init__(
        self,
        metrics: MetricNames = None,
        filename: str = "checkpoint",
        save_checkpoints: bool = True,
        on: str | list[str] = "validation_end",
    ) -> None:
        super().__init__()
        listed = [on] if isinstance(on, str) else list(on)
        self._on = [each.removeprefix("on_") for each in listed]
        unknown = [each for each in self._on if each not in _EVENTS]
        if unknown:
            raise ValueError(f"on={on!r}: expected events out of {_EVENTS}.")
        self._metrics, self._filename, self._saves = metrics, filename, save_checkpoints

    def _handle(self, trainer: Any, event: str) -> None:
        if event not in self._on or trainer.sanity_checking:
            return
        found = {name: value.item() for name, value in trainer.callback_metrics.items()}
        report(chosen(self._metrics, found), self._writer(trainer) if self._saves else None)

    def _writer(self, trainer: Any) -> Callable[[str], Any]:
        return lambda folder: trainer.save_checkpoint(os.path.join(folder, self._filename))


def _handler(event: str) -> Callable[..., None]:
    def handle(self: Any, trainer: Any, *args: Any, **kwargs: Any) -> None:
        self._handle(trainer, event)

    return handle


for _event in _EVENTS:
    setattr(TuneReportCheckpointCallback, f"on_{_event}", _handler(_event))


class TuneReportCallback(TuneReportCheckpointCallback):
    """Report Lightning's metrics at its events.

    Parameters
    ----------
    metrics : str, list of str or dict, optional
        Which of ``trainer.callback_metrics``; by default all.
    on : str or list of str, default "validation_end"
        Events at which it reports.
    """

    def __init__(self, metrics: MetricNames = None, on: str | list[str] = "validation_end") -> None:
        super().__init__(metrics, save_checkpoints=False, on=on)


#: The base class of 2.0 to 2.10.
TuneCallback = TuneReportCheckpointCallback
