"""`remote`, `put`, `get`, `wait`, `cancel`, and the resources of the cluster."""

from __future__ import annotations

import inspect
import json
import sys
from collections.abc import AsyncGenerator, Callable, Generator
from pathlib import Path
from typing import Any, Protocol, Unpack, overload

from raycompat._caller import put as puts
from raycompat._caller import resolve, send, tensors, trace_events
from raycompat._caller import session as sessions
from raycompat._caller.generator import ObjectRefGenerator
from raycompat._caller.object_ref import ObjectRef
from raycompat._caller.remote_types import P, R, T
from raycompat._messages.nodes import ClusterState, Resources
from raycompat._messages.watching import Timeline
from raycompat._protocol.option_rules import checked_transport
from raycompat._protocol.option_types import RemoteKeywords, TaskKeywords
from raycompat._protocol.options import actor_options, task_options
from raycompat._surface import forms
from raycompat._surface.forms import NOT_GIVEN
from raycompat.actor import ActorClass, ActorHandle
from raycompat.remote_function import RemoteFunction

#: What older Rays also took by position, and the right calls.
_OLD_OF_GET = {"timeout": forms.SECONDS_OR_NONE}
_SEVERAL = "Give several references as a list: ray.get([first, second], timeout=5)."
_OLD_OF_WAIT = {"num_returns": forms.COUNT, "timeout": forms.SECONDS_OR_NONE}
_ONE_LIST = "Give one list of references: ray.wait([first, second], num_returns=1, timeout=0.5)."


class RemoteDecorator(Protocol):
    """The type of ``@ray.remote(...)`` with options."""

    # Classes can be called, and generator functions are functions: mypy sees overlaps.
    @overload
    def __call__(  # type: ignore[overload-overlap]
        self, decorated: type[T], /
    ) -> ActorClass[T]: ...
    @overload
    def __call__(  # type: ignore[overload-overlap]
        self, decorated: Callable[P, Generator[Any, Any, Any] | AsyncGenerator[Any, Any]], /
    ) -> RemoteFunction[P, ObjectRefGenerator]: ...
    @overload
    def __call__(self, decorated: Callable[P, R], /) -> RemoteFunction[P, ObjectRef[R]]: ...


class RemoteDecoratorOfResults(Protocol):
    """The type of ``@ray.remote(num_returns=...)``: the number decides what a call returns."""

    @overload
    def __call__(  # type: ignore[overload-overlap]
        self, decorated: type[T], /
    ) -> ActorClass[T]: ...
    @overload
    def __call__(self, decorated: Callable[P, Any], /) -> RemoteFunction[P, Any]: ...


# Classes can be called, and generator functions are functions: mypy sees overlaps.
@overload
def remote(  # type: ignore[overload-overlap]
    decorated: type[T], /
) -> ActorClass[T]: ...
@overload
def remote(  # type: ignore[overload-overlap]
    decorated: Callable[P, Generator[Any, Any, Any] | AsyncGenerator[Any, Any]], /
) -> RemoteFunction[P, ObjectRefGenerator]: ...
@overload
def remote(decorated: Callable[P, R], /) -> RemoteFunction[P, ObjectRef[R]]: ...
@overload
def remote(
    *, num_returns: int | str, **options: Unpack[TaskKeywords]
) -> RemoteDecoratorOfResults: ...
@overload
def remote(**options: Unpack[RemoteKeywords]) -> RemoteDecorator: ...
def remote(*args: Any, **options: Any) -> Any:
    """Make a function or class remote: use it as a decorator, with or without options, or call it.

    Parameters
    ----------
    decorated : function or class
        The function or class, for ``@ray.remote`` and ``ray.remote(function)``.
    **options
        With ``@ray.remote(...)``: resources, retries, number of results and others, all on the page
        *Options of remote, options and method*.

    Returns
    -------
    RemoteFunction or ActorClass
        Call its ``remote(...)``; ``options(...)`` changes options for some calls.

    Examples
    --------
    >>> import raycompat as ray
    >>> @ray.remote(num_cpus=0.5)
    ... def square(x):
    ...     return x * x
    >>> ray.get(square.remote(4))
    16

    Raises
    ------
    TypeError
        When the argument is not a function or class, or an option has the wrong type.
    AssertionError
        When the parentheses are empty, or the argument cannot be called.
    ValueError
        When an option is unknown or its value is not valid.
    UnsupportedRayFeatureError
        When raycompat does not support an option.

    Notes
    -----
    Ray source: ``ray.remote``, 2.60.0; ``num_return_vals`` from Ray before 1.0.
    """
    if len(args) == 1 and not options and callable(args[0]):
        return _make_remote(args[0], {})
    if args or not options:
        given = f" It was given {', '.join(map(repr, args))}." if args else ""
        raise AssertionError(  # the class that Ray raises here
            "The @ray.remote decorator must be applied without parentheses, or with options given by "
            f"keyword.{given} Write @ray.remote, or for example @ray.remote(num_returns=2)."
        )
    return lambda decorated: _make_remote(decorated, options)


