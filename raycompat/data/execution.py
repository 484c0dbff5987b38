"""The streaming execution of a plan: tasks run, blocks flow, and memory stays bounded.

A thread of the driver owns the operators. It starts a task when a CPU is free for it and when there is
room for what the task will make: the blocks that wait between operators, and those that running tasks
are expected to make, stay within a budget. The operator nearest to the consumer goes first, and an
operator may fill a share of the budget that grows with its distance from the source. So blocks leave
before more of them are read, and a slow consumer stops the reading.

The thread sleeps until a task ends, the consumer takes a block, or the consumer leaves.
"""

from __future__ import annotations

import functools
import queue
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from typing import Any

import raycompat as ray
from raycompat.data.block import Bundle
from raycompat.data.context import DataContext, ExecutionResources
from raycompat.data.operators import Operator, Task
from raycompat.data.progress import ProgressBars
from raycompat.data.stats import ExecutionStats
from raycompat.data.tasks import TaskOutput

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
    """

    def __init__(self, num_cpus: float, num_bytes: float, block_bytes: float | None = None) -> None:
        self.num_cpus = num_cpus
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
        cpus = sum(each.num_running * each.cpus for each in operators)
        slots = self.num_cpus * (1 + _SUBMITTED_AHEAD)
        if operator.cpus and cpus + operator.cpus > max(slots, operator.cpus):
            return False
        if _feeds_barrier(operator):
            return True
        # The blocks before an operator are not its output: to take them makes room.
        held = ready_bytes + operator.outputs.size_bytes
        held += sum(each.held_bytes for each in operators[index + 1 :])
        making = sum(
            each.num_running * each.expected_bytes
            for each in operators[index:]
            if not _feeds_barrier(each)
        )
        share = (index + 1) / len(operators)
        return held + making + operator.expected_bytes <= self.limit(operators) * share


def _feeds_barrier(operator: Operator) -> bool:
    """Whether its output is held in any case: by an operator that needs all of it."""
    return operator.is_barrier or (
        operator.downstream is not None and operator.downstream[0].is_barrier
    )


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
        self._keeps_output = keeps_output
        self._budget = _budget(context)
        self._events: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self._running: dict[int, tuple[Task, list[Any]]] = {}
        self._num_tasks = 0
        self._ready: deque[Bundle] = deque()
        self._changed = threading.Condition()
        self._is_over = False
        self._is_closed = False
        self._error: BaseException | None = None
        self.stats = ExecutionStats([operator.stats for operator in self._operators])
        self._bars = ProgressBars(self._operators, context)
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
        try:
            while True:
                self._flow()
                self._start_tasks()
                self._bars.update()
                if self._is_closed or self._sink.is_finished:
                    break
                self._check_progress()
                self._events.get()()
        except BaseException as error:  # the consumer raises it
            self._error = error
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

    def _start_tasks(self) -> None:
        started = True
        while started and not self._is_closed:
            started = False
            ready_bytes = 0 if self._keeps_output else sum(b.size_bytes for b in self._ready)
            for index in reversed(range(len(self._operators))):
                operator = self._operators[index]
                if not operator.has_task() or not self._is_wanted(operator):
                    continue
                if self._budget.admits(self._operators, index, ready_bytes):
                    self._start(operator, operator.next_task())
                    started = True
                    break

    def _is_wanted(self, operator: Operator) -> bool:
        """Return whether a later union has reached this operator's output."""
        while operator.downstream is not None:
            following, port = operator.downstream
            if not following.admits(port):
                return False
            operator = following
        return True

    def _start(self, operator: Operator, task: Task) -> None:
        task.operator = operator
        refs = list(task.submit())
        operator.num_running += 1
        number = self._num_tasks
        self._num_tasks += 1
        self._running[number] = (task, refs)
        ended = functools.partial(self._events.put, functools.partial(self._end_task, number))
        refs[0].future().add_done_callback(lambda _: ended())

    def _end_task(self, number: int) -> None:
        """Store a task's result, or raise its error."""
        task, refs = self._running.pop(number, (None, []))
        if task is None:
            return  # it was cancelled
        operator: Operator = task.operator
        try:
            output: TaskOutput = ray.get(refs[0])
        except BaseException:
            _expect_errors(refs[1:])  # the same error, which is raised once
            raise
        operator.num_running -= 1
        operator.num_ended += 1
        operator.stats.add(output.blocks, output.wall_s, output.cpu_s)
        blocks = [*refs[1:], *output.more]
        bundles = [Bundle(r, m) for r, m in zip(blocks, output.blocks, strict=False)]
        operator.end_task(task, output, bundles)
        operator.step()

    def _cancel(self, operator: Operator) -> None:
        for number, (task, refs) in list(self._running.items()):
            if task.operator is operator:
                del self._running[number]
                operator.num_running -= 1
                _cancel(task, refs)

    def _check_progress(self) -> None:
        """Raise an error rather than wait for nothing."""
        if not self._running and not self._ready and self._events.empty():
            states = {each.name: (each.has_task(), len(each.outputs)) for each in self._operators}
            raise RuntimeError(f"The execution has nothing to run, and is not finished: {states}")

    def _end(self) -> None:
        for task, refs in self._running.values():
            _cancel(task, refs)
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


def _cancel(task: Task, refs: Sequence[Any]) -> None:
    _expect_errors(refs)
    if task.on_worker is None:
        ray.cancel(refs[0])


def _expect_errors(refs: Sequence[Any]) -> None:
    """Do not log the errors of these references: they are known or not needed."""
    for ref in refs:
        ref.future().add_done_callback(_take_error)


def _take_error(future: Future[Any]) -> None:
    if not future.cancelled():
        future.exception()


def _budget(context: DataContext) -> Budget:
    limits = context.execution_options.resource_limits or ExecutionResources()
    resources = ray.cluster_resources()
    num_cpus = limits.cpu or resources.get("CPU", 1.0)
    if limits.object_store_memory is not None:
        return Budget(num_cpus, limits.object_store_memory)
    share = resources.get("object_store_memory", 2**30) * _SHARE_OF_STORE
    return Budget(num_cpus, share, context.target_max_block_size)
