"""Placement: no resource is held twice, and nothing is lost, whatever is acquired and given back."""

import sys

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    consumes,
    initialize,
    invariant,
    multiple,
    rule,
)

from raycompat._protocol.resource_set import UNITS_PER_ONE, ResourceSet
from raycompat._scheduler.capacity import Capacity
from raycompat._scheduler.ledger import Ledger

R = ResourceSet.from_amounts


def ledger(**nodes: dict[str, float]) -> Ledger:
    made = Ledger()
    for node_id, amounts in nodes.items():
        made.add_node(node_id, R(amounts))
    return made


def where(made: Ledger, amounts: dict[str, float], times: int, **how: object) -> list[str | None]:
    """Acquire several times, and say on which nodes."""
    grants = [made.acquire(R(amounts), **how) for _ in range(times)]
    return [grant and grant.node_id for grant in grants]


# --- amounts ------------------------------------------------------------------------------------


def test_ten_tenths_fit_into_one():
    made = ledger(a={"CPU": 1})
    assert where(made, {"CPU": 0.1}, 11) == ["a"] * 10 + [None]
    assert made.cluster_available().is_empty


def test_a_request_is_fulfilled_by_one_node_or_not_at_all():
    made = ledger(a={"CPU": 2}, b={"CPU": 2})
    assert made.acquire(R({"CPU": 3})) is None
    assert made.acquire(R({"CPU": 1, "disk": 1})) is None
    assert made.cluster_available() == made.cluster_total() == R({"CPU": 4})


def test_an_empty_request_fits_on_a_full_node():
    made = ledger(a={"CPU": 1})
    made.acquire(R({"CPU": 1}))
    assert where(made, {}, 2) == ["a", "a"]


def test_without_nodes_nothing_fits():
    made = Ledger()
    assert made.acquire(R({})) is None
    assert not made.feasible(R({}))
    assert made.largest_node(R({"CPU": 1})).is_empty
    assert made.cluster_total().is_empty


def test_feasible_looks_at_what_nodes_have_not_at_what_is_free():
    made = ledger(a={"CPU": 2, "GPU": 1}, b={"CPU": 8})
    made.acquire(R({"CPU": 8}))
    assert made.feasible(R({"CPU": 8}))
    assert not made.feasible(R({"CPU": 9}))
    assert not made.feasible(R({"CPU": 4, "GPU": 1}))


@pytest.mark.parametrize(
    ("request_", "largest"),
    [
        ({"CPU": 9}, {"CPU": 8}),
        ({"GPU": 2}, {"CPU": 2, "GPU": 1}),
        ({"CPU": 3, "GPU": 1}, {"CPU": 2, "GPU": 1}),
        ({"disk": 1}, {"CPU": 8}),
    ],
)
def test_the_largest_node_is_the_one_that_comes_nearest(request_, largest):
    made = ledger(a={"CPU": 2, "GPU": 1}, b={"CPU": 8})
    assert made.largest_node(R(request_)) == R(largest)


# --- the choice of a node -----------------------------------------------------------------------


def test_nodes_are_filled_in_order_up_to_half_and_then_evenly():
    made = ledger(a={"CPU": 4}, b={"CPU": 4})
    assert where(made, {"CPU": 1}, 9) == [*"aabbabab", None]


def test_the_fullest_critical_resource_counts():
    made = ledger(a={"CPU": 4, "memory": 100}, b={"CPU": 4})
    made.acquire(R({"memory": 60}))
    assert where(made, {"CPU": 1}, 1) == ["b"]


def test_a_node_that_has_the_data_comes_first_while_it_fits():
    made = ledger(a={"CPU": 1}, b={"CPU": 1}, c={"CPU": 1})
    assert where(made, {"CPU": 1}, 3, prefer=["gone", "c", "b"]) == ["c", "b", "a"]


def test_nodes_with_gpus_are_kept_for_those_who_ask_for_them():
    made = ledger(a={"CPU": 4, "GPU": 1}, b={"CPU": 4})
    assert where(made, {"CPU": 1}, 5) == ["b", "b", "b", "b", "a"]
    assert where(made, {"CPU": 1, "GPU": 1}, 1) == ["a"]


