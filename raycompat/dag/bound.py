"""The functions, actors and methods that a graph calls, as far as it knows them."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Protocol

import raycompat as ray


class Kept:
    """The base of remote functions, actor classes and handles: as references, they are not copied when
    the nodes in an argument are replaced.
    """

    __slots__ = ()


class BoundClass(Protocol):
    """An actor class."""

    @property
    def _methods(self) -> Collection[str]: ...


class BoundActor(Protocol):
    """The handle of an actor."""

    @property
    def _actor_id(self) -> ray.ActorID: ...

    @property
    def _is_dead(self) -> bool: ...


class _Options(Protocol):
    @property
    def num_returns(self) -> Any: ...


class _Described(Protocol):
    @property
    def name(self) -> str: ...


class BoundMethod(Protocol):
    """A method of an actor."""

    @property
    def _options(self) -> _Options: ...

    @property
    def _method(self) -> _Described: ...

    def _remote(self, args: Sequence[Any], kwargs: Mapping[str, Any], **options: Any) -> Any: ...
