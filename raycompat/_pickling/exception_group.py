"""Exception groups as bytes: one member that cannot be pickled does not cost the others."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any, NamedTuple, TypeGuard


class Parts(NamedTuple):
    """A group: each of its parts is pickled alone."""

    #: Its class; None if the class cannot be pickled.
    kind: bytes | None
    message: str
    #: The arguments of its constructor behind the message and the members; None as above.
    rest: bytes | None
    #: Its attributes; None if they cannot be pickled.
    state: bytes | None
    members: tuple[bytes, ...]


def has_parts(error: BaseException) -> TypeGuard[BaseExceptionGroup[BaseException]]:
    """Return whether an exception is a group whose class leaves its pickling to Python.

    Python's way calls the class with the message and the members. A class whose constructor takes other
    arguments would fail.
    """
    kind = type(error)
    return (
        issubclass(kind, BaseExceptionGroup)
        and kind.__reduce__ is BaseException.__reduce__
        and kind.__reduce_ex__ is object.__reduce_ex__
    )


def dump(
    group: BaseExceptionGroup[BaseException],
    dumps: Callable[[Any], bytes],
    dump_member: Callable[[BaseException], bytes],
) -> bytes:
    """Return a group as bytes. `dump_member` never fails."""
    parts = Parts(
        kind=_pickled(type(group), dumps),
        message=group.message,
        rest=_pickled(group.args[2:], dumps),
        state=_pickled(vars(group), dumps),
        members=tuple(dump_member(each) for each in group.exceptions),
    )
    return pickle.dumps(parts)


def _pickled(value: object, dumps: Callable[[Any], bytes]) -> bytes | None:
    try:
        return dumps(value)
    except Exception:
        return None


def load(
    parts: Parts, load_member: Callable[[bytes], BaseException]
) -> BaseExceptionGroup[BaseException]:
    """Return the group; of a plain class if this process lacks the class. `load_member` never fails."""
    members = list(map(load_member, parts.members))
    kind = _unpickled(parts.kind, BaseExceptionGroup)
    try:
        group: BaseExceptionGroup[BaseException] = BaseExceptionGroup.__new__(
            kind, parts.message, members
        )
    except TypeError:  # an `ExceptionGroup` with a member that is no `Exception` here
        group = BaseExceptionGroup(parts.message, members)
    group.args = (parts.message, members, *_unpickled(parts.rest, ()))
    vars(group).update(_unpickled(parts.state, {}))
    return group


def _unpickled(data: bytes | None, default: object) -> Any:
    if data is None:
        return default
    try:
        return pickle.loads(data)
    except Exception:
        return default
