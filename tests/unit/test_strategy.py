"""Strategies: they arrive as they left, and choose the nodes that they mean."""

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from raycompat._protocol.resource_set import ResourceSet
from raycompat._protocol.strategy import (
    ByLabels,
    InGroup,
    LabelRule,
    OnNode,
    Selecting,
    from_wire,
    to_wire,
)
from raycompat._scheduler.affinity import choices
from raycompat._scheduler.ledger import Ledger

R = ResourceSet.from_amounts

rules = st.builds(
    LabelRule,
    st.text(),
    st.sampled_from(["in", "not in", "exists", "does not exist"]),
    st.lists(st.text()).map(tuple),
)
some_rules = st.lists(rules, max_size=3).map(tuple)
without_group = st.one_of(
    st.sampled_from(["DEFAULT", "SPREAD"]),
    st.builds(OnNode, st.text(), st.booleans(), st.booleans(), st.booleans()),
    st.builds(ByLabels, some_rules, some_rules),
)
any_strategy = st.one_of(
    without_group,
    st.builds(InGroup, st.text(), st.integers(-1, 9), st.booleans()),
    st.builds(Selecting, st.lists(some_rules, max_size=3).map(tuple), without_group),
)


@given(any_strategy)
def test_a_strategy_arrives_as_it_left(strategy):
    travelled = msgpack.unpackb(msgpack.packb(to_wire(strategy)), use_list=False)
    assert from_wire(travelled) == strategy
    assert hash(from_wire(travelled)) == hash(strategy)


@pytest.mark.parametrize(
    ("rule", "labels", "admits"),
    [
        (LabelRule("zone", "in", ("a", "b")), {"zone": "a"}, True),
        (LabelRule("zone", "in", ("a", "b")), {"zone": "c"}, False),
        (LabelRule("zone", "in", ("a",)), {}, False),
        (LabelRule("zone", "not in", ("a",)), {"zone": "a"}, False),
        (LabelRule("zone", "not in", ("a",)), {"zone": "b"}, True),
        (LabelRule("zone", "not in", ("a",)), {}, True),
        (LabelRule("zone", "exists"), {"zone": ""}, True),
        (LabelRule("zone", "exists"), {}, False),
        (LabelRule("zone", "does not exist"), {"zone": ""}, False),
        (LabelRule("zone", "does not exist"), {}, True),
    ],
)
def test_what_a_rule_admits(rule, labels, admits):
    assert rule.admits(labels) is admits


NODES = {
    "one": {"node_id": "01", "labels": {"zone": "a"}},
    "two": {"node_id": "02", "labels": {"zone": "a", "disk": "fast"}},
    "three": {"node_id": "03", "labels": {"zone": "b"}},
}
IN_A = (LabelRule("zone", "in", ("a",)),)
FAST = (LabelRule("disk", "exists"),)


@pytest.mark.parametrize(
    ("strategy", "cpus", "expected"),
    [
        ("DEFAULT", 1, [None]),
        ("SPREAD", 99, [None]),
        (OnNode("02", False), 1, [["two"]]),
        (OnNode("02", True), 1, [["two"]]),
        (OnNode("02", True, may_spill=True), 1, [["two"], None]),
        (OnNode("02", False), 99, []),
        (OnNode("02", True), 99, [None]),
        (OnNode("04", False), 1, []),
        (OnNode("04", True), 1, [None]),
        (ByLabels(IN_A), 1, [["one", "two"]]),
        (ByLabels(IN_A, FAST), 1, [["two"], ["one", "two"]]),
        (ByLabels((), FAST), 1, [["two"], ["one", "two", "three"]]),
        (ByLabels(IN_A, (LabelRule("zone", "in", ("b",)),)), 1, [["one", "two"]]),
        (ByLabels((*FAST, LabelRule("zone", "in", ("b",)))), 1, [[]]),
    ],
)
def test_where_a_call_may_go(strategy, cpus, expected):
    ledger = Ledger()
    for address in NODES:
        ledger.add_node(address, R({"CPU": 4}))
    assert choices(strategy, R({"CPU": cpus}), NODES, ledger) == expected
