"""Functions and classes: sent to the scheduler once per session; executors load them by their ids.

The cluster keeps the code as long as it can be needed: until the object that `raycompat.remote`
returned is gone, and all calls of it have ended. A function that was itself sent to other processes,
which can call it at any time, stays until its job ends.
"""

from __future__ import annotations

import logging
import os
import uuid
import weakref
from collections.abc import Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING

from raycompat._caller import tensorflow_mode
from raycompat._host import interrupts
from raycompat._messages.jobs import Export, ForgetCode, NamesFramework
from raycompat._pickling.serialization import collecting_refs, dumps, unpicklable
from raycompat._protocol import frameworks

if TYPE_CHECKING:
    from raycompat._caller.membership import Membership

logger = logging.getLogger(__name__)

#: Bytes of a pickled function or class above which raycompat warns, and from which it raises an error;
#: the limit has Ray's variable.
_WARN_ABOVE_BYTES, _REFUSE_FROM_BYTES = 10**7, 10**8
_LIMIT_VARIABLE = "FUNCTION_SIZE_ERROR_THRESHOLD"


class Reach:
    """Whether a function or class was itself pickled, so that other processes may call it."""

    __slots__ = ("is_anywhere",)

    def __init__(self, *, is_anywhere: bool) -> None:
        self.is_anywhere = is_anywhere


class KnownIds(dict[str, str]):
    """The id of a function or class in each job; it travels with the function."""

    __slots__ = ("__weakref__", "reach")

    def __init__(self, ids: Mapping[str, str] | None = None) -> None:
        super().__init__(ids or {})
        #: What comes with ids has come from another process, or is a copy.
        self.reach = Reach(is_anywhere=ids is not None)

    def __reduce__(self) -> tuple[object, ...]:
        self.reach.is_anywhere = True
        return KnownIds, (dict(self),)


class Exported:
    """The code of a function or class in the cluster. The function and its calls hold this object."""

    __slots__ = ("_function", "_reach", "_references", "_session")

    def __init__(
        self, session: Membership, function: str, reach: Reach, references: Iterable[object]
    ) -> None:
        self._session = session
        self._function = function
        self._reach = reach
        #: The references in its closure.
        self._references = tuple(references)

    def __del__(self) -> None:
        if not self._reach.is_anywhere and not self._session.closed:
            # Takes no lock, as in `note_dropped`. This object lives on until then.
            self._session.table.dropped.append(self)
            self._session.wake()

    def drop_handle(self) -> None:
        """Let the cluster forget the code."""
        session = self._session
        session.send(ForgetCode(self._function))


class Exports:
    """The functions and classes that a session has exported."""

    def __init__(self, session: Membership) -> None:
        self._session = session
        #: The code of the exported functions that exist, by their ids.
        self.codes: dict[str, Exported] = {}
        #: Ids that this process has given to functions; other ids came with the functions.
        self.own_ids: set[str] = set()
        #: The frameworks that this process's code uses, as the scheduler was told.
        self._frameworks: set[str] = set()

    def export(self, function: str, code: object, what: str, known: KnownIds | None) -> None:
        """Send a function or class to the scheduler under the id `function`, once per session.

        The code and the references in its closure live as long as `known`, its ids, and its calls;
        without ids, as long as the session. Environment variables, which executors also load by an id,
        are exported in the same way.

        It counts as exported only after it was sent: after an error or an interrupt, the next call
        tries again. Two threads may both pickle it, and one of them sends it: one object stands for its
        code.

        Raises
        ------
        TypeError
            When it cannot be pickled.
        """
        if function in self.codes:
            return
        try:
            with interrupts.deferred():  # a pickler hides an interrupt during a lookup
                data, found = collecting_refs(partial(dumps, code))
        except Exception as error:
            raise unpicklable(
                f"the {what} with the globals and closures that it uses", error
            ) from error
        _check_size(len(data), what)
        session = self._session
        for framework in frameworks.named_in(data, besides=self._frameworks):
            session.send(NamesFramework(session.setup.job, framework))
            self._frameworks.add(framework)
        reach = Reach(is_anywhere=True) if known is None else known.reach
        with session.lock:
            if function in self.codes:  # another thread was quicker
                return
            session.send(Export(session.setup.job, function, tensorflow_mode.in_mode(data)))
            self.codes[function] = Exported(session, function, reach, found.values())
        if known is not None:
            weakref.finalize(known, _forget, weakref.ref(self), function).atexit = False

    def id_of(self, known: KnownIds, code: object, what: str) -> str:
        """Return the id under which executors load a function or class; export it if necessary.

        Raises
        ------
        TypeError
            When it cannot be pickled.
        """
        setup = self._session.setup
        function = known.get(setup.job)
        if function in self.codes:
            return function
        if function is None:
            function = uuid.uuid4().hex
            self.own_ids.add(function)
            function = known.setdefault(setup.job, function)  # first: it may refer to itself
        elif not setup.is_driver and function not in self.own_ids:
            return function  # the caller from which it came has exported it
        try:
            self.export(function, code, what, known)
        except BaseException:
            known.pop(setup.job, None)  # no code may refer to an id that was not sent
            raise
        return function

    def forget(self, function: str) -> None:
        """Forget a function whose ids are gone. The calls of it that have not ended keep its code."""
        self.codes.pop(function, None)
        self.own_ids.discard(function)


def _forget(exports_of: weakref.ref[Exports], function: str) -> None:
    exports = exports_of()
    if exports is not None:
        exports.forget(function)


def _check_size(num_bytes: int, what: str) -> None:
    """Warn of large code, and raise an error for code that is too large: each executor loads it."""
    if num_bytes <= _WARN_ABOVE_BYTES:
        return
    advice = (
        "Check that its definition does not capture large arrays or other objects: store these with "
        "ray.put, and pass the references as arguments."
    )
    size = f"{num_bytes / 2**20:.1f} MiB"
    given = os.environ.get(_LIMIT_VARIABLE, "")
    limit = int(given) if given.isdecimal() else _REFUSE_FROM_BYTES
    if num_bytes >= limit:
        raise ValueError(
            f"The {what} is too large ({size}; the limit is {limit / 2**20:.1f} MiB, and the variable "
            f"{_LIMIT_VARIABLE} changes it). {advice}"
        )
    logger.warning("The %s is very large (%s). %s", what, size, advice)
