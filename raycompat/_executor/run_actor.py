"""An executor that is an actor: its instance, its calls, and its end."""

from __future__ import annotations

import asyncio
import logging
import time
from functools import partial
from typing import TYPE_CHECKING, Any, NoReturn

from raycompat._caller import kept_tensors, this_process
from raycompat._executor import lanes, stray, title
from raycompat._executor.answers import Answers
from raycompat._executor.mailbox import Caller, Mailbox
from raycompat._executor.run_call import Call, Outcome, Sink, run, run_async
from raycompat._executor.timeline import Timeline
from raycompat._messages import direct
from raycompat._messages.direct import CallMessage
from raycompat._messages.executors import Exiting
from raycompat._protocol import failures
from raycompat._protocol.call_spec import ActorSpec
from raycompat.exceptions import AsyncioActorExit

if TYPE_CHECKING:
    from raycompat._executor.process import Process

logger = logging.getLogger(__name__)

#: Default number of concurrent calls in an actor with asynchronous methods, as in Ray.
_ASYNC_CONCURRENCY = 1000

#: Seconds for tasks of user code that are left in the event loop to end.
_CANCEL_S = 1.0


class Actor:
    """The actor of this process. Created when the node asks for an actor."""

    def __init__(self, executor: Process, key: str, spec: ActorSpec, socket_name: str) -> None:
        self.executor = executor
        self.key = key
        self.spec = spec
        self.instance: Any = None
        self.class_name = ""
        #: Set when the actor leaves: the pickled error for later callers.
        self.exit_error: bytes | None = None
        self._is_leaving = False
        self._loop: asyncio.AbstractEventLoop | None = None
        self._flush_due = False
        #: Running calls by key: name, and start in seconds since 1970.
        self._running: dict[str, tuple[str, float]] = {}
        #: The name in the title of this process: of the last call, until the actor is idle.
        self._shown = ""
        self._timeline = Timeline(partial(executor.report_spans, key))
        self.mailbox = Mailbox(socket_name, executor.session.pump, self._on_idle)

    @property
    def is_concurrent(self) -> bool:
        """Whether it may run several calls at the same time."""
        spec = self.spec
        return bool(spec["is_async"] or (spec["max_concurrency"] or 1) > 1 or spec["groups"])

    def report_ended(self) -> None:
        """Report ended calls that were not reported yet. Called from any thread."""
        self._timeline.flush()

    @property
    def running(self) -> dict[str, tuple[str, float]]:
        """The running calls by key: name and start. Called from any thread."""
        return self._running.copy()

    # --- its life -------------------------------------------------------------------------------

    def build(self, call: Call) -> Outcome:
        """Run the constructor; in an actor with asynchronous methods, in its event loop."""
        try:
            cls = self.executor.load(call.message.function)
        except Exception as error:
            return Outcome.of_error(self.executor, call, error)
        self.class_name = cls.__name__
        if self.spec["is_async"]:
            self._loop = asyncio.new_event_loop()
            asyncio.set_event_loop(self._loop)
            outcome = self._loop.run_until_complete(run_async(self.executor, call, Sink()))
        else:
            outcome = run(self.executor, call, Sink())
        outcome = self._at_exit(call, outcome)
        if self.instance is not None and cls.__repr__ is not object.__repr__:
            self._announce_itself()
        return outcome

    def _announce_itself(self) -> None:
        """Mark the actor's output with its ``repr``, as Ray does."""
        try:
            self.executor.outputs.announce_name(repr(self.instance))
        except Exception:
            logger.exception("the name of %s in its output is that of its class", self.class_name)

    def serve(self) -> None:
        """Run calls until the actor leaves."""
        groups, most = self.spec["groups"], self.spec["max_concurrency"]
        if self._loop is not None:
            limits = self._limits(most or _ASYNC_CONCURRENCY)
            lanes.serve_in_loops(
                self.mailbox,
                lanes.Runner(
                    self._run_async,
                    self._run_in_thread,
                    self._answer_cancelled,
                    self.executor.end,
                ),
                self._leaves,
                limits,
                self._set_on_cancel,
                self._loop,
            )
        elif (most or 1) > 1 or groups:
            sizes = self._limits(most or 1)
            lanes.serve_in_threads(self.mailbox, self._run_in_thread, self._leaves, sizes)
        else:
            self.executor.on_cancel = self._cancel_queued
            kept_tensors.when_kept = partial(
                self.mailbox.read_during_calls, partial(lanes.start_beside, self._run_in_thread)
            )
            lanes.serve_in_order(self.mailbox, self._run, self._run_in_thread, self._leaves)
        self._timeline.flush()
        self.mailbox.close()

    def _limits(self, most: int) -> dict[str | None, int]:
        """Return how many calls run at the same time, by concurrency group; None is the default."""
        return {None: most, **dict(self.spec["groups"].items())}

    def leave(self) -> None:
        """Leave when the running calls are answered. Called from any thread."""
        self._is_leaving = True
        self.mailbox.wake()

    def drop_instance(self) -> None:
        """Drop the instance at the end of the process, and end what is left in the event loop."""
        self.instance = None
        if self._loop is not None:
            left = asyncio.all_tasks(self._loop)
            for task in left:
                task.cancel()
            if left:
                self._loop.run_until_complete(asyncio.wait(left, timeout=_CANCEL_S))
            self.executor.on_cancel = lambda key: None
            self._loop.close()
            asyncio.set_event_loop(None)

    def exit(self) -> NoReturn:
        """Leave the running call, end the actor, and set the error for later callers.

        Called from any thread. User code may catch the exception: the actor ends nevertheless.
        """
        self.exit_error = failures.actor_exited(self.key)
        call = this_process.of_this_thread()
        if call is not None:
            call.exits = True
        self.executor.send(Exiting(self.key, self.exit_error))
        self.leave()
        if self._loop is not None:  # a SystemExit in a task of asyncio would end its loop
            raise AsyncioActorExit
        raise SystemExit(0)

    def _cancel_queued(self, key: str) -> None:
        """Answer a cancelled call that waits behind the running one. Called in the reading thread."""
        arrival = self.mailbox.take_out(key)
        if arrival is not None:
            self._answer_cancelled(*arrival)

    def _answer_cancelled(self, caller: Caller, message: CallMessage) -> None:
        """Answer a cancelled call that has not run."""
        outcome = Outcome.cancelled(message.key, message.name)
        self.executor.forget_cancelled(message.key, outcome)
        assert outcome.error is not None
        caller.post((direct.FAILED, message.key, outcome.error, False, message.attempt), now=True)

    def _leaves(self) -> bool:
        return self._is_leaving

    def _set_on_cancel(self, cancel: Any) -> None:
        self.executor.on_cancel = cancel

    # --- its calls ------------------------------------------------------------------------------

    def post(self, caller: Caller, message: tuple[Any, ...]) -> None:
        """Send an answer; at once if no other call waits."""
        if self._loop is None:
            caller.post(message, now=not self.mailbox.calls)
            return
        caller.post(message, now=False, wake=False)
        if not self._flush_due:
            self._flush_due = True
            self._loop.call_soon_threadsafe(self._flush)

    def _flush(self) -> None:
        self._flush_due = False
        self.mailbox.flush()

    def _begin(self, message: CallMessage) -> Call:
        running = this_process.RunningCall.of_method(message.key, message.name, self.key)
        return Call(running, message, message.wires, "method")

    def _run(self, caller: Caller, message: CallMessage) -> None:
        """Run and answer a call in the main thread. Only an exception before its begin is raised."""
        try:
            call, answers = self._begin(message), self._answers(caller, message)
            this_process.enter(call.running)
            self.mailbox.taken = None
            self._run_and_answer(call, answers, message.attempt)
        except BaseException as error:
            if self.mailbox.taken is not None:  # it has not begun, and begins again
                raise
            self.executor.end(error)
        finally:
            this_process.leave()

    def _run_in_thread(self, caller: Caller, message: CallMessage) -> None:
        """Run and answer a call in this thread."""
        if self.executor.is_abandoned:
            return
        try:
            call, answers = self._begin(message), self._answers(caller, message)
            with this_process.in_this_thread(call.running):
                self._run_and_answer(call, answers, message.attempt)
        except BaseException as error:
            self.executor.end(error)

    def _run_and_answer(self, call: Call, answers: Answers, attempt: int) -> None:
        start = time.time()
        try:
            outcome = self._outcome(call, answers, start)
        except SystemExit:
            raise
        except BaseException as error:  # outside the user's code
            outcome = Outcome.of_error(self.executor, call, error)
        self._conclude(answers, outcome, call.running, start, attempt)

    def _outcome(self, call: Call, answers: Answers, start: float) -> Outcome:
        executor, key, name = self.executor, call.running.key, call.running.name
        self._note_begin(call.running, start)
        if executor.is_cancelled(key):
            return Outcome.cancelled(key, name)
        outcome = self._at_exit(call, run(executor, call, answers))
        # There was no interrupt. As in Ray, an error is kept.
        if executor.is_cancelled(key) and outcome.values is not None:
            outcome.discard(executor)
            return Outcome.cancelled(key, name)
        return outcome

    async def _run_async(self, caller: Caller, message: CallMessage) -> None:
        """Run and answer a call in an event loop."""
        call, answers = self._begin(message), self._answers(caller, message)
        start = time.time()
        with this_process.in_this_thread(call.running):
            try:
                outcome = await self._outcome_async(call, answers, start)
            except SystemExit as exit_:
                self.executor.end(exit_)
            except BaseException as error:  # outside the user's code
                outcome = Outcome.of_error(self.executor, call, error)
            self._conclude(answers, outcome, call.running, start, message.attempt)

    async def _outcome_async(self, call: Call, answers: Answers, start: float) -> Outcome:
        executor, key, name = self.executor, call.running.key, call.running.name
        self._note_begin(call.running, start)
        if executor.is_cancelled(key):
            return Outcome.cancelled(key, name)
        outcome = self._at_exit(call, await run_async(executor, call, answers))
        if executor.is_cancelled(key) and not outcome.is_cancelled:  # it was caught
            outcome.discard(executor)
            return Outcome.interrupted(executor, call, asyncio.CancelledError())
        return outcome

    def _at_exit(self, call: Call, outcome: Outcome) -> Outcome:
        """Return the outcome of a call that may have called `exit`, and caught the exception."""
        if not call.running.exits or outcome.values is None:
            return outcome
        outcome.discard(self.executor)
        return Outcome.of_exit(self.exit_error or b"")

    def _on_idle(self) -> bool:
        """Show the class in the title of this process, and report ended calls."""
        if not self._running and self._shown != self.class_name:
            self._shown = self.class_name
            title.show(self.class_name)
        return self._timeline.flush()

    def _note_begin(self, running: this_process.RunningCall, start: float) -> None:
        """Record that a call runs from now on."""
        if running.name != self._shown:
            self._shown = running.name
            title.show(running.name)
        self._running[running.key] = (running.name, start)

    def _answers(self, caller: Caller, message: CallMessage) -> Answers:
        return Answers(self.executor, caller, message.key, self.post)

    def _conclude(
        self,
        answers: Answers,
        outcome: Outcome,
        running: this_process.RunningCall,
        start: float,
        attempt: int,
    ) -> None:
        stray.conclude(
            lambda: self._answer(answers, outcome, running, start, attempt),
            lambda: answers.has_ended,
        )

    def _answer(
        self,
        answers: Answers,
        outcome: Outcome,
        running: this_process.RunningCall,
        start: float,
        attempt: int,
    ) -> None:
        executor = self.executor
        executor.forget_cancelled(running.key, outcome)
        self._running.pop(running.key, None)
        self._timeline.add(
            running.name, running.key, start, time.time(), outcome.failure, outcome.marks
        )
        if executor.session.table.dropped:
            executor.session.table.collect_dropped()
        executor.outputs.flush(running.key)
        executor.outputs.end(running.key)
        answers.end(outcome, attempt)
