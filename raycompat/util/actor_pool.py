"""`ActorPool`: it distributes calls over a fixed set of actors."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeAlias, TypeVar

from raycompat import _api
from raycompat.actor import ActorHandle
from raycompat.exceptions import ActorDiedError
from raycompat.object_ref import ObjectRef

V = TypeVar("V")
R = TypeVar("R")

#: The result of `fn`: a reference, or a list of references from a method with several results.
_Refs: TypeAlias = "ObjectRef[Any] | list[ObjectRef[Any]]"

__all__ = ["ActorPool"]


class ActorPool:
    """Gives each call to an actor that is free.

    An actor has one call of the pool at a time; calls beyond that wait, in order. An actor counts as
    busy until the result of its call has been fetched from the pool.

    Parameters
    ----------
    actors : iterable of ActorHandle
        They should do nothing else meanwhile, because the pool does not know of other calls.

    Examples
    --------
    >>> import raycompat as ray
    >>> @ray.remote
    ... class Doubler:
    ...     def double(self, x):
    ...         return 2 * x
    >>> pool = ray.util.ActorPool([Doubler.remote(), Doubler.remote()])
    >>> list(pool.map(lambda actor, x: actor.double.remote(x), [1, 2, 3]))
    [2, 4, 6]

    Notes
    -----
    Ray source: ``ray.util.ActorPool``, 2.60.0. Differs from Ray: see `get_next_unordered`. As in Ray,
    an actor that has died leaves the pool when its call's `ActorDiedError` is raised, and so does an
    actor with which ``fn`` raises: `push` adds it again.
    """

    def __init__(self, actors: Iterable[ActorHandle[Any]]) -> None:
        # Subclasses of Ray's pool in other libraries use these six attributes: their names are Ray's.
        self._idle_actors = list(actors)
        #: The number and the actor of each started call whose result was not fetched.
        self._future_to_actor: dict[Any, tuple[int, ActorHandle[Any]]] = {}
        #: The references of each of these calls, by its number.
        self._index_to_future: dict[int, _Refs] = {}
        self._next_task_index = 0
        #: The number of the call that `get_next` returns next.
        self._next_return_index = 0
        #: Calls that wait for an actor.
        self._pending_submits: list[tuple[Callable[[ActorHandle[Any], Any], Any], Any]] = []

    def map(
        self, fn: Callable[[ActorHandle[Any], V], ObjectRef[R]], values: Iterable[V]
    ) -> Iterator[R]:
        """Submit a call for each value, and return an iterator over the results, in order.

        Unfetched results of earlier calls are dropped first, without waiting for them.

        Parameters
        ----------
        fn : callable
            Called with an actor and a value, as soon as the actor is free; returns the reference of the
            call that it makes.
        values : iterable
            Read to its end before this returns.

        Examples
        --------
        >>> @ray.remote
        ... class Doubler:
        ...     def double(self, number):
        ...         return 2 * number
        >>> pool = ray.util.ActorPool([Doubler.remote(), Doubler.remote()])
        >>> list(pool.map(lambda actor, number: actor.double.remote(number), [1, 2, 3]))
        [2, 4, 6]

        Raises
        ------
        Exception
            The error of an earlier failed call that was not fetched. The iterator raises the error of
            one of its calls and ends there; `get_next` returns the results after it.
        """
        while self.has_next():
            with contextlib.suppress(TimeoutError):
                self.get_next(timeout=0, ignore_if_timedout=True)
        self._submit_all(fn, values)
        return self._results(self.get_next)

    def map_unordered(
        self, fn: Callable[[ActorHandle[Any], V], ObjectRef[R]], values: Iterable[V]
    ) -> Iterator[R]:
        """Call `fn` with an actor and each of `values`, and yield the results as they arrive.

        Unfetched results of earlier calls are waited for and dropped first. Otherwise it works like
        `map`.

        Examples
        --------
        >>> sorted(
        ...     pool.map_unordered(
        ...         lambda actor, number: actor.double.remote(number), [1, 2, 3]
        ...     )
        ... )
        [2, 4, 6]
        """
        while self.has_next():
            with contextlib.suppress(TimeoutError):  # Ray hides the timeouts of the calls too
                self.get_next_unordered()
        self._submit_all(fn, values)
        return self._results(self.get_next_unordered)

    def _submit_all(self, fn: Callable[[ActorHandle[Any], V], Any], values: Iterable[V]) -> None:
        for value in values:
            self.submit(fn, value)

    def _results(self, get_one: Callable[[], Any]) -> Iterator[Any]:
        while self.has_next():
            yield get_one()

    def submit(self, fn: Callable[[ActorHandle[Any], V], Any], value: V) -> None:
        """Call ``fn(actor, value)`` with a free actor, now or as soon as there is one.

        Parameters
        ----------
        fn : callable
            Returns the reference of the call that it makes on the actor, or a list of references,
            which `get_next` without a timeout can fetch.
        value : object

        Examples
        --------
        >>> pool.submit(lambda actor, number: actor.double.remote(number), 1)
        >>> pool.get_next()
        2
        """
        if not self._idle_actors:
            self._pending_submits.append((fn, value))
            return
        actor = self._idle_actors.pop()
        refs = fn(actor, value)
        self._future_to_actor[_key(refs)] = (self._next_task_index, actor)
        self._index_to_future[self._next_task_index] = refs
        self._next_task_index += 1

    def has_next(self) -> bool:
        """Return whether a started call has a result that was not fetched.

        Examples
        --------
        >>> pool.has_next()
        False
        """
        return bool(self._future_to_actor)

    def get_next(self, timeout: float | None = None, ignore_if_timedout: bool = False) -> Any:
        """Return the next result in the order of submission.

        Parameters
        ----------
        timeout : float, optional
            Maximum seconds to wait; 0 checks once. By default, wait without limit.
        ignore_if_timedout : bool, default False
            When the result is not ready in time, drop it: its actor counts as free, although it may
            still be busy.

        Examples
        --------
        >>> pool.submit(lambda actor, number: actor.double.remote(number), 5)
        >>> pool.get_next(timeout=10)
        10

        Raises
        ------
        StopIteration
            When no result is left.
        TimeoutError
            When the result is not ready in time.
        ValueError
            When `get_next_unordered` has returned the result of a later call than those left, or the
            timeout is negative.
        ActorDiedError
            When the actor has died; it leaves the pool.
        Exception
            The error of the call.
        """
        self._check_has_next()
        refs = self._index_to_future.get(self._next_return_index)
        if refs is None:
            raise ValueError(
                "It is not possible to call get_next() after get_next_unordered() has returned the "
                "last result: the remaining results have no order. Call get_next_unordered() for them."
            )
        if timeout is not None:
            ready, _ = _api.wait([refs], timeout=timeout)
            if not ready:
                self._time_out(_key(refs), timeout, ignore_if_timedout)
        return self._fetch(_key(refs))

    def get_next_unordered(
        self, timeout: float | None = None, ignore_if_timedout: bool = False
    ) -> Any:
        """Return the result of the call that has ended first.

        Parameters
        ----------
        timeout : float, optional
            Maximum seconds to wait; 0 checks once. By default, wait without limit.
        ignore_if_timedout : bool, default False
            Changes nothing: no call is dropped when no result is ready in time, because it is not known
            which one would have ended first.

        Examples
        --------
        >>> pool.submit(lambda actor, number: actor.double.remote(number), 6)
        >>> pool.get_next_unordered(timeout=10)
        12

        Raises
        ------
        StopIteration
            When no result is left.
        TimeoutError
            When no result is ready in time.
        ValueError
            When the timeout is negative.
        TypeError
            When a call in the pool has several references.
        ActorDiedError
            When the actor has died; it leaves the pool.
        Exception
            The error of the call.

        Notes
        -----
        Ray source: ``ActorPool.get_next_unordered``, 2.60.0. Differs from Ray: in Ray,
        `ignore_if_timedout` raises an `UnboundLocalError` after the timeout.
        """
        self._check_has_next()
        ready, _ = _api.wait(list(self._future_to_actor), num_returns=1, timeout=timeout)
        if not ready:
            raise TimeoutError(_timed_out(timeout))
        return self._fetch(ready[0])

    def _check_has_next(self) -> None:
        if not self.has_next():
            raise StopIteration(
                "No more results to get: check has_next() first, or submit() more calls."
            )

    def _time_out(self, key: Any, timeout: float | None, ignore: bool) -> None:
        """Raise the error of a call that is not ready in time, and drop the call if `ignore`."""
        if not ignore:
            raise TimeoutError(_timed_out(timeout))
        self._return_actor(self._take(key))
        raise TimeoutError(f"{_timed_out(timeout)} The task {key} has been ignored.")

    def _take(self, key: Any) -> ActorHandle[Any]:
        """Remove a call, and return its actor."""
        number, actor = self._future_to_actor.pop(key)
        self._index_to_future.pop(number, None)
        self._next_return_index = max(self._next_return_index, number + 1)
        return actor

    def _fetch(self, key: Any) -> Any:
        actor = self._take(key)
        is_alive = True
        try:
            return _api.get(list(key) if isinstance(key, tuple) else key)
        except ActorDiedError:
            is_alive = False
            raise
        finally:
            self._return_actor(actor, is_alive=is_alive)

    def _return_actor(self, actor: ActorHandle[Any], is_alive: bool = True) -> None:
        """Mark a living actor as idle, and start the first waiting call, if any."""
        if is_alive:
            self._idle_actors.append(actor)
        if self._pending_submits and self._idle_actors:
            self.submit(*self._pending_submits.pop(0))

    def has_free(self) -> bool:
        """Return whether a call that is submitted now starts at once.

        Examples
        --------
        >>> pool.has_free()
        True
        """
        return bool(self._idle_actors) and not self._pending_submits

    def pop_idle(self) -> ActorHandle[Any] | None:
        """Remove a free actor from the pool and return it; None if no actor is free.

        Examples
        --------
        >>> actor = pool.pop_idle()
        >>> ray.get(actor.double.remote(2))
        4
        """
        return self._idle_actors.pop() if self.has_free() else None

    def push(self, actor: ActorHandle[Any]) -> None:
        """Add `actor` to the pool; the first waiting call starts on it.

        Examples
        --------
        >>> pool.push(actor)

        Raises
        ------
        ValueError
            When the actor is already in the pool.
        """
        busy = [entry[1] for entry in self._future_to_actor.values()]
        if actor in self._idle_actors or actor in busy:
            raise ValueError(
                f"{actor!r} already belongs to current ActorPool. Push each actor once."
            )
        self._return_actor(actor)


def _key(refs: Any) -> Any:
    """Return a dictionary key for a call's references."""
    return tuple(refs) if isinstance(refs, list) else refs


def _timed_out(timeout: float | None) -> str:
    return f"Timed out waiting for result: none in {timeout} s."
