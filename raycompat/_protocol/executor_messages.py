"""The messages between a node and its executors, which `_protocol.frames` carries.

A message is a tuple: its kind, then its fields. Each kind below lists its fields. The second field of a
message from an executor is a key, or "" if it concerns none.
"""

from __future__ import annotations

from typing import Any

from raycompat._protocol import failures

#: Seconds for the exit handlers of a process that ends by itself. Ray gives an actor as much.
EXIT_WORK_S = 30.0

# --- to an executor

#: Run a call: its key, payload, values of its dependencies, context. The answer is `DONE` or `FAILED`.
RUN = "run"
#: The code of a function or class, as `NEED_FUNCTION` requested it: its id, the code.
FUNCTION = "function"
#: The code is not available: the id, the reason.
NO_FUNCTION = "no-function"
#: No call needs these functions and classes any more: their ids.
FORGET_CODE = "forget-code"
#: Key of a generator's call, number of items received, whether more are wanted.
CREDIT = "credit"
#: End a call: its key, and whether the calls that it made end too.
CANCEL = "cancel"
#: Serve a lease: its key, its settings. `LEASED` says that it has begun, and `DONE` that it has ended.
LEASE = "lease"
#: End a lease after its running call: its key.
REVOKE = "revoke"
#: End a lease, because its caller has ended: its key, the seconds for exit handlers if a call runs.
ABANDON = "abandon"
#: End this process if it runs a call of a lease: the lease, the call, and the key that `DONE` answers.
KILL_IF_RUNNING = "kill-if-running"
#: Describe what runs here, with `RUNNING`: a token, the most objects to list.
LOOK = "look"
#: Report with `OWNS` now: "".
WHAT_IS_OWNED = "what-is-owned"
#: End this process after the calls that it has: the seconds to wait for the calls that it has made, or
#: None for no limit.
EXIT = "exit"
#: End this process now, because its job has ended or no caller needs its call: the seconds for its exit
#: handlers.
END = "end"

# --- from an executor

#: A call has ended: its key, its results, its phases (`_protocol.spans`).
#: For a lease: its key, whether all answers were written.
DONE = "done"
#: A call has failed: its key, the error, its text, whether the options of the call allow another try.
FAILED = "failed"
#: A call waits for an object and lends its CPUs: the key of the call or lease.
BLOCKED = "blocked"
#: That wait is over: the key of the call or lease.
UNBLOCKED = "unblocked"
#: The caller of a lease can connect: the key of the lease.
LEASED = "leased"
#: A lease has given CPUs back: its key, the units of CPU that it still has.
TRIMMED = "trimmed"
#: An item of a generator: key of the call, number, value.
ITEM = "item"
#: Send the code of a function or class: its id.
NEED_FUNCTION = "need-function"
#: Store a value from now on: the id of this process's Dask client, the value.
HAND_OVER = "hand-over"
#: This process cannot run calls: "", why.
UNPREPARED = "unprepared"
#: This process has no more calls, and begins with its exit handlers: "".
LEAVING = "leaving"
#: An actor ends because its code asked for it: its key, the error of later calls.
EXITING = "exiting"
#: Whether other processes need this one, for its calls, actors or objects: "", the answer.
OWNS = "owns"
#: This process is to get no more calls: "".
SPENT = "spent"
#: When calls of an actor or a lease ran: its key, the spans.
SPANS = "spans"
#: The answer to `LOOK`: "", the token, the running calls, the description.
RUNNING = "running"
#: Values of `ray.util.metrics`: the id of this process, the values.
MEASURED = "measured"
#: Reports of experiments: the id of this process, the records.
TRACKED = "tracked"

#: The messages that a caller waits for: without one of them, its call would never end.
ABOUT_RESULTS = frozenset({DONE, FAILED, ITEM})


def failed(key: str, error: bytes) -> tuple[Any, ...]:
    """Return the message that a call has failed and is not tried again."""
    return (FAILED, key, error, failures.text_of(error), False)
