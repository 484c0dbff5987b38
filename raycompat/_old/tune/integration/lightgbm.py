"""Callbacks of LightGBM that report to Tune."""

from __future__ import annotations

from raycompat._old.tune.integration.reporting import ReportsToTune, WithoutCheckpoints
from raycompat.train.lightgbm._callback import OfLightGBM


class TuneReportCheckpointCallback(ReportsToTune, OfLightGBM):
    """Report the evaluations after each round, with the model as a checkpoint: see `ReportsToTune`."""


class TuneReportCallback(WithoutCheckpoints, TuneReportCheckpointCallback):
    """Report the evaluations after each round."""
