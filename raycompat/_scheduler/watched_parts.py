"""The parts that watch: rows of the state API, records of ended calls, metrics, and jobs over HTTP."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from raycompat._messages.calls import FailedCall
from raycompat._messages.jobs import AskJobs
from raycompat._messages.watching import (
    DriverStack,
    ListRows,
    ListStacks,
    Measured,
    ProcessEnded,
    Spans,
    Summarize,
    Timeline,
)
from raycompat._protocol.message import Handler, handled_from
from raycompat._scheduler.endings import Endings
from raycompat._scheduler.figures import Figures
from raycompat._scheduler.job_requests import JobRequests
from raycompat._scheduler.metrics import Metrics
from raycompat._scheduler.parts import Parts
from raycompat._scheduler.run_times import RunTimes
from raycompat._scheduler.state import State

if TYPE_CHECKING:
    from raycompat._dask.scheduler import DaskScheduler


class WatchedParts(Parts):
    """All parts of the scheduler plugin."""

    def __init__(
        self, dask: DaskScheduler, link_of_dashboard: Callable[[], str | None] = lambda: None
    ) -> None:
        super().__init__(dask, link_of_dashboard)
        self.run_times = RunTimes(dask, self.task_names.note_end)
        self.state = State(self)
        self.metrics = Metrics(self)
        self.endings = Endings(self.ground, self.history, self.run_times, self.state, self.metrics)
        self.figures = Figures(self)
        self.job_requests = JobRequests(self, self.state)
        self.ground.watcher = self.endings
        self.guest.work_of_sessions.append(self.figures)

    def _stream_handlers(self) -> list[tuple[str, Handler]]:
        return [
            *super()._stream_handlers(),
            handled_from(FailedCall, self.endings.on_failed_call),
            handled_from(Spans, self.endings.on_spans),
            handled_from(Measured, self.metrics.on_report),
            handled_from(ProcessEnded, self.metrics.process_ended),
            handled_from(DriverStack, self.state.others.on_answer),
        ]

    def handlers(self) -> dict[str, Callable[..., Any]]:
        """Return the handler of each kind of request."""
        state = self.state
        return super().handlers() | dict(
            [
                AskJobs.answered(self.job_requests.answer_caller),
                Timeline.answered(lambda _: self.run_times.timeline()),
                ListRows.answered(
                    lambda it: state.list_(it.resource, it.filters, it.limit, it.detail)
                ),
                ListStacks.answered(lambda it: state.stacks(it.node, it.pid)),
                Summarize.answered(lambda it: state.summarize(it.resource)),
            ]
        )

    def close(self) -> None:
        """Stop publishing metrics too."""
        super().close()
        self.metrics.close()
