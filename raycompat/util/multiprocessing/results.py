"""The results of asynchronous calls of a `Pool`: `AsyncResult`, and the iterators of `imap`."""

from __future__ import annotations

import itertools
import logging
import multiprocessing
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

from raycompat._host import clock

if TYPE_CHECKING:
    from raycompat.util.multiprocessing.pool_process import Function, Outcome

logger = logging.getLogger(__name__)


class AsyncResult:
    """The result of an asynchronous call of a pool, such as `Pool.apply_async`.

    Examples
    --------
    >>> from raycompat.util.multiprocessing import Pool
    >>> with Pool(2) as pool:
    ...     result = pool.apply_async(divmod, (7, 2))
    ...     result.wait(timeout=30)
    ...     result.ready(), result.successful(), result.get()
    (True, True, (3, 1))

    Notes
    -----
    Ray source: ``ray.util.multiprocessing.pool.AsyncResult``, 2.60.0. Differs from Ray: an
    `error_callback` gets the function's own error, as in Python, and not a wrapper of it.
    """

    def __init__(
        self,
        num_chunks: int,
        callback: Callable[[Any], Any] | None,
        error_callback: Callable[[BaseException], Any] | None,
        *,
        single: bool = False,
    ) -> None:
        self._chunks: list[Outcome | None] = [None] * num_chunks
        self._num_missing = num_chunks
        self._callback, self._error_callback = callback, error_callback
        self._single = single
        self._lock = threading.Lock()
        self._done = threading.Event()
        self._value: Any = None
        self._error: BaseException | None = None
        if not num_chunks:
            self._finish()

    def accept(self, index: int, outcome: Outcome) -> None:
        """Store the outcome of a chunk. Called from any thread."""
        with self._lock:
            self._chunks[index] = outcome
            self._num_missing -= 1
            if self._num_missing:
                return
        self._finish()

    def _finish(self) -> None:
        outcomes = [outcome for outcome in self._chunks if outcome is not None]
        for _, errors in outcomes:
            if errors:
                self._error = errors[min(errors)]
                break
        else:
            values = list(itertools.chain.from_iterable(values for values, _ in outcomes))
            self._value = values[0] if self._single else values
        self._chunks = []
        callback, argument = self._callback, self._value
        if self._error is not None:
            callback, argument = self._error_callback, self._error
        self._callback = self._error_callback = None
        try:
            if callback is not None:
                callback(argument)
        except Exception:
            logger.exception("The callback %r of a call of a pool has raised.", callback)
        finally:
            self._done.set()

    def get(self, timeout: float | None = None) -> Any:
        """Wait for the result and return it.

        Parameters
        ----------
        timeout : float, optional
            Maximum seconds to wait.

        Raises
        ------
        multiprocessing.TimeoutError
            When the result is not ready in time.
        Exception
            The error of the function: the first in the order of the items.
        """
        if not self._done.wait(timeout):
            raise multiprocessing.TimeoutError
        if self._error is not None:
            raise self._error
        return self._value

    def wait(self, timeout: float | None = None) -> None:
        """Wait until the result is ready, for at most `timeout` seconds."""
        self._done.wait(timeout)

    def ready(self) -> bool:
        """Return whether the result is ready."""
        return self._done.is_set()

    def successful(self) -> bool:
        """Return whether the call ended without an error.

        Raises
        ------
        ValueError
            When the call has not ended.

        Examples
        --------
        >>> from raycompat.util.multiprocessing import Pool
        >>> with Pool(1) as pool:
        ...     result = pool.apply_async(int, ("twelve",))
        ...     result.wait(timeout=10)
        ...     result.ready(), result.successful()
        (True, False)
        """
        if not self.ready():
            raise ValueError(f"{self!r} not ready: call wait() first.")
        return self._error is None


class IMapIterator(Iterator[Any]):
    """The results of `Pool.imap` and `Pool.imap_unordered`, as they arrive.

    A pool of n processes has n unread chunks. Each chunk that is read makes room for one more, so that
    a large iterable is read only as far as needed.

    Examples
    --------
    >>> from raycompat.util.multiprocessing import Pool
    >>> with Pool(2) as pool:
    ...     results = pool.imap(abs, [-1, 2, -3])
    ...     results.next(timeout=30), list(results)
    (1, [2, 3])
    """

    def __init__(
        self,
        submit: Callable[[Function, list[Any], Callable[[Outcome], None]], None],
        num_processes: int,
        function: Function,
        iterable: Iterable[Any],
        chunk_size: int,
        *,
        ordered: bool,
    ) -> None:
        self._submit, self._function = submit, function
        self._items = iter(iterable)
        self._chunk_size = chunk_size
        self._ordered = ordered
        self._changed = threading.Condition()
        self._outcomes: dict[int, Outcome] = {}
        self._num_sent = self._num_read = 0
        self._exhausted = False
        self._ready: deque[tuple[Any, BaseException | None]] = deque()
        for _ in range(num_processes):
            self._send()

    def _send(self) -> None:
        if self._exhausted:
            return
        chunk = list(itertools.islice(self._items, self._chunk_size))
        self._exhausted = len(chunk) < self._chunk_size
        if chunk:
            number, self._num_sent = self._num_sent, self._num_sent + 1

            def accept(outcome: Outcome) -> None:
                with self._changed:
                    self._outcomes[number] = outcome
                    self._changed.notify_all()

            self._submit(self._function, chunk, accept)

    def next(self, timeout: float | None = None) -> Any:
        """Return the next result.

        Parameters
        ----------
        timeout : float, optional
            Maximum seconds to wait.

        Raises
        ------
        StopIteration
            After the last result.
        multiprocessing.TimeoutError
            When the result is not ready in time.
        Exception
            The error of the function for this item; the iteration can continue.
        """
        if not self._ready:
            self._read_chunk(timeout)
        value, error = self._ready.popleft()
        if error is not None:
            raise error
        return value

    __next__ = next  # noqa: A003

    def _read_chunk(self, timeout: float | None) -> None:
        if self._num_read == self._num_sent:
            raise StopIteration
        deadline = None if timeout is None else clock.monotonic() + timeout
        with self._changed:
            while (number := self._readable()) is None:
                left = None if deadline is None else deadline - clock.monotonic()
                if left is not None and left <= 0:
                    raise multiprocessing.TimeoutError
                self._changed.wait(left)
            values, errors = self._outcomes.pop(number)
        self._num_read += 1
        self._ready.extend((value, errors.get(index)) for index, value in enumerate(values))
        self._send()

    def _readable(self) -> int | None:
        """Return the number of a chunk that may be read now."""
        if not self._ordered:
            return next(iter(self._outcomes), None)
        return self._num_read if self._num_read in self._outcomes else None
