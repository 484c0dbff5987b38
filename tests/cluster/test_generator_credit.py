"""Items of generators whose consumer takes none: nothing grows, nothing is lost, nothing waits for ever."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
import time

import pytest
from _killing import killing

import raycompat as ray

pytestmark = pytest.mark.usefixtures("cluster")

#: Seconds after which what has not happened counts as never happening.
DEADLINE_S = 60.0

#: How many items of 50,000 bytes a generator has: five times the window.
NUM_ITEMS, ITEM_BYTES = 200, 50_000

CONSUMER = """
import sys
import raycompat as ray

ray.init(sys.argv[4], configure_logging=False)

@ray.remote
def count(path, num_items, size):
    for _ in range(num_items):
        with open(path, "ab") as file:
            file.write(b"x")
        yield bytes(size)
    with open(path, "ab") as file:
        file.write(b".")

items = count.remote(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
next(items)
print("begun", flush=True)
sys.stdin.readline()
print(1 + sum(len(ray.get(item)) == int(sys.argv[3]) for item in items), flush=True)
"""


@ray.remote
class Source:
    """Yields items until one of them is not pickled, because no process needs it."""

    def until_unwanted(self, ended: str):
        yield from _until_unwanted(ended)

    def endless(self, unwanted: str | None = None):
        yield from _endless(unwanted)

    def ping(self):
        return 1


@ray.remote
class AsyncSource:
    async def until_unwanted(self, ended: str):
        for item in _until_unwanted(ended):
            yield item

    async def endless(self, unwanted: str | None = None):
        for item in _endless(unwanted):
            yield item

    async def ping(self):
        return 1


class Item:
    num_pickled = 0

    def __reduce__(self):
        Item.num_pickled += 1
        return Item, ()


def _until_unwanted(ended: str):
    deadline, num_yielded = time.monotonic() + DEADLINE_S, Item.num_pickled
    while Item.num_pickled == num_yielded and time.monotonic() < deadline:
        num_yielded += 1
        yield Item()
    with open(ended, "w") as file:
        file.write("unwanted" if Item.num_pickled < num_yielded else "in vain")


def _endless(unwanted: str | None):
    """Yield for ever, the small items of `_until_unwanted` at first if its file is given."""
    if unwanted is not None:
        yield from _until_unwanted(unwanted)
    while True:
        yield bytes(ITEM_BYTES)


@ray.remote
def task_until_unwanted(ended: str):
    yield from _until_unwanted(ended)


def test_a_generator_stops_for_a_driver_that_is_stopped_and_then_goes_on(
    tmp_path, wait_until, session
):
    path = tmp_path / "items"
    arguments = [str(path), str(NUM_ITEMS), str(ITEM_BYTES), session.setup.scheduler]
    command = [sys.executable, "-c", CONSUMER, *arguments]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(command, **pipes, text=True) as driver, killing(driver):
        assert driver.stdout.readline() == "begun\n"
        os.kill(driver.pid, signal.SIGSTOP)
        # A generator that waits lends its CPU, and one that has ended has none.
        wait_until(lambda: ray.available_resources().get("CPU") == 2.0, DEADLINE_S)
        made = path.read_bytes()
        os.kill(driver.pid, signal.SIGCONT)
        driver.stdin.write("\n")
        driver.stdin.flush()
        assert driver.stdout.readline() == f"{NUM_ITEMS}\n"
    assert path.read_bytes() == NUM_ITEMS * b"x" + b"."
    assert len(made) < NUM_ITEMS


@pytest.mark.parametrize("kind", ["task", "actor", "async actor"])
def test_a_generator_that_is_dropped_runs_on_and_sends_nothing(kind, tmp_path, wait_until, session):
    ended = tmp_path / "ended"
    source = {"actor": Source, "async actor": AsyncSource}.get(kind)
    actor = source.remote() if source is not None else None
    call = actor.until_unwanted if actor is not None else task_until_unwanted
    items = call.remote(str(ended))
    first = next(items)
    del items
    gc.collect()
    wait_until(lambda: ended.exists() and ended.read_text(), DEADLINE_S)
    assert ended.read_text() == "unwanted"
    wait_until(lambda: not session.calls.keys() - {getattr(actor, "_actor_ref", first)._key})
    wait_until(lambda: len(session.table.entries) <= 3)  # items that are not taken are not kept
    assert isinstance(ray.get(first), Item)


#: Options of functions that a lease runs, and of those that the scheduler places.
by_each_sender = pytest.mark.parametrize(
    "more", [{}, {"runtime_env": {"env_vars": {"ANY": "1"}}}], ids=["lease", "scheduler"]
)


@by_each_sender
def test_a_generator_that_is_dropped_lends_its_cpus(more, tmp_path, wait_until):
    ended = tmp_path / "ended"

    @ray.remote(num_cpus=2, **more)
    def until_others_run():
        deadline = time.monotonic() + DEADLINE_S
        while not ended.exists() and time.monotonic() < deadline:
            yield 0
        ended.write_text("over" if ended.exists() else "in vain")

    items = until_others_run.remote()
    next(items)
    del items
    gc.collect()
    ray.get(ray.remote(num_cpus=2)(lambda: ended.touch()).remote(), timeout=DEADLINE_S)
    wait_until(lambda: ended.read_text() == "over", DEADLINE_S)
    wait_until(lambda: ray.available_resources().get("CPU") == 2.0, DEADLINE_S)


@pytest.mark.parametrize("source", [Source, AsyncSource], ids=["in order", "async"])
def test_a_generator_ends_whose_consumer_is_dead(source):
    @ray.remote(max_retries=0)
    def consume(actor):
        next(actor.endless.remote())
        os._exit(1)

    actor = source.remote()
    with pytest.raises(ray.exceptions.WorkerCrashedError):
        ray.get(consume.remote(actor), timeout=DEADLINE_S)
    assert ray.get(actor.ping.remote(), timeout=DEADLINE_S) == 1


@pytest.mark.parametrize("source", [Source, AsyncSource], ids=["in order", "async"])
def test_a_generator_ends_whose_consumer_dropped_it_and_is_dead(source, tmp_path):
    @ray.remote(max_retries=0)
    def consume(actor, unwanted):
        next(actor.endless.remote(unwanted))
        while not os.path.exists(unwanted):
            time.sleep(0.01)
        os._exit(1)

    actor = source.remote()
    with pytest.raises(ray.exceptions.WorkerCrashedError):
        ray.get(consume.remote(actor, str(tmp_path / "unwanted")), timeout=DEADLINE_S)
    assert ray.get(actor.ping.remote(), timeout=DEADLINE_S) == 1


@ray.remote(_generator_backpressure_num_objects=2)
def limited(made: str, num_items: int, end_after: int = -1):
    """Yield numbers, and end its process once, after some items."""
    for item in range(num_items):
        if item == end_after and not os.path.exists(f"{made}.ended"):
            open(f"{made}.ended", "w").close()
            os._exit(1)
        with open(made, "ab") as file:
            file.write(b"x")
        yield item


def num_made(path) -> int:
    return os.path.getsize(path) if os.path.exists(path) else 0


@by_each_sender
def test_generators_that_wait_lend_their_cpus(more, tmp_path, wait_until):
    paths = [tmp_path / "first", tmp_path / "second"]
    waiting = [limited.options(**more).remote(str(path), 3) for path in paths]
    wait_until(lambda: list(map(num_made, paths)) == [2, 2], DEADLINE_S)
    assert ray.get(ray.remote(num_cpus=2)(lambda: "ran").remote(), timeout=DEADLINE_S) == "ran"
    assert [[ray.get(item) for item in each] for each in waiting] == [[0, 1, 2]] * 2
    wait_until(lambda: ray.available_resources().get("CPU") == 2.0, DEADLINE_S)


@by_each_sender
def test_a_limited_generator_that_starts_again_goes_on_where_it_was(more, tmp_path):
    made = tmp_path / "made"
    items = limited.options(**more).remote(str(made), 8, end_after=5)
    assert [ray.get(item) for item in items] == list(range(8))
    assert num_made(made) == 5 + 8


@by_each_sender
def test_a_limited_generator_that_is_dropped_runs_to_its_end(more, tmp_path, wait_until):
    made = tmp_path / "made"
    items = limited.options(**more).remote(str(made), 20)
    wait_until(lambda: num_made(made) == 2, DEADLINE_S)
    del items
    wait_until(lambda: num_made(made) == 20, DEADLINE_S)


def test_calls_behind_a_generator_that_waits_run_elsewhere(tmp_path, wait_until):
    """They were sent to the same process, because the function was quick until now."""
    quick = limited.options(num_cpus=1)
    for number in range(20):
        assert len([ray.get(item) for item in quick.remote(str(tmp_path / f"{number}"), 1)]) == 1
    waiting = [quick.remote(str(tmp_path / f"waits-{number}"), 3) for number in range(6)]
    assert ray.get([next(items) for items in reversed(waiting)], timeout=DEADLINE_S) == [0] * 6
    assert [[ray.get(item) for item in items] for items in waiting] == [[1, 2]] * 6