def test_spread_takes_the_nodes_in_turn_and_skips_the_full():
    made = ledger(a={"CPU": 3}, b={"CPU": 1}, c={"CPU": 3})
    assert where(made, {"CPU": 1}, 6, strategy="SPREAD") == [*"abcaca"]


@pytest.mark.parametrize("strategy", ["DEFAULT", "SPREAD"])
def test_only_the_allowed_nodes_are_taken(strategy):
    made = ledger(a={"CPU": 4}, b={"CPU": 1})
    found = where(made, {"CPU": 1}, 2, strategy=strategy, only={"b"}, prefer=["a"])
    assert found == ["b", None]


def test_an_unknown_strategy_is_refused():
    with pytest.raises(ValueError, match="'PACK': expected 'DEFAULT' or 'SPREAD'"):
        ledger(a={"CPU": 1}).acquire(R({}), strategy="PACK")


# --- GPUs ---------------------------------------------------------------------------------------


def gpu_ids(made: Ledger, *amounts: float) -> list[list[int] | None]:
    grants = [made.acquire(R({"GPU": amount})) for amount in amounts]
    return [grant and [index for index, _ in grant.gpus] for grant in grants]


def test_whole_gpus_are_the_lowest_that_are_free():
    made = ledger(a={"GPU": 4})
    first = made.acquire(R({"GPU": 1}))
    assert gpu_ids(made, 2) == [[1, 2]]
    made.release(first)
    assert gpu_ids(made, 2) == [[0, 3]]


def test_parts_are_packed_on_one_gpu():
    assert gpu_ids(ledger(a={"GPU": 2}), 0.5, 0.5, 0.5, 1, 0.5) == [[0], [0], [1], None, [1]]


def test_a_part_goes_where_a_gpu_is_in_use_already():
    made = ledger(a={"GPU": 2})
    assert gpu_ids(made, 1) == [[0]]
    assert gpu_ids(made, 0.3) == [[1]]
    made = ledger(a={"GPU": 2})
    kept = [made.acquire(R({"GPU": 0.6})) for _ in range(2)]
    made.release(kept[0])
    assert gpu_ids(made, 0.4, 1) == [[1], [0]]


def test_parts_do_not_fit_across_gpus():
    made = ledger(a={"GPU": 2})
    assert gpu_ids(made, 0.6, 0.6, 0.6) == [[0], [1], None]
    assert made.cluster_available() == R({"GPU": 0.8})


def test_a_node_with_a_part_of_a_gpu():
    made = Ledger()
    made.add_node("a", ResourceSet.from_amounts({"GPU": 1.5}, whole_gpus=False))
    assert gpu_ids(made, 0.5, 0.5, 0.5) == [[1], [0], [0]]


# --- giving back --------------------------------------------------------------------------------


def test_a_released_grant_is_free_once():
    made = ledger(a={"CPU": 2, "GPU": 1})
    grant = made.acquire(R({"CPU": 1, "GPU": 1}))
    made.release(grant)
    made.release(grant)
    assert made.cluster_available() == made.cluster_total()


def test_a_grant_of_a_node_that_went_and_came_back_gives_it_nothing():
    made = ledger(a={"CPU": 2})
    grant = made.acquire(R({"CPU": 1}))
    made.lend_cpu(grant)
    made.remove_node("a")
    made.remove_node("a")
    made.add_node("a", R({"CPU": 2}))
    made.acquire(R({"CPU": 2}))
    made.take_back_cpu(grant)
    made.release(grant)
    assert made.shrink(grant, R({})).resources.is_empty
    assert made.node_available("a").is_empty
    assert made.nodes == ("a",)


def test_a_lent_cpu_is_free_but_not_the_gpu():
    made = ledger(a={"CPU": 1, "GPU": 1})
    waiting = made.acquire(R({"CPU": 1, "GPU": 1}))
    made.lend_cpu(waiting)
    assert made.node_available("a") == R({"CPU": 1})
    helper = made.acquire(R({"CPU": 1}))
    made.take_back_cpu(waiting)  # goes on although the helper has its CPU
    assert made.node_available("a").is_empty
    made.release(helper)
    assert made.acquire(R({"CPU": 0.1})) is None
    made.release(waiting)
    assert made.cluster_available() == made.cluster_total()


