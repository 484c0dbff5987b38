"""The processes of functions: tasks, or a pool of actors that construct a class once."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import raycompat as ray
from raycompat.data.block import Bundle
from raycompat.data.operators import MapOperator, Task
from raycompat.data.tasks import TaskOutput
from raycompat.exceptions import UnsupportedRayFeatureError

#: Default number of calls at an actor: one runs, and one waits.
_IN_FLIGHT = 2


@dataclass(frozen=True)
class TaskPoolStrategy:
    """Runs a function in tasks.

    Parameters
    ----------
    size : int, optional
        Maximum number of concurrent tasks, 1 or more. Default: the number of CPUs.

    Examples
    --------
    >>> one_at_a_time = ray.data.TaskPoolStrategy(size=1)
    >>> ray.data.range(4).map(lambda row: row, compute=one_at_a_time).count()
    4

    Notes
    -----
    Ray source: ``ray.data.TaskPoolStrategy``, 2.60.0. No known difference.
    """

    size: int | None = None

    def __post_init__(self) -> None:
        _check_count("size", self.size)


class ActorPoolStrategy:
    """Runs a class in a pool of actors, which grows while calls wait.

    Parameters
    ----------
    size : int, optional
        Number of actors, for a pool that does not grow.
    min_size, max_size : int, optional
        Actors at first and at most. Default: 1 and no limit. The pool grows while calls wait and the
        cluster has the CPUs and GPUs of one more actor; an actor takes 1 CPU by default.
    initial_size : int, optional
        Number of actors at the start. Default: `min_size`.
    max_tasks_in_flight_per_actor : int, optional
        Maximum number of calls at one actor, including those that wait. Default: 2.

    Raises
    ------
    ValueError
        When the numbers contradict each other.

    Examples
    --------
    >>> class Add:
    ...     def __init__(self, amount):
    ...         self.amount = amount
    ...     def __call__(self, batch):
    ...         return {"id": batch["id"] + self.amount}
    >>> numbers = ray.data.range(4).map_batches(
    ...     Add,
    ...     fn_constructor_args=(10,),
    ...     compute=ray.data.ActorPoolStrategy(min_size=1, max_size=2),
    ... )
    >>> numbers.sum("id")
    46

    Notes
    -----
    Ray source: ``ray.data.ActorPoolStrategy``, 2.60.0. Differs from Ray: an actor runs one call at a
    time.
    """

    def __init__(
        self,
        *,
        size: int | None = None,
        min_size: int | None = None,
        max_size: int | None = None,
        initial_size: int | None = None,
        max_tasks_in_flight_per_actor: int | None = None,
        max_concurrent_calls_per_actor: int | None = None,
        enable_true_multi_threading: bool | None = None,
    ) -> None:
        if max_concurrent_calls_per_actor not in (None, 1) or enable_true_multi_threading:
            raise UnsupportedRayFeatureError(
                "ActorPoolStrategy with max_concurrent_calls_per_actor or true multi-threading",
                "an actor of a pool runs one call at a time",
                "give the pool more actors",
            )
        for name, value in [
            ("size", size),
            ("min_size", min_size),
            ("max_size", max_size),
            ("initial_size", initial_size),
            ("max_tasks_in_flight_per_actor", max_tasks_in_flight_per_actor),
        ]:
            _check_count(name, value)
        if size is not None:
            if (min_size, max_size, initial_size) != (None, None, None):
                raise ValueError(
                    f"size={size} is for a pool that does not grow: leave out min_size, max_size and "
                    "initial_size, or leave out size."
                )
            min_size = max_size = initial_size = size
        self.min_size = min_size or 1
        self.max_size = max_size if max_size is not None else float("inf")
        self.initial_size = initial_size or self.min_size
        self.max_tasks_in_flight_per_actor = max_tasks_in_flight_per_actor
        if not self.min_size <= self.initial_size <= self.max_size:
            raise ValueError(
                f"min_size={self.min_size}, initial_size={self.initial_size}, "
                f"max_size={self.max_size} are not in order: give min_size <= initial_size <= max_size."
            )

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ActorPoolStrategy) and vars(self) == vars(other)

    __hash__ = None  # type: ignore[assignment]


def _check_count(name: str, value: int | None) -> None:
    if value is None:
        return
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise ValueError(f"{name}={value!r} is not a number of 1 or more.")


def strategy(
    compute: Any, concurrency: Any, is_class: bool
) -> TaskPoolStrategy | ActorPoolStrategy:
    """Return the pool or tasks for a function, from Ray's arguments `compute` and `concurrency`.

    Raises
    ------
    ValueError
        When they do not fit together, or do not fit the function.
    """
    if compute is not None:
        return _given(compute, is_class)
    if isinstance(concurrency, tuple | list):
        if not is_class:
            raise ValueError(
                f"concurrency={concurrency!r} is for classes, which run in a pool that grows. For a "
                "function give one number."
            )
        if len(concurrency) not in (2, 3):
            raise ValueError(
                f"concurrency={concurrency!r} should be (least, most) or (least, most, first)."
            )
        initial = concurrency[2] if len(concurrency) == 3 else None
        return ActorPoolStrategy(
            min_size=concurrency[0], max_size=concurrency[1], initial_size=initial
        )
    _check_count("concurrency", concurrency)
    if is_class:
        return ActorPoolStrategy(size=concurrency) if concurrency else ActorPoolStrategy()
    return TaskPoolStrategy(concurrency)


def _given(compute: Any, is_class: bool) -> TaskPoolStrategy | ActorPoolStrategy:
    if compute == "tasks":
        compute = TaskPoolStrategy()
    elif compute == "actors":
        compute = ActorPoolStrategy()
    if not isinstance(compute, TaskPoolStrategy | ActorPoolStrategy):
        raise ValueError(
            f"compute={compute!r} should be a TaskPoolStrategy or an ActorPoolStrategy."
        )
    if is_class and isinstance(compute, TaskPoolStrategy):
        raise ValueError(
            "A class runs in actors, which keep its instances: give an ActorPoolStrategy, or a "
            "function for a TaskPoolStrategy."
        )
    return compute


@dataclass
class _Worker:
    handle: Any
    num_running: int = 0


class ActorMapOperator(MapOperator):
    """Gives each task to the actor of a pool that has least to do.

    Parameters
    ----------
    name : str
        Name of the operator.
    start : callable
        Starts an actor.
    pool : ActorPoolStrategy
        Numbers of actors and of calls.
    room : float
        For how many actors there are resources. The pool does not grow to more.
    min_rows : int
        Rows that a call should have at least.
    """

    def __init__(
        self,
        name: str,
        start: Callable[[], Any],
        pool: ActorPoolStrategy,
        room: float,
        min_rows: int = 1,
    ) -> None:
        super().__init__(name, _no_submission, cpus=0.0, min_rows=min_rows)
        self._start = start
        self._pool = pool
        self._most = min(pool.max_size, max(pool.initial_size, room))
        self._in_flight = pool.max_tasks_in_flight_per_actor or _IN_FLIGHT
        self._workers: list[_Worker] = []

    def has_task(self) -> bool:
        """Whether bundles wait, and an actor has room or may be started."""
        if not self._groups:
            return False
        may_grow = len(self._workers) < self._most
        return may_grow or any(each.num_running < self._in_flight for each in self._workers)

    def next_task(self) -> Task:
        """Return the task for the next bundles, and the actor for it."""
        while len(self._workers) < self._pool.initial_size:
            self._workers.append(_Worker(self._start()))
        worker = min(self._workers, key=lambda each: each.num_running)
        if worker.num_running and len(self._workers) < self._most:
            worker = _Worker(self._start())
            self._workers.append(worker)
        group, slot = self._groups.popleft(), self._slot()
        worker.num_running += 1
        refs = [bundle.ref for bundle in group]
        handle = worker.handle
        return Task(lambda: handle.map_blocks.remote(slot, *refs), group, slot, on_worker=worker)

    def end_task(self, task: Task, output: TaskOutput) -> None:
        """Record an end; the actor can take another call."""
        task.on_worker.num_running -= 1
        super().end_task(task, output)

    def release(self) -> None:
        """Release the actors, which then end."""
        self._workers.clear()


def room_for_actors(options: Mapping[str, Any]) -> float:
    """Return for how many actors with these options the cluster has CPUs and GPUs."""
    num_gpus = options.get("num_gpus", 0)
    needs = {"CPU": options.get("num_cpus", 0 if num_gpus else 1), "GPU": num_gpus}
    resources = ray.cluster_resources()
    if "num_cpus" in options:  # the actors keep these CPUs, and the tasks before them need one
        resources["CPU"] = resources.get("CPU", 0) - 1
    return min(
        (resources.get(name, 0) // amount for name, amount in needs.items() if amount),
        default=float("inf"),
    )


def _no_submission(slot: int, group: list[Bundle]) -> Sequence[Any]:
    raise NotImplementedError
