"""Histories: a plan that follows from a seed, its run, and the smallest part of it that still fails."""

from __future__ import annotations

import asyncio
import functools
import gc
import logging
import traceback
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import Any, NamedTuple

from virtual_time import NothingScheduled, VirtualLoop

# isort: split
from callers import Caller
from drivers import Actor, Driver, Lease
from world import Broken, World

from raycompat._messages.actors import KillActor


class Step(NamedTuple):
    """One step of a plan. Its numbers choose among what there is when it is taken."""

    after_s: float
    kind: str
    numbers: tuple[float, ...]

    def number(self, index: int, below: int) -> int:
        """Return one of its numbers as an integer below a limit."""
        return min(int(self.numbers[index] * below), below - 1)


#: How often each kind of step is in a plan. Those in `_FAULTS` are left out of calm histories.
_KINDS = {
    "submit": 8,
    "announce": 3,
    "lease": 6,
    "actor": 4,
    "kill": 2,
    "unwatch": 0.3,
    "drop": 4,
    "cancel": 2,
    "cancel in a lease": 1,
    "group": 2,
    "remove group": 1,
    "put": 2,
    "promise": 1,
    "borrow": 1,
    "pin": 0.5,
    "add a node": 0.3,
    "add a driver": 0.3,
    "leave": 0.3,
}
#: How often they are in a plan with sessions of the product.
_OF_CALLERS = {"method": 8, "generator": 3, "put": 5, "borrow": 4}
_FAULTS = {
    "kill an executor": 2,
    "kill a node": 0.6,
    "kill a driver": 0.4,
    "pause a node": 0.8,
    "resume a node": 1.2,
}
#: Faults in plans with sessions of the product.
_FAULTS_OF_CALLERS = {"fill a store": 0.6, "free a store": 1.2, "stop a driver": 0.8}

#: Seconds for which a driver is stopped.
_STOPPED_S = 1.0


@dataclass(frozen=True)
class Plan:
    """What happens in a history."""

    seed: str
    num_nodes: int
    num_drivers: int
    has_faults: bool
    #: Whether drivers are the product's own sessions; otherwise all of them are models.
    has_callers: bool
    steps: tuple[Step, ...]


@dataclass(frozen=True)
class Outcome:
    """How a history has ended."""

    error: str
    history: list[str]
    num_steps: int
    num_messages: int
    num_events: int


def plan_of(seed: str, has_callers: bool | None = None) -> Plan:
    """Return the plan of a seed, which also chooses the kind of drivers unless it is given."""
    random = Random(f"{seed} plan")
    has_faults = random.random() < 0.7
    if has_callers is None:
        has_callers = Random(f"{seed} callers").random() < 0.5
    kinds = {**_KINDS, **(_OF_CALLERS if has_callers else {}), **(_FAULTS if has_faults else {})}
    if has_callers and has_faults:
        kinds |= _FAULTS_OF_CALLERS
    pace = random.choice([0.002, 0.02, 0.2])
    steps = [
        Step(
            random.expovariate(1 / pace),
            random.choices(list(kinds), list(kinds.values()))[0],
            tuple(random.random() for _ in range(6)),
        )
        for _ in range(random.randint(5, 40))
    ]
    num_nodes, num_drivers = random.randint(1, 3), random.randint(1, 3)
    return Plan(seed, num_nodes, num_drivers, has_faults, has_callers, tuple(steps))


# --- the steps ----------------------------------------------------------------------------------


def _pick(items: Sequence[Any], step: Step, index: int) -> Any:
    return items[step.number(index, len(items))] if items else None


def _lasts_s(step: Step, index: int) -> float:
    return (0.001, 0.01, 0.1, 1.0, 5.0)[step.number(index, 5)]


def _amounts(step: Step, index: int) -> dict[str, float]:
    return (
        {"CPU": 1.0},
        {"CPU": 1.0},
        {"CPU": 2.0},
        {"CPU": 0.5},
        {},
        {"CPU": 1.0, "GPU": 1.0},
        {"GPU": 0.5},
        {"CPU": 3.0},
    )[step.number(index, 8)]


def _does(step: Step, index: int, lasts_s: float) -> dict[str, Any]:
    how = ("returns", "returns", "returns", "returns", "fails", "crashes", "crashes once")
    chosen = step.number(index, 14)
    does = {"lasts_s": lasts_s, "how": how[chosen % 7]}
    does["size"] = 1000 if chosen % 3 == 0 else 0
    does["blocks"] = chosen % 4 == 1
    return does


