"""Processes that run calls, as models: they speak the messages of real executors.

What a call does is in its arguments, which are JSON: how long it lasts and how it ends.
"""

from __future__ import annotations

import asyncio
import json
import pickle
from collections import deque
from collections.abc import Callable
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Protocol

from connections import Network, Pipe
from virtual_time import CLOCK

from raycompat._executor.item_window import ItemWindow
from raycompat._messages import direct
from raycompat._messages.calls import Blocked, Credit, Unblocked
from raycompat._messages.direct import CallMessage
from raycompat._messages.executors import (
    Abandon,
    BeginLease,
    Failed,
    Interrupt,
    ItemYielded,
    KillIfRunning,
    LeaseServed,
    NotRunning,
    Run,
    Succeeded,
)
from raycompat._messages.leases import LeaseTrimmed, Revoke
from raycompat._node.executor_pool import ExecutorDied, describe_exit
from raycompat._protocol import failures, item_credit
from raycompat._protocol.connection import Notes, post_and_note
from raycompat._protocol.resource_set import LeaseKind, ResourceSet

if TYPE_CHECKING:
    from nodes import Pool

#: How a killed process ends.
KILLED = -9

#: Seconds in which calls gather that are not written at once.
_GATHER_S = 0.0005

#: Seconds after which a call is long, and seconds between two looks while it runs, as in an executor.
_LONG_S, _LONGER_S = 0.005, 0.05

#: Seconds that an executor waits, after the end of a lease, for its caller to close.
_DRAIN_S = 5.0

#: The value of a call with a small result.
SMALL = ("inline", b"value", ())


def call_message(key: str, does: dict[str, Any], units: int = 0) -> CallMessage:
    """Return the message of a call without arguments that are references."""
    arguments = json.dumps(does).encode()
    return CallMessage(
        direct.CALL,
        key,
        "f",
        "f",
        1,
        None,
        None,
        arguments,
        (),
        False,
        1,
        False,
        None,
        units,
        False,
    )


def _does(arguments: bytes | None) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(arguments or b"")
    return found


class Party(Protocol):
    """The caller's end of a connection, as `_caller.connections.Party` describes it."""

    def on_message(self, message: Any) -> None:
        """Handle one message of the process."""

    def disconnected(self, connection: Any) -> None:
        """Handle the end of the process."""


class CallConnection:
    """A caller's connection to a process, which the product's parts of a caller use."""

    def __init__(self, network: Network, party: Party, serving: Serving) -> None:
        self.party = party
        self._serving = serving
        self._posted: list[Any] = []
        self._is_due = False
        self._to_process = Pipe(network, self._arrive)
        self._to_caller = Pipe(network, self._receive)
        self.is_closed = False
        serving.callers.append(self)

    # --- the caller's end -----------------------------------------------------------------------

    def post(self, message: Any, *, now: bool, notes: Notes = ()) -> None:
        post_and_note(self._posted, message, notes)
        if now:
            self.flush()
        elif not self._is_due:
            self._is_due = True
            asyncio.get_running_loop().call_later(_GATHER_S, self.flush)

    def flush(self) -> None:
        self._is_due = False
        posted = self._posted.copy()
        self._posted.clear()
        if posted:
            self._to_process.send(posted)

    def receive_until(self, is_over: Callable[[], bool], timeout_s: float | None) -> bool:
        return False

    @property
    def is_silent(self) -> bool:
        return self._to_caller.is_read

    def close(self) -> None:
        if not self.is_closed:
            self.is_closed = True
            self._to_caller.cut()
            self._to_process.send(None)

    def hold(self, *, held: bool) -> None:
        """Keep what the caller should receive, because it is stopped, or let it receive again."""
        if held:
            self._to_caller.hold()
        else:
            self._to_caller.release()

    def _receive(self, message: Any) -> None:
        if message is None:
            self.party.disconnected(self)
        else:
            self.party.on_message(message)

    # --- the end of the process -----------------------------------------------------------------

    def _arrive(self, messages: list[Any] | None) -> None:
        if messages is None:
            self._serving.lost(self)
            return
        for message in messages:
            self._serving.take(self, message)

    def tell(self, message: direct.FromProcess) -> None:
        """Send an answer to the caller."""
        self._to_caller.send(message)

    def end(self) -> None:
        """Close the connection at the end of the process. What it has sent still arrives."""
        self._to_process.cut()
        self._to_caller.send(None)


