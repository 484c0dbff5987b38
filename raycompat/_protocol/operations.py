"""The messages of the streams between callers, the scheduler and nodes: their names and fields.

They travel as dictionaries: ``op``, which is one of these, and the fields. A caller's message gets the
field ``client`` on its way, a node's the field ``worker``. Handlers take the fields as parameters.
"""

from __future__ import annotations

from enum import StrEnum


class ToScheduler(StrEnum):
    """What the scheduler is told."""

    # --- by callers

    #: A driver begins: its job, namespace and set-up. Fields: job, namespace, setup.
    JOB = "raycompat-job"
    #: A function or class that the calls of a job name by its id. Fields: job, function, code.
    EXPORT = "raycompat-export"
    #: The code of a job names TensorFlow: its executors import it early. Fields: job.
    NAMES_TENSORFLOW = "raycompat-names-tensorflow"
    #: Run calls: a list of `call_spec.CallSpec`. The answer to each is `ToCaller.DONE`. Fields:
    #: calls.
    SUBMIT = "raycompat-submit"
    #: How a call ended that its owner ran by a lease, after it was announced. Fields: key, wires,
    #: error.
    MADE = "raycompat-made"
    #: Run a call that its owner announced and does not run itself any more. Fields: key, retries.
    SCHEDULE = "raycompat-schedule"
    #: End a call, an actor or a lease. Fields: key, force, recursive.
    CANCEL = "raycompat-cancel"
    #: End a call that was sent straight to an actor or a lease, `party`. Fields: party, message.
    CANCEL_DIRECT = "raycompat-cancel-direct"
    #: This process ends in order: its driver owns its actors from now on.
    DISOWN = "raycompat-disown"
    #: How many items of a generator have been received, and whether more are wanted. Fields: key,
    #: credit.
    CREDIT = "raycompat-credit"
    #: Keep a value for this process, too. Fields: key.
    BORROW = "raycompat-borrow"
    #: Keep a value that this process has made, at a node. Fields: key, wire.
    ADOPT = "raycompat-adopt"
    #: One of several results of a call is to be a value with its own key. Fields: key, call, index.
    PICK = "raycompat-pick"
    #: Make a Dask task whose value is that of an object. Fields: key, source.
    LOAD = "raycompat-load"
    #: This process will tell how an object turns out: `FULFIL`. Fields: key, owner.
    PROMISE = "raycompat-promise"
    #: What a promised object is: a value, or an error. Fields: key, wire, error.
    FULFIL = "raycompat-fulfil"
    #: Keep `keys` as long as `carrier`, whose value refers to them. Fields: carrier, keys.
    PIN = "raycompat-pin"
    #: The answer, `ToCaller.SYNCED`, says that all earlier messages were heard. Fields: token.
    SYNC = "raycompat-sync"
    #: End an actor, or only its process. Fields: key, no_restart.
    KILL_ACTOR = "raycompat-kill-actor"
    #: The actor does not come whose name was reserved. Fields: key.
    FREE_NAME = "raycompat-free-name"
    #: Report where an actor is, by `ToCaller.ACTOR_STATE`, now and whenever that changes. Fields:
    #: key.
    WATCH_ACTOR = "raycompat-watch-actor"
    #: Report that no more. Fields: key.
    UNWATCH_ACTOR = "raycompat-unwatch-actor"
    #: Make a placement group: a `call_spec.GroupSpec`. Fields: spec.
    CREATE_GROUP = "raycompat-create-group"
    #: Remove a placement group. Fields: group.
    REMOVE_GROUP = "raycompat-remove-group"
    #: Report by `ToCaller.GROUP_READY` when all bundles of a group are reserved. Fields: group.
    AWAIT_GROUP = "raycompat-await-group"
    #: Connect this process with an actor that it cannot reach. Fields: relay, actor.
    RELAY_OPEN = "raycompat-relay-open"
    #: Bytes for the other end of a relay. Fields: relay, data.
    RELAY_DATA = "raycompat-relay-data"
    #: Close a relay. Fields: relay.
    RELAY_CLOSE = "raycompat-relay-close"
    #: This driver has printed so much of a node's output: more can come. Fields: job, cost.
    LOG_PRINTED = "raycompat-log-printed"
    #: Report by `ToCaller.LOGS_FLUSHED` when all that a job printed was sent. Fields: job.
    FLUSH_LOGS = "raycompat-flush-logs"
    #: What a driver measured with `ray.util.metrics`. Fields: process, measured.
    MEASURED_BY_CALLER = "raycompat-measured-by-caller"
    #: The answer to `ToCaller.LOOK`. Fields: token, found.
    CALLER_LOOKED = "raycompat-caller-looked"

    # --- by nodes

    #: A worker is a node now, and what it has. Fields: info.
    NODE = "raycompat-node"
    #: A worker cannot be a node, and why. Fields: reason.
    UNFIT = "raycompat-unfit"
    #: How a call ended that a node has run. Fields: key, owner, pid, outcome.
    RESULT = "raycompat-result"
    #: An item of a generator. Fields: key, owner, item, index, wire.
    ITEM = "raycompat-item"
    #: A node runs a call again; the retries that are left. Fields: key, retries.
    TRIED = "raycompat-tried"
    #: A process that had memory on GPUs has ended: others can have them. Fields: key.
    FREED = "raycompat-freed"
    #: A call waits in `get`: others can have its CPU. Fields: key.
    BLOCKED = "raycompat-blocked"
    #: It does not wait any more. Fields: key.
    UNBLOCKED = "raycompat-unblocked"
    #: The node cannot adopt a value, and why. Fields: key, error.
    NOT_ADOPTED = "raycompat-not-adopted"
    #: The process of an actor takes calls. Fields: key, pid, socket, incarnation.
    ACTOR_ALIVE = "raycompat-actor-alive"
    #: The process of an actor has ended, and another one will start. Fields: key, error.
    ACTOR_RESTARTING = "raycompat-actor-restarting"
    #: An actor has ended for good. Fields: key, error.
    ACTOR_ENDED = "raycompat-actor-ended"
    #: An executor takes the calls of a lease. Fields: key, owner, socket.
    LEASE_ALIVE = "raycompat-lease-alive"
    #: A lease gives CPUs back. Fields: key, units.
    LEASE_TRIMMED = "raycompat-lease-trimmed"
    #: A lease has ended. Fields: key, owner, how, error.
    LEASE_ENDED = "raycompat-lease-ended"
    #: Calls of an actor or a lease that have ended, with their times. Fields: key, pid, job, spans.
    SPANS = "raycompat-spans"
    #: Output of a job. Fields: job, message.
    LOG = "raycompat-log"
    #: All output was sent that a job had printed. Fields: token.
    LOGS_FLUSHED = "raycompat-logs-flushed"
    #: What a process of a node measured. Fields: process, measured.
    MEASURED = "raycompat-measured"
    #: The answer to `ToNode.LOOK`. Fields: token, found.
    LOOKED = "raycompat-looked"


