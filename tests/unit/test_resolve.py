"""Waiting for objects, and reading their values."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import threading
import weakref
from concurrent.futures import Future
from types import SimpleNamespace

import pytest

from raycompat import exceptions
from raycompat._caller import resolve
from raycompat._caller.object_ref import ObjectRef
from raycompat._caller.object_table import READY, Entry, ObjectTable
from raycompat._caller.reading import read
from raycompat._protocol import failures


@pytest.fixture
def session():
    table = ObjectTable(threading.RLock(), lambda keys: None, lambda link: None, lambda entry: None)
    made = SimpleNamespace(
        table=table, flush=lambda: None, wake=lambda: None, closed=False, lost=None
    )
    made.as_asyncio_future = resolve.as_asyncio_future
    made.error_of_end = lambda text: exceptions.RaySystemError(made.lost or text)
    return made


@pytest.fixture
def ref(session):
    """A reference to an object that is never ready."""
    return ObjectRef._of_new(session.table.add("task-1"), session)


def test_a_value_that_another_thread_has_just_given_to_a_node_must_be_fetched():
    entry = Entry("key")
    with pytest.raises(FileNotFoundError):
        read(entry)


def test_a_cancelled_future_is_not_kept(ref):
    for _ in range(3):
        resolve.as_future(ref).cancel()
    assert not ref._entry.callbacks


def test_a_cancelled_await_is_not_kept(ref):
    async def main():
        for _ in range(3):
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(ref, 0.001)

    asyncio.run(main())
    assert not ref._entry.callbacks


def test_a_failed_await_does_not_keep_its_reference(session):
    async def main():
        ref = ObjectRef._of_new(session.table.add("task-1"), session)
        session.table.fail(ref._entry, failures.internal("as asked"))
        with contextlib.suppress(exceptions.RaySystemError):
            await ref
        return weakref.ref(ref)

    gc.disable()
    try:
        assert asyncio.run(main())() is None
    finally:
        gc.enable()


@pytest.mark.parametrize("lost", [None, "The connection was lost."])
def test_a_fetch_that_the_end_of_the_session_interrupts_says_so(session, ref, lost):
    def run(coroutine):
        coroutine.close()
        session.closed, session.lost = True, lost
        future = Future()
        future.set_exception(RuntimeError("ConnectionPool is closed"))
        return future

    session.run = run
    ref._entry.state = READY  # on a node
    with pytest.raises(exceptions.RaySystemError, match=lost or "was shut down"):
        resolve.get(session, [ref], None)
