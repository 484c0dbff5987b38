"""From references to values: `get`, `wait`, ``await`` and ``.future()``.

A thread waits for several objects in one of three ways:

* At first, `get` reads the channel that brings all of them itself (`_AllSettled`): most answers come
  soon, and no other thread has to be woken.
* Then a `_Countdown` counts the objects as they are settled, in any thread.
* `wait` for many references waits for any object of this process to be settled
  (`ObjectTable.wait_until_settled`): a call of `wait` must not visit a long list.

Then it fetches the values that are elsewhere, and reads them. Reading changes nothing: if a value is
missing, `recovery` decides where it comes from, and `get` waits again.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future
from functools import partial
from typing import TYPE_CHECKING, Any

from raycompat import exceptions
from raycompat._caller.fetch import fetch
from raycompat._caller.generator import ObjectRefGenerator
from raycompat._caller.object_ref import ObjectRef
from raycompat._caller.object_table import FAILED, PENDING, READY, AnswerReader, Entry
from raycompat._caller.reading import Missing, error_of, read, read_all
from raycompat._caller.recovery import recover
from raycompat._host import clock

if TYPE_CHECKING:
    from raycompat._caller.membership import Membership

#: Seconds that a thread waits for an actor's answer before it reports that it waits. A task that
#: reports lends its CPU, which costs more time than most calls take.
_BRIEF_S = 0.005


#: Seconds above which a timeout counts as unlimited: ``poll`` takes 2**31 ms at most.
_LONGEST_S = 2_000_000.0

#: Up to this number of references, `wait` watches each; for more, it watches for any object to end.
_FEW = 8


class _Countdown:
    """An event that is set when all of some entries are settled, or one has failed."""

    def __init__(
        self, session: Membership, entries: Iterable[Entry], *, enough: int | None
    ) -> None:
        self._table = session.table
        self._event = threading.Event()
        self._lock = threading.Lock()
        self._stop_at_failure = enough is None
        self._pending = list(entries)
        self._missing = len(self._pending) if enough is None else enough
        for entry in self._pending:
            if not self._table.when_settled(entry, self._settled):
                self._settled(entry)

    def _settled(self, entry: Entry) -> None:
        with self._lock:
            self._missing -= 1
            done = self._missing <= 0
        if done or (self._stop_at_failure and entry.state is FAILED):
            self._event.set()

    @property
    def is_over(self) -> bool:
        return self._missing <= 0 or self._event.is_set()

    def wait(self, timeout_s: float | None) -> bool:
        return self._event.wait(timeout_s)

    def close(self) -> None:
        for entry in self._pending:
            self._table.forget_callback(entry, self._settled)


def _wait_for(
    session: Membership,
    entries: Sequence[Entry],
    deadline: float | None,
    *,
    enough: int | None = None,
) -> bool:
    """Wait until all entries are settled (or one failed), or `enough` are; False after the deadline."""
    session.flush()
    countdown = _Countdown(session, entries, enough=enough)
    try:
        if countdown.is_over:
            return True
        if deadline is not None and deadline <= clock.monotonic():
            return False
        if _read(entries, lambda: countdown.is_over, _BRIEF_S):
            return True
        try:
            session.on_block()
            left = _left_s(deadline)
            if _read(entries, lambda: countdown.is_over, left):
                return True
            left = _left_s(deadline)
            return countdown.wait(left)
        finally:
            session.on_unblock()
    finally:
        countdown.close()


def _read(entries: Sequence[Entry], is_over: Callable[[], bool], timeout_s: float | None) -> bool:
    """Read in this thread if one channel brings all pending entries; False if it cannot finish."""
    channel = _common_channel(entries)
    return channel is not None and channel.read_until(is_over, timeout_s, entries)


def _common_channel(entries: Sequence[Entry]) -> AnswerReader | None:
    """Return the channel that brings all pending entries, if there is only one."""
    channel: AnswerReader | None = None
    for entry in entries:
        if entry.state is PENDING:
            if not entry.is_on_wire or channel not in (None, entry.channel):
                return None
            channel = entry.channel
    return channel


class _AllSettled:
    """Return whether all entries are settled, or one has failed; each is checked about once."""

    def __init__(self, session: Membership, entries: Sequence[Entry]) -> None:
        self._table = session.table
        self._entries = entries
        self._position = 0
        self._num_failed = -1

    def __call__(self) -> bool:
        entries, position, end = self._entries, self._position, len(self._entries)
        while position < end and entries[position].state is not PENDING:
            position += 1
        self._position = position
        if position == end:
            return True
        if self._num_failed != self._table.num_failed:
            self._num_failed = self._table.num_failed
            for entry in entries:
                if entry.state is FAILED:
                    return True
        return False


def _deadline(timeout_s: float | None) -> float | None:
    """Return when a wait of `timeout_s` seconds from now ends; None if it has no limit."""
    if timeout_s is None or timeout_s > _LONGEST_S:
        return None
    return clock.monotonic() + timeout_s


def _left_s(deadline: float | None) -> float | None:
    """Return the seconds until a deadline, at least 0; None without a deadline."""
    return None if deadline is None else max(0.0, deadline - clock.monotonic())


def _read_quickly(session: Membership, entries: Sequence[Entry], deadline: float | None) -> bool:
    """Read pending entries in this thread, if one channel brings them soon."""
    if deadline is not None and deadline <= clock.monotonic() + _BRIEF_S:
        return False
    session.flush()
    return _read(entries, _AllSettled(session, entries), _BRIEF_S)


def get(
    session: Membership, refs: Sequence[ObjectRef[object]], timeout_s: float | None
) -> list[Any]:
    """Return the values of `refs`, or raise the first error that is known.

    Raises
    ------
    GetTimeoutError
        When a value is not ready in time.
    """
    deadline = _deadline(timeout_s)
    entries = [ref._entry for ref in refs]
    while True:
        pending = [e for e in entries if e.state is PENDING]
        in_time = True
        # A failed entry is not waited for, so its failure would not end the wait.
        has_failed = any(e.state is FAILED for e in entries)
        if pending and not has_failed and not _read_quickly(session, pending, deadline):
            different = list({e.key: e for e in pending}.values())
            in_time = _wait_for(session, different, deadline)
        for entry in entries:
            if entry.state is FAILED:
                for other in entries:
                    other.is_asked_for = True
                raise error_of(entry)
        if not in_time:
            raise exceptions.GetTimeoutError(
                f"Get timed out: some object(s) not ready: "
                f"{sum(e.state is PENDING for e in entries)} of {len(entries)} after "
                f"{timeout_s} s. Wait longer, or take what is ready with ray.wait."
            )
        if not _fetch(session, entries, deadline):
            raise exceptions.GetTimeoutError(
                f"Get timed out: some object(s) could not be fetched within {timeout_s} s."
            )
        values = read_all(entries)
        if not isinstance(values, Missing):
            return values
        recover(session, values)


def _fetch(session: Membership, entries: Iterable[Entry], deadline: float | None) -> bool:
    absent = {e.key: e for e in entries if e.state is READY and e.value is None}
    if not absent:
        return True
    left = _left_s(deadline)
    try:
        session.run(fetch(session, list(absent.values()))).result(left)
    except TimeoutError:
        return False
    except (OSError, RuntimeError) as error:
        raise _error_of_fetch(session, error) from error
    return True


def _error_of_fetch(session: Membership, error: BaseException) -> BaseException:
    """Return the error for code that waits for a value: at the end of the session, not Dask's error."""
    if not session.closed:
        return error
    return session.error_of_end("The session was shut down while this object was being fetched.")


