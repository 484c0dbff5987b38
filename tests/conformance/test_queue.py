"""`ray.util.queue`: a queue that tasks, actors and drivers share."""

from __future__ import annotations

import asyncio
import importlib
import pickle
import queue as standard
import time

import numpy as np
import pytest

pytestmark = pytest.mark.usefixtures("cluster")


@pytest.fixture
def module(ray):
    return importlib.import_module(ray.__name__ + ".util.queue")


@pytest.fixture
def queue_of(module, cluster):
    """A factory of queues, which are shut down when the test ends."""
    made = []

    def make(*args, **kwargs):
        made.append(module.Queue(*args, **kwargs))
        return made[-1]

    yield make
    for queue in made:
        queue.shutdown(force=True)


@pytest.fixture
def waits(ray):
    """Whether a reference is still not ready after a moment."""
    return lambda ref: ray.wait([ref], timeout=0.2) == ([], [ref])


# Items


def test_what_comes_first_goes_first(queue_of):
    queue = queue_of()
    items = ["text", 1, None, [1, 2], {"a": (1,)}]
    for item in items:
        assert queue.put(item) is None
    assert [queue.get() for _ in items] == items


def test_a_large_array_goes_through(queue_of):
    queue = queue_of()
    queue.put(np.arange(1_000_000))
    assert np.array_equal(queue.get(), np.arange(1_000_000))


def test_a_reference_arrives_as_its_value_and_in_a_list_as_a_reference(ray, queue_of):
    queue = queue_of()
    queue.put(ray.put("value"))
    assert queue.get() == "value"
    queue.put([ray.put("value")])
    assert ray.get(queue.get()) == ["value"]
    queue.put_nowait_batch([ray.put("value")])
    assert ray.get(queue.get_nowait_batch(1)) == ["value"]


def test_the_reference_to_a_failed_task_is_not_put(ray, queue_of):
    @ray.remote(num_cpus=0)
    def fail():
        raise KeyError("of the task")

    queue = queue_of()
    with pytest.raises(KeyError, match="of the task"):
        queue.put(fail.remote())
    assert queue.empty()


def test_sizes_of_a_queue_without_and_with_a_limit(queue_of):
    queue = queue_of()
    assert (len(queue), queue.size(), queue.qsize()) == (0, 0, 0)
    assert (queue.empty(), queue.full(), queue.maxsize) == (True, False, 0)
    queue.put(1)
    assert (len(queue), queue.size(), queue.qsize()) == (1, 1, 1)
    assert (queue.empty(), queue.full()) == (False, False)
    small = queue_of(maxsize=2)
    small.put(1)
    assert not small.full()
    small.put(2)
    assert (small.full(), small.empty(), len(small), small.maxsize) == (True, False, 2, 2)


def test_a_negative_maxsize_is_no_limit(queue_of):
    queue = queue_of(-1)
    queue.put_nowait_batch(range(10))
    queue.put_nowait(10)
    assert not queue.full()
    assert queue.get_nowait_batch(11) == list(range(11))


# Full and empty


def test_the_errors_are_those_of_the_standard_library_too(module):
    assert issubclass(module.Full, standard.Full)
    assert issubclass(module.Empty, standard.Empty)


def test_an_empty_queue_is_an_error_without_waiting(ray, module, queue_of):
    queue = queue_of()
    for get in (queue.get_nowait, lambda: queue.get(block=False), lambda: queue.get(False, -1)):
        with pytest.raises(module.Empty) as caught:
            get()
        assert not isinstance(caught.value, ray.exceptions.RayTaskError)
    queue.put("item")
    assert queue.get_nowait() == "item"


def test_a_full_queue_is_an_error_without_waiting(ray, module, queue_of):
    queue = queue_of(maxsize=1)
    queue.put_nowait("item")
    for put in (queue.put_nowait, lambda item: queue.put(item, block=False, timeout=-1)):
        with pytest.raises(module.Full) as caught:
            put("too much")
        assert not isinstance(caught.value, ray.exceptions.RayTaskError)
    assert queue.get_nowait() == "item"
    assert queue.empty()


def test_get_and_put_time_out(module, queue_of):
    queue = queue_of(maxsize=1)
    start = time.monotonic()
    with pytest.raises(module.Empty):
        queue.get(timeout=0.2)
    assert 0.2 <= time.monotonic() - start < 10
    queue.put("item", timeout=30)
    start = time.monotonic()
    with pytest.raises(module.Full):
        queue.put("too much", timeout=0.2)
    assert 0.2 <= time.monotonic() - start < 10
    assert queue.get(timeout=30) == "item"


def test_with_a_timeout_of_zero_time_is_always_up(module, queue_of):
    queue = queue_of(maxsize=2)
    queue.put("item")
    with pytest.raises(module.Empty):
        queue.get(timeout=0)
    with pytest.raises(module.Full):
        queue.put("more", timeout=0)
    assert queue.get_nowait_batch(1) == ["item"]
    assert queue.empty()


