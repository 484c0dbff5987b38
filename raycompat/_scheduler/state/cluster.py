"""Nodes, their processes, and jobs."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator
from typing import TYPE_CHECKING

from raycompat._messages.executor_setup import Program
from raycompat._messages.nodes import NodeInfo
from raycompat._protocol import ids
from raycompat._protocol.plain import Row
from raycompat._protocol.resource_set import HEAD_RESOURCE, ResourceSet
from raycompat._protocol.spans import milliseconds
from raycompat._protocol.submission import NAMESPACE
from raycompat._scheduler.state.query import Rows

if TYPE_CHECKING:
    from raycompat._scheduler.job_table import Job
    from raycompat._scheduler.parts import Parts
    from raycompat._scheduler.survey import Findings


class Cluster:
    """The rows of nodes, workers and jobs."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts

    async def nodes(self) -> Rows:
        """Iterate over the nodes, and the last that have left."""
        nodes = self._parts.ground.nodes
        for address in list(nodes.info):
            drain = self._parts.ground.drains.get(address)
            row = _describe_node(nodes.current(address))
            yield {**row, "state_message": str(drain) if drain is not None else None}
        for gone in nodes.departed:
            yield _describe_node(gone, ended=gone["ended"])

    async def events(self) -> Rows:
        """Iterate over the last events."""
        for event in list(self._parts.ground.events.rows):
            yield event

    async def jobs(self) -> Rows:
        """Iterate over all jobs."""
        for described in self.all_jobs():
            yield described

    def all_jobs(self) -> list[Row]:
        """Return the submitted jobs, the other open ones, and the last of those that have ended.

        The driver of a submitted job is in its row. Those that submit jobs have none.
        """
        return [
            *(submitted.describe() for submitted in self._parts.submissions.by_id.values()),
            *(
                self.describe_job(job)
                for job in self._parts.jobs.open.values()
                if self.has_row(job)
            ),
            *self._parts.history.jobs,
        ]

    def has_row(self, job: Job) -> bool:
        """Return whether a driver has its own row."""
        submitted = self._parts.submissions.by_id
        return job.namespace != NAMESPACE and job.setup["submission"] not in submitted

    def describe_job(self, job: Job) -> Row:
        """Return the fields of `JobState`."""
        program = Program.loads(job.setup["program"])
        node = self._parts.nodes.info.get(job.home or "")
        return {
            "job_id": job.job,
            "submission_id": None,
            # An argument is not always valid UTF-8, but the row must be.
            "entrypoint": shlex.join(program.argv).encode(errors="backslashreplace").decode(),
            "type": "DRIVER",
            "status": "SUCCEEDED" if job.orphaned else "RUNNING",
            "message": None,
            "error_type": None,
            "driver_info": {
                "id": job.job,
                "node_ip_address": node["ip"] if node is not None else "",
                "pid": str(job.setup["driver_pid"]),
            },
            "start_time": milliseconds(job.started),
            "end_time": milliseconds(job.ended),
            "metadata": dict(program.metadata),
            "runtime_env": json.loads(job.setup["runtime_env"]),
            "driver_node_id": node["node_id"] if node is not None else None,
        }

    async def workers(self) -> Rows:
        """Iterate over the processes of all nodes, and the drivers."""
        findings = await self._parts.surveys.take()
        if findings.warning:
            yield findings.warning
        for info, found in self._by_node(findings):
            for each in [*found["executors"], *found["ended"]]:
                yield _describe_executor(each, info)
        for job in list(self._parts.jobs.open.values()):
            if not job.orphaned:
                yield self._describe_driver(job)

    async def runtime_envs(self) -> Rows:
        """Iterate over the environments that nodes have set up, or have failed to set up."""
        findings = await self._parts.surveys.take()
        if findings.warning:
            yield findings.warning
        for info, found in self._by_node(findings):
            for each in found["environments"]:
                yield {
                    "runtime_env": json.loads(each["environment"]),
                    "success": each["error"] is None,
                    "creation_time_ms": 1000 * each["seconds"] if each["error"] is None else None,
                    "node_id": info["node_id"],
                    "ref_cnt": each["users"],
                    "error": each["error"],
                }

    def _by_node(self, findings: Findings) -> Iterator[tuple[NodeInfo, Row]]:
        """Iterate over the nodes that are still in the cluster, each with its findings."""
        for address, found in findings.nodes.items():
            info = self._parts.nodes.info.get(address)
            if info is not None:
                yield info, found

    def _describe_driver(self, job: Job) -> Row:
        pid, node = job.setup["driver_pid"], self._parts.nodes.info.get(job.home or "")
        return {
            "worker_id": ids.worker_id(pid, job.job, ""),
            "is_alive": True,
            "worker_type": "DRIVER",
            "exit_type": None,
            "node_id": node["node_id"] if node is not None else "",
            "ip": node["ip"] if node is not None else "",
            "pid": pid,
            "start_time_ms": milliseconds(job.started),
            "end_time_ms": 0,
        }


def _describe_node(info: NodeInfo, *, ended: float = 0.0) -> Row:
    """Return the fields of `NodeState`; `ended` is when it left, 0 before."""
    has_left = bool(ended)
    return {
        "node_id": info["node_id"],
        "node_ip": info["ip"],
        "is_head_node": HEAD_RESOURCE in info["total"],
        "state": "DEAD" if has_left else "ALIVE",
        "state_message": "The node has left the cluster." if has_left else None,
        "node_name": info["name"],
        "resources_total": ResourceSet.from_units(info["total"]).amounts(),
        "labels": info["labels"],
        "gpus": info.get("gpus"),
        "start_time_ms": milliseconds(info["started"]),
        "end_time_ms": milliseconds(ended) or 0,
    }


def _describe_executor(found: Row, node: NodeInfo) -> Row:
    """Return the fields of `WorkerState`."""
    code, is_alive = found["exit_code"], not found["stopped"]
    started = milliseconds(found["started"])
    return {
        "worker_id": ids.worker_id(found["pid"], found["job"], node["node_id"]),
        "is_alive": is_alive,
        "worker_type": "WORKER",
        "exit_type": None if is_alive else _exit_type(found),
        "node_id": node["node_id"],
        "ip": node["ip"],
        "pid": found["pid"],
        "exit_detail": None if is_alive else found["ended_for_memory"] or f"exit code {code}",
        "worker_launch_time_ms": started,
        "worker_launched_time_ms": started,
        "start_time_ms": started,
        "end_time_ms": milliseconds(found["stopped"]) or 0,
    }


def _exit_type(found: Row) -> str:
    if found["ended_for_memory"]:
        return "NODE_OUT_OF_MEMORY"
    return "SYSTEM_ERROR" if found["exit_code"] else "INTENDED_SYSTEM_EXIT"
