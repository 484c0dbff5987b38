"""How an actor runs its calls: one after the other, in threads, or as coroutines.

Each function takes calls from the `Mailbox` in the main thread until the actor leaves:

* `serve_in_order`: for synchronous methods without concurrency options. The main thread runs each call.
* `serve_in_threads`: for `max_concurrency` or concurrency groups. Each group has its own threads.
* `serve_in_loops`: for actors with an ``async def`` method. The main thread runs an event loop; each
  concurrency group has its own thread and loop.

In all of them each call of `SYSTEM_GROUP` has its own thread.
"""

from __future__ import annotations

import asyncio
import queue
import threading
from collections import deque
from collections.abc import Callable, Coroutine, Iterable
from typing import Any, NamedTuple, NoReturn

from raycompat._executor import stray, threads
from raycompat._executor.mailbox import Caller, Mailbox
from raycompat._messages.direct import CallMessage
from raycompat._protocol.actor_about import SYSTEM_GROUP

#: Seconds between two calls of `on_idle` in an actor with event loops.
_TICK_S = 0.5

#: A call as it arrives; functions that run one and send its answer.
Arrival = tuple[Caller, CallMessage]
Run = Callable[[Caller, CallMessage], None]
RunAsync = Callable[[Caller, CallMessage], Coroutine[Any, Any, None]]


def _run_in_turn(mailbox: Mailbox, run: Run, caller: Caller, message: CallMessage) -> None:
    """Run a call in the main thread, which cannot read meanwhile."""
    if mailbox.beside is not None:
        mailbox.beside.begin()
    try:
        run(caller, message)
    finally:
        if mailbox.beside is not None:  # the call may have made it
            mailbox.beside.end()


def start_beside(run: Run, caller: Caller, message: CallMessage) -> None:
    """Run a call of `SYSTEM_GROUP` in a separate thread, which does not keep the process alive."""
    threads.start(run, message.name, caller, message)


def serve_in_order(
    mailbox: Mailbox, run: Run, run_beside: Run, is_leaving: Callable[[], bool]
) -> None:
    """Run calls one after the other."""

    def look() -> None:
        if not mailbox.calls and mailbox.taken is None:
            mailbox.wait()
            return
        mailbox.read_arrived_sometimes()
        arrival = mailbox.take()
        if arrival is None:  # it was cancelled
            return
        caller, message = arrival
        if message.group == SYSTEM_GROUP:
            mailbox.taken = None
            start_beside(run_beside, caller, message)
        else:
            _run_in_turn(mailbox, run, caller, message)

    step = stray.Repeated(look)
    while not is_leaving():
        step()


class _Threads:
    """The threads of one group, which are started when calls need them."""

    def __init__(self, name: str, size: int, run: Run) -> None:
        self._name = name
        self._size = size
        self._run = run
        self._calls: deque[Arrival] = deque()
        #: At least one token for each call in `_calls`. A thread that gets a token may find no call.
        self._tokens: queue.SimpleQueue[None] = queue.SimpleQueue()
        #: One permit for each thread that waits for a token.
        self._idle = threading.Semaphore(0)
        self._threads: list[threading.Thread] = []
        self._is_leaving = False

    def submit(self, arrival: Arrival) -> None:
        """Let a thread run a call."""
        self._calls.append(arrival)
        self._tokens.put(None)
        if len(self._threads) < self._size and not self._idle.acquire(blocking=False):
            try:
                thread = threads.start(self._work, self._name)
            except RuntimeError:  # the system allows no more threads
                if not self._threads:
                    raise
            else:
                self._threads.append(thread)

    def _work(self) -> None:
        while not self._is_leaving:
            try:
                if not self._calls:
                    self._idle.release()
                self._tokens.get()
                arrival = self._calls.popleft()
            except BaseException as error:
                self._idle.acquire(blocking=False)
                if not isinstance(error, IndexError):  # it may have come with a token
                    self._tokens.put(None)
                    stray.report()
                continue
            self._run(*arrival)
            del arrival

    def leave(self) -> None:
        """Start no more calls."""
        self._is_leaving = True
        for _ in self._threads:
            self._tokens.put(None)

    def join(self) -> None:
        """Wait until the running calls have ended."""
        for thread in self._threads:
            thread.join()