def test_a_call_that_waits_in_two_threads_lends_its_cpu_once():
    made = ledger(a={"CPU": 1})
    grant = made.acquire(R({"CPU": 1}))
    made.lend_cpu(grant)
    made.lend_cpu(grant)
    assert made.cluster_available() == R({"CPU": 1})
    made.take_back_cpu(grant)
    assert made.cluster_available() == R({"CPU": 1})
    made.take_back_cpu(grant)
    made.take_back_cpu(grant)
    assert made.cluster_available().is_empty


def test_what_is_lent_is_not_given_back_twice():
    made = ledger(a={"CPU": 1})
    grant = made.acquire(R({"CPU": 1}))
    made.lend_cpu(grant)
    made.release(grant)
    made.take_back_cpu(grant)
    assert where(made, {"CPU": 1}, 2) == ["a", None]


def test_an_actor_needs_a_cpu_to_be_placed_and_none_to_run():
    made = ledger(a={"CPU": 1, "GPU": 2})
    placed = made.acquire(R({"CPU": 1, "GPU": 2}))
    running = made.shrink(placed, R({"GPU": 1}))
    assert (running.node_id, running.resources) == ("a", R({"GPU": 1}))
    assert running.gpus == ((0, UNITS_PER_ONE),)
    assert made.cluster_available() == R({"CPU": 1, "GPU": 1})
    assert gpu_ids(made, 1) == [[1]]
    made.release(placed)  # replaced: gives back nothing
    assert made.cluster_available() == R({"CPU": 1})


def test_a_grant_that_lends_its_cpu_shrinks_to_one_that_lends_less():
    made = ledger(a={"CPU": 4})
    lender = made.acquire(R({"CPU": 4}))
    made.lend_cpu(lender)
    smaller = made.shrink(lender, R({"CPU": 1}))
    assert made.cluster_available() == R({"CPU": 4})
    made.take_back_cpu(smaller)
    assert made.cluster_available() == R({"CPU": 3})


@pytest.mark.parametrize("more", [{"CPU": 2}, {"CPU": 1, "GPU": 1}])
def test_a_grant_cannot_shrink_to_more(more):
    made = ledger(a={"CPU": 4, "GPU": 1})
    with pytest.raises(ValueError, match="cannot shrink"):
        made.shrink(made.acquire(R({"CPU": 1})), R(more))
    assert made.cluster_available() == R({"CPU": 3, "GPU": 1})


# --- bundles ------------------------------------------------------------------------------------

STRATEGIES = ("PACK", "SPREAD", "STRICT_PACK", "STRICT_SPREAD")


def layout(made: Ledger, strategy: str, *bundles: dict[str, float], **how: object) -> str | None:
    """Reserve bundles, and say on which nodes."""
    grants = made.reserve([R(each) for each in bundles], strategy, **how)
    return "".join(each.node_id for each in grants) if grants is not None else None


CPU = {"CPU": 1}


@pytest.mark.parametrize(
    ("strategy", "bundles", "nodes"),
    [
        ("PACK", [CPU] * 3, "aaa"),
        ("PACK", [CPU] * 5, "aaaab"),
        ("PACK", [CPU] * 9, None),
        ("PACK", [CPU, {"CPU": 1, "disk": 1}], "bb"),
        ("PACK", [{"CPU": 4}, {"CPU": 1, "disk": 1}], "ab"),
        ("SPREAD", [CPU] * 2, "ab"),
        ("SPREAD", [CPU] * 4, "abab"),
        ("SPREAD", [CPU, {"CPU": 1, "disk": 1}], "ab"),
        ("SPREAD", [{"CPU": 4}, CPU, CPU], "abb"),
        ("STRICT_PACK", [CPU] * 4, "aaaa"),
        ("STRICT_PACK", [CPU] * 5, None),
        ("STRICT_PACK", [CPU, {"disk": 1}], "bb"),
        ("STRICT_SPREAD", [CPU] * 2, "ab"),
        ("STRICT_SPREAD", [CPU] * 3, None),
        ("STRICT_SPREAD", [CPU, {"disk": 1}], "ab"),
        ("STRICT_SPREAD", [{"disk": 1}, {"disk": 1}], None),
    ],
)
def test_bundles_are_laid_out_by_their_strategy(strategy, bundles, nodes):
    made = ledger(a={"CPU": 4}, b={"CPU": 4, "disk": 2})
    assert layout(made, strategy, *bundles) == nodes
    if nodes is None:
        assert made.cluster_available() == made.cluster_total()


