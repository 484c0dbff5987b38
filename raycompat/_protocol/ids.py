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

#: Hexadecimal digits of a result's index, at the end of the key of one of several results.
_INDEX_DIGITS = 2 * (OBJECT_ID_BYTES - TASK_ID_BYTES)

_counter = itertools.count(1)
_prefix = os.urandom(16).hex()


def _reset_after_fork() -> None:
    """Give a forked process a new prefix, so that its ids differ from its parent's."""
    global _prefix, _counter
    _prefix = os.urandom(16).hex()
    _counter = itertools.count(1)


os.register_at_fork(after_in_child=_reset_after_fork)


def new_task_id() -> str:
    """Return a new task id as 48 hexadecimal digits: this process's random prefix and a count."""
    return f"{_prefix}{next(_counter):016x}"


def new_actor_id() -> str:
    """Return a new actor id as 32 hexadecimal digits."""
    return os.urandom(ACTOR_ID_BYTES).hex()


def new_job_id() -> str:
    """Return a new job id as 8 hexadecimal digits."""
    return os.urandom(JOB_ID_BYTES).hex()


def new_node_id() -> str:
    """Return a new node id as 56 hexadecimal digits."""
    return os.urandom(NODE_ID_BYTES).hex()


def new_placement_group_id() -> str:
    """Return a new placement group id as 36 hexadecimal digits."""
    return os.urandom(PLACEMENT_GROUP_ID_BYTES).hex()


def worker_id(pid: int, job: str, node: str | None) -> str:
    """Return the id of a job's process: 56 hexadecimal digits.

    `node` is the id of the node of an executor, because processes of two hosts may have the same pid;
    empty for a driver, and None if it is unknown.
    """
    length = 2 * NODE_ID_BYTES
    return f"{pid:08x}{job}{node or ''}"[:length].ljust(length, "0")


def call_key(name: str, task_id: str) -> str:
    """Return the Dask key of a call: its function's name and its task id."""
    return f"{name.replace('-', '_')}-{task_id}"


def return_key(key: str, index: int) -> str:
    """Return the Dask key of the `index`-th of several results of the call `key`."""
    return f"{key}{index + 1:0{_INDEX_DIGITS}x}"


def call_of(key: str) -> str:
    """Return the Dask key of the call that has the result `key`: the inverse of `return_key`."""
    digits = key.rpartition("-")[2]
    return key[:-_INDEX_DIGITS] if len(digits) == 2 * OBJECT_ID_BYTES else key


def is_of_actor(key: str) -> bool:
    """Return whether a key is that of an actor, and not of a call or a value."""
    return len(key.rpartition("-")[2]) == 2 * ACTOR_ID_BYTES


def object_hex(key: str) -> str:
    """Return the 56 hexadecimal digits that identify the object behind `key`."""
    digits = key.rpartition("-")[2]
    return digits if len(digits) == 2 * OBJECT_ID_BYTES else digits + "00000001"


def task_hex(key: str) -> str:
    """Return the 48 hexadecimal digits of the task that makes the object behind `key`."""
    return key.rpartition("-")[2][: 2 * TASK_ID_BYTES]