def _make_remote(decorated: Any, options: dict[str, Any]) -> Any:
    if isinstance(decorated, RemoteFunction | ActorClass):
        raise TypeError(f"{decorated!r} is remote already; change its options with .options(...).")
    if inspect.isclass(decorated):
        return ActorClass(decorated, actor_options(options))
    if inspect.isfunction(decorated) or _is_cython_function(decorated):
        return RemoteFunction(decorated, task_options(options))
    raise TypeError(
        f"{decorated!r} cannot be made remote. It must be either a function or a class."
    )


def _is_cython_function(value: Any) -> bool:
    return type(value).__name__ == "cython_function_or_method"


def put(value: T, *, _tensor_transport: str | None = None) -> ObjectRef[T]:
    """Store a value and return the reference to it.

    Parameters
    ----------
    value : object
        Any value that can be pickled. It is copied: later changes of `value` do not change the object.
    _tensor_transport : str, optional
        In an actor, as for `method`: PyTorch's tensors in the value stay in this process. It
        has no effect in drivers and tasks, whose processes may end before a reader comes.

    Returns
    -------
    ObjectRef
        The object is kept as long as a reference to it exists in any process.

    Examples
    --------
    >>> import raycompat as ray
    >>> reference = ray.put([1, 2, 3])
    >>> ray.get(reference)
    [1, 2, 3]

    Raises
    ------
    TypeError
        When `value` is an ObjectRef itself, or cannot be pickled.
    OutOfDiskError
        When neither memory nor disk has room for the value.

    Notes
    -----
    Ray source: ``ray.put``, 2.60.0. Values of up to 100 KiB stay in this process until another one
    needs them.
    """
    if isinstance(value, ObjectRef):
        raise TypeError(
            "Calling 'put' on an ray.ObjectRef stores nothing: its value is in the store already. "
            "Use the reference itself, or store a list that contains it: ray.put([ref])."
        )
    session = sessions.require()
    keeper = None
    if _tensor_transport is not None:
        checked_transport("_tensor_transport", _tensor_transport)
        keeper = tensors.keeper(session)
    ref = puts.put(session, value, keeper)
    if keeper is not None:
        keeper.commit()
    return ref


def _compiled_refs() -> tuple[type[Any], ...]:
    """Return the class of results of compiled graphs; none if this process has no such graph."""
    module = sys.modules.get("raycompat.dag.compiled_dag_ref")
    return (module.CompiledDAGRef,) if module is not None else ()


def _has_compiled(object_refs: Any) -> bool:
    """Return whether there is a result of a compiled graph in the argument of `get`."""
    kinds = _compiled_refs()
    if not kinds:
        return False
    listed = object_refs if isinstance(object_refs, list) else [object_refs]
    return any(isinstance(each, kinds) for each in listed)


def _get_compiled(object_refs: Any, timeout: float | None) -> Any:
    if not isinstance(object_refs, list):
        return object_refs.get(timeout)
    if not all(isinstance(each, _compiled_refs()) for each in object_refs):
        raise ValueError(
            "Invalid type of object refs: the list for get has results of compiled graphs and others. "
            "Get them separately."
        )
    return [each.get(timeout) for each in object_refs]


