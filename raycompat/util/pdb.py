"""Python's debugger in remote code: stop, and wait until a terminal attaches."""

from __future__ import annotations

import pdb as python_pdb
import sys
from types import TracebackType

from raycompat._caller import this_process

__all__ = ["post_mortem", "set_trace"]


def set_trace(breakpoint_uuid: bytes | None = None) -> None:
    """Stop here in a debugger. In a task or actor, wait until ``raycompat debug`` attaches.

    ``breakpoint()`` does the same in tasks and actors. The driver prints where the call waits. Run
    ``raycompat debug`` on that machine, as the same user. The commands are those of `pdb`; ``continue``
    and the end of the terminal let the call go on, ``quit`` ends it with an error.

    Parameters
    ----------
    breakpoint_uuid : bytes, optional
        Has no effect; for programs that pass it.

    Examples
    --------
    Stop in the call with a wrong argument, and attach from a terminal::

        @ray.remote
        def divide(x, y):
            if y == 0:
                ray.util.pdb.set_trace()
            return x / y


        ray.get(divide.remote(1, 0))  # then: raycompat debug

    Notes
    -----
    Ray source: ``ray.util.pdb.set_trace``, 2.60.0. Differs from Ray: breakpoints listen on a Unix
    socket for this user alone, so the terminal is on the call's machine; no step into another task.
    In a driver, and in local mode, the debugger uses the terminal of the program.
    """
    frame = sys._getframe(1)
    if _is_remote():
        from raycompat._executor import debugger

        debugger.set_trace(frame)
    else:
        python_pdb.Pdb().set_trace(frame)


def post_mortem(traceback: TracebackType | None = None) -> None:
    """Look at the frames of an exception in a debugger, as `set_trace` does.

    With the environment variable ``RAY_DEBUG_POST_MORTEM`` set to 1, each task or method that fails
    does this before its error is reported. Set it in the `runtime_env` of a job, or where nodes start.

    Parameters
    ----------
    traceback : traceback, optional
        By default, that of the exception that is being handled.

    Raises
    ------
    ValueError
        When there is no traceback.

    Examples
    --------
    In a call that has caught an error::

        try:
            train(batch)
        except ValueError:
            ray.util.pdb.post_mortem()

    Notes
    -----
    Ray source: ``ray.util.pdb.post_mortem``, 2.60.0. Differs from Ray: it takes a traceback, as
    Python's function does.
    """
    error = sys.exception()
    if traceback is None and error is not None:
        traceback = error.__traceback__
    if traceback is None:
        raise ValueError(
            "post_mortem needs a traceback: call it in an except block, or pass error.__traceback__."
        )
    if _is_remote():
        from raycompat._executor import debugger

        debugger.post_mortem(traceback, type(error).__name__ if error is not None else "exception")
    else:
        python_pdb.post_mortem(traceback)


def _is_remote() -> bool:
    """Return whether this code runs in another process than the driver."""
    call = this_process.current()
    return this_process.executor() is not None and (call is None or call.runner is None)
