"""Processes that programs fork: they do not use the connections of the process from which they come."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import subprocess
import sys
import time

import pytest

import raycompat as ray

pytestmark = pytest.mark.usefixtures("cluster")

_fork = multiprocessing.get_context("fork")


@ray.remote
def number(value):
    return value


@ray.remote(num_cpus=0)
def late_item():
    time.sleep(600)
    yield 1


@ray.remote(num_cpus=0)
class Notes:
    def __init__(self):
        self.notes = []

    def add(self, note):
        self.notes.append(note)
        return self.notes


def in_child(operation):
    """Return the error of an operation in a forked process."""
    receiving, sending = _fork.Pipe(duplex=False)

    def run():
        try:
            operation()
        except BaseException as error:
            sending.send((type(error), str(error)))
        else:
            sending.send((None, ""))

    process = _fork.Process(target=run)
    process.start()
    assert receiving.poll(30), "the child waits"
    process.join()
    return receiving.recv()


async def result_of(awaitable):
    return await awaitable


OPERATIONS = {
    "await": lambda things: asyncio.run(result_of(things["ref"])),
    "await an item": lambda things: asyncio.run(result_of(anext(things["items"]))),
    "call a function": lambda things: number.remote(1),
    "call a method": lambda things: things["notes"].add.remote("of the child"),
    "cancel": lambda things: ray.cancel(things["ref"]),
    "create an actor": lambda things: Notes.remote(),
    "future": lambda things: things["ref"].future(),
    "get": lambda things: ray.get(things["ref"]),
    "kill": lambda things: ray.kill(things["notes"]),
    "next": lambda things: next(things["items"]),
    "nodes": lambda things: ray.nodes(),
    "put": lambda things: ray.put(1),
    "wait": lambda things: ray.wait([things["ref"]]),
}


@pytest.mark.parametrize("operation", OPERATIONS.values(), ids=OPERATIONS)
def test_a_child_of_the_driver_has_no_session(operation):
    notes = Notes.remote()
    assert ray.get(notes.add.remote("of the driver")) == ["of the driver"]
    items = late_item.remote()
    things = {"notes": notes, "ref": ray.put(bytes(1_000_000)), "items": items}
    kind, text = in_child(lambda: operation(things))
    assert kind is ray.exceptions.RaySystemError
    assert "is a fork of process" in text or "not been started" in text
    assert ray.get(notes.add.remote("later"), timeout=30) == ["of the driver", "later"]
    ray.cancel(items)


NORMAL_EXIT = """
import os, sys
import raycompat as ray

ray.init(num_cpus=1, include_dashboard=False, configure_logging=False)

@ray.remote(scheduling_strategy="SPREAD")  # so that the scheduler places it
def number(value):
    return value

ref = ray.put(bytes(1_000_000))
for value in range(3):
    child = os.fork()
    if not child:
        sys.exit(7)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    print(code, ray.get(number.remote(value), timeout=30), len(ray.get(ref)), flush=True)
"""


def test_a_child_may_exit_normally():
    command = [sys.executable, "-W", "ignore", "-c", NORMAL_EXIT]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == [f"7 {value} 1000000" for value in range(3)]


def test_a_child_may_have_its_own_session():
    def begin_and_call():
        with ray.init(local_mode=True, configure_logging=False):
            assert ray.get(number.remote(3)) == 3

    assert in_child(begin_and_call) == (None, "")
    assert ray.get(number.remote(4)) == 4


def fork(end):
    """Fork a process that ends as `end` does, and return its exit code."""
    child = os.fork()
    if not child:
        end()
        return "of the child"
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def raises():
    raise ValueError("in the child")


ENDS = {"return": (lambda: None, 0), "raise": (raises, 1), "sys.exit": (lambda: sys.exit(3), 3)}


@pytest.mark.parametrize(("end", "code"), ENDS.values(), ids=ENDS)
@pytest.mark.parametrize(
    "options", [{"num_cpus": 1}, {"scheduling_strategy": "SPREAD"}], ids=["lease", "scheduler"]
)
def test_a_child_of_a_task_ends_where_it_leaves_the_function(end, code, options):
    task = ray.remote(**options)(fork)
    assert ray.get([task.remote(end), number.remote(5)], timeout=60) == [code, 5]


@pytest.mark.parametrize("is_async", [False, True], ids=["in order", "in a loop"])
@pytest.mark.parametrize(("end", "code"), ENDS.values(), ids=ENDS)
def test_a_child_of_an_actor_ends_where_it_leaves_the_method(end, code, is_async):
    class Parent:
        def fork(self, end):
            return fork(end)

        def process(self):
            return os.getpid()

    class AsyncParent(Parent):
        async def wait(self):
            pass

    parent = ray.remote(AsyncParent if is_async else Parent).remote()
    process = ray.get(parent.process.remote())
    assert ray.get(parent.fork.remote(end), timeout=60) == code
    assert ray.get(parent.process.remote(), timeout=60) == process


@pytest.mark.parametrize("is_method", [False, True], ids=["task", "method"])
def test_a_child_of_a_generator_yields_no_items(is_method):
    def items():
        child = os.fork()
        yield child == 0
        if child:
            yield os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])

    class Parent:
        def items(self):
            yield from items()

    parent = ray.remote(Parent).remote() if is_method else None
    generator = parent.items.remote() if parent else ray.remote(items).remote()
    assert ray.get(list(generator), timeout=60) == [False, 0]