def wait(
    session: Membership,
    refs: Sequence[ObjectRef[object]],
    num_returns: int,
    timeout_s: float | None,
) -> tuple[list[Any], list[Any]]:
    """Split `refs` into at most `num_returns` that are settled, and the rest, in their order."""
    deadline = _deadline(timeout_s)
    in_time = True
    while True:
        num_settled = session.table.num_settled
        ready, rest = _split(refs, num_returns)
        missing = num_returns - len(ready)
        if not missing or not in_time:
            return ready, rest
        if len(rest) > _FEW and ObjectRefGenerator not in set(map(type, rest)):
            in_time = _wait_for_any(session, num_settled + missing, deadline)
            if session.table.num_settled == num_settled:  # another look would find the same
                return ready, rest
        else:
            in_time = _wait_for(session, [r._entry for r in rest], deadline, enough=missing)


def _wait_for_any(session: Membership, number: int, deadline: float | None) -> bool:
    """Wait until `number` objects of any kind have ended; False after the deadline."""
    session.flush()
    table = session.table
    left = _left_s(deadline)
    if table.wait_until_settled(number, _BRIEF_S if left is None else min(left, _BRIEF_S)):
        return True
    if left is not None and left <= _BRIEF_S:
        return False
    try:
        session.on_block()
        left = _left_s(deadline)
        return table.wait_until_settled(number, left)
    finally:
        session.on_unblock()


