"""What is kept between rounds about leases is what a look at all of them would find."""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from raycompat._protocol.resource_set import ResourceSet
from raycompat._scheduler.held_leases import Held, HeldLeases, Helpful
from raycompat._scheduler.ledger import Changes, Ledger

REQUESTS = [
    ResourceSet.from_amounts(each)
    for each in ({"CPU": 1}, {"CPU": 2}, {"CPU": 1, "GPU": 1}, {"GPU": 0.5}, {"x": 1}, {"CPU": 9})
]
NODE = ResourceSet.from_amounts({"CPU": 2, "GPU": 1, "x": 2})

numbers = st.integers(0, 10)


class _Machine(RuleBasedStateMachine):
    """Leases, groups and nodes come and go; the helpful leases are asked for after each step."""

    def __init__(self):
        super().__init__()
        self.ledger = Ledger()
        self.holdings = {}
        self.bundles = []
        self.calls = []
        self.leases = HeldLeases(self.ledger, self.is_lent)
        self.num = 0
        self.ledger.changes._KEPT = 5  # so that old changes are forgotten here too
        for name in ("n0", "n1"):
            self.ledger.add_node(name, NODE)

    def is_lent(self, key):
        return self.ledger.is_lent(self.holdings[key])

    def pick(self, number):
        keys = list(self.holdings)
        return keys[number % len(keys)] if keys else None

    @rule(kind=st.sampled_from(REQUESTS), owner=st.sampled_from("abc"), in_group=st.booleans())
    def lease(self, kind, owner, in_group):
        within = self.bundles if in_group and self.bundles else None
        holding = self.ledger.acquire(kind, within=within)
        if holding is not None:
            self.num += 1
            key = f"lease-{self.num}"
            self.holdings[key] = holding
            place = self.ledger.place_of(holding)
            self.leases.put(Held(key, owner, kind, holding.node_id, float(self.num), place))

    @rule(kind=st.sampled_from(REQUESTS))
    def call(self, kind):
        holding = self.ledger.acquire(kind)
        if holding is not None:
            self.calls.append(holding)

    @rule()
    def end_a_call(self):
        if self.calls:
            self.ledger.release(self.calls.pop())

    @rule(number=numbers)
    def end(self, number):
        if (key := self.pick(number)) is not None:
            self.ledger.release(self.holdings.pop(key))
            self.leases.remove(key)

    @rule(number=numbers)
    def revoke(self, number):
        if (key := self.pick(number)) is not None:
            self.leases.remove(key)

    @rule(number=numbers)
    def lend(self, number):
        if (key := self.pick(number)) is not None:
            self.ledger.lend_cpu(self.holdings[key])

    @rule(number=numbers)
    def take_back(self, number):
        if (key := self.pick(number)) is not None:
            self.ledger.take_back_cpu(self.holdings[key])

    @rule()
    def group(self):
        found = self.ledger.reserve([REQUESTS[0], REQUESTS[1]], "PACK")
        if found is not None:
            self.bundles += found

    @rule()
    def lose_a_node(self):
        self.bundles = [each for each in self.bundles if each.node_id != "n1"]
        self.ledger.remove_node("n1")  # its leases end after it

    @rule()
    def add_a_node(self):
        if "n1" not in self.ledger.nodes:
            self.ledger.add_node("n1", NODE)

    @invariant()
    def most_free_is_right(self):
        for name in ("CPU", "GPU", "x", "y"):
            among = [node.free.get(name, 0) for node in self.ledger._nodes.values()]
            assert self.ledger.most_free(name) == max(among)

    @invariant()
    def what_is_kept_is_right(self):
        for places in (None, frozenset({"n1"}), frozenset(self.bundles)):
            for request in REQUESTS:
                found = self.leases.that_help(request, places)
                fresh = Helpful(request, places)
                for place in self.leases._at:
                    if fresh.is_about(place):
                        lacking = self.ledger.lacking(place, request)
                        fresh.look_at(place, self.leases.at(place), lacking)
                assert _as_sets(found) == _as_sets(fresh)


def _as_sets(helpful):
    return (
        {owner: {each.key for each in leases} for owner, leases in helpful.by_owner.items()},
        {place: {each.key for each in leases} for place, leases in helpful.need_several.items()},
    )


_Machine.TestCase.settings = settings(max_examples=150, stateful_step_count=20, deadline=None)
TestHeldLeases = _Machine.TestCase


def test_a_reader_that_has_missed_too_much_looks_at_everything():
    changes = Changes()
    changes.note("a")
    seen = changes.count
    assert changes.since(seen) == ()
    changes.note("b")
    assert changes.since(seen) == {"b"}
    for _ in range(3 * Changes._KEPT):
        changes.note("c")
    assert changes.since(seen) is None
    assert changes.since(changes.count - 1) == {"c"}
