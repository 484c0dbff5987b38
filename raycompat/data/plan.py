"""Plans: the steps of a data set, and how operators are made from them.

A plan is a tree of nodes that do nothing. `operators` makes the operators of an execution of it; maps
that run in tasks with equal options become one operator, together with the read before them.
"""

from __future__ import annotations

import abc
import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa

import raycompat as ray
from raycompat.data import frames, options, tasks
from raycompat.data.block import Bundle
from raycompat.data.compute import (
    ActorMapOperator,
    ActorPoolStrategy,
    TaskPoolStrategy,
    room_for_actors,
)
from raycompat.data.context import DataContext
from raycompat.data.datasource import ReadTask
from raycompat.data.mixing import MixOperator, MixStoppingCondition
from raycompat.data.operators import (
    InputOperator,
    LimitOperator,
    MapOperator,
    Operator,
    ReadOperator,
    StagedOperator,
    Stages,
    UnionOperator,
)
from raycompat.data.pushdown import Uses, uses_of
from raycompat.data.readers import FileRead
from raycompat.data.schema import fitted, united
from raycompat.data.storable import shown_schema
from raycompat.data.transform import CutRows, Step, Transform, columns_after, keeps_rows
from raycompat.exceptions import UnsupportedRayFeatureError
from raycompat.util._internal_actors import internal_actor

if TYPE_CHECKING:
    from raycompat.data.block import Block

_TASKS = TaskPoolStrategy()


class Node(abc.ABC):
    """A step of a plan."""

    @property
    def inputs(self) -> tuple[Node, ...]:
        """The steps that it takes blocks from."""
        return ()

    @property
    def text(self) -> str:
        """How a plan shows it."""
        return str(getattr(self, "name", type(self).__name__))

    def columns(self) -> pa.Schema | None:
        """Return the columns of its rows, if they are known without executing it."""
        return None

    def num_rows(self) -> int | None:
        """Return how many rows it makes, if that is known without executing it."""
        return None

    def has_blocks(self) -> bool:
        """Return whether its sources have blocks, with rows or without."""
        return any(each.has_blocks() for each in self.inputs)

    def fused(self) -> Node:
        """Return an equal plan in which a read and maps that can run in one task are one."""
        if not self.inputs:
            return self
        return self.with_inputs(tuple(each.fused() for each in self.inputs))

    @abc.abstractmethod
    def with_inputs(self, inputs: tuple[Node, ...]) -> Node:
        """Return the same step of other steps."""

    @abc.abstractmethod
    def operator(self, context: DataContext, execution: int) -> Operator:
        """Return its operator in an execution."""


class _Source(Node):
    """A step without inputs."""

    def with_inputs(self, inputs: tuple[Node, ...]) -> Node:
        """Return the same step of other steps."""
        return self


@dataclass(frozen=True)
class Input(_Source):
    """Blocks that are there."""

    bundles: Sequence[Bundle]

    def columns(self) -> pa.Schema | None:
        """Return the columns, if they are known now."""
        return _united([bundle.metadata.schema for bundle in self.bundles])

    def num_rows(self) -> int | None:
        """Return the number of rows, if it is known now."""
        return sum(bundle.num_rows for bundle in self.bundles)

    def has_blocks(self) -> bool:
        """Return whether it has blocks."""
        return bool(self.bundles)

    def operator(self, context: DataContext, execution: int) -> Operator:
        """Return its operator in an execution."""
        return InputOperator(self.bundles)


def _united(schemas: Sequence[pa.Schema | None]) -> pa.Schema | None:
    found = [schema for schema in schemas if schema is not None and len(schema)]
    return shown_schema(united(found)) if found else None


@dataclass(frozen=True)
class Read(_Source):
    """Parts of a data source."""

    name: str
    read_tasks: Sequence[ReadTask]
    compute: TaskPoolStrategy = _TASKS
    remote_args: Mapping[str, object] = field(default_factory=dict)
    #: Returns the read tasks of the execution of a number, where they are different in each.
    in_execution: Callable[[int], Sequence[ReadTask]] | None = None
    #: Those of the maps that the same task does.
    steps: tuple[Step, ...] = ()

    @property
    def text(self) -> str:
        """How a plan shows it."""
        uses = uses_of(self.steps)
        return (
            f"{self.name} [{uses}]"
            if uses and any(map(_can_narrow, self.read_tasks))
            else self.name
        )

    def columns(self) -> pa.Schema | None:
        """Return the columns, if they are known now."""
        return _united([task.schema for task in self.read_tasks])

    def num_rows(self) -> int | None:
        """Return the number of rows, if it is known now."""
        counts = [task.metadata.num_rows for task in self.read_tasks]
        return None if None in counts else sum(count or 0 for count in counts)

    def has_blocks(self) -> bool:
        """Return whether it has blocks."""
        return bool(self.read_tasks)

    def operator(self, context: DataContext, execution: int) -> Operator:
        """Return its operator in an execution."""
        return _read(self, context, execution)


