"""Actors of sync methods that overlap: threads, concurrency groups, and the order of calls."""

from __future__ import annotations

import asyncio
import os
import threading
import time

import numpy as np
import pytest
from _polling import is_running, wait_for_files, wait_until

pytestmark = pytest.mark.usefixtures("cluster")


@pytest.fixture
def Crowd(ray, cluster):
    """A class of actors that tell how many calls of `enter` were in there at once.

    All wait until `expected` are there, and then a moment more for those who should not be.
    """

    @ray.remote
    class Crowd:
        def __init__(self, expected):
            self.expected = expected
            self.present = 0
            self.peak = 0
            self.lock = threading.Lock()
            self.complete = threading.Event()

        def enter(self):
            with self.lock:
                self.present += 1
                self.peak = max(self.peak, self.present)
                if self.present == self.expected:
                    threading.Timer(0.1, self.complete.set).start()
            assert self.complete.wait(30)
            with self.lock:
                self.present -= 1

        def most(self):
            return self.peak

    return Crowd


@pytest.fixture
def Threads(ray, cluster):
    """A class of actors with two groups, whose methods tell their thread when `number` are there."""

    class Threads:
        def __init__(self):
            self.barriers = {}
            self.lock = threading.Lock()

        def meet(self, name, number):
            with self.lock:
                barrier = self.barriers.setdefault(name, threading.Barrier(number))
            barrier.wait(30)
            return threading.get_ident()

        @ray.method(concurrency_group="io")
        def meet_in_io(self, name, number):
            return self.meet(name, number)

        @ray.method(concurrency_group="compute")
        def meet_in_compute(self, name, number):
            return self.meet(name, number)

    return ray.remote(concurrency_groups={"io": 2, "compute": 4})(Threads)


@pytest.fixture
def until(ray, cluster):
    """A task that gives the value once the file is there."""

    @ray.remote(num_cpus=0)
    def until(path, value):
        while not path.exists():
            time.sleep(0.01)
        return value

    return until


# Threads


def test_as_many_calls_overlap_as_max_concurrency_says(ray):
    @ray.remote(max_concurrency=4)
    class Meeting:
        def __init__(self):
            self.barrier = threading.Barrier(4)

        def meet(self):
            return self.barrier.wait(30)

    meeting = Meeting.remote()
    assert sorted(ray.get([meeting.meet.remote() for _ in range(4)])) == [0, 1, 2, 3]


@pytest.mark.parametrize("number", [1, 2, 5])
def test_never_more_calls_overlap_than_max_concurrency_says(ray, Crowd, number):
    crowd = Crowd.options(max_concurrency=number).remote(number)
    ray.get([crowd.enter.remote() for _ in range(number + 3)])
    assert ray.get(crowd.most.remote()) == number


def test_a_call_that_waits_is_released_by_another_call(ray):
    @ray.remote(max_concurrency=2)
    class Gate:
        def __init__(self):
            self.opened = threading.Event()

        def wait(self):
            return self.opened.wait(30)

        def open(self):
            self.opened.set()

    gate = Gate.remote()
    waiting = gate.wait.remote()
    assert ray.wait([waiting], timeout=0.1) == ([], [waiting])
    gate.open.remote()
    assert ray.get(waiting) is True


def test_calls_that_overlap_run_in_different_threads_of_one_process(ray):
    @ray.remote(max_concurrency=3)
    class Meeting:
        def __init__(self):
            self.barrier = threading.Barrier(3)

        def meet(self):
            self.barrier.wait(30)
            return os.getpid(), threading.get_ident()

    meeting = Meeting.remote()
    pids, threads = zip(*ray.get([meeting.meet.remote() for _ in range(3)]), strict=True)
    assert len(set(pids)) == 1
    assert len(set(threads)) == 3


def test_the_threads_are_used_again(ray):
    @ray.remote(max_concurrency=3)
    class Threads:
        def __init__(self):
            self.seen = threading.local()

        def mark(self):
            fresh = not hasattr(self.seen, "mark")
            self.seen.mark = True
            return fresh

    threads = Threads.remote()
    assert 1 <= sum(ray.get([threads.mark.remote() for _ in range(50)])) <= 3