@overload
def get(
    object_refs: ObjectRef[T], *, timeout: float | None = None, _use_object_store: bool = False
) -> T: ...
@overload
def get(
    object_refs: list[ObjectRef[T]],
    *,
    timeout: float | None = None,
    _use_object_store: bool = False,
) -> list[T]: ...
@overload
def get(
    object_refs: Any, *, timeout: float | None = None, _use_object_store: bool = False
) -> Any: ...
@forms.shown_as_today
def get(
    object_refs: Any = NOT_GIVEN,
    *old: Any,
    timeout: float | None = None,
    _use_object_store: bool = False,
    object_ids: Any = NOT_GIVEN,
) -> Any:
    """Return the value of a reference, or the list of values of a list of references.

    Parameters
    ----------
    object_refs : ObjectRef or list of ObjectRef
        The references to wait for. A generator is returned as it is.
    timeout : float, optional
        Maximum seconds to wait, 0 or more; 0 returns at once or raises. By default, wait without limit.
    _use_object_store : bool, default False
        Accepted: tensors that stayed in an actor come the shortest way in either case.

    Returns
    -------
    object or list of object
        The value, or the values in the order of the references.

    Examples
    --------
    >>> import raycompat as ray
    >>> ray.get(ray.put(1))
    1
    >>> ray.get([ray.put(1), ray.put(2)], timeout=10)
    [1, 2]

    Raises
    ------
    GetTimeoutError
        When not all values are ready in time.
    ValueError
        When `object_refs` is neither a reference nor a list, or the timeout is negative.
    TypeError
        When an item of the list is not a reference.
    Exception
        The error of the first task that failed: an instance of its class and of `RayTaskError`.

    Notes
    -----
    Ray source: ``ray.get``, 2.60.0. Each call of `get` returns a new copy; its arrays are read-only.
    """
    if old:
        named = {} if timeout is None else {"timeout": timeout}
        timeout = forms.by_position("ray.get", _OLD_OF_GET, old, named, _SEVERAL)["timeout"]
    if object_refs is NOT_GIVEN or object_ids is not NOT_GIVEN:
        object_refs = forms.by_old_name(
            "ray.get", "object_refs", object_refs, object_ids=object_ids
        )
    session = sessions.connected_or_not()
    if _has_compiled(object_refs):
        return _get_compiled(object_refs, timeout)
    if timeout == -1:
        timeout = None  # in older Ray: without limit
    if timeout is not None and not timeout >= 0:  # also for NaN
        raise ValueError(f"get(timeout={timeout!r}): expected seconds, 0 or more, or None.")
    if isinstance(object_refs, ObjectRef):
        if object_refs._session is not session:
            raise _of_another_session(object_refs)
        return resolve.get(session, [object_refs], timeout)[0]
    if isinstance(object_refs, ObjectRefGenerator):
        return object_refs
    if not isinstance(object_refs, list):
        raise ValueError(
            f"Invalid type of object refs: get was given {type(object_refs)}. It takes one ObjectRef "
            "or a list of them: ray.get([first, second])."
        )
    _check_refs(object_refs, session)
    return resolve.get(session, object_refs, timeout)


def _check_refs(object_refs: list[Any], session: Any) -> None:
    for ref in object_refs:
        if not isinstance(ref, ObjectRef):
            raise TypeError(
                f"Attempting to call `get` on the value {ref!r}, which is not an ray.ObjectRef. "
                "A list for get must contain only references."
            )
        if ref._session is not session:
            raise _of_another_session(ref)


def _of_another_session(ref: ObjectRef[Any]) -> ValueError:
    ref._entry  # noqa: B018  (raises if there is no object)
    return ValueError(
        f"{ref!r} is not from the current Ray session: its cluster is gone, and the value with it. "
        "Put the value again, or call the function again."
    )


