"""The directory: names are unique, and free when they should be."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from raycompat._messages.actors import ActorState
from raycompat._scheduler.actor_directory import ActorDirectory, ActorRow


def directory_with(*rows: ActorRow) -> ActorDirectory:
    directory = ActorDirectory()
    for row in rows:
        assert directory.reserve(row) is None
    return directory


def test_a_name_is_taken_until_its_actor_is_killed():
    first = ActorRow(key="A-1", job="j", name="n", namespace="s")
    directory = directory_with(first)
    second = ActorRow(key="A-2", job="j", name="n", namespace="s")
    assert directory.reserve(second) is first
    directory.bury("A-1", b"why", frees_name=True)
    assert directory.reserve(second) is None
    assert directory.find("n", "s") is second


def test_a_dead_actor_keeps_its_name_while_it_is_referred_to_but_is_not_listed():
    row = ActorRow(key="A-1", job="j", name="n", namespace="s")
    directory = directory_with(row)
    directory.bury("A-1", b"why", frees_name=False)
    assert directory.find("n", "s") is row
    assert directory.named() == []
    assert row.error == b"why"
    directory.forget("A-1")
    assert directory.find("n", "s") is None


def test_names_of_other_namespaces_do_not_clash():
    directory = directory_with(
        ActorRow(key="A-1", job="j", name="n", namespace="s"),
        ActorRow(key="A-2", job="j", name="n", namespace="t"),
    )
    assert directory.named() == [
        {"name": "n", "namespace": "s"},
        {"name": "n", "namespace": "t"},
    ]
    assert directory.named("t") == [{"name": "n", "namespace": "t"}]


def test_a_forgotten_actor_leaves_nothing():
    directory = directory_with(ActorRow(key="A-1", job="j", name="n", namespace="s"))
    directory.forget("A-1")
    directory.forget("A-1")
    assert directory.find("n", "s") is None
    assert not directory.rows


def test_a_report_says_all_that_a_caller_needs():
    row = ActorRow(key="A-1", job="j", state="ALIVE", address="tcp://a", host="h", socket="x")
    assert row.report() == ActorState("A-1", "ALIVE", address="tcp://a", host="h", socket="x")


@pytest.mark.parametrize("name", [None, ""])
@given(st.lists(st.sampled_from(["reserve", "bury", "kill", "forget"]), max_size=20))
def test_actors_without_a_name_never_clash(name, steps):
    directory = ActorDirectory()
    for number, step in enumerate(steps):
        if step == "reserve":
            row = ActorRow(key=f"A-{number}", job="j", name=None)
            assert directory.reserve(row) is None
        elif directory.rows:
            key = next(iter(directory.rows))
            if step == "forget":
                directory.forget(key)
            else:
                directory.bury(key, b"why", frees_name=step == "kill")
    assert directory.named() == []


@given(
    st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from(["make", "die", "kill", "forget"])))
)
def test_a_name_belongs_to_one_actor_at_a_time(steps):
    directory, owners = ActorDirectory(), {}
    for number, (name, step) in enumerate(steps):
        if step == "make":
            row = ActorRow(key=f"A-{number}", job="j", name=name, namespace="s")
            taken = directory.reserve(row)
            assert (taken.key if taken else None) == owners.get(name)
            owners.setdefault(name, row.key)
        elif name in owners:
            if step == "forget":
                directory.forget(owners.pop(name))
            else:
                directory.bury(owners[name], b"why", frees_name=step == "kill")
                if step == "kill":
                    owners.pop(name)
    assert {name: directory.find(name, "s").key for name in owners} == owners
