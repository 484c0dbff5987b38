"""One call in an executor: load the function and arguments, run it, and serialize the results."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import logging
import pickle
import sys
import time
import traceback
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from raycompat import _as_ray, exceptions
from raycompat._caller import resolve, tensors, tracing
from raycompat._caller.generator import DynamicObjectRefGenerator
from raycompat._caller.object_ref import ObjectRef
from raycompat._caller.put import not_stored, put, put_error
from raycompat._executor import debugger
from raycompat._host import segment
from raycompat._messages.executors import Failed, Succeeded
from raycompat._pickling import remote_traceback
from raycompat._pickling.serialization import deserialize, serialize, shortened, unpicklable
from raycompat._protocol import failures, ids, item_credit
from raycompat._protocol.actor_about import bound_method
from raycompat._protocol.argument_slots import NO_ARGUMENTS, Known, Slot
from raycompat._protocol.spans import Failure, Phases
from raycompat._protocol.values import ErrorValue, InlineValue, Wire, from_wire, to_wire

if TYPE_CHECKING:
    from raycompat._caller.this_process import RunningCall
    from raycompat._executor.call_runner import CallProcess, CallRunner
    from raycompat._executor.item_window import ItemWindow
    from raycompat._messages.direct import CallMessage


logger = logging.getLogger(__name__)

#: How many notes about items that tasks leave out a process remembers, so that it repeats none.
_MOST_NOTES = 100

#: Ray's name for the kind of error of a cancelled call.
_CANCELLED = "TASK_CANCELLED"

#: Stands for the end of a generator.
_END = object()

#: Characters of an error's text that are sent for logs and the state API.
_MANY_CHARACTERS = 10_000


Role: TypeAlias = Literal["function", "method", "constructor"]


@dataclass(slots=True)
class Call:
    """One call: its description, the caller's message, and the values of referenced arguments."""

    running: RunningCall
    message: CallMessage
    wires: Sequence[Wire]
    #: What it runs: the function or class with an id, or the method of this process's actor.
    role: Role
    #: When it had its arguments and its function, and when its user code has ended.
    loaded: float = 0.0
    executed: float = 0.0


@dataclass(slots=True)
class Outcome:
    """The end of a call. `refs` are the keys of references inside its results."""

    values: list[Wire] | None = None
    error: bytes = b""
    text: str = ""
    #: Ray's name for the kind of error.
    error_type: str = "TASK_EXECUTION_EXCEPTION"
    retry: bool = False
    refs: set[str] = field(default_factory=set)
    #: Objects that keep `refs` alive until the receiver of the results holds them.
    holds: list[object] = field(default_factory=list)
    #: The marks of the call for the timeline (`_executor.timeline.Marks`).
    marks: tuple[float, float] = (0.0, 0.0)

    @classmethod
    def cancelled(cls, key: str, name: str) -> Outcome:
        """Return the outcome of a call that was cancelled."""
        text = f"{name} was cancelled"
        return cls(error=failures.cancelled(key), text=text, error_type=_CANCELLED)

    @classmethod
    def interrupted(cls, executor: CallRunner, call: Call, interrupt: BaseException) -> Outcome:
        """Return the outcome of a call whose user code a cancellation has interrupted.

        As in Ray, its error is one of the call too, with the traceback of the interrupt.
        """
        running = call.running
        error = exceptions.TaskCancelledError(ids.task_hex(running.key))
        described = _describe(executor, running, error.with_traceback(interrupt.__traceback__))
        text = f"{running.name} was cancelled"
        return cls(error=exceptions.dumps_error(described), text=text, error_type=_CANCELLED)

    @classmethod
    def of_exit(cls, error: bytes) -> Outcome:
        """Return the outcome of a call that has ended its actor; `error` is that of later calls."""
        return cls(error=error, text="the actor exited", error_type="ACTOR_DIED")

    @classmethod
    def of_error(cls, executor: CallRunner, call: Call, error: BaseException) -> Outcome:
        """Return the outcome of a call that raised."""
        try:
            return cls._of_described(executor, call, error)
        except BaseException:  # of the class of the error, which is user code
            return cls.of_indescribable(executor, call, error)

    @classmethod
    def of_indescribable(cls, executor: CallRunner, call: Call, error: BaseException) -> Outcome:
        """Return the outcome for an error that cannot be inspected: no code of its class runs."""
        text = remote_traceback.plain_text_of(error, remote_traceback.is_framework_file)
        why = (
            "The exception of the call can be neither shown nor pickled: its class raises. See the"
        )
        cause = exceptions.RayError(f"{why} remote traceback.")
        described = exceptions.RayTaskError(call.running.name, text, cause, ip=executor.ip)
        is_actor = call.role == "constructor"
        failure = exceptions.ActorDiedError(described) if is_actor else described
        return cls(error=exceptions.dumps_error(failure), text=text[:_MANY_CHARACTERS])

    @classmethod
    def _of_described(cls, executor: CallRunner, call: Call, error: BaseException) -> Outcome:
        described = _describe(executor, call.running, error)
        is_actor = call.role == "constructor"
        failure = exceptions.ActorDiedError(described) if is_actor else described
        if is_actor:  # the actor may never be called, which would hide the error
            with contextlib.suppress(Exception):  # user code has closed or replaced the output
                print(f"Exception raised in creation task: {failure}", file=sys.stderr)
        text = "".join(traceback.format_exception_only(error)).strip()
        return cls(
            error=exceptions.dumps_error(failure),
            text=text[:_MANY_CHARACTERS],
            retry=_may_retry(call.message.retry_exceptions, error),
        )

    @property
    def is_cancelled(self) -> bool:
        """Whether the call was cancelled."""
        return self.values is None and self.error_type == _CANCELLED

    @property
    def failure(self) -> Failure | None:
        """The failure for the timeline; None if the call has succeeded."""
        if self.values is not None:
            return None
        traceback_text = failures.traceback_of(self.error) if self.error else ""
        return Failure(self.error_type, self.text, traceback_text)

    def discard(self, executor: CallRunner) -> None:
        """Remove the segments of results that will not be used."""
        for wire in self.values or ():
            if wire[0] == "segment":
                executor.session.home.place.remove(wire[1])

    def message(self, key: str, start: float) -> Succeeded | Failed:
        """Return the message for the node. `start` is when the call began, in seconds since 1970."""
        if self.values is not None:
            phases = Phases.between(start, *self.marks, time.time())
            return Succeeded(key, self.values, tuple(phases))
        return Failed(key, self.error, self.text, self.retry)


