"""Interrupts that come during a deferral, with the program's handler and with raycompat's own."""

from __future__ import annotations

import os
import signal
import threading
import weakref

import pytest

from raycompat._host import interrupts


class Interrupted(BaseException):
    pass


@pytest.fixture(params=["the program's handler", "raycompat's handler"])
def interrupt(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch):
    """A function that interrupts this process."""

    def handle(*_: object) -> None:
        raise Interrupted

    before = signal.getsignal(signal.SIGUSR2)
    monkeypatch.setattr(interrupts, "_number", signal.SIGUSR2)
    monkeypatch.setattr(interrupts, "_is_handled", False)
    if request.param == "raycompat's handler":
        interrupts.handle(signal.SIGUSR2, handle)
    else:
        signal.signal(signal.SIGUSR2, handle)
    installed = signal.getsignal(signal.SIGUSR2)
    yield lambda: signal.raise_signal(signal.SIGUSR2)
    assert signal.getsignal(signal.SIGUSR2) is installed
    signal.signal(signal.SIGUSR2, before)


def test_an_interrupt_outside_a_deferral_comes_at_once(interrupt):
    with pytest.raises(Interrupted):
        interrupt()


def test_an_interrupt_comes_at_the_end_of_the_deferral(interrupt):
    steps = []
    with pytest.raises(Interrupted), interrupts.deferred():
        interrupt()
        steps.append("still here")
    assert steps == ["still here"]


def test_an_interrupt_comes_once(interrupt):
    with pytest.raises(Interrupted), interrupts.deferred():
        interrupt()
        interrupt()
    with interrupts.deferred():
        pass


def test_of_nested_deferrals_the_outermost_counts(interrupt):
    steps = []
    with pytest.raises(Interrupted), interrupts.deferred():
        with interrupts.deferred():
            interrupt()
        steps.append("after the inner one")
    assert steps == ["after the inner one"]


def test_inside_allowed_an_interrupt_comes_at_once(interrupt):
    steps = []
    with interrupts.deferred():
        with pytest.raises(Interrupted), interrupts.allowed():
            interrupt()
            steps.append("not reached")
    assert steps == []


def test_allowed_delivers_what_came_before(interrupt):
    steps = []
    with interrupts.deferred():
        interrupt()
        with pytest.raises(Interrupted), interrupts.allowed():
            steps.append("not reached")
        steps.append("in the deferral")
    assert steps == ["in the deferral"]


def test_the_deferral_goes_on_after_allowed(interrupt):
    steps = []
    with pytest.raises(Interrupted), interrupts.deferred():
        with interrupts.allowed():
            pass
        interrupt()
        steps.append("still here")
    assert steps == ["still here"]


def test_another_thread_defers_nothing(interrupt):
    inside, go_on = threading.Event(), threading.Event()

    def work() -> None:
        with interrupts.deferred():
            inside.set()
            go_on.wait()

    thread = threading.Thread(target=work)
    thread.start()
    inside.wait()
    try:
        with pytest.raises(Interrupted):
            interrupt()
    finally:
        go_on.set()
        thread.join()


def test_a_forked_child_is_not_deferred(interrupt):
    with interrupts.deferred():
        child = os.fork()
        if not child:
            try:
                interrupt()
            except Interrupted:
                os._exit(0)
            os._exit(1)
        assert os.waitpid(child, 0)[1] == 0


def test_the_program_s_handler_is_not_kept_after_a_deferral(monkeypatch):
    class Handler:
        def __call__(self, *_: object) -> None:
            pass

    monkeypatch.setattr(interrupts, "_number", signal.SIGUSR2)
    monkeypatch.setattr(interrupts, "_is_handled", False)
    handler = Handler()
    is_there = weakref.ref(handler)
    before = signal.signal(signal.SIGUSR2, handler)
    with interrupts.deferred():
        pass
    signal.signal(signal.SIGUSR2, before)
    del handler
    assert is_there() is None