def _submit(world: World, driver: Driver, step: Step) -> None:
    values = driver.living("call", "value")
    deps = [] if step.numbers[3] < 0.6 or not values else [_pick(values, step, 2).key]
    does = _does(step, 1, _lasts_s(step, 2))
    retries = step.number(4, 4) - 1
    if does["how"] == "crashes":  # it would be tried again for ever
        retries = max(retries, 0)
    driver.submit(
        _amounts(step, 0),
        does,
        deps=deps,
        retries=retries,
        strategy=driver.strategy(step.number(5, 7), step.number(3, 5)),
    )


def _announce(world: World, driver: Driver, step: Step) -> None:
    fate = _pick(("small", "large", "fails", "given up"), step, 3)
    does = {"lasts_s": _lasts_s(step, 2), "how": "returns"}
    driver.announce({"CPU": 1.0}, does, fate, step.number(4, 3))


def _lease(world: World, driver: Driver, step: Step) -> None:
    how = "crashes" if step.numbers[1] < 0.1 else "returns"
    calls = [{"lasts_s": _lasts_s(step, 2), "how": how} for _ in range(step.number(3, 4))]
    strategy = driver.strategy(0 if step.numbers[4] < 0.2 else 6, step.number(5, 5))
    driver.ask_for_lease(_amounts(step, 0) or {"CPU": 1.0}, calls, strategy)


def _actor(world: World, driver: Driver, step: Step) -> None:
    how = ("returns", "returns", "returns", "fails", "crashes", "crashes once")[step.number(1, 6)]
    amounts = _amounts(step, 0) or {"CPU": 1.0}
    keep = dict(amounts)
    if step.numbers[3] < 0.5:  # made without num_cpus
        keep.pop("CPU", None)
    driver.make_actor(
        amounts,
        keep,
        {"lasts_s": _lasts_s(step, 2), "how": how},
        name=f"name-{step.number(4, 3)}" if step.numbers[5] < 0.5 else None,
        detached=step.numbers[5] < 0.1,
        max_restarts=step.number(3, 4) - (how != "crashes"),
        strategy=driver.strategy(step.number(4, 8), step.number(3, 5)),
    )


def _method(world: World, driver: Driver, step: Step) -> None:
    actor = _pick(driver.living("actor"), step, 0)
    if actor is not None and isinstance(driver, Caller):
        values = driver.living("call", "value")
        deps = [] if step.numbers[3] < 0.7 or not values else [_pick(values, step, 2).key]
        retries = step.number(4, 4) - 1
        does = _does(step, 1, _lasts_s(step, 2))
        if does["how"] == "crashes":
            retries = max(retries, 0)
        driver.call_method(actor, does, deps=deps, retries=retries)


def _generator(world: World, driver: Driver, step: Step) -> None:
    if isinstance(driver, Caller):
        actor = _pick(driver.living("actor"), step, 0) if step.numbers[3] < 0.5 else None
        does = _does(step, 1, _lasts_s(step, 2))
        driver.generate(
            actor,
            {**does, "items": step.number(4, 5)},
            max_items=_pick((None, 1, 3), step, 5),
            retries=_pick((0, 0, 1), step, 0),
            is_taken=step.numbers[5] < 0.7,
        )


def _kill(world: World, driver: Driver, step: Step) -> None:
    actor = _pick(driver.living("actor"), step, 0)
    if actor is not None:
        driver.kill(actor, no_restart=step.numbers[1] < 0.5)


def _unwatch(world: World, driver: Driver, step: Step) -> None:
    actor = _pick(driver.living("actor"), step, 0)
    if actor is not None:
        driver.unwatch(actor)


def _drop(world: World, driver: Driver, step: Step) -> None:
    held = _pick(driver.living("call", "actor", "value"), step, 0)
    if held is not None:
        driver.drop(held)


def _cancel(world: World, driver: Driver, step: Step) -> None:
    held = _pick(driver.living("call"), step, 0)
    if held is not None:
        driver.cancel(held, force=step.numbers[1] < 0.5)


def _cancel_in_a_lease(world: World, driver: Driver, step: Step) -> None:
    lease = _pick(driver.living("lease"), step, 0)
    if isinstance(lease, Lease):
        if step.numbers[2] < 0.3:
            driver.return_lease(lease)
        else:
            driver.cancel_in(lease, force=step.numbers[1] < 0.5)