class Sink:
    """The interface of what receives a generator's items. No other call uses these methods."""

    def open(self, max_items: int | None) -> ItemWindow:
        """Start sending items; return the window that limits them."""
        raise NotImplementedError

    def item(self, index: int, wire: Wire, outcome: Outcome) -> None:
        """Send one item; `outcome` has the references in it."""
        raise NotImplementedError

    def wait(self, window: ItemWindow) -> None:
        """Wait in this thread until the generator may continue."""
        raise NotImplementedError

    def go_on_unwanted(self) -> None:
        """Lend the call's CPUs, because it goes on without a consumer, who may even be dead."""
        raise NotImplementedError

    def close(self) -> None:
        """Stop sending items."""
        raise NotImplementedError


def user_code(work: Callable[[], object]) -> object:
    """Call user code. Below this function, what its signal handlers raise reaches it (`signals`)."""
    return work()


def user_items(items: Iterator[object]) -> Iterator[object]:
    """Iterate over items that user code yields; see `user_code`."""
    next_item = partial(next, items, _END)
    while (item := user_code(next_item)) is not _END:
        yield item


async def user_coroutine(work: Awaitable[object]) -> object:
    """Await user code; see `user_code`."""
    return await work


def run(executor: CallProcess, call: Call, sink: Sink) -> Outcome:
    """Run one call. Any error in it becomes the outcome, except the end of the process."""
    executor.environment.begin(call.message.environment)
    try:
        outcome = _run(executor, call, sink)
        try:
            executor.environment.end()
        except BaseException:
            outcome.discard(executor)
            raise
    except BaseException as error:
        outcome = _outcome_of(executor, call, error)
        executor.environment.end_failed()
    outcome.marks = (call.loaded, call.executed)
    return outcome


def _run(executor: CallProcess, call: Call, sink: Sink) -> Outcome:
    work = prepare(executor, call)
    if isinstance(work, Outcome):
        return work
    call.loaded = time.time()
    executor.begin_user_code(call.running.key)
    try:
        result = user_code(work)
        del work
        if call.message.num_returns == "streaming":
            return stream(executor, call, result, sink)
    finally:
        executor.end_user_code()
        call.executed = time.time()
    return lay_out(executor, call, result)


