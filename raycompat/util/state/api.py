"""The functions of the state API."""

from __future__ import annotations

from typing import Any, cast

from raycompat._surface.modules import names_of
from raycompat.object_ref import ObjectRef
from raycompat.util.state.client import StateApiClient
from raycompat.util.state.common import (
    DEFAULT_LIMIT,
    DEFAULT_RPC_TIMEOUT,
    ActorState,
    ClusterEventState,
    Filter,
    GetApiOptions,
    JobState,
    ListApiOptions,
    NodeState,
    ObjectState,
    PlacementGroupState,
    RuntimeEnvState,
    StateResource,
    SummaryApiOptions,
    SummaryResource,
    TaskState,
    WorkerState,
)


def list_tasks(
    address: str | None = None,
    filters: list[Filter] | None = None,
    limit: int = DEFAULT_LIMIT,
    timeout: int = DEFAULT_RPC_TIMEOUT,
    detail: bool = False,
    raise_on_missing_output: bool = True,
    _explain: bool = False,
) -> list[TaskState]:
    """Return the tasks that have not ended, and the last 100,000 that have.

    Fewer are kept when each process runs one function after another: at most 20,000 such changes.

    Parameters
    ----------
    address : str, optional
        The cluster: ``auto`` or ``HOST:PORT``. By default that of this process's session; if it has
        none, ``auto``.
    filters : list of (str, str, value), optional
        Field, ``=`` or ``!=``, and value, for example ``("state", "=", "RUNNING")``. All must hold.
        Texts are equal whatever their case.
    limit : int, default 100
        Rows at most, up to 10,000: those with the smallest ids.
    timeout : int, default 30
        Seconds that the request may take.
    detail : bool, default False
        Whether all fields are filled.
    raise_on_missing_output : bool, default True
        Whether it is an error if something is missing; otherwise the known rows are returned.

    Raises
    ------
    RayStateApiException
        When a filter names an unknown field, something is missing, or the cluster does not answer.
    ValueError
        When a filter is not a tuple of three, or has another predicate.

    Notes
    -----
    Ray source: ``ray.util.state.list_tasks``, 2.60.0.
    See `TaskState` for what differs.
    """
    options = ListApiOptions(limit, timeout, detail, filters)
    return _list(StateResource.TASKS, address, options, raise_on_missing_output, _explain)


def list_actors(
    address: str | None = None,
    filters: list[Filter] | None = None,
    limit: int = DEFAULT_LIMIT,
    timeout: int = DEFAULT_RPC_TIMEOUT,
    detail: bool = False,
    raise_on_missing_output: bool = True,
    _explain: bool = False,
) -> list[ActorState]:
    """Return the actors that are there, and the last 1,000 that were.

    The parameters and errors are those of `list_tasks`.

    Examples
    --------
    >>> from raycompat.util.state import list_actors
    >>> @ray.remote
    ... class Listed:
    ...     def ready(self):
    ...         return True
    >>> listed = Listed.options(name="listed").remote()
    >>> ray.get(listed.ready.remote())
    True
    >>> [actor.state for actor in list_actors(filters=[("name", "=", "listed")])]
    ['ALIVE']

    Notes
    -----
    Ray source: ``ray.util.state.list_actors``, 2.60.0.
    See `ActorState` for what differs.
    """
    options = ListApiOptions(limit, timeout, detail, filters)
    return _list(StateResource.ACTORS, address, options, raise_on_missing_output, _explain)


def list_cluster_events(
    address: str | None = None,
    filters: list[Filter] | None = None,
    limit: int = DEFAULT_LIMIT,
    timeout: int = DEFAULT_RPC_TIMEOUT,
    detail: bool = False,
    raise_on_missing_output: bool = True,
    _explain: bool = False,
) -> list[ClusterEventState]:
    """Return the last events: nodes and drivers that came and left, jobs that ended, actors that died.

    The parameters and errors are those of `list_tasks`. Of more than `limit` events, the last ones are
    returned; the oldest of them is the first. The cluster keeps 1,000.

    Examples
    --------
    >>> from raycompat.util.state import list_cluster_events
    >>> {
    ...     event.severity
    ...     for event in list_cluster_events(
    ...         filters=[("source_type", "=", "RAYLET")]
    ...     )
    ... }
    {'INFO'}

    Notes
    -----
    Ray source: ``ray.util.state.list_cluster_events``, 2.60.0. The events are raycompat's own: see
    `ClusterEventState`.
    """
    options = ListApiOptions(limit, timeout, detail, filters)
    return _list(StateResource.CLUSTER_EVENTS, address, options, raise_on_missing_output, _explain)


