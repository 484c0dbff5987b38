"""Label selectors: their syntax, and the rules that they stand for."""

import pytest

from raycompat._caller import placement
from raycompat._protocol.label_selector import checked, rules
from raycompat._protocol.options import task_options
from raycompat._protocol.resource_set import ResourceSet
from raycompat._protocol.strategy import InGroup, LabelRule
from raycompat.exceptions import UnsupportedRayFeatureError


@pytest.mark.parametrize(
    ("condition", "rule"),
    [
        ("a", LabelRule("zone", "in", ("a",))),
        ("!a", LabelRule("zone", "not in", ("a",))),
        ("in(a)", LabelRule("zone", "in", ("a",))),
        ("in(a,b, c-d_e.f)", LabelRule("zone", "in", ("a", "b", "c-d_e.f"))),
        ("!in(a, b)", LabelRule("zone", "not in", ("a", "b"))),
        ("in", LabelRule("zone", "in", ("in",))),
        ("", LabelRule("zone", "in", ("",))),
    ],
)
def test_a_condition_is_a_rule(condition, rule):
    assert rules(checked("label_selector", {"zone": condition})) == (rule,)


@pytest.mark.parametrize("key", ["example.com/zone", "zone", "a", "a" * 63, "z.o_n-e"])
def test_valid_keys(key):
    assert checked("label_selector", {key: "a"}) == {key: "a"}


@pytest.mark.parametrize("key", ["", "/zone", "-a/zone", "zone/", "a" * 64, "a" * 254 + "/zone"])
def test_keys_that_are_not_valid(key):
    with pytest.raises(ValueError, match="Invalid label key"):
        checked("label_selector", {key: "a"})


def test_a_selector_in_a_group_is_refused(monkeypatch):
    monkeypatch.setattr(placement, "_unselected", lambda *_: InGroup("ab" * 18))
    options = task_options({"label_selector": {"zone": "a"}})
    with pytest.raises(UnsupportedRayFeatureError, match="in a placement group"):
        placement.choose(None, options, "f", ResourceSet.from_amounts({"CPU": 1}))


def test_a_call_with_a_selector_takes_no_lease():
    assert task_options({"label_selector": {}}).is_simple
    assert not task_options({"label_selector": {"zone": "a"}}).is_simple