def serve_in_threads(
    mailbox: Mailbox, run: Run, is_leaving: Callable[[], bool], sizes: dict[str | None, int]
) -> None:
    """Run the calls of each group in as many threads as `sizes` says."""
    groups = {group: _Threads(group or "call", size, run) for group, size in sizes.items()}
    calls = mailbox.calls
    wait = stray.Repeated(mailbox.wait)
    while not is_leaving():
        while calls:
            caller, message = calls.popleft()
            if message.group == SYSTEM_GROUP:
                start_beside(run, caller, message)
            else:
                groups[message.group].submit((caller, message))
        wait()
    for each in groups.values():
        each.leave()
    is_over = threading.Event()

    def wait_for_calls() -> None:
        for each in groups.values():
            each.join()
        is_over.set()
        mailbox.wake()

    threads.start(wait_for_calls, "leaving")
    mailbox.wait_until(is_over.is_set)  # generators need their consumers' messages


class Runner(NamedTuple):
    """The functions of an actor that its event loops use."""

    #: Run a call as a coroutine, and answer it.
    run: RunAsync
    #: Run a call of `SYSTEM_GROUP` in its thread.
    run_beside: Run
    #: Answer a call that was cancelled before it ran.
    answer_cancelled: Run
    #: End the process, because user code raised `SystemExit` or the actor cannot serve.
    end: Callable[[BaseException], NoReturn]


class _Loop:
    """The coroutines of one group: a limited number at a time, started in the order of arrival."""

    def __init__(self, loop: asyncio.AbstractEventLoop, limit: int, runner: Runner) -> None:
        self.loop = loop
        self.running: dict[str, asyncio.Task[None]] = {}
        self._limit = limit
        self._runner = runner
        self._waiting: deque[Arrival] = deque()
        #: Called once, when the actor leaves and the last call has ended.
        self._on_over: Callable[[], None] | None = None
        #: Whether the actor leaves and no call runs.
        self.is_over = False

    def leave(self, on_over: Callable[[], None]) -> None:
        """Start no more calls, and call `on_over` when the last one has ended. Runs in the loop."""
        self._on_over = on_over
        self._waiting.clear()
        self._check_over()

    def _check_over(self) -> None:
        if self._on_over is not None and not self.running and not self.is_over:
            self.is_over = True
            self._on_over()

    def submit(self, arrival: Arrival) -> None:
        """Start a call, now or when there is room; none when the actor leaves. Runs in the loop."""
        if self._on_over is not None:
            return
        if len(self.running) >= self._limit or self._waiting:
            self._waiting.append(arrival)
        else:
            self._begin(arrival)

    def _begin(self, arrival: Arrival) -> None:
        caller, message = arrival
        key = message.key
        self.running[key] = task = self.loop.create_task(self._runner.run(caller, message))
        task.add_done_callback(lambda task: self._end(arrival, task))

    def _end(self, arrival: Arrival, task: asyncio.Task[None]) -> None:
        self.running.pop(arrival[1].key, None)
        if task.cancelled():  # by user code, before its first step
            self._runner.answer_cancelled(*arrival)
        elif (error := task.exception()) is not None:
            self._runner.end(error)
        while self._waiting and len(self.running) < self._limit:
            self._begin(self._waiting.popleft())
        self._check_over()

    def cancel(self, key: str) -> None:
        """Cancel a running call. Runs in the loop."""
        task = self.running.get(key)
        if task is not None:
            self.loop.call_soon(task.cancel)  # after its first step; otherwise it could not answer