def list_runtime_envs(
    address: str | None = None,
    filters: list[Filter] | None = None,
    limit: int = DEFAULT_LIMIT,
    timeout: int = DEFAULT_RPC_TIMEOUT,
    detail: bool = False,
    raise_on_missing_output: bool = True,
    _explain: bool = False,
) -> list[RuntimeEnvState]:
    """Return the runtime environments that nodes have set up, or have failed to set up.

    The parameters and errors are those of `list_tasks`. There is one row for each node and environment.

    Examples
    --------
    >>> from raycompat.util.state import list_runtime_envs
    >>> [
    ...     env.runtime_env
    ...     for env in list_runtime_envs(filters=[("success", "=", False)])
    ... ]
    []

    Notes
    -----
    Ray source: ``ray.util.state.list_runtime_envs``, 2.60.0. See `RuntimeEnvState`.
    """
    options = ListApiOptions(limit, timeout, detail, filters)
    return _list(StateResource.RUNTIME_ENVS, address, options, raise_on_missing_output, _explain)


def list_objects(
    address: str | None = None,
    filters: list[Filter] | None = None,
    limit: int = DEFAULT_LIMIT,
    timeout: int = DEFAULT_RPC_TIMEOUT,
    detail: bool = False,
    raise_on_missing_output: bool = True,
    _explain: bool = False,
) -> list[ObjectState]:
    """Return the references that processes have to objects.

    The parameters and errors are those of `list_tasks`.

    Notes
    -----
    Ray source: ``ray.util.state.list_objects``, 2.60.0.
    See `ObjectState` for what differs. References inside of
    values, which no process holds, are not listed.
    """
    options = ListApiOptions(limit, timeout, detail, filters)
    return _list(StateResource.OBJECTS, address, options, raise_on_missing_output, _explain)


def list_nodes(
    address: str | None = None,
    filters: list[Filter] | None = None,
    limit: int = DEFAULT_LIMIT,
    timeout: int = DEFAULT_RPC_TIMEOUT,
    detail: bool = False,
    raise_on_missing_output: bool = True,
    _explain: bool = False,
) -> list[NodeState]:
    """Return the nodes that are there, and the last 1,000 that have left.

    The parameters and errors are those of `list_tasks`.

    Examples
    --------
    >>> from raycompat.util.state import list_nodes
    >>> [node.state for node in list_nodes()]
    ['ALIVE']

    Notes
    -----
    Ray source: ``ray.util.state.list_nodes``, 2.60.0.
    See `NodeState` for what differs.
    """
    options = ListApiOptions(limit, timeout, detail, filters)
    return _list(StateResource.NODES, address, options, raise_on_missing_output, _explain)


def list_workers(
    address: str | None = None,
    filters: list[Filter] | None = None,
    limit: int = DEFAULT_LIMIT,
    timeout: int = DEFAULT_RPC_TIMEOUT,
    detail: bool = False,
    raise_on_missing_output: bool = True,
    _explain: bool = False,
) -> list[WorkerState]:
    """Return the processes that run tasks and actors, those that ended last, and drivers.

    The parameters and errors are those of `list_tasks`.

    Examples
    --------
    >>> from raycompat.util.state import list_workers
    >>> "DRIVER" in [worker.worker_type for worker in list_workers()]
    True

    Notes
    -----
    Ray source: ``ray.util.state.list_workers``, 2.60.0.
    See `WorkerState` for what differs.
    """
    options = ListApiOptions(limit, timeout, detail, filters)
    return _list(StateResource.WORKERS, address, options, raise_on_missing_output, _explain)


def list_placement_groups(
    address: str | None = None,
    filters: list[Filter] | None = None,
    limit: int = DEFAULT_LIMIT,
    timeout: int = DEFAULT_RPC_TIMEOUT,
    detail: bool = False,
    raise_on_missing_output: bool = True,
    _explain: bool = False,
) -> list[PlacementGroupState]:
    """Return the placement groups, and the last 1,000 that were removed.

    The parameters and errors are those of `list_tasks`.

    Examples
    --------
    >>> from raycompat.util.state import list_placement_groups
    >>> list_placement_groups()
    []

    Notes
    -----
    Ray source: ``ray.util.state.list_placement_groups``, 2.60.0.
    See `PlacementGroupState` for what differs.
    """
    options = ListApiOptions(limit, timeout, detail, filters)
    return _list(
        StateResource.PLACEMENT_GROUPS, address, options, raise_on_missing_output, _explain
    )


