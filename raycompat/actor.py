"""Actors: actor classes, which `remote` makes, and the handles through which methods are called."""

from __future__ import annotations

import functools
import inspect
import pickle
import traceback
from collections.abc import (
    AsyncGenerator,
    Callable,
    Coroutine,
    Generator,
    Mapping,
    Sequence,
)
from typing import (
    TYPE_CHECKING,
    Any,
    Concatenate,
    Generic,
    Never,
    TypeAlias,
    TypeVar,
    Union,
    Unpack,
    overload,
)

from raycompat import exceptions
from raycompat._caller import environment_variables, placement, send, tracing
from raycompat._caller import session as sessions
from raycompat._caller.arguments import CHANNEL_LIMIT_BYTES, Arguments
from raycompat._caller.calls import Call
from raycompat._caller.exports import KnownIds
from raycompat._caller.object_ref import UnboundObjectRef, WeakObjectRef
from raycompat._caller.remote_types import MethodDecorator, P, R, RemoteMethod
from raycompat._caller.shown_parameters import show_parameters, without_remote
from raycompat._host import interrupts
from raycompat._messages.actors import FindActor, FreeName, KillActor, ReserveActor
from raycompat._protocol import id_types, ids
from raycompat._protocol.actor_about import (
    SYSTEM_GROUP,
    About,
    Method,
    check_arguments,
    has_async_methods,
    methods_of,
    signature_without_self,
)
from raycompat._protocol.call_spec import ActorSpec
from raycompat._protocol.option_types import ActorKeywords, MethodKeywords
from raycompat._protocol.options import (
    ActorOptions,
    MethodOptions,
    actor_options,
    limit_of_items,
    method_options,
    pickled_exceptions,
)
from raycompat._protocol.runtime_env import inherited
from raycompat._protocol.text import checked_namespace, checked_text, name_of
from raycompat._surface import forms
from raycompat._surface.modules import names_of
from raycompat.dag.bound import Kept
from raycompat.dag.remote_nodes import ClassMethodNode, ClassNode, outputs

if TYPE_CHECKING:
    from raycompat._caller.by_channel import Channel
    from raycompat._caller.generator import ObjectRefGenerator
    from raycompat._caller.object_ref import ObjectRef
    from raycompat._caller.session import Session

T = TypeVar("T")

#: The type of a handle for type checkers. `ActorHandle.__getattr__` never returns there, so that the
#: attributes are those of the class.
ActorProxy: TypeAlias = Union["ActorHandle[T]", type[T]]

#: Methods of every actor.
_BUILT_IN_METHODS = ("__ray_ready__", "__ray_call__", "__ray_terminate__")


