"""Failures as bytes, which the scheduler and nodes send to the callers that wait."""

from __future__ import annotations

import pickle
import re
from typing import Any

from raycompat import exceptions
from raycompat._protocol import ids
from raycompat._protocol.spans import Failure

#: The type that Ray's state API shows for each error class; all others are errors of user code.
_ERROR_TYPES = {
    "ActorDiedError": "ACTOR_DIED",
    "ActorUnavailableError": "ACTOR_UNAVAILABLE",
    "ActorUnschedulableError": "ACTOR_UNSCHEDULABLE_ERROR",
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

#: The type of an error of user code.
_OF_USER = "TASK_EXECUTION_EXCEPTION"

#: Begins the text of an actor whose process has ended; what follows is the reason.
DEAD_BECAUSE = "The actor is dead because "

#: Texts about actors that their programs have ended.
_KILLED = "it was killed by `ray.kill`."
_EXITED = "The actor exited because exit_actor() is called, or __ray_terminate__."
OWNER_DIED = f"{DEAD_BECAUSE}its owner has died: the driver or actor that made it."
NO_REFERENCES = "All references to the actor were removed."
GROUP_REMOVED = "Its placement group was removed."
_GROUP_REMOVED_BEFORE = exceptions.ActorPlacementGroupRemoved._error_text

#: Characters of a failure's text that the state API shows, and of a traceback's end on the pages.
_MANY_CHARACTERS, _MANY_OF_LINE, _MANY_OF_TRACEBACK = 300, 1_000, 3_000

#: The line of a traceback that names a place in the code, and the next one that is not indented.
_FRAME, _NOT_INDENTED = re.compile(r"^  File .*$", re.MULTILINE), re.compile(r"^\S", re.MULTILINE)


def actor_died(text: str, actor: str | None = None, **about: Any) -> bytes:
    """Return the error of an actor that is dead; `about` is as in `ActorDiedErrorContext`."""
    actor_id = ids.object_hex(actor)[: 2 * ids.ACTOR_ID_BYTES] if actor else None
    context = exceptions.ActorDiedErrorContext(error_message=text, actor_id=actor_id, **about)
    return exceptions.dumps_error(exceptions.ActorDiedError(context))


def actor_killed(actor: str) -> bytes:
    """Return the error of an actor that `ray.kill` has ended."""
    return actor_died(f"{DEAD_BECAUSE}{_KILLED}", actor)


def actor_exited(actor: str) -> bytes:
    """Return the error of an actor that has called `exit_actor`."""
    return actor_died(_EXITED, actor)


def is_expected(error: bytes) -> bool:
    """Return whether an actor was ended by its program.

    A program ends an actor by `ray.kill`, from inside, with its owner, or with its placement group.
    """
    return _says_on_purpose(text_of(error))


def is_on_purpose(failure: Failure) -> bool:
    """Return whether a call failed because its program has cancelled it or ended its actor."""
    if failure.type == "ACTOR_DIED":
        return _says_on_purpose(f"{failure.text}\n{failure.traceback}")
    return failure.type in ("TASK_CANCELLED", "TASK_PLACEMENT_GROUP_REMOVED")


def _says_on_purpose(text: str) -> bool:
    expected = (_KILLED, _EXITED, OWNER_DIED, NO_REFERENCES, GROUP_REMOVED, _GROUP_REMOVED_BEFORE)
    return any(each in text for each in expected)


def actor_unavailable(text: str, actor: str) -> bytes:
    """Return the error of a call that was lost, or of an actor that cannot be reached now."""
    actor_id = ids.object_hex(actor)[: 2 * ids.ACTOR_ID_BYTES]
    return exceptions.dumps_error(exceptions.ActorUnavailableError(text, actor_id))


def worker_crashed(text: str) -> bytes:
    """Return the error of a task whose process has ended."""
    return exceptions.dumps_error(exceptions.WorkerCrashedError(text))


def out_of_memory(text: str) -> bytes:
    """Return the error of a task that was ended because its node lacked memory."""
    return exceptions.dumps_error(exceptions.OutOfMemoryError(text))


def crash_text(name: str, how: str) -> str:
    """Describe how the process that ran `name` ended; `how` is like "ended by signal 9"."""
    return (
        f"The process of {name} {how}. Look at what the task printed. A process may be killed for "
        "using too much memory, or its code may call sys.exit or os._exit, or crash in a native "
        "library."
    )


def crashed(name: str, how: str) -> bytes:
    """Return the error of a task whose process has ended, and how."""
    return worker_crashed(crash_text(name, how))


def runtime_env_failed(text: str) -> bytes:
    """Return the error of a call whose runtime environment could not be set up."""
    return exceptions.dumps_error(exceptions.RuntimeEnvSetupError(text))


def node_died(text: str) -> bytes:
    """Return the error of a task whose node has left the cluster."""
    return exceptions.dumps_error(exceptions.NodeDiedError(text))


def cancelled(key: str) -> bytes:
    """Return the error of a cancelled task."""
    return exceptions.dumps_error(exceptions.TaskCancelledError(ids.task_hex(key)))


def object_lost(key: str, cause: str = "") -> bytes:
    """Return the error of an object that is lost and cannot be computed again.

    `cause` is a sentence to append to its text.
    """
    error = exceptions.ObjectLostError(ids.object_hex(key), None, "")
    error._cause = cause
    return exceptions.dumps_error(error)


def owner_died(key: str) -> bytes:
    """Return the error of an object that is lost because the process that put it has ended."""
    return exceptions.dumps_error(exceptions.OwnerDiedError(ids.object_hex(key), None, ""))


def fetch_timed_out(key: str) -> bytes:
    """Return the error of an object whose nodes could not be reached."""
    error = exceptions.ObjectFetchTimedOutError(ids.object_hex(key), None, "")
    return exceptions.dumps_error(error)


def group_removed(*, is_actor: bool = False) -> bytes:
    """Return the error of a task, or of an actor that never ran, whose placement group was removed."""
    if is_actor:
        return exceptions.dumps_error(exceptions.ActorPlacementGroupRemoved())
    return exceptions.dumps_error(exceptions.TaskPlacementGroupRemoved())


def unschedulable(text: str, *, is_actor: bool) -> bytes:
    """Return the error of a task or an actor that can never be placed, and why."""
    if is_actor:
        return exceptions.dumps_error(exceptions.ActorUnschedulableError(text))
    return exceptions.dumps_error(exceptions.TaskUnschedulableError(text))


def internal(text: str) -> bytes:
    """Return the error of a failure inside raycompat or Dask."""
    return exceptions.dumps_error(exceptions.RaySystemError(text))


def unwritable(what: str, why: str) -> bytes:
    """Return the error of a call whose message, `what`, could not be written."""
    return internal(f"{what} could not be written as a message: {why}")


def unreadable(what: str, why: str) -> bytes:
    """Return the error of a call whose message, `what`, has arrived and could not be read."""
    return internal(f"{what} has arrived, and could not be read: {why}")


def actor_not_built(error: bytes, actor: str) -> bytes:
    """Return the error of an actor with a constructor argument that failed.

    This may run in the scheduler, so it reads only the error's text and makes no exception of it.
    """
    reason = "At least one of the arguments of its constructor could not be computed"
    return actor_died(f"{reason}:\n{text_of(error)}", actor)


def text_of(error: bytes) -> str:
    """Return an error's text without unpickling the error."""
    _, text = pickle.loads(error)
    return str(text)


def reason_of(error: bytes) -> str:
    """Return why an actor's process has ended, from the actor's error; empty if that is not known."""
    return text_of(error).partition(DEAD_BECAUSE)[2].strip()


def kind_and_text(error: bytes) -> tuple[str, str]:
    """Return Ray's name for an error's type, and the error's text without its class."""
    text = text_of(error).strip()
    found = re.match(r"raycompat\.exceptions\.(\w+)", text)
    name = _ERROR_TYPES.get(found[1] if found else "", _OF_USER)
    return name, text if name == _OF_USER else text.partition(": ")[2]


def failure_of(error: bytes) -> Failure:
    """Return Ray's name for an error's type, and the error's text."""
    name, text = kind_and_text(error)
    said = _type_line(text)[0] if name == _OF_USER else text
    return Failure(name, said[:_MANY_CHARACTERS], traceback_of(error))


def line_of(failure: Failure) -> str:
    """Return what a failure is in one line: the error of user code, or the reason for another."""
    if failure.type == _OF_USER or not failure.traceback:
        return failure.text
    return last_line(failure.traceback)


def last_line(text: str) -> str:
    """Return the line of an error's text that says why: at most 300 characters of it."""
    line = _type_line(text)[0].removeprefix("raycompat.exceptions.")
    if line.startswith(DEAD_BECAUSE):  # after a restart the actor lives
        line = line.removeprefix(DEAD_BECAUSE)
        line = line[:1].upper() + line[1:]
    return line[:_MANY_CHARACTERS]


def _type_line(text: str) -> tuple[str, int]:
    """Return the line of an error's text that begins with the type of the error, and where it is.

    The text of an error may have several lines. The first one is below the last line of the code, and
    only it is not indented. Without lines of code, it is the last line of the text.
    """
    text = text.rstrip()
    frames = list(_FRAME.finditer(text))
    found = _NOT_INDENTED.search(text, frames[-1].end()) if frames else None
    at = found.start() if found is not None else text.rfind("\n") + 1
    return text[at:].partition("\n")[0], at


def traceback_of(error: bytes) -> str:
    """Return the end of an error's text with its traceback, for pages."""
    lines = text_of(error).strip().split("\n")
    text = "\n".join(line[:_MANY_OF_LINE] for line in lines)
    text = text.encode(errors="backslashreplace").decode()
    if len(text) <= _MANY_OF_TRACEBACK:
        return text
    # The line that says why is kept, with what is around it.
    stop = min(len(text), _type_line(text)[1] + _MANY_OF_TRACEBACK // 2)
    start = max(0, stop - _MANY_OF_TRACEBACK)
    return f"{'…' if start else ''}{text[start:stop]}{'…' if stop < len(text) else ''}"


def for_pages(error: bytes) -> bytes:
    """Return an error of which only the text is kept, as far as pages show it."""
    return pickle.dumps((None, traceback_of(error)))
