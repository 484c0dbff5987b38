"""Calls of methods: limits, options, arguments of every size, streams, order, cancelling."""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np
import pytest
from _polling import wait_for_files, wait_until

pytestmark = pytest.mark.usefixtures("cluster")

#: Elements of an array of float64 that has 1 MB; far more than goes along with a message.
LARGE = 125_000

#: The same for 100 KB.
MEDIUM = 12_500


@pytest.fixture
def Echo(ray, cluster):
    """A class of actors that give back what they get, and remember the first thing of it."""

    @ray.remote
    class Echo:
        def __init__(self):
            self.heard = []

        def say(self, thing):
            self.heard.append(thing)
            return thing

        def all_heard(self):
            return self.heard

        def wait(self, path, value=None):
            while not path.exists():
                time.sleep(0.01)
            self.heard.append(value)
            return value

    return Echo


# max_pending_calls


def test_a_call_beyond_max_pending_calls_is_an_error_at_once(ray, Echo, tmp_path):
    echo = Echo.options(max_pending_calls=3).remote()
    pending = [echo.wait.remote(tmp_path / "go", number) for number in range(3)]
    with pytest.raises(
        ray.exceptions.PendingCallsLimitExceeded,
        match=r"task say could not be submitted to .* because more than 3 tasks are queued",
    ):
        echo.say.remote("too much")
    (tmp_path / "go").touch()
    assert ray.get(pending) == [0, 1, 2]


def test_calls_are_possible_again_when_those_before_are_done(ray, Echo, tmp_path):
    def is_taken():
        try:
            return echo.say.remote("again")
        except ray.exceptions.PendingCallsLimitExceeded:
            return None

    echo = Echo.options(max_pending_calls=1).remote()
    pending = echo.wait.remote(tmp_path / "go", "first")
    assert is_taken() is None
    (tmp_path / "go").touch()
    ray.get(pending)
    wait_until(is_taken)
    wait_until(lambda: (ref := is_taken()) and ray.get(ref) == "again")


def test_every_caller_has_its_own_limit_of_pending_calls(ray, Echo, tmp_path):
    @ray.remote(num_cpus=0)
    def caller(echo, path):
        refs = []
        try:
            while len(refs) < 5:
                refs.append(echo.wait.remote(path))
        except ray.exceptions.PendingCallsLimitExceeded:
            path.touch()
            ray.get(refs)
        return len(refs)

    echo = Echo.options(max_pending_calls=2).remote()
    own = [echo.wait.remote(tmp_path / "go") for _ in range(2)]
    assert ray.get(caller.remote(echo, tmp_path / "go")) == 2
    ray.get(own)


@pytest.mark.parametrize("number", [0, -1])
def test_zero_and_minus_one_are_no_limit_of_pending_calls(ray, Echo, number):
    echo = Echo.options(max_pending_calls=number).remote()
    assert ray.get([echo.say.remote(number) for number in range(100)]) == list(range(100))


def test_a_bad_max_pending_calls_is_an_error_of_options(ray, Echo):
    with pytest.raises(ValueError, match="only accepts None, 0, -1 or a positive integer"):
        Echo.options(max_pending_calls=-2)
    with pytest.raises(TypeError, match="type of keyword 'max_pending_calls' must be"):
        Echo.options(max_pending_calls="2")


# Options of calls, and the methods that every actor has


def test_the_name_of_a_call_is_class_and_method_or_an_option(ray):
    @ray.remote
    class Named:
        def name(self):
            return ray.get_runtime_context().get_task_name()

    named = Named.remote()
    given = [named.name.remote(), named.name.options(name="special").remote(), named.name.remote()]
    assert ray.get(given) == ["Named.name", "special", "Named.name"]


@pytest.mark.parametrize(
    "option",
    [{"max_task_retries": 2}, {"retry_exceptions": True}, {"retry_exceptions": [ValueError]}],
)
def test_retries_can_be_asked_for_in_both_places(ray, option):
    @ray.remote
    class Plain:
        @ray.method(**option)
        def declared(self):
            return "declared"

        def plain(self):
            return "plain"

    plain = Plain.remote()
    given = [plain.declared.remote(), plain.plain.options(**option).remote()]
    assert ray.get(given) == ["declared", "plain"]


def test_a_call_that_failed_is_repeated_when_retry_exceptions_says_so(ray):
    @ray.remote(max_task_retries=2)
    class Counter:
        def __init__(self):
            self.count = 0

        @ray.method(retry_exceptions=True)
        def third_time_lucky(self):
            self.count += 1
            if self.count < 3:
                raise ValueError(self.count)
            return self.count

        def fail(self):
            self.count += 1
            raise ValueError(self.count)

    counter = Counter.remote()
    assert ray.get(counter.third_time_lucky.remote()) == 3
    with pytest.raises(ValueError, match="4"):  # not without retry_exceptions
        ray.get(counter.fail.remote())


