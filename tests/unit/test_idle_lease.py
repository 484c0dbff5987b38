"""Which idle lease gets a call: the one with the last answer if the calls are short."""

from __future__ import annotations

from types import SimpleNamespace

from raycompat._caller.by_lease import LeasePool
from raycompat._caller.lease import best_idle

SHORT_S, LONG_S = 0.0001, 0.1


def idle(*leases: tuple[str, int, float]):
    """Return leases in the order in which they became idle: name, units of CPU, seconds of the last call."""
    return {key: SimpleNamespace(key=key, units=u, took_s=s) for key, u, s in leases}


def key_of(leases, cost_s: float, units: int = 1) -> str | None:
    lease = best_idle(leases, cost_s, units)
    return None if lease is None else lease.key


def test_short_calls_stay_with_the_executor_that_answered_last():
    assert key_of(idle(("a", 1, SHORT_S), ("b", 1, SHORT_S)), SHORT_S) == "b"


def test_after_a_long_call_an_executor_is_the_last_choice():
    assert key_of(idle(("a", 1, SHORT_S), ("b", 1, LONG_S)), SHORT_S) == "a"


def test_long_calls_take_turns():
    assert key_of(idle(("a", 1, SHORT_S), ("b", 1, SHORT_S)), LONG_S) == "a"


def test_a_small_call_leaves_the_large_lease_to_others():
    assert key_of(idle(("a", 1, SHORT_S), ("b", 4, SHORT_S)), SHORT_S, 1) == "a"


def test_the_smallest_that_is_large_enough():
    leases = idle(("a", 1, SHORT_S), ("b", 8, SHORT_S), ("c", 4, SHORT_S))
    assert key_of(leases, SHORT_S, 3) == "c"
    assert key_of(leases, SHORT_S, 8) == "b"


def test_short_small_calls_stay_with_one_large_lease():
    leases = idle(("a", 2, SHORT_S), ("b", 2, SHORT_S))
    assert key_of(leases, SHORT_S, 1) == "b"
    assert key_of(leases, LONG_S, 1) == "a"


def test_a_call_with_dependencies_gets_a_lease_of_this_host():
    """The lease of another host became idle last; the call could not use it."""
    leases = idle(("a", 1, SHORT_S), ("b", 1, SHORT_S))
    leases["a"].host, leases["b"].host = "here", "there"
    session = SimpleNamespace(setup=SimpleNamespace(host="here"))
    pool = SimpleNamespace(_idle=dict(leases), _session=session)
    call = SimpleNamespace(units=1, dependencies=["an object"])
    assert LeasePool._take_idle(pool, call, SHORT_S).key == "a"
    assert LeasePool._take_idle(pool, call, SHORT_S).key == "b"
    assert LeasePool._take_idle(pool, call, SHORT_S) is None


def test_no_lease_is_large_enough():
    assert key_of(idle(("a", 1, SHORT_S)), SHORT_S, 2) is None
    assert key_of({}, SHORT_S) is None