@overload  # more specific than the last: mypy sees an overlap
def method(  # type: ignore[overload-overlap]
    function: Callable[Concatenate[Any, P], Generator[Any, Any, Any] | AsyncGenerator[Any, Any]], /
) -> RemoteMethod[P, ObjectRefGenerator]: ...
@overload
def method(
    function: Callable[Concatenate[Any, P], Coroutine[Any, Any, R]], /
) -> RemoteMethod[P, ObjectRef[R]]: ...
@overload
def method(function: Callable[Concatenate[Any, P], R], /) -> RemoteMethod[P, ObjectRef[R]]: ...
@overload
def method(**options: Unpack[MethodKeywords]) -> MethodDecorator: ...
def method(*args: Any, **options: Any) -> Any:
    """Set the options of a method of an actor class, such as `num_returns`.

    Parameters
    ----------
    num_returns : int or "streaming"
        The number of references that a call returns; ``num_return_vals`` is its old name.
    max_task_retries : int, optional
        How many times a call is tried again if the actor's process dies; -1 means without limit. By
        default, the value of the class.
    retry_exceptions : bool or list of exception classes, default False
        The exceptions of the method after which a call is tried again.
    concurrency_group : str, optional
        The group in which the method runs: one of the `concurrency_groups` of the class.
    tensor_transport : "cuda_ipc", "nccl", "gloo" or "nixl", optional
        PyTorch's tensors in the result stay in the actor's process, from where a reader gets them. On
        the same GPU it gets the memory itself, otherwise a copy. Which way they take does not depend on
        the name.

    Examples
    --------
    >>> import raycompat as ray
    >>> @ray.remote
    ... class Splitter:
    ...     @ray.method(num_returns=2)
    ...     def split(self, text):
    ...         return text.split("=")
    >>> name, value = Splitter.remote().split.remote("steps=10")
    >>> ray.get([name, value])
    ['steps', '10']

    Notes
    -----
    Ray source: ``ray.method``, 2.60.0. Differs from Ray: options that raycompat does not support
    raise `UnsupportedRayFeatureError`.

    Without parentheses, ``@ray.method`` changes no option. It keeps the signature for type checkers.
    """
    if len(args) == 1 and callable(args[0]) and not options:
        return args[0]  # bare: nothing changes
    if args:
        raise AssertionError(  # the class that Ray raises here
            "@ray.method takes its options by keyword, at least one. For example: "
            "@ray.method(num_returns=2)."
        )
    checked = method_options(options)

    def decorate(function: Any) -> Any:
        function.__raycompat_method__ = checked
        return function

    return decorate


