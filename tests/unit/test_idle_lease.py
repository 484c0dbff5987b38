"""Which idle lease gets a call: the one with the last answer if the calls are short."""

from __future__ import annotations

from types import SimpleNamespace

from raycompat._caller.lease import best_idle

SHORT_S, LONG_S = 0.0001, 0.1


def idle(*leases: tuple[str, int, float]):
    """Return leases in the order of their last answers: name, units of CPU, seconds of the last call."""
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


def test_no_lease_is_large_enough():
    assert key_of(idle(("a", 1, SHORT_S)), SHORT_S, 2) is None
    assert key_of({}, SHORT_S) is None
