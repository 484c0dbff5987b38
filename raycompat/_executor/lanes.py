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
import threading
from collections import deque
from collections.abc import Callable, Coroutine, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from raycompat._executor.mailbox import Caller, Mailbox
from raycompat._protocol.actor_about import SYSTEM_GROUP
from raycompat._protocol.direct_messages import CallMessage

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
    threading.Thread(
        target=run, args=(caller, message), name=f"raycompat-{message.name}", daemon=True
    ).start()


def serve_in_order(
    mailbox: Mailbox, run: Run, run_beside: Run, is_leaving: Callable[[], bool]
) -> None:
    """Run calls one after the other."""
    while not is_leaving():
        if mailbox.calls:
            mailbox.read_arrived_sometimes()
            arrival = mailbox.take()
            if arrival is None:  # it was cancelled
                continue
            caller, message = arrival
            del arrival
            if message.group == SYSTEM_GROUP:
                start_beside(run_beside, caller, message)
            else:
                _run_in_turn(mailbox, run, caller, message)
            del caller, message
        else:
            mailbox.wait()


def serve_in_threads(
    mailbox: Mailbox, run: Run, is_leaving: Callable[[], bool], sizes: dict[str | None, int]
) -> None:
    """Run the calls of each group in as many threads as `sizes` says."""
    pools = {
        group: ThreadPoolExecutor(size, thread_name_prefix=f"raycompat-{group or 'call'}")
        for group, size in sizes.items()
    }
    calls = mailbox.calls
    while not is_leaving():
        while calls:
            caller, message = calls.popleft()
            if message.group == SYSTEM_GROUP:
                start_beside(run, caller, message)
            else:
                pools[message.group].submit(run, caller, message)
        mailbox.wait()
    for pool in pools.values():
        pool.shutdown(wait=False, cancel_futures=True)
    is_over = threading.Event()

    def wait_for_calls() -> None:
        for pool in pools.values():
            pool.shutdown()
        is_over.set()
        mailbox.wake()

    threading.Thread(target=wait_for_calls, name="raycompat-leaving", daemon=True).start()
    mailbox.wait_until(is_over.is_set)  # generators need their consumers' messages


class _Loop:
    """The coroutines of one group: a limited number at a time, started in the order of arrival."""

    def __init__(self, loop: asyncio.AbstractEventLoop, limit: int, run: RunAsync) -> None:
        self.loop = loop
        self.running: dict[str, asyncio.Task[None]] = {}
        self._limit = limit
        self._run = run
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
        self.running[key] = task = self.loop.create_task(self._run(caller, message))
        task.add_done_callback(lambda _: self._end(key))

    def _end(self, key: str) -> None:
        self.running.pop(key, None)
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
    run: RunAsync, limits: dict[str | None, int], main_loop: asyncio.AbstractEventLoop
) -> dict[str | None, _Loop]:
    groups: dict[str | None, _Loop] = {}
    for group, limit in limits.items():
        loop = main_loop if group is None else asyncio.new_event_loop()
        groups[group] = _Loop(loop, limit, run)
        if loop is not main_loop:
            threading.Thread(
                target=loop.run_forever, name=f"raycompat-{group}", daemon=True
            ).start()
    return groups


def serve_in_loops(
    mailbox: Mailbox,
    run: RunAsync,
    run_beside: Run,
    is_leaving: Callable[[], bool],
    limits: dict[str | None, int],
    set_on_cancel: Callable[[Callable[[str], None]], None],
    main_loop: asyncio.AbstractEventLoop,
) -> None:
    """Run calls as coroutines. `set_on_cancel` is given the function that cancels a call by its key."""
    groups = _start_loops(run, limits, main_loop)

    def cancel(key: str) -> None:
        for each in groups.values():
            each.loop.call_soon_threadsafe(each.cancel, key)

    set_on_cancel(cancel)

    def arrived() -> None:
        mailbox.read_arrived()
        while mailbox.calls:
            arrival = mailbox.calls.popleft()
            caller, message = arrival
            if message.group == SYSTEM_GROUP:
                start_beside(run_beside, caller, message)
                continue
            group = groups[message.group]
            if group.loop is main_loop:
                group.submit(arrival)
            else:
                group.loop.call_soon_threadsafe(group.submit, arrival)
        if is_leaving() and _have_left(groups.values(), mailbox.wake):
            main_loop.stop()

    def tick() -> None:
        try:
            mailbox.on_idle()
        finally:
            main_loop.call_later(_TICK_S, tick)

    main_loop.call_later(_TICK_S, tick)
    main_loop.add_reader(mailbox.fileno(), arrived)
    main_loop.call_soon(arrived)
    main_loop.run_forever()
