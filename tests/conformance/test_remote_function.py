"""Remote functions: decoration, arguments, options, results, and what travels with them."""

from __future__ import annotations

import functools
import inspect

import pytest

pytestmark = pytest.mark.usefixtures("cluster")


def test_a_decorated_function_runs_remotely(ray):
    @ray.remote
    def double(number):
        return 2 * number

    assert ray.get(double.remote(21)) == 42


def test_remote_gives_a_reference_at_once(ray):
    @ray.remote
    def nothing():
        pass

    assert isinstance(nothing.remote(), ray.ObjectRef)


def test_a_task_runs_in_another_process(ray):
    import os

    @ray.remote
    def pid():
        return os.getpid()

    assert ray.get(pid.remote()) != os.getpid()


def test_the_decorator_takes_options(ray):
    @ray.remote(num_cpus=2, num_returns=2)
    def pair():
        return 1, 2

    assert ray.get(pair.remote()) == [1, 2]


def test_remote_is_also_a_plain_function(ray):
    def double(number):
        return 2 * number

    assert ray.get(ray.remote(double).remote(4)) == 8
    assert double(4) == 8


def test_remote_with_options_gives_a_decorator(ray):
    def double(number):
        return 2 * number

    assert ray.get(ray.remote(num_cpus=1)(double).remote(4)) == 8


def test_a_lambda_can_be_remote(ray):
    assert ray.get(ray.remote(lambda number: number + 1).remote(1)) == 2


def test_empty_parentheses_are_an_error(ray):
    with pytest.raises(AssertionError, match="decorator must be applied"):

        @ray.remote()
        def nothing():
            pass


def test_positional_options_are_an_error(ray):
    with pytest.raises(AssertionError, match="decorator must be applied"):

        @ray.remote(1, 2)
        def nothing():
            pass


@pytest.mark.parametrize("thing", [sum, functools.partial(int, base=2), [].append])
def test_another_callable_than_a_function_or_a_class_is_a_type_error(ray, thing):
    with pytest.raises(TypeError, match="either a function or a class"):
        ray.remote(thing)


@pytest.mark.parametrize("thing", [1, "text", None, [1]])
def test_what_cannot_be_called_counts_as_a_positional_option(ray, thing):
    with pytest.raises(AssertionError, match="decorator must be applied"):
        ray.remote(thing)


def test_a_remote_function_cannot_be_called_directly(ray):
    @ray.remote
    def named():
        pass

    with pytest.raises(TypeError, match="Remote functions cannot be called directly") as raised:
        named()
    assert "named.remote(" in str(raised.value)


def test_an_unknown_option_is_an_error_at_decoration(ray):
    with pytest.raises(ValueError, match="Invalid option keyword"):

        @ray.remote(no_such_option=1)
        def nothing():
            pass


def test_an_unknown_option_is_an_error_in_options(ray):
    @ray.remote
    def nothing():
        pass

    with pytest.raises(ValueError, match="Invalid option keyword"):
        nothing.options(no_such_option=1)


@pytest.mark.parametrize(
    ("option", "error", "text"),
    [
        ({"num_cpus": -1}, ValueError, "quantity of resource num_cpus cannot be negative"),
        ({"num_cpus": "1"}, TypeError, "type of keyword 'num_cpus' must be"),
        ({"num_gpus": -1}, ValueError, "quantity of resource num_gpus cannot be negative"),
        ({"memory": -1}, ValueError, "quantity of resource memory cannot be negative"),
        ({"resources": {"custom": -1}}, ValueError, "resource custom cannot be negative"),
        ({"resources": [1]}, TypeError, "type of keyword 'resources' must be"),
        (
            {"num_returns": -1},
            ValueError,
            "'num_returns' only accepts None, a non-negative integer",
        ),
        ({"num_returns": 1.5}, TypeError, "type of keyword 'num_returns' must be"),
        ({"max_retries": -2}, ValueError, "'max_retries' only accepts None, 0, -1 or a positive"),
        ({"max_calls": -1}, ValueError, "'max_calls' only accepts None, 0 or a positive integer"),
        ({"retry_exceptions": 3}, TypeError, "type of keyword 'retry_exceptions' must be"),
        ({"name": 3}, TypeError, "type of keyword 'name' must be"),
    ],
)
def test_a_wrong_option_is_an_error_at_decoration(ray, option, error, text):
    with pytest.raises(error, match=text):
        ray.remote(**option)(lambda: None)


