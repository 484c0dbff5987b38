"""The directory: names are unique, and no caller's call overtakes an earlier one of its own."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from raycompat._scheduler.actor_directory import ActorDirectory, ActorRow


def directory_with(*rows: ActorRow) -> ActorDirectory:
    directory = ActorDirectory()
    for row in rows:
        assert directory.reserve(row) is None
    return directory


def test_a_name_is_taken_until_its_actor_dies():
    first = ActorRow(key="A-1", job="j", name="n", namespace="s")
    directory = directory_with(first)
    second = ActorRow(key="A-2", job="j", name="n", namespace="s")
    assert directory.reserve(second) is first
    directory.bury("A-1", b"why")
    assert directory.reserve(second) is None
    assert directory.find("n", "s") is second


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


def test_the_dead_hand_back_the_calls_that_wait_and_keep_the_reason():
    directory = directory_with(ActorRow(key="A-1", job="j"))
    directory.enqueue("A-1", "x", "one")
    directory.enqueue("A-1", "y", "two")
    assert sorted(directory.bury("A-1", b"why")) == ["one", "two"]
    assert directory.rows["A-1"].error == b"why"


def test_calls_wait_for_the_actor_to_live():
    directory = directory_with(ActorRow(key="A-1", job="j"))
    directory.enqueue("A-1", "x", "one")
    directory.rows["A-1"].ready.add("one")
    assert list(directory.take_ready("A-1")) == []
    directory.rows["A-1"].state = "ALIVE"
    assert list(directory.take_ready("A-1")) == ["one"]


@given(
    st.lists(st.sampled_from("xyz"), max_size=30),
    st.data(),
)
def test_each_caller_s_calls_come_in_order_whatever_becomes_ready_when(callers, data):
    directory = directory_with(ActorRow(key="A", job="j", state="ALIVE"))
    calls = [f"{caller}{number}" for number, caller in enumerate(callers)]
    for caller, call in zip(callers, calls, strict=True):
        directory.enqueue("A", caller, call)
    taken: list[str] = []
    for call in data.draw(st.permutations(calls)):
        if data.draw(st.booleans()) and data.draw(st.booleans()):
            directory.withdraw("A", call[0], call)  # cancelled, or its argument failed
        else:
            directory.rows["A"].ready.add(call)
        taken += directory.take_ready("A")
    for caller in "xyz":
        numbers = [int(call[1:]) for call in taken if call[0] == caller]
        assert numbers == sorted(numbers)
    assert not directory.rows["A"].queues
