"""`put`, `get`, `wait`, and the references between them."""

from __future__ import annotations

import asyncio
import collections
import copy
import dataclasses
import datetime
import decimal
import enum
import fractions
import pathlib
import pickle
import re
import uuid

import numpy as np
import pytest

pytestmark = pytest.mark.usefixtures("cluster")


class _Gate:
    """A task that runs until the test opens the gate."""

    def __init__(self, ray, path):
        self.path = path

        @ray.remote(num_cpus=0)
        def wait_at(path, value):
            import os
            import time

            while not os.path.exists(path):
                time.sleep(0.005)
            return value

        self._function = wait_at

    def task(self, value=None):
        return self._function.remote(str(self.path), value)

    def open(self):
        self.path.touch()


@pytest.fixture
def gate(ray, cluster, tmp_path):
    gate = _Gate(ray, tmp_path / "open")
    yield gate
    gate.open()


# put and get


def test_what_was_put_can_be_got(ray):
    assert ray.get(ray.put({"a": [1, 2]})) == {"a": [1, 2]}


def test_get_of_a_list_is_a_list_in_that_order(ray):
    refs = [ray.put(number) for number in range(5)]
    assert ray.get(refs[::-1]) == [4, 3, 2, 1, 0]


def test_get_of_an_empty_list_is_an_empty_list(ray):
    assert ray.get([]) == []


def test_get_of_a_list_with_a_reference_twice_has_its_value_twice(ray):
    ref = ray.put("x")
    assert ray.get([ref, ref]) == ["x", "x"]


@pytest.mark.parametrize("wrong", [1, None, "text", {}, {1, 2}], ids=repr)
def test_get_takes_only_references(ray, wrong):
    with pytest.raises(ValueError, match="Invalid type of object refs"):
        ray.get(wrong)


def test_get_takes_no_tuple(ray):
    with pytest.raises(ValueError, match="Invalid type of object refs"):
        ray.get((ray.put(1),))


def test_get_of_a_list_with_something_else_is_a_type_error(ray):
    with pytest.raises(TypeError, match="Attempting to call `get` on the value 2, which is not an"):
        ray.get([ray.put(1), 2])


def test_get_takes_its_timeout_by_keyword_only(ray):
    with pytest.raises(TypeError):
        ray.get(ray.put(1), 1)


def test_get_with_timeout_zero_gives_what_is_there(ray):
    assert ray.get(ray.put(1), timeout=0) == 1


def test_get_with_timeout_zero_fails_for_what_is_not_there(ray, gate):
    with pytest.raises(ray.exceptions.GetTimeoutError):
        ray.get(gate.task(), timeout=0)


def test_get_fails_when_its_timeout_is_over(ray, gate):
    with pytest.raises(ray.exceptions.GetTimeoutError, match="Get timed out: some object"):
        ray.get(gate.task(), timeout=0.05)


def test_a_get_that_timed_out_can_be_tried_again(ray, gate):
    ref = gate.task("late")
    with pytest.raises(ray.exceptions.GetTimeoutError):
        ray.get(ref, timeout=0.01)
    gate.open()
    assert ray.get(ref) == "late"


def test_get_with_timeout_minus_one_waits_as_long_as_it_takes(ray):
    import time

    @ray.remote
    def work():
        time.sleep(0.2)
        return 1

    assert ray.get(work.remote(), timeout=-1) == 1


def test_get_of_a_list_times_out_when_one_is_missing(ray, gate):
    with pytest.raises(ray.exceptions.GetTimeoutError):
        ray.get([ray.put(1), gate.task()], timeout=0.05)


def test_get_raises_the_first_error_without_waiting_for_the_rest(ray, gate):
    @ray.remote
    def fail():
        raise KeyError("at once")

    with pytest.raises(KeyError):
        ray.get([gate.task(), fail.remote()], timeout=30)


@pytest.mark.parametrize("position", [0, 1])
def test_get_raises_an_error_that_is_there_already_without_waiting_for_the_rest(
    ray, gate, position
):
    @ray.remote
    def fail():
        raise ValueError("it fails")

    refs = [gate.task()]
    refs.insert(position, fail.remote())
    ray.wait([refs[position]])
    with pytest.raises(ValueError, match="it fails"):
        ray.get(refs, timeout=100)  # longer than the test may take


def test_an_error_does_not_stop_the_values_of_others(ray):
    @ray.remote
    def fail():
        raise KeyError("mine")

    good, bad = ray.put(1), fail.remote()
    with pytest.raises(KeyError):
        ray.get([good, bad])
    assert ray.get(good) == 1


