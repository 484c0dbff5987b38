"""The processes of functions: tasks, or a pool of actors that construct a class once."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import raycompat as ray
from raycompat._surface import forms
from raycompat.data.block import Bundle
from raycompat.data.operators import MapOperator, Task
from raycompat.data.tasks import TaskOutput
from raycompat.exceptions import UnsupportedRayFeatureError

if TYPE_CHECKING:
    from raycompat.actor import ActorHandle

#: Default number of calls at an actor: one runs, and one waits.
_IN_FLIGHT = 2

#: Seconds until the resources of the cluster are looked at again for a pool that does not fit.
_ROOM_S = 1.0


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
    max_concurrent_calls_per_actor, enable_true_multi_threading
        Not supported.

    Raises
    ------
    ValueError
        When the numbers contradict each other.

    Examples
    --------
    >>> class Add:
    ...     def __init__(self, amount):
    ...         self.amount = amount
    ...
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

    @forms.takes_positions(
        "ray.data.ActorPoolStrategy",
        dict.fromkeys(
            ("min_size", "max_size", "max_tasks_in_flight_per_actor"), forms.COUNT_OR_NONE
        ),
        "Name the options: ActorPoolStrategy(min_size=2, max_size=4).",
        "ray.data.ActorPoolStrategy with sizes by position",
    )
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

    def __repr__(self) -> str:
        return (
            f"ActorPoolStrategy({', '.join(f'{name}={each}' for name, each in vars(self).items())})"
        )

    __hash__ = None  # type: ignore[assignment]


def _check_count(name: str, value: int | None) -> None:
    if value is None:
        return
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise ValueError(f"{name}={value!r} is not a number of 1 or more.")


#: How functions run, as a user gives it: a pool, or "tasks" or "actors" for a usual one.
Compute: TypeAlias = "TaskPoolStrategy | ActorPoolStrategy | str"

#: The most tasks or actors at a time, as a user gives it: a number, or of actors the least, the most
#: and perhaps those to begin with.
Concurrency: TypeAlias = "int | tuple[int, int] | tuple[int, int, int]"


def strategy(
    compute: Compute | None, concurrency: Concurrency | None, is_class: bool
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


def _given(compute: Compute, is_class: bool) -> TaskPoolStrategy | ActorPoolStrategy:
    if compute == "tasks":
        compute = TaskPoolStrategy()
    elif compute == "actors":
        compute = ActorPoolStrategy()
    if not isinstance(compute, TaskPoolStrategy | ActorPoolStrategy):
        raise ValueError(
            f"compute={compute!r} should be a TaskPoolStrategy or an ActorPoolStrategy."
        )
    if not is_class and isinstance(compute, ActorPoolStrategy):
        raise ValueError(
            f"compute={compute!r} is for classes, whose instances actors keep. For a function leave it "
            "out or give a TaskPoolStrategy, or make a class with __call__ of it."
        )
    if is_class and isinstance(compute, TaskPoolStrategy):
        raise ValueError(
            "A class runs in actors, which keep its instances: give an ActorPoolStrategy, or a "
            "function for a TaskPoolStrategy."
        )
    return compute


@dataclass
class _Worker:
    handle: ActorHandle[Any]
    num_running: int = 0
    #: Whether it may get calls: those that are added later may have to wait for resources.
    is_ready: bool = True


class ActorMapOperator(MapOperator):
    """Gives each task to the actor of a pool that has least to do.

    When all actors are busy, one more is started, which gets calls when it has begun. So no call waits
    for an actor for which there is no room now.

    Parameters
    ----------
    name : str
        Name of the operator.
    start : callable
        Starts an actor.
    pool : ActorPoolStrategy
        Numbers of actors and of calls.
    room : callable
        Returns for how many actors there are resources now. The pool does not grow to more.
    min_rows : int
        Rows that a call should have at least.
    """

    def __init__(
        self,
        name: str,
        start: Callable[[], ActorHandle[Any]],
        pool: ActorPoolStrategy,
        room: Callable[[], float],
        min_rows: int = 1,
    ) -> None:
        super().__init__(name, _no_submission, cpus=0.0, min_rows=min_rows)
        self._start = start
        self._pool = pool
        self._room = room
        self._room_asked_at = -math.inf
        self._has_room = False
        self._in_flight = pool.max_tasks_in_flight_per_actor or _IN_FLIGHT
        self._workers: list[_Worker] = []

    def has_task(self) -> bool:
        """Whether bundles wait, and an actor takes one."""
        if not self._groups:
            return False
        return not self._workers or any(
            each.is_ready and each.num_running < self._in_flight for each in self._workers
        )

    def next_task(self) -> Task:
        """Return the task for the next bundles, and the actor for it."""
        while len(self._workers) < self._pool.initial_size:
            self._workers.append(_Worker(self._start()))
        ready = [each for each in self._workers if each.is_ready]
        worker = min(ready, key=lambda each: each.num_running)
        if worker.num_running and len(ready) == len(self._workers) and self._may_grow():
            self._grow()
        group, slot = self._groups.popleft(), self._slot()
        worker.num_running += 1
        refs = [bundle.ref for bundle in group]
        handle = worker.handle
        return Task(lambda: handle.map_blocks.remote(slot, *refs), group, slot, on_worker=worker)

    def _may_grow(self) -> bool:
        if len(self._workers) >= self._pool.max_size:
            return False
        now = time.monotonic()
        if now - self._room_asked_at > _ROOM_S:
            self._room_asked_at = now
            self._has_room = len(self._workers) < self._room()
        return self._has_room

    def _grow(self) -> None:
        worker = _Worker(self._start(), is_ready=False)
        self._workers.append(worker)
        self._room_asked_at = -math.inf

        def begun(_: object) -> None:  # or it has failed: then its first call says why
            worker.is_ready = True
            self.wake()

        worker.handle.__ray_ready__.remote().future().add_done_callback(begun)

    def end_task(self, task: Task, output: TaskOutput) -> None:
        """Record an end; the actor can take another call."""
        task.on_worker.num_running -= 1
        super().end_task(task, output)

    def release(self) -> None:
        """Release the actors, which then end."""
        for worker in self._workers:
            if not worker.is_ready:
                ray.kill(worker.handle)  # it would wait for resources that nothing needs
        self._workers.clear()


def room_for_actors(options: Mapping[str, Any]) -> float:
    """Return for how many actors with these options the cluster has CPUs and GPUs."""
    num_gpus: float = options.get("num_gpus", 0)
    num_cpus: float = options.get("num_cpus", 0 if num_gpus else 1)
    resources = ray.cluster_resources()
    if num_cpus and "num_cpus" in options:  # the actors keep them, and the tasks before need one
        resources["CPU"] = resources.get("CPU", 0) - 1
    needs = {"CPU": num_cpus, "GPU": num_gpus}
    if not num_cpus and not num_gpus:
        needs["CPU"] = 1  # more processes than CPUs would be no faster
    return min(
        math.floor(resources.get(name, 0) / amount + 1e-9)
        for name, amount in needs.items()
        if amount
    )


def _no_submission(slot: int, group: list[Bundle]) -> Sequence[Any]:
    raise NotImplementedError
