"""TensorBoard's event files in each trial's folder, by tensorboardX."""

from __future__ import annotations

import contextlib
import logging
import math
import os
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from raycompat._old_forms.packages import require
from raycompat._recordable import as_number, as_text, recordable
from raycompat._storage import is_full
from raycompat._surface.modules import names_of
from raycompat.tune import result as keys
from raycompat.tune.logger.logger import LocalFolders, LoggerCallback
from raycompat.tune.trainable.nested import flatten_dict

if TYPE_CHECKING:
    from raycompat.tune.experiment.trial import Trial
    from raycompat.tune.trainable.nested import Metrics

logger = logging.getLogger(__name__)

#: Seconds between two flushes of an event file.
FLUSH_S = 30.0

#: Fields that are not metrics.
NOT_SHOWN = (keys.PID, keys.TIMESTAMP, keys.TIME_TOTAL_S, keys.TRAINING_ITERATION, "config")


class TBXLoggerCallback(LoggerCallback):
    """Write each number of a result as ``ray/tune/<name>``, and the hyperparameters at the end.

    Raises
    ------
    ImportError
        When tensorboardX is not installed: ``pip install raycompat[tune]``.

    Notes
    -----
    Ray source: ``ray.tune.logger.TBXLoggerCallback``, 2.60.0. No known difference.
    """

    def __init__(self) -> None:
        require("tensorboardX", "TBXLoggerCallback")
        self._folders = LocalFolders()
        self._writers: dict[str, EventFile] = {}
        self._last: dict[str, Metrics] = {}

    def log_trial_result(self, iteration: int, trial: Trial, result: Metrics) -> None:
        writer = self._writers.get(trial.trial_id)
        if writer is None:
            folder = self._folders.of(trial)
            writer = self._writers[trial.trial_id] = EventFile(folder)
        steps = (result.get(keys.TIMESTEPS_TOTAL), result[keys.TRAINING_ITERATION])
        step = as_number(steps[0]) or as_number(steps[1]) or 0
        flat = flatten_dict(recordable({k: v for k, v in result.items() if k not in NOT_SHOWN}))
        # The table of hyperparameters finds a metric by the same name.
        numbers_only = {
            f"ray/tune/{as_text(name)}": number
            for name, value in flat.items()
            if (number := as_number(value)) is not None and not math.isnan(number)
        }
        writer.add_scalars(numbers_only, int(step))
        self._last[trial.trial_id] = numbers_only

    def log_trial_end(self, trial: Trial, failed: bool = False) -> None:
        writer = self._writers.pop(trial.trial_id, None)
        if writer is not None:
            self._write_parameters(writer, trial, self._last.pop(trial.trial_id, {}))
            writer.close()
            self._folders.upload(trial)

    def _write_parameters(self, writer: EventFile, trial: Trial, metrics: dict[str, float]) -> None:
        shown = {
            as_text(name): _parameter(value)
            for name, value in flatten_dict(recordable(trial.evaluated_params)).items()
            if value is not None
        }
        if shown:
            summaries = require("tensorboardX", "TBXLoggerCallback").summary.hparams(
                hparam_dict=shown, metric_dict=metrics
            )
            for summary in summaries:
                writer.add(summary)

    def on_experiment_end(self, trials: list[Trial], **info: object) -> None:
        for trial in trials:
            self.log_trial_end(trial)

    def __getstate__(self) -> dict[str, object]:
        return {**self.__dict__, "_writers": {}}


class EventFile:
    """An event file that is written in the calling thread.

    The writer of tensorboardX has a thread, which ends when the disk is full; then its callers wait
    without end. Here, events that do not fit are left out, with one warning.

    Parameters
    ----------
    folder : str
        Its folder.
    """

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._summary = require("tensorboardX.summary", "TBXLoggerCallback")
        self._event_cls = require("tensorboardX.proto.event_pb2", "TBXLoggerCallback").Event
        self._next_flush = 0.0
        self._writer: Any = None
        module = require("tensorboardX.event_file_writer", "TBXLoggerCallback")
        with self._dropped_when_full():
            self._writer = module.EventsWriter(os.path.join(folder, "events"))

    def add_scalars(self, values: dict[str, float], step: int) -> None:
        """Write numbers by name, all of one step."""
        for name, value in values.items():
            self.add(self._summary.scalar(name, value), step)
        if time.monotonic() >= self._next_flush:
            self._next_flush = time.monotonic() + FLUSH_S
            with self._dropped_when_full():
                if self._writer is not None:
                    self._writer.flush()

    def add(self, summary: Any, step: int | None = None) -> None:
        """Write a summary."""
        event = self._event_cls(wall_time=time.time(), summary=summary)
        if step is not None:
            event.step = step
        with self._dropped_when_full():
            if self._writer is not None:
                self._writer.write_event(event)

    def close(self) -> None:
        """Write the rest."""
        with self._dropped_when_full():
            if self._writer is not None:
                self._writer.close()
        self._writer = None

    @contextlib.contextmanager
    def _dropped_when_full(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            if not is_full(error):
                raise
            logger.warning("No further events for TensorBoard in %s: %s", self._folder, error)
            self._writer = None


def _parameter(value: object) -> bool | float | str:
    """Return a hyperparameter as one of the types that event files have."""
    number = None if isinstance(value, bool) else as_number(value)
    if number is not None:
        return number
    return value if isinstance(value, bool) else as_text(value)


#: Names of older Rays.
__getattr__ = names_of(__name__)