def test_an_error_is_raised_at_every_get(ray):
    @ray.remote
    def fail():
        raise KeyError("again")

    ref = fail.remote()
    for _ in range(3):
        with pytest.raises(KeyError):
            ray.get(ref)


def test_put_of_a_reference_is_a_type_error(ray):
    with pytest.raises(TypeError, match=r"Calling 'put' on an ray\.ObjectRef"):
        ray.put(ray.put(1))


def test_a_reference_in_a_list_can_be_put(ray):
    ref = ray.get(ray.put([ray.put(1)]))[0]
    assert isinstance(ref, ray.ObjectRef)
    assert ray.get(ref) == 1


def test_what_cannot_be_pickled_cannot_be_put(ray):
    import threading

    with pytest.raises(TypeError, match="Could not serialize|cannot pickle"):
        ray.put(threading.Lock())


def test_a_put_object_does_not_change_with_the_original(ray):
    values = [1]
    ref = ray.put(values)
    values.append(2)
    assert ray.get(ref) == [1]


def test_a_got_list_is_a_copy(ray):
    ref = ray.put([1])
    ray.get(ref).append(2)
    assert ray.get(ref) == [1]


def test_a_got_array_does_not_change_with_the_original(ray):
    array = np.zeros(10)
    ref = ray.put(array)
    array[0] = 1
    assert ray.get(ref)[0] == 0


def test_a_large_got_array_does_not_change_with_the_original(ray):
    array = np.zeros(1_000_000)
    ref = ray.put(array)
    array[0] = 1
    assert ray.get(ref)[0] == 0


# values


@pytest.mark.parametrize(
    "value",
    [
        None,
        True,
        0,
        -1,
        2**100,
        1.5,
        float("inf"),
        1 + 2j,
        "",
        "text \N{SNOWMAN} \0 \ud800",
        "x" * 300_000,
        b"",
        b"bytes\0",
        b"x" * 300_000,
        (bytearray(b"array"),),  # Ray gives bytes for one alone, or in a list or a dict
        (),
        (1, (2, (3,))),
        [1, [2, [3]]],
        {"a": {"b": 1}},
        {1, 2},
        frozenset({1, 2}),
        range(3),
        slice(1, 2, 3),
        Ellipsis,
        NotImplemented,
        int,
        collections.OrderedDict(a=1),
        collections.Counter("aab"),
        collections.deque([1], maxlen=2),
        datetime.datetime(2020, 1, 2, 3, 4, 5, tzinfo=datetime.UTC),
        datetime.timedelta(days=1),
        decimal.Decimal("1.10"),
        fractions.Fraction(1, 3),
        uuid.UUID(int=1),
        pathlib.PurePosixPath("/a/b"),
        re.compile("a+", re.IGNORECASE),
        len,
    ],
    ids=lambda value: f"{type(value).__name__}-{str(value)[:12]!a}",
)
def test_a_value_comes_back_equal_and_of_its_type(ray, value):
    got = ray.get(ray.put(value))
    assert type(got) is type(value)
    assert got == value


def test_a_value_comes_back_from_a_task_that_returns_it(ray):
    values = [None, 1, "x", b"y", {1}, {"a": (1,)}, decimal.Decimal(1)]
    same = ray.remote(lambda value: value)
    assert ray.get([same.remote(value) for value in values]) == values


def test_nan_comes_back_as_nan(ray):
    got = ray.get(ray.put(float("nan")))
    assert got != got


def test_an_instance_of_a_local_class_comes_back(ray):
    class Point:
        def __init__(self, place):
            self.place = place

        def double(self):
            return 2 * self.place

    assert ray.get(ray.put(Point(2))).double() == 4


def test_a_local_class_comes_back_as_itself_to_the_caller(ray):
    class Point:
        pass

    assert isinstance(ray.get(ray.put(Point())), Point)


def test_a_dataclass_comes_back_equal(ray):
    @dataclasses.dataclass
    class Point:
        x: int
        y: list = dataclasses.field(default_factory=list)

    same = ray.remote(lambda value: value)
    assert ray.get(same.remote(Point(1, [2]))) == Point(1, [2])


def test_a_namedtuple_comes_back_equal(ray):
    Point = collections.namedtuple("Point", "x y")
    assert ray.get(ray.put(Point(1, 2))) == Point(1, 2)


