"""`ray.util.ActorPool`: order, waiting calls, timeouts, errors, dead actors."""

from __future__ import annotations

import importlib
import os
import time

import pytest

pytestmark = pytest.mark.usefixtures("cluster")


@pytest.fixture
def Worker(ray, cluster):
    """A class of actors for pools."""

    @ray.remote(num_cpus=0)
    class Worker:
        def double(self, number):
            return 2 * number

        def me(self, _):
            return ray.get_runtime_context().current_actor

        def when_there(self, path, value):
            while not path.exists():
                time.sleep(0.01)
            return value

        def late(self, seconds):
            time.sleep(seconds)
            return "late"

        def fail(self, error):
            raise error

        def die(self, _):
            os._exit(1)

        def pair(self, number):
            return number, number + 1

    return Worker


@pytest.fixture
def pool_of(ray, cluster, Worker):
    """A factory of pools of new actors."""

    def make(number):
        return ray.util.ActorPool([Worker.remote() for _ in range(number)])

    return make


@pytest.fixture
def gate(tmp_path):
    """A file for `wait`, which a test makes with `touch`; it is there when the test ends."""
    path = tmp_path / "gate"
    yield path
    path.touch()


def double(actor, number):
    return actor.double.remote(number)


def fail(actor, error):
    return actor.fail.remote(error)


def wait(actor, path_and_value):
    return actor.when_there.remote(*path_and_value)


# map


def test_the_module_of_the_pool_has_the_same_class(ray):
    module = importlib.import_module(ray.__name__ + ".util.actor_pool")
    assert module.ActorPool is ray.util.ActorPool


def test_map_gives_the_results_in_order(pool_of):
    assert list(pool_of(2).map(double, range(20))) == [2 * number for number in range(20)]


def test_map_waits_for_the_first_though_the_second_is_ready(ray, pool_of, gate):
    pool, refs = pool_of(2), []

    def call(actor, number):
        refs.append(wait(actor, (gate, 0)) if number == 0 else double(actor, number))
        return refs[-1]

    results = pool.map(call, [0, 1])
    assert ray.get(refs[1]) == 2
    gate.touch()
    assert list(results) == [0, 2]


def test_map_starts_calls_before_its_iterator_is_asked(ray, pool_of):
    pool, called = pool_of(2), []

    def call(actor, number):
        called.append(number)
        return double(actor, number)

    results = pool.map(call, (number for number in range(5)))
    assert called == [0, 1]
    assert iter(results) is results
    assert next(results) == 0
    assert called == [0, 1, 2]
    assert list(results) == [2, 4, 6, 8]


def test_map_of_no_values_gives_nothing(pool_of):
    pool = pool_of(1)
    assert list(pool.map(double, [])) == []
    assert list(pool.map_unordered(double, [])) == []


def test_map_unordered_gives_all_results(pool_of):
    assert sorted(pool_of(2).map_unordered(double, range(20))) == list(range(0, 40, 2))


def test_map_unordered_gives_first_what_is_ready_first(pool_of, gate):
    def call(actor, number):
        return wait(actor, (gate, "last")) if number == 0 else double(actor, number)

    results = pool_of(2).map_unordered(call, range(4))
    assert [next(results) for _ in range(3)] == [2, 4, 6]
    gate.touch()
    assert list(results) == ["last"]


def test_map_drops_the_results_of_earlier_calls_without_waiting(pool_of, gate):
    pool = pool_of(1)
    pool.submit(wait, (gate, "earlier"))
    pool.submit(wait, (gate, "waits for the actor"))
    results = pool.map(double, [1, 2])
    gate.touch()
    assert list(results) == [2, 4]


def test_map_unordered_waits_for_earlier_calls_and_drops_their_results(pool_of):
    pool = pool_of(2)
    for number in range(5):
        pool.submit(double, number)
    assert sorted(pool.map_unordered(double, [10, 11])) == [20, 22]


def test_map_unordered_raises_the_error_of_an_earlier_call(pool_of):
    pool = pool_of(1)
    pool.submit(fail, ValueError("earlier"))
    with pytest.raises(ValueError, match="earlier"):
        pool.map_unordered(double, [1])
    assert not pool.has_next()
    assert list(pool.map_unordered(double, [1])) == [2]


