"""Actors and placement groups: the current ones and the last that ended."""

from __future__ import annotations

from typing import TYPE_CHECKING

from raycompat._protocol import failures, runtime_env
from raycompat._protocol.plain import Row
from raycompat._protocol.resource_set import ResourceSet
from raycompat._scheduler.state.query import Rows

if TYPE_CHECKING:
    from raycompat._scheduler.actor_directory import ActorRow
    from raycompat._scheduler.group_row import Group
    from raycompat._scheduler.parts import Parts


class Actors:
    """The rows of actors and placement groups."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts

    async def rows(self) -> Rows:
        """Iterate over all actors."""
        for row in list(self._parts.actors.rows.values()):
            yield self.describe(row)
        for described in list(self._parts.history.actors):
            yield described

    async def rows_with_use(self) -> Rows:
        """Iterate over all actors, with what their processes use: nodes are asked."""
        findings = await self._parts.surveys.take()
        if findings.warning:
            yield findings.warning
        for row in list(self._parts.actors.rows.values()):
            use = findings.executor(row.address, row.pid)
            named = {name: use.get(name) for name in ("rss_bytes", "cpu_percent")}
            yield {**self.describe(row), **named}
        for described in list(self._parts.history.actors):
            yield described

    def describe(self, row: ActorRow) -> Row:
        """Return the fields of `ActorState`."""
        return {
            "actor_id": row.key.rpartition("-")[2],
            "class_name": row.class_name,
            "state": self._state(row),
            "job_id": row.job,
            "name": row.name or "",
            "node_id": self._parts.ground.nodes.id_of(row.address),
            "pid": row.pid or 0,
            "ray_namespace": row.namespace,
            "serialized_runtime_env": row.runtime_env or runtime_env.EMPTY,
            "required_resources": ResourceSet.from_units(row.keep).amounts(),
            "death_cause": _death_cause(row),
            "is_detached": row.detached,
            "placement_group_id": row.group,
            "repr_name": "",
            "num_restarts": row.incarnation,
            "num_restarts_due_to_lineage_reconstruction": 0,
            "num_restarts_due_to_node_preemption": 0,
        }

    def _state(self, row: ActorRow) -> str:
        if row.state not in ("RESERVED", "PENDING"):
            return row.state
        is_waiting = self._parts.ground.dask.state_of(row.key) == "waiting"
        return "DEPENDENCIES_UNREADY" if is_waiting else "PENDING_CREATION"

    async def groups(self) -> Rows:
        """Iterate over all placement groups."""
        for group in [*self._parts.groups.all(), *self._parts.groups.removed()]:
            yield _describe_group(group)


def _death_cause(row: ActorRow) -> dict[str, object] | None:
    if row.state != "DEAD" or row.error is None:
        return None
    return {"actor_died_error_context": {"error_message": failures.text_of(row.error)}}


def _describe_group(group: Group) -> Row:
    """Return the fields of `PlacementGroupState`."""
    spec = group.spec
    return {
        "placement_group_id": group.id,
        "name": spec["name"],
        "creator_job_id": spec["job"],
        "state": group.state,
        "bundles": [
            {
                "bundle_id": {"placement_group_id": group.id, "bundle_index": index},
                "node_id": node_id,
                "unit_resources": bundle.amounts(),
            }
            for index, (bundle, node_id) in enumerate(
                zip(group.bundles, group.node_ids, strict=True)
            )
        ],
        "is_detached": spec["detached"],
        "stats": {
            "scheduling_attempt": group.num_attempts,
            "end_to_end_creation_latency_us": group.latency_s * 1e6,
        },
        "topology_strategy": {},
        "topology_assignments": {},
    }
