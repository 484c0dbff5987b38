"""The nodes that have an object: `get_object_locations`."""

from __future__ import annotations

from typing import Any

from raycompat import _api
from raycompat._caller import current_session
from raycompat._caller import session as sessions
from raycompat._caller.object_table import READY, Entry
from raycompat._messages.nodes import ClusterState
from raycompat._protocol.values import InlineValue
from raycompat.exceptions import GetTimeoutError
from raycompat.object_ref import ObjectRef

__all__ = ["get_local_object_locations", "get_object_locations"]


def get_object_locations(
    obj_refs: list[ObjectRef[Any]], timeout_ms: int = -1
) -> dict[ObjectRef[Any], dict[str, Any]]:
    """Return the nodes that have the values of references, and their sizes.

    Parameters
    ----------
    obj_refs : list of ObjectRef
    timeout_ms : int, default -1
        Maximum milliseconds to wait for unfinished objects; below 0, wait without limit.

    Returns
    -------
    dict
        For each reference ``{"node_ids": [...], "object_size": ..., "did_spill": False}``: the nodes
        that have it (none for a value of up to 100 KiB, which is stored in the processes that refer to
        it), and its bytes (None for a failed call).

    Raises
    ------
    RuntimeError
        When there is no session.
    GetTimeoutError
        When not all objects are ready in time.

    Notes
    -----
    Ray source: ``ray.experimental.get_object_locations``, 2.60.0. Differs from Ray: of the nodes with a
    copy, only the one whose copy this process knows is returned.
    """
    _require_session()
    timeout = None if timeout_ms < 0 else timeout_ms / 1000
    ready, rest = _api.wait(obj_refs, num_returns=len(obj_refs), timeout=timeout)
    if rest:
        raise GetTimeoutError(
            f"{len(rest)} of {len(obj_refs)} objects were not made in {timeout} s."
        )
    return {ref: _location(ref) for ref in ready}


def get_local_object_locations(
    obj_refs: list[ObjectRef[Any]],
) -> dict[ObjectRef[Any], dict[str, Any]]:
    """Return the locations that this process knows, without waiting; see `get_object_locations`.

    An unfinished object has no nodes, and the size None.
    """
    _require_session()
    return {ref: _location(ref) for ref in obj_refs}


def _require_session() -> None:
    if current_session.get() is None:
        raise RuntimeError("Ray hasn't been initialized: call init() first.")


def _location(ref: ObjectRef[Any]) -> dict[str, Any]:
    node_ids, size = _nodes_and_size(ref, ref._entry)
    return {"node_ids": node_ids, "object_size": size, "did_spill": False}


def _nodes_and_size(ref: ObjectRef[Any], entry: Entry) -> tuple[list[str], int | None]:
    if entry.state is not READY:
        return [], None
    if entry.value is None:  # fetched from the cluster, to read its size
        _api.get(ref)
    value = entry.value
    assert value is not None
    if isinstance(value, InlineValue):
        return [], len(value.block)
    nodes = sessions.connected("get_object_locations").rpc(ClusterState())["nodes"]
    # A segment is named after the store of its node.
    return [node["node_id"] for node in nodes if f"{node['place'][0]}-" in value.path], value.size