def test_ray_call_takes_references_keywords_and_a_number_of_results(ray, Echo):
    echo = Echo.remote()

    def look(instance, one, two):
        return type(instance).__name__, one + two

    call = echo.__ray_call__.options(num_returns=2)
    assert ray.get(call.remote(look, ray.put(1), two=ray.put(2))) == ["Echo", 3]


def test_ray_call_keeps_its_place_among_the_calls(ray, Echo):
    echo = Echo.remote()
    for number in range(20):
        echo.say.remote(number)
    lengths = echo.__ray_call__.remote(lambda instance: len(instance.heard))
    echo.say.remote("later")
    assert ray.get(lengths) == 20


def test_ray_terminate_is_itself_an_actor_died_error(ray, Echo):
    echo = Echo.remote()
    before = [echo.say.remote(number) for number in range(5)]
    end = echo.__ray_terminate__.remote()
    after = echo.say.remote("never")
    assert ray.get(before) == [0, 1, 2, 3, 4]
    for ref in (end, after):
        with pytest.raises(ray.exceptions.ActorDiedError):
            ray.get(ref)


# Arguments and results


def test_references_at_the_top_become_values_and_nested_ones_stay(ray):
    @ray.remote
    class Looker:
        def look(self, one, *rest, two, three):
            return one, rest, two, [type(thing) for thing in three], ray.get(three)

    refs = [ray.put(number) for number in range(5)]
    looked = Looker.remote().look.remote(refs[0], refs[1], refs[0], two=refs[2], three=refs[3:])
    assert ray.get(looked) == (0, (1, 0), 2, [ray.ObjectRef] * 2, [3, 4])


def test_a_pipeline_of_actors_can_be_built_before_anything_is_done(ray, tmp_path):
    @ray.remote
    class Stage:
        def __init__(self, number):
            self.number = number

        def work(self, path, way=()):
            while not path.exists():
                time.sleep(0.01)
            return [*way, self.number]

    stages = [Stage.remote(number) for number in range(3)]
    ends = []
    for _ in range(10):
        ref = stages[0].work.remote(tmp_path / "go")
        for stage in stages[1:]:
            ref = stage.work.remote(tmp_path / "go", ref)
        ends.append(ref)
    assert ray.wait(ends, timeout=0)[0] == []
    (tmp_path / "go").touch()
    assert ray.get(ends) == [[0, 1, 2]] * 10


def test_arrays_of_100_kb_arrive_whole_and_in_order(ray, Echo):
    echo = Echo.remote()
    refs = [echo.say.remote(np.full(MEDIUM, number)) for number in range(30)]
    for number, array in enumerate(ray.get(refs)):
        np.testing.assert_array_equal(array, np.full(MEDIUM, number))
    firsts = ray.get(echo.__ray_call__.remote(lambda self: [int(array[0]) for array in self.heard]))
    assert firsts == list(range(30))


def test_large_arguments_and_results_keep_their_place_among_small_ones(ray):
    @ray.remote
    class Log:
        def __init__(self):
            self.lines = []

        def write(self, thing):
            self.lines.append(int(np.max(thing)))
            return thing

        def read(self):
            return self.lines

    log = Log.remote()
    things = [np.full(LARGE, n) if n % 10 == 5 else n for n in range(100)]
    refs = [log.write.remote(thing) for thing in things]
    assert ray.get(log.read.remote()) == list(range(100))
    for thing, got in zip(things, ray.get(refs), strict=True):
        np.testing.assert_array_equal(thing, got)


def test_a_large_result_goes_to_another_actor_before_it_exists(ray):
    @ray.remote
    class Maker:
        def make(self, number):
            return np.full(LARGE, number)

    @ray.remote
    class Adder:
        def __init__(self):
            self.total = 0

        def add(self, array):
            self.total += int(array[-1])
            return self.total

    maker, adder = Maker.remote(), Adder.remote()
    refs = [adder.add.remote(maker.make.remote(number)) for number in range(10)]
    assert ray.get(refs) == np.cumsum(range(10)).tolist()


