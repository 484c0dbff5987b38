"""What a call finds in its process: an executor, as its actor, its lease and its calls see it.

`_executor.main` has the loop that takes the node's messages and runs the calls.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import signal
import socket
import sys
import threading
import traceback
from collections import OrderedDict
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, NoReturn, Protocol

from raycompat import exceptions
from raycompat._caller import current_session, this_process
from raycompat._caller import session as sessions
from raycompat._caller.home import Home
from raycompat._caller.setup import Setup
from raycompat._executor import threads
from raycompat._executor.call_runner import ActorOfCall
from raycompat._executor.environment import Environment
from raycompat._executor.loaded_code import LoadedCode
from raycompat._host.limits import Limits
from raycompat._messages.calls import Blocked, Unblocked
from raycompat._messages.executor_setup import ExecutorSetup
from raycompat._messages.executors import (
    ABOUT_RESULTS,
    EXIT_WORK_S,
    Failed,
    HandOver,
    NeedFunction,
)
from raycompat._messages.watching import Measured, Spans, Tracked
from raycompat._protocol import failures, frames
from raycompat._protocol.measurements import Measurements
from raycompat._protocol.message import FromExecutor
from raycompat._protocol.tracked import Tracker

if TYPE_CHECKING:
    from raycompat._executor.mailbox import Mailbox
    from raycompat._executor.output import Outputs
    from raycompat._executor.run_call import Outcome
    from raycompat._protocol.spans import Span

#: The signal that interrupts the main thread.
INTERRUPT = signal.SIGUSR2

#: The most cancelled calls to remember: some never arrive here, or have already ended. An actor with so
#: many calls in its queue would run cancelled ones.
_MANY_CANCELLED = 1_000_000


class ServedActor(ActorOfCall, Protocol):
    """The actor of the process (`run_actor.Actor`)."""

    mailbox: Mailbox


class ServedLease(Protocol):
    """The lease that the process serves (`run_leased.Lease`)."""

    key: str

    def block(self) -> None:
        """Note that the running call lends its CPUs."""


class Process:
    """The connection to the node, the session, and the loaded functions of one executor."""

    def __init__(self, connection: socket.socket, setup: ExecutorSetup, outputs: Outputs) -> None:
        self.setup = setup
        self.ip = setup.ip
        self.gpus_are_named = setup.gpus_are_named
        self.outputs = outputs
        self.actor: ServedActor | None = None
        self.lease: ServedLease | None = None
        #: Called with the key of each call that is cancelled.
        self.on_cancel: Callable[[str], None] = lambda key: None
        #: By the keys of calls: what ends the wait of their generators, if they are cancelled.
        self.generators: dict[str, Callable[[], None]] = {}
        self._channel = frames.BlockingChannel(connection)
        self._send_lock = threading.Lock()
        #: The functions that were requested from the node.
        self._requests: dict[str, Future[bytes]] = {}
        self._code = LoadedCode()
        #: The cancelled calls, and whether the calls that they have made are cancelled too.
        self._cancelled: OrderedDict[str, bool] = OrderedDict()
        #: Key of the call whose user code the main thread is running.
        self._interruptible: str | None = None
        #: Set when the process must end now: the seconds for its exit handlers.
        self._limit_s: float | None = None
        #: The exit code that user code has chosen in a thread.
        self._chosen_code = 0
        #: Whether user code has made this process by a fork. (`getpid` after each call takes longer.)
        self._is_forked = False
        self._limits = Limits()
        #: Whether it can run no more calls, because user code has limited its process.
        self.is_spent = False
        #: Whether the running call lends its CPUs until its end.
        self._lends_cpus = False
        self._recursion_limit = sys.getrecursionlimit()
        #: The modules of this process before user code.
        self._modules = dict(sys.modules)
        os.register_at_fork(after_in_child=self._note_fork)
        self.session = self._make_session()
        self.environment = Environment(self)

    def leave(self, patience_s: float | None) -> None:
        """End the process after its work; wait at most so long for the calls that it has made."""
        raise NotImplementedError

    def _make_session(self) -> sessions.Session:
        setup, settings = self.setup, self.setup.settings
        session = sessions.Session(
            Setup(
                job=setup.job,
                namespace=setup.namespace,
                home=Home(
                    node_id=setup.node_id,
                    address=setup.node_address,
                    ip=setup.ip,
                    pid=setup.node_pid,
                    labels=setup.labels,
                    host=setup.place.host,
                    place=setup.place,
                ),
                scheduler=setup.scheduler,
                is_driver=False,
                host=setup.place.host,
                uses_leases=settings["uses_leases"],
                security=setup.security,
                runtime_env=setup.runtime_env,
                actors_are_detached=setup.program.actors_are_detached,
                logs=setup.logs,
            )
        )
        session.current_task = this_process.current_task
        session.captured = this_process.captured
        session.on_block = lambda: self._tell_of_block(Blocked)
        session.on_unblock = lambda: self._tell_of_block(Unblocked)
        session.on_hand_over = lambda wire: self.send(HandOver(session.client.id, wire))
        session.measurements = Measurements(self._send_measured, _call_later)
        session.tracker = Tracker(self._send_tracked, _call_later)
        current_session.set_to(session)
        return session

    def report_spans(self, key: str, spans: list[Span]) -> None:
        """Report to the node when calls of an actor or a lease ran."""
        wires = [span.to_wire() for span in spans]
        self.send(Spans(key, os.getpid(), self.setup.job, wires))

    def _send_measured(self, measured: list[Any]) -> None:
        self.send(Measured(self.session.worker_id, self.setup.job, measured))

    def _send_tracked(self, records: list[Any]) -> None:
        self.send(Tracked(records))

    @contextlib.contextmanager
    def uninterrupted(self) -> Iterator[None]:
        """Let a cancellation interrupt the main thread only after this. Called in that thread."""
        running, self._interruptible = self._interruptible, None
        yield
        if running is not None:
            self.begin_user_code(running)

    def lend_cpus(self) -> None:
        """Lend the CPUs of the running task until `take_cpus_back`, although it goes on."""
        if self.actor is None and not self._lends_cpus:
            self._tell_of_block(Blocked)
            self._lends_cpus = True

    def take_cpus_back(self) -> None:
        """End what `lend_cpus` has begun."""
        if self._lends_cpus:
            self._lends_cpus = False
            self._tell_of_block(Unblocked)

    def _tell_of_block(self, kind: type[Blocked | Unblocked]) -> None:
        if self._lends_cpus:
            return
        call = this_process.current()
        # As in Ray, an actor keeps its CPUs; only tasks lend them.
        if call is None or call.actor is not None:
            return
        if threading.current_thread() is not threading.main_thread():
            return
        with self.uninterrupted():
            if self.lease is not None and kind is Blocked:
                self.lease.block()
            self.send(kind(self.lease.key if self.lease is not None else call.key))

    def send(self, message: FromExecutor) -> None:
        """Send one message to the node, from any thread. A cancellation waits until it is sent."""
        if threading.current_thread() is not threading.main_thread():
            self._write(message)
            return
        with self.uninterrupted():
            self._write(message)

    def _write(self, message: FromExecutor) -> None:
        """Write a message; in place of an answer that cannot be written, write that the call failed."""
        with self._send_lock:
            try:
                self._channel.send(message.to_frame())
            except OSError:  # the node has closed the connection
                raise
            except Exception as error:
                print(f"raycompat: a message could not be written: {error}", file=sys.stderr)
                if isinstance(message, ABOUT_RESULTS):
                    failure = failures.unwritable("The answer of the call", frames.described(error))
                    self._channel.send(Failed.of(message.key, failure).to_frame())

    def end_now(self, limit_s: float) -> None:
        """End the process from another thread: user code that the main thread runs is interrupted."""
        self._limit_s = limit_s
        self.leave(limit_s)  # if the interrupt is lost, in a `__del__` of user code
        signal.pthread_kill(threading.main_thread().ident or 0, INTERRUPT)

    @property
    def is_abandoned(self) -> bool:
        """Whether the process must end now: its callers are gone, or need no answer."""
        return self._limit_s is not None

    def note_cancelled(self, key: str, *, recursive: bool = False) -> None:
        """Prevent a call from starting, if it has not started."""
        self._cancelled[key] = recursive or self._cancelled.get(key, False)
        if len(self._cancelled) > _MANY_CANCELLED:
            self._cancelled.popitem(last=False)  # in one C call: other threads remove items too

    def begin_user_code(self, key: str) -> None:
        """Let a cancellation of the task `key` interrupt the main thread from now on."""
        if self.actor is None:
            self._interruptible = key
            if key in self._cancelled:
                signal.raise_signal(INTERRUPT)

    def end_user_code(self) -> None:
        """Ignore later cancellations: the user's code has ended."""
        self._interruptible = None
        self.check_process()

    def check_process(self) -> None:
        """Correct what user code has done to this process, so that it can answer."""
        self.end_if_forked()
        threads.restore_hooks()
        if self._limits.may_differ and self.actor is None:
            self.is_spent = not self._limits.restore()
        if sys.getrecursionlimit() < self._recursion_limit:
            sys.setrecursionlimit(self._recursion_limit)
        if sys.modules.get("raycompat.exceptions") is not exceptions:
            # Imported again, the classes of errors and messages would not be those of this code.
            sys.modules.update(self._modules)

    def _note_fork(self) -> None:
        self._is_forked = True

    def end_if_forked(self) -> None:
        """End a process that user code has forked and that does not end itself.

        Otherwise it would send a second answer, and take calls from its parent's connections.
        """
        if not self._is_forked:
            return
        error = sys.exception()
        if error is not None and not isinstance(error, SystemExit):
            traceback.print_exception(error)
            error = SystemExit(1)
        self.outputs.flush()
        os._exit(exit_code(error) if error is not None else 0)

    def load(self, function: str) -> Any:
        """Return the function or class with this id; ask the node for it at its first use.

        Called from any thread: each `Future` is requested and answered once.

        Raises
        ------
        Exception
            Any exception of its unpickling: for example, for modules that are missing here.
        """
        kept = self._code.get(function)
        if kept is not None and kept.is_unpickled:
            return kept.content
        code = kept.content if kept is not None else self._request_code(function)
        references = self.session.num_restored
        loaded = pickle.loads(code)
        if self.session.num_restored == references:
            self._code.keep(function, loaded, len(code), is_unpickled=True)
        else:  # it is unpickled again for each call, so that it keeps no object alive in between
            self._code.keep(function, code, len(code), is_unpickled=False)
        return loaded

    def _request_code(self, function: str) -> bytes:
        new: Future[bytes] = Future()
        request = self._requests.setdefault(function, new)
        if request is new:
            self.send(NeedFunction(function))
        return request.result()

    def is_cancelled(self, key: str) -> bool:
        """Return whether the call was cancelled."""
        return key in self._cancelled

    def forget_cancelled(self, key: str, outcome: Outcome) -> None:
        """Forget the cancellation of a call that has ended.

        Calls that it has made between its cancellation and its interrupt are cancelled now.
        """
        is_recursive = self._cancelled.pop(key, False)
        if is_recursive and outcome.values is None:
            self.session.cancel_children(key)

    def end(self, error: BaseException) -> NoReturn:
        """End the process, from any thread: user code raised ``SystemExit``, or it cannot serve."""
        if isinstance(error, SystemExit):
            self._leave_with(error)
        try:
            traceback.print_exception(error)
            if self.actor is not None:
                self.send_answers_so_far(self.actor.mailbox)
            self.outputs.flush()
        finally:
            os._exit(1)

    def _leave_with(self, exit_: SystemExit) -> NoReturn:
        if self.actor is not None:
            self.send_answers_so_far(self.actor.mailbox)
        if threading.current_thread() is not threading.main_thread() and not self.is_abandoned:
            self._chosen_code = exit_code(exit_)
            self.end_now(EXIT_WORK_S)
        raise exit_

    def send_answers_so_far(self, mailbox: Mailbox) -> None:
        """Close a mailbox whose process ends, unless its callers are gone."""
        if not self.is_abandoned:
            mailbox.close()


def exit_code(exit_: SystemExit) -> int:
    """Return the code with which the process of this exception ends."""
    code = exit_.code
    return code if isinstance(code, int) else int(code is not None)


def _call_later(delay_s: float, function: Callable[[], None]) -> None:
    timer = threading.Timer(delay_s, function)
    timer.daemon = True
    timer.start()