def test_an_error_ends_the_iterator_but_not_the_pool(ray, pool_of):
    pool = pool_of(1)

    def call(actor, number):
        return fail(actor, ValueError("one")) if number == 1 else double(actor, number)

    results = pool.map(call, range(4))
    assert next(results) == 0
    with pytest.raises(ValueError, match="one") as caught:
        next(results)
    assert isinstance(caught.value, ray.exceptions.RayTaskError)
    assert list(results) == []
    assert [pool.get_next(), pool.get_next()] == [4, 6]


# submit, get_next


def test_get_next_gives_results_in_the_order_of_submission(pool_of):
    pool = pool_of(2)
    for number in range(5):
        assert pool.submit(double, number) is None
    assert [pool.get_next() for _ in range(5)] == [0, 2, 4, 6, 8]
    assert not pool.has_next()


def test_get_next_unordered_gives_what_is_ready(pool_of, gate):
    pool = pool_of(2)
    pool.submit(wait, (gate, "late"))
    pool.submit(double, 1)
    assert pool.get_next_unordered() == 2
    gate.touch()
    assert pool.get_next_unordered() == "late"


def test_each_actor_has_one_call_at_a_time(pool_of, gate):
    pool, called = pool_of(2), []

    def call(actor, number):
        called.append(actor)
        return wait(actor, (gate, number))

    for number in range(4):
        pool.submit(call, number)
    assert len(called) == len(set(called)) == 2
    gate.touch()
    assert [pool.get_next() for _ in range(4)] == [0, 1, 2, 3]
    assert len(called) == 4
    assert len(set(called)) == 2


def test_a_call_that_waits_starts_when_a_result_is_fetched_and_not_before(ray, pool_of):
    pool, refs = pool_of(1), []

    def call(actor, number):
        refs.append(double(actor, number))
        return refs[-1]

    pool.submit(call, 1)
    pool.submit(call, 2)
    assert ray.get(refs) == [2]
    assert pool.get_next() == 2
    assert ray.get(refs) == [2, 4]


def test_has_next_and_has_free(pool_of):
    pool = pool_of(2)
    assert (pool.has_next(), pool.has_free()) == (False, True)
    pool.submit(double, 1)
    assert (pool.has_next(), pool.has_free()) == (True, True)
    pool.submit(double, 2)
    pool.submit(double, 3)
    assert (pool.has_next(), pool.has_free()) == (True, False)
    pool.get_next()
    assert (pool.has_next(), pool.has_free()) == (True, False)
    pool.get_next()
    pool.get_next_unordered()
    assert (pool.has_next(), pool.has_free()) == (False, True)


def test_nothing_to_get_is_a_stop_iteration(pool_of):
    pool = pool_of(1)
    for get in (pool.get_next, pool.get_next_unordered):
        with pytest.raises(StopIteration, match="No more results"):
            get()
        with pytest.raises(StopIteration, match="No more results"):
            get(timeout=0, ignore_if_timedout=True)


def test_get_next_after_get_next_unordered_took_the_last_is_a_value_error(pool_of, gate):
    pool = pool_of(2)
    pool.submit(wait, (gate, "first"))
    pool.submit(double, 1)
    assert pool.get_next_unordered() == 2
    with pytest.raises(ValueError, match=r"get_next\(\) after get_next_unordered\(\)"):
        pool.get_next()
    gate.touch()
    assert pool.get_next_unordered() == "first"
    pool.submit(double, 3)
    assert pool.get_next() == 6


def test_get_next_goes_on_behind_what_get_next_unordered_took(pool_of, gate):
    pool = pool_of(2)
    pool.submit(wait, (gate, "skipped"))
    pool.submit(double, 1)
    pool.submit(double, 2)
    assert pool.get_next_unordered() == 2
    assert pool.get_next() == 4
    gate.touch()
    assert pool.get_next_unordered() == "skipped"


def test_a_method_with_two_results_gives_a_list(ray, pool_of):
    pool = pool_of(1)

    def call(actor, number):
        return actor.pair.options(num_returns=2).remote(number)

    assert list(pool.map(call, [1, 5])) == [[1, 2], [5, 6]]
    pool.submit(call, 7)
    for get in (pool.get_next, pool.get_next_unordered):
        with pytest.raises(TypeError, match=r"wait\(\) expected a list"):
            get(timeout=1)
    assert pool.get_next() == [7, 8]


