"""A GPU that several nodes can use is counted once, and belongs to one of them."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from raycompat._protocol.resource_set import UNITS_PER_ONE, ResourceSet
from raycompat._scheduler.gpu_shares import divide
from raycompat._scheduler.ledger import Ledger

R = ResourceSet.from_amounts


def ledger(**lists):
    made = Ledger()
    for node, gpus in lists.items():
        made.add_node(node, R({"CPU": 8, "GPU": len(gpus)}), list(gpus))
    return made


def shares(made, **lists):
    return {
        node: "".join(gpus[index] for index in made.gpus_of(node)) for node, gpus in lists.items()
    }


@pytest.mark.parametrize(
    ("lists", "expected"),
    [
        ({"a": "01"}, {"a": "01"}),
        # dask-cuda: a worker for each GPU, which begins with its own.
        ({"a": "01", "b": "10"}, {"a": "0", "b": "1"}),
        (
            {"a": "0123", "b": "1230", "c": "2301", "d": "3012"},
            {"a": "0", "b": "1", "c": "2", "d": "3"},
        ),
        # Two workers that can use all.
        ({"a": "0123", "b": "0123"}, {"a": "02", "b": "13"}),
        # A node that has no choice comes before one that has.
        ({"a": "01", "b": "0"}, {"a": "1", "b": "0"}),
        # More workers than GPUs; the same GPU twice; GPUs of other hosts.
        ({"a": "0", "b": "0"}, {"a": "0", "b": ""}),
        ({"a": "00"}, {"a": "0"}),
        ({"a": "01", "b": "xy"}, {"a": "01", "b": "xy"}),
    ],
)
def test_each_gpu_belongs_to_one_node(lists, expected):
    made = ledger(**lists)
    assert shares(made, **lists) == expected
    num_gpus = sum(map(len, expected.values()))
    assert made.cluster_total().get("GPU") == num_gpus * UNITS_PER_ONE
    assert made.cluster_available().get("GPU") == num_gpus * UNITS_PER_ONE


def test_a_gpu_moves_when_it_is_not_held_any_more():
    made = ledger(a="01")
    held = [made.acquire(R({"GPU": 1})) for _ in range(2)]
    made.add_node("b", R({"GPU": 2}), "10")
    assert shares(made, a="01", b="10") == {"a": "01", "b": ""}
    assert not made.feasible(R({"GPU": 1}), only=["b"])
    before = made.membership
    made.release(held[1])
    assert made.membership > before  # calls that could not run on b are tried again
    assert shares(made, a="01", b="10") == {"a": "0", "b": "1"}
    taken = made.acquire(R({"GPU": 1}))
    assert (taken.node_id, taken.gpus) == ("b", ((0, UNITS_PER_ONE),))
    made.release(taken)
    made.remove_node("b")
    assert shares(made, a="01") == {"a": "01"}
    assert made.acquire(R({"GPU": 1})).gpus == ((1, UNITS_PER_ONE),)


def test_a_gpu_of_a_bundle_moves_when_the_group_and_its_calls_have_ended():
    made = ledger(a="01")
    bundles = made.reserve([R({"GPU": 1}), R({"GPU": 1})], "PACK")
    inside = made.acquire(R({"GPU": 1}), within=[bundles[1]])
    made.add_node("b", R({"GPU": 2}), "10")
    made.release(bundles[1])
    assert shares(made, a="01", b="10") == {"a": "01", "b": ""}
    made.release(inside)
    assert shares(made, a="01", b="10") == {"a": "0", "b": "1"}


def test_gpus_that_a_node_declares_are_its_own():
    made = ledger(a="01")
    made.add_node("b", R({"GPU": 2}))
    assert shares(made, a="01", b="01") == {"a": "01", "b": "01"}


LISTS = st.dictionaries(st.sampled_from("abcd"), st.text("0123", max_size=5), max_size=4)


@given(LISTS)
def test_no_gpu_is_left_over_and_nodes_that_can_use_the_same_ones_share_fairly(lists):
    found = divide(lists)
    assert found.keys() == set("".join(lists.values()))
    assert all(gpu in lists[node] for gpu, node in found.items())
    counts = {node: sum(each == node for each in found.values()) for node in lists}
    for node, other in itertools.combinations(lists, 2):
        if set(lists[node]) == set(lists[other]):
            assert abs(counts[node] - counts[other]) <= 1


@given(
    st.lists(
        st.tuples(st.sampled_from("abc"), st.text("01234", min_size=1, max_size=5)), max_size=6
    )
)
def test_nothing_is_lost_while_nodes_come_and_leave(steps):
    made, lists, held = Ledger(), {}, []
    for node, gpus in steps:
        if node in lists:
            made.remove_node(node)
            del lists[node]
            held = [each for each in held if each.node_id != node]
        else:
            made.add_node(node, R({"GPU": len(gpus)}), gpus)
            lists[node] = gpus
        grant = made.acquire(R({"GPU": 1}))
        held += [grant] if grant is not None else []
        have = [lists[each][index] for each in lists for index in made.gpus_of(each)]
        assert len(have) == len(set(have))
        assert made.cluster_total().get("GPU") == len(have) * UNITS_PER_ONE
    for grant in held:
        made.release(grant)
    have = {lists[each][index]: each for each in lists for index in made.gpus_of(each)}
    assert have == divide(lists)