def test_a_negative_timeout_is_a_value_error(queue_of):
    queue = queue_of()
    with pytest.raises(ValueError, match="'timeout' must be a non-negative number"):
        queue.put("item", timeout=-1)
    with pytest.raises(ValueError, match="'timeout' must be a non-negative number"):
        queue.get(timeout=-0.5)
    assert queue.empty()


# Batches


def test_batches_keep_the_order(queue_of):
    queue = queue_of(maxsize=10)
    queue.put_nowait_batch(range(6))
    queue.put_nowait_batch(("six", "seven"))
    assert queue.get_nowait_batch(3) == [0, 1, 2]
    assert queue.get() == 3
    assert queue.get_nowait_batch(0) == []
    assert queue.get_nowait_batch(4) == [4, 5, "six", "seven"]
    queue.put_nowait_batch([])
    assert queue.empty()


def test_a_batch_that_does_not_fit_is_not_put_at_all(module, queue_of):
    queue = queue_of(maxsize=3)
    queue.put("item")
    with pytest.raises(module.Full, match="Cannot add 3 items"):
        queue.put_nowait_batch([1, 2, 3])
    assert len(queue) == 1
    queue.put_nowait_batch([1, 2])
    assert queue.full()


def test_a_batch_that_is_not_there_is_not_taken_at_all(module, queue_of):
    queue = queue_of()
    queue.put_nowait_batch([1, 2])
    with pytest.raises(module.Empty, match="Cannot get 3 items"):
        queue.get_nowait_batch(3)
    assert queue.get_nowait_batch(2) == [1, 2]


def test_wrong_arguments_of_batches_are_errors(queue_of):
    queue = queue_of()
    with pytest.raises(TypeError, match="Argument 'items' must be an Iterable"):
        queue.put_nowait_batch(5)
    with pytest.raises(TypeError, match="Argument 'num_items' must be an int"):
        queue.get_nowait_batch(1.0)
    with pytest.raises(ValueError, match="'num_items' must be nonnegative"):
        queue.get_nowait_batch(-1)


# Between tasks and actors


def test_a_get_waits_until_a_task_puts(ray, queue_of, waits):
    @ray.remote(num_cpus=0)
    def get(queue):
        return queue.get()

    @ray.remote(num_cpus=0)
    def put(queue, item):
        queue.put(item)

    queue = queue_of()
    got = get.remote(queue)
    assert waits(got)
    put.remote(queue, "item")
    assert ray.get(got) == "item"


def test_a_put_waits_until_somebody_gets(ray, queue_of, waits):
    @ray.remote(num_cpus=0)
    def put(queues, item):
        queues[0].put(item)
        return "done"

    queue = queue_of(maxsize=1)
    queue.put("first")
    done = put.remote([queue], "second")
    assert waits(done)
    assert queue.get() == "first"
    assert ray.get(done) == "done"
    assert queue.get() == "second"


def test_many_callers_can_wait(ray, queue_of):
    queue = queue_of()
    got = [queue.actor.get.remote() for _ in range(500)]
    for number in range(500):
        queue.put(number)
    assert sorted(ray.get(got)) == list(range(500))


def test_producers_and_consumers_lose_nothing(ray, queue_of):
    @ray.remote(num_cpus=0)
    def produce(queue, numbers):
        for number in numbers:
            queue.put(number)

    @ray.remote(num_cpus=0)
    class Consumer:
        def __init__(self, queue):
            self.queue = queue

        def consume(self, count):
            return [self.queue.get() for _ in range(count)]

    queue = queue_of(maxsize=3)
    consumers = [Consumer.remote(queue) for _ in range(2)]
    got = [consumer.consume.remote(30) for consumer in consumers]
    for start in (0, 30):
        produce.remote(queue, range(start, start + 30))
    assert sorted(sum(ray.get(got), [])) == list(range(60))
    assert queue.empty()


def test_a_copy_is_the_same_queue(ray, queue_of):
    queue = queue_of(maxsize=5)
    ref = ray.put(queue)
    copy = ray.get(ref)
    copy.put("item")
    assert (copy.maxsize, len(queue)) == (5, 1)
    assert queue.get() == "item"

    @ray.remote(num_cpus=0)
    def put():
        queue.put("in a closure")

    ray.get(put.remote())
    assert copy.get() == "in a closure"


def test_the_errors_travel(ray, module, queue_of):
    assert type(pickle.loads(pickle.dumps(module.Full("text")))) is module.Full

    @ray.remote(num_cpus=0)
    def get(queue):
        return queue.get_nowait()

    with pytest.raises(module.Empty):
        ray.get(get.remote(queue_of()))


# In an event loop


