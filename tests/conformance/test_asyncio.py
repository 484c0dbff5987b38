"""References in asyncio and concurrent.futures."""

from __future__ import annotations

import asyncio
import concurrent.futures
import os
import threading
import time

import numpy as np
import pytest

pytestmark = pytest.mark.usefixtures("cluster")


@pytest.fixture
def same(ray, cluster):
    return ray.remote(lambda value: value)


@pytest.fixture
def fail(ray, cluster):
    @ray.remote
    def fail():
        raise ValueError("as asked")

    return fail


@pytest.fixture
def gate(ray, cluster, tmp_path):
    """Start tasks that give their value when the gate is opened, at the latest after the test."""
    path = tmp_path / "open"

    @ray.remote(num_cpus=0)
    def pass_through(path, value):
        while not os.path.exists(path):
            time.sleep(0.01)
        return value

    class Gate:
        open = path.touch

        def task(self, value=None):
            return pass_through.remote(str(path), value)

    yield Gate()
    path.touch()


# await


def test_a_reference_is_awaited_for_its_value(ray):
    async def main():
        return await ray.put("value")

    assert asyncio.run(main()) == "value"


def test_a_reference_can_be_awaited_twice(same):
    async def main():
        ref = same.remote(3)
        return await ref, await ref

    assert asyncio.run(main()) == (3, 3)


def test_a_reference_can_be_awaited_in_two_loops(same):
    ref = same.remote(3)

    async def main():
        return await ref

    assert [asyncio.run(main()), asyncio.run(main())] == [3, 3]


def test_an_awaited_array_is_read_only(ray):
    async def main():
        return await ray.put(np.zeros(1_000_000))

    assert not asyncio.run(main()).flags.writeable


def test_awaiting_a_failed_task_raises_the_users_error(ray, fail):
    async def main():
        await fail.remote()

    with pytest.raises(ValueError, match="as asked") as caught:
        asyncio.run(main())
    assert isinstance(caught.value, ray.exceptions.RayTaskError)


def test_awaiting_a_task_that_raised_stop_iteration_does_not_end_the_coroutine(ray):
    @ray.remote
    def stop():
        raise StopIteration(3)

    async def main():
        await asyncio.wait_for(stop.remote(), 30)

    with pytest.raises(RuntimeError) as raised:
        asyncio.run(main())
    assert isinstance(raised.value.__cause__, StopIteration)


def test_the_loop_runs_while_a_reference_is_awaited(gate):
    async def main():
        ref = gate.task("value")
        waiting = asyncio.ensure_future(_value(ref))
        for _ in range(5):
            await asyncio.sleep(0)
        assert not waiting.done()
        gate.open()
        return await waiting

    assert asyncio.run(main()) == "value"


async def _value(ref):
    return await ref


def test_get_works_within_a_coroutine(ray, same):
    async def main():
        return ray.get(same.remote(1))

    assert asyncio.run(main()) == 1


# The tools of asyncio


def test_gather_takes_references(same):
    async def main():
        return await asyncio.gather(*[same.remote(number) for number in range(5)])

    assert asyncio.run(main()) == [0, 1, 2, 3, 4]


def test_gather_raises_the_first_error(same, fail):
    async def main():
        await asyncio.gather(same.remote(1), fail.remote())

    with pytest.raises(ValueError, match="as asked"):
        asyncio.run(main())


def test_gather_can_give_errors_as_values(same, fail):
    async def main():
        return await asyncio.gather(same.remote(1), fail.remote(), return_exceptions=True)

    value, error = asyncio.run(main())
    assert value == 1
    assert isinstance(error, ValueError)


def test_as_completed_takes_references(same):
    async def main():
        refs = [same.remote(number) for number in range(4)]
        return [await ready for ready in asyncio.as_completed(refs)]

    assert sorted(asyncio.run(main())) == [0, 1, 2, 3]


def test_as_completed_gives_the_first_to_be_ready_first(same, gate):
    async def main():
        found = []
        for ready in asyncio.as_completed([gate.task("late"), same.remote("early")]):
            found.append(await ready)
            gate.open()
        return found

    assert asyncio.run(main()) == ["early", "late"]


def test_ensure_future_makes_a_reference_a_task_for_wait(same):
    async def main():
        tasks = [asyncio.ensure_future(same.remote(number)) for number in range(2)]
        done, pending = await asyncio.wait(tasks)
        return sorted(task.result() for task in done), pending

    assert asyncio.run(main()) == ([0, 1], set())


