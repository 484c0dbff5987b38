"""Unhandled errors: equal ones are counted."""

from __future__ import annotations

import logging
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import pytest

from raycompat import exceptions
from raycompat._caller import unhandled
from raycompat._caller.unhandled import Unhandled


class Timer:
    """Never ends by itself."""

    num_started = 0

    def __init__(self, delay_s, function):
        self.delay_s, self.function = delay_s, function

    def start(self):
        Timer.num_started += 1

    def cancel(self):
        """Nothing waits."""


@pytest.fixture
def tell(monkeypatch):
    monkeypatch.setattr(unhandled, "error_of", lambda error: error)
    monkeypatch.setattr(unhandled.threading, "Timer", Timer)
    with ThreadPoolExecutor(1) as callbacks:
        session = SimpleNamespace(closed=False, callbacks=callbacks)
        told = Unhandled(session)

        def tell(*errors):
            for error in errors:
                told.tell_soon(error)
            callbacks.submit(lambda: None).result()

        tell.log_counts = told.log_counts
        yield tell


def failed(text):
    return exceptions.RayTaskError("f", text, ValueError(text))


def test_cancelled_calls_and_what_depends_on_them_are_not_told(tell, caplog):
    cancelled = exceptions.TaskCancelledError("00")
    tell(cancelled, exceptions.RayTaskError("f", "", cancelled).as_instanceof_cause())
    assert caplog.messages == []


def test_equal_errors_are_counted(tell, caplog):
    caplog.set_level(logging.ERROR)
    begun = Timer.num_started
    tell(
        *(failed(f"argument {number} was cancelled") for number in range(1_000)), failed("another")
    )
    assert [record.getMessage()[:15] for record in caplog.records] == ["Unhandled error"] * 2
    tell.log_counts()
    assert "999 more unhandled errors like this one: argument 999 was" in caplog.messages[-1]
    assert (len(caplog.records), Timer.num_started - begun) == (3, 1)
    tell(failed("argument 4 was cancelled"))  # the next one is shown in full again
    assert "Unhandled error" in caplog.messages[-1]
    tell.log_counts()
    assert len(caplog.records) == 4
