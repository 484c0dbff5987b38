"""Errors of calls that nobody can ask for any more: they are told, as in Ray."""

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

    In a thread: to unpickle an error may take user code, which must not stop the event loop.
    """
    if not session.closed:
        with contextlib.suppress(RuntimeError):  # the program ends
            session.callbacks.submit(_tell, session, entry)


def _tell(session: Session, entry: Entry) -> None:
    """Log an error of user code, or of a process that has died.

    Not of an actor that died, nor of what was cancelled: somebody wanted that, or it is told elsewhere.
    """
    if session.closed or "RAY_IGNORE_UNHANDLED_ERRORS" in os.environ:
        return
    error = error_of(entry)
    if isinstance(error, exceptions.RayTaskError | exceptions.WorkerCrashedError):
        logger.error("Unhandled error (suppress with 'RAY_IGNORE_UNHANDLED_ERRORS=1'): %s", error)