async def run_async(executor: CallProcess, call: Call, sink: Sink) -> Outcome:
    """Run one call that may be a coroutine, as `run` does."""
    outcome = await _run_async(executor, call, sink)
    outcome.marks = (call.loaded, call.executed)
    return outcome


async def _run_async(executor: CallProcess, call: Call, sink: Sink) -> Outcome:
    executor.environment.begin(call.message.environment)
    # After the user's code this may be a forked child, in which no loop runs.
    task = asyncio.current_task()
    try:
        work = prepare(executor, call)
        if isinstance(work, Outcome):
            return work
        call.loaded = time.time()
        try:
            result = user_code(work)
            del work
            if inspect.isawaitable(result):
                result = await user_coroutine(result)
            if task is not None and task.cancelling():
                await asyncio.sleep(0)  # a cancellation that no ``await`` has raised is raised here
        finally:
            executor.check_process()
            call.executed = time.time()
        if call.message.num_returns == "streaming":
            return await stream_in_loop(executor, call, result, sink)
        return lay_out(executor, call, result)
    except asyncio.CancelledError as error:
        return Outcome.interrupted(executor, call, error)
    except BaseException as error:
        return _outcome_of(executor, call, error)


def _outcome_of(executor: CallRunner, call: Call, error: BaseException) -> Outcome:
    exit_error = executor.actor.exit_error if executor.actor is not None else None
    kind = type(error)  # `isinstance` reads ``__class__``, which user code may compute
    if exit_error is not None and issubclass(kind, (SystemExit, exceptions.AsyncioActorExit)):
        return Outcome.of_exit(exit_error)
    if issubclass(kind, SystemExit):
        raise error  # it ends the process, as in any program
    if issubclass(kind, KeyboardInterrupt):
        return Outcome.interrupted(executor, call, error)
    debugger.stop_at(error)
    return Outcome.of_error(executor, call, error)


def prepare(executor: CallRunner, call: Call) -> Callable[[], object] | Outcome:
    """Return the user's function with its arguments, or the outcome if an argument failed."""
    function = _find_function(executor, call)
    if call.message.arguments == NO_ARGUMENTS:
        return function
    try:
        args, kwargs = _arguments(executor, call)
    except Exception as error:
        return _failed_argument(executor, call, error)
    call.wires = ()
    if kwargs:
        function = tracing.traced(function, kwargs)
    return partial(function, *args, **kwargs)


def _arguments(executor: CallRunner, call: Call) -> tuple[list[object], dict[str, Any]]:
    values = [_value(executor, wire) for wire in call.wires]
    block = call.message.arguments
    given, named = deserialize(block) if block is not None else values.pop()
    args = [_argument(each, values) for each in given]
    return args, {name: _argument(each, values) for name, each in named.items()}


def _value(executor: CallRunner, wire: Any) -> Any:
    if wire[0] == "key":
        if wire[2] is not None:
            with contextlib.suppress(FileNotFoundError):
                return deserialize(segment.read(wire[2]))
        return resolve.get(executor.session, executor.session.sharing.hold((wire[1],)), None)[0]
    value = from_wire(wire)
    if isinstance(value, ErrorValue):
        raise exceptions.loads_error(value.error)
    if isinstance(value, InlineValue):
        return deserialize(value.block)
    return deserialize(segment.read(value.path))


def _argument(given: object, values: list[object]) -> object:
    if isinstance(given, Slot):
        return values[given.number]
    if isinstance(given, Known):
        return deserialize(given.block)
    return given


def _find_function(executor: CallRunner, call: Call) -> Callable[..., Any]:
    if call.role == "method":
        return _find_method(executor, call.message.function)
    loaded = executor.load(call.message.function)
    if call.role == "constructor":
        return _builder(executor, loaded)
    function: Callable[..., Any] = loaded
    call.running.function = function
    return function


def _builder(executor: CallRunner, cls: Any) -> Callable[..., object]:
    def build(*args: object, **kwargs: object) -> object:
        instance = cls.__new__(cls)
        assert executor.actor is not None
        executor.actor.instance = instance
        return instance.__init__(*args, **kwargs)  # a coroutine if it is ``async def``

    return build


def _find_method(executor: CallRunner, name: str) -> Callable[..., object]:
    assert executor.actor is not None
    instance, leave = executor.actor.instance, executor.actor.exit
    if name == "__ray_ready__":
        return lambda: True
    if name == "__ray_call__":
        return lambda function, *args, **kwargs: function(instance, *args, **kwargs)
    if name == "__ray_terminate__":
        return leave
    method: Callable[..., Any] = bound_method(instance, name)
    return method


