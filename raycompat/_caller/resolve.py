"""References to values: what `get`, `wait`, ``await`` and ``.future()`` do."""

from __future__ import annotations

import threading
import time
import traceback
from collections.abc import Iterable, Sequence
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any

from raycompat import exceptions
from raycompat._caller.object_table import Entry, State
from raycompat._protocol import segment
from raycompat._protocol.serialization import deserialize
from raycompat._protocol.values import InlineValue, SegmentLink

if TYPE_CHECKING:
    from raycompat._caller.session import Session
    from raycompat.object_ref import ObjectRef


def error_of(entry: Entry) -> BaseException:
    """Return what `get` raises for an object that failed: a fresh exception at each call."""
    assert entry.error is not None
    error = exceptions.loads_error(entry.error)
    if entry.victim is not None:
        error = exceptions.RayTaskError.from_dependency(error, entry.victim).as_instanceof_cause()
    return error


def read(entry: Entry) -> Any:
    """Make the value of an object anew from what is here.

    Raises
    ------
    FileNotFoundError
        When its segment is gone; it must be fetched.
    RaySystemError
        When it cannot be unpickled here.
    """
    view: bytes | memoryview | None = entry.view
    if isinstance(entry.value, InlineValue):
        view = entry.value.block
    elif view is None:
        assert isinstance(entry.value, SegmentLink)
        view = entry.view = segment.read(entry.value.path)
    try:
        return deserialize(view)
    except Exception as error:
        raise exceptions.RaySystemError(error, traceback.format_exc()) from error


class _Countdown:
    """An event that is set when all of some entries are settled, or one of them has failed."""

    def __init__(self, session: Session, entries: Iterable[Entry], *, enough: int | None) -> None:
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
        if done or (self._stop_at_failure and entry.state is State.FAILED):
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
    session: Session, entries: Sequence[Entry], deadline: float | None, *, enough: int | None = None
) -> bool:
    """Wait until all entries are settled (or one failed), or `enough` are; False when too late."""
    countdown = _Countdown(session, entries, enough=enough)
    if countdown.is_over:
        countdown.close()
        return True
    if deadline is not None and deadline <= time.monotonic():
        countdown.close()
        return False
    session.on_block()
    try:
        return countdown.wait(None if deadline is None else deadline - time.monotonic())
    finally:
        countdown.close()
        session.on_unblock()


def get(session: Session, refs: Sequence[ObjectRef[Any]], timeout_s: float | None) -> list[Any]:
    """Return the values of `refs`, or raise the first error that is known.

    Raises
    ------
    GetTimeoutError
        When they are not all there in time.
    """
    deadline = None if timeout_s is None else time.monotonic() + timeout_s
    entries = [session.table.entries[ref._key] for ref in refs]
    while True:
        pending = {e.key: e for e in entries if e.state is State.PENDING}
        in_time = _wait_for(session, list(pending.values()), deadline) if pending else True
        for entry in entries:
            if entry.state is State.FAILED:
                raise error_of(entry)
        if not in_time:
            raise exceptions.GetTimeoutError(
                f"Get timed out: some object(s) not ready: "
                f"{sum(e.state is State.PENDING for e in entries)} of {len(entries)} after "
                f"{timeout_s} s."
            )
        if not _fetch(session, entries, deadline):
            raise exceptions.GetTimeoutError(
                f"Get timed out: some object(s) could not be fetched within {timeout_s} s."
            )
        values = _read_all(session, entries)
        if values is not None:
            return values


def _fetch(session: Session, entries: Iterable[Entry], deadline: float | None) -> bool:
    absent = {e.key: e for e in entries if e.state is State.READY and e.value is None}
    if not absent:
        return True
    fetches = [session.run(session.fetch(entry)) for entry in absent.values()]
    try:
        for fetch in fetches:
            left = None if deadline is None else max(0.0, deadline - time.monotonic())
            fetch.result(left)
    except TimeoutError:
        return False
    return True


def _read_all(session: Session, entries: Iterable[Entry]) -> list[Any] | None:
    """Return the values; None when one has moved and must be fetched first."""
    values = []
    for entry in entries:
        if entry.state is State.FAILED:
            raise error_of(entry)
        if not entry.is_here:
            return None
        try:
            values.append(read(entry))
        except FileNotFoundError:
            entry.value = None  # its node spilled or lost it; Dask knows
            return None
    return values


def wait(
    session: Session, refs: Sequence[ObjectRef[Any]], num_returns: int, timeout_s: float | None
) -> tuple[list[Any], list[Any]]:
    """Split `refs` into at most `num_returns` that are settled and the rest, in their order."""
    deadline = None if timeout_s is None else time.monotonic() + timeout_s
    entries = [session.table.entries[ref._key] for ref in refs]
    _wait_for(session, entries, deadline, enough=num_returns)
    ready: list[Any] = []
    rest: list[Any] = []
    for ref, entry in zip(refs, entries, strict=True):
        settled = entry.state is not State.PENDING and len(ready) < num_returns
        (ready if settled else rest).append(ref)
    return ready, rest


def as_future(ref: ObjectRef[Any]) -> Future[Any]:
    """Return a future that gets the value, or the error, of `ref`."""
    session = ref._session
    entry = session.table.entries[ref._key]
    future: Future[Any] = Future()

    def finish(entry: Entry) -> None:
        """End the future. Runs in an event loop, or in the caller: it never waits."""
        if entry.state is State.READY and entry.value is not None:
            try:
                value = read(entry)
            except FileNotFoundError:
                entry.value = None  # its node spilled or lost it; Dask knows
            except BaseException as error:
                _end(future, error=error)
                return
            else:
                _end(future, value=value)
                return
        if entry.state is State.FAILED:
            _end(future, error=error_of(entry))
        else:
            session.run(session.fetch(entry)).add_done_callback(lambda _: finish(entry))

    if not session.table.when_settled(entry, finish):
        finish(entry)
    return future


def _end(future: Future[Any], *, value: Any = None, error: BaseException | None = None) -> None:
    if future.set_running_or_notify_cancel():
        if error is None:
            future.set_result(value)
        else:
            future.set_exception(error)
