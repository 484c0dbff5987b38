"""An executor: a process that runs tasks one at a time, serves a lease, or becomes an actor.

The main thread runs the tasks. A second thread reads the node's messages: it queues calls for the main
thread, delivers functions, and interrupts the main thread when the task that it runs is cancelled. An
actor gets only its constructor from the node; callers connect to it directly (`_executor.mailbox`).
"""

from __future__ import annotations

import os
import pickle
import queue
import signal
import socket
import sys
import threading
import time
import traceback
from collections import deque
from pathlib import Path
from types import FrameType
from typing import Any

from raycompat import exceptions
from raycompat._as_ray import install_as_ray
from raycompat._caller import first_uses, look, this_process
from raycompat._executor import (
    debugger,
    exit_work,
    rank,
    setup_hook,
    signals,
    stack,
    stray,
    threads,
    title,
)
from raycompat._executor.answers import PATIENCE_S
from raycompat._executor.item_window import ItemWindow
from raycompat._executor.output import Outputs
from raycompat._executor.process import INTERRUPT, Process, exit_code
from raycompat._executor.run_actor import Actor
from raycompat._executor.run_call import Call, Outcome, Role, Sink, run
from raycompat._executor.run_leased import Lease
from raycompat._host import interrupts
from raycompat._messages.calls import Credit, Disown
from raycompat._messages.direct import CallMessage
from raycompat._messages.executor_setup import ExecutorSetup
from raycompat._messages.executors import (
    EXIT_WORK_S,
    Abandon,
    BeginLease,
    EndNow,
    ExecutorLooked,
    Failed,
    FunctionCode,
    Interrupt,
    ItemYielded,
    KillIfRunning,
    Leased,
    LeaseServed,
    Leave,
    Leaving,
    NoFunction,
    NotRunning,
    Owns,
    Run,
    Spent,
    Unprepared,
    WhatIsOwned,
)
from raycompat._messages.jobs import ForgetFunctions
from raycompat._messages.leases import Revoke
from raycompat._messages.watching import Look, ShowStack, StackShown
from raycompat._pickling import remote_traceback
from raycompat._protocol import failures, frames, ids, import_paths
from raycompat._protocol.message import Handler, handled
from raycompat._protocol.values import Wire
from raycompat._surface import era, forms


