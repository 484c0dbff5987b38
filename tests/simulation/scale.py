"""What the scheduler pays for a lease, an actor and a group, by the number of nodes: ``scale.py 10 100``.

The clusters are those of the simulation: the product's scheduler, and nodes of 32 CPUs and drivers in
the same thread and in virtual time. Only the CPU time of the scheduler's own work is counted: the
handlers of Dask and raycompat, and the rounds of the dispatcher, without the model's connections.
"""

from __future__ import annotations

import argparse
import asyncio
import functools
import gc
import json
import logging
import os
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any

from virtual_time import VirtualLoop

# isort: split
from connections import Connection
from drivers import Actor, Lease
from world import World

from raycompat._scheduler.notices import Notices
from raycompat._scheduler.parts import Parts

_CPUS = 32
_NUM_DRIVERS = 100

#: How many leases, actors and groups are made to measure the cost of one.
_MANY = 1000

#: The name of the figure about leases that must be revoked for others.
_SHARE = "% of a CPU while 100 requests wait and other clients hold all places"

#: The calls that a driver sends to one of the leases that it keeps, of a second each: no lease ends meanwhile.
_CALLS = 60

#: Seconds of virtual time for processes to start and messages to arrive.
_SOON_S = 20.0


class Meter:
    """The CPU time of the scheduler's work, in seconds."""

    def __init__(self) -> None:
        self.spent_s = 0.0
        self._is_counting = False

    def counted(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return a function whose time is counted."""
        return self._switching(function, counts=True)

    def left_out(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return a function of the model, whose time is not counted where the scheduler calls it."""
        return self._switching(function, counts=False)

    def _switching(self, function: Callable[..., Any], *, counts: bool) -> Callable[..., Any]:
        @functools.wraps(function)
        def run(*arguments: Any, **fields: Any) -> Any:
            if self._is_counting == counts:
                return function(*arguments, **fields)
            self._is_counting = counts
            start_s = time.thread_time()
            try:
                return function(*arguments, **fields)
            finally:
                took_s = time.thread_time() - start_s
                self.spent_s += took_s if counts else -took_s
                self._is_counting = not counts

        return run


@contextmanager
def _metered(meter: Meter) -> Iterator[None]:
    """Count the rounds of the dispatcher, and not the model's connections."""
    replaced = [
        (Parts, "serve_round", meter.counted),
        (Notices, "_look", meter.counted),
        (Connection, "post", meter.left_out),
    ]
    before = [getattr(owner, name) for owner, name, _ in replaced]
    for (owner, name, wrap), function in zip(replaced, before, strict=True):
        setattr(owner, name, wrap(function))
    try:
        yield
    finally:
        for (owner, name, _), function in zip(replaced, before, strict=True):
            setattr(owner, name, function)


class _Large(World):
    """A world without invariants, which would cost more than what is measured."""

    def check(self) -> None:
        """Check nothing."""

    def note(self, text: str) -> None:
        """Write nothing."""


async def _measure(num_nodes: int) -> dict[str, float]:
    meter = Meter()
    with _metered(meter):
        world = _Large("0")
        handlers = world.scheduler.stream_handlers
        for name, handler in handlers.items():
            if not asyncio.iscoroutinefunction(handler):
                handlers[name] = meter.counted(handler)
        for _ in range(num_nodes):
            world.add_node({"CPU": float(_CPUS)})
        for _ in range(_NUM_DRIVERS):
            world.add_driver()
        await asyncio.sleep(_SOON_S)
        found: dict[str, float] = {}

        async def per_one(name: str, number: int, work: Callable[[], Awaitable[None]]) -> None:
            before_s = meter.spent_s
            await work()
            found[name] = (meter.spent_s - before_s) / number * 1e6

        places = num_nodes * _CPUS
        await per_one(
            "µs for a lease where places are free",
            min(_MANY, places),
            lambda: _leases(world, places),
        )
        await per_one("µs for an actor", _MANY, lambda: _actors(world, places))
        await per_one("µs for a placement group", _MANY, lambda: _groups(world, places))
        await _fill(world, places)
        before_s, since_s = meter.spent_s, asyncio.get_running_loop().time()
        await _ask(world)
        lasted_s = asyncio.get_running_loop().time() - since_s
        found[_SHARE] = 100 * (meter.spent_s - before_s) / lasted_s
        world.close()
        return found


async def _leases(world: World, places: int) -> None:
    """Let the drivers ask for leases with one call each, which are returned."""
    for number in range(min(_MANY, places)):
        driver = world.drivers[number % _NUM_DRIVERS]
        call = {"lasts_s": 0.01, "how": "returns"}
        driver.ask_for_lease({"CPU": 1.0}, [call], "DEFAULT")
    await asyncio.sleep(_SOON_S)


async def _actors(world: World, places: int) -> None:
    """Make actors and end them, no more at once than there are places."""
    for begin in range(0, _MANY, places):
        for number in range(begin, min(begin + places, _MANY)):
            does = {"lasts_s": 0.01, "how": "returns"}
            world.drivers[number % _NUM_DRIVERS].make_actor(
                {"CPU": 1.0},
                {"CPU": 1.0},
                does,
                name=None,
                detached=False,
                max_restarts=0,
                strategy="DEFAULT",
            )
        await asyncio.sleep(_SOON_S)
        for driver in world.drivers:
            for actor in driver.living("actor"):
                assert isinstance(actor, Actor)
                assert actor.state == "ALIVE"
                driver.drop(actor)
        await asyncio.sleep(_SOON_S)


async def _groups(world: World, places: int) -> None:
    """Make groups of four bundles and remove them, no more at once than there are places."""
    at_once = places // 4
    for begin in range(0, _MANY, at_once):
        for number in range(begin, min(begin + at_once, _MANY)):
            world.drivers[number % _NUM_DRIVERS].make_group(
                [{"CPU": 1.0}] * 4, "PACK", waits=True, detached=False
            )
        await asyncio.sleep(_SOON_S)
        for driver in world.drivers:
            for group in list(driver.groups.values()):
                if not group.is_removed:
                    assert group.is_ready
                    driver.remove_group(group)
        await asyncio.sleep(_SOON_S)


async def _fill(world: World, places: int) -> None:
    """Give all CPUs to half of the drivers, whose calls are many and need four each."""
    half = world.drivers[: _NUM_DRIVERS // 2]
    for number in range(places // 4):
        calls = [{"lasts_s": 1.0, "how": "returns"} for _ in range(_CALLS)]
        half[number % len(half)].ask_for_lease({"CPU": 4.0}, calls, "DEFAULT")
    await asyncio.sleep(_SOON_S)
    assert sum(_is_held(held) for driver in half for held in driver.living("lease")) == places // 4


async def _ask(world: World) -> None:
    """Let the other half ask for two leases each, and wait until each has one."""
    others = world.drivers[_NUM_DRIVERS // 2 :]
    for driver in others * 2:
        calls = [{"lasts_s": 1.0, "how": "returns"} for _ in range(_CALLS)]
        driver.ask_for_lease({"CPU": 1.0}, calls, "DEFAULT")
    for _ in range(300):
        await asyncio.sleep(0.1)
        if all(any(map(_is_held, driver.living("lease"))) for driver in others):
            return
    raise AssertionError("some of the other half have no lease")


def _is_held(held: Any) -> bool:
    return isinstance(held, Lease) and held.is_granted


def main() -> int:
    """Measure each size of a cluster; print, and write, what one of each costs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("nodes", type=int, nargs="+")
    parser.add_argument("--json", help="write the figures into this file")
    arguments = parser.parse_args()
    if os.environ.get("PYTHONHASHSEED") != "0":
        parser.error("set PYTHONHASHSEED=0, so that each run takes the same choices")
    logging.disable(logging.CRITICAL)  # connections that are cut at the end are errors to Dask
    figures: dict[str, dict[str, float]] = {}
    for num_nodes in arguments.nodes:
        with asyncio.Runner(loop_factory=VirtualLoop) as runner:
            found = runner.run(_measure(num_nodes))
        gc.collect()
        figures[str(num_nodes)] = {name: round(each, 1) for name, each in found.items()}
        for name, each in found.items():
            print(f"{num_nodes:>5} nodes: {each:9,.1f} {name}", flush=True)
    if arguments.json:
        with open(arguments.json, "w") as file:
            json.dump(figures, file, indent=1, ensure_ascii=False)
            file.write("\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