def _group(world: World, driver: Driver, step: Step) -> None:
    bundles = [_amounts(step, 0) or {"CPU": 1.0}] * (1 + step.number(1, 3))
    strategy = _pick(("PACK", "SPREAD", "STRICT_PACK", "STRICT_SPREAD"), step, 2)
    driver.make_group(
        bundles, strategy, waits=step.numbers[3] < 0.7, detached=step.numbers[4] < 0.1
    )


def _remove_group(world: World, driver: Driver, step: Step) -> None:
    group = _pick([each for each in driver.groups.values() if not each.is_removed], step, 0)
    if group is not None:
        driver.remove_group(group)


def _put(world: World, driver: Driver, step: Step) -> None:
    driver.put(1000 if step.numbers[0] < 0.5 else 0)


def _promise(world: World, driver: Driver, step: Step) -> None:
    driver.promise(_lasts_s(step, 0))


def _borrow(world: World, driver: Driver, step: Step) -> None:
    owner = _pick(world.living_drivers(), step, 0)
    held = _pick(owner.living("call", "value"), step, 1)
    if held is not None and owner is not driver:
        owner.lend(held.key, driver)


def _pin(world: World, driver: Driver, step: Step) -> None:
    values = driver.living("call", "value")
    if len(values) > 1:
        driver.pin(values[-1].key, values[0].key)


def _add_a_node(world: World, driver: Driver, step: Step) -> None:
    world.add_node(amounts_of_node(step.numbers[0]))


def _add_a_driver(world: World, driver: Driver, step: Step) -> None:
    world.add_driver(type(driver))


def _leave(world: World, driver: Driver, step: Step) -> None:
    driver.leave()


def _kill_an_executor(world: World, driver: Driver, step: Step) -> None:
    executors = [each for node in world.living_nodes() for each in node.pool.living.values()]
    executor = _pick(executors, step, 0)
    if executor is not None:
        executor.die(-9)


def _kill_a_node(world: World, driver: Driver, step: Step) -> None:
    node = _pick(world.living_nodes(), step, 0)
    if node is not None:
        node.die(step.number(1, 4))


def _kill_a_driver(world: World, driver: Driver, step: Step) -> None:
    driver.die(step.number(1, 4))


def _pause_a_node(world: World, driver: Driver, step: Step) -> None:
    node = _pick(world.living_nodes(), step, 0)
    if node is not None:
        node.pause(paused=True)


def _resume_a_node(world: World, driver: Driver, step: Step) -> None:
    node = _pick([each for each in world.living_nodes() if each.is_paused], step, 0)
    if node is not None:
        node.pause(paused=False)


def _fill_a_store(world: World, driver: Driver, step: Step) -> None:
    node = _pick(world.living_nodes(), step, 0)
    if node is not None:
        node.store.is_full = True


def _free_a_store(world: World, driver: Driver, step: Step) -> None:
    for node in world.living_nodes():
        node.store.is_full = False


def _stop_a_driver(world: World, driver: Driver, step: Step) -> None:
    driver.stop(stopped=True)
    go_on = functools.partial(driver.stop, stopped=False)
    asyncio.get_running_loop().call_later(_STOPPED_S, go_on)


_TAKE: dict[str, Callable[[World, Driver, Step], None]] = {
    "submit": _submit,
    "announce": _announce,
    "lease": _lease,
    "actor": _actor,
    "method": _method,
    "generator": _generator,
    "kill": _kill,
    "unwatch": _unwatch,
    "drop": _drop,
    "cancel": _cancel,
    "cancel in a lease": _cancel_in_a_lease,
    "group": _group,
    "remove group": _remove_group,
    "put": _put,
    "promise": _promise,
    "borrow": _borrow,
    "pin": _pin,
    "add a node": _add_a_node,
    "add a driver": _add_a_driver,
    "leave": _leave,
    "kill an executor": _kill_an_executor,
    "kill a node": _kill_a_node,
    "kill a driver": _kill_a_driver,
    "pause a node": _pause_a_node,
    "resume a node": _resume_a_node,
    "fill a store": _fill_a_store,
    "free a store": _free_a_store,
    "stop a driver": _stop_a_driver,
}


def amounts_of_node(number: float) -> dict[str, float]:
    """Return the resources of a node."""
    return {"CPU": 4.0, "GPU": 2.0} if number < 0.4 else {"CPU": 2.0}


# --- runs ---------------------------------------------------------------------------------------


def _kind_of_driver(plan: Plan, number: int) -> type[Driver]:
    return Caller if plan.has_callers and number != 1 else Driver


