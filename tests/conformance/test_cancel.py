"""Cancelling: what stops, what does not, and what everybody sees of it."""

from __future__ import annotations

import os
import time

import pytest
from _polling import is_running, wait_for_files, wait_until

pytestmark = pytest.mark.usefixtures("cluster")


@pytest.fixture
def settle(ray, cluster):
    """Give the driver time to note what it has just got.

    A task that is cancelled in the moment it completes ends the driver of Ray 2.60.0
    (task_manager.cc:1329, "Check failed").
    """
    nothing = ray.remote(num_cpus=0)(lambda: None)
    return lambda: ray.get(nothing.remote())


@pytest.fixture
def spin(ray, cluster, tmp_path):
    """Start tasks that last until they are cancelled, or until the test has ended."""
    end = tmp_path / "end"

    def spin(name, value, ignored=None):
        started = tmp_path / name

        def run(started, end, saw, value):
            try:  # from here on: the test cancels the task as soon as the file is there
                with open(started, "a") as file:
                    file.write("x")
                while not os.path.exists(end):
                    time.sleep(0.01)
            except BaseException as error:
                with open(saw, "w") as file:
                    file.write(type(error).__name__)
                raise
            return value

        function = ray.remote(num_cpus=0)(run).options(**(ignored or {}))
        return function.remote(str(started), str(end), f"{started}-saw", value)

    def start(name="task", value=None, running=True, **options):
        ref = spin(name, value, options)
        if running:
            wait_for_files(tmp_path / name)
        return ref

    yield start
    end.touch()


def test_get_of_a_cancelled_task_is_a_task_cancelled_error(ray, spin):
    ref = spin()
    ray.cancel(ref)
    with pytest.raises(ray.exceptions.TaskCancelledError):
        ray.get(ref, timeout=30)


def test_cancel_gives_nothing(ray, spin):
    assert ray.cancel(spin()) is None


def test_the_error_of_a_running_task_says_that_it_was_cancelled(ray, spin):
    ref = spin()
    ray.cancel(ref)
    with pytest.raises(ray.exceptions.TaskCancelledError, match="was cancelled"):
        ray.get(ref, timeout=30)


def test_a_running_task_sees_a_keyboard_interrupt(ray, spin, tmp_path):
    ref = spin()
    ray.cancel(ref)
    wait_for_files(tmp_path / "task-saw")
    wait_until(lambda: (tmp_path / "task-saw").read_text() == "KeyboardInterrupt")


def test_a_running_task_runs_its_finally_clauses(ray, tmp_path):
    started, done = str(tmp_path / "started"), str(tmp_path / "done")

    @ray.remote(num_cpus=0)
    def tidy():
        open(started, "w").close()
        try:
            while True:
                time.sleep(0.01)
        finally:
            open(done, "w").close()

    ref = tidy.remote()
    wait_for_files(started)
    ray.cancel(ref)
    wait_for_files(done)


def test_a_task_that_catches_the_interrupt_gives_its_value(ray, tmp_path):
    started = str(tmp_path / "started")

    @ray.remote(num_cpus=0)
    def stubborn():
        open(started, "w").close()
        try:
            while True:
                time.sleep(0.01)
        except KeyboardInterrupt:
            return "caught"

    ref = stubborn.remote()
    wait_for_files(started)
    ray.cancel(ref)
    assert ray.get(ref, timeout=30) == "caught"


@pytest.mark.parametrize("num_cpus", [0, 1])
def test_an_interrupted_task_has_an_error_of_a_task_too(ray, tmp_path, num_cpus):
    started = str(tmp_path / "started")

    @ray.remote(num_cpus=num_cpus)
    def spin(catches):
        open(f"{started}-{catches}", "w").close()
        try:
            while True:
                time.sleep(0.01)
        except KeyboardInterrupt:
            if catches:
                return "caught"
            raise

    caught, spinning = spin.remote(True), spin.remote(False)
    wait_for_files(f"{started}-True", f"{started}-False")
    for ref in (caught, spinning):
        ray.cancel(ref)
    assert ray.get(caught, timeout=30) == "caught"
    with pytest.raises(ray.exceptions.RayTaskError) as error:
        ray.get(spinning, timeout=30)
    assert isinstance(error.value, ray.exceptions.TaskCancelledError)
    assert isinstance(error.value.cause, ray.exceptions.TaskCancelledError)


