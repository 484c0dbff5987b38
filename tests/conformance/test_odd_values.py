"""Names and numbers of subclasses: members of enumerations, scalars of numpy, texts with methods of their own."""

from __future__ import annotations

import enum
import os
import uuid

import numpy as np
import pytest

TIMEOUT_S = 30


class Step(enum.StrEnum):
    LOAD = "load"
    STORE = "store"


class Number(enum.IntEnum):
    ONE = 1
    TWO = 2


def _local_text(text):
    """Return a text of a class that cannot be pickled by reference."""

    class Text(str):
        __slots__ = ()

        def __reduce__(self):
            raise TypeError("this text cannot be pickled")

    return Text(text)


@pytest.fixture(params=["enum", "local"])
def word(request):
    """Return a function that makes such a text."""
    if request.param == "enum":
        return lambda text: enum.StrEnum("Names", {"NAME": text}).NAME
    return _local_text


def test_functions_and_methods_with_such_names(ray, word):
    def run():
        return os.getpid() > 0

    other = ray.remote(lambda: "other")
    assert ray.get(other.remote(), timeout=TIMEOUT_S) == "other"
    run.__name__ = word("load")
    assert ray.get(ray.remote(run).remote(), timeout=TIMEOUT_S)

    class Echo:
        def same(self, value):
            return value

    Echo.__name__ = enum.StrEnum("Names", {"NAME": "Echo"}).NAME
    actor = ray.remote(Echo).remote()
    assert ray.get(actor.same.remote(1), timeout=TIMEOUT_S) == 1
    assert ray.get(actor.same.options(name=word("m")).remote(2), timeout=TIMEOUT_S) == 2
    assert ray.get(other.remote(), timeout=TIMEOUT_S) == "other"


def test_options_of_such_values(ray):
    @ray.remote
    def value():
        return 1

    options = [
        {"num_cpus": Number.ONE},
        {"num_cpus": np.float64(0.5)},
        {"max_retries": Number.ONE},
        {"num_returns": Number.ONE},
        {"memory": Number.TWO},
        {"name": Step.LOAD},
        {"scheduling_strategy": enum.StrEnum("Kind", {"SPREAD": "SPREAD"}).SPREAD},
        {"runtime_env": {"env_vars": {Step.LOAD: Step.STORE}}},
    ]
    refs = [value.options(**each).remote() for each in options]
    assert ray.get(refs, timeout=TIMEOUT_S) == [1] * len(options)


def test_names_of_actors_of_such_values(ray, word):
    @ray.remote(num_cpus=0)
    class Named:
        def pid(self):
            return os.getpid()

    name = word(f"named {uuid.uuid4().hex}")
    actor = Named.options(name=name, namespace=Step.STORE).remote()
    pid = ray.get(actor.pid.remote(), timeout=TIMEOUT_S)
    found = ray.get_actor(name, namespace=Step.STORE)
    assert ray.get(found.pid.remote(), timeout=TIMEOUT_S) == pid


def test_concurrency_groups_of_such_names(ray):
    io = enum.StrEnum("Names", {"IO": "io"}).IO  # pickled with the class

    @ray.remote(num_cpus=0, concurrency_groups={io: Number.TWO})
    class Grouped:
        @ray.method(concurrency_group=io)
        def one(self):
            return 1

        def two(self):
            return 2

    actor = Grouped.remote()
    refs = [actor.one.remote(), actor.two.remote()]
    refs.append(actor.two.options(concurrency_group=io).remote())
    assert ray.get(refs, timeout=TIMEOUT_S) == [1, 2, 2]


def test_placement_groups_of_such_values(ray):
    from importlib import import_module

    strategies = import_module(f"{ray.__name__}.util.scheduling_strategies")
    group = ray.util.placement_group([{"CPU": Number.ONE}], name=Step.LOAD)
    strategy = strategies.PlacementGroupSchedulingStrategy(
        group, placement_group_bundle_index=Number.ONE - 1
    )
    try:
        ref = ray.remote(scheduling_strategy=strategy)(lambda: 1).remote()
        assert ray.get(ref, timeout=TIMEOUT_S) == 1
    finally:
        ray.util.remove_placement_group(group)


@pytest.mark.parametrize("of_actor", [False, True])
def test_an_error_whose_text_is_such_a_value(ray, of_actor):
    class Failure(Exception):
        def __str__(self):
            return enum.StrEnum("Names", {"NAME": "the reason"}).NAME

    def fail():
        raise Failure

    if of_actor:
        ref = ray.remote(num_cpus=0)(type("Failing", (), {"fail": lambda self: fail()})).remote()
        ref = ref.fail.remote()
    else:
        ref = ray.remote(fail).remote()
    with pytest.raises(ray.exceptions.RayTaskError, match="the reason"):
        ray.get(ref, timeout=TIMEOUT_S)


def test_lists_of_a_thousand_levels_are_carried(ray):
    def nested(depth):
        value = "innermost"
        for _ in range(depth):
            value = [value]
        return value

    def depth_of(value):
        depth = 0
        while isinstance(value, list):
            (value,), depth = value, depth + 1
        return depth

    @ray.remote
    def measure(value):
        return depth_of(value)

    @ray.remote
    def make(depth):
        return nested(depth)

    @ray.remote
    class Both:
        def measure(self, value):
            return depth_of(value)

        def make(self, depth):
            return nested(depth)

    both, deep = Both.remote(), nested(1020)
    found = [measure.remote(deep), both.measure.remote(deep), measure.remote(ray.put(deep))]
    assert ray.get(found) == [1020] * 3
    made = ray.get([make.remote(1020), both.make.remote(1020), ray.put(deep)])
    assert [depth_of(each) for each in made] == [1020] * 3
