"""What type checkers make of actors: mypy checks the program below, `assert_type` and all."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path
from typing import Any, assert_type

from mypy import api

import raycompat as ray
from raycompat.actor import ActorClass, ActorHandle, ActorProxy
from raycompat.object_ref import ObjectRef, ObjectRefGenerator


class Counter:
    def __init__(self, start: int = 0) -> None:
        self.value = start

    @ray.method
    def add(self, by: int = 1) -> int:
        self.value += by
        return self.value

    @ray.method
    async def wait(self, name: str) -> bytes:
        return name.encode()

    @ray.method
    def count(self, number: int) -> Generator[int, None, None]:
        yield from range(number)


class Greeter:
    @ray.method
    def greet(self, name: str, *, loudly: bool = False) -> str:
        return name.upper() if loudly else name


# As a decorator of the class too, but that mypy does not follow (pyright does).
RemoteCounter = ray.remote(Counter)
RemoteGreeter = ray.remote(num_cpus=0)(Greeter)


def checked(given: ActorHandle[Counter]) -> ActorHandle[Counter]:
    """Never runs: mypy reads it."""
    assert_type(ray.put(3), ObjectRef[int])
    assert_type(ray.get(ray.put("a")), str)
    assert_type(ray.get([ray.put("a")]), list[str])
    assert_type(RemoteCounter, ActorClass[Counter])
    greeter = RemoteGreeter.options(name="greeter").remote()
    assert_type(greeter.greet.remote("me", loudly=True), ObjectRef[str])
    assert_type(greeter.greet.remote(ray.put("me")), ObjectRef[str])
    assert_type(ray.get(greeter.greet.remote("me")), str)
    counter = RemoteCounter.remote(5)
    assert_type(counter, ActorProxy[Counter])
    assert_type(counter.add.remote(2), ObjectRef[int])
    assert_type(counter.add.remote(), ObjectRef[int])
    assert_type(counter.add.remote(by=3), ObjectRef[int])
    assert_type(counter.wait.remote("x"), ObjectRef[bytes])
    assert_type(ray.get(counter.wait.remote("x")), bytes)
    assert_type(counter.count.remote(3), ObjectRefGenerator)
    counter.add.remote("2")  # type: ignore[call-overload]
    greeter.greet.remote(7)  # type: ignore[call-overload]
    counter.subtract.remote(2)  # type: ignore[union-attr]
    return given


def test_mypy_agrees_with_every_line() -> None:
    output, errors, status = api.run(
        ["--strict", "--no-incremental", "--follow-imports=silent", str(Path(__file__))]
    )
    assert (status, errors) == (0, ""), output


def test_a_bare_decorator_changes_nothing() -> None:
    def add(self: object, by: int) -> int:
        return by

    decorate: Any = ray.method
    assert decorate(add) is add


def test_classes_and_handles_take_a_type() -> None:
    assert str(ActorClass[Counter]).endswith("Counter]")
    assert str(ActorHandle[Counter]).endswith("Counter]")
