"""A small language of programs that use Ray, and two machines that run them: a cluster, and Python.

A program is data: what it does with references is the same on both machines, and so is what it
shows. The bodies of tasks and actors' methods are programs of the same language, run by the same
`Run`. Indices are taken modulo what there is, so that every program means something.
"""

from __future__ import annotations

import hashlib
import random
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

import raycompat as ray

#: Seconds after which a missing value counts as lost.
GET_S = 30.0
#: Characters of a digest that are still read by people; longer ones are hashed.
READABLE = 300


class Oops(Exception):
    """What programs raise."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


@dataclass(frozen=True)
class Box:
    """A user's own type with something inside."""

    content: Any


# --- how values are made ------------------------------------------------------------------------


@dataclass(frozen=True)
class Number:
    value: int


@dataclass(frozen=True)
class Array:
    """Of 64-bit integers; from 12,800 on it is large."""

    length: int
    fill: int


@dataclass(frozen=True)
class Items:
    specs: tuple[Any, ...]


@dataclass(frozen=True)
class Named:
    """A dict."""

    specs: tuple[Any, ...]


@dataclass(frozen=True)
class Boxed:
    spec: Any


@dataclass(frozen=True)
class Ref:
    """One of the references at hand; as a top-level argument it is resolved."""

    index: int


@dataclass(frozen=True)
class Local:
    """One of the values at hand: arguments, what `Get` got, what an actor keeps."""

    index: int


@dataclass(frozen=True)
class Digest:
    """All that a value says, references followed; an error is part of it, or is raised."""

    spec: Any
    is_tolerant: bool


# --- what programs do ---------------------------------------------------------------------------


@dataclass(frozen=True)
class Body:
    """A task: what it does, then what it returns, one value for each spec, or raises."""

    steps: tuple[Any, ...]
    returns: tuple[Any, ...]
    raises: int | None = None


@dataclass(frozen=True)
class Put:
    spec: Any


@dataclass(frozen=True)
class Call:
    body: Body
    args: tuple[Any, ...]


@dataclass(frozen=True)
class Stream:
    """Call a generator and take some references from it; the rest is dropped."""

    body: Body
    args: tuple[Any, ...]
    num_taken: int


@dataclass(frozen=True)
class Drop:
    index: int


@dataclass(frozen=True)
class Forget:
    """Drop one of the values, with the references inside."""

    index: int


@dataclass(frozen=True)
class Get:
    """Get a value, keep it, and have the references inside at hand."""

    index: int


@dataclass(frozen=True)
class Show:
    """Get values at once and say what they are."""

    indices: tuple[int, ...]


@dataclass(frozen=True)
class Wait:
    num_returns: int
    timeout: float | None


@dataclass(frozen=True)
class NewActor:
    arg: Any


@dataclass(frozen=True)
class DropActor:
    index: int


@dataclass(frozen=True)
class Keep:
    """Give a value to an actor, which keeps it."""

    index: int
    slot: int
    arg: Any


@dataclass(frozen=True)
class Give:
    """Get the values that an actor keeps."""

    index: int
    slot: int


@dataclass(frozen=True)
class Empty:
    """Make an actor drop all values that it keeps."""

    index: int


@dataclass(frozen=True)
class Method:
    """Run a body in an actor, with the values that it keeps at hand."""

    index: int
    body: Body
    args: tuple[Any, ...]


@dataclass(frozen=True)
class HandOver:
    """Let an actor give the values that it keeps to another one; then the program continues."""

    index: int
    slot: int
    other: int


@dataclass(frozen=True)
class Through:
    """Pass the handle to a task, which calls the actor's method; wait for the result."""

    index: int
    slot: int
    arg: Any


# --- the meaning --------------------------------------------------------------------------------


def refs_in(value: Any, is_ref: Callable[[Any], bool]) -> Iterator[Any]:
    if is_ref(value):
        yield value
    elif isinstance(value, list | tuple):
        for item in value:
            yield from refs_in(item, is_ref)
    elif isinstance(value, dict):
        yield from refs_in(list(value.values()), is_ref)
    elif isinstance(value, Box):
        yield from refs_in(value.content, is_ref)


