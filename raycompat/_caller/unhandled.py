"""Errors of calls whose references were dropped before they were read: logged, as in Ray."""

from __future__ import annotations

import contextlib
import logging
import os
from typing import TYPE_CHECKING

from raycompat import exceptions
from raycompat._caller.resolve import error_of

if TYPE_CHECKING:
    from raycompat._caller.object_table import Entry
    from raycompat._caller.session import Session

logger = logging.getLogger(__name__)


def tell_soon(session: Session, entry: Entry) -> None:
    """Log an error, unless the session is about to end.

    A separate thread unpickles the error: this may run user code, which must not block the event loop.
    """
    if not session.closed:
        with contextlib.suppress(RuntimeError):  # the program ends
            session.callbacks.submit(_tell, session, entry)


def _tell(session: Session, entry: Entry) -> None:
    """Log an error of user code, or of a process that has died.

    Errors of dead actors and of cancelled calls are not logged: they were wanted or are reported
    already.
    """
    if session.closed or "RAY_IGNORE_UNHANDLED_ERRORS" in os.environ:
        return
    error = error_of(entry)
    if isinstance(error, exceptions.RayTaskError | exceptions.WorkerCrashedError):
        logger.error("Unhandled error (suppress with 'RAY_IGNORE_UNHANDLED_ERRORS=1'): %s", error)
