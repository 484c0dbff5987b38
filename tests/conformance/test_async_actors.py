"""Actors with `async def` methods: what overlaps, in which order, in which thread, and how it ends."""

from __future__ import annotations

import asyncio
import os
import sys
import threading
import time

import pytest
from _polling import is_running, wait_for_files, wait_until

pytestmark = pytest.mark.usefixtures("cluster")


@pytest.fixture
def Gate(ray, cluster):
    """A class of actors whose calls of `wait` last until `open` is called."""

    @ray.remote
    class Gate:
        def __init__(self):
            self.opened = asyncio.Event()
            self.started = []

        async def wait(self, value=None):
            self.started.append(value)
            await self.opened.wait()
            return value

        async def open(self):
            self.opened.set()

        async def started_so_far(self):
            return self.started

    return Gate


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
            self.complete = asyncio.Event()

        async def enter(self):
            self.present += 1
            self.peak = max(self.peak, self.present)
            if self.present >= self.expected:
                asyncio.get_running_loop().call_later(0.1, self.complete.set)
            await self.complete.wait()
            self.present -= 1

        async def most(self):
            return self.peak

    return Crowd


# What overlaps


def test_a_call_that_waits_is_released_by_another_call(ray, Gate):
    gate = Gate.remote()
    waiting = gate.wait.remote("through")
    assert ray.wait([waiting], timeout=0.1) == ([], [waiting])
    gate.open.remote()
    assert ray.get(waiting) == "through"


def test_a_thousand_calls_and_no_more_overlap_by_default(ray, Crowd):
    crowd = Crowd.remote(1000)
    ray.get([crowd.enter.remote() for _ in range(1010)])
    assert ray.get(crowd.most.remote()) == 1000


def test_more_calls_than_the_recursion_limit_can_overlap(ray, Crowd):
    assert sys.getrecursionlimit() <= 1100
    crowd = Crowd.options(max_concurrency=1500).remote(1100)
    ray.get([crowd.enter.remote() for _ in range(1100)])
    assert ray.get(crowd.most.remote()) == 1100


@pytest.mark.parametrize("number", [1, 2, 5])
def test_max_concurrency_is_how_many_calls_overlap(ray, Crowd, number):
    crowd = Crowd.options(max_concurrency=number).remote(number)
    ray.get([crowd.enter.remote() for _ in range(number + 3)])
    assert ray.get(crowd.most.remote()) == number


def test_with_a_max_concurrency_of_one_a_call_ends_before_the_next_begins(ray):
    @ray.remote(max_concurrency=1)
    class Log:
        def __init__(self):
            self.lines = []

        async def write(self, number):
            self.lines.append(("in", number))
            await asyncio.sleep(0)
            self.lines.append(("out", number))

        async def read(self):
            return self.lines

    log = Log.remote()
    ray.get([log.write.remote(number) for number in range(20)])
    lines = ray.get(log.read.remote())
    assert [what for what, _ in lines] == ["in", "out"] * 20
    assert [number for _, number in lines[::2]] == [number for _, number in lines[1::2]]
    assert {number for _, number in lines} == set(range(20))


def test_sync_methods_never_run_while_another_call_has_the_loop(ray):
    @ray.remote
    class Pairs:
        def __init__(self):
            self.lines = []

        def write(self, number):
            self.lines.append(number)
            time.sleep(0.001)
            self.lines.append(number)

        async def write_async(self, number):
            self.write(number)
            await asyncio.sleep(0)
            self.write(number)

        async def read(self):
            return self.lines

    pairs = Pairs.remote()
    methods = [pairs.write, pairs.write_async]
    ray.get([method.remote(number) for number in range(20) for method in methods])
    lines = ray.get(pairs.read.remote())
    assert len(lines) == 20 * 6
    assert lines[::2] == lines[1::2]


# The order


def test_a_call_that_waits_for_its_argument_lets_later_calls_pass(ray, tmp_path):
    @ray.remote
    def until(path):
        while not path.exists():
            time.sleep(0.01)
        return "late"

    @ray.remote
    class Echo:
        async def say(self, word):
            return word

    echo = Echo.remote()
    late = echo.say.remote(until.remote(tmp_path / "go"))
    assert ray.get(echo.say.remote("early")) == "early"
    assert ray.wait([late], timeout=0) == ([], [late])
    (tmp_path / "go").touch()
    assert ray.get(late) == "late"


