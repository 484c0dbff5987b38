"""Actors: construction, state, order, methods, handles, names, death and life time."""

from __future__ import annotations

import os
import pickle
import time
import weakref
from pathlib import Path

import numpy as np
import pytest
from _polling import is_running, wait_until

pytestmark = pytest.mark.usefixtures("cluster")


# Construction


def test_an_actor_keeps_its_state_between_calls(ray):
    @ray.remote
    class Counter:
        def __init__(self):
            self.count = 0

        def add(self):
            self.count += 1
            return self.count

    counter = Counter.remote()
    assert ray.get([counter.add.remote() for _ in range(3)]) == [1, 2, 3]


def test_two_actors_of_a_class_share_no_state(ray):
    @ray.remote
    class Bag:
        things = []  # noqa: RUF012

        def add(self, thing):
            self.things.append(thing)
            return self.things

    one, two = Bag.remote(), Bag.remote()
    assert ray.get([one.add.remote(1), two.add.remote(2)]) == [[1], [2]]


def test_a_class_without_a_constructor_can_be_an_actor(ray):
    @ray.remote
    class Plain:
        def answer(self):
            return 42

    assert ray.get(Plain.remote().answer.remote()) == 42


def test_the_constructor_gets_positional_keyword_and_default_arguments(ray):
    @ray.remote
    class Holder:
        def __init__(self, first, second=2, *rest, third, fourth=4):
            self.held = (first, second, rest, third, fourth)

        def look(self):
            return self.held

    one, two = Holder.remote(1, third=3), Holder.remote(1, 0, 7, 8, third=3, fourth=0)
    assert ray.get([one.look.remote(), two.look.remote()]) == [
        (1, 2, (), 3, 4),
        (1, 0, (7, 8), 3, 0),
    ]


def test_a_reference_given_to_the_constructor_arrives_as_its_value(ray):
    @ray.remote
    class Holder:
        def __init__(self, value):
            self.value = value

        def look(self):
            return self.value

    assert ray.get(Holder.remote(ray.put("value")).look.remote()) == "value"


def test_a_reference_in_a_list_given_to_the_constructor_stays_a_reference(ray):
    @ray.remote
    class Holder:
        def __init__(self, references):
            self.references = references

        def look(self):
            return isinstance(self.references[0], ray.ObjectRef), ray.get(self.references)

    assert ray.get(Holder.remote([ray.put("value")]).look.remote()) == (True, ["value"])


def test_a_class_becomes_an_actor_class_without_the_decorator(ray):
    class Plain:
        def answer(self):
            return 42

    assert ray.get(ray.remote(Plain).remote().answer.remote()) == 42
    assert Plain().answer() == 42


def test_an_actor_class_takes_options_for_one_actor(ray):
    @ray.remote
    class Resourceful:
        def assigned(self):
            return ray.get_runtime_context().get_assigned_resources()

    actor = Resourceful.options(num_cpus=2).remote()
    assert ray.get(actor.assigned.remote()) == {"CPU": 2.0}


def test_an_unknown_option_of_an_actor_is_a_value_error(ray):
    @ray.remote
    class Plain:
        pass

    with pytest.raises(ValueError, match="Invalid option keyword colour for actors"):
        Plain.options(colour="red")


def test_an_option_of_tasks_is_a_value_error_for_an_actor(ray):
    @ray.remote
    class Plain:
        pass

    with pytest.raises(ValueError, match="Invalid option keyword num_returns for actors"):
        Plain.options(num_returns=2)


def test_an_actor_class_can_be_pickled_and_used_in_a_task(ray):
    @ray.remote
    class Plain:
        def answer(self):
            return 42

    @ray.remote
    def use(actor_class):
        return ray.get(actor_class.remote().answer.remote())

    assert ray.get(use.remote(Plain)) == 42


def test_actor_class_and_handle_are_instances_of_the_public_types(ray):
    @ray.remote
    class Plain:
        pass

    assert isinstance(Plain, ray.actor.ActorClass)
    assert isinstance(Plain.remote(), ray.actor.ActorHandle)


# Calls that are refused


def test_calling_an_actor_class_is_a_type_error(ray):
    @ray.remote
    class Plain:
        pass

    with pytest.raises(TypeError, match=r"cannot be instantiated directly.*Plain\.remote\("):
        Plain()


def test_calling_a_method_without_remote_is_a_type_error(ray):
    @ray.remote
    class Plain:
        def answer(self):
            return 42

    with pytest.raises(TypeError, match="Actor methods cannot be called directly.*answer.remote"):
        Plain.remote().answer()


def test_an_unknown_method_is_an_attribute_error(ray):
    @ray.remote
    class Plain:
        pass

    actor = Plain.remote()
    with pytest.raises(AttributeError, match="has no attribute 'answer'"):
        actor.answer.remote()


def test_attributes_and_properties_of_the_instance_are_not_on_the_handle(ray):
    @ray.remote
    class Plain:
        colour = "red"

        def __init__(self):
            self.size = 1

        @property
        def shape(self):
            return "round"

    actor = Plain.remote()
    assert not any(hasattr(actor, name) for name in ("colour", "size", "shape"))


