"""Placement: no resource is held twice, and nothing is lost, whatever is acquired and given back."""

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
from raycompat._scheduler.placement import Ledger

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
    """A model that only counts: who holds what, and how often each lends its CPU."""

    grants = Bundle("grants")

    def __init__(self) -> None:
        super().__init__()
        self.ledger = Ledger()
        self.totals: dict[str, ResourceSet] = {}
        self.held: dict[object, int] = {}

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
        return smaller

    @invariant()
    def free_and_held_are_what_there_is(self):
        for node_id, total in self.totals.items():
            held = [(g, lent) for g, lent in self.held.items() if g.node_id == node_id]
            free = self.ledger._nodes[node_id].free
            for name in total:
                taken = sum(
                    grant.resources.get(name) for grant, lent in held if name != "CPU" or not lent
                )
                assert free[name] + taken == total.get(name)
                assert name == "CPU" or free[name] >= 0
                assert self.ledger.node_available(node_id).get(name) == max(free[name], 0)

    @invariant()
    def no_gpu_is_held_beyond_what_it_is(self):
        for node_id, total in self.totals.items():
            slots = [0] * (total.get("GPU") // UNITS_PER_ONE)
            for grant in self.held:
                if grant.node_id == node_id:
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