def test_a_bundle_moves_over_for_one_that_can_be_nowhere_else():
    nodes = {"a": {"CPU": 8, "x": 1}, "b": {"CPU": 8, "x": 1, "y": 1}, "c": {"CPU": 8, "z": 1}}
    bundles = [{"CPU": 8}, {"CPU": 1, "x": 1}, {"CPU": 1, "y": 1}]
    for strategy in ("SPREAD", "STRICT_SPREAD"):
        assert layout(ledger(**nodes), strategy, *bundles) == "cab"


def test_groups_take_nodes_with_gpus_last():
    nodes = {"a": {"CPU": 4, "GPU": 2}, "b": {"CPU": 4}}
    for strategy in STRATEGIES:
        assert layout(ledger(**nodes), strategy, CPU) == "b"
        assert layout(ledger(**nodes), strategy, {"CPU": 1, "GPU": 1}) == "a"


def test_bundles_that_come_later_keep_to_the_strategy():
    def later(strategy: str) -> str | None:
        nodes = {"a": {"CPU": 4}, "b": {"CPU": 4}, "c": {"CPU": 4}}
        return layout(ledger(**nodes), strategy, CPU, CPU, beside=["a"])

    assert later("PACK") == "aa"
    assert later("SPREAD") == "bc"
    assert later("STRICT_SPREAD") == "bc"
    made = ledger(a={"CPU": 4}, b={"CPU": 4})
    assert layout(made, "STRICT_SPREAD", CPU, CPU, beside=["a"]) is None
    assert layout(made, "SPREAD", CPU, CPU, beside=["a"]) == "ba"


def test_only_allowed_nodes_have_bundles():
    made = ledger(a={"CPU": 4}, b={"CPU": 1})
    assert layout(made, "PACK", CPU, CPU, only={"b"}) is None
    assert layout(made, "PACK", CPU, only={"b"}) == "b"


@pytest.mark.parametrize(
    ("strategy", "allowed", "nodes"),
    [
        ("PACK", [None, "b", None], "bbb"),
        ("PACK", ["c", "b", None], "cbb"),
        ("PACK", ["", None, None], None),
        ("SPREAD", ["b", "b", None], "bba"),
        ("SPREAD", [None, "b", "ab"], "cba"),
        ("STRICT_PACK", ["bc", None, "c"], "ccc"),
        ("STRICT_PACK", ["a", "b", None], None),
        ("STRICT_SPREAD", ["abc", "ab", "a"], "cba"),
        ("STRICT_SPREAD", ["b", "b", None], None),
    ],
)
def test_each_bundle_is_on_a_node_that_may_take_it(strategy, allowed, nodes):
    made = ledger(a={"CPU": 4}, b={"CPU": 4}, c={"CPU": 4})
    sets = [None if each is None else frozenset(each) for each in allowed]
    assert layout(made, strategy, CPU, CPU, CPU, allowed=sets) == nodes


def test_calls_in_a_group_have_what_it_has_and_no_more():
    made = ledger(a={"CPU": 4})
    one, two = made.reserve([R({"CPU": 1}), R({"CPU": 2})], "PACK")
    assert made.cluster_available() == R({"CPU": 1})
    assert where(made, {"CPU": 1}, 3) == ["a", None, None]
    assert where(made, {"CPU": 2}, 2, within=[one, two]) == ["a", None]
    assert where(made, {"CPU": 1}, 2, within=[one, two]) == ["a", None]
    assert where(made, {}, 1, within=[one]) == ["a"]
    assert where(made, {"disk": 1}, 1, within=[one]) == [None]
    assert where(made, {"CPU": 1}, 1, within=[]) == [None]


def test_what_a_call_of_a_group_lends_stays_in_the_group():
    made = ledger(a={"CPU": 1})
    (bundle,) = made.reserve([R({"CPU": 1})], "PACK")
    waiting = made.acquire(R({"CPU": 1}), within=[bundle])
    made.lend_cpu(waiting)
    assert where(made, {"CPU": 1}, 1) == [None]
    assert where(made, {"CPU": 1}, 2, within=[bundle]) == ["a", None]