def test_a_handle_travels_in_an_object_of_the_user(ray, Echo):
    @dataclass
    class Box:
        echo: object
        word: str

    @ray.remote
    class Opener:
        def open(self, boxes):
            return {box.echo: ray.get(box.echo.say.remote(box.word)) for box in boxes}

    one, two = Echo.remote(), Echo.remote()
    opened = ray.get(Opener.remote().open.remote([Box(one, "one"), Box(two, "two")]))
    assert opened == {one: "one", two: "two"}


def test_an_error_keeps_its_attributes(ray):
    class OwnError(Exception):
        def __init__(self, code, place):
            super().__init__(code, place)
            self.code, self.place = code, place

    @ray.remote
    class Failing:
        def fail(self):
            raise OwnError(7, place="here")

    with pytest.raises(OwnError) as caught:
        ray.get(Failing.remote().fail.remote())
    assert (caught.value.code, caught.value.place) == (7, "here")
    assert (caught.value.cause.code, caught.value.cause.args) == (7, (7, "here"))


# Streams


def test_streaming_can_be_asked_for_by_name(ray):
    @ray.remote
    class Counter:
        @ray.method(num_returns="streaming")
        def declared(self, number):
            for item in range(number):
                yield item

        def plain(self, number):
            for item in range(number):
                yield item

    counter = Counter.remote()
    for method in (counter.declared, counter.plain.options(num_returns="streaming")):
        stream = method.remote(3)
        assert isinstance(stream, ray.ObjectRefGenerator)
        assert ray.get(list(stream)) == [0, 1, 2]


def test_streaming_is_refused_for_a_method_that_does_not_yield(ray, Echo):
    with pytest.raises(ValueError, match="can only be used with generator functions"):
        Echo.remote().say.options(num_returns="streaming").remote(1)


def test_an_item_arrives_before_the_method_has_ended(ray, tmp_path):
    @ray.remote
    class Steps:
        def steps(self, path):
            yield "first"
            while not path.exists():
                time.sleep(0.01)
            yield "second"

    steps = Steps.remote().steps.remote(tmp_path / "go")
    assert ray.get(next(steps)) == "first"
    (tmp_path / "go").touch()
    assert [ray.get(ref) for ref in steps] == ["second"]


def test_an_error_in_the_middle_of_a_stream_is_its_last_item(ray):
    @ray.remote
    class Counter:
        def count(self, number):
            for item in range(number):
                if item == 3:
                    raise ValueError("not three")
                yield item

    refs = list(Counter.remote().count.remote(10))
    assert ray.get(refs[:3]) == [0, 1, 2]
    assert len(refs) == 4
    with pytest.raises(ValueError, match="not three"):
        ray.get(refs[3])


def test_five_hundred_small_and_twenty_large_items_come_in_order(ray):
    @ray.remote
    class Counter:
        def count(self, number, size):
            for item in range(number):
                yield np.full(size, item)

    counter = Counter.remote()
    small, large = counter.count.remote(500, 1), counter.count.remote(20, LARGE)
    assert [int(ray.get(ref)[0]) for ref in small] == list(range(500))
    for number, ref in enumerate(large):
        np.testing.assert_array_equal(ray.get(ref), np.full(LARGE, number))


def test_calls_after_a_stream_run_when_it_has_ended(ray):
    @ray.remote
    class Log:
        def __init__(self):
            self.lines = []

        def count(self, number):
            for item in range(number):
                self.lines.append(item)
                yield item

        def read(self):
            return self.lines

    log = Log.remote()
    stream = log.count.remote(20)
    assert ray.get(log.read.remote()) == list(range(20))
    assert ray.get(list(stream)) == list(range(20))


# Order and waiting


def test_every_caller_s_calls_run_in_their_order(ray, Echo):
    @ray.remote(num_cpus=0)
    def caller(echo, name):
        refs = [echo.say.remote((name, number)) for number in range(300)]
        return ray.get(refs)[-1]

    echo = Echo.remote()
    ends = ray.get([caller.remote(echo, name) for name in "abcd"])
    assert ends == [(name, 299) for name in "abcd"]
    heard = ray.get(echo.all_heard.remote())
    for name in "abcd":
        assert [number for who, number in heard if who == name] == list(range(300))


def test_wait_gives_two_hundred_calls_one_by_one(ray, Echo):
    echo = Echo.remote()
    pending = {echo.say.remote(number): number for number in range(200)}
    numbers, refs = [], list(pending)
    while refs:
        ready, refs = ray.wait(refs)
        assert len(ready) == 1
        assert ray.get(ready[0]) == pending[ready[0]]
        numbers.append(pending[ready[0]])
    assert sorted(numbers) == list(range(200))


def test_three_thousand_calls_that_nobody_gets_are_all_run(ray, Echo):
    echo = Echo.remote()
    for number in range(3000):
        echo.say.remote(number)
    assert ray.get(echo.all_heard.remote()) == list(range(3000))


