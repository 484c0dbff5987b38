"""The state of the cluster as rows with Ray's fields: for `ray.util.state`, commands and pages."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from raycompat._scheduler.state.actors import Actors
from raycompat._scheduler.state.cluster import Cluster
from raycompat._scheduler.state.objects import Objects
from raycompat._scheduler.state.query import Query, Rows
from raycompat._scheduler.state.summaries import SUMMARIES
from raycompat._scheduler.state.tasks import Tasks
from raycompat.util.state.common import RAY_MAX_LIMIT_FROM_API_SERVER, SCHEMAS

if TYPE_CHECKING:
    from raycompat._scheduler.core import Core


class State:
    """See the module. Part of the plugin."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self.actors = Actors(core)
        self.cluster = Cluster(core)
        self.tasks = Tasks(core)
        self._objects = Objects(core)
        self._sources: dict[str, Callable[[], Rows]] = {
            "actors": self.actors.rows,
            "jobs": self.cluster.jobs,
            "nodes": self.cluster.nodes,
            "objects": self._objects.rows,
            "placement_groups": self.actors.groups,
            "workers": self.cluster.workers,
        }

    async def list_(
        self, resource: str, filters: Sequence[Any], limit: int, detail: bool
    ) -> dict[str, Any]:
        """Return the rows of a resource that match; or what is wrong with the filters, as ``error``."""
        try:
            query = Query(SCHEMAS[resource][0], filters, limit, detail=detail)
        except ValueError as error:
            return {"error": str(error)}
        if resource == "tasks":
            return await query.run(self.tasks.rows(query.may_match))
        return await query.run(self._sources[resource]())

    async def overview(self) -> dict[str, Any]:
        """Return what ``raycompat top`` shows: nodes, functions, actors, what runs, and bytes."""
        from raycompat._scheduler.pages import tables

        await self._core.surveys.take()
        return {
            "state": self._core.nodes.state(),
            "functions": tables.functions(self._core)[: tables.MOST_ROWS],
            "actors": tables.actors(self._core)[: tables.MOST_ROWS],
            "running": tables.running(self._core)[: tables.MOST_ROWS],
            "stores": tables.stores(self._core),
        }

    async def summarize(self, resource: str) -> dict[str, Any]:
        """Return the sums of actors by class, tasks by function, or objects by where they are from."""
        if resource == "tasks":
            return await self.tasks.summary()
        listed = await self.list_(resource, (), RAY_MAX_LIMIT_FROM_API_SERVER, detail=False)
        listed["result"] = SUMMARIES[resource](listed["result"])
        return listed


__all__ = ["State"]
