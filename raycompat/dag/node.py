"""`DAGNode`: a call that is not made yet, and the execution of a graph of such calls."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

from raycompat.dag.arguments import nodes_in, replaced

if TYPE_CHECKING:
    from raycompat.dag.compiled_dag_node import CompiledDAG
    from raycompat.dag.gpu_options import TensorTransport
    from raycompat.dag.input_node import InputNode


class Execution:
    """One execution of a graph: its arguments, and the result of each node."""

    def __init__(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self.args, self.kwargs = args, kwargs
        self.results: dict[str, Any] = {}
        self._input: InputNode | None = None

    def result(self, node: DAGNode) -> Any:
        """Return a node's result; its call is made once, after those that it depends on."""
        from raycompat.dag.input_node import InputNode

        if isinstance(node, InputNode):
            if self._input not in (None, node):
                raise AssertionError(
                    "This graph has several: a graph has only one unique InputNode."
                )
            self._input = node
        key = node.get_stable_uuid()
        if key not in self.results:
            self.results[key] = node._execute(self)
        return self.results[key]

    def resolved(self, value: Any) -> Any:
        """Return a value with its nodes replaced by their results."""
        return replaced(value, self.result)


class DAGNode:
    """A call in a graph of calls. ``bind`` of remote functions and actors creates it.

    Notes
    -----
    Ray source: ``ray.dag.DAGNode``, 2.60.0.
    """

    def __init__(
        self,
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
        options: Mapping[str, Any] | None = None,
    ) -> None:
        self._bound_args = args
        self._bound_kwargs = dict(kwargs or {})
        self._bound_options = dict(options or {})
        self._stable_uuid = uuid.uuid4().hex
        #: The nodes that have this one as an argument, and are still used.
        self._downstream: WeakSet[DAGNode] = WeakSet()
        self._was_compiled = False
        self._tensor_transport: TensorTransport | None = None
        for value in (*self._bound_args, *self._bound_kwargs.values()):
            if isinstance(value, DAGNode):
                value._downstream.add(self)
        #: The result of each node in the last execution with `_ray_cache_refs`.
        self.cache_from_last_execute: dict[str, Any] = {}

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_downstream": WeakSet()}

    def execute(self, *args: Any, _ray_cache_refs: bool = False, **kwargs: Any) -> Any:
        """Make the calls of the graph on which this node depends, and its own.

        Parameters
        ----------
        *args, **kwargs
            Arguments for the graph's `InputNode`.
        _ray_cache_refs : bool, default False
            Keep the result of each node for `get_object_refs_from_last_execute`.

        Returns
        -------
        ObjectRef, ActorHandle or list
            The result of the node's own call: a reference for a function or method, a handle for a
            class, a list for a `MultiOutputNode`.

        Raises
        ------
        AssertionError
            When the graph has several `InputNode`, or one that was made outside ``with``.
        """
        execution = Execution(args, kwargs)
        result = execution.result(self)
        if _ray_cache_refs:
            self.cache_from_last_execute = execution.results
        return result

    def _execute(self, execution: Execution) -> Any:
        raise NotImplementedError

    def _arguments(self, execution: Execution) -> tuple[tuple[Any, ...], dict[str, Any]]:
        args = tuple(execution.resolved(value) for value in self._bound_args)
        kwargs = {name: execution.resolved(value) for name, value in self._bound_kwargs.items()}
        return args, kwargs

    def _upstream(self) -> list[DAGNode]:
        """Return the nodes on which this one depends, each once."""
        found = dict.fromkeys(
            node
            for value in (*self._bound_args, *self._bound_kwargs.values())
            for node in nodes_in(value)
        )
        return list(found)

    def get_args(self) -> Any:
        """Return the positional arguments that were bound."""
        return self._bound_args

    def get_kwargs(self) -> dict[str, Any]:
        """Return the keyword arguments that were bound."""
        return dict(self._bound_kwargs)

    def get_options(self) -> dict[str, Any]:
        """Return the options that were bound."""
        return dict(self._bound_options)

    def get_stable_uuid(self) -> str:
        """Return the id of this node, which pickling keeps: 32 hexadecimal digits."""
        return self._stable_uuid

    async def get_object_refs_from_last_execute(self) -> dict[str, Any]:
        """Return the result of each node, by its id, in the last execution with `_ray_cache_refs`."""
        return dict(self.cache_from_last_execute)

    def clear_cache(self) -> None:
        """Forget the stored results."""
        self.cache_from_last_execute = {}

    def experimental_compile(
        self,
        _submit_timeout: float | None = None,
        _buffer_size_bytes: int | None = None,
        enable_asyncio: bool = False,
        _max_inflight_executions: int | None = None,
        _max_buffered_results: int | None = None,
        _overlap_gpu_communication: bool | None = None,
        _default_communicator: Any = "create",
    ) -> CompiledDAG:
        """Send the graph to its actors, so that they execute it without the driver.

        All calls of the graph must be methods of actors that exist, and the graph needs one
        `InputNode`. See `CompiledDAG`, which shows an example.

        Parameters
        ----------
        _submit_timeout : float, optional
            Seconds to wait in `CompiledDAG.execute` until an actor accepts the input; -1: no limit. By
            default 10.
        _buffer_size_bytes : int, optional
            Above 0. It has no effect: each value gets as much memory as it needs. In Ray it is the
            first size of buffers that grow.
        enable_asyncio : bool, default False
            Whether the graph is executed with `CompiledDAG.execute_async`.
        _max_inflight_executions : int, optional
            The number of executions whose results were not fetched yet. By default 10.
        _max_buffered_results : int, optional
            The number of results that may wait in the driver because later ones were fetched first.
            By default 1000.
        _overlap_gpu_communication : bool, optional
            True is refused: there are no communicators.
        _default_communicator : "create" or None
            Both have no effect. Communicators are refused.

        Raises
        ------
        ValueError, AssertionError, NotImplementedError
            When the graph cannot be compiled, was compiled before, or an option is not valid; the
            message says why. The classes are those of Ray.
        ActorDiedError
            When an actor of the graph is dead.

        Notes
        -----
        Ray source: ``ray.dag.DAGNode.experimental_compile``, 2.60.0. `CompiledDAG` lists the
        differences. The other defaults are those of `DAGContext`.
        """
        from raycompat.dag.compiled_dag_node import CompiledDAG
        from raycompat.dag.gpu_options import check_options

        check_options(_buffer_size_bytes, _overlap_gpu_communication, _default_communicator)
        if self._was_compiled:
            raise ValueError(
                f"{self!r} was compiled before, and a graph can be compiled once. Use the CompiledDAG "
                "of the first time, or bind the calls again."
            )
        self._was_compiled = True
        return CompiledDAG(
            self,
            submit_timeout=_submit_timeout,
            enable_asyncio=enable_asyncio,
            max_inflight_executions=_max_inflight_executions,
            max_buffered_results=_max_buffered_results,
        )

    def with_tensor_transport(
        self,
        transport: Any = "auto",
        device: str = "default",
        _static_shape: bool = False,
        _direct_return: bool = False,
    ) -> DAGNode:
        """Choose how compiled graphs send the tensors in the value of this node.

        Parameters
        ----------
        transport : str, default "auto"
            ``"auto"``: tensors on a GPU go through its memory, if all readers are actors of the same
            host that were given the same GPU; all others through the memory of the host. ``"shm"``:
            always through the memory of the host. ``"accelerator"`` and ``"nccl"``: as ``"auto"``, and
            the caller and all readers must be actors with GPUs. Communicators are refused.
        device : str, default "default"
            Where the tensors land. ``"default"``: on the GPU if they come from one and the reader has
            one, otherwise on the CPU. ``"cpu"``: on the CPU. ``"gpu"`` or ``"cuda"``: on the reader's
            GPU; a reader without one fails.
        _static_shape : bool, default False
            With ``"accelerator"``: tensors whose types or shapes differ from those of the first
            execution are an error. Otherwise it has no effect, as in Ray.
        _direct_return : bool, default False
            With ``"accelerator"``: a value that is not a tensor itself is an error. Otherwise it has
            no effect, as in Ray.

        Returns
        -------
        DAGNode
            This node.

        Raises
        ------
        ValueError
            When an argument is not one of these, or ``"cpu"`` is combined with ``"accelerator"``.
        UnsupportedRayFeatureError
            When `transport` is a communicator.

        Notes
        -----
        Ray source: ``ray.dag.DAGNode.with_tensor_transport``, 2.60.0. Differs from Ray: PyTorch need
        not be installed; there is no group of NCCL, so tensors between two GPUs go through the memory
        of the host; an actor with logical GPUs passes CPU tensors on.
        """
        from raycompat.dag.gpu_options import tensor_transport

        self._tensor_transport = tensor_transport(transport, device, _static_shape, _direct_return)
        return self

    def apply_recursive(self, fn: Callable[[DAGNode], Any]) -> Any:
        """Call a function for this node and each node on which it depends, dependencies first.

        Returns
        -------
        object
            The result of the call for this node.
        """
        done: dict[DAGNode, Any] = {}

        def visit(node: DAGNode) -> None:
            if node not in done:
                for upstream in node._upstream():
                    visit(upstream)
                done[node] = fn(node)

        visit(self)
        return done[self]

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._label()})"

    def _label(self) -> str:
        return f"args={list(self._bound_args)!r}, kwargs={self._bound_kwargs!r}"

    def __getattr__(self, attr: str) -> Any:
        if attr == "bind":
            raise AttributeError(f".bind() cannot be used again on {type(self)}.")
        if attr == "remote":
            raise AttributeError(
                f".remote() cannot be used on {type(self)}: call .execute() to make the graph's calls."
            )
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {attr!r}")
