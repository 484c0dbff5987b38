"""Values on their roads: the user's own serializers, buffers, and what is in the way of pickling."""

from __future__ import annotations

import collections
import dataclasses
import enum
import functools
import io
import pickle
import threading

import numpy as np
import pytest

# ---- serializers of the user's own


def make_guarded():
    """Return a class that holds a lock, so that it cannot be pickled."""

    class Guarded:
        def __init__(self, value):
            self.value = value
            self.lock = threading.Lock()

    return Guarded


@pytest.fixture
def register(ray):
    """`ray.util.register_serializer`, undone at the end."""
    registered = []

    def register(cls, **functions):
        registered.append(cls)
        ray.util.register_serializer(cls, **functions)

    yield register
    for cls in registered:
        ray.util.deregister_serializer(cls)


@pytest.fixture
def guarded(register):
    """A class that only travels thanks to its serializer."""
    cls = make_guarded()
    register(cls, serializer=lambda instance: instance.value, deserializer=lambda sent: cls(sent))
    return cls


def test_without_a_serializer_a_class_with_a_lock_cannot_be_put(cluster):
    with pytest.raises(TypeError, match="lock"):
        cluster.put(make_guarded()(1))


def test_put_and_get_use_the_serializer(cluster, guarded):
    copy = cluster.get(cluster.put(guarded(3)))
    assert type(copy) is guarded
    assert copy.value == 3
    assert not copy.lock.locked()


def test_arguments_use_the_serializer_and_the_deserializer_travels_with_them(cluster, guarded):
    @cluster.remote
    def value_of(one, *, other):
        return one.value, other.value, one.lock.locked()

    assert cluster.get(value_of.remote(guarded(3), other=guarded(4))) == (3, 4, False)


def test_a_reference_as_an_argument_arrives_as_the_remade_value(cluster, guarded):
    @cluster.remote
    def value_of(instance):
        return instance.value

    assert cluster.get(value_of.remote(cluster.put(guarded(3)))) == 3


def test_instances_inside_of_collections_use_the_serializer(cluster, guarded):
    nested = {
        "list": [guarded(1), {"tuple": (guarded(2),)}],
        "deque": collections.deque([guarded(3)]),
    }

    @cluster.remote
    def values_of(nested):
        [first, inner], deque = nested["list"], nested["deque"]
        return first.value, inner["tuple"][0].value, deque[0].value

    assert cluster.get(values_of.remote(nested)) == (1, 2, 3)
    assert cluster.get(cluster.put(nested))["list"][1]["tuple"][0].value == 2


def test_instances_in_the_attributes_of_others_use_the_serializer(cluster, guarded):
    class Holder:
        pass

    holder = Holder()
    holder.inner = guarded(5)
    assert cluster.get(cluster.put(holder)).inner.value == 5


def test_what_a_function_captures_uses_the_serializer(cluster, guarded):
    captured = guarded(6)

    @cluster.remote
    def value_of():
        return captured.value

    assert cluster.get(value_of.remote()) == 6


def test_an_instance_that_is_twice_in_a_value_is_once_in_the_copy(cluster, guarded):
    instance = guarded(7)
    one, other = cluster.get(cluster.put((instance, instance)))
    assert one is other


def test_actors_take_keep_and_capture_instances(cluster, guarded):
    captured = guarded(1)

    @cluster.remote
    class Keeper:
        def __init__(self, first):
            self.kept = [captured, first]

        def keep(self, instance):
            self.kept.append(instance)
            return [each.value for each in self.kept]

    keeper = Keeper.remote(guarded(2))
    assert cluster.get(keeper.keep.remote(guarded(3))) == [1, 2, 3]
    assert cluster.get(keeper.keep.remote(guarded(4))) == [1, 2, 3, 4]


def test_results_use_what_the_process_that_returns_them_has_registered(cluster):
    ray, cls = cluster, make_guarded()
    register, deregister = ray.util.register_serializer, ray.util.deregister_serializer

    @ray.remote
    class Maker:
        def register(self):
            register(
                cls, serializer=lambda instance: instance.value, deserializer=lambda v: ("made", v)
            )

        def deregister(self):
            deregister(cls)

        def make(self):
            return [cls(8)]

    maker = Maker.remote()
    with pytest.raises(TypeError, match="lock"):
        ray.get(maker.make.remote())
    ray.get(maker.register.remote())
    assert ray.get(maker.make.remote()) == [("made", 8)]
    ray.get(maker.deregister.remote())
    with pytest.raises(TypeError, match="lock"):
        ray.get(maker.make.remote())


def test_the_driver_registering_a_class_does_not_register_it_elsewhere(cluster, guarded):
    @cluster.remote
    def make():
        return guarded(1)

    with pytest.raises(TypeError, match="lock"):
        cluster.get(make.remote())


def test_a_deregistered_class_is_as_before(cluster):
    cls = make_guarded()
    cluster.util.register_serializer(cls, serializer=id, deserializer=str)
    cluster.get(cluster.put(cls(1)))
    cluster.util.deregister_serializer(cls)
    with pytest.raises(TypeError, match="lock"):
        cluster.put(cls(1))