class Run:
    """A program being run: by the driver, in a task, or in an actor."""

    def __init__(self, machine: Cluster | Python, values: list[Any]) -> None:
        self.machine = machine
        self.values = list(values)
        self.refs = list(refs_in(self.values, machine.is_ref))
        self.actors: list[Any] = []
        self.shown: list[str] = []

    def steps(self, steps: tuple[Any, ...]) -> None:
        for step in steps:
            getattr(self, type(step).__name__.lower())(step)

    def tolerant_steps(self, steps: tuple[Any, ...]) -> list[str]:
        """Do all steps; what one raises is part of what the program shows."""
        for step in steps:
            try:
                self.steps((step,))
            except Oops as error:
                self.shown.append(said(error))
        return self.shown

    def body(self, body: Body) -> Iterator[Any]:
        self.steps(body.steps)
        for spec in body.returns:
            yield self.build(spec)
        if body.raises is not None:
            raise Oops(body.raises)

    # values

    def build(self, spec: Any) -> Any:
        match spec:
            case Number(value):
                return value
            case Array(length, fill):
                return np.arange(length, dtype=np.int64) * fill
            case Items(specs):
                return [self.build(each) for each in specs]
            case Named(specs):
                return {f"item {n}": self.build(each) for n, each in enumerate(specs)}
            case Boxed(inner):
                return Box(self.build(inner))
            case Ref(index):
                return self.ref(index)
            case Local(index):
                return pick(self.values, index)
            case Digest(inner, is_tolerant):
                return self.digest(self.build(inner), is_tolerant, {})
        raise AssertionError(spec)

    def ref(self, index: int) -> Any:
        if not self.refs:
            self.refs.append(self.machine.put(index))
        return pick(self.refs, index)

    def actor(self, index: int) -> Any:
        if not self.actors:
            self.actors.append(self.machine.actor([index]))
        return pick(self.actors, index)

    def build_all(self, specs: tuple[Any, ...]) -> list[Any]:
        return [self.build(spec) for spec in specs]

    def digest(self, value: Any, is_tolerant: bool, known: dict[Any, str]) -> str:
        def inner(items: Any) -> str:
            return ", ".join(self.digest(item, is_tolerant, known) for item in items)

        if self.machine.is_ref(value):
            if value not in known:
                try:
                    known[value] = f"->{self.digest(self.machine.get(value), is_tolerant, known)}"
                except Oops as error:
                    if not is_tolerant:
                        raise
                    known[value] = said(error)
            return known[value]
        if isinstance(value, np.ndarray):
            return f"array {value.dtype} {len(value)} {zlib.crc32(value.tobytes()):x}"
        if isinstance(value, list | tuple):
            text = f"{type(value).__name__}({inner(value)})"
        elif isinstance(value, dict):
            text = f"dict({', '.join(value)}: {inner(value.values())})"
        elif isinstance(value, Box):
            text = f"Box({inner([value.content])})"
        else:
            text = repr(value)
        return text if len(text) <= READABLE else hashlib.sha1(text.encode()).hexdigest()

    # steps

    def put(self, step: Put) -> None:
        value = self.build(step.spec)
        self.refs.append(self.machine.put([value] if self.machine.is_ref(value) else value))

    def call(self, step: Call) -> None:
        self.refs += self.machine.call(step.body, self.build_all(step.args))

    def stream(self, step: Stream) -> None:
        args = self.build_all(step.args)
        self.refs += self.machine.stream(step.body, args, step.num_taken)

    def drop(self, step: Drop) -> None:
        drop(self.refs, step.index)

    def forget(self, step: Forget) -> None:
        drop(self.values, step.index)

    def get(self, step: Get) -> None:
        value = self.machine.get(self.ref(step.index))
        self.values.append(value)
        self.refs += refs_in(value, self.machine.is_ref)

    def show(self, step: Show) -> None:
        refs = [self.ref(index) for index in step.indices]
        try:
            self.machine.get_all(refs)
        except Oops:
            self.shown.append("raised one of the errors")  # of the task that was faster
        for ref in refs:
            self.shown.append(self.digest(ref, True, {}))

    def wait(self, step: Wait) -> None:
        different = list(dict.fromkeys(self.refs))
        if different:
            number = step.num_returns % len(different) + 1
            self.machine.wait(different, number, step.timeout)

    def newactor(self, step: NewActor) -> None:
        value = self.build(step.arg)
        # In a list: an actor whose constructor fails is another story.
        self.actors.append(self.machine.actor([value]))

    def dropactor(self, step: DropActor) -> None:
        drop(self.actors, step.index)

    def keep(self, step: Keep) -> None:
        args = [step.slot, self.build(step.arg)]
        self.refs += self.machine.method(self.actor(step.index), "keep", args)

    def give(self, step: Give) -> None:
        self.refs += self.machine.method(self.actor(step.index), "give", [step.slot])

    def empty(self, step: Empty) -> None:
        self.refs += self.machine.method(self.actor(step.index), "empty", [])

    def method(self, step: Method) -> None:
        args = [step.body, *self.build_all(step.args)]
        actor, number = self.actor(step.index), len(step.body.returns)
        self.refs += self.machine.method(actor, "run", args, number)

    def handover(self, step: HandOver) -> None:
        actor, other = self.actor(step.index), self.actor(step.other)
        if actor is not other:
            self.wait_for_calls_of(other)
            [done] = self.machine.method(actor, "hand_over", [step.slot, other])
            self.machine.get(done)

    def through(self, step: Through) -> None:
        actor, arg = self.actor(step.index), self.build(step.arg)
        self.wait_for_calls_of(actor)
        self.machine.get(self.machine.through(actor, step.slot, arg))

    def wait_for_calls_of(self, actor: Any) -> None:
        """Wait until the actor has done what we asked for: another caller's calls may pass ours."""
        [done] = self.machine.method(actor, "give", [0])
        self.machine.get(done)


