"""Actors beyond the basics of `test_actors`: what is callable, what travels, and every way to end."""

from __future__ import annotations

import numpy as np
import pytest
from _polling import is_running, wait_for_files, wait_until

pytestmark = pytest.mark.usefixtures("cluster")


@pytest.fixture
def Counter(ray, cluster):
    """An actor class with a number, its process id, and a call that lasts until a file is there."""

    @ray.remote(num_cpus=0)
    class Counter:
        def __init__(self, start=0):
            self.number = start

        def add(self, number=1):
            self.number += number
            return self.number

        def pid(self):
            import os

            return os.getpid()

        def fail(self):
            raise KeyError("as asked")

        def wait_for(self, path):
            import os
            import time

            open(path + ".started", "w").close()
            while not os.path.exists(path):
                time.sleep(0.005)
            return self.number

    return Counter


@pytest.fixture
def Broken(ray, cluster):
    """An actor class whose constructor fails."""

    @ray.remote
    class Broken:
        def __init__(self):
            raise OSError("cannot be built")

        def hello(self):
            return "hello"

    return Broken


# What is callable


def test_a_generator_method_yields_references(ray):
    @ray.remote
    class Yielder:
        def count(self, number):
            for count in range(
                number
            ):  # Ray sends its statistics in, `yield from` would pass them on
                yield count

    assert [ray.get(ref) for ref in Yielder.remote().count.remote(3)] == [0, 1, 2]


def test_a_method_has_the_underscored_remote_too(ray, Counter):
    assert ray.get(Counter.remote().add._remote(args=[3], kwargs={})) == 3


def test_methods_see_the_class_s_attributes(ray):
    @ray.remote
    class Typed:
        kind = "circle"

        def show(self):
            return self.kind

    assert ray.get(Typed.remote().show.remote()) == "circle"


def test_a_method_may_call_the_others_of_its_instance(ray):
    @ray.remote
    class Chain:
        def one(self):
            return 1

        def two(self):
            return self.one() + self.one()

    assert ray.get(Chain.remote().two.remote()) == 2


def test_a_method_may_call_the_base_class_s(ray):
    class Base:
        def name(self):
            return "base"

    @ray.remote
    class Derived(Base):
        def name(self):
            return "derived of " + super().name()

    assert ray.get(Derived.remote().name.remote()) == "derived of base"


def test_a_class_made_remote_by_a_call_stays_a_class(ray):
    class Plain:
        def hello(self):
            return "hello"

    ray.remote(Plain)
    assert Plain().hello() == "hello"


def test_ray_method_without_arguments_changes_nothing(ray):
    @ray.remote
    class Plain:
        @ray.method()
        def hello(self):
            return "hello"

    assert ray.get(Plain.remote().hello.remote()) == "hello"


def test_arguments_for_a_class_without_constructor_are_a_type_error(ray):
    @ray.remote
    class Plain:
        pass

    with pytest.raises(TypeError, match="too many positional arguments"):
        Plain.remote(1)


def test_an_argument_given_twice_is_a_type_error_at_once(ray, Counter):
    counter = Counter.remote()
    with pytest.raises(TypeError, match="multiple values for argument 'number'"):
        counter.add.remote(1, number=2)


def test_a_default_actor_holds_nothing_in_its_constructor(ray):
    @ray.remote
    class Default:
        def __init__(self):
            self.held = ray.get_runtime_context().get_assigned_resources()

        def show(self):
            return self.held

    assert ray.get(Default.remote().show.remote()) == {}


# What travels


def test_a_handle_in_a_closure_can_be_called(ray, Counter):
    counter = Counter.remote()

    @ray.remote
    def add():
        return ray.get(counter.add.remote())

    assert ray.get(add.remote()) == 1


def test_a_handle_keeps_the_options_of_its_methods_when_it_travels(ray):
    @ray.remote
    class Pair:
        @ray.method(num_returns=2)
        def both(self):
            return 1, 2

    @ray.remote
    def take(pair):
        return ray.get(pair.both.remote())

    assert ray.get(take.remote(Pair.remote())) == [1, 2]


def test_a_travelled_handle_checks_arguments_too(ray, Counter):
    @ray.remote
    def misuse(counter):
        try:
            counter.add.remote(1, 2, 3)
        except TypeError:
            return "refused"

    assert ray.get(misuse.remote(Counter.remote())) == "refused"


def test_a_looked_up_handle_checks_arguments_too(ray, Counter):
    counter = Counter.options(name="checked").remote()
    ray.get(counter.add.remote())
    with pytest.raises(TypeError):
        ray.get_actor("checked").add.remote(1, 2, 3)


