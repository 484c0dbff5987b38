"""Calls on their way out: functions exported once, arguments laid out, the call queued.

Top-level references among the arguments become the call's dependencies (small values that are known
already go along instead); references nested deeper only travel, and are kept alive by the call.
"""

from __future__ import annotations

import logging
import pickle
import uuid
import weakref
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import cloudpickle

from raycompat import exceptions
from raycompat._caller import interrupts
from raycompat._caller.calls import DirectCall, PendingCall
from raycompat._caller.dask_values import as_ref, is_dask_value
from raycompat._caller.generator import Stream
from raycompat._caller.leases import is_near
from raycompat._caller.object_table import Entry, State
from raycompat._protocol import failures, ids, tensorflow_mode
from raycompat._protocol.call_spec import CallSpec
from raycompat._protocol.serialization import (
    INLINE_LIMIT_BYTES,
    Block,
    collecting_refs,
    serialize,
)
from raycompat._protocol.values import InlineValue
from raycompat.object_ref import ObjectRef, ObjectRefGenerator

if TYPE_CHECKING:
    from raycompat._caller.channel import Channel
    from raycompat._caller.session import Session


logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Slot:
    """Stands among pickled arguments for the value of dependency number `index`."""

    index: int


@dataclass(frozen=True, slots=True)
class Known:
    """Stands among pickled arguments for a small value that the caller already had."""

    block: bytes


#: Bytes. Up to this size arguments travel inside a message to an actor: about where the cost of a
#: segment (to make, map and remove a file) equals that of the copies.
CHANNEL_LIMIT_BYTES = 200 * 1024

#: Bytes of a pickled function or class above which a warning is given, or it is refused; as in Ray.
_WARN_FROM_BYTES, _REFUSE_FROM_BYTES = 10 * 2**20, 95 * 2**20

#: The block of no arguments: most calls of methods have none.
NO_ARGUMENTS = b""


class Arguments:
    """The arguments of one call, ready to travel.

    `block` is the arguments laid out, with a `Slot` for each of the `dependencies`; it is None when it
    is large, and then the last of the dependencies. `holds` keeps alive what they refer to.
    """

    def __init__(
        self,
        session: Session,
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        name: str,
        *,
        inline_limit_bytes: int = INLINE_LIMIT_BYTES,
    ) -> None:
        self.dependencies: list[Entry] = []
        self.holds: list[Any] = []
        self.block: bytes | None = NO_ARGUMENTS
        #: Whether there are references inside the arguments.
        self.carries_references = False
        self._session = session
        if not args and not kwargs:
            return
        args = [self._top_level(value) for value in args]
        kwargs = {name: self._top_level(value) for name, value in kwargs.items()}
        block, found = _serialize_arguments(args, kwargs, name)
        if found:
            self.holds += found.values()
            self.carries_references = True
        if block.size <= inline_limit_bytes:
            self.block = block.to_bytes()
        else:
            self.block = None
            ref = put_block(session, block, tuple(found.values()))
            self.holds.append(ref)
            self.dependencies.append(ref._entry)

    def _top_level(self, value: Any) -> Any:
        if not isinstance(value, ObjectRef):
            if not is_dask_value(value):
                return value
            value = as_ref(self._session, value)
        entry = value._entry
        if value._session is not self._session:
            raise ValueError(
                f"{value!r} is not from the current Ray session: its cluster is gone. Put the value "
                "anew."
            )
        if entry.state is State.READY and isinstance(entry.value, InlineValue):
            if entry.holds:
                self.holds.append(value)
                self.carries_references = True
            return Known(entry.value.block)
        entry.is_asked_for = True  # by whoever asks for the call
        self.holds.append(value)
        self.dependencies.append(entry)
        return Slot(len(self.dependencies) - 1)

    def failed(self) -> Entry | None:
        """Return the first dependency that has failed already."""
        return next((e for e in self.dependencies if e.state is State.FAILED), None)

    def publish(self) -> list[str]:
        """Return the keys of the dependencies, for Dask to wait for."""
        return [self._session.sharing.publish(entry) for entry in self.dependencies]


def _serialize_arguments(
    args: Sequence[Any], kwargs: Mapping[str, Any], name: str
) -> tuple[Block, dict[str, Any]]:
    try:
        return serialize((args, kwargs))
    except TypeError as error:  # others pass, as in Ray
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
    if block.size <= INLINE_LIMIT_BYTES:
        return _put_block(session, block, holds)
    with interrupts.deferred():  # a segment always has an owner that removes it
        return _put_block(session, block, holds)


def _put_block(session: Session, block: Block, holds: tuple[Any, ...]) -> ObjectRef[Any]:
    try:
        value = session.home.place.save(block)
    except OSError as error:
        raise exceptions.ObjectStoreFullError(
            f"There is no room for an object of {block.size} bytes in "
            f"{' or '.join(session.home.place.directories)}."
        ) from error
    entry = session.table.add(ids.call_key("put", ids.new_task_id()))
    ref = ObjectRef._from_key(entry.key, session)
    is_large = not isinstance(value, InlineValue)
    session.table.settle(entry, value=value, holds=holds, own_segment=is_large)
    if is_large:
        session.sharing.share_segments()
    if not session.is_connected:
        session.table.collect_dropped()
    return ref


def put(session: Session, value: Any) -> ObjectRef[Any]:
    """Keep a value and return the reference to it.

    Raises
    ------
    TypeError, pickle.PicklingError, ...
        When it cannot be pickled.
    """
    try:
        block, found = serialize(value)
    except TypeError as error:  # others pass, as in Ray
        text = f"Could not serialize the put value {_short(value)}: {error!r}. {_PICKLING_HINT}"
        raise TypeError(text) from error
    return put_block(session, block, tuple(found.values()))


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 200 else text[:200] + "..."