def test_a_missing_argument_of_the_constructor_is_a_type_error_at_once(ray):
    @ray.remote
    class Holder:
        def __init__(self, value):
            self.value = value

    with pytest.raises(TypeError, match="missing a required argument: 'value'"):
        Holder.remote()


def test_too_many_arguments_of_the_constructor_are_a_type_error_at_once(ray):
    @ray.remote
    class Plain:
        pass

    with pytest.raises(TypeError, match="too many positional arguments"):
        Plain.remote(1)


def test_an_unknown_keyword_of_the_constructor_is_a_type_error_at_once(ray):
    @ray.remote
    class Holder:
        def __init__(self, value=1):
            self.value = value

    with pytest.raises(TypeError, match="got an unexpected keyword argument 'wert'"):
        Holder.remote(wert=1)


def test_wrong_arguments_of_a_method_are_a_type_error_at_once(ray):
    @ray.remote
    class Echo:
        def say(self, word):
            return word

    echo = Echo.remote()
    with pytest.raises(TypeError, match="missing a required argument: 'word'"):
        echo.say.remote()
    with pytest.raises(TypeError, match="too many positional arguments"):
        echo.say.remote("a", "b")
    with pytest.raises(TypeError, match="got an unexpected keyword argument 'wort'"):
        echo.say.remote("a", wort="b")


def test_subclassing_an_actor_class_is_an_error_that_names_both(ray):
    @ray.remote
    class Base:
        pass

    with pytest.raises(
        ray.actor.ActorClassInheritanceException,
        match=r"define subclass 'Derived' of actor class '.*Base'",
    ):

        class Derived(Base):
            pass


def test_the_error_of_subclassing_is_a_type_error(ray):
    assert issubclass(ray.actor.ActorClassInheritanceException, TypeError)


# Methods


def test_calls_from_one_place_run_in_their_order(ray):
    @ray.remote
    class Log:
        def __init__(self):
            self.lines = []

        def write(self, line):
            self.lines.append(line)

        def read(self):
            return self.lines

    log = Log.remote()
    for number in range(200):
        log.write.remote(number)
    assert ray.get(log.read.remote()) == list(range(200))


def test_a_call_that_waits_for_its_argument_keeps_its_place(ray, tmp_path):
    @ray.remote
    class Log:
        def __init__(self):
            self.lines = []

        def write(self, line):
            self.lines.append(line)
            return self.lines

    @ray.remote
    def first(path):
        while not path.exists():
            time.sleep(0.01)
        return "first"

    log = Log.remote()
    log.write.remote(first.remote(tmp_path / "go"))
    second = log.write.remote("second")
    (tmp_path / "go").touch()
    assert ray.get(second) == ["first", "second"]


def test_an_actor_runs_one_call_at_a_time(ray):
    @ray.remote
    class Room:
        def __init__(self):
            self.present = 0

        def visit(self):
            self.present += 1
            time.sleep(0.02)
            seen, self.present = self.present, self.present - 1
            return seen

    @ray.remote
    def visitor(room):
        return ray.get([room.visit.remote() for _ in range(3)])

    room = Room.remote()
    assert ray.get([visitor.remote(room) for _ in range(3)]) == [[1, 1, 1]] * 3


def test_calls_made_while_the_constructor_runs_wait_for_it(ray, tmp_path):
    @ray.remote
    class Slow:
        def __init__(self, path):
            while not path.exists():
                time.sleep(0.01)
            self.ready = True

        def look(self):
            return self.ready

    looked = Slow.remote(tmp_path / "go").look.remote()
    assert ray.wait([looked], timeout=0.2) == ([], [looked])
    (tmp_path / "go").touch()
    assert ray.get(looked) is True


def test_a_method_gets_keyword_and_default_arguments(ray):
    @ray.remote
    class Echo:
        def say(self, first, *rest, second=2, **more):
            return first, rest, second, more

    echo = Echo.remote()
    assert ray.get(echo.say.remote(1, 5, third=3)) == (1, (5,), 2, {"third": 3})


def test_ray_method_declares_the_number_of_results(ray):
    @ray.remote
    class Splitter:
        @ray.method(num_returns=2)
        def pair(self):
            return "one", "two"

    one, two = Splitter.remote().pair.remote()
    assert ray.get([two, one]) == ["two", "one"]


def test_a_method_of_zero_results_gives_none_instead_of_a_reference(ray):
    @ray.remote
    class Log:
        def __init__(self):
            self.lines = []

        @ray.method(num_returns=0)
        def write(self, line):
            self.lines.append(line)

        def read(self):
            return self.lines

    log = Log.remote()
    assert log.write.remote("line") is None
    assert ray.get(log.read.remote()) == ["line"]


@pytest.mark.parametrize("number", [0, 1, 3])
def test_options_of_a_method_change_the_number_of_results(ray, number):
    @ray.remote
    class Splitter:
        @ray.method(num_returns=2)
        def items(self, items):
            return items

    given = Splitter.remote().items.options(num_returns=number).remote([7, 8, 9])
    if number == 0:
        assert given is None
    else:
        assert isinstance(given, list) == (number > 1)
        assert ray.get(given) == [7, 8, 9]