def test_an_async_actor_cannot_be_made_to_keep_the_order(ray):
    @ray.remote
    class Plain:
        async def answer(self):
            return 42

    plain = Plain.options(allow_out_of_order_execution=False)
    with pytest.raises(ValueError, match="async actors.*in order"):
        plain.remote()


# The loop and its thread


def test_sync_and_async_methods_run_in_one_thread_and_loop(ray):
    @ray.remote
    class Threads:
        def sync(self):
            return threading.get_ident(), id(asyncio.get_running_loop())

        async def once(self):
            return self.sync()

        async def again(self):
            await asyncio.sleep(0)
            return self.sync()

    threads = Threads.remote()
    calls = [threads.sync.remote(), threads.once.remote(), threads.again.remote()]
    assert len(set(ray.get(calls))) == 1


def test_a_sync_method_can_start_a_task_of_asyncio(ray):
    @ray.remote
    class Starter:
        def start(self):
            self.task = asyncio.get_running_loop().create_task(self.work())

        async def work(self):
            await asyncio.sleep(0)
            return "worked"

        async def finish(self):
            return await self.task

    starter = Starter.remote()
    ray.get(starter.start.remote())
    assert ray.get(starter.finish.remote()) == "worked"


def test_the_constructor_of_an_async_actor_runs_in_the_loop(ray):
    @ray.remote
    class Loops:
        def __init__(self):
            self.made_in = (threading.get_ident(), id(asyncio.get_running_loop()))

        async def compare(self):
            return self.made_in == (threading.get_ident(), id(asyncio.get_running_loop()))

    assert ray.get(Loops.remote().compare.remote()) is True


def test_the_constructor_may_be_a_coroutine(ray):
    @ray.remote
    class Slow:
        async def __init__(self):
            await asyncio.sleep(0)
            self.ready = True

        def look(self):
            return self.ready

    assert ray.get(Slow.remote().look.remote()) is True


def test_a_task_that_a_call_started_goes_on_after_the_call(ray, tmp_path):
    @ray.remote
    class Starter:
        async def start(self, go, done):
            async def work():
                while not go.exists():
                    await asyncio.sleep(0.01)
                done.touch()

            self.task = asyncio.create_task(work())

    starter = Starter.remote()
    ray.get(starter.start.remote(tmp_path / "go", tmp_path / "done"))
    assert not (tmp_path / "done").exists()
    (tmp_path / "go").touch()
    wait_for_files(tmp_path / "done")


# Requirements on the class


def test_one_inherited_async_method_makes_an_async_actor(ray):
    class Base:
        async def wait(self):
            await self.opened.wait()
            return "through"

    @ray.remote
    class Derived(Base):
        def __init__(self):
            self.opened = asyncio.Event()

        def open(self):
            self.opened.set()

    gate = Derived.remote()
    waiting = gate.wait.remote()
    gate.open.remote()
    assert ray.get(waiting) == "through"


def test_an_async_generator_alone_makes_an_async_actor(ray):
    @ray.remote
    class Counter:
        def on_a_loop(self):
            return asyncio.get_running_loop().is_running()

        async def count(self):
            yield 1

    assert ray.get(Counter.remote().on_a_loop.remote()) is True


def test_an_async_method_can_have_two_results(ray):
    @ray.remote
    class Splitter:
        @ray.method(num_returns=2)
        async def pair(self):
            return "one", "two"

        async def items(self, number):
            return list(range(number))

    splitter = Splitter.remote()
    assert ray.get(splitter.pair.remote()) == ["one", "two"]
    assert ray.get(splitter.items.options(num_returns=3).remote(3)) == [0, 1, 2]


# References


def test_an_async_method_gets_the_value_of_a_reference_and_awaits_one_in_a_list(ray):
    @ray.remote
    class Adder:
        async def add(self, value, references):
            return value + await references[0]

    assert ray.get(Adder.remote().add.remote(ray.put(1), [ray.put(2)])) == 3


def test_an_async_method_gathers_references(ray):
    @ray.remote
    def square(number):
        return number**2

    @ray.remote
    class Gatherer:
        async def squares(self, count):
            return await asyncio.gather(*[square.remote(number) for number in range(count)])

    assert ray.get(Gatherer.remote().squares.remote(20)) == [number**2 for number in range(20)]


