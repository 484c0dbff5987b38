"""Functions and classes whose last call has ended: no process keeps their code."""

from __future__ import annotations

import gc
import os
import sys
import tempfile
import threading
from concurrent.futures import ThreadPoolExecutor

import cloudpickle
import numpy as np
import pytest

import raycompat as ray
from raycompat.util import dask

pytestmark = pytest.mark.usefixtures("cluster")

cloudpickle.register_pickle_by_value(sys.modules[__name__])  # the cluster has no such module


def of_scheduler(dask_scheduler):
    functions = dask_scheduler.plugins["raycompat"].parts.jobs.functions
    found = {
        name: len(table) for name, table in vars(functions).items() if hasattr(table, "__len__")
    }
    return {name: number for name, number in found.items() if name != "_forgotten"}


def of_node(dask_worker):
    from raycompat._protocol import task_bodies

    jobs = task_bodies.runners[dask_worker].jobs
    return len(jobs._functions), len(jobs._receivers)


def everywhere(session):
    gc.collect()
    session.wake()
    client = dask.client()
    return {
        "scheduler": client.run_on_scheduler(of_scheduler),
        "nodes": list(client.run(of_node).values()),
        "driver": (len(session.exports.codes), len(session.exports.own_ids)),
    }


def make(number):
    data = os.urandom(1000) + bytes(number)

    @ray.remote
    def size(value=None):
        return len(data)

    return size


@ray.remote
def num_loaded():
    from raycompat._caller import this_process

    executor = this_process.executor()
    return len(executor._code) + len(executor._requests)


@ray.remote
class Caller:
    def take(self, function):
        self.function = function

    def call(self):
        return ray.get(self.function.remote())


def test_functions_and_classes_go_with_their_last_call(session, wait_until):
    ray.get(num_loaded.remote())
    before = everywhere(session)
    for number in range(30):
        size = make(number)
        assert ray.get(size.remote()) == 1000 + number
        assert (
            ray.get(size.options(scheduling_strategy="SPREAD").remote([ray.put(1)]))
            == 1000 + number
        )
        large = ray.put(np.zeros(200_000))
        assert ray.get(size.remote(large)) == 1000 + number

        @ray.remote(num_cpus=0)
        class Actor:
            def size(self, number=number):
                return number

        if number % 10 == 0:
            actor = Actor.remote()
            assert ray.get(actor.size.remote()) == number
            del actor
    del size, Actor, large
    wait_until(lambda: everywhere(session) == before, 60)
    assert max(ray.get([num_loaded.remote() for _ in range(8)])) <= 3


def test_a_function_that_several_threads_call_first_stays(session):
    """Each of them has pickled it, and one has sent it."""
    for _ in range(3):
        at_once = threading.Barrier(4)

        class Slow:
            def __reduce__(self):
                at_once.wait(30)  # all threads pickle the function before one has sent it
                return int, ()

        slow = Slow()

        @ray.remote
        def call():
            return slow

        with ThreadPoolExecutor(4) as threads:
            assert ray.get(
                [each.result() for each in [threads.submit(call.remote) for _ in range(4)]]
            )
        everywhere(session)
        ray.get(call.options(scheduling_strategy="SPREAD").remote())
        client = dask.client()
        assert client.run_on_scheduler(has_code, call._exports[session.setup.job])
        del call


def has_code(function, dask_scheduler):
    return function in dask_scheduler.plugins["raycompat"].parts.jobs.functions._functions


def test_a_function_that_is_gone_runs_its_calls(session, wait_until):
    with tempfile.TemporaryDirectory() as folder:

        @ray.remote(max_retries=2)
        def fails_once(value, name):
            path = os.path.join(folder, name)
            if not os.path.exists(path):
                open(path, "w").close()
                os._exit(1)
            return value

        @ray.remote
        class Waits:
            def __init__(self):
                import threading

                self._may_go_on = threading.Event()

            def wait(self):
                self._may_go_on.wait()
                return 5

            def go_on(self):
                self._may_go_on.set()

        waits = Waits.options(max_concurrency=2).remote()
        pending = waits.wait.remote()
        results = [
            fails_once.remote(pending, "lease"),
            fails_once.options(scheduling_strategy="SPREAD").remote(pending, "scheduler"),
        ]
        before = everywhere(session)
        del fails_once, Waits
        wait_until(lambda: everywhere(session)["driver"] != before["driver"], 60)
        waits.go_on.remote()
        assert ray.get(results, timeout=120) == [5, 5]


def test_an_actor_restarts_whose_class_is_gone(session, wait_until):
    @ray.remote(max_restarts=1, max_task_retries=1)
    class Actor:
        def __init__(self):
            self.pid = os.getpid()

        def pid_of_its_process(self):
            return self.pid

    actor = Actor.remote()
    first = ray.get(actor.pid_of_its_process.remote())
    before = everywhere(session)
    del Actor
    wait_until(lambda: everywhere(session)["driver"] != before["driver"], 60)
    ray.kill(actor, no_restart=False)
    wait_until(lambda: ray.get(actor.pid_of_its_process.remote(), timeout=60) != first, 60)


def test_a_lost_result_is_computed_again_by_a_function_that_is_gone(session):
    @ray.remote
    def make():
        return np.ones(200_000)

    made = make.remote()
    ray.wait([made])
    del make
    gc.collect()
    os.unlink(session.table.get(made._key).value.path)
    assert ray.get(made, timeout=60).sum() == 200_000


def test_a_function_that_was_sent_stays(session):
    """The process that has it can call it at any time."""
    caller, size = Caller.remote(), make(1)
    ray.get(caller.take.remote(size))
    del size
    assert everywhere(session)["scheduler"]["_functions"]
    for _ in range(2):
        assert ray.get(caller.call.remote()) == 1001


def test_an_executor_with_little_room_for_code_loads_it_again():
    @ray.remote
    def call(one, two):
        from raycompat._caller import this_process

        executor = this_process.executor()
        functions = [each._exports[executor.session.setup.job] for each in (one, two)]
        executor._code.forget(functions)  # it may have run them
        executor._code._most_bytes = 1
        found = [executor.load(function)() for function in functions * 3]
        executor._code._most_bytes = 64 << 20
        return found, len(executor._code)

    one, two = make(1), make(2)
    ray.get([one.remote(), two.remote()])
    assert ray.get(call.remote(one, two)) == ([1001, 1002] * 3, 1)
