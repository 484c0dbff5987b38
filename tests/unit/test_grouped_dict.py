"""A dictionary with groups: it is a dictionary, and no removal searches it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from raycompat._protocol import ids
from raycompat._protocol.grouped_dict import GroupedDict


class CountingOwner(str):
    """An owner that counts how often it is compared."""

    num_compared = 0
    __hash__ = str.__hash__

    def __eq__(self, other: object) -> bool:
        CountingOwner.num_compared += 1
        return str.__eq__(self, other)


def test_no_removal_searches_all():
    """100 owners of 100 promises each leave, one after the other."""
    promises: GroupedDict[str, CountingOwner] = GroupedDict(lambda owner: owner)
    for owner in range(100):
        for number in range(100):
            promises[f"value-{owner}-{number}"] = CountingOwner(f"client-{owner}")
    CountingOwner.num_compared = 0
    for owner in range(100):
        for key in promises.members(CountingOwner(f"client-{owner}")):
            del promises[key]
    assert not promises
    assert promises.num_groups == 0
    assert CountingOwner.num_compared <= 2 * 100 * 100


STEPS = st.lists(
    st.tuples(st.sampled_from(["set", "pop", "del"]), st.integers(0, 5), st.integers(0, 3)),
    max_size=50,
)


@given(steps=STEPS)
def test_it_is_a_dictionary_whose_groups_are_right(steps):
    grouped: GroupedDict[int, int] = GroupedDict(lambda value: value or None)
    plain: dict[int, int] = {}
    for operation, key, value in steps:
        if operation == "set":
            grouped[key] = plain[key] = value
        elif operation == "pop":
            assert grouped.pop(key, None) == plain.pop(key, None)
        elif key in plain:
            del grouped[key], plain[key]
        else:
            with pytest.raises(KeyError):
                del grouped[key]
        assert grouped == plain
        for group in (1, 2, 3):
            assert set(grouped.members(group)) == {k for k, v in plain.items() if v == group}
    assert grouped.num_groups == len(set(plain.values()) - {0})


def test_the_call_of_a_result():
    call = ids.call_key("double", ids.new_task_id())
    assert ids.call_of(call) == call
    assert ids.call_of(ids.return_key(call, 3)) == call