def test_a_looked_up_handle_keeps_the_options_of_its_methods(ray):
    @ray.remote
    class Pair:
        @ray.method(num_returns=2)
        def both(self):
            return 1, 2

    pair = Pair.options(name="pair").remote()
    assert ray.get(ray.get_actor("pair").both.remote()) == [1, 2]
    del pair


def test_a_handle_can_be_the_key_of_a_dictionary(ray, Counter):
    counter = Counter.remote()
    assert {counter: 1}[ray.get(ray.put(counter))] == 1


def test_calls_through_two_copies_of_a_handle_share_the_state(ray, Counter):
    counter = Counter.remote()
    copy = ray.get(ray.put(counter))
    ray.get(counter.add.remote())
    assert ray.get(copy.add.remote()) == 2


def test_a_large_array_can_be_given_to_a_constructor(ray):
    @ray.remote
    class Holder:
        def __init__(self, array):
            self.array = array

        def total(self):
            return self.array.sum()

    assert ray.get(Holder.remote(np.ones(1_000_000)).total.remote()) == 1_000_000


def test_an_array_an_actor_keeps_does_not_change_what_it_gave_before(ray):
    @ray.remote
    class Params:
        def __init__(self):
            self.array = np.zeros(300_000)

        def step(self):
            self.array += 1
            return self.array

    params = Params.remote()
    one, two = ray.get([params.step.remote(), params.step.remote()])
    assert (one[0], two[0]) == (1, 2)


def test_a_list_an_actor_keeps_does_not_change_what_it_gave_before(ray):
    @ray.remote
    class Log:
        def __init__(self):
            self.lines = []

        def add(self, line):
            self.lines.append(line)
            return self.lines

    log = Log.remote()
    assert ray.get([log.add.remote(1), log.add.remote(2)]) == [[1], [1, 2]]


def test_a_failed_call_is_ready_for_wait(ray, Counter):
    counter = Counter.remote()
    ref = counter.fail.remote()
    assert ray.wait([ref]) == ([ref], [])


# Processes


def test_a_task_runs_beside_eight_default_actors_on_one_cpu(fresh):
    ray = fresh(num_cpus=1)

    @ray.remote
    class Member:
        def pid(self):
            import os

            return os.getpid()

    @ray.remote
    def task():
        return "ran"

    members = [Member.remote() for _ in range(8)]
    assert len(set(ray.get([member.pid.remote() for member in members]))) == 8
    assert ray.get(task.remote()) == "ran"


def test_no_task_runs_in_an_actor_s_process(ray, Counter):
    @ray.remote
    def pid():
        import os

        return os.getpid()

    actor_pid = ray.get(Counter.remote().pid.remote())
    assert actor_pid not in ray.get([pid.remote() for _ in range(10)])


# Errors of the constructor


def test_an_error_in_the_constructor_is_told_by_every_call(ray, Broken):
    broken = Broken.remote()
    for _ in range(2):
        with pytest.raises(ray.exceptions.ActorDiedError, match="cannot be built"):
            ray.get(broken.hello.remote())


def test_ray_ready_tells_an_error_in_the_constructor(ray, Broken):
    broken = Broken.remote()
    with pytest.raises(ray.exceptions.ActorDiedError, match="cannot be built"):
        ray.get(broken.__ray_ready__.remote())


def test_the_name_of_an_actor_that_could_not_be_made_is_free_when_its_handle_goes(
    ray, Broken, Counter
):
    broken = Broken.options(name="unlucky").remote()
    with pytest.raises(ray.exceptions.ActorDiedError):
        ray.get(broken.hello.remote())
    del broken
    found = []

    def make():
        try:
            found.append(Counter.options(name="unlucky").remote())
        except ValueError:
            return False
        return True

    wait_until(make)
    assert ray.get(found[0].add.remote()) == 1


# Names


def test_a_taken_name_is_an_actor_already_exists_error(ray, Counter):
    counter = Counter.options(name="taken").remote()
    with pytest.raises(ray.exceptions.ActorAlreadyExistsError, match="taken"):
        Counter.options(name="taken").remote()
    del counter


def test_a_killed_actor_cannot_be_looked_up(ray, Counter):
    counter = Counter.options(name="killed").remote()
    ray.get(counter.add.remote())
    ray.kill(counter)

    def is_absent():
        try:
            ray.get_actor("killed")
        except ValueError:
            return True
        return False

    wait_until(is_absent)


def test_an_actor_can_make_a_named_actor_that_the_driver_finds(ray, Counter):
    @ray.remote
    class Manager:
        def __init__(self):
            self.counter = Counter.options(name="made inside").remote(5)

        def ready(self):
            return ray.get(self.counter.add.remote())

    manager = Manager.remote()
    assert ray.get(manager.ready.remote()) == 6
    assert ray.get(ray.get_actor("made inside").add.remote()) == 7


