"""One call in an executor: load the function, make the arguments, run, lay out what comes back."""

from __future__ import annotations

import inspect
import pickle
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from raycompat import exceptions
from raycompat._caller.submit import Known, Slot
from raycompat._executor.run_actor import ActorExit
from raycompat._protocol import failures, segment
from raycompat._protocol.serialization import deserialize, serialize
from raycompat._protocol.values import ErrorValue, InlineValue, Wire, from_wire, to_wire

if TYPE_CHECKING:
    from raycompat._executor.context import RunningCall
    from raycompat._executor.main import Executor


@dataclass(slots=True)
class Outcome:
    """How a call ended. `refs` are the keys inside its results."""

    values: list[Wire] | None = None
    error: bytes = b""
    text: str = ""
    retry: bool = False
    refs: set[str] = field(default_factory=set)
    #: What keeps `refs` alive until the scheduler has them pinned.
    holds: list[Any] = field(default_factory=list)

    @classmethod
    def cancelled(cls, key: str, name: str) -> Outcome:
        """Return the outcome of a call that was cancelled."""
        return cls(error=failures.cancelled(key), text=f"{name} was cancelled")

    def message(self, key: str) -> tuple[Any, ...]:
        """Return what to tell the node."""
        if self.values is not None:
            return ("done", key, self.values)
        return ("failed", key, self.error, self.text, self.retry)


def run(
    executor: Executor, call: RunningCall, payload: dict[str, Any], wires: list[Any]
) -> Outcome:
    """Run one call. Whatever goes wrong in it becomes the outcome; only a cancellation escapes."""
    try:
        function = _find_function(executor, payload)
        try:
            args, kwargs = _arguments(payload, wires)
        except Exception as error:
            return _failed_argument(executor, call, payload, error)
        del wires
        executor.begin_user_code(call.key)
        try:
            result = function(*args, **kwargs)
            del args, kwargs
            if inspect.iscoroutine(result):
                result = _run_coroutine(result)
            if payload["num_returns"] == "streaming":
                return _stream(executor, call, result)
        finally:
            executor.end_user_code()
        return _lay_out(executor, call, result, payload["num_returns"])
    except ActorExit:
        return Outcome(error=executor.actor.exit_error or b"", text="the actor exited")
    except KeyboardInterrupt:
        return Outcome.cancelled(call.key, call.name)
    except SystemExit:
        raise  # it ends the process, as it does in any program
    except BaseException as error:
        return _failed(executor, call, payload, error)


def _run_coroutine(coroutine: Any) -> Any:
    import asyncio

    return asyncio.run(coroutine)


def _arguments(payload: dict[str, Any], wires: list[Any]) -> tuple[list[Any], dict[str, Any]]:
    values = [_value(wire) for wire in wires]
    block = payload["arguments"]
    given, named = deserialize(block) if block is not None else values.pop()
    args = [_argument(each, values) for each in given]
    return args, {name: _argument(each, values) for name, each in named.items()}


def _value(wire: Any) -> Any:
    value = from_wire(wire)
    if isinstance(value, ErrorValue):
        raise exceptions.loads_error(value.error)
    if isinstance(value, InlineValue):
        return deserialize(value.block)
    return deserialize(segment.read(value.path))


def _argument(given: Any, values: list[Any]) -> Any:
    if isinstance(given, Slot):
        return values[given.index]
    if isinstance(given, Known):
        return deserialize(given.block)
    return given


def _find_function(executor: Executor, payload: dict[str, Any]) -> Callable[..., Any]:
    method = payload.get("method")
    if method is not None:
        return _find_method(executor, method)
    loaded = executor.load(payload["function"])
    if payload.get("is_actor"):
        return _builder(executor, loaded)
    function: Callable[..., Any] = loaded
    return function


def _builder(executor: Executor, cls: Any) -> Callable[..., None]:
    def build(*args: Any, **kwargs: Any) -> None:
        instance = cls.__new__(cls)
        executor.actor.instance = instance
        executor.actor.class_name = cls.__name__
        instance.__init__(*args, **kwargs)

    return build


def _find_method(executor: Executor, name: str) -> Callable[..., Any]:
    instance = executor.actor.instance
    if name == "__ray_ready__":
        return lambda: True
    if name == "__ray_call__":
        return lambda function, *args, **kwargs: function(instance, *args, **kwargs)
    if name == "__ray_terminate__":
        return lambda: executor.leave_actor("The actor ended itself: `__ray_terminate__`.")
    method: Callable[..., Any] = getattr(instance, name)
    return method


