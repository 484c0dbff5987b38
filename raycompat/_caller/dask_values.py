"""Dask's futures and collections as arguments of calls, and references as collections of Dask."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

from raycompat._caller import current_session
from raycompat._caller.object_ref import ObjectRef
from raycompat._messages.objects import StoreDaskValue
from raycompat._protocol import ids
from raycompat._protocol.message import ask

if TYPE_CHECKING:
    from raycompat._caller.membership import Membership
    from raycompat._caller.object_table import Entry


#: Seconds between two checks whether Dask has rejected a graph.
_LOOK_S = 0.5


def is_dask_value(value: object) -> bool:
    """Return whether `value` is a Dask future, or a collection such as a Dask array."""
    if not hasattr(type(value), "__dask_graph__"):
        return isinstance(value, _future_class())
    from dask import is_dask_collection

    return bool(is_dask_collection(value))  # of some classes, only some objects are collections


@functools.cache
def _future_class() -> Any:
    from distributed import Future

    return Future


def key_for_dask(ref: ObjectRef[object], entry: Entry) -> str:
    """Return the key of a Dask task whose value is that of a reference (see `ObjectRef.key`)."""
    from raycompat._dask import client as adapter

    session = ref._session
    if session.closed:
        raise ValueError(f"{ref!r} is of a session that has ended. Make the object again.")
    client = adapter.calling_client()
    if client is not None and client is not session.client:
        theirs, ours = adapter.cluster_id(client), adapter.cluster_id(session.client)
        if theirs != ours:
            raise ValueError(
                f"{ref!r} is of the cluster {ours}, and the Dask client is connected to {theirs}. Pass "
                "the value itself: ray.get(ref)."
            )
    return session.sharing.load_in_dask(entry)


def graph(ref: ObjectRef[object], key: str) -> dict[str, Any]:
    """Return `ref` as a Dask graph with one task, which is called `key`."""
    from raycompat._dask import client as adapter

    return adapter.graph_of_one(key, ref.key, ref)


def only(results: list[Any]) -> Any:
    """Return the only value of a collection that is a reference."""
    return results[0]


def rebuilt(graph: object, key: str, rename: dict[str, str] | None = None) -> Any:
    """Return the collection that Dask makes when it persists a reference."""
    from dask.delayed import Delayed

    return Delayed((rename or {}).get(key, key), graph)


def compute(graph: object, keys: object, **options: object) -> Any:
    """Compute a collection that is a reference, on the cluster of this session."""
    session = current_session.get()
    assert session is not None
    return session.client.get(graph, keys, **options)


def as_ref(session: Membership, value: object) -> ObjectRef[object]:
    """Return a reference to a Dask value; the value does not pass through this process.

    Raises
    ------
    ValueError
        When it is a future of another cluster, was cancelled, or has failed.
    """
    future = value if isinstance(value, _future_class()) else session.client.compute(value)
    theirs, ours = future.client.scheduler_info(0)["id"], session.client.scheduler_info(0)["id"]
    if theirs != ours:
        raise ValueError(
            f"{value!r} belongs to the Dask cluster {theirs}, this driver to {ours}. Compute it there "
            "and pass the result."
        )
    if future.cancelled():
        raise ValueError(f"{value!r} was cancelled: there will be no value to pass.")
    key = ids.call_key("store", ids.new_task_id())
    session.table.add(key, is_held_in_dask=True).is_known_elsewhere = True
    ref: ObjectRef[object] = ObjectRef._from_key(key, session)
    known = session.run(
        ask(session.client.scheduler, StoreDaskValue(session.client.id, key, future.key))
    )
    while True:
        try:
            known.result(_LOOK_S)
            return ref
        except TimeoutError:
            if future.status in ("error", "cancelled", "lost"):  # Dask may have rejected its graph
                known.cancel()
                raise ValueError(f"{value!r} has failed: {future.exception()!r}") from None
