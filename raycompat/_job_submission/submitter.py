"""The process that makes the actors of new jobs. The scheduler starts it, one at a time, with a list.

It is a driver, because actors come from drivers, and ends at once: its actors are detached. It reads
one pickle from standard input, which may have certificates, and writes one line of JSON: the error of
each job that could not be sent.
"""

from __future__ import annotations

import json
import pickle
import sys
from typing import Any

from distributed import Client, Security

import raycompat as ray
from raycompat._job_submission.supervisor import JobSupervisor
from raycompat._protocol import runtime_env, submission
from raycompat._protocol.plain import Row
from raycompat._protocol.resource_set import HEAD_RESOURCE
from raycompat.util._internal_actors import internal_actor
from raycompat.util.scheduling_strategies import NodeAffinitySchedulingStrategy


def _options(job: Row, head: str | None) -> dict[str, Any]:
    """Return the options of a job's actor. Without resources it is on the head node, if any."""
    given = {
        "num_cpus": job.get("entrypoint_num_cpus", 0),
        "num_gpus": job.get("entrypoint_num_gpus") or None,
        "memory": job.get("entrypoint_memory") or None,
        "resources": job.get("entrypoint_resources") or None,
        "label_selector": job.get("entrypoint_label_selector") or None,
    }
    options: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    environment = {
        name: value for name, value in job["runtime_env"].items() if name != runtime_env.SETUP_HOOK
    }
    if environment:
        options["runtime_env"] = environment
    if head is not None and options == {"num_cpus": 0, **_only(options, "runtime_env")}:
        options["scheduling_strategy"] = NodeAffinitySchedulingStrategy(head, soft=True)
    return options


def _only(options: Row, name: str) -> dict[str, object]:
    return {name: options[name]} if name in options else {}


def _send(jobs: list[Row]) -> dict[str, str]:
    """Make the actor of each job; return the errors by id."""
    heads = [node["NodeID"] for node in ray.nodes() if HEAD_RESOURCE in node["Resources"]]
    head = heads[0] if heads else None
    errors = {}
    for job in jobs:
        try:
            internal_actor(JobSupervisor).options(
                name=submission.actor_name(job["submission_id"]),
                namespace=submission.NAMESPACE,
                lifetime="detached",
                **_options(job, head),
            ).remote(job["submission_id"])
        except Exception as error:  # whatever is wrong with one job, the others are sent
            errors[job["submission_id"]] = str(error) or repr(error)
    return errors


def main() -> None:
    """Send the jobs, and end."""
    given = pickle.load(sys.stdin.buffer)
    security = Security(**given["security"]) if given["security"] else None
    with (
        Client(given["address"], security=security, set_as_default=False) as client,
        ray.init(client, namespace=submission.NAMESPACE, log_to_driver=False),
    ):
        errors = _send(given["jobs"])
    print(json.dumps({"errors": errors}), flush=True)


if __name__ == "__main__":
    main()