@dataclass(frozen=True)
class _OfOne(Node):
    """A step of one input."""

    input: Node

    @property
    def inputs(self) -> tuple[Node, ...]:
        """The steps that it takes blocks from."""
        return (self.input,)

    def with_inputs(self, inputs: tuple[Node, ...]) -> Node:
        """Return the same step of other steps."""
        return replace(self, input=inputs[0])


@dataclass(frozen=True)
class Map(_OfOne):
    """Steps on each block."""

    name: str
    steps: tuple[Step, ...]
    compute: TaskPoolStrategy | ActorPoolStrategy = _TASKS
    remote_args: Mapping[str, object] = field(default_factory=dict)
    #: Rows that a task should have at least: those of a batch.
    min_rows: int = 1

    def fused(self) -> Node:
        """Return it in one with the step before it, if both can run in one task."""
        before = self.input.fused()
        if not isinstance(before, Map | Read) or not _can_fuse(before, self):
            return replace(self, input=before)
        return replace(before, name=f"{before.name}->{self.name}", steps=before.steps + self.steps)

    def columns(self) -> pa.Schema | None:
        """Return the columns, if they are known now."""
        known = self.input.columns()
        for step in self.steps:
            known = None if known is None else columns_after(step, known)
        return known

    def num_rows(self) -> int | None:
        """Return the number of rows, if it is known now."""
        if all(keeps_rows(step) for step in self.steps) and self.columns() is not None:
            return self.input.num_rows()
        return None

    def operator(self, context: DataContext, execution: int) -> Operator:
        """Return its operator in an execution."""
        return _map(self, context, execution)


@dataclass(frozen=True)
class Limit(_OfOne):
    """The first rows."""

    limit: int

    @property
    def text(self) -> str:
        """How a plan shows it."""
        return f"limit={self.limit}"

    def columns(self) -> pa.Schema | None:
        """Return the columns, if they are known now."""
        return self.input.columns()

    def num_rows(self) -> int | None:
        """Return the number of rows, if it is known now."""
        rows = self.input.num_rows()
        return None if rows is None else min(rows, self.limit)

    def operator(self, context: DataContext, execution: int) -> Operator:
        """Return its operator in an execution."""
        return LimitOperator(self.limit, _cut)


@dataclass(frozen=True)
class _OfSeveral(Node):
    """A step of several inputs."""

    of: tuple[Node, ...]

    @property
    def inputs(self) -> tuple[Node, ...]:
        """The steps that it takes blocks from."""
        return self.of

    def with_inputs(self, inputs: tuple[Node, ...]) -> Node:
        """Return the same step of other steps."""
        return replace(self, of=inputs)


@dataclass(frozen=True)
class AllToAll(_OfSeveral):
    """A step that needs all blocks before its first output."""

    name: str
    stages: Callable[..., Stages]
    #: Whether `stages` takes the number of the execution before the bundles, for its random numbers.
    is_random: bool = False

    def operator(self, context: DataContext, execution: int) -> Operator:
        """Return its operator in an execution."""
        stages = functools.partial(self.stages, execution) if self.is_random else self.stages
        return StagedOperator(self.name, stages, len(self.of))


class Rearranged(AllToAll):
    """The same rows in other blocks or in another order."""

    def columns(self) -> pa.Schema | None:
        """Return the columns, if they are known now."""
        return self.of[0].columns()

    def num_rows(self) -> int | None:
        """Return the number of rows, if it is known now."""
        return self.of[0].num_rows()


class Sorted(Rearranged):
    """The same rows, sorted: these blocks are Arrow's, without a record of types of pandas."""

    def columns(self) -> pa.Schema | None:
        """Return the columns, if they are known now."""
        known = super().columns()
        return None if known is None else known.remove_metadata()


class Zip(AllToAll):
    """The columns of several side by side."""

    def columns(self) -> pa.Schema | None:
        """Return the columns, if they are known now."""
        known = [each.columns() for each in self.of]
        if None in known:
            return None
        tables = (schema.empty_table() for schema in known if schema is not None)
        return functools.reduce(frames.side_by_side, tables).schema


@dataclass(frozen=True)
class Union(_OfSeveral):
    """The blocks of several, one after the other."""

    def columns(self) -> pa.Schema | None:
        """Return the columns, if they are known now, in types that fit the blocks of all."""
        known = [each.columns() for each in self.of]
        found = [schema for schema in known if schema is not None]
        if len(found) < len(known) or fitted(found) is None:
            return None
        return _united(found)

    def operator(self, context: DataContext, execution: int) -> Operator:
        """Return its operator in an execution."""
        return UnionOperator(len(self.of))


@dataclass(frozen=True)
class Mix(_OfSeveral):
    """The blocks of several in turn, by weights."""

    weights: tuple[float, ...]
    condition: MixStoppingCondition

    def operator(self, context: DataContext, execution: int) -> Operator:
        """Return its operator in an execution."""
        return MixOperator(self.weights, self.condition)