class ActorClass(Kept, Generic[T]):
    """A class with ``@ray.remote``. Each instance that `remote` creates has its own process.

    Examples
    --------
    >>> import raycompat as ray
    >>> @ray.remote
    ... class Account:
    ...     def __init__(self, balance=0):
    ...         self.balance = balance
    ...
    ...     def add(self, amount):
    ...         self.balance += amount
    ...         return self.balance
    >>> type(Account).__name__
    'ActorClass'

    Notes
    -----
    Ray source: ``ray.actor.ActorClass``, 2.60.0. Differs from Ray: some options raise
    `UnsupportedRayFeatureError`.
    """

    def __init__(self, cls: type[T], options: ActorOptions, *, is_internal: bool = False) -> None:
        what = "The name of an actor class"
        self._name = name_of(cls, what)
        self._qualname = checked_text(what, cls.__qualname__)
        self._class = cls
        self._options = options
        self._is_internal = is_internal
        constructor = getattr(cls, "__init__")  # noqa: B009  (of the class, not of an instance)
        self._signature = signature_without_self(constructor, False)
        if constructor is object.__init__:
            self._signature = inspect.Signature()
        self._methods = methods_of(cls)
        self._exports = KnownIds()
        functools.update_wrapper(self, cls, updated=())
        show_parameters(self, cls, self._signature)
        self._check_tensor_transport(options)

    def __getstate__(self) -> dict[str, Any]:
        return without_remote(self)

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        show_parameters(self, self._class, self._signature)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Raise an error: call `remote` instead."""
        name = self._name
        raise TypeError(
            f"Actors cannot be instantiated directly: {name} is an actor class. Call "
            f"{name}.remote(...) instead."
        )

    def _repr_html_(self) -> str:
        return self._shown("Remote class", {})

    def _shown(self, kind: str, options: Mapping[str, Any]) -> str:
        """Return the table of notebooks; its calls are those that have created actors."""
        from raycompat._caller import notebook

        calls = f"{self._name}.__init__"
        return notebook.of_function(kind, self._qualname, self._signature, calls, options)

    def __getattr__(self, name: str) -> Any:
        """Return an attribute, static method or class method of the class."""
        if name.startswith("__") or "_class" not in self.__dict__:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        return getattr(self._class, name)

    def __dir__(self) -> list[str]:
        of_class = (name for name in dir(self._class) if not name.startswith("__"))
        return sorted({*super().__dir__(), *of_class})

    def __mro_entries__(self, bases: tuple[Any, ...]) -> tuple[type, ...]:
        """Raise an error: inherit from the plain class instead."""
        name = self._name
        raise ActorClassInheritanceException(
            f"Attempted to define subclass '{_class_being_made()}' of actor class '{name}'. Inheriting "
            "from actor classes is not supported. Inherit from the plain class, and decorate both."
        )

    def remote(self, *args: Any, **kwargs: Any) -> ActorProxy[T]:
        """Start to create an actor with `args` and `kwargs` for ``__init__``, and return its handle.

        With a name, this waits until the scheduler has reserved the name.

        Examples
        --------
        >>> account = Account.remote(balance=10)
        >>> ray.get(account.add.remote(5))
        15

        Raises
        ------
        TypeError
            When the arguments do not fit the constructor, or cannot be pickled.
        ValueError
            When an actor with this name exists already.
        """
        return self._call_as_given(args, kwargs)

    def _call_as_given(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> ActorProxy[T]:
        return self._create(args, kwargs, self._options)

    def options(self, **options: Unpack[ActorKeywords]) -> _BoundActorClass[T]:
        """Return the class with other `options`. They apply to the actors that the result creates.

        Examples
        --------
        >>> named = Account.options(name="savings", num_cpus=0.5).remote()
        >>> ray.get(ray.get_actor("savings").add.remote(1))
        1
        """
        changed = actor_options(options, self._options)
        self._check_tensor_transport(changed)
        return _BoundActorClass(self, changed, options)

    @property
    def _has_transports(self) -> bool:
        return any(each.options.tensor_transport for each in self._methods.values())

    def _check_tensor_transport(self, options: ActorOptions) -> None:
        if self._has_transports and options.enable_tensor_transport is False:
            raise ValueError(
                f"{self._class.__name__} has methods with @ray.method(tensor_transport=...), so "
                "enable_tensor_transport=False cannot be given. Leave one of the two out."
            )

    def _remote(
        self,
        args: Sequence[Any] | None = None,
        kwargs: Mapping[str, Any] | None = None,
        **options: Any,
    ) -> ActorProxy[T]:
        changed = actor_options(options, self._options)
        return self._create(tuple(args or ()), kwargs or {}, changed)

    def _create(
        self, args: Sequence[Any], kwargs: Mapping[str, Any], options: ActorOptions
    ) -> ActorProxy[T]:
        session = sessions.require()
        if self._signature is not None:
            check_arguments(self._signature, args, kwargs, self._name)
        name = self._name
        key = f"{name.replace('-', '_')}-{ids.new_actor_id()}"
        is_async = has_async_methods(self._class)
        is_threaded = (options.max_concurrency or 1) > 1 or bool(options.concurrency_groups)
        if (is_async or is_threaded) and options.allow_out_of_order_execution is False:
            kind = "async" if is_async else "multi-threaded"
            raise ValueError(
                f"allow_out_of_order_execution=False for {name}: {kind} actors run calls side by side, "
                "not in order. Leave it out, or let one call run at a time."
            )
        about = About(
            self._qualname,
            self._methods,
            max_task_retries=options.max_task_retries or 0,
            max_pending_calls=options.max_pending_calls or -1,
            max_items=options.max_items,
            in_order=not (is_async or is_threaded or options.allow_out_of_order_execution),
            groups=tuple(options.concurrency_groups or ()),
            keeps_tensors=bool(options.enable_tensor_transport or self._has_transports),
        )
        for method in self._methods.values():
            group = method.options.concurrency_group
            if group is not None and group not in about.groups:
                raise AssertionError(_unknown_group(group, about))  # the class that Ray raises here
        to_start, to_live = options.placement_request(), options.lifetime_request()
        strategy = placement.choose(session, options, name, to_live, to_start)
        actor = ActorSpec(
            name=options.name,
            namespace=_namespace(session, options.namespace),
            detached=_is_detached(session, options.lifetime),
            about=pickle.dumps(about, protocol=5),
            class_name=name,
            is_internal=self._is_internal,
            max_restarts=options.max_restarts or 0,
            is_async=is_async,
            max_concurrency=options.max_concurrency or 0,
            groups=dict(options.concurrency_groups or {}),
        )
        function = self._export(session)
        call = Call(key, function, f"{name}.__init__")
        call.actor, call.request, call.keep, call.strategy = actor, to_start, to_live, strategy
        call.runtime_env = inherited(session.setup.runtime_env, options.runtime_env)
        call.environment = environment_variables.version(session)
        call.code = session.exports.codes.get(function)
        kwargs = tracing.for_method(kwargs, key, about.class_name, "__init__")
        call.take_arguments(arguments := Arguments(session, args, kwargs, name))
        if options.name is None or arguments.failed() is not None:
            created = send.call(session, call, session.by_scheduler)
            return ActorHandle(created, about)
        with interrupts.deferred():  # so that a reserved name always gets its actor
            there = _reserve(session, key, actor)
            if there is not None:
                if options.get_if_exists:
                    return there
                raise exceptions.ActorAlreadyExistsError(
                    f"The name {options.name} (namespace={actor['namespace']}) is already taken. "
                    "Choose another name, add get_if_exists=True, or get the actor that has it: "
                    f"ray.get_actor('{options.name}', namespace='{actor['namespace']}')"
                )
            try:
                created = send.call(session, call, session.by_scheduler)
            except BaseException:
                session.send(FreeName(key))
                raise
            return ActorHandle(created, about)

    def _export(self, session: Session) -> str:
        what = f"actor class {self._name}"
        return session.exports.id_of(self._exports, self._class, what)

    def __repr__(self) -> str:
        return f"ActorClass({self._name})"

    def bind(self, *args: Any, **kwargs: Any) -> ClassNode:
        """Return the node of `remote` with `args` and `kwargs` in a graph of calls (`raycompat.dag`).

        Examples
        --------
        >>> node = Account.bind(10).add.bind(5)
        >>> ray.get(node.execute())
        15
        """
        return _bind_class(self, self, args, kwargs, {})


def _is_detached(session: Session, lifetime: str | None) -> bool:
    return session.setup.actors_are_detached if lifetime is None else lifetime == "detached"


def _reserve(session: Session, key: str, actor: ActorSpec) -> ActorHandle[Any] | None:
    """Reserve a name for an actor that will be submitted, or return the handle of the one with it."""
    there = session.rpc_or_undo(
        ReserveActor(session.client_id, key, session.setup.job, actor),
        lambda: session.send(FreeName(key)),
    )
    return _handle(session, there["key"], there["about"]) if there is not None else None


def _class_being_made() -> str:
    """Return the name of the class whose statement is being executed."""
    line = traceback.extract_stack(limit=3)[0].line or ""
    return line.removeprefix("class ").partition("(")[0].strip()


class _BoundActorClass(Generic[T]):
    """An actor class with some changed options, from `ActorClass.options`."""

    def __init__(
        self, actor_class: ActorClass[T], options: ActorOptions, given: Mapping[str, Any]
    ) -> None:
        self._bound = actor_class
        self._options = options
        self._given = given

    def _repr_html_(self) -> str:
        return self._bound._shown("Remote class with options", self._given)

    def remote(self, *args: Any, **kwargs: Any) -> ActorProxy[T]:
        """Create an actor with these options; see `ActorClass.remote`."""
        return self._bound._create(args, kwargs, self._options)

    def bind(self, *args: Any, **kwargs: Any) -> ClassNode:
        """Return the node of an actor's creation with these options; see `ActorClass.bind`."""
        return _bind_class(self._bound, self, args, kwargs, self._given)