def test_a_wrong_number_of_results_is_a_value_error_at_get(ray):
    @ray.remote
    class Splitter:
        @ray.method(num_returns=2)
        def items(self):
            return [7, 8, 9]

    first, _ = Splitter.remote().items.remote()
    with pytest.raises(ValueError, match="returned 3 objects, but num_returns=2"):
        ray.get(first)


def test_ray_method_refuses_an_unknown_keyword(ray):
    with pytest.raises(AssertionError, match="Unexpected keyword argument to @ray.method: 'colour"):
        ray.method(colour="red")


def test_ray_method_refuses_a_positional_argument(ray):
    with pytest.raises(AssertionError, match="@ray.method"):
        ray.method(2)


def test_an_unknown_option_of_a_method_is_a_type_error(ray):
    @ray.remote
    class Plain:
        def answer(self):
            return 42

    actor = Plain.remote()
    with pytest.raises(TypeError, match="num_cpus"):
        actor.answer.options(num_cpus=1).remote()


def test_static_and_class_methods_can_be_called(ray):
    @ray.remote
    class Tools:
        factor = 3

        @staticmethod
        def double(number):
            return 2 * number

        @classmethod
        def triple(cls, number):
            return cls.factor * number

    tools = Tools.remote()
    assert ray.get([tools.double.remote(4), tools.triple.remote(4)]) == [8, 12]


def test_private_and_special_methods_can_be_called(ray):
    @ray.remote
    class Box:
        def __len__(self):
            return 9

        def _secret(self):
            return "hidden"

    box = Box.remote()
    assert ray.get([box.__len__.remote(), box._secret.remote()]) == [9, "hidden"]


def test_methods_of_a_plain_base_class_are_methods_of_the_actor(ray):
    class Base:
        def __init__(self, name):
            self.name = name

        def greet(self):
            return f"I am {self.name}, {self.kind()}"

        def kind(self):
            return "base"

    @ray.remote
    class Derived(Base):
        def __init__(self, name):
            super().__init__(name.upper())

        def kind(self):
            return "derived"

    assert ray.get(Derived.remote("x").greet.remote()) == "I am X, derived"


def test_a_method_can_be_kept_and_called_later(ray):
    @ray.remote
    class Plain:
        def answer(self):
            return 42

    actor = Plain.remote()
    method = actor.answer
    assert ray.get([method.remote(), method.remote()]) == [42, 42]


def test_a_large_array_goes_in_and_comes_out(ray):
    @ray.remote
    class Holder:
        def __init__(self, array):
            self.array = array

        def times(self, other):
            return self.array * other

    ones = np.ones((512, 1024))
    result = ray.get(Holder.remote(ones).times.remote(3 * ones))
    assert result.shape == (512, 1024)
    assert (result == 3).all()


def test_an_array_argument_of_a_method_is_read_only(ray):
    @ray.remote
    class Writer:
        def write(self, array):
            array[0] = 1

    with pytest.raises(ValueError, match="read-only"):
        ray.get(Writer.remote().write.remote(ray.put(np.zeros(100_000))))


def test_ray_ready_is_true_when_the_constructor_is_done(ray):
    @ray.remote
    class Plain:
        pass

    assert ray.get(Plain.remote().__ray_ready__.remote()) is True


def test_ray_call_runs_a_function_on_the_instance(ray):
    @ray.remote
    class Holder:
        def __init__(self, value):
            self.value = value

    holder = Holder.remote(5)
    assert ray.get(holder.__ray_call__.remote(lambda self, more: self.value + more, 2)) == 7


# Results and other calls


def test_the_result_of_a_call_goes_to_a_task_before_it_exists(ray, tmp_path):
    @ray.remote
    class Slow:
        def number(self, path):
            while not path.exists():
                time.sleep(0.01)
            return 21

    @ray.remote
    def double(number):
        return 2 * number

    slow = Slow.remote()
    doubled = double.remote(slow.number.remote(tmp_path / "go"))
    (tmp_path / "go").touch()
    assert ray.get(doubled) == 42


def test_the_result_of_a_task_goes_to_a_call_before_it_exists(ray, tmp_path):
    @ray.remote
    class Doubler:
        def double(self, number):
            return 2 * number

    @ray.remote
    def number(path):
        while not path.exists():
            time.sleep(0.01)
        return 21

    doubled = Doubler.remote().double.remote(number.remote(tmp_path / "go"))
    (tmp_path / "go").touch()
    assert ray.get(doubled) == 42


def test_the_result_of_a_call_goes_to_a_call_of_the_same_actor(ray):
    @ray.remote
    class Adder:
        def add(self, one, two):
            return one + two

    adder = Adder.remote()
    assert ray.get(adder.add.remote(adder.add.remote(1, 2), adder.add.remote(3, 4))) == 10


def test_wait_tells_which_calls_are_done(ray, tmp_path):
    @ray.remote
    class Worker:
        def work(self, path):
            while path is not None and not path.exists():
                time.sleep(0.01)

    slow, fast = Worker.remote(), Worker.remote()
    late, early = slow.work.remote(tmp_path / "go"), fast.work.remote(None)
    assert ray.wait([late, early]) == ([early], [late])
    (tmp_path / "go").touch()
    assert ray.wait([late, early], num_returns=2) == ([late, early], [])


