"""Accelerators beside GPUs: how many a machine has, and which of them a call gets."""

from __future__ import annotations

import pytest
from _node_parts import done, run
from hypothesis import given
from hypothesis import strategies as st

from raycompat._host import device_files
from raycompat._messages.calls import Freed
from raycompat._node import numbers
from raycompat._protocol import accelerator_kinds

TOTALS = {"CPU": 8, "TPU": 4, "NPU": 2}


def test_calls_get_whole_ones_that_are_free_and_give_them_back():
    of_node = numbers.Numbers(TOTALS)
    first = of_node.take({"CPU": 1, "TPU": 2})
    assert numbers.ids(first) == {"TPU": ["0", "1"]}
    second = of_node.take({"TPU": 1, "NPU": 1})
    assert numbers.ids(second) == {"NPU": ["0"], "TPU": ["2"]}
    of_node.give(first)
    assert numbers.ids(of_node.take({"TPU": 2})) == {"TPU": ["0", "1"]}
    assert of_node.take({"CPU": 1}) == {}


def test_parts_share_an_accelerator_and_leave_whole_ones():
    of_node = numbers.Numbers(TOTALS)
    parts = [of_node.take({"NPU": 0.5}) for _ in range(3)]
    assert [numbers.ids(each)["NPU"] for each in parts] == [["0"], ["0"], ["1"]]
    of_node.give(parts[0])
    assert numbers.ids(of_node.take({"NPU": 0.5}))["NPU"] in (["0"], ["1"])


def test_the_nodes_variable_names_its_accelerators(monkeypatch):
    monkeypatch.setenv("TPU_VISIBLE_CHIPS", "2,3")
    of_node = numbers.Numbers({"TPU": 2})
    assert numbers.ids(of_node.take({"TPU": 1})) == {"TPU": ["2"]}
    assert numbers.ids(of_node.take({"TPU": 1})) == {"TPU": ["3"]}


@pytest.mark.parametrize("max_calls", [0, 1])
def test_accelerators_are_freed_when_the_process_has_ended_unless_it_stays(tmp_path, max_calls):
    async def test(machine):
        (_, (_, _, begun)) = await machine.start("f-1", resources={"NPU": 1}, max_calls=max_calls)
        assert begun.accelerators == {"NPU": ["0"]}
        told = await machine.answer(1, done("f-1"))
        freed = ("scheduler", Freed("f-1"))
        if max_calls:
            assert freed not in told
            told = await machine.die(1, 0)
        assert told.count(freed) == 1
        assert numbers.ids(machine.node.numbers.take({"NPU": 1})) == {"NPU": ["0"]}

    run(tmp_path, test)


@given(st.lists(st.tuples(st.integers(0, 5), st.sampled_from([0, 0.25, 0.5, 1, 2])), max_size=30))
def test_whole_accelerators_are_given_to_one_call(steps):
    of_node, amounts, held = numbers.Numbers({"NPU": 4}), {}, {}
    for call, amount in steps:
        of_node.give(held.pop(call, {}))
        amounts.pop(call, None)
        if not amount or sum(amounts.values()) + amount > 4:  # the scheduler would let it wait
            continue
        others = [number for taken in held.values() for number in taken["NPU"]]
        amounts[call], held[call] = amount, of_node.take({"NPU": amount})
        mine = held[call]["NPU"]
        assert len(mine) == max(1, int(amount))
        assert set(mine) <= set(range(4))
        free = 4 - len(set(others))
        if amount >= 1 and free >= amount:
            assert not set(mine) & set(others)
    for taken in held.values():
        of_node.give(taken)
    assert of_node._held == {"NPU": [0.0] * 4}


def test_accelerators_are_counted_by_their_device_files(tmp_path, monkeypatch):
    monkeypatch.setattr(device_files, "FOLDER", tmp_path)
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
    [
        ({"TPU": 3}, "one of 1, 2, 4, 8"),
        ({"neuron_cores": 1.5}, "whole"),
        ({"HPU": 0.5}, "whole"),
        ({"NPU": 1.5}, "less than 1"),
    ],
)
def test_amounts_that_no_call_can_have(resources, expected):
    with pytest.raises(ValueError, match=expected):
        accelerator_kinds.check_amounts("resources", resources)
    accelerator_kinds.check_amounts("resources", {"TPU": 4, "NPU": 0.5, "HPU": 2.0, "x": 0.3})
