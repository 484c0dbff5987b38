"""Accelerators beside GPUs: how many a machine has, and which of them a call gets."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from raycompat._node import numbers
from raycompat._protocol import accelerator_kinds

TOTALS = {"CPU": 8, "TPU": 4, "NPU": 2}


def test_calls_get_whole_ones_that_are_free_and_give_them_back():
    of_node = numbers.Numbers(TOTALS)
    assert of_node.take("a", {"CPU": 1, "TPU": 2}) == {"TPU": ["0", "1"]}
    assert of_node.take("b", {"TPU": 1, "NPU": 1}) == {"NPU": ["0"], "TPU": ["2"]}
    assert of_node.take("a", {"CPU": 1, "TPU": 2}) == {"TPU": ["0", "1"]}  # another try of it
    of_node.give("a")
    of_node.give("a")
    assert of_node.take("c", {"TPU": 2}) == {"TPU": ["0", "1"]}
    assert of_node.take("d", {"CPU": 1}) == {}


def test_parts_share_an_accelerator_and_leave_whole_ones():
    of_node = numbers.Numbers(TOTALS)
    parts = [of_node.take(name, {"NPU": 0.5})["NPU"] for name in "abc"]
    assert parts == [["0"], ["0"], ["1"]]
    of_node.give("a")
    assert of_node.take("d", {"NPU": 0.5})["NPU"] in (["0"], ["1"])


def test_the_nodes_variable_names_its_accelerators(monkeypatch):
    monkeypatch.setenv("TPU_VISIBLE_CHIPS", "2,3")
    of_node = numbers.Numbers({"TPU": 2})
    assert of_node.take("a", {"TPU": 1}) == {"TPU": ["2"]}
    assert of_node.take("b", {"TPU": 1}) == {"TPU": ["3"]}


@given(st.lists(st.tuples(st.integers(0, 5), st.sampled_from([0, 0.25, 0.5, 1, 2])), max_size=30))
def test_no_accelerator_is_given_twice(steps):
    """As long as whole ones are free for what the scheduler lets come."""
    of_node, held = numbers.Numbers({"NPU": 4}), {}
    for call, amount in steps:
        held.pop(call, None)
        of_node.give(str(call))
        if amount and sum(held.values()) + amount <= 4:
            held[call] = amount
            ids = of_node.take(str(call), {"NPU": amount})["NPU"]
            assert len(set(ids)) == max(1, int(amount))
            assert set(ids) <= {"0", "1", "2", "3"}
    for call in held:
        of_node.give(str(call))
    assert of_node._held == {"NPU": [0.0] * 4}


def test_accelerators_are_counted_by_their_device_files(tmp_path, monkeypatch):
    monkeypatch.setattr(numbers, "_DEVICES", str(tmp_path))
    assert numbers.detected() == {}
    for name in ("accel0", "accel1", "davinci0", "davinci_manager", "nvidia0"):
        (tmp_path / name).touch()
    (tmp_path / "accel").mkdir()
    (tmp_path / "accel" / "accel0").touch()  # another driver's
    assert numbers.detected() == {"TPU": 2, "NPU": 1}
    monkeypatch.setenv("TPU_VISIBLE_CHIPS", "1")
    assert numbers.detected() == {"TPU": 1, "NPU": 1}


@pytest.mark.parametrize(
    ("resources", "expected"),
    [({"TPU": 3}, "one of 1, 2, 4, 8"), ({"neuron_cores": 1.5}, "whole"), ({"HPU": 0.5}, "whole")],
)
def test_amounts_that_no_call_can_have(resources, expected):
    with pytest.raises(ValueError, match=expected):
        accelerator_kinds.check_amounts("resources", resources)
    accelerator_kinds.check_amounts("resources", {"TPU": 4, "NPU": 0.5, "HPU": 2.0, "x": 0.3})
