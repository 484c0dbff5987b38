"""Which lease ends for whom: shares become equal and stay so, and a lease lasts a moment at least."""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import replace

from _plugin_parts import RecordedDask
from hypothesis import given
from hypothesis import strategies as st

from raycompat._protocol.resource_set import ResourceSet
from raycompat._scheduler.ground import ground_of
from raycompat._scheduler.held_leases import Held
from raycompat._scheduler.leases import QUANTUM_S, TURN_S, Leases
from raycompat._scheduler.leases import choose as leases_to_end

ONE, TWO = (ResourceSet.from_amounts({"CPU": cpus}) for cpus in (1, 2))


def held(*owners: str, since: float = 0.0) -> list[Held]:
    return [
        Held(f"lease-{number}", owner, ONE, "node", since + number / 1e6, "node")
        for number, owner in enumerate(owners)
    ]


def by_owner(leases) -> dict[str, list[Held]]:
    found: dict[str, list[Held]] = {}
    for each in leases:
        found.setdefault(each.owner, []).append(each)
    return found


def choose(leases, owner, request=ONE, *, is_lease, now, num_waiting=1):
    return leases_to_end(
        by_owner(leases), owner, request, num_waiting=num_waiting, is_lease=is_lease, now=now
    )


def test_it_is_the_oldest_of_whoever_has_most():
    chosen = choose(held("a", "b", "b"), "c", ONE, is_lease=False, now=1.0)
    assert [(each.owner, each.key) for each in chosen] == [("b", "lease-1")]


def test_a_call_that_goes_by_the_scheduler_gets_room_from_its_own_callers_leases():
    assert choose(held("a"), "a", ONE, is_lease=False, now=1.0)


def test_a_lease_is_not_taken_from_somebody_who_has_no_more_than_one_more():
    assert not choose(held("a", "b"), "a", ONE, is_lease=True, now=1.0)
    assert not choose(held("a"), "b", ONE, is_lease=True, now=TURN_S / 2)
    assert choose(held("a", "a"), "b", ONE, is_lease=True, now=1.0)


def test_leases_of_one_caller_yield_to_its_calls_that_need_something_else():
    assert choose(held("a", "a"), "a", TWO, is_lease=True, now=1.0)
    assert not choose(held("a"), "a", TWO, is_lease=True, now=1.0)
    assert not choose(held("a", "a"), "a", ONE, is_lease=True, now=1.0)


def test_the_first_lease_of_a_kind_gets_the_place_of_one_of_another_kind():
    """Both kinds have calls without end: neither may wait for ever."""
    memory = ResourceSet.from_amounts({"CPU": 1, "memory": 5})
    assert choose(held("a"), "a", memory, is_lease=True, now=1.0)
    with_memory = [replace(each, request=memory) for each in held("a", "a")]
    assert len(choose(with_memory, "a", ONE, is_lease=True, now=1.0)) == 1
    both = [*held("a"), with_memory[1]]
    assert not choose(both, "a", ONE, is_lease=True, now=1.0)
    assert not choose(both, "a", memory, is_lease=True, now=1.0)
    less = ResourceSet.from_amounts({"CPU": 1, "memory": 2})
    assert not choose(with_memory, "a", less, is_lease=True, now=1.0)
    assert not choose(held("a"), "b", memory, is_lease=True, now=TURN_S / 2)


def test_who_has_none_gets_the_place_of_the_oldest_after_its_turn():
    """Its calls would wait as long as the others have calls."""
    leases = held("a", "b")
    assert not choose(leases, "c", is_lease=True, now=TURN_S * 0.9)
    chosen = choose(leases, "c", is_lease=True, now=TURN_S * 1.1, num_waiting=5)
    assert [each.owner for each in chosen] == ["a"]
    assert not choose(leases, "a", is_lease=True, now=TURN_S * 1.1)


def test_a_lease_lasts_a_moment():
    leases = held("a", "a", since=5.0)
    assert not choose(leases, "b", ONE, is_lease=True, now=5.0 + QUANTUM_S / 2)
    assert choose(leases, "b", ONE, is_lease=True, now=5.0 + 2 * QUANTUM_S)


def test_nobody_gives_what_nobody_has():
    assert not choose([], "a", ONE, is_lease=False, now=1.0)


def test_as_many_end_at_once_as_make_shares_equal():
    leases = held(*["a"] * 10)
    assert len(choose(leases, "b", is_lease=True, now=1.0, num_waiting=100)) == 5
    assert len(choose(leases, "b", is_lease=True, now=1.0, num_waiting=2)) == 2
    assert len(choose(leases, "b", is_lease=False, now=1.0, num_waiting=100)) == 1


@given(
    st.integers(1, 12),
    st.lists(st.sampled_from("abcd"), min_size=1, max_size=12),
    st.integers(1, 5),
)
def test_shares_of_those_who_wait_become_equal_and_stay_so(num_more, first, num_waiting):
    owners = [*first, *first[:1] * num_more]
    leases, now = held(*owners), 1.0
    wanting = "abcd"  # each of them always wants one more
    for number in range(10 * len(leases)):
        now += 1.0
        counts = Counter(each.owner for each in leases)
        poorest = min(wanting, key=lambda owner: counts[owner])
        chosen = choose(leases, poorest, is_lease=True, now=now, num_waiting=num_waiting)
        if not chosen:
            break
        for each in chosen:
            leases.remove(each)
            leases.append(Held(f"new-{number}-{each.key}", poorest, ONE, "node", now, "node"))
    counts = Counter(each.owner for each in leases)
    assert max(counts.values()) - min(counts[owner] for owner in wanting) <= 1
    assert len(leases) == len(owners)


def test_requests_are_looked_at_again_when_a_reservation_ends():
    """Nothing else may happen until then: the place would stay free although others wait."""

    async def reserve() -> None:
        looked = asyncio.Event()
        ground = ground_of(RecordedDask([]))
        ground.next_round.serve = looked.set
        ground.ledger.add_node("node", TWO)
        leases = Leases(ground)
        leases._revoke = lambda each: None
        shape = ("a", TWO, "DEFAULT")
        loop = asyncio.get_running_loop()
        assert leases._reserve(shape, {"node": held("b")}, loop.time())
        assert leases.reserved(("b", ONE, "DEFAULT")) == "node"
        await asyncio.wait_for(looked.wait(), 20)
        assert leases.reserved(("b", ONE, "DEFAULT")) is None

    asyncio.run(reserve())