def test_deregistering_what_is_not_registered_has_no_effect(ray):
    ray.util.deregister_serializer(make_guarded())


def test_what_was_put_before_is_remade_after_the_class_was_deregistered(cluster):
    cls = make_guarded()
    cluster.util.register_serializer(
        cls, serializer=lambda i: i.value, deserializer=lambda v: ("made", v)
    )
    ref = cluster.put(cls(1))
    cluster.util.deregister_serializer(cls)
    assert cluster.get(ref) == ("made", 1)


def test_registering_again_replaces_the_serializer(cluster, guarded, register):
    register(guarded, serializer=lambda i: i.value, deserializer=lambda v: ("second", v))
    assert cluster.get(cluster.put(guarded(1))) == ("second", 1)


def test_a_subclass_needs_a_serializer_of_its_own(cluster, guarded, register):
    class Special(guarded):
        pass

    with pytest.raises(TypeError, match="lock"):
        cluster.put(Special(1))
    register(Special, serializer=lambda i: i.value, deserializer=lambda v: ("special", v))
    assert cluster.get(cluster.put([Special(1), guarded(2)]))[0] == ("special", 1)


def test_several_classes_may_contain_one_another(cluster, guarded, register):
    class Outer:
        def __init__(self, inner):
            self.inner = inner
            self.lock = threading.Lock()

    register(Outer, serializer=lambda outer: [outer.inner], deserializer=lambda sent: Outer(*sent))

    @cluster.remote
    def value_of(outer):
        return outer.inner.value

    assert cluster.get(value_of.remote(Outer(guarded(9)))) == 9


def test_the_class_may_be_one_of_numpy(cluster, register):
    register(np.ndarray, serializer=lambda a: a.tolist(), deserializer=lambda v: ("array", v))
    assert cluster.get(cluster.put([np.arange(3)])) == [("array", [0, 1, 2])]


def test_the_class_may_be_an_exception(cluster, register):
    class Refused(Exception):
        def __init__(self, who, why):
            super().__init__(f"{who}: {why}")
            self.who, self.why = who, why

    register(Refused, serializer=lambda e: (e.who, e.why), deserializer=lambda sent: Refused(*sent))
    copy = cluster.get(cluster.put(Refused("I", "so")))
    assert (copy.who, copy.why, str(copy)) == ("I", "so", "I: so")


def test_a_serializer_may_return_large_arrays_which_are_shared(cluster, register):
    class Image:
        def __init__(self, pixels):
            self.pixels = pixels
            self.lock = threading.Lock()

    register(
        Image, serializer=lambda image: image.pixels, deserializer=lambda pixels: Image(pixels)
    )
    copy = cluster.get(cluster.put(Image(np.arange(200_000))))
    assert copy.pixels[-1] == 199_999
    assert not copy.pixels.flags.writeable


def test_a_serializer_may_return_references(cluster, register):
    class Handle:
        def __init__(self, ref):
            self.ref = ref
            self.lock = threading.Lock()

    register(Handle, serializer=lambda handle: handle.ref, deserializer=lambda ref: Handle(ref))
    get = cluster.get

    @cluster.remote
    def value_behind(handle):
        return get(handle.ref)

    assert cluster.get(value_behind.remote(Handle(cluster.put(11)))) == 11
    stored = cluster.put(Handle(cluster.put(np.arange(100_000))))
    assert cluster.get(cluster.get(stored).ref)[-1] == 99_999


def test_serializers_outlive_the_session(fresh, guarded):
    ray = fresh(num_cpus=1)
    assert ray.get(ray.put(guarded(1))).value == 1
    ray.shutdown()
    ray = fresh(num_cpus=1)
    assert ray.get(ray.put(guarded(2))).value == 2


def refuse(_):
    raise ValueError("refused by the test")


def fail_as_the_driver_would():
    """Return a deserializer that raises, and that travels by value."""

    def fail(sent):
        raise ValueError(f"cannot remake {sent}")

    return fail


def test_a_deserializer_that_raises_is_a_system_error_in_get(cluster, register):
    cls = make_guarded()
    register(cls, serializer=lambda i: i.value, deserializer=fail_as_the_driver_would())
    with pytest.raises(cluster.exceptions.RaySystemError, match="cannot remake 12"):
        cluster.get(cluster.put(cls(12)))


@pytest.mark.parametrize("as_reference", [False, True])
def test_a_deserializer_that_raises_fails_the_task_that_takes_the_value(
    cluster, register, as_reference
):
    cls = make_guarded()
    register(cls, serializer=lambda i: i.value, deserializer=fail_as_the_driver_would())

    @cluster.remote(max_retries=0)
    def take(value):
        return "taken"

    value = cls(13)
    with pytest.raises(cluster.exceptions.RayTaskError, match="cannot remake 13") as caught:
        cluster.get(take.remote(cluster.put(value) if as_reference else value))
    assert isinstance(caught.value, cluster.exceptions.RaySystemError)