def test_what_ends_in_a_bundle_makes_room_in_that_alone():
    made = ledger(a={"CPU": 4})
    one, two = made.reserve([R({"CPU": 2}), R({"CPU": 2})], "PACK")
    held = made.acquire(R({"CPU": 1}), within=[two])
    assert made.place_of(held) is two
    assert made.place_of(one) == "a"
    assert not made.fits_without(two, R({"CPU": 2}), [])
    assert made.fits_without(two, R({"CPU": 2}), [R({"CPU": 1})])
    assert not made.fits_without("a", R({"CPU": 2}), [R({"CPU": 1})])
    assert made.lacking(two, R({"CPU": 2})) == {"CPU"}
    assert made.lacking(two, R({"CPU": 1})) == set()
    assert made.lacking(two, R({"CPU": 3})) is None
    assert made.lacking(two, R({"CPU": 1, "x": 1})) is None
    made.release(two)
    assert not made.fits_without(two, R({"CPU": 1}), [])
    assert made.lacking(two, R({"CPU": 1})) is None


def test_a_place_lacks_what_is_not_free():
    made = ledger(a={"CPU": 4, "memory": 10, "GPU": 2})
    made.acquire(R({"CPU": 3, "memory": 8, "GPU": 1}))
    assert made.lacking("a", R({"CPU": 2, "memory": 3})) == {"CPU", "memory"}
    assert made.lacking("a", R({"CPU": 1, "memory": 3})) == {"memory"}
    assert made.lacking("a", R({"GPU": 2})) == {"GPU"}
    assert made.lacking("b", R({"CPU": 1})) is None


def test_a_gpu_of_a_bundle_keeps_its_id():
    made = ledger(a={"CPU": 4, "GPU": 4})
    first = made.acquire(R({"GPU": 1}))
    bundles = made.reserve([R({"GPU": 1}), R({"GPU": 2})], "PACK")
    assert sorted(index for each in bundles for index, _ in each.gpus) == [1, 2, 3]
    made.release(first)
    for bundle in bundles:
        ids = {index for index, _ in bundle.gpus}
        inside = made.acquire(R({"GPU": 1}), within=[bundle])
        assert {index for index, _ in inside.gpus} <= ids
    assert gpu_ids(made, 1) == [[0]]


def test_parts_of_a_gpu_in_a_bundle():
    made = ledger(a={"GPU": 1})
    half, other = made.reserve([R({"GPU": 0.5}), R({"GPU": 0.5})], "STRICT_PACK")
    assert where(made, {"GPU": 0.3}, 2, within=[half]) == ["a", None]
    assert where(made, {"GPU": 0.5}, 1, within=[other]) == ["a"]


def test_parts_of_gpus_are_laid_out_where_they_fit():
    made = ledger(a={"GPU": 2})
    bundles = [{"GPU": part} for part in (0.4, 0.4, 0.6, 0.6)]
    assert layout(made, "STRICT_PACK", *bundles) == "aaaa"
    assert made.cluster_available().is_empty


def test_what_a_removed_bundle_had_free_is_free_and_the_rest_when_it_ends():
    made = ledger(a={"CPU": 4, "GPU": 2})
    (bundle,) = made.reserve([R({"CPU": 3, "GPU": 1})], "PACK")
    running = made.acquire(R({"CPU": 1, "GPU": 1}), within=[bundle])
    lender = made.acquire(R({"CPU": 1}), within=[bundle])
    made.lend_cpu(lender)
    made.release(bundle)
    made.release(bundle)
    assert made.cluster_available() == R({"CPU": 3, "GPU": 1})
    assert gpu_ids(made, 1, 1) == [[1], None]
    made.take_back_cpu(lender)
    assert made.cluster_available() == R({"CPU": 2})
    made.release(running)
    made.release(lender)
    assert made.cluster_available() == R({"CPU": 4, "GPU": 1})
    assert where(made, {"CPU": 1}, 1, within=[bundle]) == [None]


