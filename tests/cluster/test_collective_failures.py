"""Groups whose members die, stop, leave, raise, or do not come; and groups over connections."""

from __future__ import annotations

import os
import signal
import time

import numpy as np
import pytest

import raycompat as ray
from raycompat.util import collective
from raycompat.util.collective.types import CollectiveError, CollectiveTimeoutError, ReduceOp

pytestmark = pytest.mark.usefixtures("cluster")


@ray.remote(num_cpus=0)
class Member:
    def join(self, size, rank, name="default", timeout_ms=30_000):
        collective.init_collective_group(size, rank, "gloo", name, timeout_ms)
        return os.getpid()

    def allreduce(self, values, name="default"):
        values = values.copy()
        collective.allreduce(values, name)
        return values

    def allreduce_for_ever(self):
        values = np.ones(3_000_000, np.float32)
        while True:
            collective.allreduce(values, op=ReduceOp.MAX)

    def shorten_timeout(self, timeout_s):
        """Give the operations less time than a busy machine needs to form a group."""
        collective.get_group_handle()._peers.timeout_s = timeout_s

    def call(self, function, *arguments):
        return function(*arguments)


@pytest.fixture
def group_of():
    made = []

    def make(size, **options):
        members = [Member.options(**options).remote() for _ in range(size)]
        made.extend(members)
        joined = [each.join.remote(size, rank) for rank, each in enumerate(members)]
        return members, ray.get(joined)

    yield make
    for member in made:
        ray.kill(member)


def errors_of(refs, deadline_s):
    """Return the error of each call, all of which must have ended by the deadline."""
    ready, waiting = ray.wait(refs, num_returns=len(refs), timeout=deadline_s)
    assert not waiting
    found = []
    for ref in refs:
        with pytest.raises(CollectiveError) as caught:
            ray.get(ref)
        found.append(caught.value)
    return found


@pytest.fixture(params=["1", "0"], ids=["shared memory", "connections"])
def shared_memory(request):
    """Whether members may share memory: what is ours on one host, and what runs between hosts."""
    return {"runtime_env": {"env_vars": {"RAYCOMPAT_COLLECTIVE_SHARED_MEMORY": request.param}}}


def test_a_member_that_is_killed_ends_the_operation_of_all(group_of, shared_memory):
    members, pids = group_of(3, **shared_memory)
    running = [each.allreduce_for_ever.remote() for each in members]
    assert ray.wait(running, num_returns=3, timeout=1) == ([], running)
    os.kill(pids[1], signal.SIGKILL)
    for error in errors_of([running[0], running[2]], 20):
        assert "rank 1" in str(error)
    for member in (members[0], members[2]):  # the group has ended, and says so
        with pytest.raises(CollectiveError, match="ended before.*rank 1"):
            ray.get(member.allreduce.remote(np.ones(1)))


def test_a_member_that_is_stopped_ends_the_operation_of_the_others(group_of, shared_memory):
    members, pids = group_of(3, **shared_memory)
    os.kill(pids[2], signal.SIGSTOP)
    try:
        calls = [each.allreduce.remote(np.ones(10)) for each in members[:2]]
        for error in errors_of(calls, 25):
            assert "rank 2" in str(error)
            assert "stopped" in str(error)
    finally:
        os.kill(pids[2], signal.SIGCONT)


def test_a_member_that_leaves_or_raises_is_told_of(group_of):
    members, _ = group_of(2)
    ray.get(members[1].call.remote(collective.destroy_collective_group))
    (error,) = errors_of([members[0].allreduce.remote(np.ones(10))], 20)
    assert "Rank 1 left the group" in str(error)
    assert error.ranks == (1,)


def test_a_member_that_does_not_come_is_a_timeout(group_of):
    members, _ = group_of(2)
    ray.get(members[0].shorten_timeout.remote(0.3))
    (error,) = errors_of([members[0].allreduce.remote(np.ones(10))], 20)
    assert isinstance(error, CollectiveTimeoutError)
    (error,) = errors_of([members[1].allreduce.remote(np.ones(10))], 20)
    assert "Rank 0 failed: allreduce(float64 [10], SUM) made no progress" in str(error)


