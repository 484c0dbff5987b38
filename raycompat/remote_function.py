"""Remote functions, which `remote` makes from functions."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Generic, Unpack, overload

from raycompat._caller import environment_variables, placement, send, tracing
from raycompat._caller import session as sessions
from raycompat._caller.arguments import Arguments
from raycompat._caller.calls import Call
from raycompat._caller.exports import KnownIds
from raycompat._caller.remote_types import P, Remote, Returned_co
from raycompat._caller.session import Session
from raycompat._caller.shown_parameters import show_parameters, without_remote
from raycompat._protocol import ids
from raycompat._protocol.actor_about import Decorator, check_arguments
from raycompat._protocol.option_types import TaskKeywords
from raycompat._protocol.options import (
    TaskOptions,
    limit_of_items,
    pickled_exceptions,
    task_options,
)
from raycompat._protocol.runtime_env import inherited
from raycompat._protocol.text import checked_text, name_of
from raycompat._surface.modules import names_of
from raycompat.dag.bound import Kept
from raycompat.dag.remote_nodes import FunctionNode


class RemoteFunction(Kept, Generic[P, Returned_co]):
    """A function with ``@ray.remote``. Its calls run in other processes.

    Examples
    --------
    >>> @ray.remote
    ... def add(left, right=1):
    ...     return left + right
    >>> type(add).__name__
    'RemoteFunction'
    """

    def __init__(self, function: Callable[..., Any], options: TaskOptions) -> None:
        if inspect.iscoroutinefunction(function):
            raise ValueError(
                f"{function.__qualname__} is a coroutine function: 'async def' should not be used for "
                "tasks. Call asyncio.run(...) in a plain function, or make it an actor's method."
            )
        self._function = function
        what = "The name of a remote function"
        self._name = name_of(function, what)
        self._function_name = checked_text(what, f"{function.__module__}.{self._name}")
        self._options = options
        self._is_generator = inspect.isgeneratorfunction(function)
        _check_num_returns(function, options.num_returns, self._is_generator)
        self._signature = _signature_of(function)
        #: The numbers of positional arguments that fit by number alone.
        self._fitting = _numbers_that_fit(self._signature)
        #: The id of the function in each job; kept across processes.
        self._exports = KnownIds()
        self._decorator = Decorator.of(function)
        functools.update_wrapper(self, function)
        show_parameters(self, function, self._signature)

    def __getstate__(self) -> dict[str, Any]:
        return without_remote(self)

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        show_parameters(self, self._function, self._signature)

    def __repr__(self) -> str:
        return f"RemoteFunction({self._function_name})"

    def _repr_html_(self) -> str:
        from raycompat._caller import notebook

        calls = self._options.name or self._name
        return notebook.of_function("Remote function", self._function_name, self._signature, calls)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Refuse: the call that works is `remote`."""
        name = self._function_name
        raise TypeError(
            f"Remote functions cannot be called directly: {name} is one. Call "
            f"{self._name}.remote(...) instead."
        )

    if TYPE_CHECKING:  # with the signature of the function
        remote: Remote[P, Returned_co]
    else:

        def remote(self, *args: Any, **kwargs: Any) -> Any:
            """Call the function in another process.

            Returns
            -------
            ObjectRef, list of ObjectRef, None or ObjectRefGenerator
                One reference by default; a list if `num_returns` is larger than 1, None if it is 0. A
                generator function returns an ObjectRefGenerator.

            Raises
            ------
            TypeError
                When the arguments do not fit the function's signature, or cannot be pickled.
            """
            return self._call_as_given(args, kwargs)

    def _call_as_given(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        return self._submit(args, kwargs, self._options)

    @overload
    def options(
        self, *, num_returns: int | str, **options: Unpack[TaskKeywords]
    ) -> _BoundFunction[P, Any]: ...
    @overload
    def options(self, **options: Unpack[TaskKeywords]) -> _BoundFunction[P, Returned_co]: ...
    def options(self, **options: Any) -> _BoundFunction[P, Any]:
        """Return the function with other `options`. They apply to the calls of the result.

        Examples
        --------
        >>> ray.get(add.options(num_cpus=0.5, name="small addition").remote(2))
        3
        """
        return _BoundFunction(self, self._changed(options), options)

    def _changed(self, options: Mapping[str, Any]) -> TaskOptions:
        changed = task_options(options, self._options)
        _check_num_returns(self._function, changed.num_returns, self._is_generator)
        return changed

    def _remote(
        self,
        args: Sequence[Any] | None = None,
        kwargs: Mapping[str, Any] | None = None,
        **options: Any,
    ) -> Any:
        return self._submit(tuple(args or ()), kwargs or {}, self._changed(options))

    def _submit(self, args: Sequence[Any], kwargs: Mapping[str, Any], options: TaskOptions) -> Any:
        if self._decorator is None:
            return self._call(args, kwargs, options)

        def invoke(args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
            return self._call(args, kwargs, options)

        return self._decorator.around(invoke)(args, kwargs)

    def _call(self, args: Sequence[Any], kwargs: Mapping[str, Any], options: TaskOptions) -> Any:
        session = sessions.require()
        if self._signature is not None and (kwargs or len(args) not in self._fitting):
            check_arguments(self._signature, args, kwargs, self._name)
        name = self._name
        function = self._export(session)
        call = Call(ids.call_key(name, ids.new_task_id()), function, options.name or name)
        call.environment = environment_variables.version(session)
        if options.num_returns is not None:
            call.num_returns = options.num_returns
        elif self._is_generator:
            call.num_returns = "streaming"
        if options.max_items is not None:
            call.max_items = limit_of_items(options.max_items)
        call.request, call.retries = options.request(), options.max_retries
        call.retry_exceptions = pickled_exceptions(options.retry_exceptions)
        if not options.is_simple or session.captured() is not None:
            call.strategy = placement.choose(session, options, name, call.request)
            call.max_calls = options.max_calls
            call.runtime_env = inherited(session.setup.runtime_env, options.runtime_env)
        call.code = session.exports.codes.get(function)
        kwargs = tracing.for_function(kwargs, self._function_name)
        if args or kwargs:
            call.take_arguments(Arguments(session, args, kwargs, self._function_name))
        sender = send.sender_of(session, call, lease_kind=options.lease_kind)
        return send.call(session, call, sender)

    def _export(self, session: Session) -> str:
        what = f"function {self._function_name}"
        return session.exports.id_of(self._exports, self._function, what)

    def bind(self, *args: Any, **kwargs: Any) -> FunctionNode:
        """Return the node of `remote` with `args` and `kwargs` in a graph of calls (`raycompat.dag`).

        Examples
        --------
        >>> node = add.bind(add.bind(1, 2), 3)
        >>> ray.get(node.execute())
        6
        """
        return _bind(self, args, kwargs, {})


class _BoundFunction(Generic[P, Returned_co]):
    """A remote function with some changed options, from `RemoteFunction.options`."""

    def __init__(
        self,
        function: RemoteFunction[P, Any],
        options: TaskOptions,
        given: Mapping[str, Any],
    ) -> None:
        self._bound = function
        self._options = options
        self._given = given
        self._function_name = function._function_name

    def _repr_html_(self) -> str:
        from raycompat._caller import notebook

        function, kind = self._bound, "Remote function with options"
        calls = self._options.name or function._name
        name = self._function_name
        return notebook.of_function(kind, name, function._signature, calls, self._given)

    if TYPE_CHECKING:
        remote: Remote[P, Returned_co]
    else:

        def remote(self, *args: Any, **kwargs: Any) -> Any:
            """Call the function with these options; see `RemoteFunction.remote`."""
            return self._bound._submit(args, kwargs, self._options)

    def bind(self, *args: Any, **kwargs: Any) -> FunctionNode:
        """Return the node of a call with these options; see `RemoteFunction.bind`."""
        return _bind(self, args, kwargs, self._given)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Raise an error, as the function itself does."""
        self._bound(*args, **kwargs)


def _bind(
    function: RemoteFunction[Any, Any] | _BoundFunction[Any, Any],
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    options: Mapping[str, Any],
) -> FunctionNode:
    return FunctionNode(function, args, kwargs, options)


def _signature_of(function: Callable[..., Any]) -> inspect.Signature | None:
    try:
        return inspect.signature(function)
    except (ValueError, TypeError):  # some built-in functions have none
        return None


def _numbers_that_fit(signature: inspect.Signature | None) -> range:
    parameters = list(signature.parameters.values()) if signature is not None else []
    plain = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    if any(p.kind is p.KEYWORD_ONLY and p.default is p.empty for p in parameters):
        return range(0)
    needed = sum(p.default is p.empty for p in plain)
    return range(needed, len(plain) + 1)


def _check_num_returns(function: Any, num_returns: Any, is_generator: bool) -> None:
    if num_returns in ("streaming", "dynamic") and not is_generator:
        raise ValueError(
            f"num_returns={num_returns!r} can only be used with generator functions, and "
            f"{function.__name__} is not one: it has no yield. Remove num_returns, or yield the items."
        )


#: Names of older Rays.
__getattr__ = names_of(__name__)
