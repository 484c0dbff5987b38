"""Functions and classes: sent to the scheduler once per session; executors load them by their ids."""

from __future__ import annotations

import logging
import uuid
import weakref
from functools import partial
from typing import TYPE_CHECKING

from raycompat._protocol import frameworks, interrupts, tensorflow_mode
from raycompat._protocol.operations import ToScheduler
from raycompat._protocol.serialization import collecting_refs, dumps, unpicklable

if TYPE_CHECKING:
    from raycompat._caller.session import Session

logger = logging.getLogger(__name__)

#: Bytes of a pickled function or class above which raycompat warns, or raises an error; as in Ray.
_WARN_FROM_BYTES, _REFUSE_FROM_BYTES = 10 * 2**20, 95 * 2**20


def export(session: Session, function: str, code: object, what: str, remote: object) -> None:
    """Send a function or class to the scheduler under the id `function`, once per session.

    The references in its closure live as long as `remote`, the object that `raycompat.remote` returned.
    Environment variables, which executors also load by an id, are exported in the same way.

    It counts as exported only after it was sent. So two threads may both pickle and send it, which does
    no harm. After an error or an interrupt, the next call tries again.

    Raises
    ------
    TypeError
        When it cannot be pickled.
    """
    if function in session.exported:
        return
    try:
        with interrupts.deferred():  # a pickler hides an interrupt during a lookup
            data, found = collecting_refs(partial(dumps, code))
    except Exception as error:
        raise unpicklable(
            f"the {what} with the globals and closures that it uses", error
        ) from error
    _check_size(len(data), what)
    for framework in frameworks.named_in(data, besides=session.frameworks):
        session.send(ToScheduler.NAMES_FRAMEWORK, job=session.setup.job, framework=framework)
        session.frameworks.add(framework)
    session.send(
        ToScheduler.EXPORT,
        job=session.setup.job,
        function=function,
        code=tensorflow_mode.in_mode(data),
    )
    session.exported[function] = tuple(found.values())
    if found:
        weakref.finalize(remote, session.exported.pop, function, None).atexit = False


def exported_id(
    session: Session, known: dict[str, str], code: object, what: str, remote: object
) -> str:
    """Return the id under which executors load a function or class; export it if necessary.

    `known` maps jobs to ids, and travels with `remote`.

    Raises
    ------
    TypeError
        When it cannot be pickled.
    """
    job = session.setup.job
    function = known.get(job)
    if function in session.exported:
        return function
    if function is None:
        function = uuid.uuid4().hex
        session.own_exports.add(function)
        function = known.setdefault(job, function)  # before the pickling: it may refer to itself
    elif not session.setup.is_driver and function not in session.own_exports:
        return function  # the caller from which it came has exported it
    try:
        export(session, function, code, what, remote)
    except BaseException:
        known.pop(job, None)  # no code may refer to an id that was not sent
        raise
    return function


def _check_size(num_bytes: int, what: str) -> None:
    """Warn of large code, and raise an error for code that is too large: each executor loads it."""
    if num_bytes <= _WARN_FROM_BYTES:
        return
    text = (
        f"The {what} is very large ({num_bytes / 2**20:.0f} MiB). Check that its definition does not "
        "capture large arrays or other objects: store these with ray.put, and pass the references as "
        "arguments."
    )
    if num_bytes > _REFUSE_FROM_BYTES:
        raise ValueError(f"{text} The limit is {_REFUSE_FROM_BYTES // 2**20} MiB.")
    logger.warning(text)