def _split(
    refs: Sequence[ObjectRef[object]], num_returns: int
) -> tuple[list[ObjectRef[object]], list[ObjectRef[object]]]:
    """Split into the first `num_returns` that are settled, and the rest; stop checking early."""
    ready: list[Any] = []
    rest: list[Any] = []
    for position, ref in enumerate(refs):
        entry = ref._entry
        if entry.state is PENDING:
            rest.append(ref)
            continue
        if entry.state is FAILED:
            entry.is_asked_for = True
        ready.append(ref)
        if len(ready) == num_returns:
            rest += refs[position + 1 :]
            break
    return ready, rest


def as_future(ref: ObjectRef[object]) -> Future[object]:
    """Return a future that gets the value, or the error, of `ref`.

    A separate thread completes the future: user code in its callbacks must not delay other answers.
    When the main thread has ended, Python starts no more work in that thread, and other threads may
    still wait for futures.
    """
    session = ref._session
    future: Future[Any] = Future()
    waiting = [future]  # emptied, because a future keeps its callbacks, and `finish` is part of one

    def finish(entry: Entry) -> None:
        settled = waiting.pop()
        if not session.closed:
            with contextlib.suppress(RuntimeError):
                session.callbacks.submit(_finish, ref, entry, settled)
                return
        _finish(ref, entry, settled)

    _when_settled(ref, finish, future)
    return future


def _finish(ref: ObjectRef[object], entry: Entry, future: Future[object]) -> None:
    if not future.set_running_or_notify_cancel():
        return
    try:
        value = _value_here(ref._session, entry)
    except Exception as error:
        future.set_exception(error)
    else:
        future.set_result(value)


def as_asyncio_future(ref: ObjectRef[object]) -> asyncio.Future[Any]:
    """Return a future of the current event loop that gets the value, or the error, of `ref`.

    As `asyncio.wrap_future` does, it takes the running loop; otherwise the loop that is set in this
    thread, which may run later.
    """
    awaited = _Awaited(ref)
    _when_settled(ref, awaited.look_soon, awaited.future)
    return awaited.future


class _Awaited:
    """A reference that an event loop awaits, and keeps alive until then."""

    def __init__(self, ref: ObjectRef[object]) -> None:
        self._ref = ref
        self._loop = asyncio.get_event_loop()
        self.future: asyncio.Future[Any] = self._loop.create_future()

    def look_soon(self, entry: Entry) -> None:
        """Look at a settled object in the loop. Called from any thread."""
        with contextlib.suppress(RuntimeError):  # the loop is closed: no coroutine awaits any more
            self._loop.call_soon_threadsafe(self._look, entry)

    def _look(self, entry: Entry) -> None:
        session = self._ref._session
        if self.future.done():
            return
        try:
            if entry.state is FAILED:
                self._fail(error_of(entry))  # not raised here: its traceback would keep this object
                return
            if not entry.is_here:
                session.run(fetch(session, [entry])).add_done_callback(
                    partial(self._fetched, entry)
                )
                return
            self.future.set_result(read(entry))
        except FileNotFoundError as error:  # the node spilled or lost it
            recover(session, Missing(entry, error.filename))
            self._look(entry)
        except Exception as error:
            self._fail(error)

    def _fetched(self, entry: Entry, done: Future[None]) -> None:
        error = done.exception()
        if error is None:
            self.look_soon(entry)
            return
        with contextlib.suppress(RuntimeError):
            failure = _error_of_fetch(self._ref._session, error)
            self._loop.call_soon_threadsafe(self._fail, failure)

    def _fail(self, error: BaseException) -> None:
        if isinstance(error, StopIteration):  # no future takes it, because it would end a coroutine
            stop, error = error, RuntimeError("The awaited call has raised StopIteration.")
            error.__cause__ = stop
        if not self.future.done():
            self.future.set_exception(error)


def _when_settled(
    ref: ObjectRef[object],
    callback: Callable[[Entry], None],
    future: Future[object] | asyncio.Future[object],
) -> None:
    """Call `callback` when the object ends, unless its `future` is cancelled before."""
    entry = ref._entry
    session = ref._session
    session.flush()
    entry.is_asked_for = True
    if not session.table.when_settled(entry, callback):
        callback(entry)
        return

    def forget_if_cancelled(future: Future[object] | asyncio.Future[object]) -> None:
        if future.cancelled():
            session.table.forget_callback(entry, callback)

    future.add_done_callback(forget_if_cancelled)


def _value_here(session: Membership, entry: Entry) -> object:
    """Return a settled object's value, or raise its error; fetch the value if necessary."""
    while True:
        if entry.state is FAILED:
            raise error_of(entry)
        if _fetch(session, [entry], None):
            values = read_all([entry])
            if not isinstance(values, Missing):
                return values[0]
            recover(session, values)
