"""The types of remote functions and methods for type checkers.

A remote function keeps the signature of its function: ``square.remote(2)`` is an ``ObjectRef[int]``.
``@ray.method`` on a method does the same: through a handle, ``counter.add.remote(2)`` is an
``ObjectRef[int]``. For a type checker, ``Counter.remote()`` returns an `ActorProxy` with all attributes
of the class. A method without the decorator has no ``remote`` there, as in Ray.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, ParamSpec, Protocol, TypeVar, overload

from raycompat._caller.object_ref import ObjectRef

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")
#: What a call returns: an `ObjectRef`, or an `ObjectRefGenerator`.
Returned_co = TypeVar("Returned_co", covariant=True)


class Remote(Protocol[P, Returned_co]):
    """The type of ``remote`` of a function or method.

    A type checker compares the arguments with the signature. References can stand for values: alone in
    all places, or among the first four positional arguments. In the second case the other arguments
    are not checked, because a signature cannot say "this type, or a reference to it" of each parameter.
    For the same reason, a call without arguments is not checked.
    """

    @overload
    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> Returned_co: ...
    @overload
    def __call__(self, *args: ObjectRef[Any], **kwargs: ObjectRef[Any]) -> Returned_co: ...
    @overload
    def __call__(self, ref: ObjectRef[Any], /, *args: object, **kwargs: object) -> Returned_co: ...
    @overload
    def __call__(
        self, a: object, ref: ObjectRef[Any], /, *args: object, **kwargs: object
    ) -> Returned_co: ...
    @overload
    def __call__(
        self, a: object, b: object, ref: ObjectRef[Any], /, *args: object, **kwargs: object
    ) -> Returned_co: ...
    @overload
    def __call__(
        self,
        a: object,
        b: object,
        c: object,
        ref: ObjectRef[Any],
        /,
        *args: object,
        **kwargs: object,
    ) -> Returned_co: ...


class RemoteMethod(Generic[P, Returned_co]):
    """A method of an actor, as its handle has it. Only type checkers see this class."""

    #: Calls the method with values, or with references to them.
    remote: Remote[P, Returned_co]

    def options(self, **options: object) -> Any:
        """Return the method with other options."""
        raise NotImplementedError  # it has no instances


class MethodDecorator(Protocol):
    """The type of ``@ray.method(...)`` with options."""

    def __call__(self, function: Callable[..., object], /) -> Any:
        """Set the options of a method."""
