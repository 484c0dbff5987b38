"""The placement groups of local mode: ready at once, because no resources are counted."""

from __future__ import annotations

from raycompat._messages.groups import GroupRow
from raycompat._protocol.call_spec import GroupSpec
from raycompat._protocol.resource_set import ResourceSet


class LocalGroups:
    """The groups of a session, by id; removed ones stay in the table."""

    def __init__(self, node_id: str) -> None:
        self._node_id = node_id
        self._specs: dict[str, GroupSpec] = {}
        self._removed: set[str] = set()

    def create(self, spec: GroupSpec) -> bool:
        """Add a group; return False when its name is taken."""
        if spec["name"] and self.find(spec["name"], spec["namespace"]) is not None:
            return False
        self._specs[spec["group"]] = spec
        return True

    def remove(self, group: str) -> None:
        """Mark a group as removed."""
        self._removed.add(group)

    def is_removed(self, group: str) -> bool:
        """Return whether a group was removed, or is unknown."""
        return group in self._removed or group not in self._specs

    def find(self, name: str, namespace: str) -> str | None:
        """Return the id of the group with a name."""
        for group, spec in self._specs.items():
            if (spec["name"], spec["namespace"]) == (name, namespace) and not self.is_removed(
                group
            ):
                return group
        return None

    def table(self, group: str | None = None, is_living: bool = False) -> dict[str, GroupRow]:
        """Describe all groups, or one, by id; or those that were not removed."""
        chosen = self._specs if group is None else {group} & self._specs.keys()
        return {
            each: self._describe(each)
            for each in chosen
            if not (is_living and self.is_removed(each))
        }

    def _describe(self, group: str) -> GroupRow:
        spec = self._specs[group]
        state = "REMOVED" if self.is_removed(group) else "CREATED"
        return {
            "name": spec["name"],
            "strategy": spec["strategy"],
            "state": state,
            "bundles": [ResourceSet.from_units(units).amounts() for units in spec["bundles"]],
            "nodes": [self._node_id] * len(spec["bundles"]),
            "latency_s": 0.0,
            "num_attempts": 1,
            "progress": "FINISHED" if state == "CREATED" else state,
        }
