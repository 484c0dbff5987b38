"""A node that runs out of memory ends the newest of what it runs, not itself."""

from __future__ import annotations

import os

import numpy as np
import pytest

import raycompat as ray

#: What the node may use; a few processes with nothing in them have a third of it.
NODE_BYTES = 1200 << 20
MUCH, TOO_MUCH = 600 << 20, 2000 << 20


@pytest.fixture
def small_node(dask_cluster):
    process = dask_cluster.add_worker("127.0.0.1", "--memory-limit", str(NODE_BYTES))
    dask_cluster.connect()
    yield process
    assert process.poll() is None


def fill(num_bytes, log, stop=None):
    """Fill memory, bit by bit; then wait for the sign to stop."""
    with open(log, "a") as file:
        file.write(f"{os.getpid()}\n")
    held = []
    while sum(part.nbytes for part in held) < num_bytes:
        held.append(np.ones(1 << 20))
    while stop is not None and not os.path.exists(stop):
        held[0][0] += 1
    return len(held)


use = ray.remote(name="use")(fill)


BY_SCHEDULER = {"scheduling_strategy": "SPREAD"}


@pytest.mark.parametrize("road", [{}, BY_SCHEDULER], ids=["lease", "scheduler"])
def test_a_task_that_wants_too_much_is_tried_again_and_fails(small_node, tmp_path, road):
    log = tmp_path / "log"
    with pytest.raises(ray.exceptions.OutOfMemoryError, match=r"low on memory.*use.* may use"):
        ray.get(use.options(max_retries=1, **road).remote(TOO_MUCH, str(log)), timeout=120)
    assert len(set(log.read_text().split())) == 2


@pytest.mark.parametrize("road", [{}, BY_SCHEDULER], ids=["lease", "scheduler"])
def test_the_newest_gives_way_and_is_run_when_there_is_room(small_node, tmp_path, road, wait_until):
    logs, stop = [tmp_path / f"log{i}" for i in range(2)], tmp_path / "stop"
    call = use.options(max_retries=-1, **road)
    first = call.remote(MUCH, str(logs[0]), str(stop))
    wait_until(logs[0].exists)
    second = call.remote(MUCH, str(logs[1]), str(stop))
    wait_until(lambda: logs[1].exists() and len(logs[1].read_text().split()) > 1, 60)
    stop.touch()
    assert ray.get([first, second], timeout=120) == [MUCH >> 23] * 2
    assert len(logs[0].read_text().split()) == 1


def test_what_is_not_tried_again_is_ended_last(small_node, tmp_path, wait_until):
    logs, stop = [tmp_path / f"log{i}" for i in range(2)], tmp_path / "stop"
    retried = use.options(max_retries=-1, **BY_SCHEDULER).remote(MUCH, str(logs[0]), str(stop))
    wait_until(logs[0].exists)
    once = use.options(max_retries=0, **BY_SCHEDULER).remote(MUCH, str(logs[1]), str(stop))
    wait_until(lambda: len(logs[0].read_text().split()) > 1, 60)
    stop.touch()
    assert ray.get([retried, once], timeout=120) == [MUCH >> 23] * 2
    assert len(logs[1].read_text().split()) == 1


def test_an_actor_says_why_it_has_died(small_node, tmp_path):
    @ray.remote
    class Hoarder:
        def use(self):
            self.held = [np.ones(1 << 20) for _ in range(TOO_MUCH >> 23)]

    hoarder = Hoarder.remote()
    with pytest.raises(ray.exceptions.ActorDiedError, match="low on memory"):
        ray.get(hoarder.use.remote(), timeout=120)


@ray.remote(num_cpus=0)
class Small:
    def ping(self):
        return "pong"


def test_who_owns_an_actor_is_not_idle(small_node, tmp_path):
    @ray.remote
    def make():
        import builtins

        builtins.kept = Small.remote()
        assert ray.get(builtins.kept.ping.remote()) == "pong"
        return builtins.kept

    actor = ray.get(make.remote())
    elsewhere = {"env_vars": {"OF_ITS_OWN": "1"}}  # in another process than the owner's
    call = use.options(max_retries=0, runtime_env=elsewhere)
    with pytest.raises(ray.exceptions.OutOfMemoryError, match="low on memory"):
        ray.get(call.remote(TOO_MUCH, str(tmp_path / "log")), timeout=120)
    assert ray.get(actor.ping.remote(), timeout=60) == "pong"


def test_a_process_that_others_need_outlives_an_older_one(small_node, tmp_path, wait_until):
    """It makes the actor in the call that it runs, after its node has heard of it for the last time."""

    @ray.remote(max_retries=-1)
    def make_and_use(num_bytes, log, stop):
        actor = Small.remote()
        assert ray.get(actor.ping.remote()) == "pong"
        fill(num_bytes, log, stop)
        return actor

    logs, stop = [tmp_path / f"log{i}" for i in range(2)], tmp_path / "stop"
    older = use.options(max_retries=-1).remote(MUCH, str(logs[0]), str(stop))
    wait_until(logs[0].exists)
    newer = make_and_use.remote(MUCH, str(logs[1]), str(stop))
    wait_until(lambda: len(logs[0].read_text().split()) > 1, 60)
    stop.touch()
    actor = ray.get(newer, timeout=60)
    assert ray.get(actor.ping.remote(), timeout=60) == "pong"
    assert ray.get(older, timeout=60) == MUCH >> 23
    assert len(logs[1].read_text().split()) == 1