def test_a_task_has_a_pool_of_the_actors_it_is_given(ray, Worker):
    @ray.remote(num_cpus=0)
    def task(actors):
        pool = ray.util.ActorPool(actors)
        return list(pool.map(lambda actor, number: actor.double.remote(number), range(4)))

    assert ray.get(task.remote([Worker.remote(), Worker.remote()])) == [0, 2, 4, 6]


# Timeouts


@pytest.mark.parametrize("method", ["get_next", "get_next_unordered"])
def test_a_result_that_is_late_can_be_fetched_later(pool_of, gate, method):
    pool = pool_of(1)
    get = getattr(pool, method)
    pool.submit(wait, (gate, "late"))
    for timeout in (0, 0.05):
        with pytest.raises(TimeoutError, match="Timed out waiting for result"):
            get(timeout=timeout)
    gate.touch()
    assert get(timeout=30) == "late"


@pytest.mark.parametrize("method", ["get_next", "get_next_unordered"])
def test_a_result_that_is_there_needs_no_time(ray, pool_of, method):
    pool, refs = pool_of(1), []

    def call(actor, number):
        refs.append(double(actor, number))
        return refs[-1]

    pool.submit(call, 1)
    ray.get(refs)
    assert getattr(pool, method)(timeout=0, ignore_if_timedout=True) == 2


def test_a_timeout_is_in_seconds_where_those_of_wait_are_not(pool_of, monkeypatch):
    monkeypatch.setenv(
        "RAYCOMPAT_RAY_VERSION", "0.6.1"
    )  # raycompat's `wait` takes milliseconds then
    pool = pool_of(1)
    pool.submit(lambda actor, seconds: actor.late.remote(seconds), 0.5)
    assert pool.get_next(timeout=60) == "late"


@pytest.mark.parametrize("method", ["get_next", "get_next_unordered"])
def test_a_negative_timeout_is_a_value_error(pool_of, method):
    pool = pool_of(1)
    pool.submit(double, 1)
    with pytest.raises(ValueError, match="nonnegative"):
        getattr(pool, method)(timeout=-1)
    assert pool.get_next() == 2


def test_a_late_result_is_ignored_if_asked_for(pool_of, gate):
    pool = pool_of(1)
    pool.submit(wait, (gate, "late"))
    pool.submit(double, 1)
    with pytest.raises(TimeoutError, match=r"Timed out .*ObjectRef\(\w+\) has been ignored"):
        pool.get_next(timeout=0.01, ignore_if_timedout=True)
    assert pool.has_next()  # the call that waited for the actor
    gate.touch()
    assert pool.get_next() == 2
    assert (pool.has_next(), pool.has_free()) == (False, True)


def test_get_next_unordered_that_is_to_ignore_late_results_raises(pool_of, gate):
    pool = pool_of(1)
    pool.submit(wait, (gate, "late"))
    # Ray raises an UnboundLocalError here, because of a bug.
    with pytest.raises((TimeoutError, UnboundLocalError)):
        pool.get_next_unordered(timeout=0.01, ignore_if_timedout=True)
    gate.touch()
    assert pool.get_next_unordered() == "late"  # a program that asks again loses nothing


# Errors, and actors that die


@pytest.mark.parametrize("method", ["get_next", "get_next_unordered"])
def test_the_actor_of_a_call_that_failed_goes_on(ray, pool_of, method):
    pool = pool_of(1)
    pool.submit(fail, KeyError("wrong"))
    pool.submit(double, 1)
    with pytest.raises(KeyError, match="wrong") as caught:
        getattr(pool, method)()
    assert isinstance(caught.value, ray.exceptions.RayTaskError)
    assert getattr(pool, method)() == 2
    assert pool.has_free()


def test_an_actor_that_died_leaves_the_pool(ray, pool_of):
    pool = pool_of(2)
    pool.submit(lambda actor, _: actor.die.remote(None), None)
    pool.submit(double, 1)
    pool.submit(double, 2)
    with pytest.raises(ray.exceptions.ActorDiedError):
        pool.get_next()
    assert [pool.get_next(), pool.get_next()] == [2, 4]
    assert pool.pop_idle() is not None
    assert pool.pop_idle() is None