def lay_out(executor: CallRunner, call: Call, result: object) -> Outcome:
    """Serialize what a call returned: one result, or as many as it has."""
    num_returns = call.message.num_returns
    outcome = Outcome(values=[])
    assert outcome.values is not None
    # Of a generator object that a call returns, the items are the results, also a single one.
    is_one = num_returns == 1 and not inspect.isgenerator(result)
    if is_one or num_returns in (0, "streaming"):
        results: Any = [result] if num_returns else []
    elif isinstance(num_returns, int):
        results = _split(executor, call.running, result, num_returns)
    else:
        results = [_gather(executor, call, result)]
    try:
        for one in results:
            if isinstance(one, ErrorValue):
                outcome.values.append(to_wire(one))
                continue
            keeper = tensors.keeper(executor.session) if call.message.keeps_tensors else None
            outcome.values.append(_store(executor, one, outcome, keeper))
            if keeper is not None:
                keeper.commit()
    except BaseException:
        outcome.discard(executor)
        raise
    return outcome


def _split(executor: CallRunner, call: RunningCall, result: Any, num_returns: int) -> Iterator[Any]:
    """Yield each of several results; for items that a generator does not yield, yield an error."""
    if not isinstance(result, Iterator):
        if not hasattr(result, "__len__"):
            raise TypeError(
                f"object of type {type(result).__name__!r} has no len(): task {call.name} has "
                f"num_returns={num_returns}, so it must return a tuple or a list of "
                f"{num_returns} objects."
            )
        if len(result) != num_returns:
            raise ValueError(
                f"Task {call.name} returned {len(result)} objects, but num_returns={num_returns}. "
                f"Return {num_returns}, or change num_returns."
            )
        yield from result
        return
    given = 0
    failure: Exception
    try:
        for given, one in enumerate(user_items(result), 1):
            if given > num_returns:  # as in Ray, further items are dropped
                _note_left_out(call.name, num_returns, "further items")
                return
            yield one
        failure = ValueError(
            f"Task {call.name} returned {given} objects, but num_returns={num_returns}."
        )
    except Exception as error:
        if given == num_returns:
            _note_left_out(call.name, num_returns, f"the error {shortened(error)}")
        failure = error
    if given == num_returns:
        return
    missing = ErrorValue(exceptions.dumps_error(_describe(executor, call, failure)))
    for _ in range(given, num_returns):
        yield missing


@lru_cache(maxsize=_MOST_NOTES)
def _note_left_out(task: str, num_returns: int, what: str) -> None:
    """Write into the process's log, once, that something is in no result of a task."""
    logger.warning(
        "Task %s has num_returns=%s and returned a generator, of which it leaves out %s. Use "
        "num_returns='streaming' to receive all.",
        task,
        num_returns,
        what,
    )


def _gather(executor: CallRunner, call: Call, items: Any) -> DynamicObjectRefGenerator:
    """Put all items of a generator; its error, if it raises, is the last of them."""
    _check_is_iterator(call, items)
    session = executor.session
    refs: list[ObjectRef[object]] = []
    try:
        refs.extend(put(session, item) for item in user_items(items))
    except Exception as failure:
        error = exceptions.dumps_error(_describe(executor, call.running, failure))
        refs.append(put_error(session, error))
    return DynamicObjectRefGenerator(refs)


def _store(
    executor: CallRunner, value: object, outcome: Outcome, keeper: tensors.Keeper | None = None
) -> Wire:
    try:
        block, found = serialize(value, keeper)
    except TypeError as error:  # other errors are raised as they are, as in Ray
        raise unpicklable(f"the result {shortened(value)}", error) from error
    outcome.refs.update(found)
    outcome.holds += found.values()
    try:
        return to_wire(executor.session.home.place.save(block))
    except OSError as error:
        folders = "the object store or on the disk"
        raise not_stored(f"A result of {block.size} bytes", folders, error) from error


