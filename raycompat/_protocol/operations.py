"""The requests between callers, the scheduler and nodes: names and fields.

Requests have an answer. Handlers take the fields as parameters. Messages without an answer are in
`raycompat._messages`.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Any


class Request(StrEnum):
    """Requests over Dask's RPC; the handler's result is the answer."""

    # --- to the scheduler, from drivers

    #: The nodes, once all connected workers have reported. Fields: at_least, timeout_s.
    READY = "raycompat_ready"
    #: Whether the cluster has `count` nodes before the timeout. Fields: count, timeout_s.
    NODES_ARE = "raycompat_nodes_are"
    #: The nodes, with their total and free resources.
    STATE = "raycompat_state"
    #: The total and free resources of all nodes together: programs ask for them often.
    RESOURCES = "raycompat_resources"
    #: Take raycompat off the cluster. Fields: text, the reason.
    DETACH = "raycompat_detach"
    #: The keys of everything in the scheduler, with which tests find leaks.
    INVENTORY = "raycompat_inventory"
    #: Whether the scheduler has a package already. Fields: client, uri.
    PACKAGE_BEGIN = "raycompat_package_begin"
    #: The next piece of a package. Fields: client, uri, data.
    PACKAGE_WRITE = "raycompat_package_write"
    #: All pieces of a package were sent. Fields: client, uri.
    PACKAGE_END = "raycompat_package_end"
    #: The times of the last calls.
    TIMELINE = "raycompat_timeline"
    #: Rows of the state of the cluster. Fields: resource, filters, limit, detail.
    LIST = "raycompat_list"
    #: Counts of the rows. Fields: resource.
    SUMMARIZE = "raycompat_summarize"
    #: The data for ``raycompat top``.
    OVERVIEW = "raycompat_overview"

    # --- to the scheduler, from all callers

    #: Values of a node that the caller cannot reach. Fields: node, keys, host.
    FETCH = "raycompat_fetch"
    #: The nodes of values, once these are made, or their errors. Fields: keys, besides.
    LOCATE = "raycompat_locate"
    #: Make an object of the value of a Dask task. Fields: client, key, source.
    STORE = "raycompat_store"
    #: Reserve the name of an actor that will be submitted. Fields: client, key, job, actor.
    RESERVE_ACTOR = "raycompat_reserve_actor"
    #: The actor with a name. Fields: name, namespace.
    FIND_ACTOR = "raycompat_find_actor"
    #: The names of actors. Fields: namespace.
    NAMED_ACTORS = "raycompat_named_actors"
    #: Make a placement group with a name; false if the name is taken. Fields: client, spec.
    CREATE_GROUP = "raycompat_create_group"
    #: The placement group with a name. Fields: name, namespace.
    FIND_GROUP = "raycompat_find_group"
    #: All placement groups, or one. Fields: group.
    GROUPS = "raycompat_groups"

    #: A small value that programs share. Fields: namespace, key.
    KV_GET = "raycompat_kv_get"
    #: Store such a value. Fields: namespace, key, value, overwrite.
    KV_PUT = "raycompat_kv_put"
    #: Delete such values. Fields: namespace, key, is_prefix.
    KV_DELETE = "raycompat_kv_delete"
    #: The keys of such values. Fields: namespace, prefix.
    KV_KEYS = "raycompat_kv_keys"

    #: A request about submitted jobs, in the form of Ray's REST. Fields: method, path, query, body.
    JOBS = "raycompat_jobs"
    #: A job's actor runs: the job's record, None if it was stopped. Fields: submission_id, node_id.
    JOB_BEGIN = "raycompat_job_begin"
    #: Answered when a job is to be stopped, or has ended. Fields: submission_id.
    JOB_AWAIT_STOP = "raycompat_job_await_stop"
    #: How a job's command has ended. Fields: submission_id; exit_code and tail, or error.
    JOB_FINISH = "raycompat_job_finish"

    # --- to the scheduler, from nodes

    #: A node is alive. Fields: worker.
    PULSE = "raycompat_pulse"
    #: The code of a function or class. Fields: function, job.
    FUNCTION = "raycompat_function"
    #: A piece of a package. Fields: uri, offset.
    PACKAGE_READ = "raycompat_package_read"
    #: The values from executors that a node will be asked to adopt. Fields: handed_over.
    EXPECTED = "raycompat_expected"
    #: Nodes do not have values that Dask expects there. Fields: lost_by.
    MISSING = "raycompat_missing"

    # --- to nodes; also to the scheduler, which then asks the node

    #: The names of log files. Fields: pattern; for the scheduler also node.
    LOG_NAMES = "raycompat_log_names"
    #: A part of a log file. Fields: name, position, tail; for the scheduler also node.
    LOG_READ = "raycompat_log_read"
    #: The stacks of processes, as `_node.stacks` describes them. Fields: pid, None for all; for the
    #: scheduler also node, None for all.
    STACKS = "raycompat_stacks"
    #: Make this connection a caller's channel to an actor. Fields: actor.
    CHANNEL = "raycompat_channel"


async def ask(peer: Any, request: Request, /, **fields: Any) -> Any:
    """Send a request over an ``rpc`` object of Dask, and return the answer."""
    return await getattr(peer, request)(**fields)