def test_a_serializer_that_raises_a_type_error_fails_put_and_remote(cluster, register):
    @cluster.remote
    def take(value):
        return "taken"

    def serialize(instance):
        raise TypeError("not today")

    cls = make_guarded()
    register(cls, serializer=serialize, deserializer=str)
    with pytest.raises(TypeError, match="not today"):
        cluster.put(cls(1))
    with pytest.raises(TypeError, match="not today"):
        take.remote(cls(1))


def test_what_the_serializer_returns_must_be_picklable(cluster, register):
    cls = make_guarded()
    register(cls, serializer=lambda instance: instance.lock, deserializer=str)
    with pytest.raises(TypeError, match="lock"):
        cluster.put(cls(1))


def test_the_deserializer_must_be_picklable(cluster, register):
    cls, lock = make_guarded(), threading.Lock()
    register(cls, serializer=lambda instance: instance.value, deserializer=lambda sent: lock)
    with pytest.raises(TypeError, match="lock"):
        cluster.put(cls(1))


def test_serializer_and_deserializer_are_given_by_name(ray):
    with pytest.raises(TypeError, match="positional"):
        ray.util.register_serializer(make_guarded(), str, str)


@pytest.mark.parametrize("name", ["register_serializer", "deregister_serializer"])
def test_what_cannot_be_hashed_is_no_class(ray, name):
    functions = {"serializer": str, "deserializer": str} if name.startswith("register") else {}
    with pytest.raises(TypeError, match="unhashable"):
        getattr(ray.util, name)([], **functions)


# ---- finding what cannot be pickled


def inspect(ray, value, **options):
    """Return the verdict and, of each failure, the path, the object and its parent."""
    printed = io.StringIO()
    ok, failures = ray.util.inspect_serializability(value, print_file=printed, **options)
    assert printed.getvalue()
    return ok, [(failure.path, failure.obj, failure.parent) for failure in failures]


@pytest.mark.parametrize(
    "value",
    [3, "text", [1, {"a": (2,)}], np.arange(3), len, int, threading, lambda x: x, make_guarded],
)
def test_what_can_be_pickled_has_no_failures(ray, value):
    assert inspect(ray, value, name="value") == (True, [])


def test_a_lock_is_the_failure_itself(ray):
    lock = threading.Lock()
    assert inspect(ray, lock) == (False, [((), lock, None)])
    assert inspect(ray, lock, name="lock") == (False, [(("lock",), lock, None)])


def test_variables_of_a_closure_are_found(ray):
    good, lock = 3, threading.Lock()

    def use():
        return good, lock

    assert inspect(ray, use, name="use") == (False, [(("use", "lock"), lock, use)])


def test_global_variables_of_a_function_are_found(ray):
    lock = threading.Lock()
    scope = {"lock": lock, "__name__": "__main__"}
    exec("def use():\n    return lock", scope)
    assert inspect(ray, scope["use"]) == (False, [(("lock",), lock, scope["use"])])


def nested_closures():
    lock = threading.Lock()

    def inner():
        return lock

    def middle():
        return inner

    def outer():
        return middle

    return lock, inner, middle, outer


def test_closures_are_followed_as_deep_as_is_asked(ray):
    lock, inner, middle, outer = nested_closures()
    path = ("f", "middle", "inner", "lock")
    assert inspect(ray, outer, name="f") == (False, [(path, lock, inner)])
    assert inspect(ray, outer, name="f", depth=9) == (False, [(path, lock, inner)])
    assert inspect(ray, outer, name="f", depth=2) == (False, [(path[:3], inner, middle)])
    assert inspect(ray, outer, name="f", depth=1) == (False, [(path[:2], middle, outer)])
    assert inspect(ray, outer, name="f", depth=0) == (False, [(path[:1], outer, None)])


def test_attributes_of_instances_are_found(ray):
    class Outer:
        pass

    outer = Outer()
    outer.good, outer.inner = 1, make_guarded()(2)
    expected = ("o", "inner", "lock"), outer.inner.lock, outer.inner
    assert inspect(ray, outer, name="o") == (False, [expected])


def test_attributes_of_classes_are_found(ray):
    class Holder:
        lock = threading.Lock()

    holder = Holder()
    assert inspect(ray, Holder) == (False, [(("lock",), Holder.lock, Holder)])
    assert inspect(ray, holder, name="h") == (False, [(("h", "lock"), Holder.lock, holder)])


def test_what_methods_use_is_found(ray):
    lock = threading.Lock()

    class User:
        def use(self):
            return lock

    assert inspect(ray, User, name="User") == (False, [(("User", "use", "lock"), lock, User.use)])
    assert inspect(ray, User().use) == (False, [(("__func__", "lock"), lock, User.use)])


def test_slots_are_attributes_too(ray):
    class Slotted:
        __slots__ = ("lock",)

        def __reduce__(self):
            return Slotted, (self.lock,)

    slotted = Slotted()
    slotted.lock = threading.Lock()
    assert inspect(ray, slotted) == (False, [(("lock",), slotted.lock, slotted)])