def stream(executor: CallRunner, call: Call, items: Any, sink: Sink) -> Outcome:
    """Send each item as soon as it is yielded; the outcome is that of the generator's end.

    Items that the consumer does not need are dropped, and the generator runs to its end, as in Ray.
    It may have none, so it lends its CPUs then.
    """
    _check_is_iterator(call, items)
    window = sink.open(call.message.max_items)
    try:
        for index, item in enumerate(user_items(items)):
            # A cancelled method was not interrupted.
            if executor.actor is not None and executor.is_cancelled(call.running.key):
                return Outcome.cancelled(call.running.key, call.running.name)
            _send_item(executor, sink, window, index, item)
            if not window.may_go_on:
                sink.wait(window)
            elif not window.is_wanted:
                sink.go_on_unwanted()
            if window.is_closed:
                return Outcome.cancelled(call.running.key, call.running.name)
    finally:
        sink.close()
    return lay_out(executor, call, None)


async def stream_in_loop(executor: CallRunner, call: Call, items: Any, sink: Sink) -> Outcome:
    """Do the same as `stream` in an event loop, which runs other calls while the generator waits."""
    if not isinstance(items, AsyncIterator):
        _check_is_iterator(call, items)
        items = _as_async(items)
    window = sink.open(call.message.max_items)
    index = 0
    try:
        while (item := await user_coroutine(anext(items, _END))) is not _END:
            _send_item(executor, sink, window, index, item)
            index += 1
            if not window.may_go_on:
                await window.wait_in_loop()
            elif not window.is_wanted:
                await asyncio.sleep(0)  # the loop reads the consumer's messages: it may be dead
            if window.is_closed:
                return Outcome.cancelled(call.running.key, call.running.name)
    finally:
        sink.close()
    return lay_out(executor, call, None)


async def _as_async(items: Iterator[object]) -> AsyncIterator[object]:
    for item in items:
        yield item


def _check_is_iterator(call: Call, items: object) -> None:
    if not isinstance(items, Iterator):
        raise TypeError(
            f"{call.running.name} has num_returns={call.message.num_returns!r}, so it must be a "
            f"generator function, but it returned {type(items).__name__}."
        )


def _send_item(
    executor: CallRunner, sink: Sink, window: ItemWindow, index: int, item: object
) -> None:
    if window.is_wanted:
        one = Outcome()
        wire = _store(executor, item, one)
        window.note_sent(item_credit.cost_of(wire))
        sink.item(index, wire, one)


def _failed_argument(executor: CallRunner, call: Call, error: Exception) -> Outcome:
    """Return the outcome of a call with an argument that failed."""
    if not isinstance(error, exceptions.RayError):
        error = exceptions.RaySystemError(error, traceback.format_exc())
    failure = exceptions.RayTaskError.from_dependency(
        error, call.running.name, ip=executor.ip, actor_id=None
    )
    is_actor = call.role == "constructor"
    whole = exceptions.ActorDiedError(failure) if is_actor else failure
    return Outcome(error=exceptions.dumps_error(whole), text=str(failure)[:_MANY_CHARACTERS])


def _describe(
    executor: CallRunner, call: RunningCall, error: BaseException
) -> exceptions.RayTaskError:
    instance = executor.actor.instance if executor.actor is not None else None
    with _advised(error):
        return exceptions.RayTaskError.from_exception(
            error,
            call.name,
            ip=executor.ip,
            actor_repr=_safe_repr(instance) if instance is not None else None,
            actor_id=call.actor.rpartition("-")[2] if call.actor else None,
        )


@contextlib.contextmanager
def _advised(error: BaseException) -> Iterator[None]:
    """Give an error a note while it is described: what an unchanged program of Ray can do about it."""
    may_be_of_old = isinstance(error, TypeError | ImportError | AttributeError)
    is_advised = isinstance(error, exceptions.RayTaskError)  # of a call that this call has made
    if is_advised or not may_be_of_old or not _as_ray.is_installed():
        yield
        return
    from raycompat._old_forms import packages  # the import takes time, and few calls fail

    advice = packages.advice(error)
    if advice:
        error.add_note(advice)
    yield
    if advice:
        error.__notes__.remove(advice)  # Python would show it behind the text, too


def _safe_repr(instance: object) -> str:
    try:
        return repr(instance)
    except Exception as error:
        reason = remote_traceback.said(error)
        return f"<{type(instance).__name__} whose repr raises {type(error).__name__}: {reason}>"


def _may_retry(wanted: bool | bytes, error: BaseException) -> bool:
    """Return whether the caller requested another try after an error of this kind."""
    if isinstance(wanted, bool):
        return wanted and issubclass(type(error), Exception)
    return issubclass(type(error), pickle.loads(wanted))
