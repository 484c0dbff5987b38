"""`ActorPool`: spread calls over a fixed set of actors."""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeAlias, TypeVar

from raycompat import _api
from raycompat.actor import ActorHandle
from raycompat.exceptions import ActorDiedError
from raycompat.object_ref import ObjectRef

V = TypeVar("V")
R = TypeVar("R")

#: What a call of `fn` returns: a reference, or a list of them from a method with several results.
_Refs: TypeAlias = "ObjectRef[Any] | list[ObjectRef[Any]]"

__all__ = ["ActorPool"]


class ActorPool:
    """Give calls to whichever of some actors is free.

    An actor has one call of the pool at a time; calls beyond that wait, in order. An actor counts as
    busy until the result of its call has been fetched from the pool.

    Parameters
    ----------
    actors : iterable of ActorHandle
        They should do nothing else meanwhile: the pool does not know of other calls.

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
    Ray source: ``ray.util.ActorPool``, 2.60.0. Differs from Ray: see `get_next_unordered`. As there,
    an actor that has died leaves the pool when its call's `ActorDiedError` is raised, and so does one
    with which ``fn`` raises: `push` it to have it back.
    """

    def __init__(self, actors: Iterable[ActorHandle[Any]]) -> None:
        self._idle = list(actors)
        #: Calls that have started and whose results were not fetched, by number: no more than actors.
        self._started: dict[int, tuple[_Refs, ActorHandle[Any]]] = {}
        #: Calls that wait for an actor.
        self._pending: deque[tuple[Callable[[ActorHandle[Any], Any], Any], Any]] = deque()
        self._num_started = 0
        #: The number of the call that `get_next` is to return; it and all above are in `_started`.
        self._next = 0

    def map(
        self, fn: Callable[[ActorHandle[Any], V], ObjectRef[R]], values: Iterable[V]
    ) -> Iterator[R]:
        """Submit a call for each value, and return an iterator over the results, in order.

        Results of earlier calls that were not fetched are dropped first, without waiting for them.

        Parameters
        ----------
        fn : callable
            Called with an actor and a value, as soon as the actor is free; returns the reference of
            the call that it makes.
        values : iterable
            Read to its end before this returns.

        Raises
        ------
        Exception
            The error of an earlier call that has failed and was not fetched. The iterator raises the
            error of a call of its own and ends there; `get_next` gives the results after it.

        Notes
        -----
        Ray source: ``ActorPool.map``, 2.60.0. No known difference.
        """
        while self.has_next():
            with contextlib.suppress(TimeoutError):
                self.get_next(timeout=0, ignore_if_timedout=True)
        self._submit_all(fn, values)
        return self._results(self.get_next)

    def map_unordered(
        self, fn: Callable[[ActorHandle[Any], V], ObjectRef[R]], values: Iterable[V]
    ) -> Iterator[R]:
        """Submit a call for each value, and return an iterator over the results as they come.

        Results of earlier calls that were not fetched are waited for and dropped first. Otherwise
        like `map`.

        Notes
        -----
        Ray source: ``ActorPool.map_unordered``, 2.60.0. No known difference.
        """
        while self.has_next():
            with contextlib.suppress(TimeoutError):  # Ray takes those of the calls for its own
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
        """Call ``fn(actor, value)`` now with an actor that is free, or as soon as there is one.

        Parameters
        ----------
        fn : callable
            Returns the reference of the call that it makes on the actor, or a list of references,
            which `get_next` without a timeout can fetch.
        value : object

        Notes
        -----
        Ray source: ``ActorPool.submit``, 2.60.0. No known difference.
        """
        if not self._idle:
            self._pending.append((fn, value))
            return
        actor = self._idle.pop()
        self._started[self._num_started] = (fn(actor, value), actor)
        self._num_started += 1

    def has_next(self) -> bool:
        """Return whether there is a started call whose result was not fetched.

        Notes
        -----
        Ray source: ``ActorPool.has_next``, 2.60.0. No known difference.
        """
        return bool(self._started)

    def get_next(self, timeout: float | None = None, ignore_if_timedout: bool = False) -> Any:
        """Return the next result in the order of submission.

        Parameters
        ----------
        timeout : float, optional
            Seconds to wait at most; 0 looks once. By default, wait for ever.
        ignore_if_timedout : bool, default False
            When the result is not there in time, give it up: its actor counts as free, though it
            may be at work still.

        Raises
        ------
        StopIteration
            When nothing is left to get.
        TimeoutError
            When the result is not there in time.
        ValueError
            When `get_next_unordered` has returned a result of a later call than those left, or the
            timeout is negative.
        ActorDiedError
            When the actor has died; it leaves the pool.
        Exception
            The error of the call.

        Notes
        -----
        Ray source: ``ActorPool.get_next``, 2.60.0. No known difference.
        """
        self._check_has_next()
        number = self._next
        if number not in self._started:
            raise ValueError(
                "It is not possible to call get_next() after get_next_unordered() has returned the "
                "last result: what is left has no order. Call get_next_unordered() for it."
            )
        if timeout is not None:
            ready, _ = _api.wait([self._started[number][0]], timeout=timeout)
            if not ready:
                self._time_out(number, timeout, ignore_if_timedout)
        return self._fetch(number)

    def get_next_unordered(
        self, timeout: float | None = None, ignore_if_timedout: bool = False
    ) -> Any:
        """Return the result of a call that has ended, whichever is first.

        Parameters
        ----------
        timeout : float, optional
            Seconds to wait at most; 0 looks once. By default, wait for ever.
        ignore_if_timedout : bool, default False
            When there is no result in time, give that of the oldest call up, as in `get_next`.

        Raises
        ------
        StopIteration
            When nothing is left to get.
        TimeoutError
            When there is no result in time.
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
        Ray source: ``ActorPool.get_next_unordered``, 2.60.0. Differs from Ray: there,
        `ignore_if_timedout` ends in an `UnboundLocalError` when the time is up, and drops nothing.
        """
        self._check_has_next()
        refs = [refs for refs, _ in self._started.values()]
        ready, _ = _api.wait(refs, num_returns=1, timeout=timeout)
        if not ready:
            self._time_out(min(self._started), timeout, ignore_if_timedout)
        return self._fetch(next(n for n, (ref, _) in self._started.items() if ref == ready[0]))

    def _check_has_next(self) -> None:
        if not self.has_next():
            raise StopIteration(
                "No more results to get: ask has_next() first, and submit() what is to be done."
            )

    def _time_out(self, number: int, timeout: float | None, ignore: bool) -> None:
        """Raise the error of a call that is not done in time, and drop it if it is to be ignored."""
        message = f"Timed out waiting for result: none in {timeout} s."
        if not ignore:
            raise TimeoutError(message)
        refs, actor = self._take(number)
        self._release(actor)
        raise TimeoutError(f"{message} The task {refs} has been ignored.")

    def _take(self, number: int) -> tuple[_Refs, ActorHandle[Any]]:
        self._next = max(self._next, number + 1)
        return self._started.pop(number)

    def _fetch(self, number: int) -> Any:
        refs, actor = self._take(number)
        free: ActorHandle[Any] | None = actor
        try:
            return _api.get(refs)
        except ActorDiedError:
            free = None
            raise
        finally:
            self._release(free)

    def _release(self, actor: ActorHandle[Any] | None) -> None:
        """Make an actor idle that lives, and start the first call that waits, if any."""
        if actor is not None:
            self._idle.append(actor)
        if self._pending and self._idle:
            self.submit(*self._pending.popleft())

    def has_free(self) -> bool:
        """Return whether a call that is submitted now starts at once.

        Notes
        -----
        Ray source: ``ActorPool.has_free``, 2.60.0. No known difference.
        """
        return bool(self._idle) and not self._pending

    def pop_idle(self) -> ActorHandle[Any] | None:
        """Remove a free actor from the pool and return it; None when there is none.

        Notes
        -----
        Ray source: ``ActorPool.pop_idle``, 2.60.0. No known difference.
        """
        return self._idle.pop() if self.has_free() else None

    def push(self, actor: ActorHandle[Any]) -> None:
        """Add an actor to the pool; the first call that waits starts on it.

        Raises
        ------
        ValueError
            When the pool has the actor already.

        Notes
        -----
        Ray source: ``ActorPool.push``, 2.60.0. No known difference.
        """
        if actor in self._idle or any(actor == busy for _, busy in self._started.values()):
            raise ValueError(
                f"{actor!r} already belongs to current ActorPool. Push each actor once."
            )
        self._release(actor)
