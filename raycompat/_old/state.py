"""`ray.state` and `ray.global_state`: tables of the cluster, for programs of Ray 0.2 to 1.13."""

from __future__ import annotations

from typing import Any

import raycompat
from raycompat._surface.modules import names_of
from raycompat.util import state as _state

nodes = raycompat.nodes
cluster_resources = raycompat.cluster_resources
available_resources = raycompat.available_resources
timeline = raycompat.timeline

#: The most rows that a table has.
_ROWS = 10_000


def node_ids() -> list[str]:
    """Return the resource of each living node by its address: ``node:IP``."""
    resources = []
    for node in nodes():
        if node["Alive"]:
            address = f"node:{node['NodeManagerAddress']}"
            resources += [name for name in node["Resources"] if name == address]
    return resources


def current_node_id() -> str:
    """Return the resource of this process's node by its address: ``node:IP``."""
    return f"node:{raycompat.util.get_node_ip_address()}"


def jobs() -> list[dict[str, Any]]:
    """Return a dictionary for each job: its id, and whether it has ended."""
    return [
        {
            "JobID": job.job_id,
            "DriverIPAddress": job.driver_info.node_ip_address if job.driver_info else "",
            "DriverPid": int(job.driver_info.pid) if job.driver_info else 0,
            "IsDead": job.status != "RUNNING",
        }
        for job in _state.list_jobs(limit=_ROWS)
    ]


def actors(actor_id: str | None = None) -> dict[str, Any]:
    """Return the actors by their ids; of one id, the dictionary of that actor.

    Parameters
    ----------
    actor_id : str, optional
        The id in hexadecimal; an ``ActorID`` is taken too.
    """
    rows = {
        each.actor_id: {
            "ActorID": each.actor_id,
            "ActorClassName": each.class_name,
            "JobID": each.job_id,
            "Name": each.name or "",
            "State": each.state,
            "NodeID": each.node_id,
            "Pid": each.pid,
        }
        for each in _state.list_actors(limit=_ROWS)
    }
    return rows if actor_id is None else rows.get(_hex(actor_id), {})


def objects(object_ref: Any = None) -> dict[str, Any]:
    """Return the objects that processes refer to, by their ids; of one reference, that object.

    Parameters
    ----------
    object_ref : ObjectRef or str, optional
        The reference, or its id in hexadecimal.
    """
    rows = {
        each.object_id: {
            "ObjectRef": each.object_id,
            "Size": each.object_size,
            "Owner": each.ip,
            "ReferenceType": each.reference_type,
        }
        for each in _state.list_objects(limit=_ROWS)
    }
    return rows if object_ref is None else rows.get(_hex(object_ref), {})


def tasks(task_id: Any = None) -> dict[str, Any]:
    """Return the tasks by their ids; of one id, that task.

    Parameters
    ----------
    task_id : TaskID or str, optional
        The id, or its text in hexadecimal.
    """
    rows = {
        each.task_id: {
            "TaskID": each.task_id,
            "Name": each.name,
            "State": each.state,
            "JobID": each.job_id,
            "ActorID": each.actor_id,
            "ParentTaskID": each.parent_task_id,
        }
        for each in _state.list_tasks(limit=_ROWS)
    }
    return rows if task_id is None else rows.get(_hex(task_id), {})


def workers() -> dict[str, Any]:
    """Return the living processes of the cluster by their ids."""
    return {
        each.worker_id: {
            "node_ip_address": each.ip,
            "node_id": each.node_id,
            "pid": each.pid,
            "worker_type": each.worker_type,
        }
        for each in _state.list_workers(limit=_ROWS)
        if each.is_alive
    }


def _hex(id_or_text: Any) -> str:
    return id_or_text if isinstance(id_or_text, str) else id_or_text.hex()


class GlobalState:
    """The tables as methods, under the names that Ray 0.2 to 1.13 had for them."""

    def client_table(self) -> list[dict[str, Any]]:
        """Return a dictionary for each node, which has its resources."""
        return [
            {**node, "ClientID": node["NodeID"], "IsInsertion": node["Alive"]} for node in nodes()
        ]

    def node_table(self) -> list[dict[str, Any]]:
        """Return a dictionary for each node."""
        return nodes()

    def object_table(self, object_id: Any = None) -> dict[str, Any]:
        """Return the objects by their ids, or the one of an id.

        Parameters
        ----------
        object_id : ObjectRef or str, optional
        """
        return objects(object_id)

    def task_table(self, task_id: Any = None) -> dict[str, Any]:
        """Return the tasks by their ids, or the one of an id.

        Parameters
        ----------
        task_id : TaskID or str, optional
        """
        return tasks(task_id)

    def actor_table(self, actor_id: Any = None) -> dict[str, Any]:
        """Return the actors by their ids, or the one of an id.

        Parameters
        ----------
        actor_id : ActorID or str, optional
        """
        return actors(actor_id)

    def job_table(self) -> list[dict[str, Any]]:
        """Return a dictionary for each job."""
        return jobs()

    def actors(self) -> dict[str, Any]:
        """Return the actors by their ids."""
        return actors()

    def workers(self) -> dict[str, Any]:
        """Return the living processes of the cluster by their ids."""
        return workers()

    def placement_group_table(self, placement_group_id: Any = None) -> dict[str, Any]:
        """Return the placement groups by their ids, or the one of an id.

        Parameters
        ----------
        placement_group_id : PlacementGroupID or str, optional
        """
        table: dict[str, Any] = raycompat.util.placement_group_table()
        return table if placement_group_id is None else table.get(_hex(placement_group_id), {})

    def cluster_resources(self) -> dict[str, float]:
        """Return the resources of all nodes together, by name."""
        return cluster_resources()

    def available_resources(self) -> dict[str, float]:
        """Return the free resources of all nodes, by name."""
        return available_resources()

    def chrome_tracing_dump(self, filename: str | None = None, **options: Any) -> Any:
        """Return the events of `ray.timeline`, or write them to a file.

        Parameters
        ----------
        filename : str, optional
        **options
            What Ray 0.5 could leave out of the trace. All of it is written.
        """
        return timeline(filename)


#: What ``ray.state.state`` and ``ray.global_state`` are.
state = GlobalState()

__getattr__ = names_of("raycompat.state")