def test_two_actors_await_each_other(ray):
    @ray.remote
    class Player:
        async def play(self, other, rounds):
            return 0 if rounds == 0 else 1 + await other.play.remote(self.me, rounds - 1)

        async def know(self, me):
            self.me = me

    one, two = Player.remote(), Player.remote()
    ray.get([one.know.remote(one), two.know.remote(two)])
    assert ray.get(one.play.remote(two, 10)) == 10
    for player in (one, two):  # each has a handle to itself, so only a kill ends it
        ray.kill(player)


def test_an_actor_awaits_its_own_call(ray):
    @ray.remote
    class Countdown:
        async def count(self, number):
            if number == 0:
                return []
            me = ray.get_runtime_context().current_actor
            return [number, *await me.count.remote(number - 1)]

    assert ray.get(Countdown.remote().count.remote(5)) == [5, 4, 3, 2, 1]


def test_get_works_in_an_async_method(ray):
    @ray.remote
    def square(number):
        return number**2

    @ray.remote
    class Getter:
        async def square(self, number):
            return ray.get(square.remote(number))

    assert ray.get(Getter.remote().square.remote(7)) == 49


def test_get_works_in_a_thread_that_an_async_method_awaits(ray):
    @ray.remote
    def square(number):
        return number**2

    @ray.remote
    class Getter:
        async def square(self, number):
            return await asyncio.to_thread(lambda: ray.get(square.remote(number)))

    assert ray.get(Getter.remote().square.remote(7)) == 49


def test_tasks_wait_for_a_signal(ray, Gate):
    @ray.remote(num_cpus=0.5)
    def runner(gate, number):
        ray.get(gate.wait.remote(number))
        return number

    gate = Gate.remote()
    runners = [runner.remote(gate, number) for number in range(4)]
    wait_until(lambda: len(ray.get(gate.started_so_far.remote())) == 4)
    assert ray.wait(runners, timeout=0)[0] == []
    ray.get(gate.open.remote())
    assert ray.get(runners) == [0, 1, 2, 3]


# Errors


def test_an_error_in_an_async_method_is_raised_by_get_as_its_own_class(ray):
    class OwnError(Exception):
        pass

    @ray.remote
    class Failing:
        async def fail(self):
            await asyncio.sleep(0)
            raise OwnError("own message")

        async def answer(self):
            return 42

    failing = Failing.remote()
    with pytest.raises(OwnError, match="own message") as caught:
        ray.get(failing.fail.remote())
    assert isinstance(caught.value, ray.exceptions.RayTaskError)
    assert ray.get(failing.answer.remote()) == 42


def test_an_error_that_a_method_awaits_can_be_caught_there(ray):
    @ray.remote
    def fail():
        raise ValueError("of the task")

    @ray.remote
    class Catcher:
        async def catch(self):
            try:
                await fail.remote()
            except ValueError as error:
                return "of the task" in str(error)

    assert ray.get(Catcher.remote().catch.remote()) is True


# Cancellation


def test_a_cancelled_call_leaves_the_calls_beside_it(ray, Gate):
    gate = Gate.remote()
    refs = [gate.wait.remote(number) for number in range(3)]
    wait_until(lambda: len(ray.get(gate.started_so_far.remote())) == 3)
    ray.cancel(refs[1])
    with pytest.raises(ray.exceptions.TaskCancelledError):
        ray.get(refs[1])
    gate.open.remote()
    assert ray.get([refs[0], refs[2]]) == [0, 2]


def test_a_queued_call_that_is_cancelled_is_never_run(ray, tmp_path):
    @ray.remote(max_concurrency=1)
    class Room:
        async def visit(self, path, go):
            path.touch()
            while not go.exists():
                await asyncio.sleep(0.01)
            return path.name

    room, go = Room.remote(), tmp_path / "go"
    first = room.visit.remote(tmp_path / "first", go)
    wait_for_files(tmp_path / "first")
    second, third = (room.visit.remote(tmp_path / name, go) for name in ("second", "third"))
    ray.cancel(second)
    ray.wait([second], timeout=0.3)  # Ray tells only when the first has ended
    go.touch()
    with pytest.raises(ray.exceptions.TaskCancelledError):
        ray.get(second, timeout=30)
    assert ray.get([first, third], timeout=30) == ["first", "third"]
    assert not (tmp_path / "second").exists()


