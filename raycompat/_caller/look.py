"""A caller's description of its calls and objects, for the state API.

The scheduler does not see the calls of leases and actors. Only their callers know which of them wait,
and for what. Callers describe them on request only. Other threads change the data meanwhile: the answer
is a snapshot, made without locks.
"""

from __future__ import annotations

import heapq
import itertools
import os
from collections import Counter
from typing import TYPE_CHECKING

from raycompat._caller.by_channel import Channel
from raycompat._caller.by_scheduler import SchedulerSender
from raycompat._caller.calls import SENT, Call
from raycompat._caller.object_table import Entry
from raycompat._protocol import ids
from raycompat._protocol.plain import Row
from raycompat._protocol.values import InlineValue, SegmentLink

if TYPE_CHECKING:
    from raycompat._caller.membership import Membership

#: The most calls that one caller counts, and objects among which it looks for the largest.
_MOST_COUNTED = 100_000

#: The most calls in which it looks for the objects that they use.
_MOST_USERS = 10_000


def is_owner(session: Membership) -> bool:
    """Return whether other processes may need this one: for its calls, actors, or objects.

    Objects that came from other processes, and those that no other process knows, do not count.
    """
    if not session.is_connected:
        return False
    entries = session.table.entries.copy().values()
    return bool(session.calls) or any(
        entry.is_known_elsewhere and not entry.is_borrowed for entry in entries
    )


def describe(session: Membership, most: int) -> Row:
    """Return the unfinished calls of this process, and the objects that it refers to.

    It counts all of them, and lists `most` calls and the `most` largest objects. With `most` of 0 it
    says only who it is, and how many bytes it has.
    """
    about = {
        "pid": os.getpid(),
        "ip": session.home.ip if session.shares_home_memory else "",
        "job": session.setup.job,
        "is_driver": session.setup.is_driver,
        # Objects in its node's shared memory that Dask does not know of.
        "home": session.home.address if session.shares_home_memory else None,
        "own_bytes": session.table.own_bytes,
        "records_sites": session.records_sites,
    }
    if not most:
        return about
    calls = list(itertools.islice(session.calls.copy().values(), _MOST_COUNTED))
    entries = session.table.entries.copy()
    used = {
        entry.key
        for call in calls[:_MOST_USERS]
        if not isinstance(call.sender, SchedulerSender)
        for entry in call.dependencies
    }
    senders = (call.sender for call in calls)
    objects = [each for each in entries.items() if each[0] not in session.leases]
    shown = objects
    if len(objects) > most:
        shown = heapq.nlargest(most, objects[:_MOST_COUNTED], key=lambda each: _size(each[1]))
    return {
        **about,
        "num_calls": len(session.calls),
        "counts": Counter(call.name for call in calls),
        "by_actor": Counter(each.key for each in senders if isinstance(each, Channel)),
        "calls": [_call(call) for call in calls[:most]],
        "num_objects": len(objects),
        "objects": [_object(key, entry, is_used=key in used) for key, entry in shown],
    }


def _call(call: Call) -> Row:
    parent = ids.task_hex(call.parent) if call.parent is not None else None
    found = {"key": call.key, "name": call.name, "parent": parent, "party": None}
    if isinstance(call.sender, SchedulerSender):  # the scheduler has the other fields
        return {**found, "state": None, "is_method": False}
    sender, lease = call.sender, call.lease
    is_method = isinstance(sender, Channel)
    if isinstance(sender, Channel):
        found["party"] = sender.key
    elif lease is not None:
        found["party"] = lease.key
    if call.state is SENT:
        state = "SUBMITTED_TO_WORKER"
    elif call.num_waits:
        state = "PENDING_ARGS_AVAIL"
    else:
        state = "PENDING_NODE_ASSIGNMENT"
    resources = {} if is_method else call.request.units()
    return {**found, "state": state, "is_method": is_method, "resources": resources}


def _object(key: str, entry: Entry, *, is_used: bool) -> dict[str, object]:
    if ids.is_of_actor(key):
        kind = "ACTOR_HANDLE"
    elif is_used:
        kind = "USED_BY_PENDING_TASK"
    elif entry.mapping() is not None:
        kind = "PINNED_IN_MEMORY"
    else:
        kind = "LOCAL_REFERENCE"
    about = {"key": key, "size": _size(entry), "state": entry.state.name, "kind": kind}
    return about if entry.site is None else {**about, "site": entry.site}


def _size(entry: Entry) -> int:
    """Return the size of an object in bytes; -1 where this process does not know it."""
    value = entry.value
    if isinstance(value, SegmentLink):
        return value.size
    return len(value.block) if isinstance(value, InlineValue) else -1