def test_cpus_and_gpus_do_not_go_into_resources(ray):
    with pytest.raises(ValueError, match="Use the 'num_cpus' and 'num_gpus' keyword"):
        ray.remote(resources={"CPU": 1})(lambda: None)


def test_options_changes_one_call_only(ray):
    @ray.remote
    def pair():
        return 1, 2

    assert ray.get(pair.options(num_returns=2).remote()) == [1, 2]
    assert ray.get(pair.remote()) == (1, 2)


def test_options_can_be_kept_and_used_again(ray):
    @ray.remote
    def pair(number):
        return number, number

    twice = pair.options(num_returns=2, name="kept")
    assert ray.get(twice.remote(1)) == [1, 1]
    assert ray.get(twice.remote(2)) == [2, 2]


def test_options_override_the_decorator(ray):
    @ray.remote(num_returns=3)
    def pair():
        return 1, 2

    assert len(pair.options(num_returns=2).remote()) == 2


def test_underscore_remote_takes_the_arguments_and_the_options(ray):
    @ray.remote
    def pair(first, second):
        return first, second

    refs = pair._remote(args=[1], kwargs={"second": 2}, num_returns=2)
    assert ray.get(refs) == [1, 2]


def test_underscore_remote_works_without_arguments(ray):
    @ray.remote
    def one():
        return 1

    assert ray.get(one._remote()) == 1


def test_arguments_are_positional_or_by_keyword(ray):
    @ray.remote
    def show(first, second=2, *rest, third, fourth=4, **others):
        return first, second, rest, third, fourth, others

    assert ray.get(show.remote(1, third=3)) == (1, 2, (), 3, 4, {})
    assert ray.get(show.remote(first=1, second=0, third=3)) == (1, 0, (), 3, 4, {})
    assert ray.get(show.remote(1, 2, 9, 8, third=3, fifth=5)) == (1, 2, (9, 8), 3, 4, {"fifth": 5})


def test_arguments_may_have_the_names_of_internals(ray):
    @ray.remote
    def show(self, args, kwargs, key, name, num_returns, function):
        return [self, args, kwargs, key, name, num_returns, function]

    given = {"args": 2, "kwargs": 3, "key": 4, "name": 5, "num_returns": 6, "function": 7}
    assert ray.get(show.remote(1, **given)) == [1, 2, 3, 4, 5, 6, 7]


def test_a_positional_only_parameter_and_a_keyword_may_share_a_name(ray):
    @ray.remote
    def show(name, /, **others):
        return name, others

    assert ray.get(show.remote(1, other=2)) == (1, {"other": 2})


@pytest.mark.parametrize(
    ("args", "kwargs", "text"),
    [
        ((), {}, "missing a required argument: 'first'"),
        ((1, 2, 3), {}, "too many positional arguments"),
        ((1,), {"first": 1}, "multiple values for argument 'first'"),
        ((1,), {"unknown": 1}, "got an unexpected keyword argument 'unknown'"),
    ],
)
def test_wrong_arguments_are_a_type_error_in_the_caller(ray, args, kwargs, text):
    @ray.remote
    def show(first, second=2):
        return first, second

    with pytest.raises(TypeError, match=text):
        show.remote(*args, **kwargs)


def test_a_default_is_evaluated_once_per_definition(ray):
    @ray.remote
    def show(values=(1, 2)):
        return values

    assert ray.get(show.remote()) == (1, 2)


def test_no_return_value_is_none(ray):
    @ray.remote
    def nothing():
        pass

    assert ray.get(nothing.remote()) is None


def test_num_returns_zero_gives_none_for_a_reference(ray):
    @ray.remote(num_returns=0)
    def nothing():
        pass

    assert nothing.remote() is None


def test_num_returns_one_gives_a_reference_to_what_was_returned(ray):
    @ray.remote(num_returns=1)
    def pair():
        return 1, 2

    assert ray.get(pair.remote()) == (1, 2)


@pytest.mark.parametrize("returned", [[1, 2], (1, 2), {1: "a", 2: "b"}, {1, 2}])
def test_several_returns_come_from_any_iterable_of_that_length(ray, returned):
    @ray.remote(num_returns=2)
    def some():
        return returned

    assert ray.get(some.remote()) == [1, 2]


def test_a_generator_function_fills_a_number_of_returns(ray):
    @ray.remote(num_returns=3)
    def some():
        yield from range(3)

    assert ray.get(some.remote()) == [0, 1, 2]


