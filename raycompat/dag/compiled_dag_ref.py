"""The results of a compiled graph: `CompiledDAGRef` and `CompiledDAGFuture`."""

from __future__ import annotations

import asyncio
from collections.abc import Generator
from typing import Any, Never, Protocol


class Graph(Protocol):
    """What a result needs of its graph (`compiled_dag_node.CompiledDAG`)."""

    def get_id(self) -> str:
        """Return the id of the graph."""

    def _fetch(self, execution: int, output: int | None, timeout: float | None) -> Any:
        """Wait for an output, and return its value."""

    def _taken(self, execution: int, output: int | None) -> Any:
        """Return the value of an output whose execution has ended."""

    def _note_dropped(self, execution: int, output: int | None) -> None:
        """Forget an output that is not needed."""


class _Result:
    """One result of one execution. It can be fetched once, in the process that has the graph."""

    def __init__(self, dag: Graph, execution_index: int, channel_index: int | None) -> None:
        self._dag = dag
        self._execution_index = execution_index
        self._channel_index = channel_index
        self._was_fetched = False

    def __str__(self) -> str:
        return (
            f"{type(self).__name__}({self._dag.get_id()}, execution_index={self._execution_index}, "
            f"channel_index={self._channel_index})"
        )

    def __copy__(self) -> Never:
        raise self._refusal("copied")

    def __deepcopy__(self, memo: object) -> Never:
        raise self._refusal("copied")

    def __reduce__(self) -> Never:
        raise self._refusal("pickled, so it cannot be an argument of a call")

    def _refusal(self, what: str) -> ValueError:
        return ValueError(f"{self} cannot be {what}. Pass the value that it stands for.")

    def __del__(self) -> None:
        if not self._was_fetched:
            self._dag._note_dropped(self._execution_index, self._channel_index)


class CompiledDAGRef(_Result):
    """The result of `CompiledDAG.execute`, or one of its results: fetch it with ``ray.get``, once.

    Notes
    -----
    Ray source: ``ray.experimental.compiled_dag_ref.CompiledDAGRef``, 2.60.0. As in Ray it is no
    `ObjectRef`: it cannot be copied, pickled, passed to a call, or given to ``ray.wait``.
    """

    def get(self, timeout: float | None = None) -> Any:
        """Wait for the value, and return it; ``ray.get`` calls this.

        Parameters
        ----------
        timeout : float, optional
            Maximum seconds to wait, 0 or more; -1: wait without limit. By default, the `get_timeout` of
            `DAGContext`.

        Raises
        ------
        ValueError
            When it was called before. A call that ran out of time counts too, as in Ray.
        RayChannelTimeoutError
            When the value is not ready in time.
        RayCgraphCapacityExceeded
            When too many earlier results would have to wait in this process.
        ActorDiedError
            When an actor of the graph has died.
        RayChannelError
            When the graph was torn down.
        Exception
            The error of the first call that failed: an instance of its class and of `RayTaskError`.
        """
        if self._was_fetched:
            raise ValueError(
                f"{self}: a result of a compiled graph can be fetched once only. Keep the value."
            )
        if timeout is not None and timeout < 0 and timeout != -1:
            raise AssertionError(  # the class that Ray raises here
                f"timeout={timeout!r}: expected seconds, 0 or more, or -1."
            )
        self._was_fetched = True
        return self._dag._fetch(self._execution_index, self._channel_index, timeout)


class CompiledDAGFuture(_Result):
    """The result of `CompiledDAG.execute_async`, or one of its results: await it, once.

    Notes
    -----
    Ray source: ``ray.experimental.compiled_dag_ref.CompiledDAGFuture``, 2.60.0. No known difference.
    """

    def __init__(
        self,
        dag: Graph,
        execution_index: int,
        future: asyncio.Future[None],
        channel_index: int | None,
    ) -> None:
        super().__init__(dag, execution_index, channel_index)
        self._future = future

    def __await__(self) -> Generator[Any, None, Any]:
        if self._was_fetched:
            raise ValueError(
                f"{self}: a result of a compiled graph can only be awaited once. Keep the value."
            )
        self._was_fetched = True
        # The other results of the execution wait for the same: a cancelled wait must not end theirs.
        try:
            yield from asyncio.shield(self._future).__await__()
        except BaseException:
            self._dag._note_dropped(self._execution_index, self._channel_index)
            raise
        return self._dag._taken(self._execution_index, self._channel_index)