class Generator:
    """A call that yields items, while its window has room."""

    def __init__(
        self,
        executor: Executor,
        call: CallMessage,
        does: dict[str, Any],
        tell: Callable[[int, Any], None],
        finish: Callable[[], None],
    ) -> None:
        self.window = ItemWindow()
        self.window.max_items = call.max_items
        self.window.notify = self._go_on
        self._executor, self._does = executor, does
        self._tell, self._finish = tell, finish
        self._is_waiting = False
        self._timer: asyncio.TimerHandle | None = None
        self._number = 0
        self._wait()

    def _wait(self) -> None:
        delay_s = self._does["lasts_s"] / (self._does["items"] + 1)
        self._timer = asyncio.get_running_loop().call_later(delay_s, self._step)

    def _step(self) -> None:
        if self._number == self._does["items"]:
            self._finish()
        elif self.window.may_go_on:
            self._yield()
        else:
            self._is_waiting = True

    def _yield(self) -> None:
        if self.window.is_wanted:
            try:
                wire = self._executor.result(self._does)
            except OSError:
                self._does["how"] = "fails"
                self._finish()
                return
            self.window.note_sent(item_credit.cost_of(wire))
            self._tell(self._number, wire)
        self._number += 1
        self._wait()

    def _go_on(self) -> None:
        if self._is_waiting and self.window.may_go_on:
            self._is_waiting = False
            self._yield()

    def close(self) -> None:
        """End it."""
        self._is_waiting = False
        if self._timer is not None:
            self._timer.cancel()


class Work:
    """What the running call of a process waits for: timers, and the items of a generator."""

    def __init__(self) -> None:
        self._timers: list[asyncio.TimerHandle] = []
        self.generator: Generator | None = None

    def __bool__(self) -> bool:
        return bool(self._timers) or self.generator is not None

    def later(self, delay_s: float, function: Callable[..., Any], *arguments: Any) -> None:
        """Call a function later, unless the call ends before."""
        timer = asyncio.get_running_loop().call_later(delay_s, function, *arguments)
        self._timers.append(timer)

    def stop(self) -> None:
        """Wait for nothing any more."""
        for timer in self._timers:
            timer.cancel()
        self._timers.clear()
        if self.generator is not None:
            self.generator.close()
            self.generator = None


class Serving:
    """What a process serves: the calls of its callers, one after the other."""

    def __init__(self, executor: Executor, key: str, socket: str) -> None:
        self.key = key
        self.callers: list[CallConnection] = []
        self.running: CallMessage | None = None
        self.is_over = False
        self._executor = executor
        self._world = executor.world
        self._socket = socket
        self._waiting: deque[tuple[CallConnection, CallMessage]] = deque()
        self._cancelled: set[str] = set()
        self._work = Work()
        self._stop: Callable[[], None] = lambda: None
        self._world.sockets[socket] = self

    def take(self, caller: CallConnection, message: Any) -> None:
        """Handle a message of a caller."""
        if self.is_over:
            return
        match message:
            case (direct.CALL, *_):
                self._waiting.append((caller, CallMessage(*message)))
                self.next()
            case (direct.CREDIT, key, num_received, is_wanted):
                running = self.running
                if self._work.generator is not None and running is not None and running.key == key:
                    self._work.generator.window.acknowledge(num_received, is_wanted)

    def lost(self, caller: CallConnection) -> None:
        """Handle the end of a caller."""
        if caller in self.callers:
            self.callers.remove(caller)

    def next(self) -> None:
        """Begin the next call, or end."""
        raise NotImplementedError

    def leave(self) -> None:
        """End after the running call."""
        raise NotImplementedError

    def _note(self, call: CallMessage) -> float:
        """Return the number with which an answer ends."""
        raise NotImplementedError

    def _begin(self, caller: CallConnection, call: CallMessage) -> None:
        if call.key in self._cancelled:
            self._answer_cancelled(caller, call)
            return
        self.running = call
        self._world.note(f"{self._executor.name} runs {call.key} of {self.key}")
        self._world.begins(self.key, call)
        does = _does(call.arguments)
        self._stop = lambda: self._answer_cancelled(caller, call)
        if call.num_returns == "streaming":
            self._work.generator = Generator(
                self._executor,
                call,
                does,
                lambda index, wire: caller.tell((direct.ITEM, call.key, index, wire)),
                lambda: self._finish(caller, call, does),
            )
        else:
            self._work.later(does["lasts_s"], self._finish, caller, call, does)

    def _finish(self, caller: CallConnection, call: CallMessage, does: dict[str, Any]) -> None:
        if self._executor.crashes(does):
            return
        self._end_call()
        wire, error = self._executor.outcome(call, does)
        if error is not None:
            caller.tell((direct.FAILED, call.key, error, False, self._note(call)))
        else:
            caller.tell((direct.DONE, call.key, [wire], self._note(call)))
        self.next()

    def _end_call(self) -> None:
        self.running = None
        self._work.stop()

    def _answer_cancelled(self, caller: CallConnection, call: CallMessage) -> None:
        self._cancelled.discard(call.key)
        error = failures.cancelled(call.key)
        caller.tell((direct.FAILED, call.key, error, False, self._note(call)))
        self.next()

    def interrupt(self, key: str) -> None:
        """Cancel a call that runs, waits, or has not arrived."""
        self._cancelled.add(key)
        if self.running is not None and self.running.key == key:
            self._end_call()
            self._stop()

    def close(self) -> None:
        """Take no more callers, and end the connections."""
        self.is_over = True
        self._world.sockets.pop(self._socket, None)
        self._end_call()
        for caller in self.callers:
            caller.end()


