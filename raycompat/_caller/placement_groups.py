"""Placement groups of this process: requests to create and remove them, and waits for them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

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
    from raycompat._caller.membership import Membership
    from raycompat._protocol.call_spec import GroupSpec

#: The most placement groups whose bundles are remembered.
_MANY_GROUPS = 1_000


class PlacementGroups:
    """The placement groups that a session has created or uses."""

    def __init__(self, session: Membership) -> None:
        self._session = session
        #: The bundles of the groups, by the groups' ids.
        self.bundles: dict[str, list[ResourceSet]] = {}
        #: Values of objects that become ready with a group, by group and key.
        self._awaited: dict[str, dict[str, InlineValue]] = {}

    def bundles_of(self, group: str) -> list[ResourceSet]:
        """Return the bundles of a placement group; the scheduler is asked once."""
        bundles = self.bundles.get(group)
        if bundles is None:
            row = self._session.rpc(DescribeGroups(group)).get(group)
            if row is None:
                raise ValueError(f"There is no placement group with the id {group}.")
            bundles = [ResourceSet.from_amounts(bundle) for bundle in row["bundles"]]
            self.keep_bundles(group, bundles)
        return bundles

    def keep_bundles(self, group: str, bundles: list[ResourceSet]) -> None:
        """Remember the bundles of a placement group; forget the oldest if there are too many."""
        known = self.bundles
        known[group] = bundles
        if len(known) > _MANY_GROUPS:
            self.bundles = dict(list(known.items())[_MANY_GROUPS // 2 :])

    def create(self, spec: GroupSpec, undo: Callable[[], object]) -> bool:
        """Request a group; return False when its name is taken.

        Only a group with a name needs an answer from the scheduler. If an interrupt comes while this
        waits for the answer, `undo` is called after the answer.
        """
        client = self._session.client_id
        if spec["name"]:
            return self._session.rpc_or_undo(CreateNamedGroup(client, spec), undo)
        self._session.check_connection()
        self._session.send(CreateGroup(spec))
        self._session.sharing.require_sync()
        return True

    def remove(self, group: str) -> None:
        """Remove a group; later requests of this process are handled after the removal."""
        self._session.check_connection()
        self._session.send(RemoveGroup(group))
        self._session.sharing.require_sync()

    def when_ready(self, group: str, value: object) -> ObjectRef[object]:
        """Return a reference to `value`, which becomes ready when the whole group is reserved."""
        key = ids.call_key("placement_group_ready", ids.new_task_id())
        block, _ = serialize(value)
        with self._session.lock:
            self._session.table.add(key)
            ref: ObjectRef[object] = ObjectRef._from_key(key, self._session)
            is_first = group not in self._awaited
            waiting = self._awaited.setdefault(group, {})
            for gone in [each for each in waiting if self._session.table.get(each) is None]:
                del waiting[gone]  # each `wait` that timed out leaves one
            waiting[key] = InlineValue(block.to_bytes())
            if is_first:
                self._session.send(AwaitGroup(group))
        return ref

    def on_ready(self, message: GroupReady) -> None:
        """Handle the report that a group is reserved or failed. Called in the event loop."""
        error = message.error
        with self._session.lock:
            waiting = self._awaited.pop(message.group, {})
        for key, value in waiting.items():
            entry = self._session.table.get(key)
            if entry is not None:
                self._session.table.settle(entry, value=None if error else value, error=error)
                if entry.is_promised:
                    self._session.sharing.fulfil(entry)
