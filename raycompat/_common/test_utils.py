"""Tools from Ray for programs' own tests: actors that block others, and waits for a condition."""

from __future__ import annotations

import asyncio
import inspect
import logging
import subprocess
import sys
import time
import traceback
from collections.abc import Awaitable, Callable, Mapping

from raycompat import _api

logger = logging.getLogger(__name__)

__all__ = [
    "Semaphore",
    "SignalActor",
    "async_wait_for_condition",
    "run_string_as_driver",
    "wait_for_condition",
]


@_api.remote(num_cpus=0)
class SignalActor:
    """Blocks callers of `wait` until `send` is called.

    Notes
    -----
    Ray source: ``ray._common.test_utils.SignalActor``, 2.60.0. No known difference.
    """

    def __init__(self) -> None:
        self.ready_event = asyncio.Event()
        self.num_waiters = 0

    def send(self, clear: bool = False) -> None:
        """Release all waiting callers; with `clear`, later callers wait again."""
        self.ready_event.set()
        if clear:
            self.ready_event.clear()

    async def wait(self, should_wait: bool = True) -> None:
        """Wait until `send` is called; return at once if `should_wait` is false."""
        if not should_wait:
            return
        self.num_waiters += 1
        try:
            await self.ready_event.wait()
        finally:
            self.num_waiters -= 1

    async def cur_num_waiters(self) -> int:
        """Return the number of calls of `wait` that are waiting."""
        return self.num_waiters


@_api.remote(num_cpus=0)
class Semaphore:
    """A semaphore for tasks and actors.

    Notes
    -----
    Ray source: ``ray._common.test_utils.Semaphore``, 2.60.0. No known difference.
    """

    def __init__(self, value: int = 1) -> None:
        self._semaphore = asyncio.Semaphore(value=value)

    async def acquire(self) -> None:
        """Wait until the semaphore is free, and take it."""
        await self._semaphore.acquire()

    async def release(self) -> None:
        """Release the semaphore."""
        self._semaphore.release()

    async def locked(self) -> bool:
        """Return whether the next `acquire` would wait."""
        return self._semaphore.locked()


def wait_for_condition(
    condition_predictor: Callable[..., object],
    timeout: float = 10,
    retry_interval_ms: float = 100,
    raise_exceptions: bool = False,
    **kwargs: object,
) -> None:
    """Call a function until it returns a true value.

    Parameters
    ----------
    condition_predictor : callable
        Called with `kwargs`.
    timeout : float, default 10
        Seconds.
    retry_interval_ms : float, default 100
        Milliseconds between two calls.
    raise_exceptions : bool, default False
        Raise the function's exceptions; otherwise an exception counts as false.

    Raises
    ------
    RuntimeError
        When it was not true in time; the text has the last exception.

    Notes
    -----
    Ray source: ``ray._common.test_utils.wait_for_condition``, 2.60.0. No known difference.
    """
    deadline = time.monotonic() + timeout
    trace = None
    while True:
        try:
            if condition_predictor(**kwargs):
                return
        except Exception:
            if raise_exceptions:
                raise
            trace = traceback.format_exc()
        if time.monotonic() >= deadline:
            raise RuntimeError(_not_met(condition_predictor, timeout, trace))
        time.sleep(retry_interval_ms / 1000)


async def async_wait_for_condition(
    condition_predictor: Callable[..., Awaitable[object] | object],
    timeout: float = 10,
    retry_interval_ms: float = 100,
    **kwargs: object,
) -> None:
    """Like `wait_for_condition`, in an event loop; the condition may be a coroutine function.

    Notes
    -----
    Ray source: ``ray._common.test_utils.async_wait_for_condition``, 2.60.0. No known difference.
    """
    deadline = time.monotonic() + timeout
    trace = None
    while True:
        try:
            result = condition_predictor(**kwargs)
            if inspect.isawaitable(result):
                result = await result
            if result:
                return
        except Exception:
            trace = traceback.format_exc()
        if time.monotonic() >= deadline:
            raise RuntimeError(_not_met(condition_predictor, timeout, trace))
        await asyncio.sleep(retry_interval_ms / 1000)


def _not_met(condition: Callable[..., object], timeout: float, trace: str | None) -> str:
    text = f"The condition {condition!r} wasn't met before the timeout expired: {timeout} s."
    return f"{text} Its last exception:\n{trace}" if trace else text


def run_string_as_driver(
    driver_script: str,
    env: Mapping[str, str] | None = None,
    encode: str = "utf-8",
    timeout: float | None = 300,
) -> str:
    """Run a program in a new Python process, and return its output.

    Parameters
    ----------
    driver_script : str
        The program's text.
    env : mapping of str to str, optional
        The environment variables; by default those of this process.
    encode : str, default "utf-8"
    timeout : float, default 300
        Seconds after which the program is killed; None waits without limit.

    Raises
    ------
    subprocess.CalledProcessError
        When the program fails; its `output` has what the program printed.
    subprocess.TimeoutExpired
        When it was killed.

    Notes
    -----
    Ray source: ``ray._common.test_utils.run_string_as_driver``, 2.60.0. Where ``ray`` means raycompat
    in this process, it does in the program too.
    """
    process = subprocess.run(
        [sys.executable, *_as_ray_options(), "-"],
        input=driver_script.encode(encode),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env=env,
        timeout=timeout,
        check=False,
    )
    text = process.stdout.decode(encode)
    if process.returncode:
        logger.error("The program has failed:\n%s", text)
        raise subprocess.CalledProcessError(process.returncode, process.args, process.stdout)
    return text


def _as_ray_options() -> list[str]:
    from raycompat import _as_ray

    return ["-m", "raycompat", "run"] if _as_ray.is_installed() else []