@pytest.mark.parametrize(
    "collect", [lambda x: [x], lambda x: (x,), lambda x: {"x": x}, lambda x: {x}]
)
def test_collections_are_not_looked_into(ray, collect):
    collection = collect(threading.Lock())
    assert inspect(ray, collection, name="c") == (False, [(("c",), collection, None)])


def test_of_a_generator_it_is_the_frame(ray):
    generator = (x for x in [1])
    expected = (("gi_frame",), generator.gi_frame, generator)
    assert inspect(ray, generator, depth=1) == (False, [expected])


def test_the_function_in_a_partial_is_found(ray):
    _, inner, *_ = nested_closures()
    ok, [(path, _, parent)] = inspect(ray, functools.partial(inner), name="p")
    assert not ok
    assert path == ("p", "func", "lock")
    assert parent is inner


def test_an_object_that_refuses_to_be_pickled_is_the_failure(ray):
    class Private:
        def __reduce__(self):
            raise ValueError("never")

    private = Private()
    assert inspect(ray, private, name="x") == (False, [(("x",), private, None)])


def test_cycles_end_at_the_depth(ray):
    lock = threading.Lock()

    def again():
        return again, lock

    ok, [(path, value, parent)] = inspect(ray, again, name="f", depth=2)
    assert (ok, path) == (False, ("f", "again", "again"))
    assert value is parent is again


def test_the_inspection_is_printed_to_standard_output(ray, capsys):
    def use():
        return lock

    lock = threading.Lock()
    ray.util.inspect_serializability(use, "use")
    printed = capsys.readouterr().out
    assert "use" in printed
    assert "lock" in printed
    assert "cannot pickle '_thread.lock' object" in printed


def test_the_inspection_knows_serializers(ray, guarded):
    assert inspect(ray, [guarded(1)]) == (True, [])


def test_references_can_be_pickled(cluster):
    assert inspect(cluster, [cluster.put(1)]) == (True, [])


# ---- values of all kinds on all roads


@pytest.fixture
def roads(cluster):
    """All ways of a value to another process and back, by name: functions of the value."""
    ray = cluster

    @ray.remote
    def echo(value):
        return value

    @ray.remote
    def echo_first(values):
        return values[0], values

    @ray.remote(num_cpus=0)
    class Echo:
        def keep(self, value):
            self.value = value

        def give_back(self):
            return self.value

    actor = Echo.remote()

    def by_actor(value):
        ray.get(actor.keep.remote(value))
        return ray.get(actor.give_back.remote())

    return {
        "put": lambda value: ray.get(ray.put(value)),
        "task": lambda value: ray.get(echo.remote(value)),
        "reference": lambda value: ray.get(echo.remote(ray.put(value))),
        "inside": lambda value: ray.get(echo_first.options(num_returns=2).remote([value])[0]),
        "actor": by_actor,
    }


def travel(roads, make):
    """Yield the original and what arrives, for each road."""
    for send in roads.values():
        original = make()
        yield original, send(original)


def records(shape):
    array = np.zeros(shape, dtype=[("id", "<i4"), ("place", "<f8", (2,)), ("name", "U5")])
    array["id"] = 7
    array["name"] = "seven"
    return array


ARRAYS = {
    "bool": lambda: np.array([True, False]),
    "int8": lambda: np.arange(5, dtype=np.int8),
    "uint64": lambda: np.array([0, 2**64 - 1], dtype=np.uint64),
    "big-endian": lambda: np.arange(5, dtype=">i4"),
    "float16": lambda: np.arange(5, dtype=np.float16),
    "longdouble": lambda: np.array([1, 3], dtype=np.longdouble) / 3,
    "complex64": lambda: np.array([1j, 2], dtype=np.complex64),
    "nan and infinity": lambda: np.array([np.nan, np.inf, -np.inf, -0.0]),
    "bytes": lambda: np.array([b"one", b"three"]),
    "text": lambda: np.array(["één", "three"]),
    "datetimes": lambda: np.array(["2020-01-01", "NaT"], dtype="datetime64[ns]"),
    "time differences": lambda: np.array([1, 2], dtype="timedelta64[s]"),
    "void": lambda: np.array([b"\x01\x02", b"\x03\x04"], dtype="V2"),
    "structured": lambda: records(3),
    "structured and large": lambda: records((100, 100)),
    "0-d": lambda: np.array(3.5),
    "0-d and structured": lambda: records(()),
    "empty": lambda: np.empty(0),
    "empty with a shape": lambda: np.empty((3, 0, 2), dtype=np.int32),
    "many dimensions": lambda: np.arange(64).reshape((2,) * 6),
    "large": lambda: np.arange(1_000_000),
    "large Fortran order": lambda: np.asfortranarray(np.arange(60_000).reshape(200, 300)),
    "small Fortran order": lambda: np.asfortranarray(np.arange(6).reshape(2, 3)),
    "transposed": lambda: np.arange(60_000).reshape(200, 300).T,
}

