"""Actors as Dask's programs use them: a method returns at once, and its result is asked for later."""

from __future__ import annotations

from collections.abc import Callable, Generator
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from raycompat import _api
from raycompat.actor import ActorHandle

if TYPE_CHECKING:
    from raycompat.object_ref import ObjectRef


class ActorFuture:
    """The result of a method: has the methods of ``distributed.ActorFuture``, and can be awaited.

    Parameters
    ----------
    ref : ObjectRef
        The reference that the method of the handle returned.
    """

    __slots__ = ("ref",)

    def __init__(self, ref: ObjectRef[Any]) -> None:
        #: The reference, which may be an argument of remote functions and of Dask's tasks.
        self.ref = ref

    def result(self, timeout: str | timedelta | float | None = None) -> Any:
        """Wait for the result and return it.

        Parameters
        ----------
        timeout : str, timedelta or float, optional
            The longest time to wait, as Dask takes it: ``"200 ms"``, or seconds.

        Raises
        ------
        TimeoutError
            When there is no result in time.
        RayTaskError
            When the method has failed; it is an instance of the method's error, too.
        RayActorError
            When the actor is dead.
        """
        from dask.utils import parse_timedelta

        return _api.get(self.ref, timeout=None if timeout is None else parse_timedelta(timeout))

    def done(self) -> bool:
        """Return whether the method has ended, with a result or an error."""
        return bool(_api.wait([self.ref], timeout=0)[0])

    def __await__(self) -> Generator[Any, None, Any]:
        return self.ref.__await__()

    def __repr__(self) -> str:
        return "<ActorFuture>"


class Actor:
    """An actor with the interface of ``distributed.Actor``; see `raycompat.util.dask.actor`."""

    def __init__(self, handle: ActorHandle[Any]) -> None:
        self._handle = handle

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(f"{self!r} has no public attribute {name!r}.")
        if name not in dir(self._handle):
            return _api.get(self._handle.__ray_call__.remote(getattr, name))
        method = getattr(self._handle, name)

        def call(*args: Any, **kwargs: Any) -> ActorFuture:
            return ActorFuture(method.remote(*args, **kwargs))

        call.__name__ = name
        return call

    def __dir__(self) -> list[str]:
        return [name for name in dir(self._handle) if not name.startswith("_")]

    def __repr__(self) -> str:
        return f"<{self._handle!r} as a Dask actor>"

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        return Actor, (self._handle,)


def as_dask_actor(handle: ActorHandle[Any]) -> Actor:
    """Return an actor handle with the interface of Dask's actors.

    Raises
    ------
    TypeError
        When it is not an actor handle.
    """
    from distributed import BaseActorFuture

    if not isinstance(handle, ActorHandle):
        raise TypeError(
            f"{handle!r} is not an actor handle. Pass what Class.remote() or ray.get_actor() returns."
        )
    BaseActorFuture.register(ActorFuture)
    return Actor(handle)