def test_calls_wait_for_a_new_actor_when_all_have_died(ray, pool_of, Worker):
    pool = pool_of(1)
    pool.submit(lambda actor, _: actor.die.remote(None), None)
    pool.submit(double, 1)
    with pytest.raises(ray.exceptions.RayActorError):
        pool.get_next_unordered()
    assert (pool.has_next(), pool.has_free()) == (False, False)
    with pytest.raises(StopIteration):
        pool.get_next()
    pool.push(Worker.remote())
    assert pool.has_next()
    assert pool.get_next() == 2


def test_an_actor_with_which_the_function_raises_can_be_pushed_again(ray, Worker):
    actor = Worker.remote()
    pool = ray.util.ActorPool([actor])
    with pytest.raises(ZeroDivisionError):
        pool.submit(lambda actor, number: 1 // number, 0)
    assert (pool.has_next(), pool.has_free()) == (False, False)
    pool.push(actor)
    assert list(pool.map(double, [1, 2])) == [2, 4]


# The actors


def test_a_pool_takes_any_iterable_and_nothing_else(ray, Worker):
    pool = ray.util.ActorPool(Worker.remote() for _ in range(2))
    assert list(pool.map(double, [1])) == [2]
    with pytest.raises(TypeError, match="not iterable"):
        ray.util.ActorPool(None)


def test_the_actor_that_came_last_is_taken_first(ray, Worker):
    one, two = Worker.remote(), Worker.remote()
    pool = ray.util.ActorPool([one, two])
    pool.submit(lambda actor, _: actor.me.remote(None), None)
    assert pool.pop_idle() == one
    assert pool.get_next() == two
    assert pool.pop_idle() == two
    assert pool.pop_idle() is None


def test_no_actor_is_idle_while_a_call_waits(pool_of):
    pool = pool_of(1)
    pool.submit(double, 1)
    assert pool.pop_idle() is None
    pool.submit(double, 2)
    assert pool.get_next() == 2
    assert pool.pop_idle() is None
    assert pool.get_next() == 4
    assert pool.pop_idle() is not None


def test_a_pushed_actor_starts_the_first_call_that_waits(ray, Worker):
    pool = ray.util.ActorPool([])
    pool.submit(double, 1)
    pool.submit(double, 2)
    assert (pool.has_next(), pool.has_free()) == (False, False)
    pool.push(Worker.remote())
    assert pool.has_next()
    assert [pool.get_next(), pool.get_next()] == [2, 4]


def test_an_actor_of_the_pool_cannot_be_pushed(ray, Worker):
    actor = Worker.remote()
    pool = ray.util.ActorPool([actor])
    with pytest.raises(ValueError, match="already belongs to current ActorPool"):
        pool.push(actor)
    pool.submit(double, 1)
    with pytest.raises(ValueError, match="already belongs to current ActorPool"):
        pool.push(actor)
    assert pool.get_next() == 2
    assert pool.pop_idle() == actor
    pool.push(actor)
    assert pool.has_free()


def test_a_subclass_keeps_its_own_books(ray, Worker):
    class Tagged(ray.util.ActorPool):
        def submit(self, fn, value):
            if not self._idle_actors:
                self._pending_submits.append((fn, value))
                return
            actor = self._idle_actors.pop()
            ref = fn(actor, value)
            self._future_to_actor[ref] = (self._next_task_index, actor, f"tag {value}")
            self._index_to_future[self._next_task_index] = ref
            self._next_task_index += 1

        def take(self):
            (ref,), _ = ray.wait(list(self._future_to_actor), num_returns=1)
            index, actor, tag = self._future_to_actor.pop(ref)
            del self._index_to_future[index]
            self._next_return_index = max(self._next_return_index, index + 1)
            self._return_actor(actor)
            return tag, ray.get(ref)

    pool = Tagged([Worker.remote()])
    for number in range(3):
        pool.submit(lambda actor, value: actor.double.remote(value), number)
    assert len(pool._pending_submits) == 2
    assert [pool.take() for _ in range(3)] == [("tag 0", 0), ("tag 1", 2), ("tag 2", 4)]
    assert not pool.has_next()
    assert pool.has_free()