VIEWS = {
    "every second": lambda: np.arange(10)[::2],
    "every second, large": lambda: np.arange(500_000)[::2],
    "backwards": lambda: np.arange(10)[::-1],
    "a column": lambda: np.arange(12).reshape(3, 4)[:, 1],
    "broadcast": lambda: np.broadcast_to(np.arange(3), (4, 3)),
    "objects": lambda: np.array([1, "two", None, [3]], dtype=object),
}


@pytest.mark.parametrize("name", ARRAYS)
def test_contiguous_arrays_keep_all_but_their_writability(roads, name):
    for original, copy in travel(roads, ARRAYS[name]):
        assert type(copy) is np.ndarray
        assert copy.dtype == original.dtype
        assert copy.shape == original.shape
        assert copy.strides == original.strides or not original.size
        np.testing.assert_array_equal(copy, original)
        # numpy does not give buffers of times, so these are copies.
        assert copy.flags.writeable == (original.dtype.kind in "mM")
        assert original.flags.writeable


@pytest.mark.parametrize("name", VIEWS)
def test_other_arrays_are_copied(roads, name):
    for original, copy in travel(roads, VIEWS[name]):
        assert copy.dtype == original.dtype
        np.testing.assert_array_equal(copy, original)
    # On the other roads the copy, which is contiguous, has travelled again.
    assert roads["put"](VIEWS[name]()).flags.writeable


def test_arrays_are_read_only_in_tasks_and_actors_too(cluster):
    @cluster.remote
    def write(array):
        array[0] = 1

    @cluster.remote
    class Writer:
        def write(self, array):
            array[0] = 1

    writer = Writer.remote()
    for array in (np.zeros(3), np.zeros(1_000_000)):
        for ref in (
            write.remote(array),
            write.remote(cluster.put(array)),
            writer.write.remote(array),
        ):
            with pytest.raises(ValueError, match="read-only"):
                cluster.get(ref)


def test_subclasses_of_arrays_survive(roads):
    for original, copy in travel(roads, lambda: np.ma.array([1, 2, 3], mask=[0, 1, 0])):
        assert copy.mask.tolist() == original.mask.tolist() == [False, True, False]
    for _, copy in travel(roads, lambda: records(2).view(np.recarray)):
        assert copy.id.tolist() == [7, 7]


@pytest.mark.parametrize(
    "scalar",
    [
        np.bool_(True),
        np.int8(-3),
        np.uint64(2**64 - 1),
        np.float16(1.5),
        np.float64(1.5),
        np.longdouble(1) / 3,
        np.complex64(1j),
        np.str_("text"),
        np.bytes_(b"bytes"),
        np.datetime64("2020-01-01T12:00", "ms"),
        np.timedelta64(3, "h"),
        records(1)[0],
    ],
    ids=lambda scalar: type(scalar).__name__,
)
def test_numpy_scalars_keep_their_type(roads, scalar):
    # In a tuple, since Ray makes bytes of an np.bytes_ that is alone.
    for _, (copy,) in travel(roads, lambda: (scalar,)):
        assert type(copy) is type(scalar)
        assert copy.dtype == scalar.dtype
        assert copy == scalar


def test_numpy_types_and_functions_survive(roads):
    for _, copy in travel(roads, lambda: (np.dtype("<f4"), np.float32, np.sin, np.s_[1:2, ...])):
        assert copy == (np.dtype("<f4"), np.float32, np.sin, np.s_[1:2, ...])


def test_containers_of_large_arrays_survive_and_share_what_they_shared(roads):
    def make():
        shared = np.arange(100_000)
        return {"list": [shared, np.ones((300, 300))], "again": (shared, {"deep": shared[:5]})}

    for original, copy in travel(roads, make):
        assert copy["list"][0] is copy["again"][0]
        for one, other in zip(copy["list"], original["list"], strict=True):
            np.testing.assert_array_equal(one, other)
            assert not one.flags.writeable
        assert copy["again"][1]["deep"].tolist() == [0, 1, 2, 3, 4]


def test_many_buffers_in_one_value_survive(roads):
    for _, copy in travel(roads, lambda: [np.full(n, n) for n in range(1000)]):
        assert all(array.tolist() == [n] * n for n, array in enumerate(copy))


# ---- pandas


def make_frame(pd):
    return pd.DataFrame(
        {
            "integers": [1, 2, 3],
            "floats": [0.5, None, 1.5],
            "texts": ["a", None, "ç"],
            "objects": [(1,), {"b": 2}, None],
            "truths": [True, False, True],
            "nullable": pd.array([1, None, 3], dtype="Int64"),
            "categories": pd.Categorical(["x", "y", "x"], categories=["y", "x"], ordered=True),
            "datetimes": pd.to_datetime(["2020-01-01", None, "2020-03-01"]),
            "zoned": pd.date_range("2020-01-01", periods=3, tz="Europe/Brussels"),
            "differences": pd.to_timedelta([1, 2, 3], unit="h"),
        },
        index=pd.Index([10, 20, 30], name="number"),
    )