def test_a_task_that_raises_something_else_when_interrupted_fails_with_that(ray, tmp_path):
    started = str(tmp_path / "started")

    @ray.remote(num_cpus=0)
    def translate():
        open(started, "w").close()
        try:
            while True:
                time.sleep(0.01)
        except KeyboardInterrupt:
            raise ValueError("instead") from None

    ref = translate.remote()
    wait_for_files(started)
    ray.cancel(ref)
    with pytest.raises(ValueError, match="instead"):
        ray.get(ref, timeout=30)


def test_a_cancelled_task_knows_it_from_its_context(ray, tmp_path):
    started = str(tmp_path / "started")

    @ray.remote(num_cpus=0)
    def look():
        open(started, "w").close()
        try:
            while True:
                time.sleep(0.01)
        except KeyboardInterrupt:
            return ray.get_runtime_context().is_canceled()

    ref = look.remote()
    wait_for_files(started)
    ray.cancel(ref)
    assert ray.get(ref, timeout=30) is True


def test_a_cancelled_task_can_be_cancelled_again(ray, spin, settle):
    ref = spin()
    for _ in range(2):
        ray.cancel(ref)
        with pytest.raises(ray.exceptions.TaskCancelledError):
            ray.get(ref, timeout=30)
        settle()


def test_a_cancelled_task_is_ready(ray, spin):
    ref = spin()
    assert ray.wait([ref], timeout=0) == ([], [ref])
    ray.cancel(ref)
    assert ray.wait([ref], timeout=30) == ([ref], [])


def test_force_ends_the_process_without_an_interrupt(ray, spin, tmp_path):
    ref = spin()
    ray.cancel(ref, force=True)
    with pytest.raises(ray.exceptions.TaskCancelledError):
        ray.get(ref, timeout=30)
    assert not (tmp_path / "task-saw").exists()


def test_force_ends_a_task_that_ignores_interrupts(ray, tmp_path):
    started = str(tmp_path / "started")

    @ray.remote(num_cpus=0)
    def stubborn():
        open(started, "w").close()
        while True:
            try:
                time.sleep(0.01)
            except KeyboardInterrupt:
                pass

    ref = stubborn.remote()
    wait_for_files(started)
    ray.cancel(ref, force=True)
    with pytest.raises(ray.exceptions.TaskCancelledError):
        ray.get(ref, timeout=30)


@pytest.mark.parametrize("force", [False, True])
def test_a_cancelled_task_is_not_retried(ray, spin, tmp_path, force):
    ref = spin(max_retries=3, retry_exceptions=True)
    ray.cancel(ref, force=force)
    with pytest.raises(ray.exceptions.TaskCancelledError):
        ray.get(ref, timeout=30)
    assert ray.get(ray.remote(lambda: 1).remote()) == 1
    assert (tmp_path / "task").read_text() == "x"


def test_a_queued_task_is_cancelled_before_it_runs(ray, spin, tmp_path):
    holder = spin("holder", num_cpus=4)
    queued = spin("queued", running=False, num_cpus=4)
    ray.cancel(queued)
    with pytest.raises(ray.exceptions.TaskCancelledError):
        ray.get(queued, timeout=30)
    ray.cancel(holder)
    ray.wait([holder], timeout=30)
    assert ray.get(ray.remote(num_cpus=4)(lambda: 1).remote(), timeout=30) == 1
    assert not (tmp_path / "queued").exists()


def test_a_cancelled_task_gives_its_cpus_back(ray, spin):
    holder = spin(num_cpus=4)
    ray.cancel(holder)
    assert ray.get(ray.remote(num_cpus=4)(lambda: 1).remote(), timeout=30) == 1


def test_the_dependents_of_a_cancelled_task_fail_with_its_error(ray, spin):
    argument = spin()
    same = ray.remote(lambda value: value)
    last = same.remote(same.remote(argument))
    ray.cancel(argument)
    with pytest.raises(ray.exceptions.TaskCancelledError):
        ray.get(last, timeout=30)


