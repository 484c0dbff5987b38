"""Exceptions that reach raycompat's own code, because they came while no user code ran.

User code leaves their sources behind: an alarm or another signal whose handler raises, an exception
that one thread has set for another (``PyThreadState_SetAsyncExc``), a function of ``sys.settrace``. No
call can get the exception, so it is printed, and the process goes on. ``SystemExit`` still ends it.
"""

from __future__ import annotations

import contextlib
import sys
import traceback
from collections.abc import Callable


def report() -> None:
    """Print the exception that is being handled."""
    with contextlib.suppress(Exception):  # user code has closed or replaced the output
        print(
            "raycompat: an exception came while no user code ran, for example of the handler of an "
            "alarm. No call gets it.",
            file=sys.stderr,
        )
        traceback.print_exc()


class Repeated:
    """A step that is repeated: a single exception is printed, a second in a row is raised.

    Then the step fails always, because user code has closed a descriptor for example. ``SystemExit`` is
    raised at once.
    """

    def __init__(self, step: Callable[[], object]) -> None:
        self._step = step
        self._has_failed = False

    def __call__(self) -> None:
        """Do the step."""
        try:
            self._step()
        except SystemExit:
            raise
        except BaseException:
            if self._has_failed:
                raise
            self._has_failed = True
            report()
        else:
            self._has_failed = False


def conclude(step: Callable[[], object], is_done: Callable[[], bool]) -> None:
    """Do the last step of a call; after an exception before it was done, once more.

    A second exception is raised, because this process cannot serve.
    """
    try:
        step()
    except SystemExit:
        raise
    except BaseException:
        report()
        if not is_done():
            step()
