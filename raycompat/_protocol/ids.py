"""Identifiers: tasks, objects, actors, jobs, and the Dask keys that carry them.

An id has Ray's length: a task 24 bytes, an object 28 (its task's, then the index of the return), an
actor 16, a job 4, a node 28. A *key* is what Dask calls a task or a value: ``name-<hex>``. Dask
groups keys by what stands before the first dash, so every call of one function shares one group.
"""

from __future__ import annotations

import itertools
import os

TASK_ID_BYTES = 24
OBJECT_ID_BYTES = 28
ACTOR_ID_BYTES = 16
JOB_ID_BYTES = 4
NODE_ID_BYTES = 28
PLACEMENT_GROUP_ID_BYTES = 18

_counter = itertools.count(1)
_prefix = os.urandom(16).hex()


def _reset_after_fork() -> None:
    """Give a forked process a prefix of its own, so that its ids differ from its parent's."""
    global _prefix, _counter
    _prefix = os.urandom(16).hex()
    _counter = itertools.count(1)


os.register_at_fork(after_in_child=_reset_after_fork)


def new_task_id() -> str:
    """Return a fresh task id as 48 hexadecimal digits: a random prefix of this process, a count."""
    return f"{_prefix}{next(_counter):016x}"


def new_actor_id() -> str:
    """Return a fresh actor id as 32 hexadecimal digits."""
    return os.urandom(ACTOR_ID_BYTES).hex()


def new_job_id() -> str:
    """Return a fresh job id as 8 hexadecimal digits."""
    return os.urandom(JOB_ID_BYTES).hex()


def new_node_id() -> str:
    """Return a fresh node id as 56 hexadecimal digits."""
    return os.urandom(NODE_ID_BYTES).hex()


def new_placement_group_id() -> str:
    """Return a fresh id of a placement group as 36 hexadecimal digits."""
    return os.urandom(PLACEMENT_GROUP_ID_BYTES).hex()


def worker_id(pid: int, job: str) -> str:
    """Return the id of the process that runs calls of a job: 56 hexadecimal digits."""
    return f"{pid:08x}{job}".ljust(2 * NODE_ID_BYTES, "0")


def call_key(name: str, task_id: str) -> str:
    """Return the Dask key of a call: its function's name and its task id."""
    return f"{name.replace('-', '_')}-{task_id}"


def return_key(key: str, index: int) -> str:
    """Return the Dask key of the `index`-th of several results of the call `key`."""
    return f"{key}{index + 1:08x}"


def object_hex(key: str) -> str:
    """Return the 56 hexadecimal digits that identify the object behind `key`."""
    digits = key.rpartition("-")[2]
    return digits if len(digits) == 2 * OBJECT_ID_BYTES else digits + "00000001"


def task_hex(key: str) -> str:
    """Return the 48 hexadecimal digits of the task that makes the object behind `key`."""
    return key.rpartition("-")[2][: 2 * TASK_ID_BYTES]


class Id:
    """An id as programs see it: some bytes, shown in hexadecimal digits."""

    __slots__ = ("_digits",)

    def __init__(self, digits: str) -> None:
        self._digits = digits

    def hex(self) -> str:
        """Return the hexadecimal digits."""
        return self._digits

    def binary(self) -> bytes:
        """Return the bytes."""
        return bytes.fromhex(self._digits)

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and other._digits == self._digits

    def __hash__(self) -> int:
        return hash(self._digits)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._digits})"


class TaskID(Id):
    """The id of a task, 24 bytes."""


class JobID(Id):
    """The id of a driver's job, 4 bytes."""


class NodeID(Id):
    """The id of a node, 28 bytes."""


class ActorID(Id):
    """The id of an actor, 16 bytes."""


class PlacementGroupID(Id):
    """The id of a placement group, 18 bytes."""

    @classmethod
    def nil(cls) -> PlacementGroupID:
        """Return the id of no group."""
        return cls("ff" * PLACEMENT_GROUP_ID_BYTES)

    @classmethod
    def from_hex(cls, digits: str) -> PlacementGroupID:
        """Return the id with these 36 hexadecimal digits."""
        return cls(digits)

    def is_nil(self) -> bool:
        """Return whether this is the id of no group."""
        return self == PlacementGroupID.nil()