def list_jobs(
    address: str | None = None,
    filters: list[Filter] | None = None,
    limit: int = DEFAULT_LIMIT,
    timeout: int = DEFAULT_RPC_TIMEOUT,
    detail: bool = False,
    raise_on_missing_output: bool = True,
    _explain: bool = False,
) -> list[JobState]:
    """Return the submitted jobs, the drivers that are connected, and the last 1,000 that were.

    The parameters and errors are those of `list_tasks`.

    Examples
    --------
    >>> from raycompat.util.state import list_jobs
    >>> "RUNNING" in [job.status for job in list_jobs()]
    True

    Notes
    -----
    Ray source: ``ray.util.state.list_jobs``, 2.60.0.
    See `JobState` for what differs.
    """
    options = ListApiOptions(limit, timeout, detail, filters)
    return _list(StateResource.JOBS, address, options, raise_on_missing_output, _explain)


def get_task(
    id: str | ObjectRef[Any],
    address: str | None = None,
    timeout: int = DEFAULT_RPC_TIMEOUT,
    _explain: bool = False,
) -> TaskState | list[TaskState] | None:
    """Return a task with all details, or the list of its attempts; None if it is not known.

    Parameters
    ----------
    id : str or ObjectRef
        Its id: 48 hexadecimal digits; or a reference to what it returns.
    address, timeout
        As in `list_tasks`.

    Raises
    ------
    RayStateApiException
        When the cluster does not answer.

    Notes
    -----
    Ray source: ``ray.util.state.get_task``, 2.60.0.
    """
    task = id.task_id().hex() if isinstance(id, ObjectRef) else id
    attempts = _get(StateResource.TASKS, task, address, timeout, _explain)
    return cast("TaskState | list[TaskState] | None", attempts)


def get_actor(
    id: str,
    address: str | None = None,
    timeout: int = DEFAULT_RPC_TIMEOUT,
    _explain: bool = False,
) -> ActorState | None:
    """Return one actor with all details; None if it is not known.

    Parameters
    ----------
    id : str
        Its id: 32 hexadecimal digits.
    address, timeout
        As in `list_tasks`.

    Examples
    --------
    >>> from raycompat.util.state import get_actor
    >>> @ray.remote
    ... class Account:
    ...     def id(self):
    ...         return ray.get_runtime_context().get_actor_id()
    >>> account = Account.remote()
    >>> get_actor(ray.get(account.id.remote())).class_name
    'Account'

    Raises
    ------
    RayStateApiException
        When the cluster does not answer.
    """
    actor = _get(StateResource.ACTORS, id, address, timeout, _explain)
    return cast("ActorState | None", actor)


def get_node(
    id: str,
    address: str | None = None,
    timeout: int = DEFAULT_RPC_TIMEOUT,
    _explain: bool = False,
) -> NodeState | None:
    """Return one node with all details; None if it is not known.

    Parameters
    ----------
    id : str
        Its id: 56 hexadecimal digits.
    address, timeout
        As in `list_tasks`.

    Raises
    ------
    RayStateApiException
        When the cluster does not answer.
    """
    node = _get(StateResource.NODES, id, address, timeout, _explain)
    return cast("NodeState | None", node)


def get_worker(
    id: str,
    address: str | None = None,
    timeout: int = DEFAULT_RPC_TIMEOUT,
    _explain: bool = False,
) -> WorkerState | None:
    """Return one process with all details; None if it is not known.

    Parameters
    ----------
    id : str
        Its id: 56 hexadecimal digits.
    address, timeout
        As in `list_tasks`.

    Raises
    ------
    RayStateApiException
        When the cluster does not answer.
    """
    worker = _get(StateResource.WORKERS, id, address, timeout, _explain)
    return cast("WorkerState | None", worker)


def get_placement_group(
    id: str,
    address: str | None = None,
    timeout: int = DEFAULT_RPC_TIMEOUT,
    _explain: bool = False,
) -> PlacementGroupState | None:
    """Return one placement group with all details; None if it is not known.

    Parameters
    ----------
    id : str
        Its id: 36 hexadecimal digits.
    address, timeout
        As in `list_tasks`.

    Raises
    ------
    RayStateApiException
        When the cluster does not answer.
    """
    group = _get(StateResource.PLACEMENT_GROUPS, id, address, timeout, _explain)
    return cast("PlacementGroupState | None", group)


