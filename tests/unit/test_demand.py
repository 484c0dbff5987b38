"""How many nodes are wanted for what waits."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from raycompat._protocol.resource_set import ResourceSet
from raycompat._scheduler.demand import nodes_wanted
from raycompat._scheduler.group_row import Wish


def some(**amounts):
    return ResourceSet.from_amounts(amounts)


NODE = some(CPU=4, GPU=1, memory=100)


def wish(strategy, *bundles, beside=()):
    return Wish(bundles, (), strategy, frozenset(beside))


@pytest.mark.parametrize(
    ("calls", "wanted"),
    [
        ([], 0),
        ([(some(CPU=1), 1)], 1),
        ([(some(CPU=1), 4)], 1),
        ([(some(CPU=1), 5)], 2),
        ([(some(CPU=1, GPU=1), 3)], 3),
        ([(some(CPU=1), 4), (some(GPU=1), 1)], 2),
        ([(some(CPU=8), 7)], 0),  # no such node exists
        ([(some(TPU=1), 1)], 0),
        ([(some(), 9)], 0),
    ],
)
def test_calls_want_nodes_by_their_resources(calls, wanted):
    assert nodes_wanted(calls, [], [NODE]) == wanted


def test_without_a_node_one_is_wanted():
    assert nodes_wanted([(some(CPU=99), 50)], [], []) == 1
    assert nodes_wanted([], [wish("SPREAD", some(CPU=1))], []) == 1
    assert nodes_wanted([], [], []) == 0


@pytest.mark.parametrize(
    ("group", "wanted"),
    [
        (wish("PACK", some(CPU=2), some(CPU=2)), 1),
        (wish("STRICT_PACK", some(CPU=3), some(CPU=3)), 0),  # they fit on no node together
        (wish("STRICT_SPREAD", *[some(CPU=1)] * 4), 3),
        (wish("STRICT_SPREAD", some(CPU=1), beside=["a", "b"]), 2),
    ],
)
def test_groups_want_nodes_by_their_strategy(group, wanted):
    assert nodes_wanted([], [group], [NODE]) == wanted


@given(st.lists(st.tuples(st.integers(1, 4), st.integers(1, 50)), max_size=5))
def test_what_fits_is_wanted_and_not_much_more(waiting):
    calls = [(some(CPU=cpus), count) for cpus, count in waiting]
    cpus = sum(each * count for each, count in waiting)
    assert nodes_wanted(calls, [], [NODE]) == -(-cpus // 4)