@overload
def wait(
    ray_waitables: list[ObjectRef[T]],
    *,
    num_returns: int = 1,
    timeout: float | None = None,
    fetch_local: bool = True,
) -> tuple[list[ObjectRef[T]], list[ObjectRef[T]]]: ...
@overload
def wait(
    ray_waitables: Any,
    *,
    num_returns: int = 1,
    timeout: float | None = None,
    fetch_local: bool = True,
) -> tuple[list[Any], list[Any]]: ...
@forms.shown_as_today
def wait(
    ray_waitables: Any = NOT_GIVEN,
    *old: Any,
    num_returns: int = 1,
    timeout: float | None = None,
    fetch_local: bool = True,
    object_refs: Any = NOT_GIVEN,
    object_ids: Any = NOT_GIVEN,
) -> tuple[list[Any], list[Any]]:
    """Split references into those that are ready and the rest, each in the order given.

    Parameters
    ----------
    ray_waitables : list of ObjectRef or ObjectRefGenerator
        Without duplicates. A generator is ready when it has a next item, or has ended.
    num_returns : int, default 1
        The number of references to wait for, from 1 to all of them. No more than this number are
        returned as ready.
    timeout : float, optional
        Maximum seconds to wait; 0 checks once.
    fetch_local : bool, default True
        Has no effect: values are fetched by `get`.

    Returns
    -------
    ready : list of ObjectRef
        References whose values are ready, or whose calls failed: `num_returns` of them, or fewer after
        the timeout.
    rest : list of ObjectRef
        The other references.

    Examples
    --------
    >>> import raycompat as ray
    >>> references = [ray.put(number) for number in range(3)]
    >>> ready, rest = ray.wait(references, num_returns=2)
    >>> len(ready), len(rest)
    (2, 1)

    Raises
    ------
    TypeError, ValueError
        When an argument is not valid.

    Notes
    -----
    Ray source: ``ray.wait``, 2.60.0. A reference whose task failed is ready.
    """
    if old:
        defaults = {"num_returns": 1, "timeout": None}
        given: dict[str, Any] = {"num_returns": num_returns, "timeout": timeout}
        named = {name: value for name, value in given.items() if value != defaults[name]}
        given |= forms.by_position("ray.wait", _OLD_OF_WAIT, old, named, _ONE_LIST)
        num_returns, timeout = given["num_returns"], given["timeout"]
    if not (ray_waitables is not NOT_GIVEN and object_refs is object_ids is NOT_GIVEN):
        ray_waitables = forms.by_old_name(
            "ray.wait",
            "ray_waitables",
            ray_waitables,
            object_refs=object_refs,
            object_ids=object_ids,
        )
    session = sessions.connected_or_not()
    _check_waitables(ray_waitables)
    if (
        timeout is not None
        and forms.is_meant("ray.wait with a timeout in milliseconds")
        and forms.is_called_by_program()
    ):
        timeout /= 1000
    if timeout is not None and not timeout >= 0:  # also for NaN
        raise ValueError(
            f"The 'timeout' argument must be nonnegative; it is {timeout}. Without a limit: None."
        )
    if not ray_waitables:
        return [], []
    # One loop for both checks, because programs wait in loops.
    keys = {ref._key for ref in ray_waitables if ref._session is session}
    if len(keys) != len(ray_waitables):
        raise _of_wrong_references(ray_waitables, session)
    if num_returns <= 0:
        raise ValueError(
            f"Invalid number of objects to return: num_returns={num_returns}; expected at least 1."
        )
    if num_returns > len(ray_waitables):
        raise ValueError(
            f"num_returns cannot be greater than the length of the list: it is {num_returns}, and wait "
            f"was given {len(ray_waitables)} references."
        )
    return resolve.wait(session, ray_waitables, num_returns, timeout)


def _check_waitables(waitables: Any) -> None:
    """Raise for anything but a list of references. It is fast, because programs wait in loops."""
    if isinstance(waitables, ObjectRef):
        raise TypeError(
            "wait() expected a list of ray.ObjectRef, as in wait([ref]); this is one reference"
        )
    if not isinstance(waitables, list):
        raise TypeError(f"wait() expected a list of ray.ObjectRef; its type is {type(waitables)}")
    for kind in set(map(type, waitables)):
        if not issubclass(kind, ObjectRef | ObjectRefGenerator):
            raise TypeError(
                f"wait() expected a list of ray.ObjectRef (generators are allowed); it has a {kind}"
            )


def _of_wrong_references(refs: list[Any], session: object) -> ValueError:
    """Return the error of references of which some are of another session, or in the list twice."""
    for ref in refs:
        if ref._session is not session:
            return _of_another_session(ref)
    return ValueError("Wait requires a list of unique references; one is in it twice.")


@forms.takes_old_options("ray.cancel")
@forms.takes_positions(
    "ray.cancel",
    {"force": forms.FLAG},
    "Cancel one call at a time: ray.cancel(first); ray.cancel(second).",
)
def cancel(ray_waitable: Any, *, force: bool = False, recursive: bool = True) -> None:
    """Cancel the call of a reference. A call that has ended is not changed.

    Parameters
    ----------
    ray_waitable : ObjectRef or ObjectRefGenerator
        What the call returned.
    force : bool, default False
        Kill the process of a running call. By default, KeyboardInterrupt is raised in the call.
    recursive : bool, default True
        Also cancel the calls that this call has made.

    Examples
    --------
    >>> import raycompat as ray
    >>> @ray.remote
    ... def wait():
    ...     import time
    ...
    ...     time.sleep(600)
    >>> reference = wait.remote()
    >>> ray.cancel(reference)
    >>> try:
    ...     ray.get(reference)
    ... except ray.exceptions.TaskCancelledError:
    ...     print("cancelled")
    cancelled

    Raises
    ------
    TypeError
        When `ray_waitable` is not a reference.
    ValueError
        With `force` on a call of an actor's method.

    Notes
    -----
    Ray source: ``ray.cancel``, 2.60.0. ``get`` then raises `TaskCancelledError`.
    """
    ref = ray_waitable
    if isinstance(ref, ObjectRefGenerator):
        ref = ref.completed()
    if isinstance(ref, ActorHandle) or not isinstance(ref, ObjectRef):
        raise TypeError(
            f"ray.cancel() only supported for object refs, not for {type(ref)}. For actors, try "
            "ray.kill()."
        )
    send.cancel(ref._session, ref, force=force, recursive=recursive)


