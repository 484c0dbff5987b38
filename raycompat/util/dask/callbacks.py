"""Functions that are called when a graph's tasks are sent and run."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, ClassVar, NamedTuple

import raycompat as ray
from raycompat._surface.modules import names_of
from raycompat.exceptions import UnsupportedRayFeatureError
from raycompat.util._internal_actors import internal_actor

_NAMES = (
    "ray_presubmit",
    "ray_postsubmit",
    "ray_pretask",
    "ray_posttask",
    "ray_postsubmit_all",
    "ray_finish",
)


class RayDaskCallback:
    """Functions that `ray_dask_get` calls. Give them by name, or override the methods in a subclass.

    It is active in a ``with`` block, from `register` to `unregister`, or where it is passed:
    ``compute(scheduler=ray_dask_get, ray_callbacks=[...])``.

    Parameters
    ----------
    **functions
        ``ray_presubmit(task, key, deps)``: before a call is sent; a result other than None is taken
        in place of the call. ``ray_postsubmit(task, key, deps, object_ref)``: after it was sent.
        ``ray_pretask(key, object_refs)``: in the call, with the values of the arguments.
        ``ray_posttask(key, result, pre_state)``: after it, with what the one before has returned.
        ``ray_postsubmit_all(object_refs, dsk)``: when all were sent. ``ray_finish(result)``: at the
        end.

    Examples
    --------
    >>> import dask.array as da
    >>> from raycompat.util.dask import RayDaskCallback, ray_dask_get
    >>> class Count(RayDaskCallback):
    ...     def _ray_postsubmit_all(self, object_refs, dsk):
    ...         print(f"{len(object_refs)} results, of a graph of {len(dsk)} tasks")
    >>> with Count():
    ...     da.arange(4, chunks=2).sum().compute(scheduler=ray_dask_get).item()
    1 results, of a graph of ... tasks
    6
    >>> with Count() as count:
    ...     RayDaskCallback.ray_active == [count]
    True

    Notes
    -----
    Ray source: ``ray.util.dask.RayDaskCallback``, 2.60.0. Differs from Ray: the functions of
    ``dask.callbacks.Callback`` are refused.
    """

    #: Those that are active, in the order of their begin.
    ray_active: ClassVar[list[RayDaskCallback]] = []

    def __init__(self, **functions: Callable[..., Any]) -> None:
        unknown = [name for name in functions if name not in _NAMES]
        if unknown:
            raise UnsupportedRayFeatureError(
                f"RayDaskCallback({', '.join(unknown)}=...)",
                "graphs do not run in Dask's local scheduler",
                f"the functions are {', '.join(_NAMES)}",
            )
        for name, function in functions.items():
            setattr(self, f"_{name}", function)

    def __enter__(self) -> RayDaskCallback:
        self.register()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.unregister()

    def register(self) -> None:
        """Call it for all graphs from now on.

        Examples
        --------
        >>> from raycompat.util.dask import RayDaskCallback
        >>> from raycompat.util.dask.callbacks import active_callbacks
        >>> callback = RayDaskCallback(ray_finish=lambda result: print("finished"))
        >>> callback.register()
        >>> len(active_callbacks())
        1
        >>> callback.unregister()
        """
        RayDaskCallback.ray_active.append(self)

    def unregister(self) -> None:
        """Do not call it any more."""
        RayDaskCallback.ray_active.remove(self)

    def _ray_presubmit(self, task: Any, key: Any, deps: dict[Any, Any]) -> Any:
        return None

    def _ray_postsubmit(self, task: Any, key: Any, deps: dict[Any, Any], object_ref: Any) -> None:
        pass

    def _ray_pretask(self, key: Any, object_refs: list[Any]) -> Any:
        return None

    def _ray_posttask(self, key: Any, result: Any, pre_state: Any) -> None:
        pass

    def _ray_postsubmit_all(self, object_refs: list[Any], dsk: Any) -> None:
        pass

    def _ray_finish(self, result: Any) -> None:
        pass


def active_callbacks() -> list[RayDaskCallback]:
    """Return those that are active now.

    Examples
    --------
    >>> from raycompat.util.dask.callbacks import active_callbacks
    >>> active_callbacks()
    []
    >>> with Count():
    ...     len(active_callbacks())
    1
    """
    return list(RayDaskCallback.ray_active)


class RayCallbacks(NamedTuple):
    """The functions of several callbacks, by kind, in the order of the callbacks.

    Examples
    --------
    >>> from raycompat.util.dask import RayDaskCallback, unpack_ray_callbacks
    >>> functions = unpack_ray_callbacks(
    ...     [RayDaskCallback(ray_pretask=print), RayDaskCallback(ray_pretask=repr)]
    ... )
    >>> functions.ray_pretask_cbs
    [<built-in function print>, <built-in function repr>]
    >>> len(functions.ray_presubmit_cbs), len(functions.ray_postsubmit_cbs)
    (2, 2)
    >>> len(functions.ray_posttask_cbs), len(functions.ray_postsubmit_all_cbs)
    (2, 2)
    >>> len(functions.ray_finish_cbs)
    2
    """

    ray_presubmit_cbs: Sequence[Callable[..., Any]]
    ray_postsubmit_cbs: Sequence[Callable[..., Any]]
    ray_pretask_cbs: Sequence[Callable[..., Any]]
    ray_posttask_cbs: Sequence[Callable[..., Any]]
    ray_postsubmit_all_cbs: Sequence[Callable[..., Any]]
    ray_finish_cbs: Sequence[Callable[..., Any]]


def unpack_ray_callbacks(cbs: Iterable[RayDaskCallback] | None) -> RayCallbacks:
    """Return the functions of callbacks by kind, for programs with their own scheduler.

    Examples
    --------
    >>> from raycompat.util.dask import RayDaskCallback, unpack_ray_callbacks
    >>> functions = unpack_ray_callbacks([RayDaskCallback(ray_finish=print)])
    >>> functions.ray_finish_cbs
    [<built-in function print>]

    Notes
    -----
    Ray source: ``ray.util.dask.unpack_ray_callbacks``, 2.60.0. Differs from Ray: it takes
    `RayDaskCallback` objects, not named tuples of their functions.
    """
    callbacks = list(cbs or ())
    return RayCallbacks(*([getattr(each, f"_{name}") for each in callbacks] for name in _NAMES))


@contextlib.contextmanager
def local_ray_callbacks(
    callbacks: list[RayDaskCallback] | None = None,
) -> Iterator[list[RayDaskCallback]]:
    """Yield the callbacks, or the active ones; these are not active inside.

    Examples
    --------
    >>> from raycompat.util.dask import local_ray_callbacks, RayDaskCallback
    >>> with RayDaskCallback(ray_finish=print), local_ray_callbacks() as found:
    ...     len(found)
    1

    Notes
    -----
    Ray source: ``ray.util.dask.local_ray_callbacks``, 2.60.0. No known difference.
    """
    if callbacks is not None:
        yield callbacks
        return
    active = active_callbacks()
    RayDaskCallback.ray_active.clear()
    try:
        yield active
    finally:
        RayDaskCallback.ray_active[:] = active


class _Times:
    """When the tasks of graphs were sent, began and ended."""

    def __init__(self) -> None:
        self._times: dict[Any, dict[str, float]] = {}

    def note(self, key: Any, what: str, time_s: float) -> None:
        self._times.setdefault(key, {})[what] = time_s

    def result(self) -> tuple[int, int]:
        return len(self._times), sum("finished" in times for times in self._times.values())

    def report(self) -> dict[Any, Any]:
        found: dict[Any, Any] = {
            key: {
                "execution_time": times["finished"] - times["scheduled"],
                "scheduling_time": times["scheduled"] - times["submitted"],
            }
            for key, times in self._times.items()
            if len(times) == 3
        }
        sent = [(key, times["submitted"]) for key, times in self._times.items()]
        found["submission_order"] = sorted(sent, key=lambda each: each[1])
        return found


class ProgressBarCallback(RayDaskCallback):
    """Keep when the tasks of graphs are sent, begin and end.

    Its actor `pb` has ``result()``, the numbers of tasks sent and ended, and ``report()``, the seconds
    of each. The option ``_ray_enable_progress_bar=True`` of `ray_dask_get` shows a bar.

    Examples
    --------
    >>> import dask.array as da
    >>> from raycompat.util.dask import ProgressBarCallback, ray_dask_get
    >>> with ProgressBarCallback():
    ...     da.arange(4, chunks=2).sum().compute(scheduler=ray_dask_get).item()
    6

    Notes
    -----
    Ray source: ``ray.util.dask.ProgressBarCallback``, 2.60.0. Differs from Ray: each has its own actor.
    """

    def __init__(self) -> None:
        super().__init__()
        self.pb: Any = internal_actor(_Times).options(num_cpus=0).remote()

    def _ray_postsubmit(self, task: Any, key: Any, deps: dict[Any, Any], object_ref: Any) -> None:
        self.pb.note.remote(key, "submitted", time.time())

    def _ray_pretask(self, key: Any, object_refs: list[Any]) -> Any:
        self.pb.note.remote(key, "scheduled", time.time())

    def _ray_posttask(self, key: Any, result: Any, pre_state: Any) -> None:
        ray.get(self.pb.note.remote(key, "finished", time.time()))


#: Names of older Rays.
__getattr__ = names_of(__name__)
