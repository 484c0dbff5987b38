"""Results as they arrive: `as_completed`, and `map_unordered` with a limit of unfinished calls."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from raycompat import _api
from raycompat.object_ref import ObjectRef

__all__ = ["as_completed", "map_unordered"]


def as_completed(
    refs: Sequence[ObjectRef[Any]],
    *,
    chunk_size: int = 10,
    yield_obj_refs: bool = False,
    **kwargs: Any,
) -> Iterator[Any]:
    """Yield the values of references as they become ready.

    Parameters
    ----------
    refs : list of ObjectRef
    chunk_size : int, default 10
        Number of references to wait for at a time, 1 or more; they are yielded in the given order.
    yield_obj_refs : bool, default False
        Yield the references themselves.
    **kwargs
        ``timeout`` in seconds, and ``fetch_local``, for `wait`.

    Raises
    ------
    ValueError
        When `chunk_size` is below 1, or `num_returns` is given.
    Exception
        The error of the first task that failed.

    Examples
    --------
    >>> import raycompat as ray
    >>> sorted(ray.util.as_completed([ray.put(1), ray.put(2)]))
    [1, 2]
    """
    _check(chunk_size, kwargs)
    rest = list(refs)
    while rest:
        ready, rest = _next_chunk(rest, chunk_size, yield_obj_refs, kwargs)
        yield from ready


def map_unordered(
    fn: Any,
    items: Iterable[Any],
    *,
    backpressure_size: int | None = 100,
    chunk_size: int = 10,
    yield_obj_refs: bool = False,
    **kwargs: Any,
) -> Iterator[Any]:
    """Call a remote function for each item, and yield the results as they arrive.

    Parameters
    ----------
    fn : remote function
    items : iterable
        Read as far as calls are allowed.
    backpressure_size : int, default 100
        Maximum number of unfinished calls, 1 or more; None: no limit.
    chunk_size : int, default 10
        Number of results to wait for at a time, 1 or more.
    yield_obj_refs : bool, default False
        Yield the references of the results.
    **kwargs
        ``timeout`` in seconds, and ``fetch_local``, for `wait`.

    Raises
    ------
    ValueError
        When a size is below 1, or `num_returns` is given.
    Exception
        The error of the first call that failed.

    Examples
    --------
    >>> import raycompat as ray
    >>> @ray.remote
    ... def square(x):
    ...     return x * x
    >>> sorted(ray.util.map_unordered(square, [1, 2, 3]))
    [1, 4, 9]
    """
    if backpressure_size is not None and backpressure_size < 1:
        raise ValueError(
            f"backpressure_size={backpressure_size!r} must be positive, or None for no bound."
        )
    _check(chunk_size, kwargs)
    refs: list[ObjectRef[Any]] = []
    for item in items:
        refs.append(fn.remote(item))
        if backpressure_size is not None and len(refs) >= backpressure_size:
            ready, refs = _next_chunk(refs, chunk_size, yield_obj_refs, kwargs)
            yield from ready
    yield from as_completed(refs, chunk_size=chunk_size, yield_obj_refs=yield_obj_refs, **kwargs)


def _check(chunk_size: int, kwargs: dict[str, Any]) -> None:
    if chunk_size < 1:
        raise ValueError(f"chunk_size={chunk_size!r} must be >= 1.")
    if "num_returns" in kwargs:
        raise ValueError("num_returns is called chunk_size here: how many results to wait for.")


def _next_chunk(
    refs: list[ObjectRef[Any]], chunk_size: int, yield_obj_refs: bool, kwargs: dict[str, Any]
) -> tuple[list[Any], list[ObjectRef[Any]]]:
    ready, rest = _api.wait(refs, num_returns=min(chunk_size, len(refs)), **kwargs)
    return (ready if yield_obj_refs else _api.get(ready)), rest