FRAMES = {
    "mixed": make_frame,
    "empty": lambda pd: pd.DataFrame(),
    "without rows": lambda pd: make_frame(pd).iloc[:0],
    "large": lambda pd: pd.DataFrame(np.arange(200_000.0).reshape(-1, 4), columns=list("abcd")),
    "a slice": lambda pd: pd.DataFrame(np.arange(400).reshape(-1, 4), columns=list("abcd")).iloc[
        ::2, 1:
    ],
    "levels": lambda pd: pd.DataFrame(
        {"v": [1, 2]},
        index=pd.MultiIndex.from_tuples([("a", 1), ("b", 2)], names=["letter", "number"]),
    ),
}

SERIES = {
    "integers": lambda pd: pd.Series([1, 2], name="integers"),
    "large": lambda pd: pd.Series(np.arange(100_000.0), name="large"),
    "texts": lambda pd: pd.Series(["a", None, "c"] * 1000),
    "categories": lambda pd: pd.Series(["a", "b", "a"], dtype="category"),
    "zoned datetimes": lambda pd: pd.Series(pd.date_range("2020", periods=3, freq="h", tz="UTC")),
    "periods": lambda pd: pd.Series(pd.period_range("2020-01", periods=3, freq="M")),
    "intervals": lambda pd: pd.Series(pd.interval_range(0, 3)),
    "sparse": lambda pd: pd.Series(pd.arrays.SparseArray([0, 0, 1])),
    "nullable": lambda pd: pd.Series([True, None], dtype="boolean"),
}


# Not one test for each: its processes would import pandas each time, which takes much longer than the rest.
def test_data_frames_survive(roads):
    pd = pytest.importorskip("pandas")
    for name, make in FRAMES.items():
        for original, copy in travel(roads, lambda make=make: make(pd)):
            pd.testing.assert_frame_equal(copy, original, obj=name)


def test_series_survive(roads):
    pd = pytest.importorskip("pandas")
    for name, make in SERIES.items():
        for original, copy in travel(roads, lambda make=make: make(pd)):
            pd.testing.assert_series_equal(copy, original, obj=name)


def test_other_things_of_pandas_survive(roads):
    pd = pytest.importorskip("pandas")
    for original, copy in travel(
        roads, lambda: pd.Categorical(["b", "a"], categories=["b", "a", "c"])
    ):
        pd.testing.assert_extension_array_equal(copy, original)
    for original, copy in travel(roads, lambda: pd.date_range("2020", periods=3, freq="D")):
        pd.testing.assert_index_equal(copy, original)
        assert copy.freq == original.freq
    for _, copy in travel(roads, lambda: (pd.Timestamp("2020", tz="UTC"), pd.NaT, pd.NA)):
        assert copy[0] == pd.Timestamp("2020", tz="UTC")
        assert copy[1] is pd.NaT
        assert copy[2] is pd.NA


def test_results_computed_on_a_frame_that_was_got_are_right(cluster):
    pd = pytest.importorskip("pandas")

    @cluster.remote
    def add_a_column(frame):
        frame = frame.assign(total=frame.a + frame.b)
        frame.loc[frame.index[0], "a"] = -1.0
        return frame

    frame = pd.DataFrame(np.ones((50_000, 2)), columns=["a", "b"])
    got = cluster.get(add_a_column.remote(cluster.put(frame)))
    assert got.total.sum() == 100_000
    assert got.a.iloc[0] == -1
    assert frame.a.iloc[0] == 1


# ---- buffers


