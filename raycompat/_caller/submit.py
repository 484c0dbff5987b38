"""Calls on their way out: functions exported once, arguments laid out, the call queued.

Top-level references among the arguments become the call's dependencies (small values that are known
already go along instead); references nested deeper only travel, and are kept alive by the call.
"""

from __future__ import annotations

import pickle
import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import cloudpickle

from raycompat import exceptions
from raycompat._caller.generator import Stream
from raycompat._caller.object_table import Entry, State
from raycompat._caller.session import PendingCall
from raycompat._protocol import failures, ids
from raycompat._protocol.call_spec import CallSpec
from raycompat._protocol.serialization import Block, collecting_refs, serialize
from raycompat._protocol.values import InlineValue
from raycompat.object_ref import ObjectRef, ObjectRefGenerator

if TYPE_CHECKING:
    from raycompat._caller.session import Session


@dataclass(frozen=True, slots=True)
class Slot:
    """Stands among pickled arguments for the value of dependency number `index`."""

    index: int


@dataclass(frozen=True, slots=True)
class Known:
    """Stands among pickled arguments for a small value that the caller already had."""

    block: bytes


class Arguments:
    """The arguments of one call, ready to travel."""

    def __init__(
        self, session: Session, args: Sequence[Any], kwargs: Mapping[str, Any], name: str
    ) -> None:
        self.deps: list[str] = []
        self.holds: list[Any] = []
        self.failed: Entry | None = None
        self._session = session
        if args or kwargs:
            args = [self._top_level(value) for value in args]
            kwargs = {name: self._top_level(value) for name, value in kwargs.items()}
        block, found = _serialize_arguments(args, kwargs, name)
        self.holds += found.values()
        self.block: bytes | None
        if block.is_small:
            self.block = block.to_bytes()
        else:
            self.block = None
            ref = put_block(session, block, tuple(found.values()))
            self.holds.append(ref)
            self.deps.append(session.publish(session.table.entries[ref._key]))

    def _top_level(self, value: Any) -> Any:
        if not isinstance(value, ObjectRef):
            return value
        if value._session is not self._session:
            raise ValueError(
                f"{value!r} is not from the current Ray session: its cluster is gone. Put the value "
                "anew."
            )
        entry = self._session.table.entries[value._key]
        self.holds.append(value)
        with self._session.table.lock:
            if entry.state is State.FAILED:
                self.failed = self.failed or entry
                return None
            if entry.state is State.READY and isinstance(entry.value, InlineValue):
                return Known(entry.value.block)
            self.deps.append(self._session.publish(entry))
        return Slot(len(self.deps) - 1)


def _serialize_arguments(
    args: Sequence[Any], kwargs: Mapping[str, Any], name: str
) -> tuple[Block, dict[str, Any]]:
    try:
        return serialize((args, kwargs))
    except Exception as error:
        culprit = next(filter(_cannot_be_pickled, [*args, *kwargs.values()]), args)
        raise TypeError(
            f"Could not serialize the argument {_short(culprit)} for a task or actor {name}: "
            f"{error!r}. {_PICKLING_HINT}"
        ) from error


def _cannot_be_pickled(value: Any) -> bool:
    try:
        serialize(value)
    except Exception:
        return True
    return False


_PICKLING_HINT = (
    "Everything that goes to another process must be picklable: pass data rather than open files, "
    "locks, sockets or sessions, or make such things inside of the task or actor."
)


def put_block(session: Session, block: Block, holds: tuple[Any, ...]) -> ObjectRef[Any]:
    """Keep a block in this process (small) or on this host (large), and refer to it.

    Raises
    ------
    ObjectStoreFullError
        When the host has no room for it.
    """
    try:
        value = session.setup.place.save(block)
    except OSError as error:
        raise exceptions.ObjectStoreFullError(
            f"There is no room for an object of {block.size} bytes in "
            f"{' or '.join(session.setup.place.directories)}."
        ) from error
    entry = session.table.add(ids.call_key("put", ids.new_task_id()))
    entry.own_segment = not isinstance(value, InlineValue)
    ref = ObjectRef._from_key(entry.key, session)
    session.table.settle(entry, value=value, holds=holds)
    if not session.is_connected:
        session.table.collect_dropped()
    return ref


