"""The scheduler plugin with many waiting requests: the work of one round does not grow with them.

Dask's scheduler is replaced by its tables, so nothing runs; the work is counted, not timed.
"""

from __future__ import annotations

from collections import Counter

import pytest
from _plugin_parts import run


@pytest.fixture
def in_loop(monkeypatch):
    """Return a function that runs a test in an event loop, with a cluster."""
    return lambda num_nodes, test: run(monkeypatch, num_nodes, test)


def counted(monkeypatch, owner, name):
    """Count the calls of a method, by their last argument if that is a key."""
    counts, method = Counter(), getattr(owner, name)

    def count(*arguments, **options):
        counts[arguments[-1] if arguments and isinstance(arguments[-1], str) else None] += 1
        return method(*arguments, **options)

    monkeypatch.setattr(owner, name, count)
    return counts


def test_notices_look_at_the_holdings_once_for_all_lines(in_loop, monkeypatch):
    def test(cluster):
        cluster.fill()
        for number in range(50):
            cluster.enqueue(f"waits-{number}", f"waiting-{number}")
            cluster.add_group(f"g{number}", {"CPU": 10_000 * (1 + number % 2)})
        cluster.parts.serve_round()
        looked = counted(monkeypatch, cluster.parts.notices, "_ending")
        explained = counted(monkeypatch, cluster.parts.notices, "why_group")
        cluster.parts.notices._look()
        assert looked == {None: 1}
        assert sum(explained.values()) == 2  # the groups have two different wishes

    in_loop(3, test)


def test_waiting_groups_that_cannot_fit_are_not_arranged(in_loop, monkeypatch):
    def test(cluster):
        cluster.fill()
        for number in range(50):
            cluster.add_group(f"g{number}", *[{"CPU": 10_000 + number}] * 4)
        tried = counted(monkeypatch, cluster.parts.ground.ledger, "reserve")
        cluster.parts.serve_round()
        assert not tried
        first = cluster.parts.groups.all()[0]
        assert (first.state, first.num_attempts) == ("PENDING", 1)
        for number in range(8):
            cluster.parts.ground.ledger.release(
                cluster.parts.calls.holding[f"held-{number}"].holding
            )
        cluster.parts.serve_round()
        assert first.state == "CREATED"

    in_loop(3, test)


def test_a_round_looks_only_at_leases_where_something_has_changed(in_loop, monkeypatch):
    def test(cluster):
        cluster.fill("lease")
        for number in range(20):
            cluster.enqueue(f"waits-{number}", f"owner-{number}", kind="lease")
        looked = counted(monkeypatch, cluster.parts.leases._held, "_is_lent")
        monkeypatch.setattr(cluster.parts.leases, "_revoke", lambda each: None)
        cluster.parts.serve_round()
        assert looked == {f"held-{number}": 1 for number in range(30)}
        cluster.parts.serve_round()
        assert looked.total() == 30
        holding = cluster.parts.calls.holding["held-0"].holding
        cluster.parts.ground.ledger.lend_cpu(holding)
        cluster.parts.serve_round()
        assert sum(count == 2 for count in looked.values()) == 10  # those of one node

    in_loop(3, test)
