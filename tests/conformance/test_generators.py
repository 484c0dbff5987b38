"""Generators: tasks and methods that give one reference after another."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import pickle
import time

import numpy as np
import pytest
from _polling import wait_for_files, wait_until

pytestmark = pytest.mark.usefixtures("cluster")

# Ray 2.60.0 sends values into a streaming generator, which `yield from` an iterator that is not a
# generator does not take: the generators here yield in loops.


@pytest.fixture
def count(ray, cluster):
    @ray.remote
    def count(number):
        for item in range(number):
            yield item

    return count


@pytest.fixture
def fail_after(ray, cluster):
    @ray.remote
    def fail_after(number):
        for item in range(number):
            yield item
        raise ValueError("at the end")

    return fail_after


def test_a_generator_function_gives_an_object_ref_generator(ray, count):
    assert isinstance(count.remote(1), ray.ObjectRefGenerator)


def test_next_gives_a_reference(ray, count):
    ref = next(count.remote(1))
    assert isinstance(ref, ray.ObjectRef)
    assert ray.get(ref) == 0


def test_the_references_come_in_the_order_of_the_yields(ray, count):
    assert [ray.get(ref) for ref in count.remote(5)] == [0, 1, 2, 3, 4]


def test_the_references_can_be_collected_and_got_together(ray, count):
    assert ray.get(list(count.remote(5))) == [0, 1, 2, 3, 4]


def test_a_generator_is_its_own_iterator(count):
    generator = count.remote(0)
    assert iter(generator) is generator


def test_a_generator_that_yields_nothing_is_empty(count):
    assert list(count.remote(0)) == []


def test_an_exhausted_generator_stays_exhausted(count):
    generator = count.remote(1)
    list(generator)
    for _ in range(2):
        with pytest.raises(StopIteration):
            next(generator)


def test_the_return_value_of_a_generator_is_dropped(ray):
    @ray.remote
    def some():
        yield 1
        return 2

    assert ray.get(list(some.remote())) == [1]


def test_an_item_arrives_before_the_function_has_ended(ray, tmp_path):
    go = str(tmp_path / "go")

    @ray.remote
    def some():
        yield "early"
        while not os.path.exists(go):
            time.sleep(0.01)
        yield "late"

    generator = some.remote()
    assert ray.get(next(generator), timeout=30) == "early"
    assert not generator.is_finished()
    open(go, "w").close()
    assert ray.get(next(generator), timeout=30) == "late"


def test_an_error_sits_on_a_reference_after_the_items(ray, fail_after):
    generator = fail_after.remote(2)
    assert ray.get([next(generator), next(generator)]) == [0, 1]
    with pytest.raises(ValueError, match="at the end"):
        ray.get(next(generator))
    with pytest.raises(StopIteration):
        next(generator)


def test_an_error_before_the_first_item_sits_on_the_first_reference(ray, fail_after):
    generator = fail_after.remote(0)
    with pytest.raises(ValueError, match="at the end"):
        ray.get(next(generator))
    with pytest.raises(StopIteration):
        next(generator)


def test_the_error_of_a_generator_is_a_task_error(ray, fail_after):
    with pytest.raises(ray.exceptions.RayTaskError):
        ray.get(next(fail_after.remote(0)))


def test_a_process_that_ends_fails_the_next_reference(ray):
    @ray.remote(max_retries=0)
    def crash():
        yield 1
        os._exit(1)

    generator = crash.remote()
    assert ray.get(next(generator), timeout=30) == 1
    with pytest.raises(ray.exceptions.WorkerCrashedError):
        ray.get(next(generator), timeout=30)
    with pytest.raises(StopIteration):
        next(generator)


def test_a_generator_that_is_retried_gives_every_item_once(ray, tmp_path):
    failed = tmp_path / "failed"

    @ray.remote(max_retries=1, retry_exceptions=True)
    def some():
        yield 1
        if not failed.exists():
            failed.touch()
            raise ValueError("once")
        yield 2

    assert [ray.get(ref, timeout=60) for ref in some.remote()] == [1, 2]


def test_streaming_can_be_asked_for_by_name(ray):
    @ray.remote(num_returns="streaming")
    def some():
        for item in "ab":
            yield item

    generator = some.remote()
    assert isinstance(generator, ray.ObjectRefGenerator)
    assert ray.get(list(generator)) == ["a", "b"]


@pytest.mark.filterwarnings("ignore:num_returns='dynamic' is deprecated")
@pytest.mark.parametrize("name", ["streaming", "dynamic"])
def test_streaming_is_for_generator_functions_only(ray, name):
    with pytest.raises(ValueError, match="can only be used with generator functions"):

        @ray.remote(num_returns=name)
        def some():
            return [1, 2]


@pytest.mark.filterwarnings("ignore:num_returns='dynamic' is deprecated")
@pytest.mark.parametrize("name", ["streaming", "dynamic"])
def test_streaming_is_refused_in_options_for_other_functions(ray, name):
    @ray.remote
    def some():
        return [1, 2]

    with pytest.raises(ValueError, match="can only be used with generator functions"):
        some.options(num_returns=name)


@pytest.mark.filterwarnings("ignore:num_returns='dynamic' is deprecated")
def test_a_dynamic_generator_is_one_reference_to_many(ray):
    @ray.remote(num_returns="dynamic")
    def some():
        for item in range(3):
            yield item

    ref = some.remote()
    assert isinstance(ref, ray.ObjectRef)
    assert ray.get(list(ray.get(ref))) == [0, 1, 2]


@pytest.mark.filterwarnings("ignore:num_returns='dynamic' is deprecated")
def test_a_dynamic_generator_has_its_error_as_the_last_item(ray):
    @ray.remote(num_returns="dynamic", max_retries=0)
    def some():
        yield np.zeros(100_000)
        raise ValueError("no more")

    first, second = ray.get(some.remote())
    assert len(ray.get(first)) == 100_000
    with pytest.raises(ValueError, match="no more"):
        ray.get(second)


@pytest.mark.filterwarnings("ignore:num_returns='dynamic' is deprecated")
def test_a_dynamic_generator_of_a_method_can_be_passed_on(ray):
    @ray.remote
    class Some:
        def items(self, number):
            yield from range(number)

    @ray.remote
    def total(items):
        return sum(ray.get(list(items)))

    some = Some.remote()
    assert ray.get(total.remote(some.items.options(num_returns="dynamic").remote(4))) == 6


def test_a_number_of_returns_is_filled_by_a_generator(ray):
    @ray.remote(num_returns=3)
    def some():
        for item in range(3):
            yield item

    assert ray.get(some.remote()) == [0, 1, 2]


def test_the_item_of_a_generator_that_is_returned_is_the_result(ray):
    @ray.remote
    def item():
        return (number for number in [7])

    @ray.remote
    def nothing():
        return (number for number in [])

    assert ray.get(item.remote()) == 7
    with pytest.raises(ValueError, match="returned 0 objects"):
        ray.get(nothing.remote())


def test_large_items_arrive_whole(ray):
    @ray.remote
    def arrays():
        for number in range(3):
            yield np.full(1_000_000, number)

    assert [int(ray.get(ref)[-1]) for ref in arrays.remote()] == [0, 1, 2]


def test_a_yielded_reference_stays_a_reference(ray):
    @ray.remote
    def some():
        yield ray.put("inside")

    ref = ray.get(next(some.remote()))
    assert isinstance(ref, ray.ObjectRef)
    assert ray.get(ref) == "inside"


def test_an_item_outlives_its_generator(ray, count):
    generator = count.remote(2)
    ref = next(generator)
    del generator
    gc.collect()
    assert ray.get(ref) == 0


def test_a_generator_that_is_dropped_runs_to_its_end(ray, tmp_path):
    ended = str(tmp_path / "ended")

    @ray.remote
    def some():
        for item in range(5):
            yield item
        open(ended, "w").close()

    next(some.remote())
    gc.collect()
    wait_for_files(ended)


def test_the_items_can_be_arguments_of_tasks(ray, count):
    add = ray.remote(lambda number: number + 10)
    assert ray.get([add.remote(ref) for ref in count.remote(3)]) == [10, 11, 12]


def test_a_task_can_read_the_generator_it_started(ray, count):
    @ray.remote
    def total():
        return sum(ray.get(ref) for ref in count.remote(4))

    assert ray.get(total.remote()) == 6


def test_a_generator_can_read_another(ray, count):
    @ray.remote
    def double():
        for ref in count.remote(3):
            yield 2 * ray.get(ref)

    assert ray.get(list(double.remote())) == [0, 2, 4]


def test_a_generator_cannot_be_pickled(count):
    generator = count.remote(1)
    with pytest.raises(TypeError, match="cannot return or pass a generator"):
        pickle.dumps(generator)
    list(generator)


def test_a_generator_cannot_be_an_argument(ray, count):
    take = ray.remote(lambda generator: None)
    generator = count.remote(1)
    with pytest.raises(TypeError, match="Could not serialize the argument"):
        take.remote(generator)
    list(generator)


@pytest.mark.parametrize("method", ["send", "throw", "close"])
def test_a_generator_cannot_be_driven(count, method):
    generator = count.remote(1)
    with pytest.raises(NotImplementedError, match=method):
        getattr(generator, method)(*([] if method == "close" else [ValueError()]))
    list(generator)


def test_wait_takes_a_generator(ray, tmp_path):
    go = str(tmp_path / "go")

    @ray.remote
    def some():
        yield 1
        while not os.path.exists(go):
            time.sleep(0.01)

    generator = some.remote()
    assert ray.wait([generator], timeout=30) == ([generator], [])
    next(generator)
    assert ray.wait([generator], timeout=0.05) == ([], [generator])
    open(go, "w").close()
    assert ray.wait([generator], timeout=30) == ([generator], [])
    with pytest.raises(StopIteration):
        next(generator)


def test_wait_takes_generators_and_references(ray, tmp_path):
    go = str(tmp_path / "go")

    @ray.remote
    def items():
        while not os.path.exists(go):
            time.sleep(0.01)
        yield 1

    generator, value = items.remote(), ray.put(0)
    assert ray.wait([generator, value], timeout=30) == ([value], [generator])
    open(go, "w").close()
    assert ray.wait([generator, value], num_returns=2, timeout=30) == ([generator, value], [])
    both = [generator, generator.completed()]
    assert ray.wait(both, num_returns=2, timeout=30) == (both, [])
    assert ray.get(next(generator)) == 1


def test_wait_takes_many_generators(ray):
    @ray.remote
    def items(number):
        yield number

    generators = [items.remote(number) for number in range(70)]
    ready, rest = ray.wait(generators, num_returns=70, timeout=60)
    assert not rest
    assert ray.get([next(generator) for generator in ready]) == list(range(70))


def test_completed_is_a_reference_to_the_end(ray, count):
    generator = count.remote(2)
    assert ray.get(generator.completed(), timeout=30) is None
    assert ray.get(list(generator)) == [0, 1]


def test_a_generator_is_finished_when_all_has_been_read(count):
    generator = count.remote(1)
    list(generator)
    assert generator.is_finished()


def test_five_hundred_items_arrive_in_order(ray, count):
    assert ray.get(list(count.remote(500)), timeout=50) == list(range(500))


def test_wait_takes_the_items(ray, count):
    refs = list(count.remote(3))
    assert ray.wait(refs, num_returns=3, timeout=30) == (refs, [])


def test_two_generators_are_read_in_turns(ray, count):
    pairs = zip(count.remote(3), count.remote(3), strict=True)
    assert [ray.get(list(pair)) for pair in pairs] == [[0, 0], [1, 1], [2, 2]]


def test_the_arguments_of_a_generator_are_resolved(ray, count):
    assert ray.get(list(count.remote(ray.put(2)))) == [0, 1]


def test_an_item_can_be_got_twice(ray, count):
    ref = next(count.remote(1))
    assert [ray.get(ref), ray.get(ref)] == [0, 0]


def test_the_items_of_a_generator_are_different_references(count):
    assert len(set(count.remote(10))) == 10


def test_an_item_that_is_none_is_an_item(ray):
    @ray.remote
    def some():
        yield None
        yield 1

    assert ray.get(list(some.remote())) == [None, 1]


def test_the_returns_that_a_generator_leaves_open_fail(ray):
    @ray.remote(num_returns=3)
    def some():
        yield 1
        yield 2

    with pytest.raises(ValueError, match="num_returns=3"):
        ray.get(some.remote()[2], timeout=30)


def test_items_beyond_the_number_of_returns_are_dropped(ray):
    @ray.remote(num_returns=3)
    def some():
        for item in range(4):
            yield item

    assert ray.get(some.remote(), timeout=30) == [0, 1, 2]


def test_streaming_can_be_asked_for_in_options(ray):
    @ray.remote(num_returns=2)
    def some():
        yield 1
        yield 2

    generator = some.options(num_returns="streaming").remote()
    assert isinstance(generator, ray.ObjectRefGenerator)
    assert ray.get(list(generator)) == [1, 2]


# async for


def test_async_for_gives_references(ray, count):
    async def main():
        return [await ref async for ref in count.remote(3)]

    assert asyncio.run(main()) == [0, 1, 2]


def test_anext_ends_with_stop_async_iteration(ray, count):
    async def main():
        generator = count.remote(1)
        first = await anext(generator)
        with pytest.raises(StopAsyncIteration):
            await anext(generator)
        return await first

    assert asyncio.run(main()) == 0


def test_a_cancelled_anext_takes_no_item(ray, tmp_path):
    gate = tmp_path / "gate"

    @ray.remote
    def one_item(gate):
        while not gate.exists():
            time.sleep(0.01)
        yield "item"

    async def main():
        generator = one_item.remote(gate)
        waiting = asyncio.ensure_future(anext(generator))
        await asyncio.sleep(0.05)
        gate.touch()
        ray.wait([generator.completed()])  # the item arrives while the loop does not run
        waiting.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            return await (await waiting)
        return await (await anext(generator))

    assert asyncio.run(main()) == "item"


def test_async_for_gives_the_error_on_a_reference(ray, fail_after):
    async def main():
        refs = [ref async for ref in fail_after.remote(1)]
        assert await refs[0] == 0
        with pytest.raises(ValueError, match="at the end"):
            await refs[1]
        return len(refs)

    assert asyncio.run(main()) == 2


# Methods


def test_a_method_can_be_a_generator(ray):
    @ray.remote(num_cpus=0)
    class Actor:
        def count(self, number):
            for item in range(number):
                yield item

    actor = Actor.remote()
    generator = actor.count.remote(3)
    assert isinstance(generator, ray.ObjectRefGenerator)
    assert ray.get(list(generator)) == [0, 1, 2]


def test_an_async_method_can_be_a_generator(ray):
    @ray.remote(num_cpus=0)
    class Actor:
        async def count(self, number):
            for at in range(number):
                await asyncio.sleep(0)
                yield at

    actor = Actor.remote()
    assert ray.get(list(actor.count.remote(3))) == [0, 1, 2]


def test_a_generator_method_keeps_the_state_of_its_actor(ray):
    @ray.remote(num_cpus=0)
    class Actor:
        number = 0

        def count(self):
            for _ in range(2):
                self.number += 1
                yield self.number

    actor = Actor.remote()
    ray.get(list(actor.count.remote()))
    assert ray.get(list(actor.count.remote())) == [3, 4]


def test_a_generator_method_can_fill_a_number_of_returns(ray):
    @ray.remote(num_cpus=0)
    class Actor:
        def count(self, number):
            for item in range(number):
                yield item

    actor = Actor.remote()
    assert ray.get(actor.count.options(num_returns=2).remote(2)) == [0, 1]


def test_an_actor_works_on_after_a_generator_method_failed(ray):
    @ray.remote(num_cpus=0)
    class Actor:
        def fail(self):
            yield 1
            raise ValueError("method")

        def ready(self):
            return True

    actor = Actor.remote()
    first, second = actor.fail.remote()
    assert ray.get(first) == 1
    with pytest.raises(ValueError, match="method"):
        ray.get(second)
    assert ray.get(actor.ready.remote())


# --- a limit of the items that nobody has taken


@pytest.fixture(params=["task", "method", "actor", "async", "threads"])
def limited(ray, cluster, tmp_path, request):
    """Return a generator that stops while two of its items wait, and the number that it has made."""
    path = tmp_path / "made"
    path.touch()
    limit = {"_generator_backpressure_num_objects": 2}

    def count(number):
        for item in range(number):
            with open(path, "ab") as file:
                file.write(b"x")
            yield item

    class Counter:
        def count(self, number):
            yield from count(number)

        @ray.method(**limit)
        def limited(self, number):
            yield from count(number)

        async def in_loop(self, number):
            for item in count(number):
                yield item

    def start(number):
        if request.param == "task":
            return ray.remote(**limit)(count).remote(number)
        if request.param == "method":
            return ray.remote(Counter).remote().limited.remote(number)
        if request.param == "actor":
            of_actor = {f"_actor{name}": value for name, value in limit.items()}
            return ray.remote(**of_actor)(Counter).remote().count.remote(number)
        options = {"max_concurrency": 2} if request.param == "threads" else {}
        actor = ray.remote(Counter).options(**options).remote()
        method = actor.count if options else actor.in_loop
        return method.options(**limit).remote(number)

    return start, lambda: path.stat().st_size


def test_a_generator_waits_until_its_items_are_taken(ray, limited):
    start, num_made = limited
    items = start(6)
    for taken in range(4):
        wait_until(lambda taken=taken: num_made() == taken + 2)
        assert ray.get(next(items)) == taken
        assert num_made() <= taken + 3
    assert [ray.get(each) for each in items] == [4, 5]
    assert num_made() == 6


def test_a_generator_that_waits_can_be_cancelled(ray, limited):
    start, num_made = limited
    items = start(100)
    wait_until(lambda: num_made() == 2)
    ray.cancel(items)
    with pytest.raises(ray.exceptions.RayError):
        for each in items:
            ray.get(each)
    assert num_made() < 100
