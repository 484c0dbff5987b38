"""What the callbacks of all libraries have in common: how they report to Tune."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from raycompat.train._round_reports import MetricNames, RoundReports, report_by
from raycompat.tune.trainable import session


def report(metrics: dict[str, Any], write: Callable[[str], Any] | None = None) -> None:
    """Report to Tune; with a checkpoint that `write` makes in a folder."""
    report_by(session.report, metrics, write)


class ReportsToTune(RoundReports):
    """Reports to Tune; by default with a checkpoint at each fifth round, and none at the end."""

    def __init__(
        self,
        metrics: MetricNames = None,
        filename: str | None = None,
        frequency: int = 5,
        checkpoint_at_end: bool = False,
        results_postprocessing_fn: Callable[[dict[str, Any]], dict[str, Any]] | None = None,
    ) -> None:
        super().__init__(metrics, filename, frequency, checkpoint_at_end, results_postprocessing_fn)

    def _send(self, metrics: dict[str, Any], write: Callable[[str], Any] | None) -> None:
        report(metrics, write)


class WithoutCheckpoints:
    """Makes a class of `ReportsToTune` report the evaluations alone."""

    def __init__(
        self,
        metrics: MetricNames = None,
        results_postprocessing_fn: Callable[[dict[str, Any]], dict[str, Any]] | None = None,
    ) -> None:
        more: Any = {"frequency": 0, "results_postprocessing_fn": results_postprocessing_fn}
        super().__init__(metrics, **more)  # type: ignore[call-arg]