def test_a_local_enum_member_is_itself_after_a_round_trip(ray):
    class Colour(enum.Enum):
        RED = 1

    same = ray.remote(lambda value: value)
    assert ray.get(same.remote(Colour.RED)) is Colour.RED


def test_a_lambda_with_a_closure_comes_back(ray):
    amount = 5
    assert ray.get(ray.put(lambda number: number + amount))(1) == 6


def test_an_exception_can_be_a_value(ray):
    got = ray.get(ray.put(KeyError("value")))
    assert type(got) is KeyError
    assert got.args == ("value",)


def test_an_exception_returned_by_a_task_is_not_raised(ray):
    got = ray.get(ray.remote(lambda: ValueError("value")).remote())
    assert type(got) is ValueError


def test_an_object_with_its_own_reduce_is_built_by_it(ray):
    class Built:
        def __init__(self, how):
            self.how = how

        def __reduce__(self):
            return (Built, ("reduced",))

    assert ray.get(ray.put(Built("directly"))).how == "reduced"


def test_slots_and_getstate_are_honoured(ray):
    class Slotted:
        __slots__ = ("kept", "dropped")

        def __getstate__(self):
            return {"kept": self.kept}

        def __setstate__(self, state):
            self.kept = state["kept"]
            self.dropped = None

    thing = Slotted()
    thing.kept, thing.dropped = 1, 2
    got = ray.get(ray.put(thing))
    assert (got.kept, got.dropped) == (1, None)


def test_a_list_that_contains_itself_comes_back(ray):
    values = [1]
    values.append(values)
    got = ray.get(ray.put(values))
    assert got[1] is got


def test_one_object_twice_in_a_value_is_one_object_after_it(ray):
    class Point:
        pass

    point = Point()
    left, right = ray.get(ray.put([point, point]))
    assert left is right


def test_a_deeply_nested_list_comes_back(ray):
    values = []
    for _ in range(100):
        values = [values]
    assert ray.get(ray.put(values)) == values


def test_a_data_frame_comes_back_equal(ray):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(
        {"a": [1, 2], "b": ["x", None], "c": pandas.to_datetime(["2020-01-01"] * 2)}
    )
    same = ray.remote(lambda value: value)
    pandas.testing.assert_frame_equal(ray.get(same.remote(frame)), frame)


# arrays


@pytest.mark.parametrize(
    "array",
    [
        np.arange(10),
        np.zeros((0,)),
        np.zeros((3, 0, 2)),
        np.array(5.0),
        np.asfortranarray(np.arange(12.0).reshape(3, 4)),
        np.arange(20)[::2],
        np.arange(20)[::-1],
        np.arange(24).reshape(2, 3, 4).transpose(2, 0, 1),
        np.array([True, False]),
        np.array(["text", "more"]),
        np.array([b"bytes"]),
        np.array([1 + 2j]),
        np.array([{"a": 1}, None, [1]], dtype=object),
        np.array([(1, 2.0)], dtype=[("a", "i4"), ("b", "f8")]),
        np.array(["2020-01-01"], dtype="datetime64[D]"),
        np.arange(3, dtype=">i4"),
        np.arange(4, dtype=np.float16),
    ],
    ids=lambda array: f"{array.dtype.str}-{array.shape}",
)
def test_an_array_comes_back_equal_with_its_type_and_shape(ray, array):
    got = ray.get(ray.put(array))
    assert got.dtype == array.dtype
    assert got.shape == array.shape
    assert got.tolist() == array.tolist()


@pytest.mark.parametrize("order", ["C", "F"])
def test_a_large_array_keeps_its_memory_order(ray, order):
    array = np.ones((1000, 500), order=order)
    got = ray.get(ray.put(array))
    assert got.flags[f"{order}_CONTIGUOUS"]
    assert got.shape == (1000, 500)


@pytest.mark.parametrize("size", [10, 1_000_000])
def test_a_got_array_is_read_only(ray, size):
    array = ray.get(ray.put(np.zeros(size)))
    assert not array.flags.writeable
    with pytest.raises(ValueError, match="assignment destination is read-only"):
        array[0] = 1


@pytest.mark.parametrize("size", [10, 1_000_000])
def test_an_array_that_a_task_returned_is_read_only(ray, size):
    array = ray.get(ray.remote(lambda number: np.zeros(number)).remote(size))
    with pytest.raises(ValueError, match="assignment destination is read-only"):
        array[0] = 1