@pytest.mark.parametrize("returned", [(1,), (1, 2, 3), (), "abc"])
def test_the_wrong_number_of_returns_is_a_value_error_at_get(ray, returned):
    @ray.remote(num_returns=2)
    def wrong():
        return returned

    first, second = wrong.remote()
    for ref in (first, second):
        with pytest.raises(
            ValueError, match=rf"returned {len(returned)} objects, but num_returns=2"
        ):
            ray.get(ref)


@pytest.mark.parametrize("returned", [1, None])
def test_a_value_without_a_length_for_several_returns_is_a_type_error_at_get(ray, returned):
    @ray.remote(num_returns=2)
    def wrong():
        return returned

    with pytest.raises(TypeError, match="has no len"):
        ray.get(wrong.remote()[0])


def test_a_generator_that_ends_early_fails_the_returns_it_has_not_given(ray):
    @ray.remote(num_returns=2)
    def some():
        yield 1

    first, second = some.remote()
    assert ray.get(first) == 1
    with pytest.raises(ValueError, match="returned 1 objects, but num_returns=2"):
        ray.get(second)


def test_each_of_several_returns_can_be_used_alone(ray):
    @ray.remote(num_returns=2)
    def pair():
        return "left", "right"

    @ray.remote
    def upper(text):
        return text.upper()

    left, right = pair.remote()
    del left
    assert ray.get(upper.remote(right)) == "RIGHT"


def test_a_failed_task_fails_all_of_its_returns(ray):
    @ray.remote(num_returns=2)
    def wrong():
        raise KeyError("both")

    for ref in wrong.remote():
        with pytest.raises(KeyError):
            ray.get(ref)


def test_a_function_can_call_itself(ray):
    @ray.remote
    def factorial(number):
        if number == 0:
            return 1
        return number * ray.get(factorial.remote(number - 1))

    assert ray.get(factorial.remote(6)) == 720


def test_a_function_can_return_a_reference(ray):
    @ray.remote
    def inner():
        return 5

    @ray.remote
    def outer():
        return inner.remote()

    ref = ray.get(outer.remote())
    assert isinstance(ref, ray.ObjectRef)
    assert ray.get(ref) == 5


def test_a_name_that_the_function_uses_may_be_defined_later(ray):
    @ray.remote
    def use():
        return later() + 1

    def later():
        return 1

    assert ray.get(use.remote()) == 2


def test_a_global_may_be_defined_later(ray):
    names = {"ray": ray}
    exec("@ray.remote\ndef use():\n    return later\n\nlater = 7\n", names)
    assert ray.get(names["use"].remote()) == 7


def test_the_function_is_pickled_at_the_first_call_and_not_again(ray):
    value = 1

    @ray.remote
    def show():
        return value

    value = 2
    assert ray.get(show.remote()) == 2
    value = 3
    assert ray.get(show.remote()) == 2


def test_a_function_that_cannot_be_pickled_fails_at_the_call_not_at_decoration(ray):
    import threading

    lock = threading.Lock()

    @ray.remote
    def use():
        return lock

    with pytest.raises(
        TypeError, match="(?s)Could not serialize the function .*use.*cannot pickle"
    ):
        use.remote()


def test_a_closure_travels_with_the_function(ray):
    def adder(amount):
        @ray.remote
        def add(number):
            return number + amount

        return add

    one, ten = adder(1), adder(10)
    assert ray.get([one.remote(1), ten.remote(1)]) == [2, 11]


def test_a_redefined_function_is_a_new_function(ray):
    answers = []
    for number in range(3):

        @ray.remote
        def show():
            return number  # noqa: B023

        answers.append(ray.get(show.remote()))
    assert answers == [0, 1, 2]


def test_functions_with_the_same_source_and_other_defaults_differ(ray):
    functions = [ray.remote(lambda number=number: number) for number in range(3)]
    assert ray.get([function.remote() for function in functions]) == [0, 1, 2]


def test_a_remote_function_can_be_an_argument(ray):
    @ray.remote
    def double(number):
        return 2 * number

    @ray.remote
    def apply(function, number):
        return ray.get(function.remote(number))

    assert ray.get(apply.remote(double, 4)) == 8


def test_a_remote_function_with_options_can_be_in_a_closure(ray):
    @ray.remote
    def pair():
        return 1, 2

    twice = pair.options(num_returns=2)

    @ray.remote
    def call():
        return ray.get(twice.remote())

    assert ray.get(call.remote()) == [1, 2]


