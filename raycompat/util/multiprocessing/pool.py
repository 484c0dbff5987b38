"""`Pool`: calls in chunks, over a fixed number of actors."""

from __future__ import annotations

import logging
import os
import threading
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from functools import partial
from types import TracebackType
from typing import Any

import raycompat as ray
from raycompat import _api
from raycompat._caller import current_session
from raycompat._surface.modules import names_of
from raycompat.actor import ActorClass, kill
from raycompat.object_ref import ObjectRef
from raycompat.util._internal_actors import internal_actor
from raycompat.util.multiprocessing.pool_process import (
    Function,
    Outcome,
    PoolProcess,
    Style,
    TimedOutcomes,
)
from raycompat.util.multiprocessing.results import AsyncResult, IMapIterator

logger = logging.getLogger(__name__)

__all__ = ["Pool"]

#: Minimum number of messages at a process: while it works on one, the next is on its way.
_LEAST_AHEAD = 2

#: Maximum number of messages at a process, for very short ones: they are sent together.
_MOST_AHEAD = 64

#: Seconds of work that may wait at a process.
_AHEAD_S = 0.01

#: Maximum number of chunks in one message, and the seconds of work that they may have together.
_MOST_TOGETHER, _TOGETHER_S = 128, 0.001

#: Default number of chunks for each process into which `map` splits its items, as in Python.
_CHUNKS_PER_PROCESS = 4


class _Chunk:
    """Some items of one call of the pool."""

    __slots__ = ("accept", "function", "is_part", "items", "style")

    def __init__(
        self,
        function: Function,
        style: Style,
        items: Sequence[Any],
        accept: Callable[[Outcome], None],
        *,
        is_part: bool = False,
    ) -> None:
        self.function, self.style, self.items, self.accept = function, style, items, accept
        #: Whether its results are returned together with those of other chunks: then they can also
        #: travel together.
        self.is_part = is_part

    def goes_with(self, other: _Chunk) -> bool:
        """Return whether both can be in one message."""
        return self.is_part and other.is_part and self.function is other.function


class _Process:
    """A process of the pool, and its messages."""

    __slots__ = (
        "actor",
        "code_id",
        "function_id",
        "num_ahead",
        "num_running",
        "num_started",
        "num_together",
    )

    def __init__(self, actor: Any) -> None:
        self.actor = actor
        self.num_running = 0
        self.num_started = 0
        #: The function whose durations are known, and its code.
        self.function_id, self.code_id = "", 0
        #: The number of messages that it may have, and of chunks in one.
        self.num_ahead, self.num_together = _LEAST_AHEAD, 1

    def note_function(self, function: Function) -> None:
        """Forget the durations of another function."""
        if function.id == self.function_id:
            return
        self.num_ahead = _LEAST_AHEAD
        if function.code_id != self.code_id:
            self.num_together = 1
        self.function_id, self.code_id = function.id, function.code_id

    def note_duration(self, function: Function, num_chunks: int, seconds: float) -> None:
        """Adapt the numbers of messages and of chunks in one to the duration of a message."""
        if function.id != self.function_id:
            return
        wanted = int(_AHEAD_S / max(seconds, _AHEAD_S / _MOST_AHEAD))
        self.num_ahead = max(_LEAST_AHEAD, min(wanted, 2 * self.num_ahead))
        of_chunk = seconds / num_chunks
        wanted = int(_TOGETHER_S / max(of_chunk, _TOGETHER_S / _MOST_TOGETHER))
        self.num_together = max(1, min(wanted, 2 * self.num_together))