def test_a_call_that_catches_its_cancellation_is_a_task_cancelled_error_still(ray, tmp_path):
    @ray.remote
    class Stubborn:
        async def sleep(self, started, caught):
            started.touch()
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                caught.touch()
                return "caught"

        async def answer(self):
            return 42

    stubborn = Stubborn.remote()
    ref = stubborn.sleep.remote(tmp_path / "started", tmp_path / "caught")
    wait_for_files(tmp_path / "started")
    ray.cancel(ref)
    with pytest.raises(ray.exceptions.TaskCancelledError, match="was cancelled"):
        ray.get(ref)
    wait_for_files(tmp_path / "caught")
    assert ray.get(stubborn.answer.remote()) == 42


def test_a_cancelled_call_takes_the_task_it_awaits_with_it(ray, tmp_path):
    @ray.remote
    def child(path, end, saw):
        path.touch()
        try:
            while not end.exists():
                time.sleep(0.01)
        except KeyboardInterrupt:
            saw.touch()
            raise

    @ray.remote
    class Parent:
        async def wait(self, *paths):
            return await child.remote(*paths)

    parent = Parent.remote()
    ref = parent.wait.remote(tmp_path / "on", tmp_path / "end", tmp_path / "saw")
    wait_for_files(tmp_path / "on")
    ray.cancel(ref)
    with pytest.raises(ray.exceptions.TaskCancelledError):
        ray.get(ref)
    try:
        wait_for_files(tmp_path / "saw")
    finally:
        (tmp_path / "end").touch()


def test_a_cancelled_error_that_a_method_raises_itself_is_a_task_cancelled_error(ray):
    @ray.remote
    class Quitter:
        async def quit(self):
            raise asyncio.CancelledError

        async def answer(self):
            return 42

    quitter = Quitter.remote()
    with pytest.raises(ray.exceptions.TaskCancelledError):
        ray.get(quitter.quit.remote())
    assert ray.get(quitter.answer.remote()) == 42


@pytest.fixture
def Worker(ray, cluster):
    """A class of asynchronous actors whose calls are cancelled by code of the actor."""

    @ray.remote
    class Worker:
        def __init__(self):
            self.tasks = {}

        async def wait(self, name):
            self.tasks[name] = asyncio.current_task()
            await asyncio.Event().wait()

        async def swallow(self, name):
            try:
                await self.wait(name)
            except asyncio.CancelledError:
                return "swallowed"

        async def cancel(self, name):
            while name not in self.tasks:
                await asyncio.sleep(0.01)
            return self.tasks[name].cancel()

        async def cancel_oneself(self, awaits):
            asyncio.current_task().cancel()
            if awaits:
                await asyncio.Event().wait()
            return "a value"

        async def count(self):
            yield 1
            asyncio.current_task().cancel()
            await asyncio.Event().wait()
            yield 2

        async def time_out(self):
            async with asyncio.timeout(0.01):
                await asyncio.Event().wait()

    return Worker


def test_a_call_that_another_call_cancels_is_a_task_cancelled_error(ray, Worker):
    worker = Worker.remote()
    waiting, swallowing = worker.wait.remote("waiting"), worker.swallow.remote("swallowing")
    assert ray.get([worker.cancel.remote(name) for name in ("waiting", "swallowing")], timeout=30)
    with pytest.raises(ray.exceptions.TaskCancelledError):
        ray.get(waiting, timeout=30)
    assert ray.get(swallowing, timeout=30) == "swallowed"  # its caller has cancelled nothing


@pytest.mark.parametrize("awaits", [True, False])
def test_a_call_that_cancels_itself_is_a_task_cancelled_error(ray, Worker, awaits):
    with pytest.raises(ray.exceptions.TaskCancelledError):
        ray.get(Worker.remote().cancel_oneself.remote(awaits), timeout=30)


def test_a_generator_that_cancels_itself_keeps_its_items(ray, Worker):
    items = Worker.remote().count.remote()
    assert ray.get(next(items), timeout=30) == 1
    with pytest.raises(ray.exceptions.TaskCancelledError):
        ray.get(next(items), timeout=30)
    with pytest.raises(StopIteration):
        next(items)


def test_a_timeout_inside_a_method_is_no_cancellation(ray, Worker):
    with pytest.raises(TimeoutError):
        ray.get(Worker.remote().time_out.remote(), timeout=30)


# The runtime context


