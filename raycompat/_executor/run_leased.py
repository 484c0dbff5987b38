"""A leased executor: a caller sends it calls of functions, and it runs them one after the other.

When a call runs long or waits for an object, a thread returns the calls that wait behind it, so that
other processes can run them. If the call requested less than the lease has, the rest is given back: the
lease is *trimmed*.
"""

from __future__ import annotations

import os
import signal
import threading
import time
import traceback
from collections.abc import Iterable
from functools import partial
from typing import TYPE_CHECKING

from raycompat._caller import this_process
from raycompat._executor import rank, stray, threads, title
from raycompat._executor.answers import Answers
from raycompat._executor.mailbox import Caller, Mailbox
from raycompat._executor.run_call import Call, Outcome, run
from raycompat._executor.timeline import Timeline
from raycompat._messages import direct
from raycompat._messages.direct import CallMessage
from raycompat._messages.executors import BeginLease
from raycompat._messages.leases import LeaseTrimmed
from raycompat._protocol import accelerator_kinds
from raycompat._protocol.resource_set import LeaseKind, ResourceSet

if TYPE_CHECKING:
    from raycompat._executor.process import Process

#: Seconds after which a call is long; seconds between two checks while it runs.
_LONG_S, _LONGER_S = 0.005, 0.05


class Lease:
    """A lease of this process. Created in the thread that reads; served in the main thread."""

    def __init__(self, executor: Process, begin: BeginLease) -> None:
        key = begin.key
        self.key = key
        self._executor = executor
        #: Its units of the resource in which its calls differ, and the resources that calls of the
        #: last size see.
        resources = ResourceSet.from_amounts(begin.resources)
        self._kind = LeaseKind.of(resources)
        self._units = resources.get(self._kind.varies)
        self._resources: dict[str, float] = begin.resources
        self._shown_units = self._units
        accelerator_kinds.show({}, begin.gpu_variable)
        self._group = this_process.group_of(begin.group)
        self._timeline = Timeline(partial(executor.report_spans, key))
        self._mailbox = Mailbox(begin.socket, executor.session.pump, self._timeline.flush)
        #: Held to add or remove calls. While a call runs, another thread may do so.
        self._lock = threading.Lock()
        #: The running call, and the number of started calls.
        self._running: str | None = None
        self._since = 0.0
        self._running_units = 0
        self._num_begun = 0
        #: Whether the caller may send more calls.
        self._is_open = True
        self._is_leaving = False
        self._is_over = threading.Event()
        self._is_busy = threading.Event()
        self._name = ""
        #: Whether a call that may not be repeated has an unwritten answer.
        self._owes_answer = False

    # --- in the main thread ---------------------------------------------------------------------

    def serve(self) -> bool:
        """Run calls until the lease ends; return whether all answers were written."""
        watch = threads.start(self._watch, "watch")
        try:
            mailbox = self._mailbox
            rank.show_cpus(self._resources.get("CPU", 0))
            step = stray.Repeated(self._step)
            while not self._is_leaving and not mailbox.is_returned and mailbox.has_callers:
                step()
            with self._lock:
                self._is_leaving = True
                self._give_back()
            self._timeline.flush()
        finally:
            self._is_over.set()
            self._is_busy.set()
        is_complete = self._mailbox.close_gracefully()
        watch.join()
        return is_complete

    def _step(self) -> None:
        arrival = self._take()
        if arrival is not None:
            self._run(*arrival)
        else:
            self._mailbox.wait()

    def _take(self) -> tuple[Caller, CallMessage] | None:
        """Take the next call and start it."""
        with self._lock:
            arrival = self._next()
            if not self._is_open and not self._is_leaving:
                self._is_open = True
                self._mailbox.tell_all((direct.OPEN,))
            if arrival is None:
                return None
            try:
                _, call = arrival
                self._running, self._running_units = call.key, call.units
                self._num_begun += 1
                if not self._is_busy.is_set():
                    self._is_busy.set()
            except BaseException:  # a stray one: the call begins later
                self._running = None
                self._mailbox.calls.appendleft(arrival)
                raise
            return arrival

    def _next(self) -> tuple[Caller, CallMessage] | None:
        """Take the next call; return those that are too large since the lease was trimmed."""
        calls, too_large = self._mailbox.calls, []
        arrival = None
        while calls and arrival is None:
            caller, call = calls.popleft()
            if call.units > self._units:
                too_large.append((caller, call))
            else:
                arrival = caller, call
        if too_large:
            self._is_open = False
            self._return(too_large)
        return arrival

    def _run(self, caller: Caller, message: CallMessage) -> None:
        answers = Answers(self._executor, caller, message.key, self._post)
        try:
            self._prepare(message)
            outcome = self._outcome(message, answers)
            stop = time.time()
            stray.conclude(
                lambda: self._answer(answers, outcome, message, stop), lambda: answers.has_ended
            )
        except SystemExit:
            self._executor.send_answers_so_far(self._mailbox)
            raise
        except BaseException as error:  # its caller would wait for ever
            self._executor.end(error)

    def _prepare(self, message: CallMessage) -> None:
        # If a process dies, the first unanswered call that may not be repeated is the one that had
        # started.
        if self._owes_answer or not message.may_repeat:
            while not self._mailbox.drain():
                with self._lock:
                    self._mailbox.read_arrived()  # a caller may be gone
        self._owes_answer = not message.may_repeat
        if message.name != self._name:
            self._name = message.name
            self._executor.outputs.announce_name(message.name)
            title.show(message.name)
        if message.units != self._shown_units:
            self._shown_units = message.units
            self._resources = self._kind.with_units(message.units).amounts()
            rank.show_cpus(self._resources.get("CPU", 0))
        self._since = time.time()

    def _outcome(self, message: CallMessage, answers: Answers) -> Outcome:
        """Run a call. Only `SystemExit` is raised."""
        key, name = message.key, message.name
        executor = self._executor
        running = this_process.RunningCall(key, name, self._resources, {}, None, None, self._group)
        call = Call(running, message, message.wires, "function")
        this_process.enter(running)
        try:
            if executor.is_cancelled(key):
                return Outcome.cancelled(key, name)
            return run(executor, call, answers)
        except KeyboardInterrupt:  # after the end of the user's code
            return Outcome.cancelled(key, name)
        except SystemExit:
            raise
        except BaseException as error:  # outside the user's code
            return Outcome.of_error(executor, call, error)
        finally:
            executor.end_user_code()
            this_process.leave()

    def _answer(
        self, answers: Answers, outcome: Outcome, message: CallMessage, stop: float
    ) -> None:
        executor, key, start = self._executor, message.key, self._since
        executor.forget_cancelled(key, outcome)
        self._timeline.add(message.name, key, start, stop, outcome.failure, outcome.marks)
        if executor.session.table.dropped:
            executor.session.table.collect_dropped()
        executor.outputs.flush(key)
        with self._lock:
            executor.outputs.end(key)
            self._running = None
        if executor.is_spent:
            self._is_leaving = True
        answers.end(outcome, stop - start)

    def _post(self, caller: Caller, message: direct.FromProcess) -> None:
        is_item = message[0] == direct.ITEM  # the next one may come late
        caller.post(message, now=is_item or not self._mailbox.calls)

    # --- in any thread --------------------------------------------------------------------------

    def _give_back(self) -> None:
        """Return the calls that have not started to their callers. The caller holds the lock."""
        try:
            self._mailbox.read_arrived()
        except (
            MemoryError
        ):  # the running call limits the memory of its process: a later round does it
            return
        calls = self._mailbox.calls
        if self._is_open or calls:
            self._is_open = False
            arrivals = []
            while calls:  # the main thread may add some now, while a generator waits
                arrivals.append(calls.popleft())
            self._return(arrivals)

    def _return(self, arrivals: Iterable[tuple[Caller, CallMessage]]) -> None:
        """Notify every caller that no calls are accepted now, and which of its calls are returned."""
        returned: dict[Caller, list[tuple[str, int]]] = {c: [] for c in self._mailbox.callers}
        for caller, call in arrivals:
            returned.setdefault(caller, []).append((call.key, call.attempt))
        for caller, calls_of_it in returned.items():
            caller.post((direct.RETURNED, calls_of_it), now=True)

    def _trim(self) -> None:
        """Give back what the running call did not request. The caller holds the lock."""
        if self._running is not None and self._running_units < self._units:
            self._units = self._running_units
            self._mailbox.tell_all((direct.TRIMMED, self._units))
            self._executor.send(LeaseTrimmed(self.key, self._units))

    def report_ended(self) -> None:
        """Report ended calls that were not reported yet. Called from any thread."""
        self._timeline.flush()

    @property
    def running(self) -> dict[str, tuple[str, float]]:
        """The running call: its name and start, by its key."""
        with self._lock:
            key = self._running
            return {key: (self._name, self._since)} if key is not None else {}

    def block(self) -> None:
        """Prepare for the running call to wait for an object: give back CPUs and calls."""
        with self._lock:
            self._trim()
            self._give_back()

    def revoke(self) -> None:
        """Leave after the running call."""
        self._is_leaving = True
        with self._lock:
            if self._running is not None:
                self._give_back()
        self._mailbox.wake()

    def abandon(self, limit_s: float) -> None:
        """Leave at once: no process needs the result of the running call."""
        with self._lock:
            is_running = self._running is not None
        if is_running:
            self._executor.end_now(limit_s)
        else:
            self.revoke()

    def kill_if_running(self, key: str) -> None:
        """Kill this process if it runs a call that must end by force."""
        with self._lock:
            if self._running == key:
                os.kill(os.getpid(), signal.SIGKILL)
            self._executor.note_cancelled(key)  # it may be about to begin

    def _watch(self) -> None:
        """Return the calls that wait behind a long call.

        After an error the process ends: otherwise calls would wait without limit.
        """
        try:
            self._give_back_in_time()
        except BaseException:
            traceback.print_exc()
            os._exit(1)

    def _give_back_in_time(self) -> None:
        seen, pause_s = -1, _LONG_S
        while True:
            self._is_busy.wait()
            if self._is_over.wait(pause_s):
                return
            with self._lock:
                running = self._running
                goes_on = running is not None and self._num_begun == seen
                if running is not None and goes_on:
                    self._executor.outputs.begin(running)
                    self._trim()
                    self._give_back()
                elif running is None and not self._mailbox.calls:
                    self._is_busy.clear()
                    if self._is_over.is_set():  # both were set since the last check
                        return
                seen = self._num_begun
            pause_s = _LONGER_S if goes_on else _LONG_S