# Kill


def test_the_error_after_kill_says_that_it_was_kill(ray, Counter):
    counter = Counter.remote()
    ray.get(counter.add.remote())
    ray.kill(counter)
    with pytest.raises(ray.exceptions.ActorDiedError, match=r"ray\.kill"):
        ray.get(counter.add.remote())


def test_results_of_before_kill_can_still_be_got(ray, Counter):
    counter = Counter.remote()
    ref = counter.add.remote()
    ray.wait([ref])
    ray.kill(counter)
    assert ray.get(ref) == 1


def test_a_task_that_waits_for_a_killed_actor_s_call_fails(ray, Counter, tmp_path):
    @ray.remote
    def use(number):
        return number

    counter = Counter.remote()
    result = use.remote(counter.wait_for.remote(str(tmp_path / "never")))
    wait_for_files(tmp_path / "never.started")
    ray.kill(counter)
    with pytest.raises(ray.exceptions.RayActorError):
        ray.get(result)


def test_other_actors_of_the_class_outlive_a_kill(ray, Counter):
    one, other = Counter.remote(), Counter.remote()
    ray.get([one.add.remote(), other.add.remote()])
    ray.kill(one)
    assert ray.get(other.add.remote()) == 2


# The last handle


def test_an_actor_lives_while_a_put_object_holds_its_handle(ray, Counter):
    counter = Counter.remote()
    pid = ray.get(counter.pid.remote())
    ref = ray.put([counter])
    del counter
    assert ray.get(ray.get(ref)[0].pid.remote()) == pid
    del ref
    wait_until(lambda: not is_running(pid))


def test_the_actors_of_an_actor_end_with_it(ray, Counter):
    @ray.remote
    class Owner:
        def __init__(self):
            self.counter = Counter.remote()

        def pid_of_mine(self):
            return ray.get(self.counter.pid.remote())

    owner = Owner.remote()
    pid = ray.get(owner.pid_of_mine.remote())
    ray.kill(owner)
    wait_until(lambda: not is_running(pid))


def test_a_bound_method_keeps_the_actor(ray, Counter):
    counter = Counter.remote()
    add = counter.add
    ray.get(add.remote())
    del counter
    assert ray.get(add.remote()) == 2


def test_a_result_of_an_actor_outlives_it(ray, Counter):
    counter = Counter.remote()
    pid = ray.get(counter.pid.remote())
    ref = counter.add.remote(7)
    del counter
    wait_until(lambda: not is_running(pid))
    assert ray.get(ref) == 7


# Death from within


@pytest.fixture
def Mortal(ray, cluster):
    """An actor class that can end its process."""

    @ray.remote
    class Mortal:
        def die(self, signal=0):
            import os

            if signal:
                os.kill(os.getpid(), signal)
            os._exit(1)

        def leave(self):
            ray.actor.exit_actor()

        def leave_by_system_exit(self):
            raise SystemExit

        def hello(self):
            return "hello"

    return Mortal


def test_a_sigkill_is_an_actor_died_error(ray, Mortal):
    mortal = Mortal.remote()
    with pytest.raises(ray.exceptions.ActorDiedError):
        ray.get(mortal.die.remote(9))


def test_calls_after_a_process_died_fail_too(ray, Mortal):
    mortal = Mortal.remote()
    with pytest.raises(ray.exceptions.RayActorError):
        ray.get(mortal.die.remote())
    with pytest.raises(ray.exceptions.RayActorError):
        ray.get(mortal.hello.remote())


def test_calls_after_exit_actor_fail(ray, Mortal):
    mortal = Mortal.remote()
    with pytest.raises(ray.exceptions.RayActorError):
        ray.get(mortal.leave.remote())
    with pytest.raises(ray.exceptions.RayActorError):
        ray.get(mortal.hello.remote())


def test_the_error_after_exit_actor_says_so(ray, Mortal):
    mortal = Mortal.remote()
    with pytest.raises(ray.exceptions.ActorDiedError, match="exit_actor"):
        ray.get(mortal.leave.remote())


def test_system_exit_in_a_method_ends_the_actor(ray, Mortal):
    mortal = Mortal.remote()
    with pytest.raises(ray.exceptions.RayActorError):
        ray.get(mortal.leave_by_system_exit.remote())


def test_a_call_after_ray_terminate_is_an_actor_error(ray, Counter):
    counter = Counter.remote()
    pid = ray.get(counter.pid.remote())
    counter.__ray_terminate__.remote()
    wait_until(lambda: not is_running(pid))
    with pytest.raises(ray.exceptions.RayActorError):
        ray.get(counter.add.remote())
