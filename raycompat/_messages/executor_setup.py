"""What an executor gets from its node at its start."""

from __future__ import annotations

import pickle
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

from raycompat._messages.jobs import JobSettings
from raycompat._protocol.plain import plain_where_possible
from raycompat._protocol.values import StorePlace


@dataclass(frozen=True, kw_only=True)
class Program:
    """The settings of a driver's program. They travel pickled: paths are not always valid UTF-8."""

    argv: Sequence[str]
    #: The current folder; None if it is gone.
    cwd: str | None = None
    #: The folders of the program's own code, and the driver's `sys.path`.
    own_paths: Sequence[str] = ()
    sys_path: Sequence[str] = ()
    #: Folders that are searched first, and those that are not searched.
    search_path: Sequence[str] = ()
    hidden_paths: Sequence[str] = ()
    #: Modules of the driver that hide others of the same name.
    hiding_modules: Sequence[str] = ()
    metadata: Mapping[str, str] = field(default_factory=dict)
    #: Whether actors outlive the driver by default.
    actors_are_detached: bool = False
    #: The fields of a `LoggingConfig`, if the program gave one.
    logging: dict[str, object] | None = None
    #: The pickled function of the runtime environment, and the import path of Ray's tracing hook.
    setup_hook: bytes | None = None
    tracing_hook: str | None = None

    def dumps(self) -> bytes:
        """Pickle the settings."""
        plain = plain_where_possible({each.name: getattr(self, each.name) for each in fields(self)})
        return pickle.dumps(plain, protocol=5)

    @classmethod
    def loads(cls, content: bytes) -> Program:
        """Return the settings that `dumps` has pickled."""
        return cls(**pickle.loads(content))


@dataclass(frozen=True, kw_only=True)
class ExecutorSetup:
    """What an executor gets from its node at its start."""

    job: str
    namespace: str
    settings: JobSettings
    program: Program
    node_id: str
    node_address: str
    node_pid: int
    #: The node's `sys.path`.
    node_paths: Sequence[str]
    ip: str
    labels: Mapping[str, str]
    #: Whether the node was started with ``CUDA_VISIBLE_DEVICES``: ids of GPUs are text then.
    gpus_are_named: bool
    #: Where the node's segments are written.
    place: StorePlace
    #: The address of the scheduler, and the arguments of Dask's `Security` for it.
    scheduler: str
    security: dict[str, Any] | None
    #: The folder of the node's logs.
    logs: str
    #: The runtime environment of its calls, the folders of modules that it has, and where it begins.
    runtime_env: str = ""
    env_paths: Sequence[str] = ()
    cwd: str | None = None