def test_all_returns_of_a_cancelled_task_fail(ray, tmp_path):
    started = str(tmp_path / "started")

    @ray.remote(num_cpus=0, num_returns=2)
    def two():
        open(started, "w").close()
        while True:
            time.sleep(0.01)

    refs = two.remote()
    wait_for_files(started)
    ray.cancel(refs[1])
    for ref in refs:
        with pytest.raises(ray.exceptions.TaskCancelledError):
            ray.get(ref, timeout=30)


@pytest.mark.parametrize("force", [False, True])
def test_a_finished_task_keeps_its_value(ray, settle, force):
    ref = ray.remote(lambda: 3).remote()
    ray.get(ref)
    settle()
    ray.cancel(ref, force=force)
    assert ray.get(ref) == 3


def test_a_failed_task_keeps_its_error(ray, settle):
    ref = ray.remote(lambda: 1 / 0).remote()
    ray.wait([ref])
    settle()
    ray.cancel(ref)
    with pytest.raises(ZeroDivisionError):
        ray.get(ref)


def test_cancelling_a_put_object_does_nothing(ray):
    ref = ray.put(1)
    ray.cancel(ref)
    assert ray.get(ref) == 1


@pytest.mark.parametrize("thing", [1, None, "text", [], {}], ids=repr)
def test_only_references_can_be_cancelled(ray, thing):
    with pytest.raises(TypeError, match=r"cancel\(\) only supported for object refs"):
        ray.cancel(thing)


def test_a_list_of_references_cannot_be_cancelled(ray):
    with pytest.raises(TypeError, match=r"cancel\(\) only supported for object refs"):
        ray.cancel([ray.put(1)])


def test_an_actor_is_not_cancelled_but_killed(ray):
    @ray.remote(num_cpus=0)
    class Actor:
        def ready(self):
            return True

    actor = Actor.remote()
    ray.get(actor.ready.remote())
    with pytest.raises(TypeError, match=r"For actors, try ray\.kill\(\)"):
        ray.cancel(actor)


def test_a_task_that_blocks_in_get_is_cancelled(ray, spin, tmp_path):
    started = str(tmp_path / "blocked")

    @ray.remote(num_cpus=0)
    def block(refs):
        open(started, "w").close()
        return ray.get(refs[0])

    ref = block.remote([spin()])
    wait_for_files(started)
    ray.cancel(ref, recursive=False)
    with pytest.raises(ray.exceptions.TaskCancelledError):
        ray.get(ref, timeout=30)


@pytest.fixture
def family(ray, cluster, tmp_path):
    """Start a task that starts another task; return the reference of the outer one."""
    end, inner_started = str(tmp_path / "end"), str(tmp_path / "inner")
    saw = str(tmp_path / "inner-saw")

    @ray.remote(num_cpus=0)
    def inner():
        open(inner_started, "w").close()
        try:
            while not os.path.exists(end):
                time.sleep(0.01)
        except KeyboardInterrupt:
            open(saw, "w").close()
            raise
        open(inner_started + "-finished", "w").close()

    @ray.remote(num_cpus=0)
    def outer():
        ray.get(inner.remote())

    ref = outer.remote()
    wait_for_files(inner_started)
    yield ref
    open(end, "w").close()


def test_a_task_takes_its_children_with_it(ray, family, tmp_path):
    ray.cancel(family)
    with pytest.raises(ray.exceptions.TaskCancelledError):
        ray.get(family, timeout=30)
    wait_for_files(tmp_path / "inner-saw")


def test_a_task_leaves_its_children_alone_when_not_recursive(ray, family, tmp_path):
    ray.cancel(family, recursive=False)
    with pytest.raises(ray.exceptions.TaskCancelledError):
        ray.get(family, timeout=30)
    (tmp_path / "end").touch()
    wait_for_files(tmp_path / "inner-finished")
    assert not (tmp_path / "inner-saw").exists()


def test_a_task_can_cancel_a_task_it_was_given(ray, spin):
    ref = spin()

    @ray.remote(num_cpus=0)
    def stop(refs):
        ray.cancel(refs[0])

    ray.get(stop.remote([ref]))
    with pytest.raises(ray.exceptions.TaskCancelledError):
        ray.get(ref, timeout=30)


def test_other_tasks_run_as_before_after_a_cancellation(ray, spin):
    ref = spin()
    ray.cancel(ref)
    ray.wait([ref], timeout=30)
    same = ray.remote(lambda value: value)
    assert ray.get([same.remote(number) for number in range(8)]) == list(range(8))


