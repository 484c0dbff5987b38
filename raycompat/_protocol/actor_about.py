"""The description of an actor's class that travels with the actor's handles: plain data."""

from __future__ import annotations

import inspect
import pickle
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import cloudpickle

from raycompat._protocol.options import MethodOptions
from raycompat._protocol.text import checked_text

#: The concurrency group of calls that every actor runs in separate threads; the name is Ray's.
SYSTEM_GROUP = "_ray_system"


class _Dots:
    """Stands for the value of a default in a signature that is shown."""

    def __repr__(self) -> str:
        return "..."


_DOTS = _Dots()

_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


class Decorator:
    """What a program puts around the calls of a function or method, in the process that calls it.

    Ray's name for it is ``__ray_invocation_decorator__``, an attribute of the function. It takes a
    function of positional and keyword arguments (a sequence and a dictionary), which makes the call,
    and returns another such function.
    """

    def __init__(self, decorate: Callable[..., object] | bytes) -> None:
        self._decorate = decorate

    @classmethod
    def of(cls, function: object) -> Decorator | None:
        """Return the decorator that the function or method has."""
        decorator = getattr(function, "__ray_invocation_decorator__", None)
        return None if decorator is None else cls(decorator)

    def around(self, invoke: Callable[..., object]) -> Any:
        """Return the function to call instead of `invoke`."""
        if isinstance(self._decorate, bytes):  # it has come with a handle, and is needed now
            self._decorate = pickle.loads(self._decorate)
        assert not isinstance(self._decorate, bytes)
        return self._decorate(invoke)

    def __reduce__(self) -> tuple[object, ...]:
        code = self._decorate
        return Decorator, (
            code if isinstance(code, bytes) else cloudpickle.dumps(code, protocol=5),
        )


class Method:
    """The description of one method that travels with an actor's handles."""

    __slots__ = (
        "_least",
        "_most",
        "decorator",
        "is_generator",
        "kind",
        "name",
        "options",
        "signature",
    )

    #: The class for calls of this method in this process; `raycompat.actor` makes it when needed.
    kind: type | None

    def __init__(self, name: str, function: object, is_bound: bool) -> None:
        self.name = checked_text("The name of a method", name)
        self.options: MethodOptions = getattr(function, "__raycompat_method__", MethodOptions())
        self.decorator = Decorator.of(function)
        self.is_generator = inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(
            function
        )
        self.signature = signature_without_self(function, is_bound)
        self._count_positional()

    def _count_positional(self) -> None:
        """Count the positional arguments that fit by number alone; `check` accepts those at once."""
        self.kind = None
        self._least, self._most = 1, 0
        if self.signature is None:
            return
        parameters = list(self.signature.parameters.values())
        kinds = {p.kind for p in parameters if p.default is p.empty}
        if inspect.Parameter.KEYWORD_ONLY not in kinds:
            plain = [p for p in parameters if p.kind in _POSITIONAL]
            self._least = sum(p.default is p.empty for p in plain)
            has_rest = any(p.kind is inspect.Parameter.VAR_POSITIONAL for p in parameters)
            self._most = sys.maxsize if has_rest else len(plain)

    def check(self, args: Sequence[object], kwargs: Mapping[str, object]) -> None:
        """Raise an error for arguments that do not fit the method's signature.

        Raises
        ------
        TypeError
        """
        fits = not kwargs and self._least <= len(args) <= self._most
        if not fits and self.signature is not None:
            check_arguments(self.signature, args, kwargs, self.name)

    def __getstate__(self) -> tuple[object, ...]:
        signature = self.signature
        if signature is not None:  # not needed, and perhaps not picklable
            parameters = [
                p.replace(annotation=p.empty, default=p.empty if p.default is p.empty else None)
                for p in signature.parameters.values()
            ]
            signature = inspect.Signature(parameters)
        return (self.name, self.options, self.is_generator, signature, self.decorator)

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        self.name, self.options, self.is_generator, self.signature, self.decorator = state
        self._count_positional()


@dataclass(frozen=True)
class About:
    """The description of an actor's class and options that travels with the actor's handles."""

    class_name: str
    methods: dict[str, Method]
    max_task_retries: int = 0
    max_pending_calls: int = -1
    #: How many items of a generator may wait, if its method does not say; None and -1: without limit.
    max_items: int | None = None
    in_order: bool = True
    groups: tuple[str, ...] = ()
    #: Whether the tensors of results may stay in the actor's process.
    keeps_tensors: bool = False

    @cached_property
    def short_name(self) -> str:
        """The name of the class without what contains it. Each call's name has it."""
        return self.class_name.rpartition(".")[2]


def signature_without_self(function: Any, is_bound: bool) -> inspect.Signature | None:
    """Return the signature as callers of a handle see it; None if Python cannot find it."""
    try:
        signature = inspect.signature(function)
    except (ValueError, TypeError):
        return None
    if is_bound:
        return signature
    parameters = list(signature.parameters.values())
    if parameters and parameters[0].kind in _POSITIONAL:
        parameters = parameters[1:]
    return signature.replace(parameters=parameters)


def check_arguments(
    signature: inspect.Signature, args: Sequence[object], kwargs: Mapping[str, object], name: str
) -> None:
    """Raise an error for arguments that do not fit the signature of the function or class `name`.

    Raises
    ------
    TypeError
    """
    try:
        signature.bind(*args, **kwargs)
    except TypeError as error:
        raise TypeError(f"{error}. {name} takes {_shown(signature)}.") from None


def _shown(signature: inspect.Signature) -> str:
    """Return a signature as text, without annotations and values of defaults."""
    parameters = [
        p.replace(annotation=p.empty, default=p.empty if p.default is p.empty else _DOTS)
        for p in signature.parameters.values()
    ]
    return str(inspect.Signature(parameters))


def has_async_methods(cls: type) -> bool:
    """Return whether a method of the class is ``async def``: then its actors run an event loop."""
    return any(
        inspect.iscoroutinefunction(method) or inspect.isasyncgenfunction(method)
        for _, method in inspect.getmembers(cls, inspect.isfunction)
    )


def methods_of(cls: type) -> dict[str, Method]:
    """Return the descriptions of a class's methods by name."""
    methods = {}
    for name, function in inspect.getmembers(cls, callable):
        static = inspect.getattr_static(cls, name)
        if isinstance(static, type) or getattr(object, name, None) is function:
            continue
        if name in ("__init__", "__new__", "__init_subclass__", "__subclasshook__"):
            continue
        method = Method(name, function, isinstance(static, staticmethod | classmethod))
        methods[method.name] = method
    return methods


def bound_method(instance: object, name: str) -> Any:
    """Return a method as callers of a handle see it: an attribute of the instance does not hide it."""
    if name in getattr(instance, "__dict__", ()):
        cls = type(instance)
        for each in cls.__mro__:
            if name in each.__dict__:
                method = each.__dict__[name]
                get = getattr(type(method), "__get__", None)
                return method if get is None else get(method, instance, cls)
    return getattr(instance, name)