def test_a_handle_instead_of_a_reference_is_an_error(ray):
    @ray.remote
    class Plain:
        pass

    actor = Plain.remote()
    with pytest.raises(ValueError, match="Invalid type of object refs.*ActorHandle"):
        ray.get(actor)
    with pytest.raises(TypeError, match="which is not an ray.ObjectRef"):
        ray.get([actor])
    with pytest.raises(TypeError, match="expected a list of ray.ObjectRef.*ActorHandle"):
        ray.wait([actor])


# Processes


def test_an_actor_has_a_process_of_its_own(ray):
    @ray.remote
    class Process:
        def pid(self):
            return os.getpid()

    @ray.remote
    def pid():
        return os.getpid()

    one, two = Process.remote(), Process.remote()
    pids = ray.get([one.pid.remote(), two.pid.remote(), pid.remote()])
    assert len({os.getpid(), *pids}) == 4


def test_all_calls_of_an_actor_run_in_the_same_process(ray):
    @ray.remote
    class Process:
        def pid(self):
            return os.getpid()

    process = Process.remote()
    assert len(set(ray.get([process.pid.remote() for _ in range(10)]))) == 1


# Handles


def test_a_handle_goes_to_a_task(ray):
    @ray.remote
    class Log:
        def __init__(self):
            self.lines = []

        def write(self, line):
            self.lines.append(line)
            return len(self.lines)

    @ray.remote
    def writer(log, line):
        return ray.get(log.write.remote(line))

    log = Log.remote()
    assert sorted(ray.get([writer.remote(log, number) for number in range(5)])) == [1, 2, 3, 4, 5]


def test_a_handle_goes_to_a_task_in_a_container(ray):
    @ray.remote
    class Plain:
        def answer(self):
            return 42

    @ray.remote
    def use(containers):
        handles = [containers["list"][0], containers["nested"][0][0]]
        return ray.get([handle.answer.remote() for handle in handles])

    actor = Plain.remote()
    assert ray.get(use.remote({"list": [actor], "nested": ((actor,), 1)})) == [42, 42]


def test_a_handle_goes_to_another_actor(ray):
    @ray.remote
    class Server:
        def answer(self, number):
            return 2 * number

    @ray.remote
    class Client:
        def __init__(self, server):
            self.server = server

        def ask(self, number):
            return ray.get(self.server.answer.remote(number))

    assert ray.get(Client.remote(Server.remote()).ask.remote(21)) == 42


def test_a_handle_comes_back_from_a_task(ray):
    @ray.remote
    class Plain:
        def answer(self):
            return 42

    @ray.remote
    def make():
        return Plain.remote()

    assert ray.get(ray.get(make.remote()).answer.remote()) == 42


def test_a_handle_can_be_put(ray):
    @ray.remote
    class Plain:
        def answer(self):
            return 42

    assert ray.get(ray.get(ray.put(Plain.remote())).answer.remote()) == 42


def test_copies_of_a_handle_are_equal_and_hash_alike(ray):
    @ray.remote
    class Plain:
        pass

    @ray.remote
    def back(handle):
        return handle

    actor = Plain.remote()
    copy = ray.get(back.remote(actor))
    assert copy == actor
    assert len({copy, actor}) == 1


def test_handles_of_two_actors_are_unequal(ray):
    @ray.remote
    class Plain:
        pass

    assert Plain.remote() != Plain.remote()


def test_a_handle_survives_pickle(ray):
    @ray.remote
    class Plain:
        def answer(self):
            return 42

    actor = Plain.remote()
    copy = pickle.loads(pickle.dumps(actor))
    assert copy == actor
    assert ray.get(copy.answer.remote()) == 42


def test_the_repr_of_a_handle_names_the_class_and_the_actor_id(ray):
    @ray.remote
    class Plain:
        def my_id(self):
            return ray.get_runtime_context().get_actor_id()

    actor = Plain.remote()
    name = "test_the_repr_of_a_handle_names_the_class_and_the_actor_id.<locals>.Plain"
    assert repr(actor) == f"Actor({name}, {ray.get(actor.my_id.remote())})"


def test_the_methods_are_listed_by_dir(ray):
    @ray.remote
    class Plain:
        def answer(self):
            return 42

    built_in = ["__init__", "__ray_call__", "__ray_ready__", "__ray_terminate__"]
    assert sorted(dir(Plain.remote())) == [*built_in, "answer"]


def test_dir_of_an_actor_class_has_the_names_of_the_class(ray):
    class Base:
        def inherited(self):
            return 1

    @ray.remote
    class Plain(Base):
        LIMIT = 3

        def answer(self):
            return 42

        @staticmethod
        def double(x):
            return 2 * x

    assert {"LIMIT", "answer", "double", "inherited", "remote", "options"} <= set(dir(Plain))


def test_actor_methods_have_weak_references(ray):
    @ray.remote
    class Plain:
        def answer(self):
            return 42

    actor = Plain.remote()
    method = actor.answer
    weak = weakref.ref(method)
    assert ray.get(weak().remote()) == 42
    del method
    assert weak() is None