def test_a_remote_function_defined_in_a_task_can_be_called_there(ray):
    @ray.remote
    def outer():
        @ray.remote
        def inner(number):
            return number + 1

        return ray.get([inner.remote(number) for number in range(3)])

    assert ray.get(outer.remote()) == [1, 2, 3]


def test_a_remote_function_can_be_returned_and_called(ray):
    @ray.remote
    def make(amount):
        @ray.remote
        def add(number):
            return number + amount

        return add

    add = ray.get(make.remote(10))
    assert ray.get(add.remote(1)) == 11


def test_a_class_can_be_used_in_a_function(ray):
    class Point:
        def __init__(self, place):
            self.place = place

        def moved(self, by):
            return Point(self.place + by)

    @ray.remote
    def move(point, by):
        return point.moved(by)

    assert ray.get(move.remote(Point(1), 2)).place == 3


def test_the_plain_function_is_within_reach(ray):
    @ray.remote
    def double(number):
        """Twice as much."""
        return 2 * number

    assert double._function(2) == 4
    assert double._function.__name__ == "double"
    assert double._function.__doc__ == "Twice as much."


def test_the_function_name_says_module_and_function(ray):
    @ray.remote
    def double(number):
        return 2 * number

    assert double._function_name == f"{__name__}.double"


def test_references_in_the_arguments_are_replaced_by_their_values(ray):
    @ray.remote
    def add(left, *, right):
        return left + right

    assert ray.get(add.remote(ray.put(1), right=ray.put(2))) == 3


def test_references_in_star_arguments_are_replaced(ray):
    @ray.remote
    def total(*numbers, **named):
        return sum(numbers) + sum(named.values())

    refs = [ray.put(number) for number in range(3)]
    assert ray.get(total.remote(*refs, four=ray.put(4))) == 7


def test_references_within_an_argument_stay_references(ray):
    @ray.remote
    def look(values, named):
        ref = values[0]
        return isinstance(ref, ray.ObjectRef), ray.get(ref), ray.get(named["ref"])

    assert ray.get(look.remote([ray.put(1)], {"ref": ray.put(2)})) == (True, 1, 2)


def test_a_reference_in_a_closure_stays_a_reference(ray):
    ref = ray.put("kept")

    @ray.remote
    def use():
        return ray.get(ref)

    assert ray.get(use.remote()) == "kept"


def test_a_reference_in_a_closure_keeps_its_object_when_the_caller_drops_it(ray):
    def make():
        ref = ray.put(list(range(1000)))

        @ray.remote
        def use():
            return len(ray.get(ref))

        return use

    assert ray.get(make().remote()) == 1000


def test_a_chain_of_tasks_runs_in_order(ray):
    @ray.remote
    def append(values, number):
        return [*values, number]

    ref = ray.put([])
    for number in range(20):
        ref = append.remote(ref, number)
    assert ray.get(ref) == list(range(20))


def test_a_tree_of_tasks_is_reduced(ray):
    @ray.remote
    def add(left, right):
        return left + right

    layer = [ray.put(number) for number in range(16)]
    while len(layer) > 1:
        layer = [add.remote(*layer[at : at + 2]) for at in range(0, len(layer), 2)]
    assert ray.get(layer[0]) == sum(range(16))


def test_a_graph_can_grow_while_it_runs(ray):
    @ray.remote
    def add(left, right):
        return left + right

    @ray.remote
    def total(numbers):
        if len(numbers) == 1:
            return numbers[0]
        half = len(numbers) // 2
        return ray.get(add.remote(total.remote(numbers[:half]), total.remote(numbers[half:])))

    assert ray.get(total.remote(list(range(6)))) == 15


def test_the_same_reference_may_be_given_twice(ray):
    @ray.remote
    def add(left, right):
        return left + right

    ref = ray.put(4)
    assert ray.get(add.remote(ref, ref)) == 8


def test_two_hundred_tasks_come_back_in_order(ray):
    @ray.remote
    def square(number):
        return number * number

    refs = [square.remote(number) for number in range(200)]
    assert ray.get(refs) == [number * number for number in range(200)]


def test_equal_calls_run_twice(ray, tmp_path):
    @ray.remote
    def note(path):
        with open(path, "a") as file:
            file.write("x")

    path = tmp_path / "calls"
    ray.get([note.remote(str(path)), note.remote(str(path))])
    assert path.read_text() == "xx"