def test_every_call_has_its_own_task_id_before_and_after_it_waits(ray):
    @ray.remote
    class Context:
        def __init__(self):
            self.ids = []

        async def ids_of(self):
            context = ray.get_runtime_context()
            before = (context.get_task_id(), context.get_actor_id())
            self.ids.append(before)
            while len(self.ids) < 10:
                await asyncio.sleep(0)
            return before, (context.get_task_id(), context.get_actor_id())

    actor = Context.remote()
    refs = [actor.ids_of.remote() for _ in range(10)]
    for ref, (before, after) in zip(refs, ray.get(refs), strict=True):
        assert before == after == (ref.task_id().hex(), actor._actor_id.hex())


def test_threads_and_tasks_that_a_call_awaits_have_its_task_id(ray):
    @ray.remote
    class Context:
        def own_id(self):
            return ray.get_runtime_context().get_task_id()

        async def own_id_async(self):
            return self.own_id()

        async def ids(self):
            return await asyncio.to_thread(self.own_id), await asyncio.create_task(
                self.own_id_async()
            )

    ref = Context.remote().ids.remote()
    assert ray.get(ref) == (ref.task_id().hex(),) * 2


def test_an_async_actor_cannot_look_whether_a_call_was_cancelled(ray):
    @ray.remote
    class Context:
        async def look(self):
            return ray.get_runtime_context().is_canceled()

    with pytest.raises(RuntimeError, match="not supported in an async actor"):
        ray.get(Context.remote().look.remote())


# Streaming


def test_async_generators_of_one_actor_overlap(ray):
    @ray.remote
    class Counters:
        def __init__(self):
            self.turn = 0

        async def every_second(self, first):
            for number in range(first, first + 10, 2):
                while self.turn < number:
                    await asyncio.sleep(0)
                self.turn += 1
                yield number

    counters = Counters.remote()
    even, odd = counters.every_second.remote(0), counters.every_second.remote(1)
    assert [ray.get(ref) for ref in even] == [0, 2, 4, 6, 8]
    assert [ray.get(ref) for ref in odd] == [1, 3, 5, 7, 9]


def test_an_item_of_an_async_generator_arrives_before_the_next_is_made(ray):
    @ray.remote
    class Steps:
        def __init__(self):
            self.go = asyncio.Event()

        async def steps(self):
            yield "first"
            await self.go.wait()
            yield "second"

        async def step(self):
            self.go.set()

    actor = Steps.remote()
    steps = actor.steps.remote()
    assert ray.get(next(steps)) == "first"
    actor.step.remote()
    assert [ray.get(ref) for ref in steps] == ["second"]


def test_the_error_of_an_async_generator_sits_after_its_items(ray):
    @ray.remote
    class Failing:
        async def count(self):
            yield 1
            yield 2
            raise ValueError("no more")

    refs = list(Failing.remote().count.remote())
    assert ray.get(refs[:2]) == [1, 2]
    with pytest.raises(ValueError, match="no more"):
        ray.get(refs[2])


# Death


def test_exit_actor_in_an_async_method_ends_the_actor_and_the_call_raises(ray):
    @ray.remote
    class Process:
        async def pid(self):
            return os.getpid()

        async def leave(self):
            ray.actor.exit_actor()

    process = Process.remote()
    pid = ray.get(process.pid.remote())
    with pytest.raises(ray.exceptions.ActorDiedError, match=r"exit_actor\(\) is called"):
        ray.get(process.leave.remote())
    wait_until(lambda: not is_running(pid))


def test_waiting_calls_fail_when_their_actor_is_killed(ray, Gate):
    gate = Gate.remote()
    waiting = [gate.wait.remote(number) for number in range(5)]
    wait_until(lambda: len(ray.get(gate.started_so_far.remote())) == 5)
    ray.kill(gate)
    for ref in waiting:
        with pytest.raises(ray.exceptions.ActorDiedError, match="killed by `ray.kill`"):
            ray.get(ref)


def test_a_waiting_call_keeps_its_actor_when_the_last_handle_goes(ray, tmp_path):
    @ray.remote
    class Waiter:
        async def wait(self, go):
            while not go.exists():
                await asyncio.sleep(0.01)
            return os.getpid()

    ref = Waiter.remote().wait.remote(tmp_path / "go")
    (tmp_path / "go").touch()
    wait_until(lambda: not is_running(ray.get(ref)))