def test_a_loop_of_pure_python_is_cancelled(ray, tmp_path):
    started = str(tmp_path / "started")

    @ray.remote(num_cpus=0)
    def loop():
        open(started, "w").close()
        number = 0
        while True:
            number += 1

    ref = loop.remote()
    wait_for_files(started)
    ray.cancel(ref)
    with pytest.raises(ray.exceptions.TaskCancelledError):
        ray.get(ref, timeout=30)


def test_force_ends_the_process_of_the_task(ray, tmp_path):
    pid = tmp_path / "pid"

    @ray.remote(num_cpus=0)
    def loop():
        with open(f"{pid}-new", "w") as file:
            file.write(str(os.getpid()))
        os.rename(f"{pid}-new", pid)
        while True:
            time.sleep(0.01)

    ref = loop.remote()
    wait_for_files(pid)
    ray.cancel(ref, force=True)
    wait_until(lambda: not is_running(int(pid.read_text())))


def test_a_task_takes_its_grandchildren_with_it(ray, tmp_path):
    started, saw = str(tmp_path / "started"), str(tmp_path / "saw")

    @ray.remote(num_cpus=0)
    def child(depth):
        if depth:
            return ray.get(child.remote(depth - 1))
        open(started, "w").close()
        try:
            while True:
                time.sleep(0.01)
        except KeyboardInterrupt:
            open(saw, "w").close()
            raise

    ref = child.remote(2)
    wait_for_files(started)
    ray.cancel(ref)
    wait_for_files(saw)


def test_a_streaming_generator_is_cancelled(ray, tmp_path):
    started, saw = str(tmp_path / "started"), str(tmp_path / "saw")

    @ray.remote(num_cpus=0)
    def some():
        yield 1
        open(started, "w").close()
        try:
            while True:
                time.sleep(0.01)
        except KeyboardInterrupt:
            open(saw, "w").close()
            raise

    generator = some.remote()
    assert ray.get(next(generator), timeout=30) == 1
    wait_for_files(started)
    ray.cancel(generator)
    wait_for_files(saw)
    with pytest.raises(ray.exceptions.TaskCancelledError):
        ray.get(next(generator), timeout=30)


# Actor calls


@pytest.fixture
def actor(ray, cluster):
    @ray.remote(num_cpus=0)
    class Actor:
        def last(self, started, end):
            open(started, "w").close()
            while not os.path.exists(end):
                time.sleep(0.01)
            return "lasted"

        def note(self, path):
            open(path, "w").close()
            return "noted"

    return Actor.remote()


def test_get_of_a_cancelled_actor_call_is_a_task_cancelled_error(ray, actor, tmp_path):
    # Whether the method runs is not asserted: in Ray 2.60.0 it sometimes does.
    started, end, noted = (str(tmp_path / name) for name in ("started", "end", "noted"))
    running = actor.last.remote(started, end)
    wait_for_files(started)
    queued = actor.note.remote(noted)
    ray.cancel(queued)
    open(end, "w").close()
    with pytest.raises(ray.exceptions.TaskCancelledError):
        ray.get(queued, timeout=30)
    assert ray.get(running, timeout=30) == "lasted"


@pytest.fixture(params=[1, 2], ids=["ordinary", "threaded"])
def observer(ray, cluster, request):
    """An actor whose methods see that they are cancelled; no exception interrupts them."""

    @ray.remote(num_cpus=0, max_concurrency=request.param)
    class Observer:
        def wait(self, started):
            open(started, "w").close()
            while not ray.get_runtime_context().is_canceled():
                time.sleep(0.01)

        def give_up(self, started):
            self.wait(started)
            return "a value"

        def complain(self, started):
            self.wait(started)
            raise KeyError("interrupted")

        def count(self, started, saw):
            yield 1
            self.wait(started)
            try:
                yield 2
                yield 3
            finally:
                open(saw, "w").close()

        def cancel_oneself(self):
            import asyncio

            raise asyncio.CancelledError

    return Observer.remote()


def test_the_value_of_a_cancelled_method_is_a_task_cancelled_error(ray, observer, tmp_path):
    ref = observer.give_up.remote(str(tmp_path / "started"))
    wait_for_files(tmp_path / "started")
    ray.cancel(ref)
    with pytest.raises(ray.exceptions.TaskCancelledError):
        ray.get(ref, timeout=30)


