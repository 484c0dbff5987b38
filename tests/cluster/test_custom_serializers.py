"""Serializers of the user's own, where raycompat differs from Ray 2.60: old names, what comes back."""

from __future__ import annotations

import threading

import pytest

import raycompat as ray
from raycompat.exceptions import UnsupportedRayFeatureError


@pytest.fixture
def register():
    """`ray.register_custom_serializer`, whose warning is expected, undone at the end."""
    registered = []

    def register(cls, *args, **options):
        registered.append(cls)
        with pytest.warns(DeprecationWarning, match="use ray.util.register_serializer"):
            ray.register_custom_serializer(cls, *args, **options)

    yield register
    for cls in registered:
        ray.util.deregister_serializer(cls)


class Guarded:
    """Cannot be pickled."""

    def __init__(self, value):
        self.value = value
        self.lock = threading.Lock()


class Unwilling:
    """Can be pickled by its fields only."""

    def __init__(self):
        raise AssertionError("not to be called")

    def __reduce__(self):
        raise AssertionError("not to be called either")


@pytest.mark.parametrize("options", [{}, {"local": True}, {"class_id": "any"}])
def test_the_old_name_registers_a_serializer(cluster, register, options):
    register(
        Guarded, serializer=lambda i: i.value, deserializer=lambda value: ("made", value), **options
    )
    assert ray.get(ray.put([Guarded(1)])) == [("made", 1)]


def test_use_dict_sends_the_fields_alone(cluster, register):
    instance = object.__new__(Unwilling)
    instance.one, instance.two = 1, [2]
    register(Unwilling, use_dict=True)
    copy = ray.get(ray.put(instance))
    assert type(copy) is Unwilling
    assert (copy.one, copy.two) == (1, [2])


def test_use_pickle_takes_an_earlier_choice_back(cluster, register):
    register(Guarded, serializer=lambda i: i.value, deserializer=str)
    register(Guarded, use_pickle=True)
    with pytest.raises(TypeError, match="lock"):
        ray.put(Guarded(1))


def test_use_dict_needs_instances_with_a_dict(register):
    with pytest.raises(TypeError, match="have no __dict__"):
        register(complex, use_dict=True)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"use_pickle": True, "use_dict": True},
        {"use_pickle": True, "serializer": str, "deserializer": str},
        {"serializer": str},
        {"deserializer": str},
        {"use_dict": True, "deserializer": str},
    ],
    ids=str,
)
def test_exactly_one_way_is_to_be_given(options):
    with pytest.raises(AssertionError, match="takes exactly one of"):
        ray.register_custom_serializer(Guarded, **options)


@pytest.mark.parametrize(
    "options", [{"local": False}, {"job_id": "01"}, {"driver_id": "01"}], ids=str
)
def test_what_would_concern_other_processes_is_refused(options):
    with pytest.raises(UnsupportedRayFeatureError, match=next(iter(options))):
        ray.register_custom_serializer(Guarded, use_pickle=True, **options)


def test_what_cloudpickle_does_itself_comes_back(cluster):
    for _ in range(2):  # the second registration is not to be taken for cloudpickle's own
        ray.util.register_serializer(property, serializer=id, deserializer=lambda _: "a property")
    assert ray.get(ray.put([property(len)])) == ["a property"]
    ray.util.deregister_serializer(property)
    assert ray.get(ray.put(property(len))).fget is len


def test_deregistering_our_own_classes_does_no_harm(cluster):
    ray.util.deregister_serializer(ray.ObjectRef)
    assert ray.get(ray.get(ray.put([ray.put(1)]))) == [1]


def test_a_property_that_raises_does_not_end_the_inspection(capsys):
    class Moody:
        def __init__(self):
            self.lock = threading.Lock()

        @property
        def broken(self):
            raise RuntimeError("not now")

        def __repr__(self):
            raise RuntimeError("not now either")

    moody = Moody()
    ok, [failure] = ray.util.inspect_serializability(moody, name="moody")
    assert not ok
    assert (failure.obj, failure.parent) == (moody.lock, moody)
    assert failure.name == "lock"
    assert "moody -> lock" in repr(failure)
    assert "whose repr raises RuntimeError" in capsys.readouterr().out


def test_an_empty_cell_does_not_end_the_inspection(capsys):
    def use():
        return lock, never

    lock = threading.Lock()
    ok, [failure] = ray.util.inspect_serializability(use)
    assert (ok, failure.obj) == (False, use)
    if ok:
        never = 1