def put(session: Session, value: Any) -> ObjectRef[Any]:
    """Keep a value and return the reference to it.

    Raises
    ------
    TypeError
        When it cannot be pickled.
    """
    try:
        block, found = serialize(value)
    except Exception as error:
        text = f"Could not serialize the put value {_short(value)}: {error!r}. {_PICKLING_HINT}"
        raise TypeError(text) from error
    return put_block(session, block, tuple(found.values()))


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 200 else text[:200] + "..."


def export(
    session: Session, function: str, code: Callable[..., Any], what: str, remote: object
) -> None:
    """Send a function or class to the scheduler, once a session, under the id `function`.

    The references in its closure live as long as `remote`, what `raycompat.remote` made of it.

    Raises
    ------
    TypeError
        When it cannot be pickled.
    """
    if function in session.exported:
        return
    session.exported[function] = ()
    try:
        with collecting_refs() as found:
            data = cloudpickle.dumps(code, protocol=5)
    except Exception as error:
        del session.exported[function]
        raise TypeError(
            f"Could not serialize the {what}: {error!r}. What it refers to (globals, closures) goes "
            f"to other processes with it. {_PICKLING_HINT}"
        ) from error
    if found:
        session.exported[function] = tuple(found.values())
        weakref.finalize(remote, session.exported.pop, function, None).atexit = False
    session.send("raycompat-export", job=session.setup.job, function=function, code=data)


def call(
    session: Session,
    spec: CallSpec,
    arguments: Arguments,
    payload: dict[str, Any],
    num_returns: int | str,
    *,
    holds: Sequence[Any] = (),
) -> Any:
    """Queue one call and return what stands for its results: a reference, several, none, a stream.

    `payload` is what the executor needs besides the arguments.
    """
    key = spec["key"]
    streaming = num_returns == "streaming"
    count = 1 if streaming else int(num_returns)
    entry = session.table.add(key, wanted=True)
    returns: list[Entry] = []
    stream = None
    refs: Any
    entry_ref: ObjectRef[Any] = ObjectRef._from_key(key, session)
    if streaming:
        stream = Stream(session, key, entry_ref)
        refs = ObjectRefGenerator(stream)
        returns = [entry]
    elif count == 1:
        refs = entry_ref
        returns = [entry]
    else:
        for index in range(count):
            one = session.table.add(ids.return_key(key, index))
            one.parent, one.pick_index = entry, index
            session.table.count_up(key)
            returns.append(one)
        refs = [ObjectRef._from_key(one.key, session) for one in returns] or None
    if arguments.failed is not None:
        error = arguments.failed.error
        victim: str | None = spec["name"]
        if spec["kind"] == "actor":
            error, victim = failures.actor_not_built(error or b"", key), None
        elif arguments.failed.key == spec["actor"]:
            victim = None  # it is the actor that is dead
        _fail_at_once(session, error, victim, returns, stream)
        return refs
    spec["deps"] = arguments.deps
    spec["payload"] = pickle.dumps(
        {**payload, "arguments": arguments.block, "num_returns": num_returns}, protocol=5
    )
    is_actor = spec["kind"] == "actor"
    entry.escaped = is_actor  # an actor that has died keeps its row, which says why
    session.calls[key] = PendingCall(
        key,
        spec["name"],
        returns,
        (*arguments.holds, *holds),
        # A call whose references are dropped runs all the same; an actor ends.
        None if is_actor else entry_ref,
        session.current_task(),
        stream,
        spec["kind"] == "method",
    )
    session.submit(dict(spec))
    return refs


def _fail_at_once(
    session: Session,
    error: bytes | None,
    victim: str | None,
    returns: list[Entry],
    stream: Stream | None,
) -> None:
    """End a call that cannot run because an argument, or its actor, has already failed."""
    for entry in returns:
        entry.wanted = False
        if entry.parent is not None:
            entry.parent.wanted = False
        session.table.settle(entry, error=error, victim=victim)
    if stream is not None:
        stream.end(error, victim)