def pick(items: list[Any], index: int) -> Any:
    return items[index % len(items)] if items else None


def drop(items: list[Any], index: int) -> None:
    if items:
        del items[index % len(items)]


def said(error: Oops) -> str:
    """Return the same for the error itself and for the one that carries it."""
    cause = getattr(error, "cause", error)
    return f"raised {type(cause).__name__}({cause.number})"


class Keeper:
    """The actor of the programs, of both machines."""

    def __init__(self, machine: Cluster | Python, content: list[Any]) -> None:
        self.machine = machine
        self.slots: list[Any] = [content, None, None]

    def keep(self, slot: int, value: Any) -> int:
        self.slots[slot] = value
        return slot

    def give(self, slot: int) -> Any:
        return self.slots[slot]

    def empty(self) -> None:
        self.slots = [None, None, None]

    def run(self, body: Body, *args: Any) -> Any:
        return results(Run(self.machine, [*self.slots, *args]).body(body))

    def hand_over(self, slot: int, other: Any) -> None:
        # In a list, so that a value that is a reference stays one.
        [done] = self.machine.method(other, "keep", [slot, [self.slots[slot]]])
        self.machine.get(done)


def results(values: Iterator[Any]) -> Any:
    """Return what a task returns: the one value, or several."""
    all_values = list(values)
    return all_values[0] if len(all_values) == 1 else tuple(all_values)


# --- the cluster --------------------------------------------------------------------------------


class Cluster:
    """Runs programs with Ray."""

    @staticmethod
    def is_ref(value: Any) -> bool:
        return isinstance(value, ray.ObjectRef)

    @staticmethod
    def put(value: Any) -> Any:
        return ray.put(value)

    @staticmethod
    def get(ref: Any) -> Any:
        return ray.get(ref, timeout=GET_S)

    @staticmethod
    def get_all(refs: list[Any]) -> list[Any]:
        return ray.get(refs, timeout=GET_S)

    @staticmethod
    def wait(refs: list[Any], num_returns: int, timeout: float | None) -> None:
        ready, rest = ray.wait(refs, num_returns=num_returns, timeout=timeout)
        assert len(ready) <= num_returns
        assert timeout is not None or len(ready) == num_returns
        assert set(ready) | set(rest) == set(refs)
        assert len(ready) + len(rest) == len(refs)

    @staticmethod
    def call(body: Body, args: list[Any]) -> list[Any]:
        return as_list(_task.options(num_returns=len(body.returns)).remote(body, *args))

    @staticmethod
    def stream(body: Body, args: list[Any], num_taken: int) -> list[Any]:
        generator = _generator.remote(body, *args)
        return [ref for _, ref in zip(range(num_taken), generator, strict=False)]

    @staticmethod
    def actor(content: list[Any]) -> Any:
        return _Actor.remote(CLUSTER, content)

    @staticmethod
    def method(actor: Any, name: str, args: list[Any], num_returns: int = 1) -> list[Any]:
        method = getattr(actor, name).options(num_returns=num_returns)
        return as_list(method.remote(*args))

    @staticmethod
    def through(actor: Any, slot: int, arg: Any) -> Any:
        return _through.remote(actor, slot, arg)


