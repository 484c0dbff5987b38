"""Plans: the steps of a data set, and how operators are made from them.

A plan is a tree of nodes that do nothing. `operators` makes the operators of an execution of it; maps
that run in tasks with equal options become one operator, together with the read before them.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

import raycompat as ray
from raycompat.data import options, tasks
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
from raycompat.data.transform import Step, Transform
from raycompat.exceptions import UnsupportedRayFeatureError
from raycompat.util._internal_actors import internal_actor

_TASKS = TaskPoolStrategy()


@dataclass(frozen=True)
class Input:
    """Blocks that are there."""

    bundles: Sequence[Bundle]


@dataclass(frozen=True)
class Read:
    """Parts of a data source."""

    name: str
    read_tasks: Sequence[ReadTask]
    compute: TaskPoolStrategy = _TASKS
    remote_args: Mapping[str, Any] = field(default_factory=dict)
    #: Returns the read tasks of the execution of a number, where they are different in each.
    in_execution: Callable[[int], Sequence[ReadTask]] | None = None
    #: Those of the maps that the same task does.
    steps: tuple[Step, ...] = ()


@dataclass(frozen=True)
class Map:
    """Steps on each block."""

    input: Node
    name: str
    steps: tuple[Step, ...]
    compute: TaskPoolStrategy | ActorPoolStrategy = _TASKS
    remote_args: Mapping[str, Any] = field(default_factory=dict)
    #: Rows that a task should have at least: those of a batch.
    min_rows: int = 1


@dataclass(frozen=True)
class AllToAll:
    """A step that needs all blocks before its first output."""

    inputs: tuple[Node, ...]
    name: str
    stages: Callable[..., Stages]
    #: Whether `stages` takes the number of the execution before the bundles, for its random numbers.
    is_random: bool = False


@dataclass(frozen=True)
class Limit:
    """The first rows."""

    input: Node
    limit: int


@dataclass(frozen=True)
class Union:
    """The blocks of several, one after the other."""

    inputs: tuple[Node, ...]


@dataclass(frozen=True)
class Mix:
    """The blocks of several in turn, by weights."""

    inputs: tuple[Node, ...]
    weights: tuple[float, ...]
    condition: MixStoppingCondition


Node: TypeAlias = "Input | Read | Map | AllToAll | Limit | Union | Mix"


def inputs_of(node: Node) -> tuple[Node, ...]:
    """Return the nodes that a node takes its blocks from."""
    if isinstance(node, AllToAll | Union | Mix):
        return node.inputs
    return (node.input,) if isinstance(node, Map | Limit) else ()


def has_blocks(node: Node) -> bool:
    """Return whether a plan's sources have blocks, with rows or without."""
    if isinstance(node, Input):
        return bool(node.bundles)
    return (
        bool(node.read_tasks) if isinstance(node, Read) else any(map(has_blocks, inputs_of(node)))
    )


def has_input(node: Node) -> bool:
    """Return whether a plan has blocks among its sources."""
    return isinstance(node, Input) or any(map(has_input, inputs_of(node)))


def name_of(node: Node) -> str:
    """Return how a node is shown."""
    if isinstance(node, Limit):
        return f"Limit[limit={node.limit}]"
    if (
        isinstance(node, Read)
        and (uses := uses_of(node.steps))
        and any(map(_can_narrow, node.read_tasks))
    ):
        return f"{node.name} [{uses}]"
    return getattr(node, "name", type(node).__name__)


def lines_of(node: Node, level: int = 0) -> list[str]:
    """Return a line for each node of a tree, the last one first."""
    indent = "   " * (level - 1) + "+- " if level else ""
    below = [line for each in inputs_of(node) for line in lines_of(each, level + 1)]
    return [indent + name_of(node), *below]


def fused(node: Node) -> Node:
    """Return an equal plan in which a read and maps that can run in one task are one."""
    if isinstance(node, AllToAll):
        return replace(node, inputs=tuple(map(fused, node.inputs)))
    if isinstance(node, Union):
        return Union(tuple(map(fused, node.inputs)))
    if isinstance(node, Mix):
        return Mix(tuple(map(fused, node.inputs)), node.weights, node.condition)
    if isinstance(node, Limit):
        return Limit(fused(node.input), node.limit)
    if not isinstance(node, Map):
        return node
    before = fused(node.input)
    if not isinstance(before, Map | Read) or not _can_fuse(before, node):
        return replace(node, input=before)
    return replace(before, name=f"{before.name}->{node.name}", steps=before.steps + node.steps)


def _can_fuse(before: Map | Read, after: Map) -> bool:
    """Whether both run in tasks alike, and the blocks between them need not be put together."""
    return (
        isinstance(before.compute, TaskPoolStrategy)
        and before.compute == after.compute
        and before.remote_args == after.remote_args
        and after.min_rows <= 1
    )


def operators(plan: Node, context: DataContext) -> list[Operator]:
    """Return the operators of a plan, connected, the sink last."""
    made: list[Operator] = []
    execution = context._num_executions

    def make(node: Node) -> Operator:
        upstream = [make(each) for each in inputs_of(node)]
        operator = _operator(node, context, execution)
        operator.upstream = upstream
        for port, each in enumerate(upstream):
            each.downstream = (operator, port)
        made.append(operator)
        return operator

    make(fused(plan))
    return made


def _operator(node: Node, context: DataContext, execution: int) -> Operator:
    if isinstance(node, Input):
        return InputOperator(node.bundles)
    if isinstance(node, Read):
        return _read(node, context, execution)
    if isinstance(node, Limit):
        return LimitOperator(node.limit, _cut)
    if isinstance(node, Union):
        return UnionOperator(len(node.inputs))
    if isinstance(node, Mix):
        return MixOperator(node.weights, node.condition)
    if isinstance(node, AllToAll):
        stages = functools.partial(node.stages, execution) if node.is_random else node.stages
        return StagedOperator(node.name, stages, len(node.inputs))
    return _map(node, context, execution)


def _cut(bundle: Bundle, num_rows: int) -> Sequence[Any]:
    refs: Sequence[Any] = tasks.make_block.remote(_first_rows, num_rows, bundle.ref)
    return refs


def _first_rows(num_rows: int, table: Any) -> Any:
    return table.slice(0, num_rows)


def _refuse_limits(name: str, fixed: Mapping[str, Any], context: DataContext) -> None:
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