def _bind_class(
    actor_class: ActorClass[Any],
    target: ActorClass[Any] | _BoundActorClass[Any],
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    options: Mapping[str, Any],
) -> ClassNode:
    return ClassNode(actor_class, target, args, kwargs, options)


class ActorMethod:
    """A method of one actor: call it with `remote`.

    Examples
    --------
    >>> type(account.add).__name__
    'ActorMethod'
    """

    __slots__ = ("__weakref__", "_handle", "_method", "_options")

    def __init__(self, handle: ActorHandle[Any], method: Method, options: MethodOptions) -> None:
        self._handle = handle
        self._method = method
        self._options = options

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Raise an error: call `remote` instead."""
        name = self._method.name
        raise TypeError(
            f"Actor methods cannot be called directly: {name} is one. Call .{name}.remote(...) on the "
            "handle instead."
        )

    def _repr_html_(self) -> str:
        from raycompat._caller import notebook

        name = f"{self._handle._about.class_name}.{self._method.name}"
        calls = (
            self._options.name
            or name.rpartition(".")[0].rpartition(".")[2] + f".{self._method.name}"
        )
        return notebook.of_function("Method of an actor", name, self.__signature__, calls)

    @property
    def __signature__(self) -> inspect.Signature:
        return self._method.signature or inspect.signature(_anything)

    def remote(self, *args: Any, **kwargs: Any) -> Any:
        """Call the method with `args` and `kwargs`.

        Calls of one caller start in their order, unless the actor is asynchronous, has threads or
        concurrency groups, or allows another order (``allow_out_of_order_execution``).

        Examples
        --------
        >>> ray.get([account.add.remote(1), account.add.remote(1)])
        [16, 17]

        Raises
        ------
        TypeError
            When the arguments do not fit the method's signature, or cannot be pickled.
        """
        return self._submit(args, kwargs, self._options)

    def bind(self, *args: Any, **kwargs: Any) -> Any:
        """Return the node of a call in a graph of calls (`raycompat.dag`).

        Returns
        -------
        ClassMethodNode, or a tuple of the nodes of its results
            As `num_returns` says.

        Examples
        --------
        >>> ray.get(account.add.bind(0).execute())
        17
        """
        self._method.check(args, kwargs)
        node = ClassMethodNode(self._handle, self, args, kwargs, {})
        return outputs(node, self._options.num_returns)

    def options(self, **options: Unpack[MethodKeywords]) -> ActorMethod:
        """Return the method with other `options`.

        Examples
        --------
        >>> ray.get(account.add.options(name="deposit").remote(3))
        20
        """
        changed = method_options(options, self._options)
        return type(self)(self._handle, self._method, changed)

    def _remote(
        self,
        args: Sequence[Any] | None = None,
        kwargs: Mapping[str, Any] | None = None,
        **options: Any,
    ) -> Any:
        changed = method_options(options, self._options)
        return self._submit(tuple(args or ()), kwargs or {}, changed)

    def _submit(
        self, args: Sequence[Any], kwargs: Mapping[str, Any], options: MethodOptions
    ) -> Any:
        handle, method = self._handle, self._method
        channel = handle._channel or handle._open_channel()
        session = handle._session()
        method.check(args, kwargs)
        about = handle._about
        if about.max_pending_calls > 0:
            channel.check_room(about.max_pending_calls, method.name)
        num_returns = options.num_returns
        if num_returns is None:
            num_returns = "streaming" if method.is_generator else 1
        elif num_returns in ("streaming", "dynamic") and not method.is_generator:
            raise ValueError(
                f"num_returns={num_returns!r} can only be used with generator functions, and "
                f"{about.class_name}.{method.name} is not one: it has no yield. Remove "
                "num_returns, or yield the items."
            )
        if options.tensor_transport is not None:
            _check_keeps_tensors(about, method.name, options.tensor_transport, num_returns)
        name = options.name or f"{about.short_name}.{method.name}"
        call = Call(ids.call_key(method.name, ids.new_task_id()), method.name, name)
        call.num_returns = num_returns
        call.max_items = limit_of_items(options.max_items, about.max_items)
        call.keeps_tensors = options.tensor_transport is not None
        call.environment = environment_variables.version(session)
        retries = options.max_task_retries
        call.retries = about.max_task_retries if retries is None else retries
        if call.retries:
            call.waits_for_restart = True
            call.retry_exceptions = pickled_exceptions(options.retry_exceptions)
        if options.concurrency_group is not None:
            if options.concurrency_group not in (*about.groups, SYSTEM_GROUP):
                raise ValueError(_unknown_group(options.concurrency_group, about))
            call.group = options.concurrency_group
        call.holds = (handle,)
        kwargs = tracing.for_method(kwargs, channel.key, about.class_name, method.name)
        if args or kwargs:
            limit = CHANNEL_LIMIT_BYTES
            call.take_arguments(Arguments(session, args, kwargs, name, inline_limit_bytes=limit))
        result = send.call(session, call, channel)
        if call.keeps_tensors:
            result._entry.tensor_transport = options.tensor_transport
        return result


class _DecoratedMethod(ActorMethod):
    """A method of one actor that has an invocation decorator, which runs around each call."""

    __slots__ = ()

    def _submit(
        self, args: Sequence[Any], kwargs: Mapping[str, Any], options: MethodOptions
    ) -> Any:
        def invoke(args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
            return submit(args, kwargs, options)

        submit, decorator = super()._submit, self._method.decorator
        assert decorator is not None
        return decorator.around(invoke)(args, kwargs)


def _kind_of(method: Method) -> type[ActorMethod]:
    """Return the class for calls of a method: its `remote` shows the method's parameters.

    `inspect.signature` reads them from the function, not from the object, so each signature needs a
    class. Handles that travelled have neither defaults nor annotations; equal ones share a class.
    """
    base = ActorMethod if method.decorator is None else _DecoratedMethod
    signature = method.signature
    if signature is None:
        return base
    is_plain = signature.return_annotation is signature.empty and all(
        p.annotation is p.empty and (p.default is None or p.default is p.empty)
        for p in signature.parameters.values()
    )
    return _shared_kind(base, signature) if is_plain else _new_kind(base, signature)


def _new_kind(base: type[ActorMethod], signature: inspect.Signature) -> type[ActorMethod]:
    @functools.wraps(base.remote)
    def remote(self: ActorMethod, *args: Any, **kwargs: Any) -> Any:
        return self._submit(args, kwargs, self._options)

    name = "self"
    while name in signature.parameters:
        name += "_"
    first = inspect.Parameter(name, inspect.Parameter.POSITIONAL_ONLY)
    shown = signature.replace(parameters=[first, *signature.parameters.values()])
    remote.__signature__ = shown  # type: ignore[attr-defined]
    return type(base.__name__, (base,), {"__slots__": (), "remote": remote})


_shared_kind = functools.lru_cache(maxsize=1024)(_new_kind)


def _check_keeps_tensors(about: About, name: str, transport: str, num_returns: int | str) -> None:
    if num_returns != 1:
        raise ValueError(
            f"tensor_transport={transport!r} of {name}: methods with a transport only support 1 return "
            f"value, and num_returns={num_returns!r}. Return the tensors in one list."
        )
    if not about.keeps_tensors:
        raise ValueError(
            f"tensor_transport={transport!r} of {name}: the actor was made without "
            f"enable_tensor_transport. Decorate the class {about.class_name} with "
            "@ray.remote(enable_tensor_transport=True)."
        )


def _unknown_group(name: str, about: About) -> str:
    return (
        f"{about.class_name} has no concurrency group {name!r}; it has "
        f"{', '.join(map(repr, about.groups)) or 'none'}. Name its groups in "
        "@ray.remote(concurrency_groups={...})."
    )


class ActorHandle(Kept, Generic[T]):
    """The handle of an actor. Methods are attributes; the actor lives as long as a handle exists.

    You can pass handles to tasks and actors, alone or inside other objects.

    Examples
    --------
    >>> @ray.remote
    ... def deposit(account, amount):
    ...     return ray.get(account.add.remote(amount))
    >>> ray.get(deposit.remote(account, 5))
    25

    Notes
    -----
    Ray source: ``ray.actor.ActorHandle``, 2.60.0. A handle from `get_actor` does not keep the actor
    alive.
    """

    _channel: Channel | None = None

    def __init__(self, actor_ref: ObjectRef[Any], about: About) -> None:
        self._actor_ref = actor_ref
        self._about = about

    def _open_channel(self) -> Channel:
        session = self._session()
        with interrupts.deferred(), session.lock:
            if self._channel is None:
                key = self._actor_ref._key
                self._channel = session.channel(key, in_order=self._about.in_order)
            return self._channel

    @property
    def _is_dead(self) -> bool:
        """Whether the actor is dead, as far as the calls by this handle show."""
        return self._channel is not None and self._channel.is_dead

    def __del__(self) -> None:
        channel = self.__dict__.get("_channel")
        if channel is not None:
            session = self._actor_ref._session
            session.table.dropped.append(channel)
            session.wake()

    def _session(self) -> Session:
        """Return the session of the actor, which must be the current one."""
        if isinstance(self._actor_ref, UnboundObjectRef):
            raise self._actor_ref.error()
        session = self._actor_ref._session
        session.check_connection()
        if session.closed:
            raise exceptions.ActorHandleNotFoundError(
                f"{self!r} is a handle of an actor of an earlier session. Actor handles are not valid "
                "across Ray sessions: create the actor again."
            )
        return session  # type: ignore[return-value]  # only sessions make references

    @property
    def _actor_id(self) -> id_types.ActorID:
        return id_types.ActorID.from_hex(self._actor_ref._key.rpartition("-")[2])

    @property
    def _ray_actor_id(self) -> id_types.ActorID:
        return self._actor_id

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Never: ...

    else:

        def __getattr__(self, name: str) -> ActorMethod:
            if name in _BUILT_IN_METHODS:
                return ActorMethod(self, Method(name, _anything, True), MethodOptions())
            about = self.__dict__["_about"]
            method = about.methods.get(name)
            if method is None:
                listed = ", ".join(each for each in about.methods if not each.startswith("_"))
                raise AttributeError(
                    f"'{about.class_name}' object has no attribute '{name}'. Its methods are: "
                    f"{listed or 'none'}."
                )
            kind = method.kind
            if kind is None:
                kind = method.kind = _kind_of(method)
            return kind(self, method, method.options)

    def __dir__(self) -> list[str]:
        return sorted({"__init__", *_BUILT_IN_METHODS, *self._about.methods})

    def __repr__(self) -> str:
        return f"Actor({self._about.class_name}, {self._actor_id.hex()})"

    def _repr_html_(self) -> str:
        from raycompat._caller import notebook

        return notebook.of_actor(self._about.class_name, self._actor_id.hex())

    def __hash__(self) -> int:
        return hash(self._actor_id)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ActorHandle) and other._actor_id == self._actor_id

    def __reduce__(self) -> tuple[Any, ...]:
        return ActorHandle, (self._actor_ref, self._about)


def _anything(*args: Any, **kwargs: Any) -> None:
    """Give the built-in methods a signature that accepts all arguments."""


class ActorClassInheritanceException(TypeError):
    """Raised when a class inherits from an actor class.

    Examples
    --------
    >>> @ray.remote
    ... class Counter:
    ...     pass
    >>> try:
    ...
    ...     class Timer(Counter):
    ...         pass
    ... except ray.actor.ActorClassInheritanceException:
    ...     print("define the base class without ray.remote")
    define the base class without ray.remote
    """


def _handle(session: Session, key: str, about: bytes) -> ActorHandle[Any]:
    return ActorHandle(WeakObjectRef(key, session), pickle.loads(about))


def _namespace(session: Session, given: str | None) -> str:
    return checked_namespace(given) or session.setup.namespace


def get_actor(name: str, namespace: str | None = None) -> ActorHandle[Any]:
    """Return a handle of the actor with this name.

    Parameters
    ----------
    name : str
        The name that the program gave in ``.options(name=...)``.
    namespace : str, optional
        The namespace of the name. By default, that of this driver.

    Returns
    -------
    ActorHandle
        The handle does not keep the actor alive.

    Examples
    --------
    >>> import raycompat as ray
    >>> @ray.remote
    ... class Counter:
    ...     def count(self):
    ...         return 1
    >>> counter = Counter.options(name="counter of the example").remote()
    >>> ray.get(ray.get_actor("counter of the example").count.remote())
    1

    Raises
    ------
    ValueError
        When no actor has this name, or the name is empty.
    TypeError
        When the name or the namespace is not a string.

    Notes
    -----
    Ray source: ``ray.get_actor``, 2.60.0. As in Ray, the handle does not keep the actor alive.
    """
    if not name:
        raise ValueError(f"get_actor({name!r}): supply a non-empty value, the name of an actor.")
    if not isinstance(name, str):
        raise TypeError(f"The name of an actor is a string, not {name!r}.")
    name = checked_text("The name of an actor", name)
    session = sessions.require()
    space = _namespace(session, namespace)
    found = session.rpc(FindActor(name, space))
    if found is None:
        raise ValueError(
            f"Failed to look up actor with name '{name}': there is no such actor in the namespace "
            f"{space!r}. It may have died, or its creator may use another name or namespace."
        )
    return _handle(session, found["key"], found["about"])


def exit_actor() -> None:
    """Exit the actor in whose method this is called: first the call ends, then the process.

    Raises
    ------
    TypeError
        When it is called outside an actor.

    Examples
    --------
    >>> @ray.remote
    ... class Counter:
    ...     def last(self):
    ...         ray.actor.exit_actor()
    >>> try:
    ...     ray.get(Counter.remote().last.remote())
    ... except ray.exceptions.RayActorError as error:
    ...     print(type(error).__name__)
    ActorDiedError
    """
    from raycompat._caller import this_process

    executor = this_process.executor()
    if executor is None or executor.actor is None:
        raise TypeError(
            "exit_actor was called on a non-actor worker. Call it in a method of an actor."
        )
    executor.actor.exit()


@forms.takes_positions(
    "ray.kill",
    {"no_restart": forms.FLAG},
    "Kill one actor a call: ray.kill(first); ray.kill(second).",
)
def kill(actor: ActorHandle[Any], *, no_restart: bool = True) -> None:
    """Kill the process of an actor. Its waiting calls fail with `ActorDiedError`.

    Parameters
    ----------
    actor : ActorHandle
        The actor to end.
    no_restart : bool, default True
        Do not restart the actor. With False, it starts again if it has restarts left.

    Examples
    --------
    >>> import raycompat as ray
    >>> @ray.remote
    ... class Counter:
    ...     def count(self):
    ...         return 1
    >>> counter = Counter.remote()
    >>> ray.kill(counter)
    >>> try:
    ...     ray.get(counter.count.remote())
    ... except ray.exceptions.ActorDiedError:
    ...     print("ended")
    ended

    Raises
    ------
    ValueError
        When `actor` is not an actor handle.
    """
    if not isinstance(actor, ActorHandle):
        raise ValueError(
            f"ray.kill() only supported for actors. Got: {type(actor)}. Cancel a task with "
            "ray.cancel(ref)."
        )
    session = actor._session()
    key = actor._actor_ref._key
    session.send(KillActor(key, no_restart=bool(no_restart)))
    channel = session.channels.get(key)
    if no_restart and channel is not None:
        channel.kill()  # later calls must not overtake the kill


#: Names of older Rays.
__getattr__ = names_of(__name__)