class LeaseServing(Serving):
    """A lease in its executor, as `_executor.run_leased` serves it."""

    def __init__(self, executor: Executor, begin: BeginLease) -> None:
        super().__init__(executor, begin.key, begin.socket)
        resources = ResourceSet.from_amounts(begin.resources)
        self._units = resources.get(LeaseKind.of(resources).varies)
        self._since_s = 0.0
        self._is_open = True
        self._is_leaving = self._is_ending = False

    def take(self, caller: CallConnection, message: Any) -> None:
        if message[0] == direct.RETURN:
            self.leave()
        elif not self._is_ending:
            super().take(caller, message)

    def lost(self, caller: CallConnection) -> None:
        super().lost(caller)
        if self._is_ending:
            self._end_when_closed()
        elif not self.callers:
            self._is_leaving = True
            self.next()

    def _note(self, call: CallMessage) -> float:
        return max(0.0, CLOCK.now - self._since_s)

    def next(self) -> None:
        if self.running is not None or self.is_over or self._is_ending:
            return
        if self._is_leaving:
            self._end()
            return
        arrival, too_large = None, []
        while self._waiting and arrival is None:
            caller, call = self._waiting.popleft()
            if call.units > self._units:
                too_large.append((caller, call))
            else:
                arrival = caller, call
        if too_large:
            self._is_open = False
            self._return(too_large)
        elif not self._is_open:
            self._is_open = True
            for caller in self.callers:
                caller.tell((direct.OPEN,))
        if arrival is not None:
            self._since_s = CLOCK.now
            self._begin(*arrival)
            if self.running is not None:
                self._work.later(_LONG_S, self._look)

    def _look(self) -> None:
        """Return the calls behind one that runs for long."""
        if self.running is not None:
            self._trim()
            self._give_back()
            self._work.later(_LONGER_S, self._look)

    def _trim(self) -> None:
        if self.running is not None and self.running.units < self._units:
            self._units = self.running.units
            for caller in self.callers:
                caller.tell((direct.TRIMMED, self._units))
            self._executor.tell(LeaseTrimmed(self.key, self._units))

    def _give_back(self) -> None:
        if self._is_open or self._waiting:
            self._is_open = False
            arrivals = list(self._waiting)
            self._waiting.clear()
            self._return(arrivals)

    def _return(self, arrivals: list[tuple[CallConnection, CallMessage]]) -> None:
        for caller in self.callers:
            calls = [(call.key, call.attempt) for by, call in arrivals if by is caller]
            caller.tell((direct.RETURNED, calls))

    def leave(self) -> None:
        self._is_leaving = True
        if self.running is not None:
            self._give_back()
        self.next()

    def _end(self) -> None:
        self._give_back()
        self._is_ending = True
        self._world.sockets.pop(self._socket, None)
        for caller in self.callers:
            caller.tell((direct.BYE,))
        asyncio.get_running_loop().call_later(_DRAIN_S, self._served)
        self._end_when_closed()

    def _end_when_closed(self) -> None:
        if not self.callers:
            self._served()

    def _served(self) -> None:
        if not self.is_over:
            self.close()
            self._executor.answer_lease(self.key)


