"""The streaming execution of a plan: tasks run, blocks flow, and memory stays bounded.

A thread of the driver owns the operators. It starts a task when a CPU is free for it and when there is
room for what the task will make: the blocks that wait between operators, and those that running tasks
are expected to make, stay within a budget. The operator nearest to the consumer goes first, and an
operator may fill a share of the budget that grows with its distance from the source. So blocks leave
before more of them are read, and a slow consumer stops the reading.

A task streams its blocks. The thread takes the next one when there is room for it; until then the task
waits, and lends its CPU.

The thread sleeps until a task has made something, the consumer takes a block, or the consumer leaves.
"""

from __future__ import annotations

import functools
import logging
import math
import queue
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import raycompat as ray
from raycompat.data import tasks
from raycompat.data.block import BlockMetadata, Bundle
from raycompat.data.context import DataContext
from raycompat.data.exceptions import mark
from raycompat.data.operators import MapOperator, Operator, ReadOperator, Task
from raycompat.data.progress import ProgressBars
from raycompat.data.stats import ExecutionStats
from raycompat.data.tasks import BlockReport, TaskOutput
from raycompat.object_ref import ObjectRefGenerator
from raycompat.util.placement_group import cpus_of_groups

if TYPE_CHECKING:
    from raycompat.data.block import Block
    from raycompat.object_ref import ObjectRef

_logger = logging.getLogger(__name__)

#: Share of the object store that the blocks of one execution may take.
_SHARE_OF_STORE = 0.25

#: Tasks that are submitted beyond the cluster's CPUs, as a share of these: the next one is there when
#: a CPU becomes free.
_SUBMITTED_AHEAD = 0.5

#: Blocks, for each CPU, that wait or are in the making at most, and the bytes that a block counts at
#: least.
_BLOCKS_A_CPU = 4
_LEAST_BLOCK_BYTES = 32 * 2**20


class Budget:
    """Decides whether a task may start. It knows numbers, no cluster.

    Parameters
    ----------
    num_cpus : float
        CPUs that tasks may take.
    num_bytes : float
        Bytes of blocks that may wait, or be in the making.
    block_bytes : float, optional
        Largest size of a block that the budget may make room for. With it, the budget is that of some
        blocks for each CPU, as large as the operators make them, and `num_bytes` at most. Default: the
        budget is `num_bytes`.
    shares_cpus : bool, optional
        Whether tasks take no CPU, because placement groups hold all. Then they run at once, and none is
        submitted ahead.
    """

    def __init__(
        self,
        num_cpus: float,
        num_bytes: float,
        block_bytes: float | None = None,
        *,
        shares_cpus: bool = False,
    ) -> None:
        self.num_cpus = num_cpus
        self.shares_cpus = shares_cpus
        self.num_bytes = num_bytes
        self._block_bytes = block_bytes

    def limit(self, operators: Sequence[Operator]) -> float:
        """Return the bytes that may wait, or be in the making."""
        if self._block_bytes is None:
            return self.num_bytes
        made = max((each.expected_bytes for each in operators if each.num_ended), default=0)
        size = min(max(made, _LEAST_BLOCK_BYTES), self._block_bytes)
        return min(self.num_bytes, _BLOCKS_A_CPU * self.num_cpus * size)

    def admits(self, operators: Sequence[Operator], index: int, ready_bytes: int) -> bool:
        """Whether the operator at `index`, in order from the sources, may start a task."""
        operator = operators[index]
        running = sum(each.num_running for each in operators)
        if not running and not ready_bytes:
            return True  # of any size, because otherwise nothing would ever run
        cpus = sum((each.num_running - each.num_paused) * each.cpus for each in operators)
        slots = self.num_cpus * (1 if self.shares_cpus else 1 + _SUBMITTED_AHEAD)
        if operator.cpus and cpus + operator.cpus > max(slots, operator.cpus):
            return False
        if _feeds_barrier(operator):
            return True
        held = self._held(operators, index, ready_bytes)
        making = sum(
            each.num_running * each.expected_bytes
            for each in operators[index:]
            if not _feeds_barrier(each)
        )
        return held + making + operator.expected_bytes <= self._share(operators, index)

    def takes(
        self, operators: Sequence[Operator], index: int, ready_bytes: int, is_awaited: bool
    ) -> bool:
        """Whether the next block of a running task may be taken.

        `is_awaited`: it is the next one in the operator's order.
        """
        if _feeds_barrier(operators[index]):
            return True
        held = self._held(operators, index, ready_bytes)
        return (is_awaited and not held) or held <= self._share(operators, index)

    def _held(self, operators: Sequence[Operator], index: int, ready_bytes: int) -> int:
        """Return the bytes of blocks that wait, made by an operator or by those after it.

        The blocks before an operator are not its output: to take them makes room.
        """
        held = ready_bytes + operators[index].outputs.size_bytes
        return held + sum(each.held_bytes for each in operators[index + 1 :])

    def _share(self, operators: Sequence[Operator], index: int) -> float:
        return self.limit(operators) * (index + 1) / len(operators)