def _have_left(groups: Iterable[_Loop], on_over: Callable[[], None]) -> bool:
    """Let each group leave; return whether all have left. `on_over` is called when one has."""
    for each in groups:
        each.loop.call_soon_threadsafe(each.leave, on_over)
    return all(each.is_over for each in groups)


def _start_loops(
    runner: Runner, limits: dict[str | None, int], main_loop: asyncio.AbstractEventLoop
) -> dict[str | None, _Loop]:
    groups: dict[str | None, _Loop] = {}
    for group, limit in limits.items():
        loop = main_loop if group is None else asyncio.new_event_loop()
        groups[group] = _Loop(loop, limit, runner)
        if loop is not main_loop:
            threads.start(_run_in_thread, group or "call", loop, runner)
    return groups


def _run_in_thread(loop: asyncio.AbstractEventLoop, runner: Runner) -> None:
    try:
        _run_loop(loop, lambda: False)
    except BaseException as error:  # its calls would wait for ever
        runner.end(error)


def _run_loop(loop: asyncio.AbstractEventLoop, is_over: Callable[[], bool]) -> None:
    """Run a loop until the actor leaves; user code may stop it, or let it raise, before."""
    while not is_over():
        try:
            loop.run_forever()
        except SystemExit:
            raise
        except BaseException:
            stray.report()
            loop.run_until_complete(asyncio.sleep(0))  # raises if the loop cannot run


class _Loops:
    """The event loops of an actor. The main thread's reads the mailbox."""

    def __init__(
        self,
        mailbox: Mailbox,
        runner: Runner,
        is_leaving: Callable[[], bool],
        groups: dict[str | None, _Loop],
        main_loop: asyncio.AbstractEventLoop,
    ) -> None:
        self._mailbox = mailbox
        self._runner = runner
        self._is_leaving = is_leaving
        self._groups = groups
        self._main_loop = main_loop
        self._look_again = stray.Repeated(self._look)

    def run(self) -> None:
        """Run the main thread's loop until the actor leaves."""
        self._main_loop.call_later(_TICK_S, self._tick)
        self._main_loop.add_reader(self._mailbox.fileno(), self._arrived)
        self._main_loop.call_soon(self._arrived)
        _run_loop(self._main_loop, lambda: all(each.is_over for each in self._groups.values()))

    def cancel(self, key: str) -> None:
        """Cancel a running call, from any thread."""
        for each in self._groups.values():
            each.loop.call_soon_threadsafe(each.cancel, key)

    def _hand_over(self, arrival: Arrival) -> None:
        caller, message = arrival
        if message.group == SYSTEM_GROUP:
            start_beside(self._runner.run_beside, caller, message)
        elif (group := self._groups[message.group]).loop is self._main_loop:
            group.submit(arrival)
        else:
            group.loop.call_soon_threadsafe(group.submit, arrival)

    def _look(self) -> None:
        self._mailbox.read_arrived()
        while self._mailbox.calls and not self._is_leaving():  # later ones get the actor's end
            self._hand_over(self._mailbox.calls.popleft())
        if self._is_leaving() and _have_left(self._groups.values(), self._mailbox.wake):
            self._main_loop.stop()

    def _arrived(self) -> None:
        try:
            self._look_again()
        except BaseException as error:
            self._runner.end(error)

    def _tick(self) -> None:
        self._main_loop.call_later(_TICK_S, self._tick)
        try:
            self._mailbox.check()
        except OSError as error:
            self._runner.end(error)
        self._mailbox.on_idle()


def serve_in_loops(
    mailbox: Mailbox,
    runner: Runner,
    is_leaving: Callable[[], bool],
    limits: dict[str | None, int],
    set_on_cancel: Callable[[Callable[[str], None]], None],
    main_loop: asyncio.AbstractEventLoop,
) -> None:
    """Run calls as coroutines. `set_on_cancel` is given the function that cancels a call by its key."""
    groups = _start_loops(runner, limits, main_loop)
    loops = _Loops(mailbox, runner, is_leaving, groups, main_loop)
    set_on_cancel(loops.cancel)
    loops.run()