def test_an_invocation_decorator_runs_around_the_calls_where_they_are_made(ray):
    def add_one_at_the_caller(invoke):
        def call(args, kwargs):
            return [os.getpid(), invoke((args[0] + 1,), {**kwargs, "more": 10})]

        return call

    def add_one(self, x, more=0):
        return x + more

    def plain(x, more=0):
        return x + more

    add_one.__ray_invocation_decorator__ = add_one_at_the_caller
    plain.__ray_invocation_decorator__ = add_one_at_the_caller

    @ray.remote
    class Adder:
        add = add_one

    def check(caller, ref):
        assert caller == os.getpid()
        assert ray.get(ref) == 12

    @ray.remote
    def use(adder, function):
        check(*adder.add.remote(1))
        check(*function.remote(1))

    adder, function = Adder.options(name="decorated").remote(), ray.remote(plain)
    check(*adder.add.remote(1))
    check(*adder.add.options(name="other").remote(1, more=3))
    check(*ray.get_actor("decorated").add.remote(1))
    check(*function.remote(1))
    check(*function.options(num_cpus=1).remote(1))
    ray.get(use.remote(adder, function))


# What actors do


def test_an_actor_starts_tasks(ray):
    @ray.remote
    def double(number):
        return 2 * number

    @ray.remote
    class Manager:
        def run(self):
            return ray.get([double.remote(number) for number in range(3)])

    assert ray.get(Manager.remote().run.remote()) == [0, 2, 4]


def test_an_actor_starts_actors(ray):
    @ray.remote
    class Child:
        def pid(self):
            return os.getpid()

    @ray.remote
    class Parent:
        def __init__(self):
            self.child = Child.remote()

        def pids(self):
            return os.getpid(), ray.get(self.child.pid.remote())

    own, child = ray.get(Parent.remote().pids.remote())
    assert own != child


def test_an_actor_holds_an_object_that_nobody_else_refers_to(ray):
    @ray.remote
    class Holder:
        def __init__(self, references):
            self.references = references

        def look(self):
            return ray.get(self.references[0])[-1]

    reference = ray.put(np.arange(100_000))
    holder = Holder.remote([reference])
    ray.get(holder.__ray_ready__.remote())
    del reference
    assert ray.get(holder.look.remote()) == 99_999


def test_a_reference_that_an_actor_made_is_usable_by_the_driver(ray):
    @ray.remote
    class Maker:
        def make(self):
            return [ray.put("made")]

    maker = Maker.remote()
    [reference] = ray.get(maker.make.remote())
    assert ray.get(reference) == "made"


# Errors


def test_an_error_in_a_method_is_raised_by_get_as_its_own_class(ray):
    @ray.remote
    class Faulty:
        def fail(self):
            raise KeyError("lost")

    with pytest.raises(KeyError, match="lost") as info:
        ray.get(Faulty.remote().fail.remote())
    assert isinstance(info.value, ray.exceptions.RayTaskError)


def test_an_error_in_a_method_names_class_method_and_actor(ray):
    @ray.remote
    class Faulty:
        def fail(self):
            raise KeyError("lost")

        def my_id(self):
            return ray.get_runtime_context().get_actor_id()

    faulty = Faulty.remote()
    with pytest.raises(KeyError, match=r"ray::Faulty\.fail\(\)") as info:
        ray.get(faulty.fail.remote())
    assert f"actor_id={ray.get(faulty.my_id.remote())}" in str(info.value)


def test_an_error_in_a_method_leaves_the_actor_and_its_state(ray):
    @ray.remote
    class Faulty:
        def __init__(self):
            self.count = 0

        def fail(self):
            self.count += 1
            raise KeyError("lost")

        def look(self):
            return self.count

    faulty = Faulty.remote()
    faulty.fail.remote()
    assert ray.get(faulty.look.remote()) == 1


def test_an_error_in_the_constructor_is_raised_by_the_get_of_a_method(ray):
    @ray.remote
    class Broken:
        def __init__(self):
            raise ValueError("no constructor today")

        def answer(self):
            return 42

    broken = Broken.remote()
    with pytest.raises(ray.exceptions.ActorDiedError, match="ValueError: no constructor today"):
        ray.get(broken.answer.remote())
    with pytest.raises(ray.exceptions.RayActorError, match="error raised in its creation task"):
        ray.get(broken.__ray_ready__.remote())


def test_the_error_of_an_argument_of_the_constructor_kills_the_actor(ray):
    @ray.remote
    def fail():
        raise ValueError("no argument today")

    @ray.remote
    class Holder:
        def __init__(self, value):
            self.value = value

        def look(self):
            return self.value

    with pytest.raises(ray.exceptions.ActorDiedError, match="no argument today"):
        ray.get(Holder.remote(fail.remote()).look.remote())


def test_the_error_of_an_argument_of_a_method_is_raised_and_the_method_is_not_run(ray):
    @ray.remote
    def fail():
        raise ValueError("no argument today")

    @ray.remote
    class Log:
        def __init__(self):
            self.lines = []

        def write(self, line):
            self.lines.append(line)

        def read(self):
            return self.lines

    log = Log.remote()
    with pytest.raises(ValueError, match="no argument today"):
        ray.get(log.write.remote(fail.remote()))
    assert ray.get(log.read.remote()) == []


