"""Graphs of Dask collections, for Dask on Ray."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import dask
import dask.base
import dask.utils
import distributed
from dask import _task_spec
from dask._task_spec import Alias

if TYPE_CHECKING:
    pass


def nodes_of_graph(graph: Any) -> dict[object, Any]:
    """Return the nodes of a graph or expression by key, in the form of ``dask._task_spec``."""
    if not isinstance(graph, Mapping):
        graph = graph.__dask_graph__()
    return dict(_task_spec.convert_legacy_graph(dask.utils.ensure_dict(graph)))


def simple_node(node: object) -> tuple[object, bool, object]:
    """Return the key for which a node stands, or else whether it is only a value, and the value."""
    if isinstance(node, Alias):
        return node.target, False, None
    if isinstance(node, _task_spec.DataNode):
        return None, True, node.value
    return None, False, None


def future_of(client: object, key: object) -> Any:
    """Return a client's future of a task that Dask's scheduler has."""
    return distributed.Future(key, client)


def let_dask_persist_by(*gets: Callable[..., object]) -> None:
    """Let ``dask.persist`` and the method of collections ask scheduler functions for references.

    Dask asks a scheduler function for values in both `compute` and `persist`, and does not say which.
    """
    before = dask.base.persist

    @functools.wraps(before)
    def persist(*args: object, scheduler: object = None, **kwargs: object) -> object:
        if dask.base.get_scheduler(scheduler=scheduler) in gets:
            kwargs["ray_persist"] = True
        return before(*args, scheduler=scheduler, **kwargs)

    dask.base.persist = dask.persist = persist
