"""`MultiOutputNode`: a graph with several results."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from raycompat.dag.node import DAGNode, Execution


class MultiOutputNode(DAGNode):
    """Placeholder for the results of several nodes; executing it returns the list of them.

    Parameters
    ----------
    args : list or tuple of DAGNode

    Notes
    -----
    Ray source: ``ray.dag.MultiOutputNode``, 2.60.0. No known difference.
    """

    def __init__(self, args: Sequence[DAGNode]) -> None:
        if not isinstance(args, list | tuple):
            raise ValueError(f"MultiOutputNode({args!r}): expected a list or tuple of nodes.")
        super().__init__(list(args))

    def _execute(self, execution: Execution) -> list[Any]:
        return [execution.resolved(node) for node in self._bound_args]
