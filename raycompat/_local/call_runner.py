"""Runs one call in the driver, and keeps the exception that it raises."""

from __future__ import annotations

import asyncio
import bdb
import inspect
from collections.abc import AsyncIterator, Coroutine
from typing import TYPE_CHECKING, Any

from raycompat._executor.environment import Environment
from raycompat._executor.run_call import (
    Call,
    Outcome,
    Sink,
    lay_out,
    prepare,
    stream,
    stream_in_loop,
)
from raycompat._host import interrupts
from raycompat._pickling import remote_traceback

if TYPE_CHECKING:
    from raycompat._caller.session import Session
    from raycompat._executor.call_runner import ActorOfCall
    from raycompat._local.code import Code

#: Exceptions that leave ``remote()`` itself: Ctrl-C, and ``quit`` in a debugger.
_END_OF_THE_PROGRAM = (KeyboardInterrupt, bdb.BdbQuit)


class LocalRunner:
    """The part of the driver that runs tasks, or one actor (an `_executor.call_runner.CallRunner`)."""

    def __init__(self, session: Session, code: Code, actor: ActorOfCall | None = None) -> None:
        self.session = session
        self._code = code
        self.actor = actor
        self.ip = session.home.ip
        self.gpus_are_named = False
        self.environment = Environment(self)
        self._loop: asyncio.AbstractEventLoop | None = None

    def load(self, function: str) -> Any:
        """Return the function or class with this id: a copy, as in an executor."""
        return self._code.load(function)

    def is_cancelled(self, key: str) -> bool:
        """Return False: no code runs beside a call that could cancel it."""
        return False

    def run(self, call: Call, sink: Sink) -> tuple[Outcome, BaseException | None]:
        """Run one call; return its outcome, and the exception if it has raised one.

        Raises
        ------
        KeyboardInterrupt, bdb.BdbQuit
            After Ctrl-C, and after ``quit`` in a debugger.
        SystemExit
            When the call ends its process.
        """
        self.environment.begin(call.message.environment)
        try:
            outcome = self._run(call, sink)
            self.environment.end()
        except (*_END_OF_THE_PROGRAM, SystemExit):
            self.environment.end_failed()
            raise
        except BaseException as error:
            self.environment.end_failed()
            with interrupts.deferred():
                return Outcome.of_error(self, call, error), _without_our_frames(error)
        return outcome, None

    def _run(self, call: Call, sink: Sink) -> Outcome:
        work = prepare(self, call)
        if isinstance(work, Outcome):
            return work
        with interrupts.allowed():
            result = work()
            del work
            if inspect.iscoroutine(result):
                result = self._run_to_its_end(result)
            if call.message.num_returns == "streaming":
                if isinstance(result, AsyncIterator):
                    items = stream_in_loop(self, call, result, sink)
                    outcome: Outcome = self._run_to_its_end(items)
                    return outcome
                return stream(self, call, result, sink)
        return lay_out(self, call, result)

    def _run_to_its_end(self, coroutine: Coroutine[object, object, object]) -> Any:
        """Run a coroutine in its event loop, also where another loop runs in this thread."""
        if self._loop is None:
            self._loop = asyncio.new_event_loop()
        is_nested = self._loop.is_running()  # the method has called its own actor
        loop = asyncio.new_event_loop() if is_nested else self._loop
        outer = asyncio._get_running_loop()
        asyncio._set_running_loop(None)
        try:
            return loop.run_until_complete(coroutine)
        finally:
            asyncio._set_running_loop(outer)
            if is_nested:
                loop.close()

    def close(self) -> None:
        """Close the event loop, if no call runs in it."""
        if self._loop is not None and not self._loop.is_running():
            self._loop.close()


def _without_our_frames(error: BaseException) -> BaseException:
    """Return an exception whose traceback begins in the user's code."""
    frames = error.__traceback__
    while frames is not None and remote_traceback.is_framework_file(
        frames.tb_frame.f_code.co_filename
    ):
        frames = frames.tb_next
    return error.with_traceback(frames) if frames is not None else error