def get_job(
    id: str,
    address: str | None = None,
    timeout: int = DEFAULT_RPC_TIMEOUT,
    _explain: bool = False,
) -> JobState | None:
    """Return one job with all details; None if it is not known.

    Parameters
    ----------
    id : str
        Id of a submitted job.
    address, timeout
        As in `list_tasks`.

    Raises
    ------
    RayStateApiException
        When the cluster does not answer.
    """
    job = _get(StateResource.JOBS, id, address, timeout, _explain)
    return cast("JobState | None", job)


def get_objects(
    id: str,
    address: str | None = None,
    timeout: int = DEFAULT_RPC_TIMEOUT,
    _explain: bool = False,
) -> list[ObjectState] | None:
    """Return the references to one object; None if there is none.

    Parameters
    ----------
    id : str
        Its id: 56 hexadecimal digits.
    address, timeout
        As in `list_tasks`.

    Raises
    ------
    RayStateApiException
        When the cluster does not answer.

    Notes
    -----
    Ray source: ``ray.util.state.get_objects``, 2.60.0.
    """
    references = _get(StateResource.OBJECTS, id, address, timeout, _explain)
    return cast("list[ObjectState] | None", references)


def summarize_tasks(
    address: str | None = None,
    timeout: int = DEFAULT_RPC_TIMEOUT,
    raise_on_missing_output: bool = True,
    _explain: bool = False,
) -> dict[str, Any]:
    """Return how many tasks of each name are in each state.

    The parameters and errors are those of `list_tasks`.

    Returns
    -------
    dict
        ``{"cluster": {"summary": groups, "summary_by": str, ...}}`` and totals, as in Ray.

    Examples
    --------
    >>> from raycompat.util.state import summarize_tasks
    >>> "cluster" in summarize_tasks()
    True

    Notes
    -----
    Ray source: ``ray.util.state.summarize_tasks``, 2.60.0. It counts all tasks, Ray 10,000 at most.
    """
    return _summarize(SummaryResource.TASKS, address, timeout, raise_on_missing_output, _explain)


def summarize_actors(
    address: str | None = None,
    timeout: int = DEFAULT_RPC_TIMEOUT,
    raise_on_missing_output: bool = True,
    _explain: bool = False,
) -> dict[str, Any]:
    """Return how many actors of each class are in each state.

    The parameters and errors are those of `list_tasks`.

    Returns
    -------
    dict
        ``{"cluster": {"summary": groups, "summary_by": str, ...}}`` and totals, as in Ray.

    Examples
    --------
    >>> from raycompat.util.state import summarize_actors
    >>> summarize_actors()["cluster"]["summary"]["Listed"]["state_counts"]
    {'ALIVE': 1}

    Notes
    -----
    Ray source: ``ray.util.state.summarize_actors``, 2.60.0. Counts 10,000 rows at most, as Ray does.
    """
    return _summarize(SummaryResource.ACTORS, address, timeout, raise_on_missing_output, _explain)


def summarize_objects(
    address: str | None = None,
    timeout: int = DEFAULT_RPC_TIMEOUT,
    raise_on_missing_output: bool = True,
    _explain: bool = False,
) -> dict[str, Any]:
    """Return how many references there are, of which kinds, to how many bytes.

    The parameters and errors are those of `list_tasks`.

    Returns
    -------
    dict
        ``{"cluster": {"summary": groups, "summary_by": str, ...}}`` and totals, as in Ray.

    Notes
    -----
    Ray source: ``ray.util.state.summarize_objects``, 2.60.0. Counts 10,000 rows at most, as Ray does.
    """
    return _summarize(SummaryResource.OBJECTS, address, timeout, raise_on_missing_output, _explain)


def _list(
    resource: StateResource,
    address: str | None,
    options: ListApiOptions,
    raise_on_missing_output: bool,
    explain: bool,
) -> list[Any]:
    return StateApiClient(address).list(resource, options, raise_on_missing_output, explain)


def _get(resource: StateResource, id: str, address: str | None, timeout: int, explain: bool) -> Any:
    return StateApiClient(address).get(resource, id, GetApiOptions(timeout), explain)


def _summarize(
    resource: SummaryResource,
    address: str | None,
    timeout: int,
    raise_on_missing_output: bool,
    explain: bool,
) -> dict[str, Any]:
    return StateApiClient(address).summary(
        resource,
        options=SummaryApiOptions(timeout),
        raise_on_missing_output=raise_on_missing_output,
        _explain=explain,
    )


#: Names of older Rays.
__getattr__ = names_of(__name__)