@pytest.mark.parametrize("size", [10, 1_000_000])
def test_an_array_given_by_reference_is_read_only_in_the_task(ray, size):
    @ray.remote
    def writeable(array):
        return array.flags.writeable

    assert ray.get(writeable.remote(ray.put(np.zeros(size)))) is False


def test_a_copy_of_a_got_array_can_be_written(ray):
    array = ray.get(ray.put(np.zeros(1_000_000))).copy()
    array[0] = 1
    assert array[0] == 1


def test_an_array_within_a_value_is_read_only_too(ray):
    got = ray.get(ray.put({"a": [np.zeros(1_000_000)]}))
    assert not got["a"][0].flags.writeable


def test_ten_megabytes_go_to_a_task_and_back(ray):
    array = np.arange(1_310_720, dtype=np.float64)
    same = ray.remote(lambda value: value)
    assert np.array_equal(ray.get(same.remote(array)), array)


def test_an_array_outlives_its_reference(ray):
    ref = ray.put(np.ones(1_000_000))
    array = ray.get(ref)
    del ref
    other = ray.put(np.zeros(1_000_000))
    assert array.sum() == 1_000_000
    assert ray.get(other).sum() == 0


def test_two_gets_of_a_large_array_share_memory(ray):
    ref = ray.put(np.ones(1_000_000))
    left, right = ray.get(ref), ray.get(ref)
    assert np.shares_memory(left, right)


# wait


def test_wait_gives_the_ready_and_the_rest(ray, gate):
    ready, late = ray.put(1), gate.task()
    assert ray.wait([late, ready]) == ([ready], [late])


def test_wait_for_nothing_gives_nothing(ray):
    assert ray.wait([]) == ([], [])


def test_wait_keeps_the_order_of_its_input(ray, gate):
    refs = [ray.put(0), gate.task(), ray.put(2), gate.task(), ray.put(4)]
    ready, rest = ray.wait(refs, num_returns=3)
    assert ready == [refs[0], refs[2], refs[4]]
    assert rest == [refs[1], refs[3]]


def test_wait_gives_at_most_as_many_as_were_asked_for(ray):
    refs = [ray.put(number) for number in range(4)]
    ready, rest = ray.wait(refs, num_returns=2)
    assert len(ready) == 2
    assert ready == [ref for ref in refs if ref in ready]
    assert rest == [ref for ref in refs if ref not in ready]


def test_wait_gives_one_by_default(ray):
    refs = [ray.put(number) for number in range(3)]
    ready, rest = ray.wait(refs)
    assert (len(ready), len(rest)) == (1, 2)


def test_a_copy_of_a_reference_is_the_same_reference(ray, gate):
    ref = gate.task()
    assert copy.copy(ref) == ref
    assert copy.deepcopy({"refs": [ref]}) == {"refs": [ref]}


def test_wait_gives_fewer_when_its_timeout_is_over(ray, gate):
    ready, rest = ray.wait([ray.put(1), gate.task(), gate.task()], num_returns=3, timeout=0.05)
    assert (len(ready), len(rest)) == (1, 2)


@pytest.mark.parametrize("timeout", [1e7, 1e10])
def test_a_timeout_may_be_very_long(ray, timeout):
    """Longer than ``poll`` takes, and longer than the lock of a thread takes."""

    @ray.remote
    def work():
        import time

        time.sleep(0.1)
        return 1

    assert ray.get(work.remote(), timeout=timeout) == 1
    for count in (1, 10):
        refs = [work.remote() for _ in range(count)]
        assert ray.wait(refs, num_returns=count, timeout=timeout) == (refs, [])


def test_a_timeout_that_is_no_number_is_refused(ray, gate):
    ref = gate.task()
    with pytest.raises(ValueError):
        ray.get(ref, timeout=float("nan"))
    with pytest.raises(ValueError):
        ray.wait([ref], timeout=float("nan"))


def test_wait_with_timeout_zero_looks_once(ray, gate):
    late = gate.task()
    assert ray.wait([late], timeout=0) == ([], [late])


def test_wait_sees_a_task_finish(ray, gate):
    ref = gate.task(5)
    assert ray.wait([ref], timeout=0)[0] == []
    gate.open()
    assert ray.wait([ref], timeout=30) == ([ref], [])
    assert ray.get(ref) == 5


def test_an_error_counts_as_ready(ray, gate):
    @ray.remote
    def fail():
        raise KeyError("ready")

    bad, late = fail.remote(), gate.task()
    assert ray.wait([late, bad], timeout=30) == ([bad], [late])