def test_bundles_go_with_their_node():
    made = ledger(a={"CPU": 1}, b={"CPU": 1})
    bundles = made.reserve([R(CPU), R(CPU)], "SPREAD")
    inside = [made.acquire(R(CPU), within=[each]) for each in bundles]
    made.remove_node("a")
    made.add_node("a", R(CPU))
    assert made.acquire(R({}), within=bundles[:1]) is None
    for grant in (*inside, *bundles):
        made.release(grant)
    assert made.cluster_available() == made.cluster_total() == R({"CPU": 2})


def test_where_a_group_could_be_once_some_calls_have_ended():
    made = ledger(a={"CPU": 2}, b={"CPU": 2})
    calls = [made.acquire(R({"CPU": 2})) for _ in "ab"]
    two = [R({"CPU": 2})]
    assert made.reserve(two, "PACK") is None
    assert made.where_it_could_be(two, "PACK", ended=[]) is None
    assert made.where_it_could_be(two, "PACK", ended=calls[1:]) == ["b"]
    assert made.where_it_could_be(two, "PACK") == ["a"]
    assert made.where_it_could_be(two * 2, "STRICT_SPREAD") == ["a", "b"]
    assert made.where_it_could_be(two * 3, "PACK") is None
    assert made.where_it_could_be(two, "PACK", only={"b"}) == ["b"]
    made.lend_cpu(calls[0])
    assert made.where_it_could_be([R({"CPU": 3})], "PACK", ended=calls) is None
    assert made.cluster_available() == R({"CPU": 2})


def test_what_ends_inside_of_a_bundle_makes_no_room_for_others():
    made = ledger(a={"CPU": 2})
    (bundle,) = made.reserve([R({"CPU": 2})], "PACK")
    inside = made.acquire(R({"CPU": 2}), within=[bundle])
    assert made.where_it_could_be([R(CPU)], "PACK", ended=[inside]) is None


def many(num_nodes, num_cpus):
    return ledger(**{f"n{number}": {"CPU": num_cpus} for number in range(num_nodes)})


def test_a_group_can_have_more_bundles_than_the_stack_has_frames():
    num_nodes = sys.getrecursionlimit() + 50
    bundles = [R(CPU)] * (num_nodes + 1)
    assert many(num_nodes, 2).reserve(bundles, "STRICT_SPREAD") is None
    spread = many(num_nodes, 2).reserve(bundles, "SPREAD")
    assert len({bundle.node_id for bundle in spread}) == num_nodes


def test_the_last_bundle_can_move_all_others():
    """Each bundle but the last first takes the node that leaves none for the last."""
    num_nodes = 60
    made = Ledger()
    for number in range(num_nodes):
        made.add_node(f"n{number}", R({f"r{number}": 1, f"r{number + 1}": 1}))
    bundles = [R({f"r{number}": 1}) for number in (*range(1, num_nodes), 0)]
    placed = made.reserve(bundles, "STRICT_SPREAD")
    assert [bundle.node_id for bundle in placed] == [
        *(f"n{number}" for number in range(1, num_nodes)),
        "n0",
    ]


class Unread(dict):
    """A table that nothing may look through."""

    def items(self):
        raise AssertionError("looked through")

    __iter__ = keys = values = items


def test_the_end_of_a_bundle_does_not_look_at_the_holdings_of_others():
    made = ledger(a={"CPU": 4})
    bundles = made.reserve([R(CPU)] * 3, "PACK")
    inside = [made.acquire(R(CPU), within=[bundle]) for bundle in bundles]
    made._held = Unread(made._held)
    for bundle in bundles:
        made.release(bundle)
    assert made.cluster_available() == R(CPU)
    for grant in inside:
        made.release(grant)
    assert made.cluster_available() == made.cluster_total()


def test_nodes_that_are_equally_free_are_tried_once(monkeypatch):
    made, copies, copy = many(30, 1), [], Capacity.copy
    monkeypatch.setattr(Capacity, "copy", lambda node: copies.append(node) or copy(node))
    assert len(made.reserve([R(CPU)] * 30, "PACK")) == 30
    assert len(copies) == 30  # one for each node that is used


# --- all of it in any order ---------------------------------------------------------------------