def test_the_error_of_a_cancelled_method_is_kept(ray, observer, tmp_path):
    ref = observer.complain.remote(str(tmp_path / "started"))
    wait_for_files(tmp_path / "started")
    ray.cancel(ref)
    with pytest.raises(KeyError, match="interrupted"):
        ray.get(ref, timeout=30)


def test_a_cancelled_generator_method_ends_at_its_next_item(ray, observer, tmp_path):
    items = observer.count.options(num_returns="streaming").remote(
        str(tmp_path / "started"), str(tmp_path / "saw")
    )
    assert ray.get(next(items), timeout=30) == 1
    wait_for_files(tmp_path / "started")
    ray.cancel(items)
    with pytest.raises(ray.exceptions.TaskCancelledError):
        ray.get(next(items), timeout=30)
    with pytest.raises(StopIteration):
        next(items)
    wait_for_files(tmp_path / "saw")


def test_a_cancelled_error_of_asyncio_is_an_error_as_others_without_a_loop(ray, observer):
    with pytest.raises(ray.exceptions.RayTaskError, match="CancelledError") as caught:
        ray.get(observer.cancel_oneself.remote(), timeout=30)
    assert not isinstance(caught.value, ray.exceptions.TaskCancelledError)


def test_an_actor_call_cannot_be_cancelled_by_force(ray, actor, tmp_path):
    started, end = str(tmp_path / "started"), str(tmp_path / "end")
    ref = actor.last.remote(started, end)
    wait_for_files(started)
    with pytest.raises(ValueError, match="force=True is not supported for actor tasks"):
        ray.cancel(ref, force=True)
    open(end, "w").close()
    assert ray.get(ref, timeout=30) == "lasted"


@pytest.fixture
def async_actor(ray, cluster):
    @ray.remote(num_cpus=0)
    class Actor:
        async def last(self, started, saw):
            import asyncio

            open(started, "w").close()
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                open(saw, "w").close()
                raise

        async def quick(self):
            return 1

    return Actor.remote()


def test_a_running_async_method_sees_a_cancelled_error(ray, async_actor, tmp_path):
    started, saw = str(tmp_path / "started"), str(tmp_path / "saw")
    ref = async_actor.last.remote(started, saw)
    wait_for_files(started)
    ray.cancel(ref)
    with pytest.raises(ray.exceptions.TaskCancelledError, match="was cancelled"):
        ray.get(ref, timeout=30)
    wait_for_files(saw)


def test_an_interrupted_async_method_has_an_error_of_a_task_too(ray, async_actor, tmp_path):
    saw = str(tmp_path / "saw")
    ref = async_actor.last.remote(str(tmp_path / "started"), saw)
    wait_for_files(tmp_path / "started")
    ray.cancel(ref)
    with pytest.raises(ray.exceptions.RayTaskError) as error:
        ray.get(ref, timeout=30)
    assert isinstance(error.value, ray.exceptions.TaskCancelledError)


def test_an_async_actor_works_on_after_a_call_was_cancelled(ray, async_actor, tmp_path):
    started = str(tmp_path / "started")
    ref = async_actor.last.remote(started, str(tmp_path / "saw"))
    wait_for_files(started)
    ray.cancel(ref)
    assert ray.get(async_actor.quick.remote(), timeout=30) == 1


# In a separate session


def test_a_task_that_waits_for_an_argument_is_cancelled_alone(fresh, tmp_path):
    # The argument must not arrive while the driver lives: Ray 2.60.0 ends the driver then
    # (reference_counter.cc:624 or task_manager.cc:1329, "Check failed").
    ray = fresh(num_cpus=1)
    started, ran = str(tmp_path / "started"), str(tmp_path / "ran")

    @ray.remote(num_cpus=0)
    def endless():
        open(started, "w").close()
        while True:
            time.sleep(0.01)

    @ray.remote(num_cpus=0)
    def use(value):
        open(ran, "w").close()

    argument = endless.remote()
    wait_for_files(started)
    dependent = use.remote(argument)
    ray.cancel(dependent)
    with pytest.raises(ray.exceptions.TaskCancelledError):
        ray.get(dependent, timeout=30)
    assert ray.wait([argument], timeout=0) == ([], [argument])
    assert not os.path.exists(ran)
