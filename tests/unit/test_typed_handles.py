"""What type checkers make of remote functions, actors and configs of algorithms.

They check this module, `assert_type` and all.

`make lint` checks it with mypy, after the package, so that the types are in the cache. A test here checks it with
pyright.
"""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from collections.abc import Generator
from pathlib import Path
from typing import Any, assert_type

import pytest

import raycompat as ray
from raycompat.actor import ActorClass, ActorHandle, ActorProxy
from raycompat.object_ref import ObjectRef, ObjectRefGenerator
from raycompat.rllib.algorithms.algorithm_config import AlgorithmConfig
from raycompat.rllib.algorithms.cql import CQL, CQLConfig
from raycompat.rllib.algorithms.ppo import PPO, PPOConfig
from raycompat.rllib.results import ResultDict


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


# mypy does not follow decorators of classes; pyright does: see PROGRAM_OF_PYRIGHT.
RemoteCounter = ray.remote(Counter)
RemoteGreeter = ray.remote(num_cpus=0)(Greeter)


@ray.remote
def square(number: int) -> int:
    return number * number


@ray.remote(num_cpus=0.5, max_retries=2)
def joined(first: str, second: str, *, by: str = "") -> str:
    return first + by + second


@ray.remote
def up_to(number: int) -> Generator[int, None, None]:
    yield from range(number)


@ray.remote(num_returns=2)
def halves(text: str) -> tuple[str, str]:
    middle = len(text) // 2
    return text[:middle], text[middle:]


def check_functions() -> None:
    """Never runs: type checkers read it."""
    assert_type(square.remote(2), ObjectRef[int])
    assert_type(square.remote(number=2), ObjectRef[int])
    assert_type(square.remote(square.remote(2)), ObjectRef[int])
    assert_type(ray.get(square.remote(2)), int)
    assert_type(ray.get([square.remote(number) for number in range(3)]), list[int])
    assert_type(square.options(num_cpus=2).remote(2), ObjectRef[int])
    assert_type(joined.remote("a", "b", by="-"), ObjectRef[str])
    assert_type(joined.remote("a", ray.put("b"), by="-"), ObjectRef[str])
    assert_type(joined.remote(first=ray.put("a"), second=ray.put("b")), ObjectRef[str])
    assert_type(up_to.remote(3), ObjectRefGenerator)
    assert_type(halves.remote("text"), Any)
    assert_type(square.options(num_returns=2).remote(2), Any)
    assert_type(ray.wait([square.remote(2)]), tuple[list[ObjectRef[int]], list[ObjectRef[int]]])
    number: ObjectRef[float] = square.remote(2)
    square.remote("2")  # type: ignore[call-overload]
    joined.remote("a", 2)  # type: ignore[call-overload]
    joined.remote("a", "b", with_="-")  # type: ignore[call-overload]
    square.options(num_cpus=2).remote("2")  # type: ignore[call-overload]
    square.options(num_cpu=2)  # type: ignore[call-overload]
    square.options(num_cpus="2")  # type: ignore[call-overload]
    RemoteGreeter.options(lifetime="long")  # type: ignore[arg-type]
    ray.remote(max_restart=1)  # type: ignore[call-overload]
    del number


def check_actors(given: ActorHandle[Counter]) -> ActorHandle[Counter]:
    """Never runs: type checkers read it."""
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


#: What mypy cannot follow: a class with a decorator.
PROGRAM_OF_PYRIGHT = """
from typing import assert_type

import raycompat as ray


@ray.remote
class Counter:
    @ray.method
    def add(self, by: int = 1) -> int:
        return by


@ray.remote(num_cpus=0)
class Greeter:
    @ray.method
    def greet(self, name: str) -> str:
        return name


assert_type(Counter.remote().add.remote(2), ray.ObjectRef[int])
assert_type(ray.get(Greeter.options(name="one").remote().greet.remote("me")), str)
Counter.remote().add.remote("2")  # type: ignore
Greeter.remote().salute.remote("me")  # type: ignore
"""


@pytest.mark.skipif(
    importlib.util.find_spec("basedpyright") is None, reason="basedpyright is not installed"
)
def check_algorithms() -> None:
    """A config makes the algorithm that it is of, whatever was set before."""
    config = PPOConfig().environment("CartPole-v1").training(lr=0.1)
    assert_type(config.build_algo(), PPO)
    assert_type(config.build(env="CartPole-v1").train(), ResultDict)
    assert_type(CQLConfig().build_algo(), CQL)
    assert_type(AlgorithmConfig().build_algo(), Any)


def test_pyright_agrees_with_every_line(tmp_path: Path) -> None:
    """Pyright is installed as basedpyright, which needs no further download."""
    of_classes = tmp_path / "classes.py"
    of_classes.write_text(PROGRAM_OF_PYRIGHT)
    options = {
        "include": [str(Path(__file__)), str(of_classes)],
        "typeCheckingMode": "strict",
        # An error that is expected and does not come is an error too.
        "reportUnnecessaryTypeIgnoreComment": "error",
        "enableTypeIgnoreComments": True,
    }
    (tmp_path / "pyrightconfig.json").write_text(json.dumps(options))
    done = subprocess.run(
        [sys.executable, "-m", "basedpyright", "--pythonpath", sys.executable]
        + ["--project", str(tmp_path), "--outputjson"],
        capture_output=True,
        text=True,
    )
    found = json.loads(done.stdout)
    messages = [
        (each["file"], each["range"], each["message"]) for each in found["generalDiagnostics"]
    ]
    assert (messages, done.returncode) == ([], 0)
    assert found["summary"]["filesAnalyzed"] == 2


def test_a_bare_decorator_changes_nothing() -> None:
    def add(self: object, by: int) -> int:
        return by

    decorate: Any = ray.method
    assert decorate(add) is add


def test_classes_and_handles_take_a_type() -> None:
    assert str(ActorClass[Counter]).endswith("Counter]")
    assert str(ActorHandle[Counter]).endswith("Counter]")
