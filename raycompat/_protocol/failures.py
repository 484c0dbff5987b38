"""Failures as bytes: what the scheduler and nodes send to whoever waits for a call."""

from __future__ import annotations

import pickle
import re
from typing import Any

from raycompat import exceptions
from raycompat._protocol import ids
from raycompat._protocol.spans import Failure

#: What Ray's state API calls the errors of each class, by the class; others are those of user code.
_ERROR_TYPES = {
    "ActorDiedError": "ACTOR_DIED",
    "ActorUnavailableError": "ACTOR_UNAVAILABLE",
    "NodeDiedError": "NODE_DIED",
    "ObjectLostError": "OBJECT_LOST",
    "OutOfMemoryError": "OUT_OF_MEMORY",
    "OwnerDiedError": "OWNER_DIED",
    "RuntimeEnvSetupError": "RUNTIME_ENV_SETUP_FAILED",
    "TaskCancelledError": "TASK_CANCELLED",
    "TaskPlacementGroupRemoved": "TASK_PLACEMENT_GROUP_REMOVED",
    "TaskUnschedulableError": "TASK_UNSCHEDULABLE_ERROR",
    "WorkerCrashedError": "WORKER_DIED",
}

#: Characters of what is said of a failure.
_MANY_CHARACTERS = 300


def actor_died(text: str, actor: str | None = None, **about: Any) -> bytes:
    """Say that an actor is dead, and why; `about` is as in `ActorDiedErrorContext`."""
    actor_id = ids.object_hex(actor)[: 2 * ids.ACTOR_ID_BYTES] if actor else None
    context = exceptions.ActorDiedErrorContext(error_message=text, actor_id=actor_id, **about)
    return exceptions.dumps_error(exceptions.ActorDiedError(context))


def actor_killed(actor: str) -> bytes:
    """Say that an actor is dead because somebody killed it."""
    return actor_died("The actor is dead because it was killed by `ray.kill`.", actor)


def actor_unavailable(text: str, actor: str) -> bytes:
    """Say that an actor cannot be reached just now, or lost a call that may or may not have run."""
    actor_id = ids.object_hex(actor)[: 2 * ids.ACTOR_ID_BYTES]
    return exceptions.dumps_error(exceptions.ActorUnavailableError(text, actor_id))


def worker_crashed(text: str) -> bytes:
    """Say that the process that ran a task has ended."""
    return exceptions.dumps_error(exceptions.WorkerCrashedError(text))


def out_of_memory(text: str) -> bytes:
    """Say that a task was ended to save its node."""
    return exceptions.dumps_error(exceptions.OutOfMemoryError(text))


def crash_text(name: str, how: str) -> str:
    """Say in words that the process that ran `name` has ended; `how` is as "ended by signal 9"."""
    return (
        f"The worker process died unexpectedly while executing {name}: it {how}. Look at what the "
        "task printed; a process may be killed for using too much memory, or its code may call "
        "os._exit or crash in a native library."
    )


def crashed(name: str, how: str) -> bytes:
    """Say that the process that ran `name` has ended, and how."""
    return worker_crashed(crash_text(name, how))


def runtime_env_failed(text: str) -> bytes:
    """Say that the environment of a call could not be set up."""
    return exceptions.dumps_error(exceptions.RuntimeEnvSetupError(text))


def node_died(text: str) -> bytes:
    """Say that the node that ran a task is gone."""
    return exceptions.dumps_error(exceptions.NodeDiedError(text))


def cancelled(key: str) -> bytes:
    """Say that a task was cancelled."""
    return exceptions.dumps_error(exceptions.TaskCancelledError(ids.task_hex(key)))


def object_lost(key: str) -> bytes:
    """Say that an object is gone and cannot be made again."""
    return exceptions.dumps_error(exceptions.ObjectLostError(ids.object_hex(key), None, ""))


def owner_died(key: str) -> bytes:
    """Say that an object is gone with the process that had put it."""
    return exceptions.dumps_error(exceptions.OwnerDiedError(ids.object_hex(key), None, ""))


def fetch_timed_out(key: str) -> bytes:
    """Say that no node that has an object could be reached."""
    error = exceptions.ObjectFetchTimedOutError(ids.object_hex(key), None, "")
    return exceptions.dumps_error(error)


def group_removed(*, is_actor: bool = False) -> bytes:
    """Say that the placement group of a task, or of an actor that never lived, is gone."""
    if is_actor:
        return exceptions.dumps_error(exceptions.ActorPlacementGroupRemoved())
    return exceptions.dumps_error(exceptions.TaskPlacementGroupRemoved())


def unschedulable(text: str, *, is_actor: bool) -> bytes:
    """Say that a task, or an actor, can never be placed, and why."""
    if is_actor:
        return exceptions.dumps_error(exceptions.ActorUnschedulableError(text))
    return exceptions.dumps_error(exceptions.TaskUnschedulableError(text))


def internal(text: str) -> bytes:
    """Say that raycompat or Dask itself failed."""
    return exceptions.dumps_error(exceptions.RaySystemError(text))


def actor_not_built(error: bytes, actor: str) -> bytes:
    """Say that an actor is dead because an argument of its constructor failed.

    Only the error's text is read, so that this may run in the scheduler.
    """
    reason = "At least one of the arguments of its constructor could not be computed"
    return actor_died(f"{reason}:\n{text_of(error)}", actor)


def text_of(error: bytes) -> str:
    """Return what an error says, without making it."""
    _, text = pickle.loads(error)
    return str(text)


def failure_of(error: bytes) -> Failure:
    """Return Ray's name for the type of an error, and what it says; only its text is read."""
    text = text_of(error).strip()
    found = re.match(r"raycompat\.exceptions\.(\w+)", text)
    name = _ERROR_TYPES.get(found[1] if found else "", "TASK_EXECUTION_EXCEPTION")
    is_ours = name != "TASK_EXECUTION_EXCEPTION"
    said = text.partition(": ")[2] if is_ours else text.rpartition("\n")[2]
    return Failure(name, said[:_MANY_CHARACTERS])