@pytest.mark.parametrize("size", [0, 1, 1000, 1_000_000])
def test_bytes_of_any_size_survive(roads, size):
    # In a tuple, since Ray makes a bytearray that is alone, or in a list, one of bytes.
    data = (bytes(range(256)) * (size // 256 + 1))[:size]
    for original, copy in travel(roads, lambda: (data, bytearray(data))):
        assert copy == original
        assert type(copy[1]) is bytearray
    for original, copy in travel(roads, lambda: data):
        assert copy == original
        assert type(copy) is bytes


def test_a_bytearray_that_arrives_can_be_changed(roads):
    for _, (copy,) in travel(roads, lambda: (bytearray(300_000),)):
        copy[0] = 1
        copy.append(2)
        assert len(copy) == 300_001


def test_memoryviews_arrive_as_their_bytes(roads):
    class Holder:
        pass

    def make():
        holder = Holder()
        holder.view = memoryview(bytearray(b"0123456789"))[2:8:2]
        return holder

    for original, copy in travel(roads, make):
        assert copy.view == original.view.tobytes() == b"246"


def make_buffered():
    """Return a class that hands its bytes out of band, as pickle 5 allows."""

    class Buffered:
        def __init__(self, data):
            self.data = data

        def __reduce_ex__(self, protocol):
            if protocol < 5:
                raise TypeError("the buffer is to travel out of band")
            return type(self), (pickle.PickleBuffer(self.data),)

    return Buffered


@pytest.mark.parametrize("size", [0, 10, 300_000])
@pytest.mark.parametrize(
    "kind", [bytes, bytearray, lambda data: np.frombuffer(data, dtype=np.uint8)]
)
def test_buffers_out_of_band_arrive_as_read_only_views(roads, kind, size):
    cls = make_buffered()
    for original, copy in travel(roads, lambda: cls(kind(bytes(range(10)) * (size // 10)))):
        view = memoryview(copy.data)
        assert view.readonly
        assert bytes(view) == bytes(original.data)


def test_a_buffer_that_is_twice_in_a_value_arrives_twice_the_same(roads):
    cls, data = make_buffered(), bytes(200_000)
    for _, copy in travel(roads, lambda: [cls(data), cls(data), np.arange(50_000)]):
        assert bytes(copy[0].data) == bytes(copy[1].data) == data
        assert copy[2][-1] == 49_999


# ---- pickling of the user's own


def test_classes_with_their_own_pickling_survive(roads):
    class Reduced:
        def __init__(self, total):
            self.total = total

        def __reduce__(self):
            return Reduced, (self.total + 1,)

    class Stateful:
        def __init__(self):
            self.data, self.cache = [1, 2], object()

        def __getstate__(self):
            return {"data": self.data}

        def __setstate__(self, state):
            self.__dict__.update(state, cache="made anew")

    class WithArguments:
        def __new__(cls, *, size):
            self = super().__new__(cls)
            self.size = size
            return self

        def __getnewargs_ex__(self):
            return (), {"size": self.size}

    for _, (reduced, stateful, with_arguments) in travel(
        roads, lambda: (Reduced(0), Stateful(), WithArguments(size=3))
    ):
        assert reduced.total >= 1
        assert (stateful.data, stateful.cache) == ([1, 2], "made anew")
        assert with_arguments.size == 3


def test_instances_with_slots_survive(cluster):
    class Slotted:
        __slots__ = ("one", "two")

    @cluster.remote
    def read(slotted):
        return slotted.one, hasattr(slotted, "two")

    slotted = Slotted()
    slotted.one = np.arange(3)
    one, has_two = cluster.get(read.remote(slotted))
    assert (one.tolist(), has_two) == ([0, 1, 2], False)
    assert cluster.get(cluster.put(slotted)).one.tolist() == [0, 1, 2]


def test_named_tuples_data_classes_and_enums_of_a_function_survive(roads):
    Point = collections.namedtuple("Point", "x y", defaults=[0])

    @dataclasses.dataclass(frozen=True, slots=True)
    class Record:
        name: str
        values: list = dataclasses.field(default_factory=list)

    class Color(enum.Enum):
        RED = 1
        BLUE = "blue"

        @property
        def loud(self):
            return self.name + "!"

    class Mode(enum.IntFlag):
        READ = 4
        WRITE = 2

    values = [
        Point(1),
        Record("r", [1]),
        Color.RED,
        Mode.READ | Mode.WRITE,
        {Color.BLUE: Point(2, 3)},
    ]
    for _, (point, record, color, mode, mapping) in travel(roads, lambda: values):
        assert (point.x, point.y, type(point)) == (1, 0, Point)
        assert record == Record("r", [1])
        assert color is Color.RED
        assert color.loud == "RED!"
        assert mode == Mode.READ | Mode.WRITE
        assert mapping == {Color.BLUE: Point(2, 3)}


def test_subclasses_of_built_in_types_keep_their_class_and_attributes(roads):
    classes = [
        type("My" + base.__name__, (base,), {}) for base in (int, str, list, dict, set, float)
    ]

    def make():
        values = [cls() for cls in classes]
        for value in values:
            value.note = type(value).__name__
        return values

    for _, copies in travel(roads, make):
        assert [type(copy) for copy in copies] == classes
        assert [copy.note for copy in copies] == [cls.__name__ for cls in classes]


def test_the_standard_collections_survive(roads):
    values = (
        collections.OrderedDict(b=1, a=2),
        collections.defaultdict(list, a=[1]),
        collections.Counter("aab"),
        collections.deque([1, 2], maxlen=2),
        collections.ChainMap({"a": 1}, {"b": 2}),
        frozenset({1, (2,)}),
        range(1, 9, 2),
        slice(1, None, 2),
        Ellipsis,
        NotImplemented,
        2**100,
        1j,
    )
    for _, copies in travel(roads, lambda: values):
        assert copies == values
        assert list(map(type, copies)) == list(map(type, values))
        assert copies[1].default_factory is list
        assert copies[3].maxlen == 2


def test_keys_of_all_kinds_survive(roads):
    value = {
        1: "int",
        None: "none",
        (1, "a"): "tuple",
        1.5: "float",
        b"b": "bytes",
        frozenset(): "set",
    }
    for _, copy in travel(roads, lambda: value):
        assert copy == value


@pytest.mark.parametrize("text", ["", "é" * 200_000, "\U0001f600\x00\n", "\udc80 alone"], ids=len)
def test_texts_of_all_sizes_and_kinds_survive(roads, text):
    # In a tuple, because Ray raises an error for a top-level text that cannot be encoded.
    for _, (copy,) in travel(roads, lambda: (text,)):
        assert copy == text


def test_functions_of_all_kinds_survive(roads):
    calls = []

    def make():
        base = 10

        def add(x, *, scale=2):
            """Add."""
            return base + x * scale

        def recursive(n):
            return 1 if n == 0 else n * recursive(n - 1)

        def count(n):
            yield from range(n)

        return [
            lambda x: x + base,
            add,
            recursive,
            count,
            functools.partial(add, scale=3),
            [].append,
            len,
        ]

    for _, (short, add, recursive, count, partial, append, builtin) in travel(roads, make):
        assert (short(1), add(1), partial(1), builtin([1])) == (11, 12, 13, 1)
        assert add.__doc__ == "Add."
        assert recursive(5) == 120
        assert list(count(3)) == [0, 1, 2]
        append(1)
        assert append.__self__ == [1]
        calls.append(1)
    assert len(calls) == len(roads)


def test_classes_of_a_function_survive_with_their_instances(roads):
    class Base:
        registry = {"a": 1}

        @classmethod
        def name(cls):
            return cls.__name__

        @staticmethod
        def twice(x):
            return 2 * x

    class Derived(Base):
        def __init__(self, x):
            super().__init__()
            self.x = x

        @property
        def doubled(self):
            return self.twice(self.x)

        def __eq__(self, other):
            return type(other) is Derived and other.x == self.x

        __hash__ = None

    for (cls, instance), (class_copy, copy) in travel(roads, lambda: (Derived, Derived(4))):
        assert class_copy is cls
        assert copy == instance
        assert (copy.doubled, copy.name(), copy.registry) == (8, "Derived", {"a": 1})


def test_what_contains_itself_survives(roads):
    class Node:
        pass

    def make():
        a_list, a_dict, node = [1], {}, Node()
        a_list.append(a_list)
        a_dict["self"] = a_dict
        node.neighbours = [node]
        return (a_list, a_dict, node)

    for _, (a_list, a_dict, node) in travel(roads, make):
        assert a_list[1] is a_list
        assert a_dict["self"] is a_dict
        assert node.neighbours[0] is node


def test_deeply_nested_values_survive(roads):
    def make():
        value = ()
        for _ in range(100):
            value = (value,)
        return value

    for original, copy in travel(roads, make):
        assert copy == original


class _Unset:
    """The value of attributes that an exception lacks."""


EXCEPTIONS = {
    "plain": lambda: ValueError("text", 3),
    "without arguments": lambda: KeyError(),
    "of a file": lambda: FileNotFoundError(2, "not there", "name"),
    "of an import": lambda: ImportError("text", name="module", path="path"),
    "a group": lambda: ExceptionGroup("group", [ValueError(1), TypeError(2)]),
    "no Exception": lambda: KeyboardInterrupt("text"),
    "of a text": lambda: UnicodeDecodeError("utf8", b"a", 0, 1, "reason"),
    "of an iterator": lambda: StopIteration(3),
    "of the system": lambda: SystemExit(3),
    "of the syntax": lambda: SyntaxError("text", ("file", 1, 2, "line")),
}


@pytest.mark.parametrize("name", EXCEPTIONS)
def test_exceptions_that_are_values_are_not_raised(roads, name):
    fields = "errno filename name path message encoding start value code lineno".split()
    for original, copy in travel(roads, EXCEPTIONS[name]):
        assert type(copy) is type(original)
        assert repr(copy) == repr(original)
        for field in fields:
            assert getattr(copy, field, _Unset) == getattr(original, field, _Unset)


def test_what_a_serializer_raises_is_raised(ray, cluster):
    class Picky:
        def __reduce__(self):
            raise KeyError("no")

    with pytest.raises(KeyError, match="no"):
        ray.put(Picky())


def test_exceptions_keep_their_attributes_and_notes(roads):
    class Refused(Exception):
        def __init__(self, who, *, why):
            super().__init__(who)
            self.why = why

        def __reduce__(self):
            return (
                functools.partial(Refused, why=self.why),
                self.args,
                {"__notes__": self.__notes__},
            )

    def make():
        error = Refused("me", why="so")
        error.add_note("noted")
        return error

    for _, copy in travel(roads, make):
        assert (type(copy), copy.args, copy.why) == (Refused, ("me",), "so")
        assert copy.__notes__ == ["noted"]


def test_what_cannot_be_unpickled_is_a_system_error(cluster):
    class Unloadable:
        def __reduce__(self):
            return _raise(), ()

    def _raise():
        def fail():
            raise ValueError("cannot be loaded")

        return fail

    with pytest.raises(cluster.exceptions.RaySystemError, match="cannot be loaded"):
        cluster.get(cluster.put(Unloadable()))
