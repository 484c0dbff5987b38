"""What the state API is asked, and the classes of what it returns (from `_messages.state`).

Times are in milliseconds since 1970, sizes in bytes, ids hexadecimal. A field of which the notes say
"detail" is None unless ``detail=True`` was given, or a ``get_`` function was called.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import Any, TypeAlias

from raycompat._messages.state import (
    RAY_MAX_LIMIT_FROM_API_SERVER,
    SCHEMAS,
    ActorState,
    ClusterEventState,
    DriverInfo,
    JobState,
    NodeState,
    ObjectState,
    PlacementGroupState,
    RuntimeEnvState,
    StateSchema,
    TaskState,
    WorkerState,
)
from raycompat._surface.modules import names_of

__all__ = [
    "DEFAULT_LIMIT",
    "DEFAULT_LOG_LIMIT",
    "DEFAULT_RPC_TIMEOUT",
    "RAY_MAX_LIMIT_FROM_API_SERVER",
    "SCHEMAS",
    "ActorState",
    "ClusterEventState",
    "DriverInfo",
    "Filter",
    "GetApiOptions",
    "JobState",
    "ListApiOptions",
    "NodeState",
    "ObjectState",
    "PlacementGroupState",
    "PredicateType",
    "RuntimeEnvState",
    "StateResource",
    "StateSchema",
    "SummaryApiOptions",
    "SummaryResource",
    "SupportedFilterType",
    "TaskState",
    "WorkerState",
    "check_filter",
]

#: Rows that ``list_`` functions return, unless told otherwise.
DEFAULT_LIMIT = 100

#: Seconds that a request may take, unless told otherwise.
DEFAULT_RPC_TIMEOUT = 30

#: Lines of a log that are shown, unless told otherwise.
DEFAULT_LOG_LIMIT = 1000

#: A filter: the name of a field, ``=`` or ``!=``, and a value.
PredicateType: TypeAlias = str
SupportedFilterType: TypeAlias = str | bool | int | float
Filter: TypeAlias = tuple[str, PredicateType, SupportedFilterType]


class StateResource(Enum):
    """The kinds of things that can be listed.

    Notes
    -----
    Ray source: ``ray.util.state.common.StateResource``, 2.60.0.
    """

    ACTORS = "actors"
    JOBS = "jobs"
    PLACEMENT_GROUPS = "placement_groups"
    NODES = "nodes"
    WORKERS = "workers"
    TASKS = "tasks"
    OBJECTS = "objects"
    RUNTIME_ENVS = "runtime_envs"
    CLUSTER_EVENTS = "cluster_events"


class SummaryResource(Enum):
    """The kinds of things that can be summarized.

    Notes
    -----
    Ray source: ``ray.util.state.common.SummaryResource``, 2.60.0.
    """

    ACTORS = "actors"
    TASKS = "tasks"
    OBJECTS = "objects"


@dataclass
class ListApiOptions:
    """How to list.

    Parameters
    ----------
    limit : int, default 100
        Rows at most, up to 10,000.
    timeout : int, default 30
        Seconds that the request may take; as in Ray, four fifths of that are used, 1 at least.
    detail : bool, default False
        Whether fields are filled that take more work.
    filters : list of (str, str, value), optional
        Field, ``=`` or ``!=``, and value; all must hold.
    exclude_driver : bool, default True
        Accepted for Ray's sake: drivers are not listed as tasks.
    server_timeout_multiplier : float, default 0.8
        The part of `timeout` that is used.

    Raises
    ------
    ValueError
        When a filter has another predicate.

    Notes
    -----
    Ray source: ``ray.util.state.common.ListApiOptions``, 2.60.0.
    """

    limit: int = DEFAULT_LIMIT
    timeout: int = DEFAULT_RPC_TIMEOUT
    detail: bool = False
    filters: list[Filter] | None = field(default_factory=list)
    exclude_driver: bool = True
    server_timeout_multiplier: float = 0.8

    def __post_init__(self) -> None:
        self.timeout = max(1, int(self.timeout * self.server_timeout_multiplier))
        self.filters = list(self.filters or ())
        for each in self.filters:
            check_filter(each)


@dataclass
class GetApiOptions:
    """How to get one thing.

    Parameters
    ----------
    timeout : int, default 30
        Seconds that the request may take; as in Ray, four fifths of that are used, 1 at least.
    server_timeout_multiplier : float, default 0.8
        The part of `timeout` that is used.

    Notes
    -----
    Ray source: ``ray.util.state.common.GetApiOptions``, 2.60.0.
    """

    timeout: int = DEFAULT_RPC_TIMEOUT
    server_timeout_multiplier: float = 0.8

    def __post_init__(self) -> None:
        self.timeout = max(1, int(self.timeout * self.server_timeout_multiplier))


@dataclass
class SummaryApiOptions:
    """How to summarize.

    Parameters
    ----------
    timeout : int, default 30
        Seconds that the request may take.
    filters : list of (str, str, value), optional
        As in `ListApiOptions`.
    summary_by : str, optional
        Accepted for Ray's sake; tasks are grouped by function, actors by class, objects by place.

    Notes
    -----
    Ray source: ``ray.util.state.common.SummaryApiOptions``, 2.60.0.
    """

    timeout: int = DEFAULT_RPC_TIMEOUT
    filters: list[Filter] | None = field(default_factory=list)
    summary_by: str | None = None


def check_filter(given: Any) -> None:
    """Raise an error for values that are not filters.

    Raises
    ------
    ValueError
        When it is not a tuple of three, or the predicate is unknown.
    """
    if not isinstance(given, list | tuple) or len(given) != 3:
        raise ValueError(
            f"The filter {given!r} is not a tuple of field, predicate and value. Write for example "
            '("state", "=", "RUNNING").'
        )
    if given[1] not in ("=", "!="):
        raise ValueError(
            f"The filter {given!r} has an unknown predicate. Available predicates: =, !=."
        )


#: Names of older Rays.
__getattr__ = names_of(__name__)
