"""What a caller tells of its calls and objects when somebody looks at the state of the cluster.

The calls of leases and actors pass the scheduler by: their callers alone know which of them wait, and
for what. They are asked when somebody looks, and never else. What is read here changes meanwhile in
other threads: the answer is a picture of a moment, and takes no locks.
"""

from __future__ import annotations

import itertools
import os
from collections import Counter
from typing import TYPE_CHECKING, Any

from raycompat._caller.by_channel import Channel
from raycompat._caller.by_scheduler import SchedulerSender
from raycompat._caller.calls import Call, CallState
from raycompat._caller.object_table import Entry
from raycompat._protocol import ids
from raycompat._protocol.values import InlineValue, SegmentLink

if TYPE_CHECKING:
    from raycompat._caller.session import Session

#: Calls that one caller counts by their names.
_MOST_COUNTED = 100_000

#: Calls, and objects, that one caller names at most: as many as Ray's API returns at most.
MOST = 10_000


def describe(session: Session) -> dict[str, Any]:
    """Return what this process has called that has not ended, and the objects that it refers to."""
    calls, entries = session.calls.copy(), session.table.entries.copy()
    used = {
        entry.key
        for call in itertools.islice(calls.values(), MOST)
        if not isinstance(call.sender, SchedulerSender)
        for entry in call.dependencies
    }
    objects = [
        _object(key, entry, is_used=key in used)
        for key, entry in itertools.islice(entries.items(), MOST)
        if key not in session.leases
    ]
    return {
        "pid": os.getpid(),
        "ip": session.home.ip if session.is_near else "",
        "job": session.setup.job,
        "is_driver": session.setup.is_driver,
        "num_calls": len(calls),
        "counts": Counter(call.name for call in itertools.islice(calls.values(), _MOST_COUNTED)),
        "calls": [_call(call) for call in itertools.islice(calls.values(), MOST)],
        "num_objects": max(0, len(entries) - MOST) + len(objects),
        "objects": objects,
    }


def _call(call: Call) -> dict[str, Any]:
    parent = ids.task_hex(call.parent) if call.parent is not None else None
    found = {"key": call.key, "name": call.name, "parent": parent, "party": None}
    if isinstance(call.sender, SchedulerSender):  # the scheduler knows the rest
        return {**found, "state": None, "is_method": False}
    sender, lease = call.sender, call.lease
    is_method = isinstance(sender, Channel)
    if isinstance(sender, Channel):
        found["party"] = sender.key
    elif lease is not None:
        found["party"] = lease.key
    if call.state is CallState.SENT:
        state = "SUBMITTED_TO_WORKER"
    elif call.num_waits:
        state = "PENDING_ARGS_AVAIL"
    else:
        state = "PENDING_NODE_ASSIGNMENT"
    return {**found, "state": state, "is_method": is_method, "units": call.units}


def _object(key: str, entry: Entry, *, is_used: bool) -> dict[str, Any]:
    size, value = -1, entry.value
    if isinstance(value, SegmentLink):
        size = value.size
    elif isinstance(value, InlineValue):
        size = len(value.block)
    if len(ids.object_hex(key)) < 2 * ids.OBJECT_ID_BYTES:
        kind = "ACTOR_HANDLE"
    elif is_used:
        kind = "USED_BY_PENDING_TASK"
    elif entry.mapping() is not None:
        kind = "PINNED_IN_MEMORY"
    else:
        kind = "LOCAL_REFERENCE"
    return {"key": key, "size": size, "state": entry.state.name, "kind": kind}
