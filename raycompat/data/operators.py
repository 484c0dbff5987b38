"""Operators: state machines that determine the next tasks, without threads or timing.

An operator takes bundles, offers tasks that can run, and gets their results. `Execution` decides which
of them run, and when.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

from raycompat.data.block import Bundle
from raycompat.data.stats import OperatorStats
from raycompat.data.tasks import BLOCKS_AHEAD, TaskOutput

if TYPE_CHECKING:
    from raycompat.object_ref import ObjectRefGenerator

#: Bytes of blocks that a task is expected to make as long as none was made.
_UNKNOWN_BYTES = 16 * 2**20


#: A call that was made: the references that it returns, or its generator of them.
Called: TypeAlias = "Sequence[Any] | ObjectRefGenerator"

#: Makes a call.
Submit: TypeAlias = Callable[[], "Called"]


@dataclass
class Task:
    """A call that can be made.

    Parameters
    ----------
    submit : callable
        Makes the call; returns the generator of its blocks, each followed by its `BlockReport`, or the
        reference of its `TaskOutput`, and then those of its blocks.
    inputs : list of Bundle
        The inputs of the call, to estimate its memory.
    slot : int
        The position of its blocks in the operator's output.
    on_worker : object
        The actor that it runs on, if any.
    """

    submit: Submit
    inputs: list[Bundle] = field(default_factory=list)
    slot: int = 0
    on_worker: Any = None
    operator: Any = None


class OrderedOutputs:
    """Bundles in the order of the tasks that make them, whatever the order in which these end."""

    def __init__(self) -> None:
        self.ready: deque[Bundle] = deque()
        self._waiting: dict[int, list[Bundle]] = {}
        self._closed: set[int] = set()
        self._current = 0

    def append(self, slot: int, bundles: Sequence[Bundle]) -> None:
        """Enter bundles for a slot."""
        if slot == self._current:
            self.ready.extend(bundles)
        else:
            self._waiting.setdefault(slot, []).extend(bundles)

    def close(self, slot: int) -> None:
        """Enter that a slot gets no more."""
        self._closed.add(slot)
        while self._current in self._closed:
            self._closed.remove(self._current)
            self._current += 1
            self.ready.extend(self._waiting.pop(self._current, ()))

    def awaits(self, slot: int) -> bool:
        """Return whether the next bundle is one of this slot."""
        return slot == self._current and not self.ready

    @property
    def num_rows(self) -> int:
        """Rows of all bundles here."""
        waiting = sum(b.num_rows for each in self._waiting.values() for b in each)
        return waiting + sum(bundle.num_rows for bundle in self.ready)

    @property
    def size_bytes(self) -> int:
        """Bytes of all bundles here."""
        waiting = sum(b.size_bytes for each in self._waiting.values() for b in each)
        return waiting + sum(bundle.size_bytes for bundle in self.ready)

    def __len__(self) -> int:
        return len(self.ready) + sum(map(len, self._waiting.values()))


class Operator:
    """The common part of all operators; this one passes its input on."""

    #: Whether it needs all its input before its first output: then its input does not count as flow.
    is_barrier = False

    #: Whether its tasks call functions of users.
    calls_functions = False

    def __init__(self, name: str, num_ports: int = 1, cpus: float = 0.0) -> None:
        self.name = name
        self.cpus = cpus
        self.inputs: list[deque[Bundle]] = [deque() for _ in range(num_ports)]
        self.closed = [False] * num_ports
        self.outputs = OrderedOutputs()
        self.num_running = 0
        #: How many of these wait, because their blocks are not taken.
        self.num_paused = 0
        self.num_ended = 0
        self.stats = OperatorStats(name)
        self._num_slots = 0
        #: Set by the execution: the operator that takes the output, its port; the operators before it.
        self.downstream: tuple[Operator, int] | None = None
        self.upstream: list[Operator] = []
        #: Set by the execution: called, in any thread, when `has_task` may have changed by itself.
        self.wake: Callable[[], None] = lambda: None

    def add(self, port: int, bundle: Bundle) -> None:
        """Take a bundle."""
        self.inputs[port].append(bundle)
        self.step()

    def close(self, port: int) -> None:
        """Take the end of an input."""
        if not self.closed[port]:
            self.closed[port] = True
            self.step()

    def step(self) -> None:
        """Process new input, as far as no task is necessary."""
        while self.inputs[0]:
            self.outputs.ready.append(self.inputs[0].popleft())

    def has_task(self) -> bool:
        """Whether `next_task` would return one."""
        return False

    def next_task(self) -> Task:
        """Return a task to run; call it only when there is one."""
        raise LookupError(f"{self.name} has no task")

    def add_output(self, task: Task, bundle: Bundle) -> None:
        """Store a block that a task has made."""
        self.outputs.append(task.slot, [bundle])

    def end_task(self, task: Task, output: TaskOutput) -> None:
        """Note that a task has made all of its blocks."""
        self.outputs.close(task.slot)

    @property
    def holds_output(self) -> bool:
        """Whether it needs all of what its tasks make now, before it passes on anything."""
        return False

    def admits(self, port: int) -> bool:
        """Whether input for a port is wanted now."""
        return True

    @property
    def wants_no_more(self) -> bool:
        """Return whether further input would be dropped."""
        return False

    def has_enough_in(self, outputs: OrderedOutputs) -> bool:
        """Return whether it would drop all that comes after these outputs of the operator before it."""
        return False

    @property
    def has_all_input(self) -> bool:
        """Return whether its input has ended and nothing waits."""
        return all(self.closed) and not any(self.inputs)

    @property
    def is_finished(self) -> bool:
        """Whether everything has been made and taken."""
        return self.has_all_input and not self.num_running and not len(self.outputs)

    @property
    def held_bytes(self) -> int:
        """Bytes of the bundles that wait here."""
        waiting = 0 if self.is_barrier else sum(b.size_bytes for q in self.inputs for b in q)
        return waiting + self.outputs.size_bytes

    @property
    def expected_bytes(self) -> int:
        """Bytes of blocks that one more task is expected to have at a time."""
        stats = self.stats
        if stats.num_blocks:
            ahead = BLOCKS_AHEAD * stats.size_bytes // stats.num_blocks
            return min(ahead, stats.size_bytes // self.num_ended) if self.num_ended else ahead
        waiting = next((queue[0].size_bytes for queue in self.inputs if queue), 0)
        return waiting or _UNKNOWN_BYTES

    def stop(self) -> None:
        """Drop the waiting input, and accept no more."""
        for queue in self.inputs:
            queue.clear()
        self.closed = [True] * len(self.closed)
        self.outputs = OrderedOutputs()

    def release(self) -> None:
        """Release its actors."""

    def _slot(self) -> int:
        self._num_slots += 1
        return self._num_slots - 1


class InputOperator(Operator):
    """Starts with existing bundles."""

    def __init__(self, bundles: Sequence[Bundle]) -> None:
        super().__init__("Input", num_ports=0)
        self.outputs.ready.extend(bundles)

    def step(self) -> None:
        """Do nothing: it has no input."""

    @property
    def held_bytes(self) -> int:
        """0, because the data set itself holds the blocks."""
        return 0


class MapOperator(Operator):
    """Makes a task of each bundle, or of several bundles that together fill a batch."""

    calls_functions = True

    def __init__(
        self,
        name: str,
        submit: Callable[[int, list[Bundle]], Called],
        *,
        cpus: float = 1.0,
        min_rows: int = 1,
        limit: int | None = None,
    ) -> None:
        super().__init__(name, cpus=cpus)
        self._submit = submit
        self._min_rows = min_rows
        self._limit = limit
        self._groups: deque[list[Bundle]] = deque()
        self._group: list[Bundle] = []

    def step(self) -> None:
        """Put bundles together."""
        while self.inputs[0]:
            self._group.append(self.inputs[0].popleft())
            if sum(bundle.num_rows for bundle in self._group) >= self._min_rows:
                self._groups.append(self._group)
                self._group = []
        if self.closed[0] and self._group:
            self._groups.append(self._group)
            self._group = []

    def has_task(self) -> bool:
        """Whether bundles wait, and another task may run."""
        return bool(self._groups) and (self._limit is None or self.num_running < self._limit)

    def next_task(self) -> Task:
        """Return the task for the next bundles."""
        group, slot = self._groups.popleft(), self._slot()
        return Task(lambda: self._submit(slot, group), group, slot)

    @property
    def has_all_input(self) -> bool:
        """Return whether its input has ended and nothing waits."""
        return super().has_all_input and not self._groups and not self._group

    @property
    def held_bytes(self) -> int:
        """Bytes of the bundles that wait here."""
        groups = [*self._groups, self._group]
        return super().held_bytes + sum(b.size_bytes for group in groups for b in group)

    @property
    def expected_bytes(self) -> int:
        """Bytes of blocks that one more task is expected to have at a time."""
        if not self.stats.num_blocks and self._groups:
            return sum(bundle.size_bytes for bundle in self._groups[0])
        return super().expected_bytes

    def stop(self) -> None:
        """Drop the waiting input."""
        super().stop()
        self._groups.clear()
        self._group = []


class ReadOperator(Operator):
    """Makes a task of each read task."""

    def __init__(
        self,
        name: str,
        calls: Sequence[Submit],
        *,
        cpus: float = 1.0,
        limit: int | None = None,
        calls_functions: bool = False,
    ) -> None:
        super().__init__(name, num_ports=0, cpus=cpus)
        self.calls_functions = calls_functions
        self._calls = calls
        self._limit = limit

    def step(self) -> None:
        """Do nothing: it has no input."""

    def has_task(self) -> bool:
        """Whether something is to be read, and another task may run."""
        return not self.has_all_input and (self._limit is None or self.num_running < self._limit)

    def next_task(self) -> Task:
        """Return the next read task."""
        slot = self._slot()
        return Task(self._calls[slot], slot=slot)

    @property
    def has_all_input(self) -> bool:
        """Whether everything is being read."""
        return self._num_slots >= len(self._calls)

    def stop(self) -> None:
        """Read nothing more."""
        super().stop()
        self._num_slots = len(self._calls)


#: Yields lists of tasks and is sent their results; returns bundles, or None if the output consists of
#: the bundles of the last tasks.
Stages: TypeAlias = Generator[
    "Stage", "list[tuple[TaskOutput, list[Bundle]]]", "list[Bundle] | None"
]


@dataclass
class Stage:
    """Independent tasks; the next stage starts when all have ended."""

    tasks: list[Task]
    is_last: bool = False


class StagedOperator(Operator):
    """Needs all its input first: sort, shuffle, groupby, repartition, zip."""

    is_barrier = True

    def __init__(
        self, name: str, stages: Callable[..., Stages], num_ports: int = 1, cpus: float = 1.0
    ) -> None:
        super().__init__(name, num_ports, cpus)
        self._make_stages = stages
        self._stages: Stages | None = None
        self._tasks: deque[Task] = deque()
        self._results: list[object] = []
        #: The blocks of the tasks of a stage, by their slots.
        self._made: dict[int, list[Bundle]] = {}
        self._num_missing = 0
        self._is_last = False
        self._is_over = False

    def step(self) -> None:
        """Start when all input has arrived."""
        if all(self.closed) and self._stages is None and not self._is_over:
            bundles = [list(queue) for queue in self.inputs]
            for queue in self.inputs:
                queue.clear()
            self._stages = self._make_stages(*bundles)
            self._advance(None)

    def _advance(self, results: Any) -> None:
        assert self._stages is not None
        try:
            stage = self._stages.send(results)
            while not stage.tasks:
                stage = self._stages.send([])
        except StopIteration as end:
            self._is_over, self._stages = True, None
            self.outputs.ready.extend(end.value or ())
            return
        for slot, task in enumerate(stage.tasks):
            task.slot = slot
        self._tasks.extend(stage.tasks)
        self._num_missing = len(stage.tasks)
        self._results = [None] * len(stage.tasks)
        self._is_last = stage.is_last
        stage.tasks.clear()

    def has_task(self) -> bool:
        """Return whether a task of the stage has not started."""
        return bool(self._tasks)

    def next_task(self) -> Task:
        """Return the next task of the stage."""
        return self._tasks.popleft()

    @property
    def holds_output(self) -> bool:
        """Whether a later stage needs what the tasks make now."""
        return not self._is_last

    def add_output(self, task: Task, bundle: Bundle) -> None:
        """Store a block: those of the last stage are the output."""
        if self._is_last:
            super().add_output(task, bundle)
        else:
            self._made.setdefault(task.slot, []).append(bundle)

    def end_task(self, task: Task, output: TaskOutput) -> None:
        """Store the result of a task; start the next stage after the last one."""
        if self._is_last:
            super().end_task(task, output)
        else:
            self._results[task.slot] = (output, self._made.pop(task.slot, []))
        self._num_missing -= 1
        if not self._num_missing:
            results, self._results = self._results, []
            self._advance(results)

    @property
    def has_all_input(self) -> bool:
        """Whether the last stage has ended."""
        return self._is_over

    def stop(self) -> None:
        """Make nothing more."""
        super().stop()
        self._is_over, self._stages = True, None
        self._tasks.clear()
        self._results = []
        self._made.clear()

    @property
    def expected_bytes(self) -> int:
        """Bytes of the input of the next task."""
        return sum(b.size_bytes for b in self._tasks[0].inputs) if self._tasks else 0


class UnionOperator(Operator):
    """Hands on all of its first input, then all of the second, and so on."""

    def __init__(self, num_ports: int) -> None:
        super().__init__("Union", num_ports)
        self._port = 0

    def step(self) -> None:
        """Pass on the bundles that are next in order."""
        while self._port < len(self.inputs):
            queue = self.inputs[self._port]
            self.outputs.ready.extend(queue)
            queue.clear()
            if not self.closed[self._port]:
                return
            self._port += 1

    def admits(self, port: int) -> bool:
        """Whether a port has its turn."""
        return port <= self._port


class LimitOperator(Operator):
    """Passes on the first rows, and then needs no more."""

    def __init__(self, limit: int, cut: Callable[[Bundle, int], Sequence[object]]) -> None:
        super().__init__(f"limit={limit}", cpus=1.0)
        self._missing = limit
        self._cut = cut
        self._last: Bundle | None = None
        self._num_rows = 0

    def step(self) -> None:
        """Hand on blocks as long as they are wanted as a whole."""
        while self.inputs[0]:
            bundle = self.inputs[0].popleft()
            if not self._missing:
                continue
            if bundle.num_rows <= self._missing:
                self._missing -= bundle.num_rows
                slot = self._slot()
                self.outputs.append(slot, [bundle])
                self.outputs.close(slot)
            else:
                self._last, self._num_rows = bundle, self._missing
                self._missing = 0

    def has_task(self) -> bool:
        """Whether a block is to be cut."""
        return self._last is not None

    def next_task(self) -> Task:
        """Return the task that cuts the last block."""
        assert self._last is not None
        last, num_rows, self._last = self._last, self._num_rows, None
        return Task(lambda: self._cut(last, num_rows), [last], self._slot())

    @property
    def wants_no_more(self) -> bool:
        """Whether all rows are there."""
        return not self._missing

    def has_enough_in(self, outputs: OrderedOutputs) -> bool:
        """Return whether the rows that wait, some of them for an earlier block, are enough."""
        return outputs.num_rows >= self._missing

    @property
    def has_all_input(self) -> bool:
        """Return whether enough rows have arrived, or the input has ended."""
        return self._last is None and (not self._missing or super().has_all_input)
