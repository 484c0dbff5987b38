"""Amounts of resources: exact arithmetic, and the values that are refused."""

import pickle
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from raycompat._protocol.resource_set import LARGEST_AMOUNT, UNITS_PER_ONE, LeaseKind, ResourceSet

names = st.sampled_from(["CPU", "GPU", "memory", "disk", "node:10.0.0.1"])
unit_counts = st.dictionaries(names, st.integers(0, 10**6))
sets = st.builds(ResourceSet, unit_counts)


def test_ten_times_a_tenth_is_one():
    tenth = ResourceSet.from_amounts({"CPU": 0.1})
    total = ResourceSet()
    for _ in range(10):
        total += tenth
    assert total == ResourceSet.from_amounts({"CPU": 1})
    for _ in range(10):
        total -= tenth
    assert total.is_empty


@pytest.mark.parametrize(
    ("amount", "units"),
    [
        (1, 10_000),
        (0.0001, 1),
        (0.0003, 3),  # 0.0003 * 10000 is 2.9999999999999996
        (0.00015, 1),
        (0.12349999, 1234),
        (1 - 0.9, 1000),  # 0.09999999999999998
        (0.1 + 0.2, 3000),  # 0.30000000000000004
        (1e9, 10**13),
        (64 * 2**40, 64 * 2**40 * UNITS_PER_ONE),
        (np.float32(0.5), 5000),
        (np.int64(3), 30_000),
        (Fraction(1, 4), 2500),
    ],
)
def test_an_amount_in_units(amount, units):
    assert ResourceSet.from_amounts({"disk": amount}).get("disk") == units


def test_amounts_of_zero_are_dropped():
    made = ResourceSet.from_amounts({"CPU": 0, "GPU": 0.0, "disk": 1})
    assert made == ResourceSet({"disk": 10_000})
    assert hash(made) == hash(ResourceSet({"disk": 10_000}))
    assert list(made) == ["disk"]
    assert len(made) == 1


@pytest.mark.parametrize(
    ("amounts", "error", "words"),
    [
        ({"CPU": -1}, ValueError, "CPU cannot be negative: it is -1"),
        ({"CPU": -0.5}, ValueError, "cannot be negative"),
        ({"CPU": float("nan")}, ValueError, "is nan: expected a finite number"),
        ({"CPU": float("inf")}, ValueError, "is inf: expected a finite number"),
        ({"CPU": LARGEST_AMOUNT}, ValueError, "expected a finite number"),
        ({"CPU": True}, TypeError, "is True, of type bool"),
        ({"CPU": "1"}, TypeError, "is '1', of type str"),
        ({"CPU": None}, TypeError, "is None"),
        ({"CPU": 0.00001}, ValueError, "fractional quantity of resource CPU"),
        ({"GPU": 1.5}, ValueError, "GPU resource quantities >1 must be whole numbers.* 1.5 is in"),
        ({1: 1}, TypeError, "1 is not the name of a resource"),
        ({"": 1}, TypeError, "'' is not the name of a resource"),
    ],
)
def test_a_bad_amount_is_refused(amounts, error, words):
    with pytest.raises(error, match=words):
        ResourceSet.from_amounts(amounts)


def test_whole_gpus_are_asked_for_only_in_requests():
    assert ResourceSet.from_amounts({"GPU": 2.0}).get("GPU") == 20_000
    assert ResourceSet.from_amounts({"GPU": 1.5}, whole_gpus=False).get("GPU") == 15_000


def test_what_goes_below_zero_is_refused():
    with pytest.raises(ValueError, match=r"\{CPU: 2\} cannot be taken from \{CPU: 1, GPU: 1\}"):
        _ = ResourceSet.from_amounts({"CPU": 1, "GPU": 1}) - ResourceSet.from_amounts({"CPU": 2})


def test_shown_as_a_user_reads_it():
    made = ResourceSet.from_amounts({"CPU": 1, "GPU": 0.5, "memory": 1.5 * 2**30, "disk": 0.0001})
    assert repr(made) == "{CPU: 1, GPU: 0.5, memory: 1.5 GiB, disk: 0.0001}"
    assert repr(ResourceSet()) == "{}"
    total = ResourceSet.from_amounts({"CPU": 2, "node:here": 1})
    assert total.text_of(["CPU", "GPU"]) == "{CPU: 2, GPU: 0}"
    assert made.amounts() == {"CPU": 1.0, "GPU": 0.5, "memory": 1.5 * 2**30, "disk": 0.0001}
    assert all(type(amount) is float for amount in made.amounts().values())


def test_the_set_is_not_changed_through_what_it_was_made_of_or_gives_out():
    units = {"CPU": 10_000}
    made = ResourceSet.from_units(units)
    units["CPU"] = 1
    made.units()["CPU"] = 2
    assert made.get("CPU") == 10_000


@given(sets, sets)
def test_sums_and_differences_are_exact(one, other):
    assert one + other == other + one
    assert (one + other) - other == one
    assert one.fits_in(one + other)
    assert one.fits_in(other) == all(one.get(name) <= other.get(name) for name in one)
    assert bool(one) is not one.is_empty


@given(sets)
def test_a_set_survives_its_journeys(one):
    assert ResourceSet.from_units(one.units()) == one
    assert ResourceSet.from_amounts(one.amounts(), whole_gpus=False) == one
    copy = pickle.loads(pickle.dumps(one))
    assert copy == one
    assert hash(copy) == hash(one)


@given(st.integers(0, LARGEST_AMOUNT * UNITS_PER_ONE // 10**6))
def test_no_units_are_lost_on_the_way_through_a_float(units):
    one = ResourceSet({"CPU": units})
    assert ResourceSet.from_amounts(one.amounts()) == one


@pytest.mark.parametrize(
    ("amounts", "varies", "fixed"),
    [
        ({"CPU": 2}, "CPU", {}),
        ({"memory": 5}, "memory", {}),
        ({"CPU": 1, "memory": 5}, "memory", {"CPU": 1}),
    ],
)
def test_the_kind_of_a_lease_is_all_but_one_amount(amounts, varies, fixed):
    request = ResourceSet.from_amounts(amounts)
    kind = LeaseKind.of(request)
    assert (kind.varies, ResourceSet(dict(kind.fixed)).amounts()) == (varies, fixed)
    assert kind.with_units(request.get(varies)) == request
    assert kind == LeaseKind.of(ResourceSet.from_amounts({**amounts, varies: 7}))
    assert hash(kind) == hash(LeaseKind.of(kind.with_units(7)))
