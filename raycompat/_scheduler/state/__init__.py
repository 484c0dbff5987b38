"""The state of the cluster as rows with Ray's fields, for `ray.util.state`, commands and pages."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from raycompat._messages.state import RAY_MAX_LIMIT_FROM_API_SERVER, SCHEMAS
from raycompat._messages.watching import ListStacks
from raycompat._protocol.plain import Row
from raycompat._scheduler.state.actors import Actors
from raycompat._scheduler.state.cluster import Cluster
from raycompat._scheduler.state.objects import Objects
from raycompat._scheduler.state.other_stacks import OtherStacks
from raycompat._scheduler.state.query import Query, Rows
from raycompat._scheduler.state.summaries import SUMMARIES
from raycompat._scheduler.state.tasks import Tasks

if TYPE_CHECKING:
    from raycompat._scheduler.parts import Parts


class State:
    """The rows and summaries of every resource."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self.actors = Actors(parts)
        self.cluster = Cluster(parts)
        self.tasks = Tasks(parts)
        self._objects = Objects(parts)
        self.others = OtherStacks(parts)
        self._sources: dict[str, Callable[[], Rows]] = {
            "actors": self.actors.rows,
            "cluster_events": self.cluster.events,
            "jobs": self.cluster.jobs,
            "nodes": self.cluster.nodes,
            "objects": self._objects.rows,
            "placement_groups": self.actors.groups,
            "runtime_envs": self.cluster.runtime_envs,
            "workers": self.cluster.workers,
        }

    async def list_(
        self, resource: str, filters: Sequence[object], limit: int, detail: bool
    ) -> Row:
        """Return the rows of a resource that match; or an ``error`` about the filters."""
        try:
            # Rows are in the order of their ids, which are the first field of most.
            are_events = resource == "cluster_events"
            key = "event_id" if are_events else None
            schema = SCHEMAS[resource][0]
            query = Query(schema, filters, limit, detail=detail, key=key, keeps_last=are_events)
        except ValueError as error:
            return {"error": str(error)}
        if resource == "tasks":
            return await query.run(self.tasks.rows(query.may_match))
        if resource == "actors" and detail:
            return await query.run(self.actors.rows_with_use())
        return await query.run(self._sources[resource]())

    async def stacks(self, node: str | None, pid: int | None) -> dict[str, object]:
        """Return the stacks of processes, of one node or of all; those that fail have an error.

        Drivers and the scheduler belong to no node.
        """
        nodes = self._parts.nodes
        known = [node] if node else [info["node_id"] for info in nodes.info.values()]

        async def ask(each: str) -> dict[str, object]:
            try:
                return await self._parts.logs.of_node(ListStacks(each, pid))
            except OSError as error:
                return {"error": f"The node {each} does not answer: {error}"}

        asked = [*map(ask, known), *([] if node else [self.others.show(pid)])]
        found = await asyncio.gather(*asked)
        return {"nodes": dict(zip([*known, ""], found, strict=False))}

    async def summarize(self, resource: str) -> Row:
        """Return counts of actors by class, tasks by function, or objects by origin."""
        if resource == "tasks":
            return await self.tasks.summary()
        listed = await self.list_(resource, (), RAY_MAX_LIMIT_FROM_API_SERVER, detail=False)
        listed["result"] = SUMMARIES[resource](listed["result"])
        return listed


__all__ = ["State"]
