"""The rows of the state API: one class for each kind of thing in the cluster, with Ray's fields.

The scheduler sends them as dictionaries. Times are in milliseconds since 1970, sizes in bytes, ids
hexadecimal. A field of which the notes say "detail" is None unless ``detail=True`` was given, or a
``get_`` function was called.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, fields
from typing import Any

#: The most rows that ``list_`` functions return.
RAY_MAX_LIMIT_FROM_API_SERVER = 10_000

#: Whether filters may name a field, and whether it is filled on request only.
_PLAIN = {"filterable": False, "detail": False}
_FILTERABLE = {"filterable": True, "detail": False}
_DETAIL = {"filterable": False, "detail": True}
_FILTERABLE_DETAIL = {"filterable": True, "detail": True}


class StateSchema:
    """What the classes of rows have in common: fields that can also be read as keys.

    Notes
    -----
    Ray source: ``ray.util.state.common.StateSchema``, 2.60.0.
    """

    @classmethod
    def list_columns(cls, detail: bool = True) -> list[str]:
        """Return the names of the fields, in order; without those of detail if not `detail`."""
        return [
            each.name
            for each in fields(cls)  # type: ignore[arg-type]
            if detail or not each.metadata["detail"]
        ]

    @classmethod
    def columns(cls) -> set[str]:
        """Return the names of all fields."""
        return set(cls.list_columns())

    @classmethod
    def base_columns(cls) -> set[str]:
        """Return the names of the fields that are always filled."""
        return set(cls.list_columns(detail=False))

    @classmethod
    def detail_columns(cls) -> set[str]:
        """Return the names of all fields, as Ray does."""
        return cls.columns()

    @classmethod
    def filterable_columns(cls) -> set[str]:
        """Return the names of the fields that filters may name."""
        return {
            each.name
            for each in fields(cls)  # type: ignore[arg-type]
            if each.metadata["filterable"]
        }

    def asdict(self) -> dict[str, Any]:
        """Return the fields as a dictionary."""
        return asdict(self)  # type: ignore[call-overload, no-any-return]

    def __getitem__(self, key: str) -> Any:
        return getattr(self, key)

    def __setitem__(self, key: str, value: object) -> None:
        setattr(self, key, value)

    def get(self, key: str, default: object = None) -> Any:
        """Return a field, or `default` when there is none of that name."""
        return getattr(self, key, default)


@dataclass
class ActorState(StateSchema):
    """An actor: where it runs, in which state, and why it died.

    Notes
    -----
    Ray source: ``ray.util.state.common.ActorState``, 2.60.0. `state` is DEPENDENCIES_UNREADY,
    PENDING_CREATION, ALIVE, RESTARTING or DEAD. Detail: from `serialized_runtime_env` on. Always None
    or 0 here: `repr_name`, `call_site`, `label_selector`, `fallback_strategy`, and the two counts of
    restarts for a reason. Not in Ray: `rss_bytes`, the resident memory of its process, and
    `cpu_percent`, the CPU that it uses in percent of one.
    """

    actor_id: str = field(metadata=_FILTERABLE)
    class_name: str = field(metadata=_FILTERABLE)
    state: str = field(metadata=_FILTERABLE)
    job_id: str = field(metadata=_FILTERABLE)
    name: str | None = field(metadata=_FILTERABLE)
    node_id: str | None = field(metadata=_FILTERABLE)
    pid: int | None = field(metadata=_FILTERABLE)
    ray_namespace: str | None = field(metadata=_FILTERABLE)
    serialized_runtime_env: str | None = field(default=None, metadata=_DETAIL)
    required_resources: dict[str, float] | None = field(default=None, metadata=_DETAIL)
    death_cause: dict[str, Any] | None = field(default=None, metadata=_DETAIL)
    is_detached: bool | None = field(default=None, metadata=_DETAIL)
    placement_group_id: str | None = field(default=None, metadata=_FILTERABLE_DETAIL)
    repr_name: str | None = field(default=None, metadata=_FILTERABLE_DETAIL)
    num_restarts: int | None = field(default=None, metadata=_DETAIL)
    num_restarts_due_to_lineage_reconstruction: int | None = field(default=None, metadata=_DETAIL)
    num_restarts_due_to_node_preemption: int | None = field(default=None, metadata=_DETAIL)
    call_site: str | None = field(default=None, metadata=_DETAIL)
    label_selector: dict[str, str] | None = field(default=None, metadata=_DETAIL)
    fallback_strategy: dict[str, Any] | None = field(default=None, metadata=_DETAIL)
    rss_bytes: int | None = field(default=None, metadata=_DETAIL)
    cpu_percent: float | None = field(default=None, metadata=_DETAIL)


@dataclass
class PlacementGroupState(StateSchema):
    """A placement group: its bundles, and the nodes on which they are.

    Notes
    -----
    Ray source: ``ray.util.state.common.PlacementGroupState``, 2.60.0. `state` is PENDING, CREATED,
    RESCHEDULING or REMOVED. Detail: from `bundles` on. There are no topologies: those are empty.
    """

    placement_group_id: str = field(metadata=_FILTERABLE)
    name: str = field(metadata=_FILTERABLE)
    creator_job_id: str = field(metadata=_FILTERABLE)
    state: str = field(metadata=_FILTERABLE)
    bundles: list[dict[str, Any]] | None = field(default=None, metadata=_DETAIL)
    is_detached: bool | None = field(default=None, metadata=_FILTERABLE_DETAIL)
    stats: dict[str, Any] | None = field(default=None, metadata=_DETAIL)
    topology_strategy: dict[str, str] | None = field(default=None, metadata=_DETAIL)
    topology_assignments: dict[str, str] | None = field(default=None, metadata=_DETAIL)


@dataclass
class NodeState(StateSchema):
    """A node: its address, resources and labels.

    Notes
    -----
    Ray source: ``ray.util.state.common.NodeState``, 2.60.0. `state` is ALIVE or DEAD, and
    `state_message` says whether a living node is drained; of the nodes that have left, the last 1,000
    are known. Detail: `start_time_ms`, `end_time_ms` and `gpus`. The last is not in Ray: what the GPUs
    of NVIDIA did at most two seconds ago, where NVML works.
    """

    node_id: str = field(metadata=_FILTERABLE)
    node_ip: str = field(metadata=_FILTERABLE)
    is_head_node: bool = field(metadata=_FILTERABLE)
    state: str = field(metadata=_FILTERABLE)
    state_message: str | None = field(metadata=_PLAIN)
    node_name: str = field(metadata=_FILTERABLE)
    resources_total: dict[str, float] = field(metadata=_PLAIN)
    labels: dict[str, str] = field(metadata=_PLAIN)
    start_time_ms: int | None = field(default=None, metadata=_DETAIL)
    end_time_ms: int | None = field(default=None, metadata=_DETAIL)
    gpus: list[dict[str, Any]] | None = field(default=None, metadata=_DETAIL)


@dataclass
class DriverInfo:
    """The driver of a job: id of the job, address and process."""

    id: str
    node_ip_address: str
    pid: str


@dataclass
class JobState(StateSchema):
    """A job: its driver, and whether that is still there.

    Notes
    -----
    Ray source: ``ray.util.state.common.JobState``, 2.60.0. `status` is RUNNING, or SUCCEEDED when the
    driver has left; how its process ended is not known. A submitted job has the states of `JobStatus`
    and a `submission_id`. `driver_info` is a dictionary or a `DriverInfo`.
    """

    job_id: str | None = field(metadata=_FILTERABLE)
    submission_id: str | None = field(metadata=_FILTERABLE)
    entrypoint: str = field(metadata=_PLAIN)
    type: str = field(metadata=_FILTERABLE)
    status: str = field(metadata=_FILTERABLE)
    message: str | None = field(metadata=_PLAIN)
    error_type: str | None = field(metadata=_PLAIN)
    driver_info: DriverInfo | None = field(metadata=_PLAIN)
    start_time: int | None = field(default=None, metadata=_DETAIL)
    end_time: int | None = field(default=None, metadata=_DETAIL)
    metadata: dict[str, str] | None = field(default=None, metadata=_DETAIL)
    runtime_env: dict[str, Any] | None = field(default=None, metadata=_DETAIL)
    driver_agent_http_address: str | None = field(default=None, metadata=_DETAIL)
    driver_node_id: str | None = field(default=None, metadata=_DETAIL)
    driver_exit_code: int | None = field(default=None, metadata=_DETAIL)

    def __post_init__(self) -> None:
        given: Any = self.driver_info
        if isinstance(given, dict):
            self.driver_info = DriverInfo(**given)


@dataclass
class WorkerState(StateSchema):
    """A process that runs tasks or an actor, or a driver.

    Notes
    -----
    Ray source: ``ray.util.state.common.WorkerState``, 2.60.0. `worker_type` is WORKER or DRIVER. Of the
    processes that have ended, each node knows the last 200. Detail: from `exit_detail` on; a process is
    forked, so its three times of beginning are one. Breakpoints have no port.
    """

    worker_id: str = field(metadata=_FILTERABLE)
    is_alive: bool = field(metadata=_FILTERABLE)
    worker_type: str = field(metadata=_FILTERABLE)
    exit_type: str | None = field(metadata=_FILTERABLE)
    node_id: str = field(metadata=_FILTERABLE)
    ip: str = field(metadata=_FILTERABLE)
    pid: int = field(metadata=_FILTERABLE)
    exit_detail: str | None = field(default=None, metadata=_DETAIL)
    worker_launch_time_ms: int | None = field(default=None, metadata=_DETAIL)
    worker_launched_time_ms: int | None = field(default=None, metadata=_DETAIL)
    start_time_ms: int | None = field(default=None, metadata=_DETAIL)
    end_time_ms: int | None = field(default=None, metadata=_DETAIL)
    debugger_port: int | None = field(default=None, metadata=_FILTERABLE_DETAIL)
    num_paused_threads: int | None = field(default=None, metadata=_FILTERABLE_DETAIL)


@dataclass
class TaskState(StateSchema):
    """A call of a remote function, an actor's method or an actor's constructor.

    Notes
    -----
    Ray source: ``ray.util.state.common.TaskState``, 2.60.0. `state` is PENDING_ARGS_AVAIL,
    PENDING_NODE_ASSIGNMENT, SUBMITTED_TO_WORKER, RUNNING, FINISHED or FAILED; `type` NORMAL_TASK,
    ACTOR_TASK or ACTOR_CREATION_TASK. Detail: from `language` on. Unknown are the `parent_task_id` of
    calls that have ended, and when calls were created. Attempts that the node made itself, after a
    process had died, count as one. `error_message` is the text of the exception, without the traceback,
    300 characters at most. There are no `events`, no profile, and no place in a log.
    """

    task_id: str = field(metadata=_FILTERABLE)
    attempt_number: int = field(metadata=_FILTERABLE)
    name: str = field(metadata=_FILTERABLE)
    state: str = field(metadata=_FILTERABLE)
    job_id: str = field(metadata=_FILTERABLE)
    actor_id: str | None = field(metadata=_FILTERABLE)
    type: str = field(metadata=_FILTERABLE)
    func_or_class_name: str = field(metadata=_FILTERABLE)
    parent_task_id: str | None = field(metadata=_FILTERABLE)
    node_id: str | None = field(metadata=_FILTERABLE)
    worker_id: str | None = field(metadata=_FILTERABLE)
    worker_pid: int | None = field(metadata=_FILTERABLE)
    error_type: str | None = field(metadata=_FILTERABLE)
    language: str | None = field(default=None, metadata=_FILTERABLE_DETAIL)
    required_resources: dict[str, float] | None = field(default=None, metadata=_DETAIL)
    runtime_env_info: dict[str, Any] | None = field(default=None, metadata=_DETAIL)
    placement_group_id: str | None = field(default=None, metadata=_FILTERABLE_DETAIL)
    events: list[dict[str, Any]] | None = field(default=None, metadata=_DETAIL)
    profiling_data: dict[str, Any] | None = field(default=None, metadata=_DETAIL)
    creation_time_ms: int | None = field(default=None, metadata=_DETAIL)
    start_time_ms: int | None = field(default=None, metadata=_DETAIL)
    end_time_ms: int | None = field(default=None, metadata=_DETAIL)
    task_log_info: dict[str, Any] | None = field(default=None, metadata=_DETAIL)
    error_message: str | None = field(default=None, metadata=_DETAIL)
    is_debugger_paused: bool | None = field(default=None, metadata=_FILTERABLE_DETAIL)
    call_site: str | None = field(default=None, metadata=_DETAIL)
    label_selector: dict[str, str] | None = field(default=None, metadata=_DETAIL)
    fallback_strategy: dict[str, Any] | None = field(default=None, metadata=_DETAIL)


@dataclass
class ObjectState(StateSchema):
    """A reference of one process to one object.

    Notes
    -----
    Ray source: ``ray.util.state.common.ObjectState``, 2.60.0. There is a row for each process that
    refers to an object. `object_size` is -1 when it is not known. `reference_type` is
    LOCAL_REFERENCE, USED_BY_PENDING_TASK, PINNED_IN_MEMORY (it is mapped there) or ACTOR_HANDLE.
    `call_site` is "disabled" unless processes start with ``RAY_record_ref_creation_sites=1`` in their
    environment; see `ObjectRef.call_site`. A process that did not make an object has the place from the
    process that made it, while that one refers to it, and else "<unknown>".
    """

    object_id: str = field(metadata=_FILTERABLE)
    object_size: int = field(metadata=_FILTERABLE)
    task_status: str = field(metadata=_FILTERABLE)
    attempt_number: int = field(metadata=_FILTERABLE)
    reference_type: str = field(metadata=_FILTERABLE)
    call_site: str = field(metadata=_FILTERABLE)
    type: str = field(metadata=_FILTERABLE)
    pid: int = field(metadata=_FILTERABLE)
    ip: str = field(metadata=_FILTERABLE)


@dataclass
class RuntimeEnvState(StateSchema):
    """A runtime environment that a node has set up, or has failed to set up.

    Notes
    -----
    Ray source: ``ray.util.state.common.RuntimeEnvState``, 2.60.0. `creation_time_ms` is how many
    milliseconds the set-up took. A node forgets an environment when the last job that used it has
    ended. Detail: `ref_cnt`, the calls and actors that use it now, and `error`.
    """

    runtime_env: dict[str, Any] = field(metadata=_FILTERABLE)
    success: bool = field(metadata=_FILTERABLE)
    creation_time_ms: float | None = field(metadata=_PLAIN)
    node_id: str = field(metadata=_FILTERABLE)
    ref_cnt: int | None = field(default=None, metadata=_DETAIL)
    error: str | None = field(default=None, metadata=_FILTERABLE_DETAIL)


@dataclass
class ClusterEventState(StateSchema):
    """Something that happened to the cluster: a node, driver or job came or left, or an actor died.

    Notes
    -----
    Ray source: ``ray.util.state.common.ClusterEventState``, 2.60.0. `severity` is INFO, WARNING or
    ERROR. `source_type` is RAYLET for nodes, JOBS for drivers and jobs, and GCS for actors. `time` is
    the local time of the scheduler's host. `event_id` grows with time. Detail: `custom_fields`, the
    ids that the event is about. Actors that their program has ended are no events.
    """

    severity: str = field(metadata=_FILTERABLE)
    time: str = field(metadata=_PLAIN)
    source_type: str = field(metadata=_FILTERABLE)
    message: str = field(metadata=_PLAIN)
    event_id: str = field(metadata=_FILTERABLE)
    custom_fields: dict[str, Any] | None = field(default=None, metadata=_DETAIL)


#: The class of each resource, and the field by which ``get_`` functions look.
SCHEMAS: dict[str, tuple[type[StateSchema], str]] = {
    "actors": (ActorState, "actor_id"),
    "jobs": (JobState, "submission_id"),
    "placement_groups": (PlacementGroupState, "placement_group_id"),
    "nodes": (NodeState, "node_id"),
    "workers": (WorkerState, "worker_id"),
    "tasks": (TaskState, "task_id"),
    "objects": (ObjectState, "object_id"),
    "runtime_envs": (RuntimeEnvState, "runtime_env"),
    "cluster_events": (ClusterEventState, "event_id"),
}
