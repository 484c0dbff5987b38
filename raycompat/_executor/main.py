"""An executor: one process that runs calls, one at a time, in its main thread.

A second thread reads what the node says. It queues calls for the main thread, delivers functions, and
on a cancellation interrupts the main thread, if it is still in that call's user code.
"""

from __future__ import annotations

import os
import pickle
import queue
import signal
import socket
import sys
import threading
from concurrent.futures import Future
from typing import Any

from raycompat._caller import session as sessions
from raycompat._executor import context
from raycompat._executor.run_actor import ActorState
from raycompat._executor.run_call import Outcome, run
from raycompat._protocol import failures, frames
from raycompat._protocol.values import StorePlace

_INTERRUPT = signal.SIGUSR2


class Executor:
    """See the module."""

    def __init__(self, connection: socket.socket, setup: dict[str, Any]) -> None:
        self.setup = setup
        self.actor = ActorState()
        self._channel = frames.BlockingChannel(connection)
        self._send_lock = threading.Lock()
        self._calls: queue.SimpleQueue[tuple[Any, ...] | None] = queue.SimpleQueue()
        self._functions: dict[str, Future[bytes]] = {}
        self._loaded: dict[str, Any] = {}
        self._cancelled: set[str] = set()
        #: Key of the call whose user code the main thread runs just now.
        self._interruptible: str | None = None
        self.session = self._make_session()

    def _make_session(self) -> sessions.Session:
        setup = self.setup
        session = sessions.Session(
            sessions.Setup(
                job=setup["job"],
                namespace=setup["namespace"],
                node_id=setup["node_id"],
                node_address=setup["node_address"],
                place=StorePlace(*setup["place"]),
                scheduler=setup["scheduler"],
                is_driver=False,
                extra=setup,
            )
        )
        session.current_task = context.current_task
        session.on_block = lambda: self._tell_of_block("blocked")
        session.on_unblock = lambda: self._tell_of_block("unblocked")
        session.on_hand_over = lambda wire: self.send("hand-over", "", wire)
        sessions.set_current(session)
        return session

    def _tell_of_block(self, operation: str) -> None:
        call = context.current()
        # As in Ray, an actor keeps what it has; only tasks lend their CPUs.
        if call is None or call.actor is not None:
            return
        if threading.current_thread() is threading.main_thread():
            self.send(operation, call.key)

    def send(self, *message: Any) -> None:
        """Send one message to the node, from any thread."""
        with self._send_lock:
            self._channel.send(message)

    # --- the reading thread ---------------------------------------------------------------------

    def read(self) -> None:
        """Take what the node says until it closes the connection: then this process ends."""
        while (message := self._channel.receive()) is not None:
            operation, *rest = message
            if operation == "run":
                self._calls.put(tuple(rest))
            elif operation == "function":
                self._functions[rest[0]].set_result(rest[1])
            elif operation == "cancel":
                self._cancel(*rest)
            elif operation == "exit":
                self._calls.put(None)
        os._exit(1)

    def _cancel(self, key: str, recursive: bool) -> None:
        self._cancelled.add(key)
        if recursive:
            for call in list(self.session.calls.values()):
                if call.parent == key:
                    self.session.cancel(call.key, force=False, recursive=True)
        if self._interruptible == key:
            signal.pthread_kill(threading.main_thread().ident or 0, _INTERRUPT)

    # --- the main thread ------------------------------------------------------------------------

    def _interrupt(self, *_: Any) -> None:
        if self._interruptible in self._cancelled:
            self._interruptible = None
            raise KeyboardInterrupt  # as in Ray: ``except Exception`` does not catch it

    def serve(self) -> int:
        """Run calls until told to leave; return the exit code."""
        signal.signal(_INTERRUPT, self._interrupt)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        threading.Thread(target=self.read, name="raycompat-reader", daemon=True).start()
        while (work := self._calls.get()) is not None:
            key, payload, wires, about = work
            self._run_one(key, pickle.loads(payload), wires, about)
            del work, payload, wires, about
            if self.actor.exit_error is not None:
                break
        self.session.wait_until_idle()
        self.session.close()
        return 0

    def _run_one(
        self, key: str, payload: dict[str, Any], wires: list[Any], about: dict[str, Any]
    ) -> None:
        call = context.enter(key, about, self.setup)
        try:
            if key in self._cancelled:
                outcome = Outcome.cancelled(key, about["name"])
            else:
                outcome = run(self, call, payload, wires)
            if outcome.refs:
                self.session.pin(key, outcome.refs)
        except KeyboardInterrupt:  # between the end of the user's code and ours
            outcome = Outcome.cancelled(key, about["name"])
        finally:
            self._interruptible = None
            context.leave()
        self._cancelled.discard(key)
        self.session.table.collect_dropped()
        self.session.hand_over()
        _flush_output()
        if self.actor.exit_error is not None:
            self.send("exiting", call.actor or key, self.actor.exit_error)
        self.send(*outcome.message(key))

    def begin_user_code(self, key: str) -> None:
        """From now on a cancellation of `key` interrupts the main thread."""
        self._interruptible = key
        if key in self._cancelled:
            self._interrupt()

    def end_user_code(self) -> None:
        """From now on a cancellation comes too late."""
        self._interruptible = None

    def load(self, function: str) -> Any:
        """Return the function or class of that id, asking the node for it at the first need.

        Raises
        ------
        Exception
            Whatever its unpickling raises: modules that are missing here, for example.
        """
        if function in self._loaded:
            return self._loaded[function]
        if function not in self._functions:
            self._functions[function] = Future()
            self.send("function", function)
        references = self.session.num_restored
        loaded = pickle.loads(self._functions[function].result())
        if self.session.num_restored == references:
            self._loaded[function] = loaded
            del self._functions[function]
        # Otherwise it is made anew for each call, so that it keeps no object alive in between.
        return loaded

    def is_cancelled(self, key: str) -> bool:
        """Whether somebody wants the running call to end."""
        return key in self._cancelled

    def leave_actor(self, text: str) -> None:
        """End this actor's process once the running call has been answered."""
        call = context.current()
        self.actor.exit_error = failures.actor_died(text, call.actor if call else None)


def _flush_output() -> None:
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError):  # user code has closed it
            continue


_executor: Executor | None = None


def current() -> Executor | None:
    """Return this process's executor; None in drivers."""
    return _executor


def serve(connection: socket.socket, setup: dict[str, Any]) -> int:
    """Be an executor until the node says otherwise; return the exit code."""
    global _executor
    sys.path[:0] = [path for path in setup["sys_path"] if path not in sys.path]
    sys.argv = setup["argv"]
    for name in ("stdout", "stderr"):
        stream = os.fdopen(1 if name == "stdout" else 2, "w", buffering=1, closefd=False)
        setattr(sys, name, stream)
    try:
        os.chdir(setup["cwd"])
    except OSError as error:
        print(f"raycompat: the driver's folder is not here: {error}", file=sys.stderr)
    _executor = Executor(connection, setup)
    context.set_executor(_executor)
    return _executor.serve()