def test_a_task_group_awaits_references(same):
    async def main():
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(_value(same.remote(number))) for number in range(3)]
        return [task.result() for task in tasks]

    assert asyncio.run(main()) == [0, 1, 2]


def test_wait_for_times_out(gate):
    async def main():
        await asyncio.wait_for(gate.task(), 0.05)

    with pytest.raises(TimeoutError):
        asyncio.run(main())


def test_asyncio_timeout_ends_an_await(gate):
    async def main():
        async with asyncio.timeout(0.05):
            await gate.task()

    with pytest.raises(TimeoutError):
        asyncio.run(main())


def test_a_reference_can_be_shielded(gate):
    async def main():
        ref = gate.task("value")
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(asyncio.shield(ref), 0.05)
        gate.open()
        return await ref

    assert asyncio.run(main()) == "value"


def test_the_task_goes_on_when_an_await_of_it_is_cancelled(ray, gate):
    async def main():
        ref = gate.task("value")
        waiting = asyncio.ensure_future(_value(ref))
        await asyncio.sleep(0)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        gate.open()
        return await ref

    assert asyncio.run(main()) == "value"


def test_the_task_goes_on_when_an_await_of_it_timed_out(ray, gate):
    async def main():
        ref = gate.task("value")
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(_value(ref), 0.05)
        return ref

    ref = asyncio.run(main())
    gate.open()
    assert ray.get(ref, timeout=30) == "value"


def test_awaiting_a_cancelled_task_is_a_task_cancelled_error(ray, tmp_path):
    started = str(tmp_path / "started")

    @ray.remote(num_cpus=0)
    def endless():
        open(started, "w").close()
        while True:
            time.sleep(0.01)

    async def main():
        ref = endless.remote()
        while not os.path.exists(started):
            await asyncio.sleep(0.01)
        ray.cancel(ref)
        await ref

    with pytest.raises(ray.exceptions.TaskCancelledError):
        asyncio.run(main())


def test_wait_gives_the_first_that_is_ready(same, gate):
    async def main():
        early = asyncio.ensure_future(_value(same.remote("early")))
        late = asyncio.ensure_future(_value(gate.task("late")))
        found = await asyncio.wait([early, late], return_when=asyncio.FIRST_COMPLETED, timeout=30)
        gate.open()
        await late
        return found == ({early}, {late})

    assert asyncio.run(main())


def test_a_reference_can_be_awaited_by_many_at_once(gate):
    async def main():
        ref = gate.task("value")
        waiting = [asyncio.ensure_future(_value(ref)) for _ in range(5)]
        await asyncio.sleep(0)
        gate.open()
        return await asyncio.gather(*waiting)

    assert asyncio.run(main()) == ["value"] * 5


def test_a_reference_can_be_awaited_in_the_loop_of_another_thread(same):
    ref = same.remote("value")
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        assert pool.submit(lambda: asyncio.run(_value(ref))).result(timeout=30) == "value"


def test_two_loops_in_two_threads_can_await_one_reference(gate):
    ref = gate.task("value")
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        futures = [pool.submit(lambda: asyncio.run(_value(ref))) for _ in range(2)]
        gate.open()
        assert [future.result(timeout=30) for future in futures] == ["value", "value"]


def test_an_awaited_large_array_arrives_whole(ray):
    make = ray.remote(lambda: np.arange(1_000_000))

    async def main():
        return await make.remote()

    assert np.array_equal(asyncio.run(main()), np.arange(1_000_000))


def test_two_hundred_references_are_gathered_in_order(ray):
    async def main():
        return await asyncio.gather(*[ray.put(number) for number in range(200)])

    assert asyncio.run(main()) == list(range(200))


def test_awaiting_a_failed_reference_twice_raises_twice(fail):
    async def main():
        ref = fail.remote()
        for _ in range(2):
            with pytest.raises(ValueError, match="as asked"):
                await ref

    asyncio.run(main())


# Where no loop runs yet


@pytest.fixture
def loop():
    """The loop of this thread, which no code runs yet."""
    with asyncio.Runner() as runner:
        loop = runner.get_loop()
        asyncio.set_event_loop(loop)
        yield loop
    asyncio.set_event_loop(None)


