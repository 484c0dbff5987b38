"""`ray.util.multiprocessing.Pool`: what Python's pool does, on a cluster."""

from __future__ import annotations

import importlib
import multiprocessing
import operator
import os
import threading

import pytest

pytestmark = pytest.mark.usefixtures("cluster")


@pytest.fixture
def Pool(ray, cluster):
    return importlib.import_module(f"{ray.__name__}.util.multiprocessing").Pool


@pytest.fixture
def pool(Pool):
    with Pool(2) as pool:
        yield pool
    pool.join()


@pytest.fixture
def gate(tmp_path):
    path = tmp_path / "gate"

    def wait(value):
        import time

        while not path.exists():
            time.sleep(0.01)
        return value

    wait.open = path.touch
    yield wait
    path.touch()


def test_apply_returns_the_result(pool):
    assert pool.apply(operator.add, (1, 2)) == 3


def test_apply_takes_keyword_arguments(pool):
    assert pool.apply(dict, (), {"a": 1}) == {"a": 1}


def test_apply_without_arguments(pool):
    assert pool.apply(list) == []


def test_apply_raises_the_error_of_the_function_itself(pool):
    with pytest.raises(ZeroDivisionError):
        pool.apply(operator.truediv, (1, 0))


def test_apply_async_gives_a_result_to_get(pool):
    result = pool.apply_async(operator.add, (1, 2))
    assert result.get() == 3
    assert result.ready()
    assert result.successful()


def test_a_failed_result_is_not_successful(pool):
    result = pool.apply_async(operator.truediv, (1, 0))
    result.wait()
    assert result.ready()
    assert not result.successful()


def test_whether_a_result_was_successful_cannot_be_asked_before_it_is_ready(pool, gate):
    result = pool.apply_async(gate, (1,))
    with pytest.raises(ValueError, match="not ready"):
        result.successful()
    gate.open()
    assert result.get() == 1


def test_get_with_a_timeout_raises_multiprocessings_error(pool, gate):
    result = pool.apply_async(gate, (1,))
    with pytest.raises(multiprocessing.TimeoutError):
        result.get(timeout=0.05)
    assert not result.ready()
    gate.open()
    assert result.get(timeout=30) == 1


def test_wait_with_a_timeout_returns(pool, gate):
    result = pool.apply_async(gate, (1,))
    assert result.wait(timeout=0.05) is None
    gate.open()
    result.wait()
    assert result.ready()


def test_the_module_has_the_timeout_error(ray, cluster):
    module = importlib.import_module(f"{ray.__name__}.util.multiprocessing")
    assert module.TimeoutError is multiprocessing.TimeoutError


def test_a_callback_gets_the_result(pool):
    got, done = [], threading.Event()
    pool.apply_async(operator.add, (1, 2), callback=lambda x: (got.append(x), done.set()))
    assert done.wait(30)
    assert got == [3]


def test_a_callback_is_not_called_on_an_error_and_the_error_callback_is(pool):
    got, errors, done = [], [], threading.Event()
    pool.apply_async(
        operator.truediv,
        (1, 0),
        callback=got.append,
        error_callback=lambda e: (errors.append(e), done.set()),
    )
    assert done.wait(30)
    assert got == []
    assert len(errors) == 1
    assert isinstance(errors[0], Exception)


def test_the_callback_of_a_map_is_called_once_with_all_results(pool):
    got, done = [], threading.Event()
    pool.map_async(abs, [-1, 2, -3], callback=lambda x: (got.append(x), done.set())).get()
    assert done.wait(30)
    assert [sorted(each) for each in got] == [[1, 2, 3]]  # Ray's are in the order of their ends


def test_the_error_callback_of_a_map_is_called_once(pool):
    errors, done = [], threading.Event()
    result = pool.map_async(
        lambda x: 1 // x,
        [1, 0, 1, 0],
        chunksize=1,
        error_callback=lambda e: (errors.append(e), done.set()),
    )
    with pytest.raises(ZeroDivisionError):
        result.get()
    assert done.wait(30)
    assert len(errors) == 1


def test_map_keeps_the_order(pool):
    assert pool.map(abs, range(-50, 0)) == list(range(50, 0, -1))


@pytest.mark.parametrize("chunksize", [1, 2, 3, 7, 100])
def test_map_with_chunks_of(pool, chunksize):
    assert pool.map(abs, range(-7, 0), chunksize=chunksize) == list(range(7, 0, -1))


def test_map_of_many_short_chunks_with_long_ones_among_them(pool):
    def work(number):
        import time

        if number % 100 == 50:
            time.sleep(0.03)
        return number + 1

    for _ in range(2):
        assert pool.map(work, range(600), chunksize=1) == list(range(1, 601))


def test_map_takes_any_iterable(pool):
    assert pool.map(abs, (x for x in (-1, -2))) == [1, 2]
    assert pool.map(abs, iter([-1])) == [1]


def test_map_of_nothing_that_has_a_length(pool):
    assert pool.map(abs, [], chunksize=1) == []


def test_map_raises_the_first_error_in_order(pool):
    def check(x):
        if x:
            raise ValueError(f"item {x}")

    with pytest.raises(ValueError, match="item 1"):
        pool.map(check, [0, 1, 2, 3], chunksize=1)