tenths = st.integers(0, 40).map(lambda n: n / 10)
gpus = st.one_of(st.sampled_from([0, 1, 2]), st.integers(1, 9).map(lambda n: n / 10))
requests = st.builds(
    lambda cpu, gpu, disk: R({"CPU": cpu, "GPU": gpu, "disk": disk}), tenths, gpus, tenths
)
totals = st.builds(
    lambda cpu, gpu, disk: R({"CPU": cpu, "GPU": gpu, "disk": disk}),
    st.integers(0, 8),
    st.integers(0, 3),
    st.integers(0, 8),
)
node_ids = st.sampled_from("abc")


class LedgerMachine(RuleBasedStateMachine):
    """A model that only counts: who holds what, in which bundle, and how often each lends its CPU."""

    grants = Bundle("grants")
    reserved = Bundle("reserved")

    def __init__(self) -> None:
        super().__init__()
        self.ledger = Ledger()
        self.totals: dict[str, ResourceSet] = {}
        self.held: dict[object, int] = {}
        #: The bundle of each grant that is in one.
        self.inside: dict[object, object] = {}
        self.reservations: set[object] = set()

    @initialize(total=totals)
    def start(self, total):
        self.add_node("a", total)

    @rule(node_id=node_ids, total=totals)
    def add_node(self, node_id, total):
        self.remove_node(node_id)
        self.ledger.add_node(node_id, total)
        self.totals[node_id] = total

    @rule(node_id=node_ids)
    def remove_node(self, node_id):
        self.ledger.remove_node(node_id)
        self.totals.pop(node_id, None)
        for grant in [grant for grant in self.held if grant.node_id == node_id]:
            del self.held[grant]
            self.reservations.discard(grant)

    @rule(
        target=grants,
        request=requests,
        strategy=st.sampled_from(["DEFAULT", "SPREAD"]),
        prefer=st.lists(node_ids),
        only=st.none() | st.sets(node_ids),
    )
    def acquire(self, request, strategy, prefer, only):
        free = {node_id: self.ledger.node_available(node_id) for node_id in self.ledger.nodes}
        grant = self.ledger.acquire(request, strategy=strategy, prefer=prefer, only=only)
        if grant is None:
            allowed = [node_id for node_id in free if only is None or node_id in only]
            if not request.get("GPU"):  # of GPUs enough may be free, but on several ids
                assert not any(request.fits_in(free[node_id]) for node_id in allowed)
            return multiple()
        assert self.ledger.feasible(request)
        assert request.fits_in(free[grant.node_id])
        assert only is None or grant.node_id in only
        assert grant.resources == request
        assert sum(units for _, units in grant.gpus) == request.get("GPU")
        assert request.get("GPU") >= UNITS_PER_ONE or len(grant.gpus) <= 1
        self.held[grant] = 0
        return grant

    @rule(
        target=reserved,
        bundles=st.lists(requests, min_size=1, max_size=4),
        strategy=st.sampled_from(STRATEGIES),
        only=st.none() | st.sets(node_ids),
        beside=st.sets(node_ids),
        restrictions=st.lists(st.none() | st.frozensets(node_ids), min_size=4, max_size=4),
    )
    def reserve(self, bundles, strategy, only, beside, restrictions):
        allowed = restrictions[: len(bundles)]
        how = {"only": only, "beside": beside, "allowed": allowed}
        before = {node: self.ledger.node_available(node) for node in self.ledger.nodes}
        could = self.ledger.where_it_could_be(bundles, strategy, ended=[], **how)
        may_take = self.ledger.room(only).may_take(bundles)
        grants = self.ledger.reserve(bundles, strategy, **how)
        assert (grants is None) == (could is None)
        if grants is None:
            assert before == {n: self.ledger.node_available(n) for n in self.ledger.nodes}
            return multiple()
        nodes = [grant.node_id for grant in grants]
        assert may_take
        assert nodes == could
        assert [grant.resources for grant in grants] == bundles
        assert only is None or set(nodes) <= only
        assert all(each is None or node in each for node, each in zip(nodes, allowed, strict=True))
        assert strategy != "STRICT_PACK" or len(set(nodes)) == 1
        assert strategy != "STRICT_SPREAD" or len(set(nodes) - beside) == len(nodes)
        self.held.update(dict.fromkeys(grants, 0))
        self.reservations.update(grants)
        return multiple(*grants)

    @rule(target=grants, request=requests, within=st.lists(reserved, max_size=3))
    def acquire_within(self, request, within):
        grant = self.ledger.acquire(request, within=within)
        if grant is None:
            return multiple()
        assert any(each in self.reservations for each in within)
        bundle = next(
            each for each, node in self.ledger._bundles.items() if node is self.ledger._held[grant]
        )
        assert bundle in within
        assert grant.node_id == bundle.node_id
        assert {index for index, _ in grant.gpus} <= {index for index, _ in bundle.gpus}
        self.held[grant] = 0
        self.inside[grant] = bundle
        return grant

    @rule(bundle=reserved)
    def dissolve(self, bundle):
        """Release a bundle: the holdings inside it stay, and now count for the node."""
        self.ledger.release(bundle)
        self.held.pop(bundle, None)
        self.reservations.discard(bundle)
        self.inside = {g: b for g, b in self.inside.items() if b is not bundle}

    @rule(grant=consumes(grants))
    def release(self, grant):
        self.ledger.release(grant)
        self.held.pop(grant, None)

    @rule(grant=grants)
    def release_and_keep(self, grant):
        self.release(grant)

    @rule(grant=grants)
    def lend_cpu(self, grant):
        self.ledger.lend_cpu(grant)
        if grant in self.held:
            self.held[grant] += 1

    @rule(grant=grants)
    def take_back_cpu(self, grant):
        self.ledger.take_back_cpu(grant)
        if self.held.get(grant):
            self.held[grant] -= 1

    @rule(
        target=grants, grant=consumes(grants), keep=st.sets(st.sampled_from(["CPU", "GPU", "disk"]))
    )
    def shrink(self, grant, keep):
        smaller = self.ledger.shrink(
            grant, ResourceSet({n: units for n, units in grant.resources.items() if n in keep})
        )
        if grant in self.held:
            self.held[smaller] = self.held.pop(grant)
        if grant in self.inside:
            self.inside[smaller] = self.inside.pop(grant)
        return smaller

    @invariant()
    def free_and_held_are_what_there_is(self):
        for node_id, total in self.totals.items():
            held = [g for g in self.held if g.node_id == node_id and g not in self.inside]
            self.check(self.ledger._nodes[node_id].free, total, held)
            for name in total:
                free = self.ledger._nodes[node_id].free[name]
                assert self.ledger.node_available(node_id).get(name) == max(free, 0)

    @invariant()
    def so_it_is_in_each_bundle(self):
        for bundle in self.reservations:
            held = [g for g in self.held if self.inside.get(g) is bundle]
            self.check(self.ledger._bundles[bundle].free, bundle.resources, held)

    @invariant()
    def each_place_knows_its_holdings(self):
        for holding, place in self.ledger._held.items():
            assert (holding in place.holdings) is (holding not in self.ledger._bundles)
        places = [*self.ledger._nodes.values(), *self.ledger._bundles.values()]
        for place in places:
            assert all(self.ledger._held[holding] is place for holding in place.holdings)

    def check(self, free, total, held):
        for name in total:
            taken = sum(g.resources.get(name) for g in held if name != "CPU" or not self.held[g])
            assert free[name] + taken == total.get(name)
            assert name == "CPU" or free[name] >= 0

    @invariant()
    def no_gpu_is_held_beyond_what_it_is(self):
        for node_id, total in self.totals.items():
            on_node = [grant for grant in self.held if grant.node_id == node_id]
            users = [grant for grant in on_node if grant not in self.reservations]
            holders = [grant for grant in on_node if grant not in self.inside]
            for grants in (users, holders):  # those in groups, or the groups
                slots = [0] * (total.get("GPU") // UNITS_PER_ONE)
                for grant in grants:
                    assert len({index for index, _ in grant.gpus}) == len(grant.gpus)
                    for index, units in grant.gpus:
                        slots[index] += units
                assert all(units <= UNITS_PER_ONE for units in slots)

    def teardown(self):
        for grant in list(self.held):
            self.ledger.release(grant)
        assert self.ledger.cluster_available() == self.ledger.cluster_total()
        assert set(self.ledger.nodes) == set(self.totals)


LedgerMachine.TestCase.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
TestLedger = LedgerMachine.TestCase
