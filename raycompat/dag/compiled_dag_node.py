"""`CompiledDAG`: a graph of calls that its actors make without the driver.

``experimental_compile`` sends each actor its schedule: which methods it calls, and where the arguments
come from. Then the actors connect to each other. An execution is one message from the driver to the
actors that read the input. The actors pass their results on directly, and the last ones to the driver.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import uuid
from collections import Counter, deque
from collections.abc import Sequence
from typing import Any

import raycompat as ray
from raycompat._surface.modules import names_of
from raycompat.dag import plan as plans
from raycompat.dag import seat
from raycompat.dag.bound import BoundActor
from raycompat.dag.compiled_dag_ref import CompiledDAGFuture, CompiledDAGRef
from raycompat.dag.context import DAGContext
from raycompat.dag.drawing import as_text
from raycompat.dag.exchange import EndedError, Exchange, Frame, Link, value_of
from raycompat.dag.input_node import DAGInputData
from raycompat.dag.node import DAGNode
from raycompat.dag.packing import ERROR, Failure, Packed, pack
from raycompat.dag.schedule import DRIVER
from raycompat.dag.tensors import Sender
from raycompat.exceptions import (
    GetTimeoutError,
    RayCgraphCapacityExceeded,
    RayChannelError,
    RayChannelTimeoutError,
    UnsupportedRayFeatureError,
)

logger = logging.getLogger(__name__)

#: Seconds to wait for the report that an actor's process has ended, after its connection has ended.
_DEATH_S = 10.0

#: Options of the calls that run a graph in an actor: beside its other calls, without retries.
_CALL = {"concurrency_group": "_ray_system", "max_task_retries": 0}

#: A result as it arrived, or the error of the whole execution.
_Arrived = Frame | Failure


class CompiledDAG:
    """A compiled graph; `DAGNode.experimental_compile` creates it.

    Calls of the graph run in a thread of each actor, one after the other in the order of their
    ``bind``. Other calls of the actor run beside them. One thread at a time may use the graph.

    Attributes
    ----------
    is_teardown : bool
        Whether `teardown` was called, or an actor's end was noticed.

    Examples
    --------
    >>> import raycompat as ray
    >>> from raycompat.dag import InputNode
    >>> @ray.remote
    ... class Adder:
    ...     def add(self, x, y):
    ...         return x + y
    >>> first, second = Adder.remote(), Adder.remote()
    >>> with InputNode() as given:
    ...     dag = second.add.bind(first.add.bind(given, 10), 100)
    >>> graph = dag.experimental_compile()
    >>> ray.get(graph.execute(1))
    111
    >>> graph.teardown()

    Notes
    -----
    Ray source: ``ray.dag.compiled_dag_node.CompiledDAG``, 2.60.0. Differs from Ray:

    * Values between processes of one host travel through Unix sockets, and above 64 KiB through memory
      that is shared for this value alone. Between hosts they travel over TCP, not encrypted.
    * Tensors between GPUs go through the memory of the host, also with a transport: there is no NCCL.
      On one GPU, `DAGNode.with_tensor_transport` lets them stay there.
    * An actor can be in one graph at a time; the second compilation is a `ValueError`. In Ray it waits.
    * An error in one output is the error of all outputs of that execution, as in Ray.
    """

    def __init__(
        self,
        output: DAGNode,
        *,
        submit_timeout: float | None,
        enable_asyncio: bool,
        max_inflight_executions: int | None,
        max_buffered_results: int | None,
    ) -> None:
        context = DAGContext.get_current()
        self._id = uuid.uuid4().hex
        self._submit_timeout = _or(submit_timeout, context.submit_timeout)
        self._get_timeout = context.get_timeout
        self._max_inflight = _or(max_inflight_executions, context.max_inflight_executions)
        self._max_buffered = _or(max_buffered_results, context.max_buffered_results)
        self._is_async = enable_asyncio
        self.is_teardown = False
        #: The last execution that was submitted, and the last whose results were taken.
        self._submitted = self._finished = -1
        #: Results by execution and output, until they are fetched.
        self._results: dict[int, dict[int, _Arrived]] = {}
        #: For each execution, the outputs without references.
        self._dropped: dict[int, set[int]] = {}
        #: The number of the next values of each slot that belong to failed executions.
        self._late: Counter[int] = Counter()
        self._futures: deque[asyncio.Future[None]] = deque()
        #: With asyncio, the executions whose results were not awaited yet.
        self._not_awaited: set[int] = set()
        self._plan = plans.make(output)
        _check_not_in(self._plan.actors)
        self._slots = list(dict.fromkeys(self._plan.results))
        self._error: BaseException | None = None
        #: Why the graph has ended, for the first result that is fetched then.
        self._why_ended: BaseException | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._token = secrets.token_bytes(32)
        self._runs: list[ray.ObjectRef[Any]] = []
        self._exchange = self._meet()

    # --- compilation ----------------------------------------------------------------------------

    def _meet(self) -> Exchange:
        """Send the schedules, and connect to the actors."""
        plan, token = self._plan, self._token
        num_processes = len(plan.actors) + 1
        door = seat.Door(num_processes)
        opened: list[ray.ObjectRef[Any]] = []
        try:
            opened = self._in_all(
                seat.open_door, token, num_processes, plan.has_transports or bool(plan.with_gpus)
            )
            addresses = [door.address, *self._checked(ray.get(opened))]
            if len({address.place for address in addresses}) > 1:
                reachable = self._in_all(seat.open_to_other_hosts, token)
                addresses = [door.open_to_other_hosts(), *ray.get(reachable)]
            for rank, actor in enumerate(plan.actors, 1):
                others = plan.neighbours(rank)
                given = (token, rank, addresses, others, plan.steps[rank])
                self._runs.append(_call(actor, seat.run, *given))
            neighbours = list(range(1, num_processes))
            return Exchange(
                seat.connect(door, token, DRIVER, addresses, neighbours, meanwhile=self._check_runs)
            )
        except BaseException:
            if not self._runs:
                ray.wait(opened, num_returns=len(opened))
                left = self._in_all(seat.leave, token)
                ray.wait(left, num_returns=len(left))
            raise
        finally:
            door.close()

    def _in_all(self, function: Any, *args: Any) -> list[ray.ObjectRef[Any]]:
        return [_call(actor, function, *args) for actor in self._plan.actors]

    def _checked(self, addresses: Sequence[seat.Address | None]) -> list[seat.Address]:
        for actor, address in zip(self._plan.actors, addresses, strict=True):
            if address is None:
                raise ValueError(
                    f"{actor!r} belongs to a compiled graph already: an actor can be in one at a time. "
                    "Call teardown() of the other graph first."
                )
        for rank, node in self._plan.with_gpus.items():
            given = addresses[rank - 1]
            if given is not None and not given.num_gpus:
                raise ValueError(
                    f"{node!r} has an accelerator's transport, but {self._plan.actors[rank - 1]!r}, "
                    "which gives or reads its value, was given no GPU. Use .options(num_gpus=1), or "
                    "with_tensor_transport('auto')."
                )
        return [address for address in addresses if address is not None]

    def _check_runs(self) -> None:
        """Raise the error of an actor that could not connect, or has died."""
        ended, _ = ray.wait(self._runs, num_returns=len(self._runs), timeout=0)
        ray.get(ended)

    # --- executions -----------------------------------------------------------------------------

    def execute(self, *args: Any, **kwargs: Any) -> CompiledDAGRef | list[CompiledDAGRef]:
        """Start an execution, and return the reference to its result at once.

        Parameters
        ----------
        *args, **kwargs
            Arguments for the graph's `InputNode`.

        Returns
        -------
        CompiledDAGRef, or list of CompiledDAGRef
            A list if the graph ends in a `MultiOutputNode`. Fetch each with ``ray.get``, once.

        Raises
        ------
        ValueError
            When the arguments are not those that the graph uses, or it was compiled with
            ``enable_asyncio=True``.
        RayCgraphCapacityExceeded
            When too many executions have results that were not fetched.
        RayChannelTimeoutError
            When no actor accepts the input in time.
        RayChannelError
            When the graph was torn down. When an actor has died, ``ray.get`` raises the error.
        TypeError
            When an argument cannot be pickled.
        """
        if self._is_async:
            raise ValueError(
                "The graph was compiled with enable_asyncio=True: use `await graph.execute_async(...)`."
            )
        sent = self._sent(args, kwargs)
        self._release_dropped()
        self._check_capacity(self._submitted - self._finished)
        self._send(sent)
        if not self._plan.returns_list:
            return CompiledDAGRef(self, self._submitted, None)
        return [CompiledDAGRef(self, self._submitted, i) for i in range(len(self._plan.results))]

    def _send(self, sent: Sequence[tuple[int, Packed, Sequence[int]]]) -> None:
        try:
            timeout = None if self._submit_timeout == -1 else self._submit_timeout
            self._exchange.check_whole()
            if self._has_dead_actor():
                raise EndedError
            with self._exchange.step:
                if self._exchange.send(sent, timeout):
                    self._submitted += 1
                    return
        except EndedError:
            self._why_ended = self._broken()
            self._submitted += 1
            return
        raise RayChannelTimeoutError(
            f"No actor of the graph has accepted the input within {self._submit_timeout} s: its calls "
            "take longer. Compile the graph with a longer _submit_timeout, or fetch results first."
        )

    def _has_dead_actor(self) -> bool:
        """Return whether an actor is dead, although its process may answer a little longer."""
        return any(actor._is_dead for actor in self._plan.actors)

    def _sent(
        self, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Sequence[tuple[int, Packed, Sequence[int]]]:
        """Check the arguments of an execution, and pack those that the graph uses."""
        if self.is_teardown:
            raise RayChannelError("The graph was torn down: compile another one.")
        plan = self._plan
        if len(args) != plan.num_args:
            raise ValueError(
                f"The graph takes {plan.num_args} positional arguments, but execute was given "
                f"{len(args)}."
            )
        missing = [name for name in plan.names if name not in kwargs]
        if missing:
            raise ValueError(
                f"The graph takes the keyword arguments {', '.join(missing)}, but execute was not "
                "given them."
            )
        sent = []
        for each in plan.inputs:
            if each.key is None:
                value = DAGInputData(*args, **kwargs) if kwargs else args[0]
            else:
                value = args[each.key] if isinstance(each.key, int) else kwargs[each.key]
            tensors = None if each.tensors is None else Sender(each.tensors)
            sent.append((each.slot, pack(value, tensors), each.readers))
        return sent

    def _check_capacity(self, num_running: int) -> None:
        if num_running >= self._max_inflight:
            raise RayCgraphCapacityExceeded(
                f"{num_running} executions of the graph have results that were not fetched, and "
                f"_max_inflight_executions={self._max_inflight}. Fetch a result with ray.get first, or "
                "compile the graph with a larger number."
            )

    # --- results --------------------------------------------------------------------------------

    def _fetch(self, execution: int, output: int | None, timeout: float | None) -> Any:
        """Return the value of an output, or of the only one; `CompiledDAGRef.get` calls this."""
        timeout = self._get_timeout if timeout is None else timeout
        while self._finished < execution:
            if len(self._results) >= self._max_buffered:
                raise RayCgraphCapacityExceeded(
                    f"{len(self._results)} results of earlier executions wait in this process, and "
                    f"_max_buffered_results={self._max_buffered}. Fetch them first, or compile the "
                    "graph with a larger number."
                )
            self._finish_next(timeout)
        return self._taken(execution, output)

    def _taken(self, execution: int, output: int | None) -> Any:
        """Return the value of an output whose execution has ended, or raise its error."""
        self._not_awaited.discard(execution)
        results = self._results[execution]
        result = results.pop(output or 0)
        if not results:
            del self._results[execution]
        value = result if isinstance(result, Failure) else value_of(result)
        if isinstance(value, Failure):
            raise value.error()
        return value

    def _finish_next(self, timeout: float) -> None:
        """Wait until the next execution has ended, and keep its results."""
        if self.is_teardown:
            error, self._why_ended = self._why_ended or self._error, None
            raise error or RayChannelError("The graph was torn down, and the result is lost.")
        try:
            is_ready = self._has_next(None if timeout == -1 else timeout)
        except EndedError:
            raise self._broken() from None
        if not is_ready:
            raise RayChannelTimeoutError(
                f"The graph has no result after {timeout} s. Give ray.get a longer timeout (-1: no "
                "limit), or set DAGContext.get_current().get_timeout before the graph is compiled."
            )
        with self._exchange.step:
            self._keep_next()

    def _has_next(self, timeout_s: float | None) -> bool:
        """Wait for the results of an execution, or for an error among them."""
        arrived = self._exchange.arrived
        for slot in self._slots:
            while self._late[slot]:
                if not self._exchange.wait([slot], timeout_s):
                    return False
                arrived[slot].popleft()
                self._late[slot] -= 1
        return self._exchange.wait(self._slots, timeout_s, enough=self._has_error)

    def _has_error(self) -> bool:
        arrived = self._exchange.arrived
        return any(arrived[slot] and arrived[slot][0][0] == ERROR for slot in self._slots)

    def _keep_next(self) -> None:
        arrived = self._exchange.arrived
        frames: dict[int, Frame] = {}
        for slot in self._slots:
            if arrived[slot]:
                frames[slot] = arrived[slot].popleft()
            else:
                self._late[slot] += 1
        failed = [value_of(frame) for frame in frames.values() if frame[0] == ERROR]
        self._finished += 1
        dropped = self._dropped.pop(self._finished, set())
        results = {
            output: failed[0] if failed else frames[slot]
            for output, slot in enumerate(self._plan.results)
            if output not in dropped
        }
        if results:
            self._results[self._finished] = results

    def _note_dropped(self, execution: int, output: int | None) -> None:
        """Forget a result that is not needed. Python's garbage collector calls this at any time."""
        if execution <= self._finished:
            results = self._results.get(execution, {})
            results.pop(output or 0, None)
            if not results:
                self._results.pop(execution, None)
                self._not_awaited.discard(execution)
        else:
            dropped = self._dropped.setdefault(execution, set())
            dropped.add(output or 0)
            if len(dropped) == len(self._plan.results):
                self._not_awaited.discard(execution)

    def _release_dropped(self) -> None:
        """Remove the results that are not needed, if others would not fit."""
        num_outputs = len(self._plan.results)
        while self._submitted - self._finished >= self._max_inflight:
            if len(self._dropped.get(self._finished + 1, ())) < num_outputs:
                return
            self._finish_next(self._get_timeout)

    # --- asyncio --------------------------------------------------------------------------------

    async def execute_async(
        self, *args: Any, **kwargs: Any
    ) -> CompiledDAGFuture | list[CompiledDAGFuture]:
        """Start an execution, and return the future of its result: await it, once.

        Parameters, results and errors are those of `execute`, with futures in place of references.
        """
        if not self._is_async:
            raise ValueError(
                "The graph was not compiled with enable_asyncio=True: use `graph.execute(...)`."
            )
        sent = self._sent(args, kwargs)
        self._check_capacity(len(self._not_awaited))
        loop = asyncio.get_running_loop()
        self._listen(loop)
        is_dead = self._has_dead_actor()
        for link in () if is_dead else self._exchange.post(sent):
            self._flush(loop, link)
        future: asyncio.Future[None] = loop.create_future()
        self._futures.append(future)
        self._submitted += 1
        self._not_awaited.add(self._submitted)
        if is_dead:
            self._fail_futures()
        else:
            self._on_readable(wait=False)
        if not self._plan.returns_list:
            return CompiledDAGFuture(self, self._submitted, future, None)
        return [
            CompiledDAGFuture(self, self._submitted, future, output)
            for output in range(len(self._plan.results))
        ]

    def _listen(self, loop: asyncio.AbstractEventLoop) -> None:
        """Read the actors' messages in this event loop."""
        if loop is self._loop:
            return
        self._stop_listening()
        self._loop = loop
        for link in self._exchange.links.values():
            loop.add_reader(link.socket, self._on_readable)

    def _flush(self, loop: asyncio.AbstractEventLoop, link: Link) -> None:
        """Send what a connection accepts now, and the rest when it accepts more."""
        link.flush()
        if link.outbox:
            loop.add_writer(link.socket, self._flush, loop, link)
        else:
            loop.remove_writer(link.socket)

    def _stop_listening(self) -> None:
        if self._loop is not None and not self._loop.is_closed():
            for link in self._exchange.links.values():
                self._loop.remove_reader(link.socket)
                self._loop.remove_writer(link.socket)
        self._loop = None

    def _on_readable(self, *, wait: bool = True) -> None:
        """Read, and wake those that await the results which have arrived."""
        try:
            if wait:
                self._exchange.turn(0)
            while self._futures and self._has_next(0):
                with self._exchange.step:
                    self._keep_next()
                    self._resolve(None)
            self._exchange.flush_freed()
        except EndedError:
            self._fail_futures()

    def _fail_futures(self) -> None:
        self._stop_listening()
        error = self._broken()
        while self._futures:
            self._resolve(error)

    def _resolve(self, error: BaseException | None) -> None:
        future = self._futures.popleft()
        if future.done():
            return
        if error is None:
            future.set_result(None)
        else:
            future.set_exception(error)
            future.exception()  # the program may never await it

    # --- the end --------------------------------------------------------------------------------

    def _broken(self) -> BaseException:
        """Return the error that says why the graph has ended, and end its other actors."""
        error = self._error
        if error is None and not self._exchange.step.is_whole:
            error = self._error = RayChannelError(
                "Ctrl-C has interrupted this process while it sent or read a value, so the graph was "
                "torn down: compile it again."
            )
            self.teardown()
        elif error is None:
            error = RayChannelError("A process of the graph has closed its connection.")
            try:
                ray.get(self._runs, timeout=_DEATH_S)
            except GetTimeoutError:
                pass  # the actors live, but the connection between two of them was lost
            except Exception as reason:
                error = reason
            self._error = RayChannelError(f"The graph was torn down, because of: {error!r}.")
            self.teardown()
        return error

    def teardown(self, kill_actors: bool = False) -> None:
        """End the graph: each actor ends after the call that it runs. Results are lost.

        Parameters
        ----------
        kill_actors : bool, default False
            Whether to kill the actors then, also those that have not ended in time.
        """
        if self.is_teardown:
            return
        self.is_teardown = True
        self._stop_listening()
        timeout = DAGContext.get_current().teardown_timeout
        if self._exchange.step.is_whole:
            self._exchange.end_others()
            num_running = self._exchange.wait_for_others(timeout)
            self._exchange.close()
        else:
            self._exchange.close()
            _, running = ray.wait(self._runs, num_returns=len(self._runs), timeout=timeout)
            num_running = len(running)
        if kill_actors:
            for actor in self._plan.actors:
                ray.kill(actor)
        elif num_running:
            logger.warning(
                "%s actors of %s still run a call %s s after teardown(). Call "
                "teardown(kill_actors=True) to end their processes.",
                num_running,
                self,
                timeout,
            )
        self._results.clear()

    def __del__(self) -> None:
        if "_exchange" in self.__dict__:
            self.teardown()

    # --- description ----------------------------------------------------------------------------

    def get_id(self) -> str:
        """Return the id of the graph: 32 hexadecimal digits."""
        return self._id

    def __str__(self) -> str:
        return f"CompiledDAG({self._id})"

    def visualize(
        self,
        filename: str = "compiled_graph",
        format: str = "png",
        view: bool = False,
        channel_details: bool = False,
    ) -> str:
        """Return the graph as text: each call, where its arguments come from and who reads it.

        Parameters
        ----------
        filename : str, optional
            For pictures, which are refused.
        format : str
            Only ``"ascii"``: the pictures of Ray need Graphviz.
        view : bool, default False
            Whether to print the text too.
        channel_details : bool, default False
            A `ValueError` if true, as in Ray for ``format="ascii"``.
        """
        if format != "ascii":
            raise UnsupportedRayFeatureError(
                f"CompiledDAG.visualize(format={format!r})",
                "raycompat draws no pictures of graphs",
                'use format="ascii"',
            )
        if channel_details:
            raise ValueError('channel_details=True does not go with format="ascii".')
        text = as_text(self._plan)
        if view:
            print(text)
        return text


def _check_not_in(actors: Sequence[BoundActor]) -> None:
    """Raise ValueError if this process is one of the actors: it would wait for itself."""
    own = ray.get_runtime_context().get_actor_id()
    for actor in actors:
        if own is not None and actor._actor_id.hex() == own:
            raise ValueError(
                f"The graph has a call of {actor!r}, which is the actor that compiles it. Compile it "
                "in the driver, a task or another actor."
            )


def _or(given: Any, default: Any) -> Any:
    return default if given is None else given


def _call(actor: Any, function: Any, *args: Any) -> ray.ObjectRef[Any]:
    ref: ray.ObjectRef[Any] = actor.__ray_call__.options(**_CALL).remote(function, *args)
    return ref


#: Names of older Rays.
__getattr__ = names_of(__name__)
