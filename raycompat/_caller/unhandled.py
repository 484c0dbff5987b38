"""Errors of calls whose references were dropped before they were read: logged, as in Ray."""

from __future__ import annotations

import contextlib
import logging
import os
import re
import threading
from concurrent.futures import Executor
from typing import TYPE_CHECKING, Protocol

from raycompat import exceptions
from raycompat._caller.reading import error_of

if TYPE_CHECKING:
    from raycompat._caller.object_table import Entry

logger = logging.getLogger(__name__)


#: Seconds for which equal errors are counted before the count is logged.
_COUNTED_FOR_S = 5.0

_HAS_DIGIT = re.compile(r"\d").search


class SessionWithErrors(Protocol):
    """What this needs of its session: whether it has ended, and a thread for user code."""

    closed: bool

    @property
    def callbacks(self) -> Executor:
        """The thread that runs user code."""


class Unhandled:
    """The unhandled errors of a session: of equal ones, the first is logged and the others are counted.

    As with lines of output, errors are equal when they differ only in words with digits.
    """

    def __init__(self, session: SessionWithErrors) -> None:
        self._session = session
        #: Guards the counts: errors that are not counted yet, by their words, and one of their texts.
        self._lock = threading.Lock()
        self._alike: dict[str, tuple[str, int]] = {}
        self._timer: threading.Timer | None = None

    def tell_soon(self, entry: Entry) -> None:
        """Log an error, unless the session is about to end.

        A separate thread unpickles the error: this may run user code, which must not block the event
        loop.
        """
        if not self._session.closed:
            with contextlib.suppress(RuntimeError):  # the program ends
                self._session.callbacks.submit(self._tell, entry)

    def _tell(self, entry: Entry) -> None:
        """Log an error of user code, or of a process that has died.

        Errors of dead actors and of cancelled calls, and of what depends on these, are not logged: they
        were wanted or are reported already.
        """
        if self._session.closed or "RAY_IGNORE_UNHANDLED_ERRORS" in os.environ:
            return
        error = error_of(entry)
        if isinstance(error, exceptions.TaskCancelledError):
            return
        if isinstance(error, exceptions.RayTaskError | exceptions.WorkerCrashedError):
            text = str(error)
            if self._is_first(text):
                logger.error(
                    "Unhandled error (suppress with 'RAY_IGNORE_UNHANDLED_ERRORS=1'): %s", text
                )

    def _is_first(self, text: str) -> bool:
        words = " ".join([word for word in text.split() if not _HAS_DIGIT(word)])
        with self._lock:
            if not self._alike:
                self._timer = threading.Timer(_COUNTED_FOR_S, self.log_counts)
                self._timer.daemon = True
                self._timer.start()
            known = self._alike.get(words)
            self._alike[words] = (text, known[1] + 1 if known is not None else 0)
            return known is None

    def log_counts(self) -> None:
        """Log how often each error occurred again; the next one like it is logged in full."""
        with self._lock:
            alike, self._alike = self._alike, {}
            if self._timer is not None:
                self._timer.cancel()
        for text, count in alike.values():
            if count:
                last = text.strip().rpartition("\n")[2]
                logger.error("%s more unhandled errors like this one: %s", f"{count:,}", last)
