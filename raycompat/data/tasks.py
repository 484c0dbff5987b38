"""The code in executors: remote functions and actors that make blocks.

A task that makes blocks is a generator: each block goes on as soon as it is made, and a `BlockReport`
for the driver follows it. If the driver takes none, the task waits after `BLOCKS_AHEAD` of them. The
blocks stay where they are made. The tasks that make a known number of blocks return a `TaskOutput`, and
then the blocks.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

import pyarrow as pa

import raycompat as ray
from raycompat.data import block, frames
from raycompat.data.block import Block, BlockMetadata
from raycompat.data.storable import storable

if TYPE_CHECKING:
    from raycompat.data.datasource import ReadTask
    from raycompat.data.transform import Transform
    from raycompat.remote_function import RemoteFunction

#: Blocks of a task that the driver has not taken: the task makes one while another one waits.
BLOCKS_AHEAD = 2

#: The option for it: a block and its report are two objects.
_AHEAD: dict[str, Any] = {"_generator_backpressure_num_objects": 2 * BLOCKS_AHEAD}


class _DataFunction:
    """A remote function of data sets; see `share_cpus`."""

    def __init__(
        self, function: RemoteFunction[..., Any], options: Mapping[str, Any] | None = None
    ) -> None:
        self._function, self._options = function, dict(options or {})

    def options(self, **options: object) -> _DataFunction:
        """Return the function with options."""
        return _DataFunction(self._function, {**self._options, **options})

    def remote(self, *args: object) -> Any:
        """Call it in a task."""
        options: dict[str, Any] = {**unless_named(), **self._options}
        return (self._function.options(**options) if options else self._function).remote(*args)


#: Whether what the thread of an execution starts takes no CPU.
_shares_cpus: ContextVar[bool] = ContextVar("raycompat_data_shares_cpus", default=False)


def share_cpus(when: bool) -> None:
    """Let what this thread starts take no CPU, if placement groups hold all of them.

    The workers of a training run hold their CPUs until they have read their data. A read that waited
    for one of these CPUs would wait forever.

    Parameters
    ----------
    when : bool
        Whether tasks and actors take no CPU. Those that name their CPUs take them in any case.
    """
    _shares_cpus.set(when)


def unless_named() -> dict[str, object]:
    """Return the options of a task or an actor that names none."""
    return {"num_cpus": 0} if _shares_cpus.get() else {}


@dataclass
class BlockReport:
    """A task's report to the driver on the block before it.

    Parameters
    ----------
    metadata : BlockMetadata
    wall_s, cpu_s : float
        Seconds since the block before, or since the begin of the task.
    """

    metadata: BlockMetadata
    wall_s: float
    cpu_s: float


@dataclass
class TaskOutput:
    """A task's report to the driver, before the blocks that it returns.

    Parameters
    ----------
    blocks : list of BlockMetadata
        One for each block.
    wall_s, cpu_s : float
        Seconds that the task took.
    value : object
        The result of a task that makes no blocks.
    """

    blocks: list[BlockMetadata] = field(default_factory=list)
    wall_s: float = 0.0
    cpu_s: float = 0.0
    value: Any = None


#: What a task yields: blocks, and after each its report.
Made: TypeAlias = Iterator["Block | BlockReport"]


class _Clock:
    def __init__(self) -> None:
        self._wall, self._cpu = time.perf_counter(), time.process_time()

    def lap(self) -> tuple[float, float]:
        """Return the seconds since the last call of this, or since the begin, and begin again."""
        wall, cpu = self._wall, self._cpu
        self._wall, self._cpu = time.perf_counter(), time.process_time()
        return self._wall - wall, self._cpu - cpu

    def output(self, blocks: list[BlockMetadata], value: object = None) -> TaskOutput:
        return TaskOutput(blocks, *self.lap(), value)


def _streamed(tables: Iterable[Block], files: list[str] | None) -> Made:
    """Yield each table with its report; an empty one if there is none."""
    clock, is_empty = _Clock(), True
    for table in tables:
        is_empty = False
        metadata = block.metadata_of(table, files)
        yield block.compact(table)
        del table  # the next one may need the room
        yield BlockReport(metadata, *clock.lap())
    if is_empty:
        table = pa.table({})
        yield table
        yield BlockReport(block.metadata_of(table, files), *clock.lap())


@_DataFunction
@ray.remote(**_AHEAD)
def map_blocks(transform: Transform, number: int, *tables: Block) -> Made:
    """Run the steps of an operator on some blocks, in its task of a number."""
    yield from _streamed(transform.load()(number, tables), [])


@_DataFunction
@ray.remote(**_AHEAD)
def read(task: ReadTask, transform: Transform, number: int) -> Made:
    """Run a read task, and the steps of an operator on its blocks, in its task of a number."""
    tables = (frames.unrecorded(storable(table)) for table in task())
    yield from _streamed(transform.load()(number, tables), task.metadata.input_files)


@_DataFunction
@ray.remote(num_returns=2)
def make_block(function: Callable[..., Block], *args: object) -> tuple[TaskOutput, Block]:
    """Call a function that returns one block."""
    clock = _Clock()
    table = block.compact(function(*args))
    return clock.output([block.metadata_of(table)]), table


@_DataFunction
@ray.remote(**_AHEAD)
def make_blocks(function: Callable[..., Iterable[Block]], *args: object) -> Made:
    """Call a function that returns blocks."""
    yield from _streamed(function(*args), [])


@_DataFunction
@ray.remote
def partition(
    function: Callable[..., list[Block]], num_parts: int, *args: object
) -> tuple[TaskOutput | Block, ...]:
    """Call a function that returns `num_parts` blocks: it needs one ``num_returns`` more."""
    clock = _Clock()
    parts = [block.compact(part) for part in function(*args)]
    return (clock.output([block.metadata_of(part) for part in parts]), *parts)


@_DataFunction
@ray.remote
def examine(function: Callable[..., object], *args: object) -> TaskOutput:
    """Call a function that makes no block."""
    clock = _Clock()
    value = function(*args)
    return clock.output([], value)


class MapActor:
    """Runs the steps of an operator, loaded once: their classes are constructed here."""

    def __init__(self, transform: Transform) -> None:
        self._run = transform.load()

    @ray.method(**_AHEAD)
    def map_blocks(self, number: int, *tables: Block) -> Made:
        """Run the steps on some blocks, in the operator's task of a number."""
        yield from _streamed(self._run(number, tables), [])
