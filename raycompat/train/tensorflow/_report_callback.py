"""`ReportCheckpointCallback`: reports to Train while Keras trains."""

from __future__ import annotations

import inspect
import shutil
from collections.abc import Callable
from typing import TYPE_CHECKING

from raycompat.train import _functions
from raycompat.train._checkpoint import Checkpoint
from raycompat.train.tensorflow.tensorflow_checkpoint import TensorflowCheckpoint

if TYPE_CHECKING:
    import keras

    from raycompat.train._types import Metrics

_EVENTS = (
    *("epoch_begin", "epoch_end", "train_batch_begin", "train_batch_end", "test_batch_begin"),
    *("test_batch_end", "predict_batch_begin", "predict_batch_end", "train_begin", "train_end"),
    *("test_begin", "test_end", "predict_begin", "predict_end"),
)
#: Events whose methods take a number before the logs.
_NUMBERED = ("epoch_begin", "epoch_end")


def _as_events(name: str, events: str | list[str]) -> list[str]:
    listed = [events] if isinstance(events, str) else list(events)
    unknown = [event for event in listed if event not in _EVENTS]
    if unknown:
        raise ValueError(f"{name}={events!r}: Keras has no {unknown}, but {', '.join(_EVENTS)}.")
    return listed


class ReportCheckpointCallback:
    """Report metrics and checkpoints to Train, at events of Keras.

    Parameters
    ----------
    checkpoint_on : str or list of str, default "epoch_end"
        Events at which the model is saved, and reported with the metrics.
    report_metrics_on : str or list of str, default "epoch_end"
        Events at which metrics are reported.
    metrics : str, list of str or dict, optional
        Which metrics: names of Keras's logs, or new names for them. By default all.

    Raises
    ------
    ValueError
        When an event is not one of Keras's.
    KeyError
        When a metric is missing from the logs.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> from raycompat import train
    >>> from raycompat.train.tensorflow import TensorflowTrainer
    >>> def fit():
    ...     import keras
    ...     from raycompat.train.tensorflow.keras import ReportCheckpointCallback
    ...
    ...     model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1)])
    ...     model.compile("sgd", "mse")
    ...     x = np.ones((8, 1))
    ...     model.fit(x, 2 * x, verbose=0, callbacks=[ReportCheckpointCallback()])
    >>> result = TensorflowTrainer(
    ...     fit, run_config=train.RunConfig(storage_path=tempfile.mkdtemp())
    ... ).fit()
    >>> list(result.metrics), result.checkpoint is not None
    (['loss'], True)

    Notes
    -----
    Ray source: ``ray.train.tensorflow.keras.ReportCheckpointCallback``, 2.60.0. Differs: an object of
    it is a callback of the Keras that its process uses; importing the class does not import TensorFlow.
    """

    model: keras.Model

    def __new__(cls, *args: object, **kwargs: object) -> ReportCheckpointCallback:
        """Make an object of a class that is Keras's `Callback`, too."""
        import tensorflow as tf

        callback = tf.keras.callbacks.Callback
        if issubclass(cls, callback):
            return object.__new__(cls)
        both = type(cls.__name__, (cls, callback), {"__module__": cls.__module__})
        made: ReportCheckpointCallback = object.__new__(both)
        return made

    def __init__(
        self,
        checkpoint_on: str | list[str] = "epoch_end",
        report_metrics_on: str | list[str] = "epoch_end",
        metrics: str | list[str] | dict[str, str] | None = None,
    ) -> None:
        super().__init__()
        self._checkpoint_on = _as_events("checkpoint_on", checkpoint_on)
        self._report_metrics_on = _as_events("report_metrics_on", report_metrics_on)
        self._metrics = metrics

    def _get_reported_metrics(self, logs: Metrics) -> Metrics:
        wanted = self._metrics
        if wanted is None:
            return dict(logs)
        if isinstance(wanted, str):
            wanted = [wanted]
        names = wanted if isinstance(wanted, dict) else {name: name for name in wanted}
        missing = [name for name in names.values() if name not in logs]
        if missing:
            raise KeyError(
                f"The metrics {missing} are not in Keras's logs, which have {sorted(logs)}. Name them "
                "in model.compile(metrics=...), or pass other names as metrics=... of the callback."
            )
        return {new: logs[name] for new, name in names.items()}

    def _handle(self, logs: Metrics | None, event: str) -> None:
        if event not in self._checkpoint_on and event not in self._report_metrics_on:
            return
        metrics = self._get_reported_metrics(logs or {})
        if event not in self._checkpoint_on:
            self._report_metrics(metrics)
            return
        checkpoint = TensorflowCheckpoint.from_model(self.model)
        try:
            self._save_and_report_checkpoint(metrics, checkpoint)
        finally:
            shutil.rmtree(checkpoint.path)

    def _save_and_report_checkpoint(self, metrics: Metrics, checkpoint: Checkpoint) -> None:
        _functions.report(metrics, checkpoint=checkpoint)

    def _report_metrics(self, metrics: Metrics) -> None:
        _functions.report(metrics)


def _handler(event: str) -> Callable[..., None]:
    """Return the method of Keras's callbacks for an event."""
    if event in _NUMBERED or "_batch_" in event:

        def numbered(
            self: ReportCheckpointCallback, number: int, logs: Metrics | None = None
        ) -> None:
            self._handle(logs, event)

        return numbered

    def plain(self: ReportCheckpointCallback, logs: Metrics | None = None) -> None:
        self._handle(logs, event)

    return plain


for _event in _EVENTS:
    setattr(ReportCheckpointCallback, f"on_{_event}", _handler(_event))
# `__new__` takes anything, so the signature is that of the constructor.
_parameters = list(inspect.signature(ReportCheckpointCallback.__init__).parameters.values())[1:]
ReportCheckpointCallback.__signature__ = inspect.Signature(_parameters)  # type: ignore[attr-defined]
ReportCheckpointCallback.__module__ = "raycompat.train.tensorflow.keras"