class ToCaller(StrEnum):
    """What the scheduler tells drivers, and executors that call."""

    #: How a call ended. `unknown`: Dask does not know the call. Fields: key, values, error,
    #: dependency, unknown.
    DONE = "raycompat-done"
    #: An actor of this process takes calls. Fields: key.
    ACTOR_ALIVE = "raycompat-actor-alive"
    #: Where an actor is: the answer to `ToScheduler.WATCH_ACTOR`. Fields: key, report.
    ACTOR_STATE = "raycompat-actor-state"
    #: An executor takes calls of a lease that was asked for, and where it is. Fields: key, place.
    LEASE_ALIVE = "raycompat-lease-alive"
    #: A lease has ended, and how. Fields: key, error, how, unknown.
    LEASE_ENDED = "raycompat-lease-ended"
    #: Whether other callers wait for CPUs. Fields: is_on.
    PRESSURE = "raycompat-pressure"
    #: The node that keeps this process's values; None while there is none. Fields: node.
    HOME = "raycompat-home"
    #: Give a value to a node again: its node has left before it kept it. Fields: key.
    GIVE_AGAIN = "raycompat-give-again"
    #: The bundles of a placement group are reserved, or it is gone. Fields: group, error.
    GROUP_READY = "raycompat-group-ready"
    #: Bytes from the other end of a relay; None at its end. Fields: relay, data.
    RELAY_DATA = "raycompat-relay-data"
    #: End a call that this process runs by a lease. Fields: key, recursive.
    CANCEL_PROMISED = "raycompat-cancel-promised"
    #: An item of a generator. Fields: key, index, wire, stored.
    ITEM = "raycompat-item"
    #: All was heard that was said before `ToScheduler.SYNC`.
    SYNCED = "raycompat-synced"
    #: Output of the job.
    LOG = "raycompat-log"
    #: All output was sent that was asked for by `ToScheduler.FLUSH_LOGS`.
    LOGS_FLUSHED = "raycompat-logs-flushed"
    #: Describe the calls and objects of this process: `ToScheduler.CALLER_LOOKED`.
    LOOK = "raycompat-look"


class ToNode(StrEnum):
    """What the scheduler tells nodes."""

    #: A driver begins, and what its executors need to know.
    JOB = "raycompat-job"
    #: A driver has ended.
    JOB_ENDED = "raycompat-job-ended"
    #: The code of a job names TensorFlow.
    NAMES_TENSORFLOW = "raycompat-names-tensorflow"
    #: Run a call: a `call_spec.Grant`, ahead of its Dask task.
    GRANT = "raycompat-grant"
    #: End a call.
    CANCEL = "raycompat-cancel"
    #: End a call that was sent straight to an actor or a lease.
    CANCEL_DIRECT = "raycompat-cancel-direct"
    #: How many items of a generator have been received.
    CREDIT = "raycompat-credit"
    #: End whatever has this key: nobody needs it.
    END = "raycompat-end"
    #: End a lease after its call.
    REVOKE = "raycompat-revoke"
    #: Start the process of an actor again.
    RESTART_ACTOR = "raycompat-restart-actor"
    #: Remove the item of a generator that no process needs.
    DISCARD = "raycompat-discard"
    #: A driver has printed so much of this node's output.
    LOG_PRINTED = "raycompat-log-printed"
    #: Send all that a job has printed.
    FLUSH_LOGS = "raycompat-flush-logs"
    #: Describe what runs: `ToScheduler.LOOKED`.
    LOOK = "raycompat-look"
    #: Connect a client with an actor of this node.
    RELAY_OPEN = "raycompat-relay-open"
    #: Bytes for an actor.
    RELAY_DATA = "raycompat-relay-data"
    #: A client has closed its relay.
    RELAY_CLOSE = "raycompat-relay-close"