class Executor(Process):
    """The process of an executor: what it gets from its node, and the calls that it runs."""

    actor: Actor | None
    lease: Lease | None

    def __init__(self, connection: socket.socket, setup: ExecutorSetup, outputs: Outputs) -> None:
        super().__init__(connection, setup, outputs)
        #: What the main thread is to do; None ends it. Another queue has a token for each item: a
        #: stray exception can lose a token, but no item.
        self._works: deque[Run | Lease | None] = deque()
        self._tokens: queue.SimpleQueue[None] = queue.SimpleQueue()
        #: The sink for the items of the running generator.
        self._sink: _NodeSink | None = None
        #: The last report of `_report_state` about what it owns.
        self._owns = False
        #: Key of the last call from the node that was answered.
        self._answered = ""
        #: Seconds to wait for the calls that this process has made, before it leaves.
        self._patience_s: float | None = None
        #: Whether the exit handlers have begun: nothing interrupts the main thread any more.
        self._is_finishing = False
        self._handlers = self._make_handlers()

    # --- the reading thread ---------------------------------------------------------------------

    def read(self) -> None:
        """Handle the node's messages until it closes the connection; then end this process.

        The process also ends after an error, and the node reports that to the callers. Otherwise it
        would run without reading messages.
        """
        try:
            while (message := self._channel.receive()) is not None:
                if isinstance(message, frames.Unreadable):
                    self._take_unreadable(message)
                else:
                    self._handlers[message[0]](*message[1:])
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(1)

    def _take_unreadable(self, message: frames.Unreadable) -> None:
        """Fail the call that could not be read. The process ends if it is not known which one it is."""
        if not message.kind:
            raise RuntimeError(f"a message could not be read: {message.why}")
        print(f"raycompat: a message could not be read: {message.why}", file=sys.stderr)
        if message.kind == Run.op:
            self.send(Failed.of(message.key, failures.unreadable("The call", message.why)))

    def _make_handlers(self) -> dict[str, Handler]:
        return dict(
            [
                handled(Run, self._put),
                handled(FunctionCode, self._take_function),
                handled(NoFunction, self._miss_function),
                handled(ForgetFunctions, lambda message: self._code.forget(message.functions)),
                handled(Credit, self._take_credit),
                handled(Interrupt, self._cancel),
                handled(BeginLease, self._begin_lease),
                handled(Revoke, self._revoke_lease),
                handled(Abandon, self._abandon_lease),
                handled(KillIfRunning, self._kill_if_running),
                handled(Look, self._tell_what_runs),
                handled(ShowStack, lambda message: self._show_stack()),
                handled(WhatIsOwned, lambda message: self._tell_what_is_owned()),
                handled(Leave, lambda message: self.leave(message.patience_s)),
                handled(EndNow, lambda message: self.end_now(message.limit_s)),
            ]
        )

    def _put(self, work: Run | Lease | None) -> None:
        self._works.append(work)
        self._tokens.put(None)

    def leave(self, patience_s: float | None) -> None:
        """End the process after its work; wait at most so long for the calls that it has made."""
        self._patience_s = patience_s
        if self.actor is not None:
            self.actor.leave()
        self._put(None)

    def _take_function(self, message: FunctionCode) -> None:
        if (request := self._requests.pop(message.function, None)) is not None:
            request.set_result(message.code)

    def _miss_function(self, message: NoFunction) -> None:
        if (request := self._requests.pop(message.function, None)) is not None:
            request.set_exception(exceptions.RaySystemError(message.reason))

    def _take_credit(self, message: Credit) -> None:
        sink = self._sink
        if sink is not None:
            sink.acknowledge(message)

    def _begin_lease(self, message: BeginLease) -> None:
        self.lease = Lease(self, message)
        self.send(Leased(message.key))
        self._put(self.lease)

    def _lease_of(self, key: str) -> Lease | None:
        """Return the lease that this process serves, if it has this key."""
        lease = self.lease
        return lease if lease is not None and lease.key == key else None

    def _revoke_lease(self, message: Revoke) -> None:
        if lease := self._lease_of(message.key):
            lease.revoke()

    def _abandon_lease(self, message: Abandon) -> None:
        if lease := self._lease_of(message.key):
            lease.abandon(message.limit_s)

    def _kill_if_running(self, message: KillIfRunning) -> None:
        if lease := self._lease_of(message.lease):
            lease.kill_if_running(message.call)
        self.send(NotRunning(message.question))

    def _tell_what_runs(self, message: Look) -> None:
        """Send the node the running calls of an actor or a lease, and what this process refers to."""
        serving = self.actor or self.lease
        if serving is not None:
            serving.report_ended()
        running = serving.running if serving is not None else {}
        description = look.describe(self.session, message.most)
        self.send(ExecutorLooked(message.token, running, description))

    def _show_stack(self) -> None:
        serving = self.actor or self.lease
        running = serving.running if serving is not None else {}
        names = {ids.task_hex(key): name for key, (name, _) in running.items()}
        try:
            text = stack.describe(names)
        except Exception as error:  # sources are read by loaders of user code
            text = f"Its stack could not be read: {remote_traceback.said(error)}"
        self.send(StackShown(text))

    def _cancel(self, message: Interrupt) -> None:
        key, recursive = message.key, message.recursive
        self.note_cancelled(key, recursive=recursive)
        if recursive:
            self.session.cancel_children(key)
        self.on_cancel(key)
        if (stop := self.generators.get(key)) is not None:
            stop()
        if self._interruptible == key:
            signal.pthread_kill(threading.main_thread().ident or 0, INTERRUPT)

    # --- the main thread ------------------------------------------------------------------------

    def _interrupt(self, number: int, frame: FrameType | None) -> None:
        if self._is_finishing:
            return
        if self.is_abandoned:
            raise SystemExit(self._chosen_code)
        if self._interruptible in self._cancelled:
            self._interruptible = None
            raise KeyboardInterrupt  # as in Ray: ``except Exception`` does not catch it
        self._pass_on(number, frame)

    def serve(self) -> int:
        """Run calls until the node or user code ends this process; return the exit code."""
        interrupts.handle(INTERRUPT, self._interrupt)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        self._pass_on = signals.install(INTERRUPT)
        threads.start(self.read, "reader")
        title.show(title.IDLE)
        leaves_at_once = False
        try:
            self._run_setup_hook()
            self._serve_calls()
            self.session.wait_until_idle(self._patience_s)
        except SystemExit as exit_:
            self._chosen_code, leaves_at_once = exit_code(exit_), True
        self._finish()  # outside the handler, because the traceback refers to the actor
        if not leaves_at_once:
            self._leave_cluster()
        return self._chosen_code

    def _run_setup_hook(self) -> None:
        """Run the function that the runtime environment names; end the process if it fails."""
        if why := setup_hook.run(self.setup):
            print(f"raycompat: this process ends: {why}", file=sys.stderr, flush=True)
            self.send(Unprepared(why))
            raise SystemExit(1)

    def _finish(self) -> None:
        """Do what user code wants to be done at the end of the process."""
        self._is_finishing = True
        if self.is_abandoned:
            exit_work.run(self.actor, self._limit_s or 0.0, joins_threads=False)
        else:
            self.send(Leaving())
            exit_work.run(self.actor, EXIT_WORK_S, joins_threads=True)

    def _leave_cluster(self) -> None:
        self.session.measurements.flush()
        self.session.tracker.flush()
        if self.actor is None and self.session.is_connected:
            self.session.send(Disown())
        self.session.close()

    def _serve_calls(self) -> None:
        while (work := self._next_work()) is not None:
            if isinstance(work, Lease):
                self._serve_lease(work)
                continue
            self._run_one(work)
            del work
            if self.actor is not None and self.actor.instance is not None:
                self.actor.serve()
                break

    def _next_work(self) -> Run | Lease | None:
        """Wait until there is something to do, and return it."""
        wait = stray.Repeated(self._tokens.get)
        while not self._works:
            wait()
        return self._works.popleft()

    def _serve_lease(self, lease: Lease) -> None:
        is_complete = lease.serve()
        title.show(title.IDLE)
        self.lease = None
        self.session.table.collect_dropped()
        self.session.sharing.wait_until_synced()
        self._report_state()
        self.send(LeaseServed(lease.key, is_complete))

    def _report_state(self) -> None:
        """Report to the node, after a change, what it must know about this process after its calls.

        That is whether other processes need it, and whether it can run more.
        """
        if self.actor is None and (self.is_spent or not self._limits.restore()):
            self.send(Spent())
        if self._owns != look.is_owner(self.session):
            self._tell_what_is_owned()

    def _tell_what_is_owned(self) -> None:
        """Report whether other processes need this one."""
        self._owns = look.is_owner(self.session)
        self.send(Owns(self._owns))

    def _run_one(self, work: Run) -> None:
        message = CallMessage._make(pickle.loads(work.payload))
        role: Role = "function" if work.actor is None else "constructor"
        call = Call(this_process.prepare_call(work), message, work.wires, role)
        work.payload, work.wires = b"", []
        key, name = work.key, work.name
        outcome: Outcome | None = None
        start = time.time()
        this_process.enter(call.running)
        rank.show_cpus(call.running.resources.get("CPU", 0))
        title.show(name)
        try:
            if key in self._cancelled:
                outcome = Outcome.cancelled(key, name)
            elif work.actor is not None:
                self.actor = Actor(self, key, work.actor, work.socket)
                outcome = self.actor.build(call)
            else:
                self._sink = _NodeSink(self, key)
                outcome = run(self, call, self._sink)
            if outcome.refs:
                self.session.sharing.pin(key, outcome.refs)
        except KeyboardInterrupt:  # after the end of the user's code
            if outcome is not None:
                outcome.discard(self)
            outcome = Outcome.cancelled(key, name)
        except SystemExit:
            raise
        except BaseException as error:  # outside the user's code
            outcome = Outcome.of_error(self, call, error)
        finally:
            self._interruptible = self._sink = None
            this_process.leave()
            title.show(self.actor.class_name if self.actor is not None else title.IDLE)
        self._answered = ""
        stray.conclude(lambda: self._answer(key, outcome, start), lambda: self._answered == key)

    def _answer(self, key: str, outcome: Outcome, start: float) -> None:
        self.forget_cancelled(key, outcome)
        self.session.table.collect_dropped()
        self.session.sharing.wait_until_synced()
        self.outputs.flush(key)
        self.outputs.end(key)
        if self.actor is not None and outcome.values is None:
            self.actor.instance = None  # so that it never runs a method
        self._report_state()
        self.send(outcome.message(key, start))
        self._answered = key