class ActorServing(Serving):
    """An actor that runs the calls of all callers in order."""

    _is_leaving = False

    def _note(self, call: CallMessage) -> float:
        return call.attempt

    def _begin(self, caller: CallConnection, call: CallMessage) -> None:
        super()._begin(caller, call)
        if self.running is call and call.attempt == 1:
            self._world.begins_in_order(caller.party, call.key)

    def next(self) -> None:
        if self.running is not None or self.is_over:
            return
        if self._is_leaving:
            self._executor.die(0)
        elif self._waiting:
            self._begin(*self._waiting.popleft())

    def interrupt(self, key: str) -> None:
        for arrival in self._waiting:
            if arrival[1].key == key:
                self._waiting.remove(arrival)
                self._answer_cancelled(*arrival)
                return
        super().interrupt(key)

    def leave(self) -> None:
        self._is_leaving = True
        self.next()


class Executor:
    """A process that runs calls."""

    def __init__(self, pool: Pool, kind: tuple[Any, ...], pid: int) -> None:
        self.kind, self.pid = kind, pid
        self.world = pool.node.world
        self.name = f"{pool.node.name}/{pid}"
        self.calls_begun, self.idle_since = 0, 0.0
        self.ended: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self.alive, self.is_ending = True, False
        self.owns = self.is_spent = False
        self.ended_for_memory = ""
        self.logs = SimpleNamespace(begin=lambda name, key: None)
        self._pool = pool
        self._outcomes: dict[str, asyncio.Future[Any]] = {}
        self._inbox = Pipe(self.world.network, self._take)
        self._outbox = Pipe(self.world.network, self._answered)
        #: The call that runs, and what ends it.
        self._running: str | None = None
        self._work = Work()
        self._is_leaving = False
        #: The lease or actor that is served.
        self.serving: Serving | None = None

    # --- the node's end -------------------------------------------------------------------------

    def send(self, message: Any) -> None:
        self._inbox.send(message)

    async def call(self, key: str, message: Any) -> Any:
        outcome = self._outcomes[key] = asyncio.get_running_loop().create_future()
        self.calls_begun += 1
        self.send(message)
        if not self.alive:
            code = await asyncio.shield(self.ended)
            raise ExecutorDied(describe_exit(code), code)
        try:
            return await outcome
        finally:
            self._outcomes.pop(key, None)

    def leave(self, *, soon: bool = True) -> None:
        """End after the calls that it has."""
        self.is_ending = True
        self._inbox.send("leave")

    def end(self) -> None:
        """End soon, also during a call."""
        self.is_ending = True
        self._inbox.send("end")

    def _answered(self, message: Any) -> None:
        if isinstance(message, Blocked | Unblocked | LeaseTrimmed):
            self._pool.node.tell(message)
        elif isinstance(message, ItemYielded):
            self._pool.node.on_item(message)
        elif isinstance(message, tuple):
            self._pool.node.leases.begun(message[1])
        else:
            outcome = self._outcomes.get(message.key)
            if outcome is not None and not outcome.done():
                outcome.set_result(message)

    # --- the process ----------------------------------------------------------------------------

    def tell(self, message: Any) -> None:
        """Send a message to the node."""
        self._outbox.send(message)

    def _take(self, message: Any) -> None:
        if not self.alive:
            return
        match message:
            case "end":
                self.die(0)
            case "leave":
                self._is_leaving = True
                if self.serving is not None:
                    self.serving.leave()
                elif self._running is None:
                    self.die(0)
            case Run():
                self._run(message)
            case BeginLease():
                self.serving = LeaseServing(self, message)
                self.tell(("leased", message.key))
            case KillIfRunning():
                self._kill_if_running(message)
            case Interrupt():
                self._interrupt(message.key)
            case Credit() if self._work.generator is not None and self._running == message.key:
                self._work.generator.window.acknowledge(message.num_received, message.is_wanted)
            case Abandon() if self.serving is not None and self.serving.running is not None:
                self.die(0)
            case Revoke() | Abandon() if self.serving is not None:
                self.serving.leave()

    def _kill_if_running(self, message: KillIfRunning) -> None:
        serving = self.serving
        if serving is not None and serving.running and serving.running.key == message.call:
            self.die(KILLED)
            return
        if serving is not None:
            serving.interrupt(message.call)  # it may be about to begin
        self.tell(NotRunning(message.question))

    def _run(self, message: Run) -> None:
        call = CallMessage(*pickle.loads(message.payload))
        does = _does(call.arguments)
        self.world.note(f"{self.name} runs {message.key}")
        self.world.runs(message.key)
        self._running = message.key
        later, lasts_s = self._work.later, does["lasts_s"]
        if does.get("blocks"):
            begin, end = Blocked(message.key), Unblocked(message.key)
            later(lasts_s * 0.3, self.tell, begin)
            later(lasts_s * 0.8, self.tell, end)
        if call.num_returns == "streaming":
            self._work.generator = Generator(
                self,
                call,
                does,
                lambda index, wire: self.tell(ItemYielded(message.key, index, wire)),
                lambda: self._finish(message, {**does, "size": 0}),
            )
        else:
            later(lasts_s, self._finish, message, does)

    def _finish(self, message: Run, does: dict[str, Any]) -> None:
        self._work.stop()
        key = message.key
        if self.crashes(does):
            return
        self._running = None
        if message.actor is None:
            call = CallMessage(*pickle.loads(message.payload))
            wire, error = self.outcome(call, does)
        else:
            wire, error = None, self._planned(message.name, does)
        if error is not None:
            self.tell(Failed(key, error, "as planned"))
        elif message.actor is None:
            self.tell(Succeeded(key, [wire], ()))
        else:
            self.serving = ActorServing(self, key, self._pool.node.sockets[key])
            self.tell(Succeeded(key, [], ()))
        if self._is_leaving:
            self.die(0)

    def crashes(self, does: dict[str, Any]) -> bool:
        """End the process if a call does that, and return whether it does."""
        how, first = does["how"], does["state"] not in self.world.seen
        if how == "crashes" or (how == "crashes once" and first):
            self.world.seen.add(does["state"])
            self.die(1)
            return True
        return False

    @staticmethod
    def _planned(name: str, does: dict[str, Any]) -> bytes | None:
        return failures.crashed(name, "failed as planned") if does["how"] == "fails" else None

    def outcome(
        self, call: CallMessage, does: dict[str, Any]
    ) -> tuple[tuple[Any, ...] | None, bytes | None]:
        """Return the result of a call, or its error."""
        error = self._planned(call.name, does)
        if error is not None:
            return None, error
        try:
            return SMALL if call.num_returns == "streaming" else self.result(does), None
        except OSError as full:
            return None, failures.crashed(call.name, str(full))

    def result(self, does: dict[str, Any]) -> tuple[Any, ...]:
        """Return a value of a call, as it travels.

        Raises
        ------
        OSError
            When the store is full.
        """
        size = does.get("size", 0)
        return self._pool.node.store.write(self.name, size) if size else SMALL

    def _interrupt(self, key: str) -> None:
        if self.serving is not None:
            self.serving.interrupt(key)
        elif self._running == key and self._work:
            self._work.stop()
            self._running = None
            self.tell(Failed(key, failures.cancelled(key), "cancelled"))

    def answer_lease(self, key: str) -> None:
        """Report the end of a lease."""
        self.serving = None
        self.tell(LeaseServed(key, is_complete=True))

    def die(self, code: int) -> None:
        """End the process; the node hears of it soon."""
        if not self.alive:
            return
        self.world.note(f"{self.name} ends with {code}")
        self.alive = False
        self._work.stop()
        self._inbox.cut()
        if self.serving is not None:
            self.serving.close()
            self.serving = None
        at = max(CLOCK.now + self.world.network.delay(), self._outbox.arrives_last)
        asyncio.get_running_loop().call_at(at + 1e-6, self._reaped, code)

    def _reaped(self, code: int) -> None:
        self._outbox.cut()
        self._pool.forget(self)
        if not self.ended.done():
            self.ended.set_result(code)
        for outcome in self._outcomes.values():
            if not outcome.done():
                outcome.set_exception(ExecutorDied(describe_exit(code), code))

    @property
    def runs(self) -> str | None:
        """The call, lease or actor that uses this process."""
        return self._running or (self.serving.key if self.serving is not None else None)