def test_an_ordinary_actor_runs_constructor_and_methods_in_the_main_thread(ray):
    @ray.remote
    class Plain:
        def __init__(self):
            self.made_in_main = threading.current_thread() is threading.main_thread()

        def look(self):
            return self.made_in_main, threading.current_thread() is threading.main_thread()

    assert ray.get(Plain.remote().look.remote()) == (True, True)


def test_a_threaded_actor_runs_its_methods_beside_the_main_thread(ray):
    @ray.remote(max_concurrency=2)
    class Plain:
        def __init__(self):
            self.made_in_main = threading.current_thread() is threading.main_thread()

        def look(self):
            return self.made_in_main, threading.current_thread() is threading.main_thread()

    assert ray.get(Plain.remote().look.remote()) == (True, False)


def test_a_sync_method_of_a_threaded_actor_has_no_running_loop(ray):
    @ray.remote(max_concurrency=2)
    class Plain:
        def run(self):
            with pytest.raises(RuntimeError, match="no running event loop"):
                asyncio.get_running_loop()
            return asyncio.run(asyncio.sleep(0, "a loop of its own"))

    assert ray.get(Plain.remote().run.remote()) == "a loop of its own"


@pytest.mark.parametrize(
    ("value", "error", "message"),
    [
        (-1, ValueError, "'max_concurrency' only accepts None, 0 or a positive integer"),
        (1.5, TypeError, "The type of keyword 'max_concurrency' must be"),
        ("2", TypeError, "The type of keyword 'max_concurrency' must be"),
    ],
)
def test_a_bad_max_concurrency_is_an_error_of_the_decorator(ray, value, error, message):
    class Plain:
        pass

    with pytest.raises(error, match=message):
        ray.remote(max_concurrency=value)(Plain)


def test_generator_methods_of_a_threaded_actor_overlap(ray):
    @ray.remote(max_concurrency=2)
    class Counters:
        def __init__(self):
            self.barrier = threading.Barrier(2)

        def count(self, number):
            for item in range(number):
                self.barrier.wait(30)
                yield item

    counters = Counters.remote()
    one, two = counters.count.remote(5), counters.count.remote(5)
    assert ray.get(list(one)) == ray.get(list(two)) == [0, 1, 2, 3, 4]


# What a thread can do


def test_the_context_is_right_in_every_thread(ray):
    @ray.remote(max_concurrency=4)
    class Context:
        def __init__(self):
            self.barrier = threading.Barrier(4)

        def ids(self):
            context = ray.get_runtime_context()
            before = (context.get_task_id(), context.get_actor_id())
            self.barrier.wait(30)
            return before, (context.get_task_id(), context.get_actor_id())

    actor = Context.remote()
    refs = [actor.ids.remote() for _ in range(4)]
    for ref, (before, after) in zip(refs, ray.get(refs), strict=True):
        assert before == after == (ref.task_id().hex(), actor._actor_id.hex())


def test_all_threads_can_put_get_and_start_tasks(ray):
    @ray.remote(num_cpus=0)
    def total(array):
        return int(array.sum())

    @ray.remote(max_concurrency=4)
    class Worker:
        def __init__(self):
            self.barrier = threading.Barrier(4)

        def work(self, number):
            self.barrier.wait(30)
            array = ray.get(ray.put(np.full(50_000, number)))
            return ray.get(total.remote(array))

    worker = Worker.remote()
    totals = ray.get([worker.work.remote(number) for number in range(4)])
    assert totals == [0, 50_000, 100_000, 150_000]


def test_a_call_that_blocks_in_get_leaves_the_other_threads(ray, until, tmp_path):
    @ray.remote(max_concurrency=2)
    class Worker:
        def get(self, references):
            return ray.get(references[0])

        def touch(self, path):
            path.touch()

    worker = Worker.remote()
    got = worker.get.remote([until.remote(tmp_path / "go", "result")])
    ray.get(worker.touch.remote(tmp_path / "go"))
    assert ray.get(got) == "result"