def test_a_large_argument_arrives_whole(ray):
    import numpy as np

    @ray.remote
    def total(array, text):
        return float(array.sum()), len(text)

    assert ray.get(total.remote(np.ones(1_000_000), "x" * 5_000_000)) == (1e6, 5_000_000)


def test_large_arrays_pass_through_calls(ray):
    import numpy as np

    @ray.remote
    def same(*values, **more):
        return [*values, *more.values()]

    @ray.remote
    def one(value):
        return value

    array, words = np.arange(300_000), "x" * 2_000_000
    refs = [one.remote(array)]
    for _ in range(4):
        refs.append(one.remote(refs[-1]))
    values = ray.get(refs)
    del refs
    refs = [ray.put(value) for value in values]
    del values
    for value in ray.get(refs):
        np.testing.assert_array_equal(value, array)
        assert not value.flags.writeable
    found = ray.get(same.remote(array, words, array, 1, refs[0], left=array[::-1], right=array))
    for value, expected in zip(
        found, [array, words, array, 1, array, array[::-1], array], strict=True
    ):
        np.testing.assert_array_equal(value, expected)


def test_an_argument_is_pickled_at_the_call(ray):
    @ray.remote
    def show(values):
        return values

    values = [1]
    ref = show.remote(values)
    values.append(2)
    assert ray.get(ref) == [1]


def test_a_task_that_changes_its_argument_changes_its_own_copy(ray):
    @ray.remote
    def append(values):
        values.append(0)
        return values

    ref = ray.put([1])
    assert ray.get(append.remote(ref)) == [1, 0]
    assert ray.get(append.remote(ref)) == [1, 0]


def test_a_method_of_an_instance_can_be_called_in_a_lambda(ray):
    class Point:
        place = 3

        def show(self):
            return self.place

    point = Point()
    assert ray.get(ray.remote(lambda: point.show()).remote()) == 3


def test_a_coroutine_function_is_not_a_task(ray):
    with pytest.raises(ValueError, match="'async def' should not be used for"):

        @ray.remote
        async def nothing():
            pass


def test_a_function_with_a_decorator_of_its_own_keeps_it(ray):
    def twice(function):
        @functools.wraps(function)
        def call(*args):
            return 2 * function(*args)

        return call

    @ray.remote
    @twice
    def increment(number):
        return number + 1

    assert ray.get(increment.remote(1)) == 4
    with pytest.raises(TypeError):
        increment.remote(1, 2)


def test_an_annotated_function_needs_no_names_to_exist_remotely(ray):
    @ray.remote
    def show(number: NoSuchType) -> NeitherThis:  # noqa: F821
        return number

    assert ray.get(show.remote(1)) == 1


def test_a_nested_task_of_a_task_that_holds_every_cpu_still_runs(ray):
    @ray.remote(num_cpus=4)
    def outer():
        @ray.remote(num_cpus=4)
        def inner():
            return 1

        return ray.get(inner.remote()) + 1

    assert ray.get(outer.remote()) == 2


def test_a_task_with_no_cpus_runs(ray):
    assert ray.get(ray.remote(num_cpus=0)(lambda: 1).remote()) == 1


def test_a_task_takes_custom_resources_and_gives_them_back(ray):
    function = ray.remote(resources={"custom": 2})(lambda number: number)
    assert ray.get([function.remote(number) for number in range(3)]) == [0, 1, 2]


def test_imports_in_the_function_body_are_made_remotely(ray):
    @ray.remote
    def use():
        import json

        return json.dumps({"a": 1})

    assert ray.get(use.remote()) == '{"a": 1}'


def test_a_function_with_a_keyword_named_like_an_option_keeps_it(ray):
    @ray.remote
    def show(num_cpus, resources=None):
        return num_cpus, resources

    assert ray.get(show.remote(num_cpus=7, resources="mine")) == (7, "mine")


def test_remote_shows_the_parameters_of_the_function(ray):
    @ray.remote
    def scale(value, factor=2, *, offset=0):
        """Scale a value."""
        return value * factor + offset

    assert list(inspect.signature(scale.remote).parameters) == ["value", "factor", "offset"]
    assert (scale.remote.__name__, scale.remote.__doc__) == ("scale", "Scale a value.")
    call = scale.remote
    assert ray.get(call(3, offset=1)) == 7