# An actor that calls itself


def test_the_current_actor_is_the_handle_of_the_actor(ray):
    @ray.remote
    class Self:
        def me(self):
            return ray.get_runtime_context().current_actor

    actor = Self.remote()
    assert ray.get(actor.me.remote()) == actor


def test_a_call_of_an_actor_to_itself_runs_after_the_one_that_made_it(ray):
    @ray.remote
    class Countdown:
        def __init__(self):
            self.lines = []

        def count(self, number):
            if number:
                ray.get_runtime_context().current_actor.count.remote(number - 1)
            self.lines.append(number)

        def read(self):
            return self.lines

    countdown = Countdown.remote()
    ray.get(countdown.count.remote(3))
    wait_until(lambda: ray.get(countdown.read.remote()) == [3, 2, 1, 0])


def test_an_actor_that_runs_one_call_at_a_time_cannot_wait_for_itself(ray, tmp_path):
    @ray.remote
    class Deadlock:
        def wait(self, path):
            inner = ray.get_runtime_context().current_actor.touch.remote(path)
            try:
                ray.get(inner, timeout=0.2)
            except ray.exceptions.GetTimeoutError:
                return path.exists()

        def touch(self, path):
            path.touch()

    assert ray.get(Deadlock.remote().wait.remote(tmp_path / "inner")) is False
    wait_for_files(tmp_path / "inner")


def test_an_actor_with_concurrency_can_wait_for_itself(ray):
    @ray.remote(max_concurrency=4)
    class Recursive:
        def depth(self, number):
            if number == 0:
                return 0
            me = ray.get_runtime_context().current_actor
            return 1 + ray.get(me.depth.remote(number - 1))

    assert ray.get(Recursive.remote().depth.remote(3)) == 3


# Cancelling


@pytest.mark.parametrize("max_concurrency", [1, 2])
def test_a_running_sync_call_can_look_whether_it_was_cancelled(ray, tmp_path, max_concurrency):
    @ray.remote(max_concurrency=max_concurrency)
    class Worker:
        def work(self, started, saw):
            started.touch()
            while not ray.get_runtime_context().is_canceled():
                time.sleep(0.01)
            saw.touch()
            return "returned"

        def answer(self):
            return 42

    worker = Worker.remote()
    ref = worker.work.remote(tmp_path / "started", tmp_path / "saw")
    wait_for_files(tmp_path / "started")
    ray.cancel(ref)
    with pytest.raises(ray.exceptions.TaskCancelledError, match="was cancelled"):
        ray.get(ref)
    wait_for_files(tmp_path / "saw")
    assert ray.get(worker.answer.remote()) == 42


def test_a_running_sync_call_is_not_interrupted_and_its_result_is_lost(ray, tmp_path):
    @ray.remote
    class Worker:
        def work(self, started, go, done):
            started.touch()
            while not go.exists():
                time.sleep(0.01)
            done.touch()

    started, go, done = (tmp_path / name for name in ("started", "go", "done"))
    ref = Worker.remote().work.remote(started, go, done)
    wait_for_files(started)
    ray.cancel(ref)
    ray.wait([ref], timeout=0.2)
    go.touch()
    with pytest.raises(ray.exceptions.TaskCancelledError):
        ray.get(ref)
    wait_for_files(done)


def test_endless_workers_of_a_parameter_server_do_not_starve_other_calls(fresh):
    ray = fresh(num_cpus=2)

    @ray.remote
    class Parameters:
        def __init__(self):
            self.weights, self.pushes = [0.0] * 100, 0

        def pull(self):
            return self.weights

        def push(self, gradient):
            self.weights = [w + g for w, g in zip(self.weights, gradient, strict=True)]
            self.pushes += 1

        def count(self):
            return self.pushes

    @ray.remote(num_cpus=0.25)
    def work(parameters):
        while True:
            weights = ray.get(parameters.pull.remote())
            ray.get(parameters.push.remote([0.001] * len(weights)))

    @ray.remote
    def square(number):
        return number * number

    parameters = Parameters.remote()
    workers = [work.remote(parameters) for _ in range(4)]
    wait_until(lambda: ray.get(parameters.count.remote()) >= 40)
    assert ray.get([square.remote(number) for number in range(20)]) == [n * n for n in range(20)]
    before = ray.get(parameters.count.remote())
    wait_until(lambda: ray.get(parameters.count.remote()) >= before + 40)
    assert ray.wait(workers, timeout=0)[0] == []
    ray.shutdown()