def _lay_out(executor: Executor, call: RunningCall, result: Any, num_returns: Any) -> Outcome:
    outcome = Outcome(values=[])
    assert outcome.values is not None
    if num_returns in (0, 1, "streaming"):
        results: Any = [result] if num_returns else []
    else:
        results = _split(executor, call, result, num_returns)
    for one in results:
        wire = to_wire(one) if isinstance(one, ErrorValue) else _store(executor, one, outcome)
        outcome.values.append(wire)
    return outcome


def _split(executor: Executor, call: RunningCall, result: Any, num_returns: int) -> Iterator[Any]:
    """Yield each of several results; what a generator does not come to yield is an error."""
    if not isinstance(result, Iterator):
        if len(result) != num_returns:
            raise ValueError(
                f"Task {call.name} returned {len(result)} objects, but num_returns={num_returns}."
            )
        yield from result
        return
    given = 0
    failure: Exception
    try:
        for given, one in enumerate(result, 1):
            if given > num_returns:
                return  # as in Ray, what is beyond is dropped
            yield one
        failure = ValueError(
            f"Task {call.name} returned {given} objects, but num_returns={num_returns}."
        )
    except Exception as error:
        failure = error
    missing = ErrorValue(exceptions.dumps_error(_describe(executor, call, failure)))
    for _ in range(given, num_returns):
        yield missing


def _store(executor: Executor, value: Any, outcome: Outcome) -> Wire:
    block, found = serialize(value)
    outcome.refs.update(found)
    outcome.holds += found.values()
    try:
        return to_wire(executor.session.setup.place.save(block))
    except OSError as error:
        raise exceptions.ObjectStoreFullError(
            f"There is no room for a result of {block.size} bytes."
        ) from error


def _stream(executor: Executor, call: RunningCall, items: Any) -> Outcome:
    """Send each item as it is made; the outcome is that of the generator's end."""
    if not isinstance(items, Iterator):
        raise TypeError(
            f"{call.name} has num_returns='streaming', so it must be a generator function, but it "
            f"returned {type(items).__name__}."
        )
    kept = Outcome()
    for index, item in enumerate(items):
        one = Outcome()
        wire = _store(executor, item, one)
        if one.refs:
            executor.session.pin(call.key, one.refs)
            kept.holds += one.holds
        executor.session.hand_over()
        executor.send("item", call.key, index, wire)
    return _lay_out(executor, call, None, 1)


def _failed_argument(
    executor: Executor, call: RunningCall, payload: dict[str, Any], error: Exception
) -> Outcome:
    """Return the outcome of a call one of whose arguments could not be made here."""
    if not isinstance(error, exceptions.RayError):
        error = exceptions.RaySystemError(error, traceback.format_exc())
    failure = exceptions.RayTaskError.from_dependency(
        error, call.name, ip=executor.setup["ip"], actor_id=None
    )
    whole = exceptions.ActorDiedError(failure) if payload.get("is_actor") else failure
    return Outcome(error=exceptions.dumps_error(whole), text=str(failure)[:10_000])


def _failed(
    executor: Executor, call: RunningCall, payload: dict[str, Any], error: BaseException
) -> Outcome:
    described = _describe(executor, call, error)
    failure = exceptions.ActorDiedError(described) if payload.get("is_actor") else described
    text = "".join(traceback.format_exception_only(error)).strip()
    return Outcome(
        error=exceptions.dumps_error(failure),
        text=text[:10_000],
        retry=_may_retry(payload, error),
    )


def _describe(
    executor: Executor, call: RunningCall, error: BaseException
) -> exceptions.RayTaskError:
    instance = executor.actor.instance
    return exceptions.RayTaskError.from_exception(
        error,
        call.name,
        ip=executor.setup["ip"],
        actor_repr=_safe_repr(instance) if instance is not None else None,
        actor_id=call.actor.rpartition("-")[2] if call.actor else None,
    )


def _safe_repr(instance: Any) -> str:
    try:
        return repr(instance)
    except Exception as error:
        return f"<{type(instance).__name__} whose repr raises {error!r}>"


def _may_retry(payload: dict[str, Any], error: BaseException) -> bool:
    """Whether the caller asked for another try after an error of this kind."""
    wanted = payload.get("retry_exceptions", False)
    if isinstance(wanted, bool):
        return wanted and isinstance(error, Exception)
    return isinstance(error, pickle.loads(wanted))