async def _play(world: World, plan: Plan) -> None:
    world.has_faults = plan.has_faults
    random = Random(f"{plan.seed} nodes")
    for _ in range(plan.num_nodes):
        world.add_node(amounts_of_node(random.random()))
    for number in range(plan.num_drivers):
        world.add_driver(_kind_of_driver(plan, number))
    await asyncio.sleep(0.01)
    for step in plan.steps:
        await asyncio.sleep(step.after_s)
        world.check()
        drivers = [each for each in world.living_drivers() if not each.is_leaving]
        if not drivers:
            drivers = [world.add_driver(_kind_of_driver(plan, 0))]
        driver = drivers[step.number(5, len(drivers))]
        world.note(f"--- {step.kind} ({driver.client})")
        _TAKE[step.kind](world, driver, step)
    for node in world.living_nodes():
        node.pause(paused=False)
    if not world.living_nodes():
        world.add_node({"CPU": 4.0, "GPU": 2.0})
    await world.settle()
    world.note("--- quiet")
    await world.check_quiet()
    _drop_all(world)
    await world.settle()
    world.check_callers()
    _end_detached(world)
    for driver in world.living_drivers():
        driver.leave()
    await world.settle()
    world.note("--- at rest")
    world.check_empty()


def _drop_all(world: World) -> None:
    """Cancel what runs, and drop what the drivers hold."""
    for driver in world.living_drivers():
        driver.cancel_all()
        for actor in driver.living("actor"):
            assert isinstance(actor, Actor)
            driver.kill(actor, no_restart=True)  # detached ones, too
        for group in driver.groups.values():
            driver.remove_group(group)
        for held in driver.living("call", "actor", "value", "lease"):
            driver.drop(held)


def _end_detached(world: World) -> None:
    """End the detached actors and groups of drivers that have died."""
    for row in list(world.parts.ground.actors.rows.values()):
        if row.detached:
            world.parts.actors.kill("", KillActor(row.key, no_restart=True))
    for group in world.parts.groups.all():
        if group.spec["detached"]:
            world.parts.groups._remove(group.id)


def run(plan: Plan) -> Outcome:
    """Run a plan, and return how it has ended. The error is empty if all invariants held."""
    return in_world(plan.seed, lambda world: _play(world, plan))


def in_world(seed: str, play: Callable[[World], Coroutine[Any, Any, None]]) -> Outcome:
    """Let something happen in a new world, and return how it has ended."""
    loop = VirtualLoop()
    asyncio.set_event_loop(loop)
    worlds: list[World] = []
    errors: list[str] = []

    async def body() -> None:
        world = World(seed)
        worlds.append(world)
        _log_to(world.errors)
        try:
            await play(world)
        finally:
            world.close()

    try:
        loop.run_until_complete(body())
        if worlds[0].errors.records:
            errors.append(f"The scheduler has logged an error: {worlds[0].errors.records[0]}")
    except Broken as broken:
        errors.append(str(broken))
    except NothingScheduled:
        errors.append("the event loop would wait for ever")
    except Exception as error:
        errors.append("".join(traceback.format_exception(error)))
    finally:
        _close(loop)
    world = worlds[0]
    return Outcome(
        errors[0] if errors else "",
        world.history,
        world.num_steps,
        world.network.num_messages,
        loop.num_events,
    )


def _log_to(handler: logging.Handler) -> None:
    """Let a handler get what all loggers log; Dask's have a separate one."""
    for name in ("", "distributed"):
        logging.getLogger(name).handlers[:] = [handler]


def _close(loop: VirtualLoop) -> None:
    tasks = asyncio.all_tasks(loop)
    for task in tasks:
        task.cancel()
    _log_to(logging.NullHandler())
    loop.set_exception_handler(lambda *_: None)
    if tasks:
        loop.run_until_complete(asyncio.wait(tasks, timeout=1))
    loop.close()
    asyncio.set_event_loop(None)
    gc.collect()


def shrink(plan: Plan, error_of: Callable[[Plan], str]) -> Plan:
    """Return a plan with as few steps as possible that still fails."""
    steps = list(plan.steps)
    size = max(1, len(steps) // 2)
    while True:
        index = 0
        while index < len(steps):
            fewer = tuple(steps[:index] + steps[index + size :])
            smaller = replace(plan, steps=fewer)
            if error_of(smaller):
                steps = list(fewer)
            else:
                index += size
        if size == 1:
            break
        size //= 2
    return replace(plan, steps=tuple(steps))