def test_wait_can_leave_the_object_where_it_is(ray):
    ref = ray.remote(lambda: np.ones(1_000_000)).remote()
    assert ray.wait([ref], fetch_local=False, timeout=30) == ([ref], [])


def test_options_are_taken_by_keyword_only(ray, monkeypatch):
    monkeypatch.setenv("RAYCOMPAT_RAY_VERSION", "2.60")  # raycompat takes those of Ray 0.8 else
    for call in (
        lambda ref: ray.wait([ref], 1),
        lambda ref: ray.get(ref, 1),
        lambda ref: ray.cancel(ref, True),
    ):
        with pytest.raises(TypeError):
            call(ray.put(1))


@pytest.mark.parametrize(
    "call",
    [
        lambda ray, ref: ray.wait([ref], 1, num_returns=2),
        lambda ray, ref: ray.wait([ref], [ref]),
        lambda ray, ref: ray.wait([ref], 1, "soon"),
        lambda ray, ref: ray.get(ref, 60, timeout=5),
        lambda ray, ref: ray.get(ref, ref),
        lambda ray, ref: ray.cancel(ref, True, force=False),
        lambda ray, ref: ray.cancel(ref, ref),
    ],
)
def test_an_option_given_twice_or_of_a_wrong_kind_is_a_type_error(ray, monkeypatch, call):
    monkeypatch.delenv(
        "RAYCOMPAT_RAY_VERSION", raising=False
    )  # raycompat takes them by position then
    with pytest.raises(TypeError):
        call(ray, ray.put(1))


def test_kill_takes_one_actor_a_call(ray, monkeypatch):
    monkeypatch.delenv("RAYCOMPAT_RAY_VERSION", raising=False)

    @ray.remote(num_cpus=0)
    class Alive:
        def answer(self):
            return 1

    first, second = Alive.remote(), Alive.remote()
    with pytest.raises(TypeError):
        ray.kill(first, second)
    assert ray.get([first.answer.remote(), second.answer.remote()]) == [1, 1]


def test_wait_for_a_bare_reference_is_a_type_error(ray):
    with pytest.raises(TypeError, match=r"wait\(\) expected a list of ray\.ObjectRef"):
        ray.wait(ray.put(1))


def test_wait_takes_no_tuple(ray):
    with pytest.raises(TypeError, match=r"wait\(\) expected a list of"):
        ray.wait((ray.put(1),))


def test_wait_for_something_else_than_references_is_a_type_error(ray):
    with pytest.raises(TypeError, match=r"wait\(\) expected a list of"):
        ray.wait([1])


def test_wait_for_a_reference_twice_is_an_error(ray):
    ref = ray.put(1)
    with pytest.raises(ValueError, match="Wait requires a list of unique"):
        ray.wait([ref, ref])


@pytest.mark.parametrize("number", [0, -1])
def test_wait_for_no_reference_is_an_error(ray, number):
    with pytest.raises(ValueError, match="Invalid number of objects to return"):
        ray.wait([ray.put(1)], num_returns=number)


def test_wait_for_more_than_there_are_is_an_error(ray):
    with pytest.raises(ValueError, match="num_returns cannot be greater than the"):
        ray.wait([ray.put(1)], num_returns=2)


def test_wait_with_a_negative_timeout_is_an_error(ray):
    with pytest.raises(ValueError, match="'timeout' argument must be nonnegative"):
        ray.wait([ray.put(1)], timeout=-1)


def test_wait_in_a_loop_finds_every_task_once(ray):
    function = ray.remote(lambda number: number)
    rest = [function.remote(number) for number in range(20)]
    found = []
    while rest:
        (ready,), rest = ray.wait(rest)
        found.append(ray.get(ready))
    assert sorted(found) == list(range(20))


def test_a_task_can_wait_for_tasks(ray):
    @ray.remote
    def outer():
        function = ray.remote(lambda number: number)
        ready, rest = ray.wait([function.remote(1), function.remote(2)], num_returns=2)
        return sorted(ray.get(ready)), rest

    assert ray.get(outer.remote()) == ([1, 2], [])


# references


def test_a_reference_equals_itself_only(ray):
    left, right = ray.put(1), ray.put(1)
    assert left == left
    assert left != right
    assert left != 1


def test_references_can_be_in_sets_and_keys(ray):
    left, right = ray.put(1), ray.put(2)
    assert len({left, right, left}) == 2
    assert {left: "l", right: "r"}[right] == "r"