def _feeds_barrier(operator: Operator) -> bool:
    """Whether its output is held in any case: by an operator that needs all of it."""
    return operator.holds_output or (
        operator.downstream is not None and operator.downstream[0].is_barrier
    )


@dataclass
class _Running:
    """A task that runs: its call returns a list of references."""

    task: Task
    refs: list[ObjectRef[Any]]


@dataclass
class _Streaming:
    """A task that runs and streams its blocks."""

    task: Task
    items: ObjectRefGenerator
    #: Whether there is something to take: a block, or the end.
    has_news: bool = False
    #: The block whose report is the next item.
    block: ObjectRef[Block] | None = None
    wall_s: float = 0.0
    cpu_s: float = 0.0


_Call: TypeAlias = "_Running | _Streaming"


class Execution:
    """One run of a plan. Iterate over it once, for bundles in order.

    Parameters
    ----------
    operators : sequence of Operator
        In order, the sink last; connected.
    context : DataContext
        Limits.
    keeps_output : bool
        Whether the consumer keeps all blocks, so that unread blocks do not slow the execution.
    """

    def __init__(
        self, operators: Sequence[Operator], context: DataContext, keeps_output: bool = False
    ) -> None:
        self._operators = list(operators)
        self._sink = self._operators[-1]
        self._index = {operator: index for index, operator in enumerate(self._operators)}
        self._keeps_output = keeps_output
        self._context = context
        self._budget = _budget(context)
        self._events: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self._running: dict[int, _Call] = {}
        self._num_tasks = 0
        self._num_errored = 0
        self._ready: deque[Bundle] = deque()
        self._changed = threading.Condition()
        self._is_over = False
        self._is_closed = False
        self._error: BaseException | None = None
        self.stats = ExecutionStats([operator.stats for operator in self._operators])
        self._bars = ProgressBars(self._operators, context)
        for operator in self._operators:
            operator.wake = functools.partial(self._events.put, _nothing)
        self._thread = threading.Thread(target=self._run, name="raycompat-data", daemon=True)
        self._thread.start()

    def __iter__(self) -> Iterator[Bundle]:
        try:
            while (bundle := self._take()) is not None:
                yield bundle
        finally:
            self.close()

    def _take(self) -> Bundle | None:
        with self._changed:
            self._changed.wait_for(lambda: self._ready or self._is_over)
            if self._ready:
                bundle = self._ready.popleft()
                self._events.put(_nothing)
                return bundle
        error = self._error
        if error is not None:
            raise error
        return None

    def close(self) -> None:
        """End the run: cancel its tasks, release its blocks, wait for its thread."""
        with self._changed:
            self._is_closed = True
        self._events.put(_nothing)
        if threading.current_thread() is not self._thread:
            self._thread.join()
        self._ready.clear()

    def _run(self) -> None:
        tasks.share_cpus(self._budget.shares_cpus)
        try:
            while True:
                self._flow()
                while self._take_blocks():
                    self._flow()
                self._start_tasks()
                self._bars.update()
                if self._is_closed or self._sink.is_finished:
                    break
                self._check_progress()
                self._events.get()()
        except BaseException as error:  # the consumer raises it
            self._error = error
        else:
            self._context._note_execution()
        finally:
            self._end()

    def _flow(self) -> None:
        """Move blocks from operator to operator, and to the consumer."""
        for operator in self._operators:
            if operator.downstream is None:
                self._hand_over(operator)
                continue
            following, port = operator.downstream
            while operator.outputs.ready and following.admits(port):
                following.add(port, operator.outputs.ready.popleft())
            if following.wants_no_more:
                self._stop_before(following)
            if operator.is_finished:
                following.close(port)
                operator.release()

    def _hand_over(self, sink: Operator) -> None:
        if sink.wants_no_more:
            self._stop_before(sink)
        if not sink.outputs.ready and not sink.is_finished:
            return
        with self._changed:
            self._ready.extend(sink.outputs.ready)
            sink.outputs.ready.clear()
            self._changed.notify_all()

    def _stop_before(self, operator: Operator) -> None:
        """End the operators that only feed an operator which needs no more input."""
        for port, each in enumerate(operator.upstream):
            if each.is_finished and operator.closed[port]:
                continue
            each.stop()
            self._cancel(each)
            self._stop_before(each)
            operator.close(port)

    def _ready_bytes(self) -> int:
        """Return the bytes that wait for the consumer, whose thread may be taking them now."""
        if self._keeps_output:
            return 0
        with self._changed:
            return sum(bundle.size_bytes for bundle in self._ready)

    def _start_tasks(self) -> None:
        started = True
        while started and not self._is_closed:
            started = False
            ready_bytes = self._ready_bytes()
            for index in reversed(range(len(self._operators))):
                operator = self._operators[index]
                if not operator.has_task() or not self._is_wanted(operator):
                    continue
                if self._budget.admits(self._operators, index, ready_bytes):
                    self._start(operator, operator.next_task())
                    started = True
                    break

    def _is_wanted(self, operator: Operator) -> bool:
        """Return whether later operators need more of this operator's output now."""
        if operator.downstream and operator.downstream[0].has_enough_in(operator.outputs):
            return False
        while operator.downstream is not None:
            following, port = operator.downstream
            if not following.admits(port):
                return False
            operator = following
        return True

    def _start(self, operator: Operator, task: Task) -> None:
        task.operator = operator
        made = task.submit()
        operator.num_running += 1
        number = self._num_tasks
        self._num_tasks += 1
        if isinstance(made, ObjectRefGenerator):
            self._running[number] = streaming = _Streaming(task, made)
            self._await_news(streaming)
        else:
            refs = list(made)
            self._running[number] = _Running(task, refs)
            ended = functools.partial(self._events.put, functools.partial(self._end_task, number))
            refs[0].future().add_done_callback(lambda _: ended())

    def _end_task(self, number: int) -> None:
        """Store a task's result, or raise its error."""
        call = self._running.pop(number, None)
        if not isinstance(call, _Running):
            return  # it was cancelled
        task, refs = call.task, call.refs
        try:
            output: TaskOutput = ray.get(refs[0])
        except BaseException:
            _expect_errors(refs[1:])  # the same error, which is raised once
            raise
        for ref, metadata in zip(refs[1:], output.blocks, strict=False):
            self._add_block(task, ref, metadata)
        self._conclude(task, output)

    def _add_block(self, task: Task, ref: ObjectRef[Block], metadata: BlockMetadata) -> None:
        task.operator.stats.add_block(metadata)
        task.operator.add_output(task, Bundle(ref, metadata))

    def _conclude(self, task: Task, output: TaskOutput) -> None:
        operator: Operator = task.operator
        operator.num_running -= 1
        operator.num_ended += 1
        operator.stats.add_task(output.wall_s, output.cpu_s)
        operator.end_task(task, output)
        operator.step()

    # --- tasks that stream

    def _await_news(self, call: _Streaming) -> None:
        call.has_news = False
        noted = functools.partial(self._events.put, functools.partial(_note_news, call))
        call.items._when_next(noted)

    def _take_blocks(self) -> bool:
        """Take the blocks for which there is room; return whether there were any."""
        took = False
        for operator in self._operators:
            operator.num_paused = 0
        with self._changed:
            ready_bytes = self._ready_bytes()
        for number, call in list(self._running.items()):
            if not isinstance(call, _Streaming) or not call.has_news:
                continue
            task = call.task
            index, awaited = self._index[task.operator], task.operator.outputs.awaits(task.slot)
            if self._budget.takes(self._operators, index, ready_bytes, awaited):
                self._take_next(number, call)
                took = True
            else:
                task.operator.num_paused += 1
        return took

    def _take_next(self, number: int, call: _Streaming) -> None:
        """Take one block with its report, or the end, as far as they are there."""
        while call.items.next_ready():
            ref = next(call.items, None)
            if ref is None:
                self._end_stream(number, call)
                return
            if call.block is None:
                call.block = ref
                continue
            report: BlockReport = ray.get(ref)
            made, call.block = call.block, None
            call.wall_s += report.wall_s
            call.cpu_s += report.cpu_s
            self._add_block(call.task, made, report.metadata)
            call.task.operator.step()
            break
        if not call.items.next_ready():
            self._await_news(call)

    def _end_stream(self, number: int, call: _Streaming) -> None:
        del self._running[number]
        if call.block is not None:
            try:
                self._raise_error(call)
            except ray.exceptions.RayTaskError as error:
                if not self._forgives(call.task.operator):
                    raise
                _logger.warning(
                    "A task of %s failed. Its rows are left out, because max_errored_blocks=%s: %s",
                    call.task.operator.name,
                    self._context.max_errored_blocks,
                    str(error),  # not the error, whose frames hold blocks as long as the record
                )
        self._conclude(call.task, TaskOutput(wall_s=call.wall_s, cpu_s=call.cpu_s))

    def _raise_error(self, call: _Streaming) -> None:
        """Raise the error that a task has ended with."""
        try:
            ray.get(call.block)
        except ray.exceptions.RayTaskError as error:
            if (
                call.task.operator.calls_functions
                and not self._context.raise_original_map_exception
            ):
                mark(error)
            raise

    def _forgives(self, operator: Operator) -> bool:
        """Count a failed task; return whether the execution goes on without its rows."""
        most = self._context.max_errored_blocks
        if not isinstance(operator, MapOperator | ReadOperator):
            return False
        self._num_errored += 1
        return most < 0 or self._num_errored <= most

    def _cancel(self, operator: Operator) -> None:
        for number, call in list(self._running.items()):
            if call.task.operator is operator:
                del self._running[number]
                operator.num_running -= 1
                _cancel(call)

    def _check_progress(self) -> None:
        """Let a task go on although there is no room, if nothing else can happen.

        Raises
        ------
        RuntimeError
            When no task waits either.
        """
        if self._ready or not self._events.empty():
            return
        paused = [
            (number, call)
            for number, call in self._running.items()
            if isinstance(call, _Streaming) and call.has_news
        ]
        if len(paused) < len(self._running):
            return
        if not paused:
            states = {each.name: (each.has_task(), len(each.outputs)) for each in self._operators}
            raise RuntimeError(f"The execution has nothing to run, and is not finished: {states}")
        # Of the operator nearest to the consumer the task that is next in order.
        self._take_next(
            *max(paused, key=lambda each: (self._index[each[1].task.operator], -each[1].task.slot))
        )
        self._events.put(_nothing)

    def _end(self) -> None:
        for call in self._running.values():
            _cancel(call)
        self._running.clear()
        for operator in self._operators:
            operator.stop()
            operator.release()
        self.stats.end()
        self._bars.close()
        with self._changed:
            self._is_over = True
            self._changed.notify_all()