def test_an_error_in_one_thread_leaves_the_others(ray, tmp_path):
    @ray.remote(max_concurrency=2)
    class Worker:
        def __init__(self):
            self.opened = threading.Event()

        def wait(self, path):
            path.touch()
            return self.opened.wait(30)

        def fail(self):
            raise ValueError("in this thread")

        def open(self):
            self.opened.set()

    worker = Worker.remote()
    waiting = worker.wait.remote(tmp_path / "on")
    wait_for_files(tmp_path / "on")
    with pytest.raises(ValueError, match="in this thread"):
        ray.get(worker.fail.remote())
    worker.open.remote()
    assert ray.get(waiting) is True


def test_kill_ends_all_threads(ray, tmp_path):
    @ray.remote(max_concurrency=2)
    class Worker:
        def wait(self, path):
            path.write_text(str(os.getpid()))
            path.with_suffix(".done").touch()
            threading.Event().wait()

    worker = Worker.remote()
    calls = [worker.wait.remote(tmp_path / name) for name in "ab"]
    wait_for_files(tmp_path / "a.done", tmp_path / "b.done")
    ray.kill(worker)
    for call in calls:
        with pytest.raises(ray.exceptions.ActorDiedError, match="killed by `ray.kill`"):
            ray.get(call)
    pid = int((tmp_path / "a").read_text())
    wait_until(lambda: not is_running(pid))


def test_exit_actor_in_a_thread_ends_the_actor(ray):
    @ray.remote(max_concurrency=2)
    class Process:
        def pid(self):
            return os.getpid()

        def leave(self):
            ray.actor.exit_actor()

    process = Process.remote()
    pid = ray.get(process.pid.remote())
    with pytest.raises(ray.exceptions.ActorDiedError, match=r"exit_actor\(\) is called"):
        ray.get(process.leave.remote())
    wait_until(lambda: not is_running(pid))


# Concurrency groups


def test_a_group_has_as_many_threads_as_it_was_given(ray, Threads):
    threads = Threads.remote()
    in_io = ray.get([threads.meet_in_io.remote("io", 2) for _ in range(6)])
    in_compute = ray.get([threads.meet_in_compute.remote("compute", 4) for _ in range(8)])
    assert len(set(in_io)) == 2
    assert len(set(in_compute)) == 4
    assert set(in_io).isdisjoint(in_compute)


def test_a_method_without_a_group_runs_in_a_thread_of_its_own(ray, Threads):
    threads = Threads.remote()
    default = set(ray.get([threads.meet.remote(number, 1) for number in range(10)]))
    assert len(default) == 1
    assert default.isdisjoint(ray.get([threads.meet_in_io.remote("io", 2) for _ in range(2)]))


def test_max_concurrency_is_for_the_methods_without_a_group(ray, Threads):
    threads = Threads.options(max_concurrency=3).remote()
    assert len(set(ray.get([threads.meet.remote("default", 3) for _ in range(6)]))) == 3
    assert len(set(ray.get([threads.meet_in_io.remote("io", 2) for _ in range(4)]))) == 2


def test_a_full_group_does_not_keep_the_others_from_running(ray, Threads):
    threads = Threads.remote()
    full = [threads.meet_in_io.remote("together", 3) for _ in range(2)]
    queued = threads.meet_in_io.remote("alone", 1)
    assert ray.get(threads.meet_in_compute.remote("compute", 1)) != 0
    assert ray.wait([*full, queued], timeout=0.1)[0] == []
    ray.get(threads.meet.remote("together", 3))
    ray.get([*full, queued])


def test_options_move_a_call_to_another_group(ray, Threads):
    threads = Threads.remote()
    in_io = set(ray.get([threads.meet_in_io.remote("io", 2) for _ in range(2)]))
    moved = threads.meet.options(concurrency_group="io").remote("moved", 1)
    moved_too = threads.meet_in_compute.options(concurrency_group="io").remote("too", 1)
    assert set(ray.get([moved, moved_too])) <= in_io


def test_options_of_the_actor_cannot_name_groups(ray):
    @ray.remote
    class Plain:
        pass

    with pytest.raises(ValueError, match="'concurrency_groups' is not supported in '.options"):
        Plain.options(concurrency_groups={"io": 2})


def test_a_method_of_an_unknown_group_is_an_assertion_error_when_the_actor_is_made(ray):
    @ray.remote(concurrency_groups={"io": 2})
    class Lost:
        @ray.method(concurrency_group="oi")
        def work(self):
            pass

    with pytest.raises(AssertionError):
        Lost.remote()