def test_a_reference_has_hexadecimal_and_binary_forms_of_28_bytes(ray):
    ref = ray.put(1)
    assert ref.binary().hex() == ref.hex()
    assert len(ref.binary()) == 28
    assert ref.size() == 28


def test_the_repr_of_a_reference_shows_its_hexadecimal_form(ray):
    ref = ray.put(1)
    assert repr(ref) == f"ObjectRef({ref.hex()})"
    assert str(ref) == repr(ref)


def test_a_reference_is_not_nil(ray):
    assert not ray.put(1).is_nil()


def test_a_reference_names_its_task_and_job(ray):
    ref = ray.remote(lambda: 1).remote()
    assert ref.hex().startswith(ref.task_id().hex())
    assert ref.job_id().hex() == ray.get_runtime_context().get_job_id()
    ray.get(ref)


def test_a_reference_pickled_with_cloudpickle_comes_back_equal(ray):
    ref = ray.put("kept")
    again = pickle.loads(ray.cloudpickle.dumps(ref))
    assert again == ref
    assert ray.get(again) == "kept"


def test_a_reference_cannot_be_pickled_by_plain_pickle_unnoticed(ray):
    ref = ray.put("kept")
    again = pickle.loads(pickle.dumps(ref))
    assert again == ref


def test_a_reference_returned_by_a_task_keeps_its_object(ray):
    @ray.remote
    def make():
        return [ray.put(np.ones(1_000_000))]

    (ref,) = ray.get(make.remote())
    assert ray.get(ref).sum() == 1_000_000


def test_a_reference_passed_through_two_tasks_keeps_its_object(ray):
    @ray.remote
    def inner(refs):
        return refs

    @ray.remote
    def outer(refs):
        return ray.get(inner.remote(refs))

    ref = outer.remote([ray.put("kept")])
    assert ray.get(ray.get(ref)[0]) == "kept"


def test_a_reference_in_an_attribute_stays_a_reference(ray):
    class Holder:
        def __init__(self, ref):
            self.ref = ref

    @ray.remote
    def look(holder):
        return ray.get(holder.ref)

    assert ray.get(look.remote(Holder(ray.put(3)))) == 3


def test_a_reference_becomes_a_concurrent_future(ray, gate):
    ref = gate.task(7)
    future = ref.future()
    assert not future.done()
    gate.open()
    assert future.result(timeout=30) == 7


def test_the_future_of_a_failed_task_has_its_error(ray):
    @ray.remote
    def fail():
        raise KeyError("future")

    with pytest.raises(KeyError):
        fail.remote().future().result(timeout=30)


def test_a_reference_can_be_awaited(ray):
    async def main():
        return await ray.put(1), await asyncio.gather(ray.put(2), ray.put(3))

    assert asyncio.run(main()) == (1, [2, 3])


def test_awaiting_a_failed_task_raises_its_error(ray):
    @ray.remote
    def fail():
        raise KeyError("awaited")

    async def main():
        await fail.remote()

    with pytest.raises(KeyError):
        asyncio.run(main())


def test_asyncio_wait_takes_the_futures_of_references(ray):
    async def main():
        done, rest = await asyncio.wait(
            [asyncio.ensure_future(_value(ray.put(n))) for n in range(3)]
        )
        return sorted(task.result() for task in done), rest

    async def _value(ref):
        return await ref

    assert asyncio.run(main()) == ([0, 1, 2], set())


def test_many_small_objects_can_be_put(ray):
    refs = [ray.put(number) for number in range(1000)]
    assert ray.get(refs) == list(range(1000))


def test_put_in_a_task_is_readable_by_another(ray):
    @ray.remote
    def make():
        return [ray.put(1)]

    @ray.remote
    def use(refs):
        return ray.get(refs[0])

    assert ray.get(use.remote(make.remote())) == 1


@pytest.mark.parametrize("length", [1, 10, 100, 1_000, 100_000])
def test_arrays_are_aligned_to_64_bytes(ray, length):
    @ray.remote
    def made():
        return np.zeros(length)

    @ray.remote
    def place(array):
        return array.ctypes.data % 64

    array = np.zeros(length)
    assert ray.get(ray.put(array)).ctypes.data % 64 == 0
    assert ray.get(made.remote()).ctypes.data % 64 == 0
    assert ray.get([place.remote(array), place.remote(ray.put(array))]) == [0, 0]