class Pool:
    """Calls functions in a fixed number of processes: Python's `multiprocessing.Pool` on a cluster.

    Parameters
    ----------
    processes : int, optional
        Number of processes, 1 or more; by default the CPUs of the cluster.
    initializer : callable, optional
        Called with `initargs` in each process when it starts.
    initargs : iterable, optional
    maxtasksperchild : int, optional
        Number of chunks that a process runs before a new one replaces it. By default there is no
        limit.
    context : object, optional
        Ignored, with a warning: processes start as actors do.
    ray_address : str, optional
        The cluster to connect to if this process has no session, as in `init`.
    ray_remote_args : dict, optional
        Options for the actors, as for `remote`. By default they use no CPU, and an actor that dies is
        restarted.

    Raises
    ------
    ValueError
        When `processes` is below 1, or above the CPUs of the cluster.
    RayActorError
        When the initializer fails.

    Examples
    --------
    >>> from raycompat.util.multiprocessing import Pool
    >>> with Pool(2) as pool:
    ...     pool.map(abs, [-1, 2, -3])
    [1, 2, 3]

    Notes
    -----
    Ray source: ``ray.util.multiprocessing.Pool``, 2.60.0. Differs from Ray: the iterators of `imap`
    raise a function's error, as Python's do; Ray's return it. A busy process gets no more than one
    chunk while others are free. A process that dies is replaced.
    """

    def __init__(
        self,
        processes: int | None = None,
        initializer: Callable[..., Any] | None = None,
        initargs: Iterable[Any] | None = None,
        maxtasksperchild: int | None = None,
        context: Any = None,
        ray_address: str | None = None,
        ray_remote_args: Mapping[str, Any] | None = None,
    ) -> None:
        if context is not None:
            logger.warning("Pool(context=%r) has no effect: processes start as actors do.", context)
        self._closed = False
        self._maxtasksperchild = maxtasksperchild or 0
        self._processes = _connect(processes, ray_address)
        self._initializer, self._initargs = initializer, tuple(initargs or ())
        options = {"num_cpus": 0, "max_restarts": -1, **(ray_remote_args or {})}
        self._process_class: ActorClass[PoolProcess] = internal_actor(PoolProcess, **options)
        self._changed = threading.Condition()
        self._waiting: deque[_Chunk] = deque()
        self._num_unfinished = 0
        self._ending: list[ObjectRef[Any]] = []
        self._crew = [self._start_process() for _ in range(self._processes)]
        _api.get([process.actor.ping.remote() for process in self._crew])

    def _start_process(self) -> _Process:
        return _Process(self._process_class.remote(self._initializer, self._initargs))

    # --- calls ----------------------------------------------------------------------------------

    def apply(
        self,
        func: Callable[..., Any],
        args: Sequence[Any] | None = None,
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        """Return ``func(*args, **kwargs)``, called in a process of the pool.

        Examples
        --------
        >>> from raycompat.util.multiprocessing import Pool
        >>> with Pool(1) as pool:
        ...     pool.apply(pow, (2, 5))
        32
        """
        return self.apply_async(func, args, kwargs).get()

    def apply_async(
        self,
        func: Callable[..., Any],
        args: Sequence[Any] | None = None,
        kwargs: Mapping[str, Any] | None = None,
        callback: Callable[[Any], Any] | None = None,
        error_callback: Callable[[BaseException], Any] | None = None,
    ) -> AsyncResult:
        """Start one call, and return its `AsyncResult`.

        Parameters
        ----------
        func : callable
        args, kwargs : optional
        callback : callable, optional
            Called with the result, in another thread of this process.
        error_callback : callable, optional
            Called with the function's error instead.

        Examples
        --------
        >>> from raycompat.util.multiprocessing import Pool
        >>> with Pool(1) as pool:
        ...     result = pool.apply_async(pow, (2, 5))  # returns at once
        ...     result.get(timeout=10)
        32
        """
        self._check_running()
        result = AsyncResult(1, callback, error_callback, single=True)
        item = (tuple(args or ()), dict(kwargs or {}))
        self._submit([_Chunk(Function.of(func), "call", [item], partial(result.accept, 0))])
        return result

    def map(
        self, func: Callable[[Any], Any], iterable: Iterable[Any], chunksize: int | None = None
    ) -> list[Any]:
        """Return ``[func(item) for item in iterable]``, called in the processes of the pool.

        Parameters
        ----------
        func : callable
        iterable : iterable
            Read to its end before this returns.
        chunksize : int, optional
            Items per message, 1 or more; by default a quarter of each process's share.

        Raises
        ------
        Exception
            The first error of the function.

        Examples
        --------
        >>> from raycompat.util.multiprocessing import Pool
        >>> with Pool(2) as pool:
        ...     pool.map(abs, [-1, 2, -3], chunksize=2)
        [1, 2, 3]
        """
        values: list[Any] = self.map_async(func, iterable, chunksize).get()
        return values

    def map_async(
        self,
        func: Callable[[Any], Any],
        iterable: Iterable[Any],
        chunksize: int | None = None,
        callback: Callable[[list[Any]], Any] | None = None,
        error_callback: Callable[[BaseException], Any] | None = None,
    ) -> AsyncResult:
        """Start the calls of `map`, and return their `AsyncResult`; see `apply_async`.

        Examples
        --------
        >>> from raycompat.util.multiprocessing import Pool
        >>> with Pool(2) as pool:
        ...     result = pool.map_async(abs, [-1, 2, -3])
        ...     result.get(timeout=30)
        [1, 2, 3]
        """
        return self._start(func, "item", iterable, chunksize, callback, error_callback)

    def starmap(
        self,
        func: Callable[..., Any],
        iterable: Iterable[Sequence[Any]],
        chunksize: int | None = None,
    ) -> list[Any]:
        """Return ``[func(*item) for item in iterable]``; see `map`.

        Examples
        --------
        >>> from raycompat.util.multiprocessing import Pool
        >>> with Pool(1) as pool:
        ...     pool.starmap(pow, [(2, 5), (3, 2)])
        [32, 9]
        """
        values: list[Any] = self.starmap_async(func, iterable, chunksize=chunksize).get()
        return values

    def starmap_async(
        self,
        func: Callable[..., Any],
        iterable: Iterable[Sequence[Any]],
        callback: Callable[[list[Any]], Any] | None = None,
        error_callback: Callable[[BaseException], Any] | None = None,
        *,
        chunksize: int | None = None,
    ) -> AsyncResult:
        """Start the calls of `starmap`, and return their `AsyncResult`; see `apply_async`.

        Examples
        --------
        >>> from raycompat.util.multiprocessing import Pool
        >>> with Pool(2) as pool:
        ...     pool.starmap_async(pow, [(2, 3), (3, 2)]).get(timeout=30)
        [8, 9]
        """
        return self._start(func, "star", iterable, chunksize, callback, error_callback)

    def imap(
        self, func: Callable[[Any], Any], iterable: Iterable[Any], chunksize: int | None = 1
    ) -> IMapIterator:
        """Return an iterator over the results of `map`, in order, which reads items as needed.

        Parameters
        ----------
        func : callable
        iterable : iterable
            A chunk for each process is read at once, and another one after each result.
        chunksize : int, default 1

        Examples
        --------
        >>> from raycompat.util.multiprocessing import Pool
        >>> with Pool(1) as pool:
        ...     for result in pool.imap(abs, [-1, 2]):  # each as soon as it is ready
        ...         print(result)
        1
        2
        """
        return self._iterate(func, iterable, chunksize, ordered=True)

    def imap_unordered(
        self, func: Callable[[Any], Any], iterable: Iterable[Any], chunksize: int | None = 1
    ) -> IMapIterator:
        """Return an iterator over the results of `map` as they arrive; see `imap`.

        Examples
        --------
        >>> from raycompat.util.multiprocessing import Pool
        >>> with Pool(2) as pool:
        ...     sorted(pool.imap_unordered(abs, [-3, 1, -2]))
        [1, 2, 3]
        """
        return self._iterate(func, iterable, chunksize, ordered=False)

    def _start(
        self,
        func: Callable[..., Any],
        style: Style,
        iterable: Iterable[Any],
        chunksize: int | None,
        callback: Callable[[list[Any]], Any] | None,
        error_callback: Callable[[BaseException], Any] | None,
    ) -> AsyncResult:
        self._check_running()
        # a slice of a range is pickled as three numbers
        items = iterable if isinstance(iterable, range) else list(iterable)
        size = self._chunk_size(items) if chunksize is None else _checked(chunksize)
        chunks = [items[start : start + size] for start in range(0, len(items), size)]
        result = AsyncResult(len(chunks), callback, error_callback)
        function = Function.of(func)
        self._submit(
            _Chunk(function, style, chunk, partial(result.accept, index), is_part=True)
            for index, chunk in enumerate(chunks)
        )
        return result

    def _iterate(
        self,
        func: Callable[[Any], Any],
        iterable: Iterable[Any],
        chunksize: int | None,
        *,
        ordered: bool,
    ) -> IMapIterator:
        self._check_running()
        if chunksize is None:
            chunksize = self._chunk_size(iterable) if isinstance(iterable, Sequence) else 1
        return IMapIterator(
            self._submit_alone,
            self._processes,
            Function.of(func),
            iterable,
            _checked(chunksize),
            ordered=ordered,
        )

    def _chunk_size(self, items: Sequence[Any]) -> int:
        return max(1, -(-len(items) // (self._processes * _CHUNKS_PER_PROCESS)))

    # --- assigning chunks to processes ----------------------------------------------------------

    def _submit(self, chunks: Iterable[_Chunk]) -> None:
        """Run each chunk in a process as soon as one is free; `accept` is called with its outcome."""
        with self._changed:
            before = len(self._waiting)
            self._waiting.extend(chunks)
            self._num_unfinished += len(self._waiting) - before
            self._dispatch()

    def _submit_alone(
        self, function: Function, items: list[Any], accept: Callable[[Outcome], None]
    ) -> None:
        self._submit([_Chunk(function, "item", items, accept)])

    def _dispatch(self) -> None:
        """Send the waiting chunks to the processes with the least work."""
        while self._waiting and self._crew:
            process = min(self._crew, key=lambda each: each.num_running)
            if process.num_running >= process.num_ahead:
                return
            if process.num_started and process.num_started == self._maxtasksperchild:
                self._end(process)
                process = self._replace(process)
            chunks = self._take(process)
            process.num_running += 1
            process.num_started += 1
            first = chunks[0]
            items = [chunk.items for chunk in chunks]
            ref = process.actor.run.remote(first.function, first.style, items)
            ref.future().add_done_callback(partial(self._finish, process, chunks))

    def _take(self, process: _Process) -> list[_Chunk]:
        """Take the chunks of the next message to a process off the waiting ones."""
        chunks = [self._waiting.popleft()]
        process.note_function(chunks[0].function)
        most = 1 if self._maxtasksperchild else min(process.num_together, self._share(process))
        while len(chunks) < most and self._waiting and self._waiting[0].goes_with(chunks[0]):
            chunks.append(self._waiting.popleft())
        return chunks

    def _share(self, process: _Process) -> int:
        """Return how many waiting chunks each of the least busy processes gets."""
        num_least_busy = sum(each.num_running == process.num_running for each in self._crew)
        return -(-(len(self._waiting) + 1) // num_least_busy)

    def _replace(self, process: _Process) -> _Process:
        fresh = self._start_process()
        self._crew[self._crew.index(process)] = fresh
        return fresh

    def _finish(
        self, process: _Process, chunks: list[_Chunk], future: Future[TimedOutcomes]
    ) -> None:
        error = future.exception()
        if error is None:
            outcomes, duration_s = future.result()
        else:  # the process has died, or its results cannot be pickled
            # counts as long, so that the next messages do not grow
            outcomes, duration_s = [_failed(chunk, error) for chunk in chunks], _TOGETHER_S
        num_run = len(outcomes)
        with self._changed:
            process.num_running -= 1
            process.note_duration(chunks[0].function, num_run, duration_s)
            if self._crew:
                self._waiting.extendleft(reversed(chunks[num_run:]))
                self._dispatch()
            else:  # terminated
                outcomes += [_failed(chunk, _terminated()) for chunk in chunks[num_run:]]
        self._deliver(zip(chunks, outcomes, strict=False))

    def _deliver(self, outcomes: Iterable[tuple[_Chunk, Outcome]]) -> None:
        num_delivered = 0
        try:
            for chunk, outcome in outcomes:
                num_delivered += 1
                chunk.accept(outcome)
        finally:
            with self._changed:
                self._num_unfinished -= num_delivered
                self._changed.notify_all()

    # --- the end --------------------------------------------------------------------------------

    def _check_running(self) -> None:
        if self._closed:
            raise ValueError("Pool not running: it was closed. Make a new one.")

    def close(self) -> None:
        """Accept no more calls; those that were started continue.

        Examples
        --------
        >>> from raycompat.util.multiprocessing import Pool
        >>> pool = Pool(2)
        >>> result = pool.map_async(abs, [-1, 2])
        >>> pool.close()
        >>> pool.join()
        >>> result.get()
        [1, 2]
        """
        self._closed = True

    def terminate(self) -> None:
        """Accept no more calls, and end the processes at once; running calls fail.

        Examples
        --------
        >>> from raycompat.util.multiprocessing import Pool
        >>> pool = Pool(2)
        >>> pool.terminate()
        >>> pool.join()
        """
        self._closed = True
        with self._changed:
            crew, self._crew = self._crew, []
            dropped, self._waiting = list(self._waiting), deque()
        for process in crew:
            kill(process.actor)
        self._deliver((chunk, _failed(chunk, _terminated())) for chunk in dropped)

    def join(self) -> None:
        """Wait until all calls of a closed pool have ended, and end its processes.

        Raises
        ------
        ValueError
            When the pool is neither closed nor terminated.
        """
        if not self._closed:
            raise ValueError("Pool is still running: call close() or terminate() before join().")
        with self._changed:
            self._changed.wait_for(lambda: self._num_unfinished == 0)
            crew, self._crew = self._crew, []
        for process in crew:
            self._end(process)
        _api.wait(self._ending, num_returns=len(self._ending))
        self._ending = []

    def _end(self, process: _Process) -> None:
        """End a process after its remaining calls."""
        self._ending.append(process.actor.__ray_terminate__.remote())

    def __enter__(self) -> Pool:
        self._check_running()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.terminate()

    def __reduce__(self) -> Any:
        raise NotImplementedError(
            "A pool cannot be passed between processes or pickled: make one where it is used."
        )


def _failed(chunk: _Chunk, error: BaseException) -> Outcome:
    """Return the outcome of a chunk whose items all have one error."""
    return [None] * len(chunk.items), dict.fromkeys(range(len(chunk.items)), error)


def _terminated() -> RuntimeError:
    return RuntimeError("The pool was terminated before this call was made.")


def _checked(chunksize: int) -> int:
    if chunksize < 1:
        raise ValueError(f"chunksize={chunksize!r}: expected 1 or more items.")
    return chunksize


def _connect(processes: int | None, address: str | None) -> int:
    """Start a session if there is none, and return the number of processes of the pool."""
    if current_session.get() is None:
        from raycompat._connect import addresses

        wanted = address or os.environ.get("RAY_ADDRESS")
        if wanted == "local" or (wanted is None and addresses.find(None) is None):
            ray.init("local", num_cpus=processes)
        else:
            ray.init(address)
    num_cpus = int(_api.cluster_resources().get("CPU", 0))
    processes = num_cpus if processes is None else processes
    if processes < 1:
        raise ValueError(f"processes={processes!r}: a pool has 1 process or more (>0).")
    if processes > num_cpus:
        raise ValueError(
            f"processes={processes!r}: the cluster has {num_cpus} CPUs, and a pool has no more "
            "processes than that."
        )
    return processes


#: Names of older Rays.
__getattr__ = names_of(__name__)
