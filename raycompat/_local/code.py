"""The functions and classes of local mode: pickled and unpickled, as in executors.

So a function has copies of the globals and of the closure that it uses, and does not share them with
the driver by mistake. The copies have the file names and lines of the source, by which debuggers stop.
"""

from __future__ import annotations

import pickle
from typing import TYPE_CHECKING, Any

from raycompat._messages.jobs import Export, ForgetCode

if TYPE_CHECKING:
    from raycompat._caller.session import Session


class Code:
    """The exported functions and classes of a session, by id."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._pickled: dict[str, bytes] = {}
        self._loaded: dict[str, Any] = {}

    def add(self, message: Export) -> None:
        """Add what was exported."""
        self._pickled[message.function] = message.code

    def forget(self, message: ForgetCode) -> None:
        """Forget what no call needs any more."""
        self._pickled.pop(message.function, None)
        self._loaded.pop(message.function, None)

    def load(self, function: str) -> Any:
        """Return the function or class; those with references inside are unpickled for each call."""
        if function in self._loaded:
            return self._loaded[function]
        references = self._session.num_restored
        loaded = pickle.loads(self._pickled[function])
        if self._session.num_restored == references:
            self._loaded[function] = loaded
        return loaded