def test_put_async_and_get_async_in_the_driver(module, queue_of):
    queue = queue_of(maxsize=1)

    async def main():
        assert await queue.put_async("first") is None
        waiting = asyncio.create_task(queue.put_async("second"))
        assert await asyncio.wait([waiting], timeout=0.1) == (set(), {waiting})
        items = [await queue.get_async(), await queue.get_async(timeout=30)]
        await waiting
        return items

    assert asyncio.run(main()) == ["first", "second"]


def test_get_async_leaves_the_loop_to_others(queue_of):
    queue = queue_of()

    async def main():
        getting = [asyncio.create_task(queue.get_async()) for _ in range(10)]
        await asyncio.gather(*[queue.put_async(number, timeout=30) for number in range(10)])
        return sorted(await asyncio.gather(*getting))

    assert asyncio.run(main()) == list(range(10))


def test_the_errors_of_put_async_and_get_async(ray, module, queue_of):
    queue = queue_of(maxsize=1)

    async def main():
        for options in ({"block": False}, {"timeout": 0.05}):
            with pytest.raises(module.Empty):
                await queue.get_async(**options)
        with pytest.raises(ValueError, match="'timeout' must be a non-negative number"):
            await queue.get_async(timeout=-1)
        await queue.put_async("item", block=False)
        for options in ({"block": False}, {"timeout": 0.05}):
            with pytest.raises(module.Full):
                await queue.put_async("too much", **options)
        with pytest.raises(ValueError, match="'timeout' must be a non-negative number"):
            await queue.put_async("too much", timeout=-1)
        return await queue.get_async(block=False)

    assert asyncio.run(main()) == "item"


def test_an_async_actor_uses_queues(ray, module, queue_of):
    @ray.remote(num_cpus=0)
    class Doubler:
        async def run(self, source, sink):
            while (number := await source.get_async()) is not None:
                await sink.put_async(2 * number)
            return "done"

        async def nothing(self, queue):
            try:
                await queue.get_async(block=False)
            except module.Empty:
                return "empty"

    source, sink = queue_of(), queue_of(maxsize=1)
    doubler = Doubler.remote()
    done = doubler.run.remote(source, sink)
    assert ray.get(doubler.nothing.remote(queue_of())) == "empty"
    source.put_nowait_batch([1, 2, 3, None])
    assert [sink.get() for _ in range(3)] == [2, 4, 6]
    assert ray.get(done) == "done"


def test_one_async_actor_waits_at_both_ends_of_a_queue(ray, queue_of):
    @ray.remote(num_cpus=0)
    class Both:
        async def put(self, queue, numbers):
            for number in numbers:
                await queue.put_async(number)

        async def get(self, queue, count):
            return [await queue.get_async() for _ in range(count)]

    queue, both = queue_of(maxsize=1), Both.remote()
    got = both.get.remote(queue, 5)
    both.put.remote(queue, range(5))
    assert ray.get(got) == list(range(5))


# The queue's actor


def test_actor_options_are_those_of_the_actor(ray, queue_of):
    queue = queue_of(actor_options={"name": "a-queue", "resources": {"custom": 1}})
    queue.put("item")
    assert ray.get_actor("a-queue") == queue.actor
    assert ray.available_resources().get("custom") == 1


def test_an_unknown_actor_option_is_a_value_error(module):
    with pytest.raises(ValueError, match="colour"):
        module.Queue(actor_options={"colour": "red"})


@pytest.mark.parametrize("force", [True, False])
def test_shutdown_ends_the_actor(ray, queue_of, force):
    queue = queue_of()
    queue.put("item")
    actor, copy = queue.actor, ray.get(ray.put(queue))
    assert queue.shutdown(force=force) is None
    assert queue.actor is None
    with pytest.raises(ray.exceptions.ActorDiedError):
        ray.get(actor.qsize.remote())
    with pytest.raises(ray.exceptions.ActorDiedError):
        copy.get()
    with pytest.raises(AttributeError):
        queue.put("item")
    with pytest.raises(AttributeError):
        len(queue)
    queue.shutdown()


def test_callers_that_wait_fail_when_the_queue_is_killed(ray, queue_of, waits):
    queue = queue_of()
    got = queue.actor.get.remote()
    assert waits(got)
    queue.shutdown(force=True)
    with pytest.raises(ray.exceptions.ActorDiedError):
        ray.get(got)


def test_a_queue_whose_actor_was_killed_is_dead(ray, queue_of):
    queue = queue_of()
    ray.kill(queue.actor)
    for use in (queue.get, queue.size, lambda: queue.put("item"), queue.get_nowait):
        with pytest.raises(ray.exceptions.ActorDiedError):
            use()
    with pytest.raises(ray.exceptions.ActorDiedError):
        asyncio.run(queue.get_async())
    queue.shutdown()
    assert queue.actor is None
