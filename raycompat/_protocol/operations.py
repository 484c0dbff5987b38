"""The messages and requests between callers, the scheduler and nodes: names and fields.

Messages of the streams have no answer. They travel as dictionaries with the key ``op``, which is one of
these names, and the fields. Dask adds the field ``client`` to a caller's message, and ``worker`` to a
node's. Requests have an answer. Handlers take the fields as parameters.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Any


class ToScheduler(StrEnum):
    """Messages to the scheduler."""

    # --- from callers

    #: A driver has connected. Fields: job, namespace, setup.
    JOB = "raycompat-job"
    #: The code of a function or class, which a job's calls name by its id. Fields: job, function, code.
    EXPORT = "raycompat-export"
    #: The process that has exported a function or class makes no more calls of it. Fields: job,
    #: function.
    FORGET_CODE = "raycompat-forget-code"
    #: The job's code uses a framework, so its executors import it early. Fields: job, framework.
    NAMES_FRAMEWORK = "raycompat-names-framework"
    #: Run calls: a list of `call_spec.CallSpec`. The answer to each is `ToCaller.DONE`. Fields: calls.
    SUBMIT = "raycompat-submit"
    #: How an announced call ended that its owner ran by a lease. `worker` is the node with its results.
    #: Fields: key, wires, worker, error.
    ENDED_BY_LEASE = "raycompat-ended-by-lease"
    #: A call that was not given to the scheduler has failed, and no process reports it: none has begun
    #: it, or its process has died. `party` is the actor of a method. Fields: key, name, job, party,
    #: group, resources, failure.
    FAILED_CALL = "raycompat-failed-call"
    #: Run an announced call; its owner does not run it any more. Fields: key, retries.
    SCHEDULE = "raycompat-schedule"
    #: End a call, an actor or a lease. Fields: key, force, recursive.
    CANCEL = "raycompat-cancel"
    #: End a call that was sent directly to `party`, an actor or a lease. Fields: party, key, force,
    #: recursive.
    CANCEL_DIRECT = "raycompat-cancel-direct"
    #: This process exits normally: its driver owns its actors from now on.
    DISOWN = "raycompat-disown"
    #: How many items of a generator have been received, and whether more are wanted. Fields: key,
    #: num_received, is_wanted.
    CREDIT = "raycompat-credit"
    #: This process, too, needs the value from now on. Fields: key.
    BORROW = "raycompat-borrow"
    #: Store a value of this process on a node. Fields: key, wire, worker.
    ADOPT = "raycompat-adopt"
    #: Make one of several results of a call a value with its own key. Fields: key, call, index.
    PICK = "raycompat-pick"
    #: Make a Dask task whose value is that of an object. After its release by this process it lingers,
    #: because a graph with it may be on its way. Fields: key, source.
    LOAD = "raycompat-load"
    #: This process has released tasks that linger. Fields: keys.
    UNLOAD = "raycompat-unload"
    #: This process will report an object's value with `FULFIL`. Fields: key.
    PROMISE = "raycompat-promise"
    #: The value or the error of a promised object. Fields: key, wire, worker, error.
    FULFIL = "raycompat-fulfil"
    #: Keep `keys` as long as `carrier`, whose value refers to them. Fields: carrier, keys.
    PIN = "raycompat-pin"
    #: Report with `ToCaller.OBJECT_FREED` when no process needs an object any more. Fields: key.
    WATCH_OBJECT = "raycompat-watch-object"
    #: The answer, `ToCaller.SYNCED`, says that all earlier messages were handled. Fields: token.
    SYNC = "raycompat-sync"
    #: End an actor, or only its process. Fields: key, no_restart.
    KILL_ACTOR = "raycompat-kill-actor"
    #: The actor whose name was reserved will not be created. Fields: key.
    FREE_NAME = "raycompat-free-name"
    #: Report where an actor is, by `ToCaller.ACTOR_STATE`, now and whenever that changes. Fields:
    #: key.
    WATCH_ACTOR = "raycompat-watch-actor"
    #: Stop the reports of `WATCH_ACTOR`. Fields: key.
    UNWATCH_ACTOR = "raycompat-unwatch-actor"
    #: Make a placement group: a `call_spec.GroupSpec`. Fields: spec.
    CREATE_GROUP = "raycompat-create-group"
    #: Remove a placement group. Fields: group.
    REMOVE_GROUP = "raycompat-remove-group"
    #: Report by `ToCaller.GROUP_READY` when all bundles of a group are reserved. Fields: group.
    AWAIT_GROUP = "raycompat-await-group"
    #: Connect this process to an actor that it cannot reach itself. Fields: relay, actor.
    RELAY_OPEN = "raycompat-relay-open"
    #: Bytes for the other end of a relay. Fields: relay, data.
    RELAY_DATA = "raycompat-relay-data"
    #: Close a relay. Fields: relay.
    RELAY_CLOSE = "raycompat-relay-close"
    #: The amount of output that this driver has printed; nodes may send more. Fields: job, cost.
    LOG_PRINTED = "raycompat-log-printed"
    #: Report with `ToCaller.LOGS_FLUSHED` when all output of a job was sent. Fields: job.
    FLUSH_LOGS = "raycompat-flush-logs"
    #: Values that a driver recorded with `ray.util.metrics`. Fields: process, job, measured.
    MEASURED_BY_CALLER = "raycompat-measured-by-caller"
    #: What a driver reports of its experiments (`_protocol.tracked`). Fields: process, records.
    TRACKED_BY_CALLER = "raycompat-tracked-by-caller"
    #: The answer to `ToCaller.LOOK`. Fields: token, found.
    CALLER_LOOKED = "raycompat-caller-looked"

    # --- from nodes

    #: A worker is a raycompat node now, with these resources. Fields: info.
    NODE = "raycompat-node"
    #: A worker cannot be a raycompat node, and why. Fields: reason.
    UNFIT = "raycompat-unfit"
    #: A worker is to be a node no more: its plugin was removed. The answer is `ToNode.DISMISS`.
    RESIGN = "raycompat-resign"
    #: A worker is no node any more: it sends no other message.
    GONE = "raycompat-gone"
    #: How a call ended on a node. Fields: key, owner, pid, outcome.
    RESULT = "raycompat-result"
    #: An item of a generator. Fields: key, owner, item, index, wire.
    ITEM = "raycompat-item"
    #: A node runs a call again; the retries that are left. Fields: key, retries.
    TRIED = "raycompat-tried"
    #: A process that used GPU memory has ended: the GPUs are free. Fields: key.
    FREED = "raycompat-freed"
    #: A call waits in `get`: others can use its CPU. Fields: key.
    BLOCKED = "raycompat-blocked"
    #: It does not wait any more. Fields: key.
    UNBLOCKED = "raycompat-unblocked"
    #: The node cannot adopt a value, and why. Fields: key, error.
    NOT_ADOPTED = "raycompat-not-adopted"
    #: The process of an actor accepts calls. Fields: key, pid, socket, incarnation.
    ACTOR_ALIVE = "raycompat-actor-alive"
    #: The process of an actor has ended, and another one starts. Fields: key, error.
    ACTOR_RESTARTING = "raycompat-actor-restarting"
    #: An actor has ended for good. Fields: key, error.
    ACTOR_ENDED = "raycompat-actor-ended"
    #: An executor accepts the calls of a lease. Fields: key, owner, socket.
    LEASE_ALIVE = "raycompat-lease-alive"
    #: A lease gives CPUs back. Fields: key, units.
    LEASE_TRIMMED = "raycompat-lease-trimmed"
    #: A lease has ended. Fields: key, owner, how, error.
    LEASE_ENDED = "raycompat-lease-ended"
    #: Calls of an actor or a lease that have ended, with their times. Fields: key, pid, job, spans.
    SPANS = "raycompat-spans"
    #: What the GPUs of a node do now, as `_node.gpu_watch` describes it. Fields: gpus.
    GPUS = "raycompat-gpus"
    #: Output of a job. Fields: job, message.
    LOG = "raycompat-log"
    #: All output that a job had printed was sent. Fields: token.
    LOGS_FLUSHED = "raycompat-logs-flushed"
    #: Values that a process of a node recorded. Fields: process, job, measured.
    MEASURED = "raycompat-measured"
    #: A process of a node that recorded values has ended. Fields: process.
    PROCESS_ENDED = "raycompat-process-ended"
    #: What a process of a node reports of its experiments. Fields: process, records.
    TRACKED = "raycompat-tracked"
    #: The answer to `ToNode.LOOK`. Fields: token, found.
    LOOKED = "raycompat-looked"


class ToCaller(StrEnum):
    """Messages to drivers, and to executors whose code makes calls."""

    #: How a call ended. `unknown`: Dask does not know the call. Fields: key, values, error,
    #: dependency, unknown.
    DONE = "raycompat-done"
    #: An actor of this process accepts calls. Fields: key.
    ACTOR_ALIVE = "raycompat-actor-alive"
    #: Where an actor is: the answer to `ToScheduler.WATCH_ACTOR`. Fields: key, report.
    ACTOR_STATE = "raycompat-actor-state"
    #: An executor accepts calls of a requested lease, and its place. Fields: key, place.
    LEASE_ALIVE = "raycompat-lease-alive"
    #: A lease has ended, and how. Fields: key, error, how, unknown.
    LEASE_ENDED = "raycompat-lease-ended"
    #: Whether other callers wait for CPUs. Fields: is_on.
    PRESSURE = "raycompat-pressure"
    #: The node that keeps this process's values; None while there is none. Fields: node.
    HOME = "raycompat-home"
    #: Send a value again: the node left before it stored the value. Fields: key.
    GIVE_AGAIN = "raycompat-give-again"
    #: The bundles of a placement group are reserved, or it was removed. Fields: group, error.
    GROUP_READY = "raycompat-group-ready"
    #: The session ends, because raycompat is taken off the cluster, and why. Fields: text.
    DETACHED = "raycompat-detached"
    #: Bytes from the other end of a relay; None at its end. Fields: relay, data.
    RELAY_DATA = "raycompat-relay-data"
    #: End a call that this process runs by a lease. Fields: key, recursive.
    CANCEL_BY_LEASE = "raycompat-cancel-by-lease"
    #: An item of a generator. Fields: key, index, wire, stored.
    ITEM = "raycompat-item"
    #: The answer to `ToScheduler.WATCH_OBJECT`: no process needs the object. Fields: key.
    OBJECT_FREED = "raycompat-object-freed"
    #: All messages before `ToScheduler.SYNC` were handled.
    SYNCED = "raycompat-synced"
    #: Output of the job.
    LOG = "raycompat-log"
    #: The answer to `ToScheduler.FLUSH_LOGS`: all output was sent.
    LOGS_FLUSHED = "raycompat-logs-flushed"
    #: That answer will come: the nodes that have not answered are alive. Sent regularly until then.
    LOGS_AWAITED = "raycompat-logs-awaited"
    #: Describe the calls and objects of this process, with `ToScheduler.CALLER_LOOKED`.
    #: Fields: token, most.
    LOOK = "raycompat-look"


class ToNode(StrEnum):
    """Messages to nodes."""

    #: End: the worker is no node any more. No other message follows.
    DISMISS = "raycompat-dismiss"
    #: A driver has connected; the settings of its executors.
    JOB = "raycompat-job"
    #: A driver has ended.
    JOB_ENDED = "raycompat-job-ended"
    #: The job's code uses a framework.
    NAMES_FRAMEWORK = "raycompat-names-framework"
    #: No call needs these functions and classes any more. Fields: functions.
    FORGET_CODE = "raycompat-forget-code"
    #: Run a call: a `call_spec.Grant`, ahead of its Dask task.
    GRANT = "raycompat-grant"
    #: End a call.
    CANCEL = "raycompat-cancel"
    #: End a call that was sent directly to an actor or a lease.
    CANCEL_DIRECT = "raycompat-cancel-direct"
    #: How many items of a generator have been received.
    CREDIT = "raycompat-credit"
    #: End the call, actor or lease with this key: no process needs it.
    END = "raycompat-end"
    #: End a lease after its call.
    REVOKE = "raycompat-revoke"
    #: End the process of an actor; the node starts it again if restarts are left.
    RESTART_ACTOR = "raycompat-restart-actor"
    #: Remove a value that no process needs, unless the node stores it.
    DISCARD = "raycompat-discard"
    #: The amount of this node's output that a driver has printed.
    LOG_PRINTED = "raycompat-log-printed"
    #: Send all output of a job.
    FLUSH_LOGS = "raycompat-flush-logs"
    #: Describe what runs, and what executors call and refer to, with `ToScheduler.LOOKED`.
    #: Fields: token, most.
    LOOK = "raycompat-look"
    #: Connect a client to an actor of this node.
    RELAY_OPEN = "raycompat-relay-open"
    #: Bytes for an actor.
    RELAY_DATA = "raycompat-relay-data"
    #: A client has closed its relay.
    RELAY_CLOSE = "raycompat-relay-close"


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
    #: Make this connection a caller's channel to an actor. Fields: actor.
    CHANNEL = "raycompat_channel"


async def ask(peer: Any, request: Request, /, **fields: Any) -> Any:
    """Send a request over an ``rpc`` object of Dask, and return the answer."""
    return await getattr(peer, request)(**fields)
