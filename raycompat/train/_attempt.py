"""One try of a run: the training function runs on all workers until it returns, or one fails."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Any

import raycompat as ray
from raycompat.exceptions import RayActorError, RayTaskError
from raycompat.train._checkpoint import Checkpoint
from raycompat.train._health import Health
from raycompat.train._meetings import Meetings
from raycompat.train._rounds import Round, Rounds
from raycompat.train._run_state import RunState
from raycompat.train._session import Asked, Met, Reported, Returned, Saved
from raycompat.train._stragglers import Stragglers
from raycompat.train._types import Metrics
from raycompat.train._validation import Validations
from raycompat.train._worker_group import Worker, WorkerGroup

_log = logging.getLogger(__name__)

#: Seconds between two checks of the workers' health when nothing else happens.
_TICK_S = 1.0

#: Seconds to wait for other failures when a training function has raised. An operation among workers
#: raises in all of them when one dies, and these errors may arrive before the death that caused them.
_CAUSE_S = 1.0

OnReport = Callable[[list[Metrics], Checkpoint | None], None]


class WorkersFailed(Exception):
    """Workers have failed.

    Parameters
    ----------
    failures : dict of int to Exception
        Why, by rank. The attribute has the errors of the training function themselves, not as
        `RayTaskError`; their tracebacks are in the text.
    group : WorkerGroup
        The workers, for where they were.
    """

    def __init__(self, failures: dict[int, Exception], group: WorkerGroup) -> None:
        self.failures = {rank: _own(error) for rank, error in failures.items()}
        self.text = "\n\n".join(
            f"{group.workers[rank]}: {error}" for rank, error in sorted(failures.items())
        )
        super().__init__(self.text)


def _own(error: Exception) -> Exception:
    """Return the error of the training function of a remote error; others as they are."""
    if isinstance(error, RayTaskError) and isinstance(error.cause, Exception):
        return error.cause
    return error


class RoomForMore(Exception):
    """The cluster has room for more workers.

    Parameters
    ----------
    number : int
        How many more.
    """

    def __init__(self, number: int) -> None:
        self.number = number
        super().__init__(number)


class Attempt:
    """See the module.

    Parameters
    ----------
    group : WorkerGroup
        The workers, prepared.
    state : RunState
        The run's, which takes the reports.
    validations : Validations
        Those of the run.
    on_report : callable
        Called with the metrics of all ranks and the checkpoint, after each report.
    num_more : callable, optional
        Returns how many more workers there is room for. By default their number is fixed.
    """

    def __init__(
        self,
        group: WorkerGroup,
        state: RunState,
        validations: Validations,
        on_report: OnReport,
        num_more: Callable[[int], int] = lambda current: 0,
    ) -> None:
        self._num_more = num_more
        self._group = group
        self._state = state
        self._validations = validations
        self._on_report = on_report
        self._rounds = Rounds(len(group))
        self._meetings = Meetings(len(group))
        self._stragglers = Stragglers(self._rounds, self._meetings)
        self._num_committed = 0
        self._questions: list[tuple[Worker, Asked]] = []
        self._return_value: object = None

    def run(self) -> Any:
        """Train; return the result of the training function of rank 0.

        Raises
        ------
        WorkersFailed
            When a rank raises, dies, hangs, or waits for a report that others will not make.
        RoomForMore
            When the workers should be started again, because there is room for more.
        """
        workers = self._group.workers
        health = Health(workers)
        #: The worker of each pending call; a call of `train` fails, or is followed by an event.
        training = {worker.actor.train.remote(): worker for worker in workers}
        events = {worker.actor.next_event.remote(): worker for worker in workers}
        while events:
            refs = [*training, *events]
            ray.wait(refs, num_returns=1, timeout=_TICK_S)
            ready, _ = ray.wait(refs, num_returns=len(refs), timeout=0)
            failures: dict[int, Exception] = {}
            for ref in ready:
                worker = training.get(ref) or events[ref]
                try:
                    event = ray.get(ref)
                except Exception as error:  # the training function's, of any type
                    failures[worker.rank] = error
                    continue
                if training.pop(ref, None) is not None:
                    continue
                del events[ref]
                self._take(worker, event)
                if not isinstance(event, Returned):
                    events[worker.actor.next_event.remote()] = worker
            failures = (
                self._with_causes(failures, training)
                or health.check()
                or self._mismatch()
                or self._stragglers.check(time.monotonic())
            )
            if failures:
                raise WorkersFailed(failures, self._group)
            if len(events) == len(workers) and (number := self._num_more(len(workers))):
                raise RoomForMore(number)
            self._validations.collect()
            self._answer_questions()
        self._validations.finish()
        return self._return_value

    def _with_causes(
        self, failures: dict[int, Exception], training: dict[Any, Worker]
    ) -> dict[int, Exception]:
        """Add the failures of other ranks that may have caused these."""
        if not failures or any(isinstance(error, RayActorError) for error in failures.values()):
            return failures
        others = {ref: worker for ref, worker in training.items() if worker.rank not in failures}
        deadline = time.monotonic() + _CAUSE_S
        found = dict(failures)
        while others and (left := deadline - time.monotonic()) > 0:
            ready, _ = ray.wait(list(others), num_returns=1, timeout=left)
            for ref in ready:
                worker = others.pop(ref)
                try:
                    ray.get(ref)
                except Exception as error:  # the training function's, of any type
                    found[worker.rank] = error
                    if isinstance(error, RayActorError):
                        return found
        return found

    def _mismatch(self) -> dict[int, Exception]:
        reports = self._rounds.incomplete()
        reporting = [] if reports is None else reports[1]
        found = self._rounds.mismatch() | self._meetings.mismatch(reporting)
        return {rank: RuntimeError(text) for rank, text in found.items()}

    def _take(self, worker: Worker, event: Any) -> None:
        if isinstance(event, Returned):
            self._rounds.add_return(worker.rank, event.num_reports)
            self._meetings.add_return(worker.rank)
            if worker.rank == 0:
                self._return_value = event.value
        elif isinstance(event, Asked):
            self._questions.append((worker, event))
        elif isinstance(event, Met):
            if (met := self._meetings.add(worker.rank, event)) is not None:
                self._tell_all("met", *met)
        elif isinstance(event, Saved):
            self._rounds.add_saved(worker.rank, event)
        else:
            self._take_report(worker, event)
        while (found := self._rounds.pop_saved()) is not None:
            self._commit(*found)

    def _take_report(self, worker: Worker, report: Reported) -> None:
        round_ = self._rounds.add_report(worker.rank, report)
        if round_ is None:
            return
        round_.name = round_.reports[0].name
        if round_.name is None:
            round_.name = self._state.checkpoint_name() if round_.savers else ""
        self._tell_all("name", report.index, round_.name)

    def _tell_all(self, about: str, index: int, value: Any) -> None:
        for worker in self._group.workers:
            worker.actor.answer.remote(about, index, value)

    def _commit(self, index: int, round_: Round) -> None:
        """Make a report of all ranks part of the run."""
        assert round_.name is not None
        checkpoint = None
        if round_.savers:
            checkpoint = round_.elsewhere
            if checkpoint is None:
                self._state.folder.commit(round_.name)
                checkpoint = self._state.checkpoint(round_.name)
        ranks = sorted(round_.reports)
        metrics = [round_.reports[rank].metrics for rank in ranks]
        entry = self._state.add_report(metrics[0], checkpoint)
        self._num_committed += 1
        if checkpoint is not None:
            self._tell_all("committed", index, checkpoint)
        asked = next(
            (each.validation for each in round_.reports.values() if each.validation), False
        )
        if entry is not None and asked:
            self._validations.start(entry, asked)
        self._on_report(metrics, checkpoint)

    def _answer_questions(self) -> None:
        for question in list(self._questions):
            worker, asked = question
            if self._num_committed < asked.num_reports:
                continue
            if asked.consistency == "VALIDATED" and len(self._validations):
                continue
            self._questions.remove(question)
            found = [
                (entry.checkpoint, entry.metrics, entry.status) for entry in self._state.kept()
            ]
            about = "checkpoints_now" if asked.consistency == "now" else "checkpoints"
            worker.actor.answer.remote(about, asked.index, found)