def export(session: Session, function: str, code: object, what: str, remote: object) -> None:
    """Send a function or class to the scheduler, once a session, under the id `function`.

    The references in its closure live as long as `remote`, what `raycompat.remote` made of it. What
    else executors load by an id goes the same way: environment variables.

    It counts as exported only when it was sent. So two threads may both pickle and send it, which
    does no harm; and after an error, or an interrupt, the next call tries again.

    Raises
    ------
    TypeError
        When it cannot be pickled.
    """
    if function in session.exported:
        return
    try:
        with collecting_refs() as found:
            data = cloudpickle.dumps(code, protocol=5)
    except Exception as error:
        raise TypeError(
            f"Could not serialize the {what}: {error!r}. What it refers to (globals, closures) goes "
            f"to other processes with it. {_PICKLING_HINT}"
        ) from error
    _check_size(len(data), what)
    if not session.names_tensorflow and tensorflow_mode.is_named_in(data):
        session.names_tensorflow = True
        session.send("raycompat-names-tensorflow", job=session.setup.job)
    session.send(
        "raycompat-export",
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
    """Return the id under which executors load a function or class; export it if that is not done.

    `known` has its id by job, and travels with `remote`.

    Raises
    ------
    TypeError
        When it cannot be pickled.
    """
    job = session.setup.job
    function = known.get(job)
    if function is None:
        function = uuid.uuid4().hex
        session.own_exports.add(function)
        function = known.setdefault(job, function)  # before the pickling: it may refer to itself
    elif not session.setup.is_driver and function not in session.own_exports:
        return function  # it came from a caller that has exported it
    try:
        export(session, function, code, what, remote)
    except BaseException:
        known.pop(job, None)  # nobody may refer to an id that nobody has sent
        raise
    return function


def _check_size(num_bytes: int, what: str) -> None:
    """Warn of code that is large, and refuse what is too large: each executor loads it."""
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
    with interrupts.deferred():  # there are entries for the results before there are references
        return _call(session, spec, arguments, payload, num_returns, holds)


def _call(
    session: Session,
    spec: CallSpec,
    arguments: Arguments,
    payload: dict[str, Any],
    num_returns: int | str,
    holds: Sequence[Any],
) -> Any:
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
    is_actor = spec["kind"] == "actor"
    failed = arguments.failed()
    if failed is not None:
        error, victim = failed.error or b"", None if is_actor else spec["name"]
        if is_actor:
            error = failures.actor_not_built(error, key)
        _fail_at_once(session, error, victim, returns, stream)
        return refs
    spec["deps"] = arguments.publish()
    spec["payload"] = pickle.dumps(
        {**payload, "arguments": arguments.block, "num_returns": num_returns}, protocol=5
    )
    entry.escaped = is_actor  # an actor that has died keeps its row, which says why
    pending = PendingCall(
        key,
        spec["name"],
        returns,
        (*arguments.holds, *holds),
        # A call whose references are dropped runs all the same; an actor ends.
        None if is_actor else entry_ref,
        _note_child(session, key),
        stream,
    )
    try:
        session.calls[key] = pending
        session.submit(spec)
    except BaseException:  # nobody will get its reference
        session.calls.pop(key, None)
        session.children.pop(key, None)
        raise
    return refs


def call_directly(
    session: Session, call: DirectCall, arguments: Arguments, num_returns: int | str
) -> Any:
    """Send one call straight to the process that runs it; return as `call` does."""
    call.num_returns = num_returns
    call.arguments = arguments.block
    call.dependencies = arguments.dependencies
    call.carries_references = arguments.carries_references
    call.parent = _note_child(session, call.key)
    table = session.table
    if table.dropped and not session.is_connected:
        table.collect_dropped()
    if num_returns in (1, "streaming"):
        keys = [call.key]
    else:
        keys = [ids.return_key(call.key, index) for index in range(int(num_returns))]
    try:
        refs: Any = [ObjectRef._of_new(_expect(session, call, key), session) for key in keys]
        if num_returns == "streaming":
            call.stream = Stream(session, call.key, refs[0])
            refs = ObjectRefGenerator(call.stream)
        call.sender.submit(call)
    except BaseException:  # an interrupt may have come before the references
        table.remove_unreferenced(keys)
        raise
    return refs[0] if num_returns == 1 else refs or None


def _note_child(session: Session, key: str) -> str | None:
    """Note that the call which runs here, if one does, makes another, and return its key."""
    parent = session.current_task()
    if parent is not None:
        session.children[key] = parent
    return parent


def _expect(session: Session, call: DirectCall, key: str) -> Entry:
    """Make the entry of one result."""
    entry = session.table.add(key)
    if call.options is not None:
        entry.origin = call
    else:
        entry.channel = cast("Channel", call.sender)
    call.returns.append(entry)
    return entry


def may_go_by_lease(session: Session, arguments: Arguments) -> bool:
    """Whether a call's arguments are here, or are being made for this process."""
    for entry in arguments.dependencies:
        if entry.state is State.PENDING:
            is_ours = entry.origin is not None or entry.channel is not None
            if not is_ours and (entry.parent or entry).key not in session.calls:
                return False
        elif entry.state is State.FAILED or not is_near(entry, session.setup.host):
            return False
    return True


def _fail_at_once(
    session: Session,
    error: bytes,
    victim: str | None,
    returns: list[Entry],
    stream: Stream | None,
) -> None:
    """End a call that cannot run because an argument, or its actor, has already failed."""
    for entry in returns:
        entry.wanted = False
        if entry.parent is not None:
            entry.parent.wanted = False
        session.table.fail(entry, error, victim)
    if stream is not None:
        stream.end(error, victim)