def test_an_actor_whose_process_exits_is_dead(ray):
    @ray.remote
    class Fragile:
        def die(self):
            os._exit(1)

        def answer(self):
            return 42

    fragile = Fragile.remote()
    with pytest.raises(ray.exceptions.ActorDiedError):
        ray.get(fragile.die.remote())
    with pytest.raises(ray.exceptions.ActorDiedError):
        ray.get(fragile.answer.remote())


# Names


def test_get_actor_finds_an_actor_by_its_name(ray):
    @ray.remote
    class Plain:
        def answer(self):
            return 42

    actor = Plain.options(name="found").remote()
    found = ray.get_actor("found")
    assert found == actor
    assert ray.get(found.answer.remote()) == 42


def test_get_actor_works_in_a_task(ray):
    @ray.remote
    class Plain:
        def answer(self):
            return 42

    @ray.remote
    def find():
        return ray.get(ray.get_actor("found in a task").answer.remote())

    actor = Plain.options(name="found in a task").remote()
    assert ray.get(find.remote()) == 42
    del actor


def test_the_name_may_be_given_to_the_decorator(ray):
    @ray.remote(name="named by the decorator")
    class Plain:
        pass

    actor = Plain.remote()
    assert ray.get_actor("named by the decorator") == actor


def test_an_unknown_name_is_a_value_error(ray):
    with pytest.raises(ValueError, match="Failed to look up actor with name 'nobody'"):
        ray.get_actor("nobody")


@pytest.mark.parametrize("name", ["", None])
def test_an_empty_name_to_get_is_a_value_error(ray, name):
    with pytest.raises(ValueError, match="supply a non-empty value"):
        ray.get_actor(name)


def test_a_name_to_get_that_is_no_string_is_a_type_error(ray):
    with pytest.raises(TypeError):
        ray.get_actor(5)


def test_a_name_that_is_taken_is_a_value_error(ray):
    @ray.remote
    class Plain:
        pass

    first = Plain.options(name="taken").remote()
    with pytest.raises(ValueError, match="The name taken .* is already taken") as info:
        Plain.options(name="taken").remote()
    assert isinstance(info.value, ray.exceptions.ActorAlreadyExistsError)
    del first


def test_an_empty_name_is_a_value_error(ray):
    @ray.remote
    class Plain:
        pass

    with pytest.raises(ValueError, match="Actor name cannot be an empty string"):
        Plain.options(name="").remote()


@pytest.mark.parametrize("option", ["name", "namespace", "lifetime"])
def test_a_name_namespace_or_lifetime_that_is_no_string_is_a_type_error(ray, option):
    @ray.remote
    class Plain:
        pass

    with pytest.raises(TypeError, match=f"The type of keyword '{option}' must be"):
        Plain.options(**{option: 5})


def test_names_are_unique_per_namespace(ray):
    @ray.remote
    class Plain:
        pass

    here = Plain.options(name="twin").remote()
    there = Plain.options(name="twin", namespace="elsewhere").remote()
    assert ray.get_actor("twin") == here
    assert ray.get_actor("twin", namespace="elsewhere") == there


def test_a_name_is_unknown_in_another_namespace(ray):
    @ray.remote
    class Plain:
        pass

    here = Plain.options(name="only here").remote()
    with pytest.raises(ValueError, match="Failed to look up actor with name 'only here'"):
        ray.get_actor("only here", namespace="elsewhere")
    del here


def test_an_empty_namespace_is_a_value_error(ray):
    @ray.remote
    class Plain:
        pass

    with pytest.raises(ValueError, match='"" is not a valid namespace'):
        Plain.options(name="x", namespace="").remote()
    with pytest.raises(ValueError, match='"" is not a valid namespace'):
        ray.get_actor("x", namespace="")


def test_get_if_exists_makes_the_actor_once(ray):
    @ray.remote
    class Holder:
        def __init__(self, value):
            self.value = value

        def look(self):
            return self.value

    first = Holder.options(name="only one", get_if_exists=True).remote(1)
    second = Holder.options(name="only one", get_if_exists=True).remote(2)
    assert first == second
    assert ray.get(second.look.remote()) == 1


def test_get_if_exists_needs_a_name(ray):
    @ray.remote
    class Plain:
        pass

    with pytest.raises(ValueError, match="name must be specified to use `get_if_exists`"):
        Plain.options(get_if_exists=True).remote()


def test_a_name_is_free_again_after_kill(ray):
    @ray.remote
    class Holder:
        def __init__(self, value):
            self.value = value

        def look(self):
            return self.value

    def make(value):
        try:
            return Holder.options(name="again").remote(value)
        except ValueError:
            return None

    ray.kill(make(1))
    second = wait_until(lambda: make(2))
    assert ray.get(second.look.remote()) == 2


def test_the_name_of_an_actor_that_nobody_refers_to_is_free(ray):
    @ray.remote
    class Plain:
        pass

    def is_known():
        try:
            return bool(ray.get_actor("out of scope"))
        except ValueError:
            return False

    actor = Plain.options(name="out of scope").remote()
    ray.get(actor.__ray_ready__.remote())
    del actor
    wait_until(lambda: not is_known())