def nodes() -> list[dict[str, Any]]:
    """Return a dictionary for each node: its id, state, address, resources and labels.

    Examples
    --------
    >>> [node["Resources"]["CPU"] for node in ray.nodes() if node["Alive"]]
    [2.0]

    Notes
    -----
    Ray source: ``ray.nodes``, 2.60.0. The last 1,000 nodes that have left follow the others; their
    `Alive` is false.
    """
    state = sessions.connected("nodes").rpc(ClusterState())
    return [_describe(node, is_alive=True) for node in state["nodes"]] + [
        _describe({**node, "resources": {}}, is_alive=False) for node in state["departed"]
    ]


def _describe(node: dict[str, Any], *, is_alive: bool) -> dict[str, Any]:
    return {
        "NodeID": node["node_id"],
        "Alive": is_alive,
        "NodeManagerAddress": node["ip"],
        "NodeManagerHostname": node["hostname"],
        "NodeManagerPort": int(node["address"].rpartition(":")[2]),
        "ObjectManagerPort": int(node["address"].rpartition(":")[2]),
        "ObjectStoreSocketName": node["place"][1][0],
        "RayletSocketName": node["address"],
        "MetricsExportPort": 0,
        "NodeName": node["name"],
        "RuntimeEnvAgentPort": 0,
        "DeathReason": 0,
        "DeathReasonMessage": "" if is_alive else "The node has left the cluster.",
        "alive": is_alive,
        "Resources": node["resources"],
        "Labels": node["labels"],
    }


def cluster_resources() -> dict[str, float]:
    """Return the resources of all nodes together, by name.

    Examples
    --------
    >>> ray.cluster_resources()["CPU"]
    2.0
    """
    session = sessions.connected("cluster_resources")
    return session.rpc(Resources())["total"]


def available_resources() -> dict[str, float]:
    """Return the free resources of all nodes, by name. Resources that are used up are left out.

    What objects occupy of ``object_store_memory`` is not free; this figure may be a second old.

    Examples
    --------
    >>> ray.available_resources()["CPU"] <= ray.cluster_resources()["CPU"]
    True
    """
    session = sessions.connected("available_resources")
    return session.rpc(Resources())["available"]


def timeline(filename: str | None = None) -> list[dict[str, Any]] | None:
    """Return, or write to a file, the times of all drivers' calls: a trace that browsers can show.

    Open the file at https://ui.perfetto.dev, or at ``chrome://tracing`` in Chrome. There is a row for
    each process.

    Parameters
    ----------
    filename : str, optional
        The JSON file to write.

    Returns
    -------
    list of dict or None
        One event for each call that has ended, the last 20,000 at most; None with `filename`. `name` is
        the name of the function or method, `cat` is ``task::NAME``, `pid` the node's IP address, `tid`
        the process, `ts` the start in microseconds since 1970, and `dur` the duration in microseconds.
        ``args["calls"]`` is the number of calls in the event: short calls of one name that follow
        closely form one event, of 0.25 s at most. Each event is followed by those of its parts, whose
        `cat` and `name` are ``task:deserialize_arguments``, ``task:execute`` and
        ``task:store_outputs``; for several calls, a part has their sum.

    Examples
    --------
    >>> events = ray.timeline()
    >>> all(event["dur"] >= 0 for event in events)
    True

    Raises
    ------
    RaySystemError
        When there is no session.

    Notes
    -----
    Ray source: ``ray.timeline``, 2.60.0. Differs from Ray: there are no events for the submission of
    calls; the name of a function has no module. Calls appear up to a second after their end.
    """
    session = sessions.connected("timeline")
    found = trace_events.events(session.rpc(ClusterState()), session.rpc(Timeline()))
    if filename is None:
        return found
    Path(filename).write_text(json.dumps(found), encoding="utf-8")
    return None


def get_gpu_ids() -> list[int] | list[str]:
    """Return the ids of the GPUs of the running call; an empty list in a driver.

    Examples
    --------
    >>> ray.get_gpu_ids()
    []

    Notes
    -----
    Ray source: ``ray.get_gpu_ids``, 2.60.0. Ids are integers, or strings where the node was started
    with ``CUDA_VISIBLE_DEVICES``.
    """
    from raycompat._caller import this_process

    sessions.require()
    call, executor = this_process.current(), this_process.executor()
    if call is None or executor is None:
        return []
    if executor.gpus_are_named:
        return list(call.gpus)
    return [int(each) for each in call.gpus]