def test_an_error_does_not_end_the_pool(pool):
    with pytest.raises(ZeroDivisionError):
        pool.map(lambda x: 1 // x, [0])
    assert pool.map(abs, [-1]) == [1]


def test_map_async(pool):
    assert pool.map_async(abs, [-1, -2]).get(timeout=30) == [1, 2]


def test_starmap_unpacks_the_items(pool):
    assert pool.starmap(operator.add, [(1, 2), (3, 4)]) == [3, 7]
    assert pool.starmap(operator.add, zip(range(3), range(3)), chunksize=2) == [0, 2, 4]


def test_starmap_async(pool):
    got, done = [], threading.Event()
    result = pool.starmap_async(
        operator.add, [(1, 2)], callback=lambda x: (got.append(x), done.set())
    )
    assert result.get() == [3]
    assert done.wait(30)
    assert got == [[3]]


def test_an_item_that_is_a_tuple_is_one_argument_of_map(pool):
    assert pool.map(len, [(1, 2), (3,)]) == [2, 1]


def test_imap_keeps_the_order(pool):
    assert list(pool.imap(abs, [-3, -2, -1])) == [3, 2, 1]


@pytest.mark.parametrize("chunksize", [1, 2, 5])
def test_imap_with_chunks_of(pool, chunksize):
    assert list(pool.imap(abs, range(-5, 0), chunksize=chunksize)) == [5, 4, 3, 2, 1]


def test_imap_unordered_gives_every_result_once(pool):
    assert sorted(pool.imap_unordered(abs, range(-9, 0), chunksize=2)) == list(range(1, 10))


def test_imap_unordered_gives_what_is_ready_first(pool, gate):
    iterator = pool.imap_unordered(lambda x: gate(x) if x == 1 else x, [1, 2])
    assert next(iterator) == 2
    gate.open()
    assert next(iterator) == 1


def test_imap_next_takes_a_timeout(pool, gate):
    iterator = pool.imap(gate, [1])
    with pytest.raises(multiprocessing.TimeoutError):
        iterator.next(timeout=0.05)
    gate.open()
    assert iterator.next(timeout=30) == 1
    with pytest.raises(StopIteration):
        iterator.next()


def test_imap_reads_no_more_of_a_generator_than_it_needs(pool):
    read = []

    def items():
        for number in range(100):
            read.append(number)
            yield number

    iterator = pool.imap(abs, items())
    assert next(iterator) == 0
    assert len(read) < 10


def test_closures_and_lambdas_travel(pool):
    offset = 10
    assert pool.map(lambda x: x + offset, [1, 2]) == [11, 12]


def test_bound_methods_travel(pool):
    class Adder:
        def __init__(self, by):
            self.by = by

        def add(self, x):
            return x + self.by

    assert pool.map(Adder(5).add, [1]) == [6]


def test_calls_run_in_other_processes(pool):
    assert os.getpid() not in pool.map(lambda _: os.getpid(), range(4), chunksize=1)


def test_large_items_and_results(pool):
    assert [len(x) for x in pool.map(bytes, [10, 1_000_000], chunksize=1)] == [10, 1_000_000]


def test_the_initializer_runs_in_each_process(Pool):
    def set_up(value):
        os.environ["POOL_TEST"] = value

    with Pool(2, initializer=set_up, initargs=("a",)) as pool:
        assert pool.map(lambda _: os.environ.get("POOL_TEST"), range(4), chunksize=1) == ["a"] * 4


def test_a_process_is_replaced_after_maxtasksperchild_chunks(Pool):
    with Pool(1, maxtasksperchild=2) as pool:
        pids = [pool.apply(os.getpid) for _ in range(4)]
    assert pids[0] == pids[1] != pids[2] == pids[3]


def test_a_closed_pool_takes_no_more_calls(Pool):
    pool = Pool(1)
    pool.close()
    with pytest.raises(ValueError, match="not running"):
        pool.apply(abs, (1,))
    with pytest.raises(ValueError, match="not running"):
        pool.map(abs, [1])
    with pytest.raises(ValueError, match="not running"):
        pool.imap(abs, [1])
    pool.join()


def test_calls_that_were_started_go_on_when_the_pool_is_closed(Pool, gate):
    pool = Pool(1)
    results = [pool.apply_async(gate, (number,)) for number in range(3)]
    pool.close()
    gate.open()
    pool.join()
    assert [result.get() for result in results] == [0, 1, 2]


def test_join_needs_a_closed_pool(pool):
    with pytest.raises(ValueError, match="still running"):
        pool.join()


def test_terminate_ends_a_pool_at_once(Pool, gate):
    pool = Pool(1)
    result = pool.apply_async(gate, (1,))
    pool.terminate()
    pool.join()
    with pytest.raises(Exception):
        result.get(timeout=30)


def test_the_end_of_the_with_statement_ends_the_pool(Pool):
    with Pool(1) as pool:
        assert pool.apply(abs, (-1,)) == 1
    with pytest.raises(ValueError, match="not running"):
        pool.apply(abs, (1,))


@pytest.mark.parametrize("processes", [0, -1])
def test_a_pool_has_processes(Pool, processes):
    with pytest.raises(ValueError, match=">0"):
        Pool(processes)


def test_a_pool_has_no_more_processes_than_the_cluster_has_cpus(Pool):
    with pytest.raises(ValueError, match="CPUs"):
        Pool(1000)


def test_options_of_the_actors(ray, Pool):
    with Pool(1, ray_remote_args={"resources": {"custom": 1}}) as pool:
        got = pool.apply(lambda: ray.get_runtime_context().get_assigned_resources())
    assert got["custom"] == 1


def test_a_failing_initializer_fails_the_pool(ray, Pool):
    def fail():
        raise ValueError("no")

    with pytest.raises(ray.exceptions.RayError):
        Pool(1, initializer=fail)


def test_a_pool_in_a_task(ray, Pool):
    @ray.remote
    def work():
        with Pool(1) as pool:
            return pool.map(abs, [-1, -2])

    assert ray.get(work.remote()) == [1, 2]


def test_references_are_items(ray, pool):
    refs = [ray.put(number) for number in range(3)]
    assert pool.map(lambda ref: ray.get(ref) * 2, refs) == [0, 2, 4]