def test_list_named_actors_has_the_names_of_this_namespace(ray):
    @ray.remote
    class Plain:
        pass

    here = Plain.options(name="listed").remote()
    there = Plain.options(name="listed elsewhere", namespace="elsewhere").remote()
    names = ray.util.list_named_actors()
    assert "listed" in names
    assert "listed elsewhere" not in names
    everywhere = ray.util.list_named_actors(all_namespaces=True)
    assert {"name": "listed elsewhere", "namespace": "elsewhere"} in everywhere
    del here, there


# Death


def test_kill_ends_the_process(ray):
    @ray.remote
    class Process:
        def pid(self):
            return os.getpid()

    process = Process.remote()
    pid = ray.get(process.pid.remote())
    ray.kill(process)
    wait_until(lambda: not is_running(pid))


def test_calls_that_kill_interrupts_or_keeps_from_running_raise(ray, tmp_path):
    @ray.remote
    class Worker:
        def work(self, path):
            path.touch()
            while True:
                time.sleep(0.01)

    worker = Worker.remote()
    running, queued = worker.work.remote(tmp_path / "on"), worker.work.remote(tmp_path / "never")
    wait_until((tmp_path / "on").exists)
    ray.kill(worker)
    for call in (running, queued):
        with pytest.raises(ray.exceptions.ActorDiedError, match="killed by `ray.kill`"):
            ray.get(call)
    assert not (tmp_path / "never").exists()


def test_calls_to_a_dead_actor_raise_at_get_and_not_at_remote(ray):
    @ray.remote
    class Process:
        def pid(self):
            return os.getpid()

    process = Process.remote()
    pid = ray.get(process.pid.remote())
    ray.kill(process)
    wait_until(lambda: not is_running(pid))  # until then a call may still get through
    call = process.pid.remote()
    with pytest.raises(ray.exceptions.RayActorError):
        ray.get(call)


def test_an_actor_can_be_killed_twice(ray):
    @ray.remote
    class Plain:
        pass

    actor = Plain.remote()
    assert ray.kill(actor) is None
    assert ray.kill(actor) is None


def test_an_actor_that_has_not_started_can_be_killed(ray):
    @ray.remote(resources={"nowhere": 1})
    class Plain:
        def answer(self):
            return 42

    actor = Plain.remote()
    answer = actor.answer.remote()
    ray.kill(actor)
    with pytest.raises(ray.exceptions.ActorDiedError):
        ray.get(answer)


def test_an_actor_can_be_killed_by_a_task(ray):
    @ray.remote
    class Process:
        def pid(self):
            return os.getpid()

    @ray.remote
    def killer(actor):
        ray.kill(actor)

    process = Process.remote()
    pid = ray.get(process.pid.remote())
    ray.get(killer.remote(process))
    wait_until(lambda: not is_running(pid))
    with pytest.raises(ray.exceptions.ActorDiedError):
        ray.get(process.pid.remote())


@pytest.mark.parametrize("what", ["a number", "a reference", "an actor class"])
def test_kill_takes_only_actors(ray, what):
    @ray.remote
    class Plain:
        pass

    victim = {"a number": 5, "a reference": ray.put(5), "an actor class": Plain}[what]
    with pytest.raises(ValueError, match=r"ray.kill\(\) only supported for actors.*ray.cancel\("):
        ray.kill(victim)


def test_cancel_does_not_take_actors(ray):
    @ray.remote
    class Plain:
        pass

    actor = Plain.remote()
    with pytest.raises(TypeError, match=r"ray.cancel\(\) only supported for object refs"):
        ray.cancel(actor)


def test_an_actor_ends_with_its_last_handle(ray):
    @ray.remote
    class Process:
        def pid(self):
            return os.getpid()

    process = Process.remote()
    pid = ray.get(process.pid.remote())
    del process
    wait_until(lambda: not is_running(pid))


def test_calls_that_were_made_before_the_last_handle_went_are_run(ray):
    @ray.remote
    class Worker:
        def work(self, number):
            time.sleep(0.05)
            return number

    worker = Worker.remote()
    results = [worker.work.remote(number) for number in range(5)]
    del worker
    assert ray.get(results) == [0, 1, 2, 3, 4]


def test_a_handle_that_a_task_holds_keeps_the_actor(ray, tmp_path):
    @ray.remote
    class Process:
        def pid(self):
            return os.getpid()

    @ray.remote
    def hold(process, path):
        while not path.exists():
            time.sleep(0.01)
        return ray.get(process.pid.remote())

    process = Process.remote()
    pid = ray.get(process.pid.remote())
    held = hold.remote(process, tmp_path / "go")
    del process
    (tmp_path / "go").touch()
    assert ray.get(held) == pid
    wait_until(lambda: not is_running(pid))


def test_a_handle_that_an_actor_holds_keeps_the_actor(ray):
    @ray.remote
    class Process:
        def pid(self):
            return os.getpid()

    @ray.remote
    class Holder:
        def __init__(self, process):
            self.process = process

        def pid(self):
            return ray.get(self.process.pid.remote())

    process = Process.remote()
    pid = ray.get(process.pid.remote())
    holder = Holder.remote(process)
    ray.get(holder.__ray_ready__.remote())
    del process
    assert ray.get(holder.pid.remote()) == pid
    del holder
    wait_until(lambda: not is_running(pid))