class _NodeSink(Sink):
    """A sink that sends the items of a task's generator through the node."""

    def __init__(self, executor: Executor, key: str) -> None:
        self._executor = executor
        self._key = key
        self._window = ItemWindow()
        self._holds: list[Any] = []

    def open(self, max_items: int | None) -> ItemWindow:
        """Return the window of items to send."""
        self._window.max_items = max_items
        return self._window

    def acknowledge(self, message: Credit) -> None:
        """Handle an acknowledgement from the caller. Called in the reading thread."""
        if message.key == self._key:
            self._window.acknowledge(message.num_received, message.is_wanted)

    def wait(self, window: ItemWindow) -> None:
        """Wait for the caller; after a while, lend the CPU."""
        if window.wait(PATIENCE_S):
            return
        session = self._executor.session
        try:
            session.on_block()
            window.wait()
        finally:
            session.on_unblock()

    def go_on_unwanted(self) -> None:
        """Lend the CPUs. Another thread reads the node's messages."""
        self._executor.lend_cpus()

    def close(self) -> None:
        """Stop sending items."""
        self._executor.take_cpus_back()

    def item(self, index: int, wire: Wire, outcome: Outcome) -> None:
        """Send one item; its references live as long as the generator, and are then pinned."""
        self._executor.end_if_forked()
        session = self._executor.session
        if outcome.refs:
            session.sharing.pin(self._key, outcome.refs)
            self._holds += outcome.holds
        session.sharing.wait_until_synced()
        self._executor.send(ItemYielded(self._key, index, wire))


