"""The state of the cluster, for programs: ``list_``, ``get_`` and ``summarize_`` functions.

Each asks the scheduler once. The scheduler asks the callers, which know the unfinished calls of leases
and actors, and the nodes, whose executors know which of these run. Only calls that have ended are
recorded all the time: 40 bytes a call.
"""

from raycompat.util.state.api import (
    get_actor,
    get_job,
    get_node,
    get_objects,
    get_placement_group,
    get_task,
    get_worker,
    list_actors,
    list_cluster_events,
    list_jobs,
    list_nodes,
    list_objects,
    list_placement_groups,
    list_runtime_envs,
    list_tasks,
    list_workers,
    summarize_actors,
    summarize_objects,
    summarize_tasks,
)
from raycompat.util.state.client import StateApiClient
from raycompat.util.state.logs import get_log, list_logs

__all__ = [
    "StateApiClient",
    "get_actor",
    "get_job",
    "get_log",
    "get_node",
    "get_objects",
    "get_placement_group",
    "get_task",
    "get_worker",
    "list_actors",
    "list_cluster_events",
    "list_jobs",
    "list_logs",
    "list_nodes",
    "list_objects",
    "list_placement_groups",
    "list_runtime_envs",
    "list_tasks",
    "list_workers",
    "summarize_actors",
    "summarize_objects",
    "summarize_tasks",
]