def test_a_call_in_an_unknown_group_fails(ray, Threads):
    # Ray's actor dies of it.
    threads = Threads.remote()
    with pytest.raises((ValueError, ray.exceptions.ActorDiedError)):
        ray.get(threads.meet.options(concurrency_group="oi").remote("nowhere", 1))


def test_every_group_of_an_async_actor_has_a_loop_of_its_own(ray):
    @ray.remote(concurrency_groups={"io": 2, "compute": 4})
    class Loops:
        def look(self):
            return threading.get_ident(), id(asyncio.get_running_loop())

        async def in_none(self):
            return self.look()

        @ray.method(concurrency_group="io")
        async def in_io(self):
            return self.look()

        @ray.method(concurrency_group="compute")
        async def in_compute(self):
            return self.look()

    loops = Loops.remote()
    none, io, compute = ray.get(
        [loops.in_none.remote(), loops.in_io.remote(), loops.in_compute.remote()]
    )
    assert len({none, io, compute}) == 3
    assert ray.get(loops.look.remote()) == none
    assert ray.get(loops.look.options(concurrency_group="io").remote()) == io


def test_a_group_of_an_async_actor_runs_as_many_calls_at_once_as_it_was_given(ray):
    @ray.remote(concurrency_groups={"io": 2})
    class Crowd:
        def __init__(self):
            self.present = 0
            self.peak = 0

        @ray.method(concurrency_group="io")
        async def enter(self):
            self.present += 1
            self.peak = max(self.peak, self.present)
            while self.peak < 2:
                await asyncio.sleep(0)
            await asyncio.sleep(0.01)
            self.present -= 1

        async def most(self):
            return self.peak

    crowd = Crowd.remote()
    ray.get([crowd.enter.remote() for _ in range(8)])
    assert ray.get(crowd.most.remote()) == 2


# The order


@pytest.fixture
def Log(ray, cluster):
    """A class of actors that note the words they are given, in the order in which they ran."""

    @ray.remote
    class Log:
        def __init__(self):
            self.words = []

        def write(self, word):
            self.words.append(word)
            return list(self.words)

    return Log


@pytest.mark.parametrize("options", [{}, {"allow_out_of_order_execution": False}])
def test_an_ordinary_actor_waits_for_the_arguments_of_every_call_in_turn(
    ray, Log, until, tmp_path, options
):
    log = Log.options(**options).remote()
    late = log.write.remote(until.remote(tmp_path / "go", "late"))
    later = log.write.remote("later")
    assert ray.wait([late, later], timeout=0.2)[0] == []
    (tmp_path / "go").touch()
    assert ray.get([late, later]) == [["late"], ["late", "later"]]


@pytest.mark.parametrize(
    "options", [{"allow_out_of_order_execution": True}, {"max_concurrency": 2}]
)
def test_a_call_whose_argument_is_late_is_passed_when_order_is_not_kept(
    ray, Log, until, tmp_path, options
):
    log = Log.options(**options).remote()
    late = log.write.remote(until.remote(tmp_path / "go", "late"))
    assert ray.get([log.write.remote("early")]) == [["early"]]
    assert ray.wait([late], timeout=0)[0] == []
    (tmp_path / "go").touch()
    assert ray.get(late) == ["early", "late"]


def test_a_threaded_actor_cannot_be_made_to_keep_the_order(ray, Log):
    log = Log.options(max_concurrency=2, allow_out_of_order_execution=False)
    with pytest.raises(ValueError, match="multi-threaded actors.*in order"):
        log.remote()


def test_an_actor_that_does_not_keep_the_order_runs_one_call_at_a_time(ray, Crowd):
    crowd = Crowd.options(allow_out_of_order_execution=True).remote(1)
    ray.get([crowd.enter.remote() for _ in range(5)])
    assert ray.get(crowd.most.remote()) == 1


def test_allow_out_of_order_execution_is_true_or_false(ray, Log):
    with pytest.raises(TypeError, match="'allow_out_of_order_execution' must be"):
        Log.options(allow_out_of_order_execution=1).remote()
