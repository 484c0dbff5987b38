"""The code in executors: remote functions and actors that make blocks.

Each call returns a `TaskOutput`, small, for the driver, and then blocks, which stay where they are
made.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pyarrow as pa

import raycompat as ray
from raycompat.data import block
from raycompat.data.block import Block, BlockMetadata
from raycompat.object_ref import ObjectRef

if TYPE_CHECKING:
    from raycompat.data.datasource import ReadTask
    from raycompat.data.transform import Transform


@dataclass
class TaskOutput:
    """A task's report to the driver.

    Parameters
    ----------
    blocks : list of BlockMetadata
        One for each block that the task returns, and then one for each of `more`.
    wall_s, cpu_s : float
        Seconds that the task took.
    more : list of ObjectRef
        Blocks beyond those that the task returns itself.
    is_end : bool
        Whether a reader has reached its end.
    value : object
        The result of a task that makes no blocks.
    """

    blocks: list[BlockMetadata] = field(default_factory=list)
    wall_s: float = 0.0
    cpu_s: float = 0.0
    more: list[ObjectRef[Block]] = field(default_factory=list)
    is_end: bool = True
    value: Any = None


class _Clock:
    def __init__(self) -> None:
        self._wall, self._cpu = time.perf_counter(), time.process_time()

    def output(self, blocks: list[BlockMetadata], **more: Any) -> TaskOutput:
        wall, cpu = time.perf_counter() - self._wall, time.process_time() - self._cpu
        return TaskOutput(blocks, wall, cpu, **more)


def _collected(tables: Iterable[Block], files: list[str] | None) -> tuple[TaskOutput, Block]:
    """Return the first block; put those that follow into the store, one by one."""
    clock = _Clock()
    iterator = iter(tables)
    first = next(iterator, None)
    first = pa.table({}) if first is None else block.compact(first)
    blocks, more = [block.metadata_of(first, files)], []
    for table in iterator:
        blocks.append(block.metadata_of(table, files))
        more.append(ray.put(block.compact(table)))
    return clock.output(blocks, more=more), first


@ray.remote(num_returns=2)
def map_blocks(transform: Transform, *tables: Block) -> tuple[TaskOutput, Block]:
    """Run the steps of an operator on some blocks."""
    return _collected(transform.load()(tables), [])


@ray.remote(num_returns=2)
def read(task: ReadTask, transform: Transform) -> tuple[TaskOutput, Block]:
    """Run a read task, and the steps of an operator on its blocks."""
    return _collected(transform.load()(task()), task.metadata.input_files)


@ray.remote(num_returns=2)
def make_block(function: Callable[..., Block], *args: Any) -> tuple[TaskOutput, Block]:
    """Call a function that returns one block."""
    clock = _Clock()
    table = block.compact(function(*args))
    return clock.output([block.metadata_of(table)]), table


@ray.remote(num_returns=2)
def make_blocks(function: Callable[..., Iterable[Block]], *args: Any) -> tuple[TaskOutput, Block]:
    """Call a function that returns blocks."""
    return _collected(function(*args), [])


@ray.remote
def partition(function: Callable[..., list[Block]], num_parts: int, *args: Any) -> tuple[Any, ...]:
    """Call a function that returns `num_parts` blocks: it needs one ``num_returns`` more."""
    clock = _Clock()
    parts = [block.compact(part) for part in function(*args)]
    return (clock.output([block.metadata_of(part) for part in parts]), *parts)


@ray.remote
def examine(function: Callable[..., Any], *args: Any) -> TaskOutput:
    """Call a function that makes no block."""
    clock = _Clock()
    value = function(*args)
    return clock.output([], value=value)


class MapActor:
    """Runs the steps of an operator, loaded once: their classes are constructed here."""

    def __init__(self, transform: Transform) -> None:
        self._run = transform.load()

    @ray.method(num_returns=2)
    def map_blocks(self, *tables: Block) -> tuple[TaskOutput, Block]:
        """Run the steps on some blocks."""
        return _collected(self._run(tables), [])


class ReadActor:
    """Reads parts larger than a block, one block in each call, so that the reading can be paused."""

    def __init__(self, task: ReadTask, transform: Transform) -> None:
        self._files = task.metadata.input_files
        self._task, self._transform = task, transform
        self._blocks: Iterator[Block] | None = None
        self._next = 0

    @ray.method(num_returns=2)
    def read_block(self, index: int) -> tuple[TaskOutput, Block]:
        """Return block number `index`; a process that was started again passes over those before it."""
        clock = _Clock()
        if self._blocks is None or index != self._next:
            self._blocks = itertools.islice(self._transform.load()(self._task()), index, None)
        self._next = index + 1
        table = next(self._blocks, None)
        if table is None:
            return clock.output([]), pa.table({})
        return clock.output([block.metadata_of(table, self._files)], is_end=False), block.compact(
            table
        )