def test_calls_that_do_not_match_are_errors_for_all(group_of, shared_memory):
    members, _ = group_of(2, **shared_memory)
    calls = [each.allreduce.remote(np.ones(10 + rank)) for rank, each in enumerate(members)]
    for error in errors_of(calls, 20):
        assert "do not call the same operation" in str(error)
        assert "float64 [10]" in str(error)
        assert "float64 [11]" in str(error)


def test_a_group_that_is_not_complete_names_who_is_missing():
    member = Member.remote()
    with pytest.raises(CollectiveTimeoutError, match=r"ranks \[0, 2\] of 3 did not join"):
        ray.get(member.join.remote(3, 1, "incomplete", 3000))


def test_members_that_do_not_agree_are_told():
    members = [Member.remote() for _ in range(2)]
    calls = [each.join.remote(2 + rank, rank, "sizes") for rank, each in enumerate(members)]
    for error in errors_of(calls, 20):
        assert "different world sizes" in str(error)
    members = [Member.remote() for _ in range(2)]
    ray.get([each.call.remote(os.getpid) for each in members])  # both processes have started
    calls = [each.join.remote(2, 0, "ranks", 5_000) for each in members]
    ((replaced,), waiting) = ray.wait(calls)
    with pytest.raises(CollectiveError, match="Another process joined the group as rank 0"):
        ray.get(replaced)
    with pytest.raises(CollectiveTimeoutError, match=r"ranks \[1\] of 2 did not join"):
        ray.get(waiting)


def test_groups_over_connections_compute_the_same(group_of):
    environment = {"env_vars": {"RAYCOMPAT_COLLECTIVE_SHARED_MEMORY": "0"}}

    def work(rank):
        values = np.arange(500_000, dtype=np.float32) + rank
        collective.allreduce(values)
        gathered = [np.zeros(3) for _ in range(3)]
        collective.allgather(gathered, np.full(3, float(rank)))
        received = np.zeros(2)
        if rank == 0:
            collective.send(np.array([1.0, 2.0]), 2)
        elif rank == 2:
            collective.recv(received, 0)
        collective.broadcast(received, 2)
        kind = type(collective.get_group_handle()._algorithm).__name__
        return kind, values[-1], [each[0] for each in gathered], received.tolist()

    members, _ = group_of(3, runtime_env=environment)
    found = ray.get([each.call.remote(work, rank) for rank, each in enumerate(members)])
    assert found == [("Ring", 3 * 499_999.0 + 3, [0.0, 1.0, 2.0], [1.0, 2.0])] * 3


def test_a_process_has_another_rank_in_each_group(group_of):
    """Ray's operations take the ranks of a process's first group in all of its groups."""

    def work(rank):
        collective.init_collective_group(2, 1 - rank, "gloo", "turned")
        values = np.full(2, float(rank))
        collective.broadcast(values, 0, "turned")  # from rank 1 of the first group
        collective.allreduce(values)
        return collective.get_rank("turned"), values.tolist()

    members, _ = group_of(2)
    found = ray.get([each.call.remote(work, rank) for rank, each in enumerate(members)])
    assert found == [(1, [2.0, 2.0]), (0, [2.0, 2.0])]


def test_the_name_is_free_again_at_once():
    """Groups of one name follow each other quickly; each meets its own members."""
    members = [Member.remote() for _ in range(2)]

    def work(rank):
        total = 0.0
        for number in range(5):
            collective.init_collective_group(2, rank, "gloo", "again")
            values = np.full(1, number + rank, float)
            collective.allreduce(values, "again")
            total += values[0]
            collective.destroy_collective_group("again")
        return total

    found = ray.get([each.call.remote(work, rank) for rank, each in enumerate(members)])
    assert found == [25.0, 25.0]


def test_arrays_of_the_object_store_are_read_only_and_refused(group_of):
    members, _ = group_of(1)
    ref = ray.put(np.ones(1000))

    def work(refs):
        collective.allreduce(ray.get(refs[0]))

    with pytest.raises(ValueError, match="read-only"):
        ray.get(members[0].call.remote(work, [ref]))


def test_a_timeout_is_seen_in_its_time(group_of):
    """An operation waits for its time-out, and not for much longer."""
    members, _ = group_of(2)
    ray.get(members[0].shorten_timeout.remote(1.5))
    start = time.monotonic()
    errors_of([members[0].allreduce.remote(np.ones(10))], 20)
    assert 1.5 <= time.monotonic() - start < 15
