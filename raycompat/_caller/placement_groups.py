"""Placement groups of this process: requests to create and remove them, and waits for them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from raycompat._caller.object_ref import ObjectRef
from raycompat._messages.groups import (
    AwaitGroup,
    CreateGroup,
    CreateNamedGroup,
    DescribeGroups,
    GroupReady,
    RemoveGroup,
)
from raycompat._pickling.serialization import serialize
from raycompat._protocol import ids
from raycompat._protocol.resource_set import ResourceSet
from raycompat._protocol.values import InlineValue

if TYPE_CHECKING:
    from raycompat._caller.session import Session
    from raycompat._protocol.call_spec import GroupSpec

#: The most placement groups whose bundles are remembered.
_MANY_GROUPS = 1_000


def bundles_of(session: Session, group: str) -> list[ResourceSet]:
    """Return the bundles of a placement group; the scheduler is asked once."""
    bundles = session.group_bundles.get(group)
    if bundles is None:
        row = session.rpc(DescribeGroups(group)).get(group)
        if row is None:
            raise ValueError(f"There is no placement group with the id {group}.")
        bundles = [ResourceSet.from_amounts(bundle) for bundle in row["bundles"]]
        keep_bundles(session, group, bundles)
    return bundles


def keep_bundles(session: Session, group: str, bundles: list[ResourceSet]) -> None:
    """Remember the bundles of a placement group; forget the oldest if there are too many."""
    known = session.group_bundles
    known[group] = bundles
    if len(known) > _MANY_GROUPS:
        session.group_bundles = dict(list(known.items())[_MANY_GROUPS // 2 :])


def create(session: Session, spec: GroupSpec, undo: Callable[[], object]) -> bool:
    """Request a group; return False when its name is taken.

    Only a group with a name needs an answer from the scheduler. If an interrupt comes while this waits
    for the answer, `undo` is called after the answer.
    """
    client = session.client_id
    if spec["name"]:
        return session.rpc_or_undo(CreateNamedGroup(client, spec), undo)
    session.check_connection()
    session.send(CreateGroup(spec))
    session.sharing.require_sync()
    return True


def remove(session: Session, group: str) -> None:
    """Remove a group; later requests of this process are handled after the removal."""
    session.check_connection()
    session.send(RemoveGroup(group))
    session.sharing.require_sync()


def when_ready(session: Session, group: str, value: Any) -> ObjectRef[Any]:
    """Return a reference to `value`, which becomes ready when all bundles of the group are reserved."""
    key = ids.call_key("placement_group_ready", ids.new_task_id())
    block, _ = serialize(value)
    with session.lock:
        session.table.add(key)
        ref: ObjectRef[Any] = ObjectRef._from_key(key, session)
        is_first = group not in session.awaited_groups
        waiting = session.awaited_groups.setdefault(group, {})
        for gone in [each for each in waiting if session.table.get(each) is None]:
            del waiting[gone]  # each `wait` that timed out leaves one
        waiting[key] = InlineValue(block.to_bytes())
        if is_first:
            session.send(AwaitGroup(group))
    return ref


def on_ready(session: Session, message: GroupReady) -> None:
    """Handle the report that a group is reserved or failed. Called in the event loop."""
    error = message.error
    with session.lock:
        waiting = session.awaited_groups.pop(message.group, {})
    for key, value in waiting.items():
        entry = session.table.get(key)
        if entry is not None:
            session.table.settle(entry, value=None if error else value, error=error)
            if entry.is_promised:
                session.sharing.fulfil(entry)