def _import_as_the_driver(setup: ExecutorSetup) -> None:
    """Import the modules of the environment first, then those of the driver, then those of the node."""
    program = setup.program
    others = [path for path in program.sys_path if path not in sys.path]
    paths = [*program.own_paths, *others, *sys.path, *setup.node_paths]
    hidden = {*program.hidden_paths, *setup.env_paths} - {str(Path(__file__).parents[2])}
    seen_first = [*setup.env_paths, *program.search_path]
    paths = [*seen_first, *(path for path in paths if path not in hidden)]
    sys.path[:] = dict.fromkeys(paths)
    import_paths.forget_hidden(program.hiding_modules)


def serve(connection: socket.socket, setup: ExecutorSetup) -> int:
    """Run as an executor until the node ends it; return the exit code."""
    settings = setup.settings
    if settings["ray_version"] is not None:
        era.choose(settings["ray_version"])
    if settings["as_ray"]:
        install_as_ray()
    forms.ask_with(first_uses.is_first, settings["old_forms"])
    _import_as_the_driver(setup)
    sys.argv = list(setup.program.argv)
    outputs = Outputs()
    if setup.cwd not in (None, import_paths.current_folder()):
        try:
            os.chdir(setup.cwd)
        except OSError as error:
            print(f"raycompat: no folder of the driver on this node: {error}", file=sys.stderr)
    executor = Executor(connection, setup, outputs)
    this_process.set_executor(executor)
    debugger.install()
    if setup.program.logging is not None:
        from raycompat._caller.log_context import CoreContextFilter
        from raycompat._protocol.logging_config import LoggingConfig

        LoggingConfig.from_dict(setup.program.logging)._apply(CoreContextFilter())
    return executor.serve()
