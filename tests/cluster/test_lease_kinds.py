"""Leases for calls that need memory, in many different amounts."""

from __future__ import annotations

import threading
import time

import pytest

import raycompat as ray

pytestmark = pytest.mark.usefixtures("cluster")


@pytest.fixture(scope="module")
def memory(cluster):
    """All memory of the cluster, in bytes."""
    return int(ray.cluster_resources()["memory"])


@ray.remote
def one():
    return 1


@ray.remote(num_cpus=0)
def span(seconds):
    start = time.monotonic()
    time.sleep(seconds)  # the call holds its memory
    return start, time.monotonic()


def most_at_once(spans):
    return max(sum(start <= at < stop for start, stop in spans) for at, _ in spans)


def test_amounts_share_leases(session, memory):
    submitted = []
    submit = session.submit
    session.submit = lambda spec: submitted.append(spec["kind"]) or submit(spec)
    try:
        calls = [one.options(memory=1000 + number).remote() for number in range(300)]
        assert sum(ray.get(calls)) == 300
    finally:
        del session.submit
    assert set(submitted) == {"lease"}
    assert len(submitted) < 100


def test_what_a_call_needs_is_a_limit(memory):
    spans = ray.get([span.options(memory=int(memory * 0.4)).remote(0.02) for _ in range(10)])
    assert most_at_once(spans) <= 2
    spans = ray.get([span.options(memory=int(memory * 0.6)).remote(0.02) for _ in range(4)])
    assert most_at_once(spans) == 1


def test_a_small_call_in_a_large_lease_gives_the_rest_back(memory, wait_until):
    large, small = (one.options(memory=int(memory * share)) for share in (0.9, 0.2))
    for _ in range(3):
        assert ray.get([large.remote(), small.remote()]) == [1, 1]
    spans = [span.options(memory=int(memory * share)).remote(0.3) for share in (0.9, 0.2, 0.2, 0.2)]
    assert most_at_once(ray.get(spans, timeout=60)[1:]) >= 2
    wait_until(lambda: ray.available_resources().get("memory") == memory)


def test_a_call_sees_what_it_has_requested(memory):
    @ray.remote
    def assigned():
        return ray.get_runtime_context().get_assigned_resources()

    asked = [assigned.options(memory=amount).remote() for amount in (1000, 5000, 2000)]
    assert ray.get(asked) == [{"CPU": 1.0, "memory": float(n)} for n in (1000, 5000, 2000)]


def test_kinds_with_calls_without_end_both_run(memory):
    """Each kind would keep all CPUs if the other could not revoke a lease."""
    is_over, ended = threading.Event(), {}

    def stream(name, function):
        waiting = [function.remote() for _ in range(20)]
        while not is_over.is_set():
            (_,), waiting = ray.wait(waiting)
            ended[name] = ended.get(name, 0) + 1
            if min(ended.get(each, 0) for each in ("cpu", "memory")) >= 50:
                is_over.set()
            waiting.append(function.remote())
        ray.get(waiting)

    kinds = {"cpu": one, "memory": one.options(memory=1000)}
    threads = [threading.Thread(target=stream, args=kind, daemon=True) for kind in kinds.items()]
    for thread in threads:
        thread.start()
    assert is_over.wait(60), ended
    for thread in threads:
        thread.join()


@ray.remote(num_cpus=0)
class Caller:
    def call(self, function):
        return ray.get(function.remote(0.0))


@pytest.mark.parametrize("needs", ["all CPUs", "most memory"])
def test_a_second_caller_gets_its_turn(memory, needs):
    """The first one has room for one lease, and calls for it for ten seconds."""
    share = {"num_cpus": ray.cluster_resources()["CPU"]}
    if needs == "most memory":
        share = {"num_cpus": 0, "memory": int(memory * 0.6)}
    function, caller = span.options(**share), Caller.remote()
    ray.get(caller.__ray_ready__.remote())
    calls = [function.remote(0.05) for _ in range(200)]
    try:
        ray.get(calls[0])
        ray.get(caller.call.remote(function))
        _, left = ray.wait(calls, num_returns=len(calls), timeout=0)
        assert len(left) > 100
    finally:
        for call in calls:
            ray.cancel(call)


def test_an_actor_gets_what_idle_leases_hold(memory):
    @ray.remote(num_cpus=0)
    class Actor:
        def here(self):
            return True

    large = int(memory * 0.9)
    assert ray.get(one.options(memory=large).remote()) == 1
    actor = Actor.options(memory=large).remote()
    assert ray.get(actor.here.remote(), timeout=30)


def test_a_request_that_no_node_can_meet_waits_alone(memory):
    too_much = one.options(memory=2 * memory).remote()
    assert (
        ray.get([one.options(memory=1000 + n).remote() for n in range(10)], timeout=60) == [1] * 10
    )
    ready, _ = ray.wait([too_much], timeout=0)
    assert not ready
    ray.cancel(too_much)
    with pytest.raises(ray.exceptions.TaskCancelledError):
        ray.get(too_much)