CLUSTER = Cluster()


def as_list(refs: Any) -> list[Any]:
    return refs if isinstance(refs, list) else [refs]


@ray.remote
def _task(body: Body, *args: Any) -> Any:
    return results(Run(CLUSTER, list(args)).body(body))


@ray.remote(num_returns="streaming")
def _generator(body: Body, *args: Any) -> Any:
    yield from Run(CLUSTER, list(args)).body(body)


@ray.remote
def _through(actor: Any, slot: int, arg: Any) -> None:
    ray.get(actor.keep.remote(slot, [arg]))


_Actor = ray.remote(Keeper)


# --- the oracle ---------------------------------------------------------------------------------


class Known:
    """A reference of the oracle: the value is there, or the error."""

    def __init__(self, value: Any = None, error: Oops | None = None) -> None:
        self.value, self.error = value, error


class Python:
    """Runs programs at once, in this process."""

    @staticmethod
    def is_ref(value: Any) -> bool:
        return isinstance(value, Known)

    @staticmethod
    def put(value: Any) -> Any:
        return Known(value)

    @staticmethod
    def get(ref: Known) -> Any:
        if ref.error is not None:
            raise ref.error
        return ref.value

    def get_all(self, refs: list[Known]) -> list[Any]:
        return [self.get(ref) for ref in refs]

    def wait(self, refs: list[Known], num_returns: int, timeout: float | None) -> None:
        pass

    def _resolved(self, args: list[Any]) -> list[Any]:
        return [self.get(arg) if self.is_ref(arg) else arg for arg in args]

    def _known(self, function: Callable[[list[Any]], Any], args: list[Any], number: int = 1) -> Any:
        try:
            value = function(self._resolved(args))
        except Oops as error:
            return [Known(error=error) for _ in range(number)]
        return [Known(value)] if number == 1 else [Known(each) for each in value]

    def call(self, body: Body, args: list[Any]) -> list[Known]:
        return self._known(lambda a: results(Run(self, a).body(body)), args, len(body.returns))

    def stream(self, body: Body, args: list[Any], num_taken: int) -> list[Known]:
        made: list[Known] = []
        try:
            made.extend(Known(value) for value in Run(self, self._resolved(args)).body(body))
        except Oops as error:
            made.append(Known(error=error))
        return made[:num_taken]

    def actor(self, content: list[Any]) -> Keeper:
        return Keeper(self, content)

    def method(
        self, actor: Keeper, name: str, args: list[Any], num_returns: int = 1
    ) -> list[Known]:
        return self._known(lambda a: getattr(actor, name)(*a), args, num_returns)

    def through(self, actor: Keeper, slot: int, arg: Any) -> Known:
        [done] = self._known(lambda a: actor.keep(slot, [a[0]]), [arg])
        return done


@dataclass(frozen=True)
class Program:
    """What the driver does, and which of what is left then it gets, in which order."""

    steps: tuple[Any, ...]
    num_last: int
    order: int

    def run(self, machine: Cluster | Python) -> list[str]:
        run = Run(machine, [])
        run.tolerant_steps(self.steps)
        random.Random(self.order).shuffle(run.refs)
        for _ in range(min(self.num_last, len(run.refs))):
            run.shown.append(run.digest(run.refs.pop(), True, {}))
        return run.shown