def _nothing() -> None:
    """Wake the thread up."""


def _note_news(call: _Streaming) -> None:
    call.has_news = True


def _cancel(call: _Call) -> None:
    if isinstance(call, _Streaming):
        ray.cancel(call.items)
        return
    _expect_errors(call.refs)
    ray.cancel(call.refs[0])


def _expect_errors(refs: Sequence[ObjectRef[Any]]) -> None:
    """Do not log the errors of these references: they are known or not needed."""
    for ref in refs:
        ref.future().add_done_callback(_take_error)


def _take_error(future: Future[object]) -> None:
    if not future.cancelled():
        future.exception()


def _budget(context: DataContext) -> Budget:
    options = context.execution_options
    options.validate()
    limits, excluded = options.resource_limits, options.exclude_resources
    resources = ray.cluster_resources()
    present = resources.get("CPU", 1.0)
    shares = _groups_hold_cpus()
    num_cpus = min(limits.cpu, present) - excluded.cpu
    if num_cpus <= 0:
        _warn_of_no_cpu(present, limits.cpu, excluded.cpu)
        num_cpus = 1.0
    if limits.object_store_memory != math.inf:
        return Budget(num_cpus, limits.object_store_memory, shares_cpus=shares)
    store = resources.get("object_store_memory", 2**30) - excluded.object_store_memory
    num_bytes = max(store, 0) * _SHARE_OF_STORE
    return Budget(num_cpus, num_bytes, context.target_max_block_size, shares_cpus=shares)


def _groups_hold_cpus() -> bool:
    """Return whether placement groups leave no node a whole CPU."""
    held = cpus_of_groups()
    if not any(held.values()):
        return False
    nodes = [each for each in ray.nodes() if each["Alive"]]
    return all(each["Resources"].get("CPU", 0) - held.get(each["NodeID"], 0) < 1 for each in nodes)


@functools.cache
def _warn_of_no_cpu(present: float, limit: float, excluded: float) -> None:
    """Say once that an execution has no CPU."""
    _logger.warning(
        "No CPU is left for data sets: the cluster has %s, resource_limits allows %s, and "
        "exclude_resources takes %s. Their tasks run on one CPU. Raise the limit, or exclude fewer.",
        *(f"{each:g}" for each in (present, limit, excluded)),
    )
