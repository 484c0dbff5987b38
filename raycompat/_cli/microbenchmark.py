"""The lines that ``raycompat microbenchmark`` and ``benchmarks/microbenchmark.py`` measure.

They take the implementation as an argument and this module imports none, so real Ray runs it too.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from functools import partial
from types import SimpleNamespace
from typing import Any

#: Bytes of an object that is put, and of an argument.
ARRAY_BYTES, ARGUMENT_BYTES = 100 * 1024 * 1024, 100 * 1024


def rate(work: Callable[[], object], at_least_s: float = 1.5) -> float:
    """Return how often `work` is done per second, after one run to warm up."""
    work()
    done, start = 0, time.perf_counter()
    while time.perf_counter() - start < at_least_s:
        work()
        done += 1
    return done / (time.perf_counter() - start)


#: Calls of one batch: by one caller, and by each of several callers.
MANY, MANY_OF_EACH = 1000, 5000

#: References in one object.
MANY_REFS = 10_000

#: Measured first and once, in memory that was never used before: a second round would be different.
COLD_PUT = "single client put gigabytes cold (GB)"

#: Callers in the n:n lines, and leaves of the binary tree of tasks.
NUM_CALLERS, NUM_LEAVES = 4, 512


def define(ray: Any) -> SimpleNamespace:
    """Return the remote functions and classes that are measured."""

    @ray.remote
    def small_value() -> bytes:
        return b"ok"

    @ray.remote
    class Actor:
        def small_value(self) -> bytes:
            return b"ok"

        def small_value_arg(self, _: Any) -> bytes:
            return b"ok"

    @ray.remote
    class AsyncActor:
        async def small_value(self) -> bytes:
            return b"ok"

        async def small_value_with_arg(self, _: Any) -> bytes:
            return b"ok"

    @ray.remote(num_cpus=0)
    class Client:
        def __init__(self, actors: list[Any]) -> None:
            self.actors = actors

        def small_value_batch(self, number: int) -> None:
            ray.get([actor.small_value.remote() for actor in self.actors for _ in range(number)])

        def small_value_batch_arg(self, number: int) -> None:
            value = ray.put(0)
            refs = [a.small_value_arg.remote(value) for a in self.actors for _ in range(number)]
            ray.get(refs)

    @ray.remote(num_cpus=0)
    def work(actors: list[Any], number: int) -> None:
        ray.get([actors[i % len(actors)].small_value.remote() for i in range(number)])

    return SimpleNamespace(**{k: v for k, v in locals().items() if k != "ray"})


def define_about_tasks(ray: Any, small_value: Any) -> SimpleNamespace:
    """Return the remote functions for the lines about tasks that call or wait for each other."""

    @ray.remote
    def one_more(value: int) -> int:
        return value + 1

    @ray.remote
    def add(left: int, right: int) -> int:
        return left + right

    @ray.remote
    def nested(number: int) -> int:
        return len(ray.get([small_value.remote() for _ in range(number)]))

    @ray.remote(num_cpus=0)
    class Driver:
        def small_tasks(self, number: int) -> None:
            ray.get([small_value.remote() for _ in range(number)])

    return SimpleNamespace(**{k: v for k, v in locals().items() if k not in ("ray", "small_value")})


def define_about_objects(ray: Any) -> SimpleNamespace:
    """Return the remote functions for the lines about objects."""
    import numpy as np

    @ray.remote
    def create_object_containing_ref() -> list[Any]:
        return [ray.put(1) for _ in range(MANY_REFS)]

    @ray.remote
    def make_large() -> Any:
        return np.ones(ARRAY_BYTES, dtype=np.uint8)

    @ray.remote
    def read_large(array: Any) -> int:
        return int(array[0]) + int(array.nbytes)

    return SimpleNamespace(**{k: v for k, v in locals().items() if k not in ("ray", "np")})


def lines(ray: Any) -> Iterator[tuple[str, Callable[[], object], int]]:
    """Yield each line: its name (Ray's, if Ray has it), the work, and the units of one run."""
    import numpy as np

    remote = define(ray)
    small_value = remote.small_value
    yield "single client tasks sync", lambda: ray.get(small_value.remote()), 1
    yield "single client tasks async", lambda: ray.get(refs(small_value, MANY)), MANY
    yield from lines_about_tasks(ray, small_value)

    actor = remote.Actor.remote()
    yield "1:1 actor calls sync", lambda: ray.get(actor.small_value.remote()), 1
    yield "1:1 actor calls async", lambda: ray.get(refs(actor.small_value, MANY)), MANY
    threaded = remote.Actor.options(max_concurrency=16).remote()
    yield "1:1 actor calls concurrent", lambda: ray.get(refs(threaded.small_value, MANY)), MANY
    client = remote.Client.remote([actor])
    batch = client.small_value_batch
    yield "1:n actor calls async", lambda: ray.get(batch.remote(MANY_OF_EACH)), MANY_OF_EACH
    number = NUM_CALLERS * MANY_OF_EACH
    yield "n:n actor calls async", lambda: ray.get(_work(remote.work, [actor])), number
    batch_arg = client.small_value_batch_arg
    yield "n:n actor calls with arg async", lambda: ray.get(batch_arg.remote(MANY)), MANY

    array = np.zeros(ARGUMENT_BYTES, dtype=np.uint8)
    with_array = actor.small_value_arg
    yield "actor calls with 100 KB sync", lambda: ray.get(with_array.remote(array)), 1
    yield "actor calls with 100 KB async", lambda: ray.get(refs(with_array, 200, array)), 200

    loop = remote.AsyncActor.remote()
    yield "1:1 async-actor calls sync", lambda: ray.get(loop.small_value.remote()), 1
    yield "1:1 async-actor calls async", lambda: ray.get(refs(loop.small_value, MANY)), MANY
    with_arg = loop.small_value_with_arg
    yield "1:1 async-actor calls with args async", lambda: ray.get(refs(with_arg, MANY, 1)), MANY
    loops = remote.Client.remote([loop]).small_value_batch
    yield "1:n async-actor calls async", lambda: ray.get(loops.remote(MANY_OF_EACH)), MANY_OF_EACH
    yield "n:n async-actor calls async", lambda: ray.get(_work(remote.work, [loop])), number

    make = remote.Actor.remote
    yield "actor made and called", lambda: ray.get(make().small_value.remote()), 1
    yield "16 actors made and called at once", lambda: _make_and_call(ray, make, 16), 16

    yield from lines_about_objects(ray, small_value)


def lines_about_tasks(
    ray: Any, small_value: Any
) -> Iterator[tuple[str, Callable[[], object], int]]:
    """Yield the lines about tasks that depend on each other."""
    remote = define_about_tasks(ray, small_value)
    yield "tasks chained", lambda: ray.get(chain(remote.one_more)), MANY
    yield "tree of tasks", lambda: ray.get(tree(remote)), 2 * NUM_LEAVES - 1
    yield "nested tasks", lambda: ray.get(remote.nested.remote(MANY)), MANY
    drivers = [remote.Driver.remote() for _ in range(NUM_CALLERS)]

    def small_tasks() -> object:
        return ray.get([driver.small_tasks.remote(MANY) for driver in drivers])

    yield "multi client tasks async", small_tasks, NUM_CALLERS * MANY


def lines_about_objects(
    ray: Any, small_value: Any
) -> Iterator[tuple[str, Callable[[], object], int]]:
    """Yield the lines about values that are stored, passed and read."""
    remote = define_about_objects(ray)
    small, large = ray.put(0), large_array()
    yield "single client get calls", lambda: [ray.get(small) for _ in range(100)], 100
    yield "single client put calls", lambda: [ray.put(0) for _ in range(100)], 100
    yield "single client put gigabytes (GB)", lambda: ray.put(large), 1
    make, read = remote.make_large, remote.read_large
    yield "100 MB task to task (GB)", lambda: ray.get(read.remote(make.remote())), 1
    put = ray.put(large)
    yield "tasks reading 100 MB", lambda: ray.get(read.remote(put)), 1

    containing_refs = "single client get object containing 10k refs"
    # This reference is the only one, so the object is gone before the next line.
    yield containing_refs, partial(ray.get, remote.create_object_containing_ref.remote()), 1
    yield "single client wait 1k refs", lambda: _wait_one_by_one(ray, small_value), 1


def large_array() -> Any:
    """Return the array to put; its memory is already in use."""
    import numpy as np

    return np.ones(ARRAY_BYTES, dtype=np.uint8)


def cold_put(ray: Any) -> float:
    """Return how many GB/s the first large `put` of this driver reaches."""
    large = large_array()
    start = time.perf_counter()
    ray.put(large)
    return ARRAY_BYTES / 1e9 / (time.perf_counter() - start)


def refs(function: Any, number: int, *arguments: Any) -> list[Any]:
    """Return the references of `number` calls."""
    return [function.remote(*arguments) for _ in range(number)]


def _wait_one_by_one(ray: Any, function: Any) -> None:
    waiting = refs(function, MANY)
    for number in range(MANY):
        # As in Ray's benchmark: the first call fetches all of them.
        _, waiting = ray.wait(waiting, fetch_local=number == 0)


def _work(work: Any, actors: list[Any]) -> list[Any]:
    return [work.remote(actors, MANY_OF_EACH) for _ in range(NUM_CALLERS)]


def chain(function: Any) -> Any:
    """Return the last reference of a chain of calls, each with the result of the one before."""
    ref = function.remote(0)
    for _ in range(MANY - 1):
        ref = function.remote(ref)
    return ref


def tree(remote: Any) -> Any:
    """Return the root of a binary tree of calls."""
    level = [remote.one_more.remote(0) for _ in range(NUM_LEAVES)]
    while len(level) > 1:
        level = [remote.add.remote(*pair) for pair in zip(level[::2], level[1::2], strict=True)]
    return level[0]


def _make_and_call(ray: Any, make: Callable[[], Any], number: int) -> None:
    actors = [make() for _ in range(number)]
    ray.get([actor.small_value.remote() for actor in actors])


def measured(
    lines: Iterator[tuple[str, Callable[[], object], int]], only: str
) -> Iterator[tuple[str, float]]:
    """Yield each line whose name contains `only`, with its units per second."""
    for line, work, units in lines:
        if only in line:
            yield line, rate(work) * (ARRAY_BYTES / 1e9 if "(GB)" in line else units)
