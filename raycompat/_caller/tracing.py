"""OpenTelemetry's spans of calls, which a program turns on: see ``init(_tracing_startup_hook=...)``.

The caller makes a span for each call that it sends, and adds it to the call's keyword arguments. The
executor takes it out, and makes a span below it for the time in which user code runs. The names and the
attributes of spans are Ray's. While tracing is off, nothing is imported and nothing is sent.
"""

from __future__ import annotations

import contextlib
import importlib
import inspect
import os
import weakref
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from typing import Any, Final

from raycompat._caller import current_session, this_process
from raycompat._protocol import ids

#: The keyword argument with the span of the caller. It is Ray's name for it.
_ARGUMENT: Final = "_ray_trace_ctx"

#: Makes spans; None while tracing is off.
_tracer: Any = None


def start(hook: str | None) -> None:
    """Turn tracing on in this process, and call the function that sets up OpenTelemetry.

    None turns it off.

    Raises
    ------
    ImportError
        When OpenTelemetry or the hook's module cannot be imported.
    ValueError
        When the module has no such function.
    Exception
        What the hook raises.
    """
    global _tracer
    _tracer = None
    if hook is None:
        return
    try:
        from opentelemetry import trace
    except ImportError as error:
        raise ImportError(
            "_tracing_startup_hook needs the package opentelemetry-api, and its hook mostly "
            "opentelemetry-sdk: pip install opentelemetry-sdk"
        ) from error
    module, _, name = hook.partition(":")
    found = getattr(importlib.import_module(module), name, None)
    if not callable(found):
        raise ValueError(
            f"_tracing_startup_hook={hook!r}: the module {module!r} has no function {name!r}. "
            "Expected 'module:function'."
        )
    found()
    _tracer = trace.get_tracer("raycompat")


def for_function(kwargs: Mapping[str, object], function: str) -> Mapping[str, object]:
    """Make the span of a function's call that is about to be sent; return the arguments to send."""
    if _tracer is None:
        return kwargs
    about = {"ray.remote": "function", "ray.function": function}
    return _with_span(kwargs, about, about, {})


def for_method(
    kwargs: Mapping[str, object], actor: str, actor_class: str, method: str
) -> Mapping[str, Any]:
    """Do the same for the call of a method, or of a constructor; `actor` is the actor's key."""
    if _tracer is None:
        return kwargs
    # As in Ray, the class has its whole name where it is called, and a short one where it runs.
    about, short = (
        {
            "ray.remote": "actor",
            "ray.actor_class": name,
            "ray.actor_method": method,
            "ray.function": f"{name}.{method}",
        }
        for name in (actor_class, actor_class.rpartition(".")[2])
    )
    return _with_span(kwargs, about, short, {"ray.actor_id": actor.rpartition("-")[2]})


def _with_span(
    kwargs: Mapping[str, object], about: dict[str, str], there: dict[str, str], more: dict[str, str]
) -> Mapping[str, object]:
    from opentelemetry import propagate, trace

    context: dict[str, str] = {}
    with _tracer.start_as_current_span(
        f"{about['ray.function']} ray.remote",
        kind=trace.SpanKind.PRODUCER,
        attributes={**about, **_of_this_process(), **more},
    ):
        propagate.inject(context)
    return {**kwargs, _ARGUMENT: (there, context)}


def traced(function: Callable[..., object], kwargs: dict[str, Any]) -> Callable[..., object]:
    """Take the caller's span out of the arguments of a call; return the function, with a span below it.

    Where tracing is off, for example in an actor of another program, the function has no span.
    """
    sent = kwargs.pop(_ARGUMENT, None)
    if sent is None or _tracer is None:
        return function
    about, context = sent

    def run(*args: object, **kwargs: object) -> Any:
        from opentelemetry import propagate, trace

        span = _tracer.start_span(
            f"{about['ray.function']} ray.remote_worker",
            propagate.extract(context),
            kind=trace.SpanKind.CONSUMER,
            attributes={**about, **_of_this_process()},
        )
        with contextlib.ExitStack() as stack:
            stack.callback(span.end)
            with trace.use_span(span):
                result = function(*args, **kwargs)
            going_on = _going_on(span, result)
            if going_on is None:
                return result
            stack.pop_all()
            # For one that never starts, for example because the call is cancelled.
            weakref.finalize(going_on, _end, span)
            return going_on

    return run


def _of_this_process() -> dict[str, str]:
    session, call = current_session.get(), this_process.current()
    assert session is not None
    found = {
        "ray.pid": str(os.getpid()),
        "ray.job_id": session.setup.job,
        "ray.node_id": session.home.node_id,
        "ray.worker_id": session.worker_id,
    }
    if call is not None:
        found["ray.task_id"] = call.task_id.ljust(2 * ids.TASK_ID_BYTES, "0")
        if call.actor:
            found["ray.actor_id"] = call.actor.rpartition("-")[2]
    return found


def _end(span: Any) -> None:
    if span.is_recording():
        span.end()


def _going_on(span: object, result: object) -> Any:
    """Return what ends the span after a result that runs later: of a coroutine or a generator."""
    if inspect.isgenerator(result):
        return _items(span, result)
    if inspect.isasyncgen(result):
        return _async_items(span, result)
    return _awaited(span, result) if inspect.iscoroutine(result) else None


def _items(span: Any, items: Iterator[object]) -> Iterator[object]:
    from opentelemetry import trace

    with trace.use_span(span, end_on_exit=True):
        yield from items


async def _async_items(span: Any, items: AsyncIterator[object]) -> AsyncIterator[object]:
    from opentelemetry import trace

    with trace.use_span(span, end_on_exit=True):
        async for item in items:
            yield item


async def _awaited(span: Any, result: Awaitable[object]) -> object:
    from opentelemetry import trace

    with trace.use_span(span, end_on_exit=True):
        return await result