def test_a_handle_from_get_actor_does_not_keep_the_actor(ray):
    @ray.remote
    class Process:
        def pid(self):
            return os.getpid()

    process = Process.options(name="weakly known").remote()
    pid = ray.get(process.pid.remote())
    known = ray.get_actor("weakly known")
    del process
    wait_until(lambda: not is_running(pid))
    with pytest.raises(ray.exceptions.RayActorError):
        ray.get(known.pid.remote())


def test_a_detached_actor_outlives_its_handles_until_it_is_killed(ray):
    @ray.remote
    class Process:
        def pid(self):
            return os.getpid()

    pid = ray.get(Process.options(name="detached", lifetime="detached").remote().pid.remote())
    found = ray.get_actor("detached")
    assert ray.get(found.pid.remote()) == pid
    ray.kill(found)
    wait_until(lambda: not is_running(pid))


def test_another_lifetime_than_detached_or_non_detached_is_a_value_error(ray):
    @ray.remote
    class Plain:
        pass

    with pytest.raises(ValueError, match="argument must be .*'detached'"):
        Plain.options(lifetime="forever").remote()


@pytest.mark.parametrize("lifetime", ["non_detached", None])
def test_an_actor_of_ordinary_lifetime_ends_with_its_last_handle(ray, lifetime):
    @ray.remote
    class Process:
        def pid(self):
            return os.getpid()

    pid = ray.get(Process.options(lifetime=lifetime).remote().pid.remote())
    wait_until(lambda: not is_running(pid))


def test_exit_actor_ends_the_process_and_the_call_raises(ray):
    @ray.remote
    class Process:
        def pid(self):
            return os.getpid()

        def leave(self):
            ray.actor.exit_actor()
            return "not reached"

    process = Process.remote()
    pid = ray.get(process.pid.remote())
    with pytest.raises(ray.exceptions.ActorDiedError, match=r"exit_actor\(\) is called"):
        ray.get(process.leave.remote())
    wait_until(lambda: not is_running(pid))


def test_exit_actor_is_no_exception_that_user_code_catches(ray, tmp_path):
    @ray.remote
    class Stubborn:
        def leave(self, path):
            try:
                ray.actor.exit_actor()
            except Exception:  # noqa: BLE001
                path.touch()

    stubborn = Stubborn.remote()
    with pytest.raises(ray.exceptions.ActorDiedError):
        ray.get(stubborn.leave.remote(tmp_path / "caught"))
    assert not (tmp_path / "caught").exists()


def test_exit_actor_outside_an_actor_is_a_type_error(ray):
    with pytest.raises(TypeError, match="called on a non-actor worker"):
        ray.actor.exit_actor()


def test_ray_terminate_ends_the_actor_after_the_calls_before_it(ray):
    @ray.remote
    class Process:
        def pid(self):
            time.sleep(0.05)
            return os.getpid()

    process = Process.remote()
    pids = [process.pid.remote() for _ in range(3)]
    process.__ray_terminate__.remote()
    pid, *_ = ray.get(pids)
    wait_until(lambda: not is_running(pid))


def test_more_default_actors_than_cpus_are_alive_together(ray):
    @ray.remote
    class Process:
        def pid(self):
            return os.getpid()

    processes = [Process.remote() for _ in range(6)]
    assert len(set(ray.get([process.pid.remote() for process in processes]))) == 6
    wait_until(lambda: ray.available_resources()["CPU"] == 4)


def test_the_file_written_by_a_method_is_there_after_its_get(ray, tmp_path):
    @ray.remote
    class Writer:
        def write(self, path, text):
            Path(path).write_text(text)

    ray.get(Writer.remote().write.remote(tmp_path / "file", "text"))
    assert (tmp_path / "file").read_text() == "text"


def test_the_actor_class_has_what_the_class_has(cluster, ray):
    @ray.remote
    class Actor:
        LIMIT = 3

        @staticmethod
        def double(x):
            return 2 * x

        @classmethod
        def limit(cls):
            return cls.LIMIT

    assert Actor.LIMIT == 3
    assert Actor.double(2) == 4
    assert Actor.limit() == 3
    with pytest.raises(AttributeError):
        Actor.nothing


def test_attributes_of_the_instance_do_not_hide_methods(ray):
    def plain(self):
        return "plain"

    class Base:
        inherited = plain

    @ray.remote
    class Actor(Base):
        def __init__(self):
            for name in ("plain", "inherited", "static", "of_class", "stream"):
                setattr(self, name, 0)
            self.replaced = lambda: "replacement"

        def replaced(self):
            return "method"

        @staticmethod
        def static():
            return "static"

        @classmethod
        def of_class(cls):
            return cls.__name__

        def stream(self):
            yield "item"

        def attributes(self):
            return [self.plain, self.replaced()]

    actor = Actor.remote()
    assert ray.get(actor.inherited.remote()) == "plain"
    assert ray.get(actor.replaced.remote()) == "method"
    assert ray.get(actor.static.remote()) == "static"
    assert ray.get(actor.of_class.remote()) == "Actor"
    assert ray.get(next(actor.stream.remote())) == "item"
    assert ray.get(actor.attributes.remote()) == [0, "replacement"]