def has_input(node: Node) -> bool:
    """Return whether a plan has blocks among its sources."""
    return isinstance(node, Input) or any(map(has_input, node.inputs))


def lines_of(node: Node, level: int = 0) -> list[str]:
    """Return a line for each node of a tree, the last one first."""
    indent = "   " * (level - 1) + "+- " if level else ""
    below = [line for each in node.inputs for line in lines_of(each, level + 1)]
    return [indent + node.text, *below]


def _can_fuse(before: Map | Read, after: Map) -> bool:
    """Whether both run in tasks alike, and the blocks between them need not be put together."""
    return (
        isinstance(before.compute, TaskPoolStrategy)
        and before.compute == after.compute
        and before.remote_args == after.remote_args
        and after.min_rows <= 1
        and not any(isinstance(step, CutRows) for step in before.steps)
    )


def operators(plan: Node, context: DataContext) -> list[Operator]:
    """Return the operators of a plan, connected, the sink last."""
    made: list[Operator] = []
    execution = context._num_executions

    def make(node: Node) -> Operator:
        upstream = [make(each) for each in node.inputs]
        operator = node.operator(context, execution)
        operator.upstream = upstream
        for port, each in enumerate(upstream):
            each.downstream = (operator, port)
        made.append(operator)
        return operator

    make(plan.fused())
    return made


def _cut(bundle: Bundle, num_rows: int) -> Sequence[Any]:
    refs: Sequence[object] = tasks.make_block.remote(_first_rows, num_rows, bundle.ref)
    return refs


def _first_rows(num_rows: int, table: Block) -> Block:
    return table.slice(0, num_rows)


def _refuse_limits(name: str, fixed: Mapping[str, object], context: DataContext) -> None:
    """Raise an error where limits leave less GPUs or memory than the cluster has to tasks that ask."""
    limits = context.execution_options
    for option, resource, key in (("num_gpus", "gpu", "GPU"), ("memory", "memory", "memory")):
        if not fixed.get(option):
            continue
        limit, excluded = (
            getattr(each, resource) for each in (limits.resource_limits, limits.exclude_resources)
        )
        present = ray.cluster_resources().get(key, 0.0)
        if min(limit, present) - excluded < present:
            raise UnsupportedRayFeatureError(
                f"A limit of {resource} in ExecutionOptions, for {name} with {option}={fixed[option]}",
                f"executions can only be limited in CPUs and object_store_memory, not in {resource}",
                "remove the limit, and pass concurrency to the method to say how many tasks or actors "
                "run at a time",
            )


def _map(node: Map, context: DataContext, execution: int) -> Operator:
    transform = ray.put(Transform(node.steps, context.target_max_block_size, execution))
    fixed, of_each = options.split(node.remote_args)
    _refuse_limits(node.name, fixed, context)
    if isinstance(node.compute, ActorPoolStrategy):
        retries = {"max_restarts": 4, "max_task_retries": 4}

        def start() -> Any:
            given = {**retries, **tasks.unless_named(), **fixed, **of_each()}
            return internal_actor(tasks.MapActor).options(**given).remote(transform)

        room = functools.partial(room_for_actors, fixed)
        return ActorMapOperator(node.name, start, node.compute, room, node.min_rows)

    def submit(number: int, bundles: list[Bundle]) -> Any:
        function = tasks.map_blocks.options(**{"name": node.name, **fixed, **of_each()})
        return function.remote(transform, number, *(bundle.ref for bundle in bundles))

    return MapOperator(
        node.name,
        submit,
        cpus=fixed.get("num_cpus", 1.0),
        min_rows=node.min_rows,
        limit=node.compute.size,
    )


def _read(node: Read, context: DataContext, execution: int) -> Operator:
    transform = ray.put(Transform(node.steps, context.target_max_block_size, execution))
    fixed, of_each = options.split(node.remote_args)
    _refuse_limits(node.name, fixed, context)
    function = tasks.read.options(**{"name": node.name, **fixed, **of_each()})
    read_tasks = node.in_execution(execution) if node.in_execution else node.read_tasks
    uses = uses_of(node.steps)
    calls = [
        functools.partial(function.remote, _narrowed(each, uses), transform, number)
        for number, each in enumerate(read_tasks)
    ]
    cpus = fixed.get("num_cpus", 1.0)
    return ReadOperator(
        node.name, calls, cpus=cpus, limit=node.compute.size, calls_functions=bool(node.steps)
    )


def _can_narrow(task: ReadTask) -> bool:
    """Return whether a task reads files of a format in which columns or rows can be left out."""
    is_whole = task.per_task_row_limit is None
    return is_whole and isinstance(task.read_fn, FileRead) and task.read_fn.can_narrow


def _narrowed(task: ReadTask, uses: Uses) -> ReadTask:
    """Return a task that may leave out what is not used."""
    if not uses or not _can_narrow(task):
        return task
    return ReadTask(replace(task.read_fn, uses=uses), task.metadata, task.schema)  # type: ignore[type-var]
