"""What all parts of a node stand on: Dask's worker, the node's records and processes, and signals.

A part gets from its constructor the other parts that it asks or tells.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from raycompat._node.executor_pool import ExecutorPool
from raycompat._node.logs import Logs
from raycompat._node.numbers import Numbers
from raycompat._node.object_store import ObjectStore
from raycompat._node.runtime_env import RuntimeEnvs
from raycompat._protocol.message import FromNode

if TYPE_CHECKING:
    from distributed import Worker


@dataclass
class Ground:
    """The records, processes and signals of one node."""

    worker: Worker
    id: str
    ip: str
    labels: dict[str, str]
    #: Send a message to the scheduler plugin.
    tell: Callable[[FromNode], None]
    numbers: Numbers
    store: ObjectStore
    logs: Logs
    envs: RuntimeEnvs
    pool: ExecutorPool
    #: Names of the Unix sockets on which executors accept calls, by actor or lease.
    sockets: dict[str, str]