def test_references_are_for_the_loop_that_will_run(ray, same, gate, fail, loop):
    future = same.remote("first").as_future()
    assert future.get_loop() is loop
    assert loop.run_until_complete(future) == "first"
    refs = [same.remote(1).as_future(), asyncio.ensure_future(same.remote(2)), same.remote(3)]
    assert loop.run_until_complete(asyncio.gather(*refs)) == [1, 2, 3]
    assert loop.run_until_complete(asyncio.wait_for(same.remote(4), 60)) == 4
    assert loop.run_until_complete(same.remote(5)) == 5
    futures = [same.remote(6).as_future(), same.remote(7).as_future()]
    done, pending = loop.run_until_complete(asyncio.wait(futures))
    assert ({future.result() for future in done}, pending) == ({6, 7}, set())
    completed = asyncio.as_completed([same.remote(8), same.remote(9)])
    assert {loop.run_until_complete(each) for each in completed} == {8, 9}

    settled = same.remote(10)
    early = settled.as_future()
    ray.wait([settled])
    assert loop.run_until_complete(early) == 10
    with pytest.raises(ValueError, match="as asked"):
        loop.run_until_complete(fail.remote().as_future())
    with pytest.raises(asyncio.TimeoutError):
        loop.run_until_complete(asyncio.wait_for(gate.task().as_future(), 0.05))
    cancelled = gate.task().as_future()
    assert cancelled.cancel()
    assert cancelled.cancelled()


# Python 3.12 leaves the coroutine that it has made for the reference.
@pytest.mark.filterwarnings("ignore:coroutine 'ensure_future:RuntimeWarning")
def test_a_thread_without_a_loop_cannot_make_an_asyncio_future(same, loop):
    def errors():
        for make in (lambda: same.remote(1).as_future(), lambda: asyncio.ensure_future(ref)):
            try:
                make()
            except RuntimeError as error:
                yield "event loop" in str(error)

    ref = same.remote(1)
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        assert pool.submit(lambda: list(errors())).result() == [True, True]
        asyncio_loop = pool.submit(asyncio.new_event_loop).result()
        try:
            pool.submit(asyncio.set_event_loop, asyncio_loop).result()
            run = asyncio_loop.run_until_complete
            assert pool.submit(lambda: run(same.remote(2).as_future())).result() == 2
        finally:
            asyncio_loop.close()


# Futures


def test_future_gives_a_concurrent_future(ray):
    future = ray.put(1).future()
    assert isinstance(future, concurrent.futures.Future)
    assert future.result(timeout=30) == 1


def test_the_future_of_a_failed_task_has_the_users_error(ray, fail):
    error = fail.remote().future().exception(timeout=30)
    assert isinstance(error, ValueError)
    assert isinstance(error, ray.exceptions.RayTaskError)


def test_the_result_of_a_future_times_out(gate):
    with pytest.raises(TimeoutError):
        gate.task().future().result(timeout=0.05)


def test_the_callbacks_of_a_future_are_called(gate):
    called, values = threading.Event(), []
    future = gate.task("value").future()

    def callback(future):
        values.append(future.result())
        called.set()

    future.add_done_callback(callback)
    gate.open()
    assert called.wait(timeout=30)
    assert values == ["value"]


def test_a_future_that_is_cancelled_leaves_its_task_alone(ray, gate):
    ref = gate.task("value")
    future = ref.future()
    assert future.cancel()
    gate.open()
    assert ray.get(ref, timeout=30) == "value"


def test_concurrent_as_completed_takes_the_futures_of_references(same):
    futures = [same.remote(number).future() for number in range(4)]
    ready = concurrent.futures.as_completed(futures, timeout=30)
    assert sorted(future.result() for future in ready) == [0, 1, 2, 3]


def test_wrap_future_makes_a_future_of_asyncio(gate):
    async def main():
        future = asyncio.wrap_future(gate.task("value").future())
        assert not future.done()
        gate.open()
        return await asyncio.wait_for(future, 30)

    assert asyncio.run(main()) == "value"


def test_wait_for_of_a_wrapped_future_times_out_and_leaves_the_task_alone(gate):
    async def main():
        ref = gate.task("value")
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(asyncio.wrap_future(ref.future()), 0.05)
        gate.open()
        return await ref

    assert asyncio.run(main()) == "value"


# Within tasks and actors


def test_a_task_can_run_a_loop_of_its_own(ray):
    @ray.remote
    def run(refs):
        async def main():
            return await asyncio.gather(*refs)

        return asyncio.run(main())

    assert ray.get(run.remote([ray.put(1), ray.put(2)])) == [1, 2]


def test_an_async_method_can_await_a_reference(ray, same):
    @ray.remote(num_cpus=0)
    class Actor:
        async def add(self, refs):
            return sum(await asyncio.gather(*refs))

    actor = Actor.remote()
    assert ray.get(actor.add.remote([same.remote(1), same.remote(2)])) == 3
