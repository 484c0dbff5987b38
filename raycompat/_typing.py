"""The types of actors for type checkers.

``@ray.method`` on a method keeps its signature: through a handle, ``counter.add.remote(2)`` is an
``ObjectRef[int]``. For a type checker, ``Counter.remote()`` returns an `ActorProxy` with all attributes
of the class. A method without the decorator has no ``remote`` there, as in Ray.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, ParamSpec, Protocol, TypeVar, overload

from raycompat.object_ref import ObjectRef, ObjectRefGenerator

P = ParamSpec("P")
R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)


class RemoteMethod(Generic[P, R]):
    """A method with one result."""

    @overload
    def remote(self, *args: P.args, **kwargs: P.kwargs) -> ObjectRef[R]: ...
    @overload
    def remote(self, *args: ObjectRef[Any], **kwargs: ObjectRef[Any]) -> ObjectRef[R]: ...
    def remote(self, *args: Any, **kwargs: Any) -> ObjectRef[R]:
        """Call the method with values, or with references to them."""
        raise NotImplementedError  # for type checkers only; it has no instances

    def options(self, **options: Any) -> Any:
        """Return the method with other options."""
        raise NotImplementedError


class RemoteGenerator(Generic[P]):
    """A generator method."""

    @overload
    def remote(self, *args: P.args, **kwargs: P.kwargs) -> ObjectRefGenerator: ...
    @overload
    def remote(self, *args: ObjectRef[Any], **kwargs: ObjectRef[Any]) -> ObjectRefGenerator: ...
    def remote(self, *args: Any, **kwargs: Any) -> ObjectRefGenerator:
        """Call the method with values, or with references to them."""
        raise NotImplementedError


class MethodDecorator(Protocol):
    """The type of ``@ray.method(...)`` with options."""

    def __call__(self, function: Callable[..., Any], /) -> Any:
        """Set the options of a method."""
