"""`ray.worker.global_worker`, and what Ray 0.2 to 1.13 told about the process of a call."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from typing import Any, TypeVar

import raycompat
from raycompat._caller import current_session, this_process
from raycompat._caller import session as sessions
from raycompat._local.session import LocalSession
from raycompat._protocol import id_types
from raycompat._surface import table
from raycompat._surface.missing import MissingName

_Id = TypeVar("_Id", bound=id_types.Id)


def get_resource_ids() -> dict[str, list[tuple[int | str, float]]]:
    """Return the resources of the running call, each as pairs of an id and the part of it.

    Ids count from 0, except those of GPUs, which are the node's. A driver has no resources.

    Examples
    --------
    >>> @ray.remote(num_cpus=2)
    ... def own():
    ...     return ray.get_resource_ids()["CPU"]
    >>> ray.get(own.remote())
    [(0, 1.0), (1, 1.0)]
    """
    call = this_process.current()
    if call is None:
        return {}
    gpus = raycompat.get_gpu_ids()
    return {
        name: _parts(amount, gpus if name == "GPU" else [])
        for name, amount in call.resources.items()
    }


def _parts(amount: float, ids: list[Any]) -> list[tuple[int | str, float]]:
    whole = [(number, 1.0) for number in range(int(amount))]
    rest = amount - int(amount)
    parts = [*whole, (len(whole), rest)] if rest else whole
    return [(ids[number] if number < len(ids) else number, part) for number, part in parts]


def get_webui_url() -> str:
    """Return the address of the dashboard: host, port and path; an empty text without one.

    Raises
    ------
    RaySystemError
        When there is no session.
    """
    return sessions.connected("get_webui_url").dashboard_url or ""


@contextlib.contextmanager
def profile(event_type: str, extra_data: Mapping[str, str] | None = None) -> Iterator[None]:
    """Run a part of a call; `ray.timeline` has no event for it, only for the call.

    Parameters
    ----------
    event_type : str
        A name for the part.
    extra_data : mapping, optional
        Texts about the part.
    """
    yield


class _GlobalWorker:
    """What this process is, for programs that asked ``ray.worker.global_worker``."""

    @property
    def mode(self) -> int | None:
        """`SCRIPT_MODE`, `WORKER_MODE` or `LOCAL_MODE`; None without a session."""
        if not self.connected:
            return None
        if isinstance(current_session.get(), LocalSession):
            return raycompat.LOCAL_MODE
        return raycompat.SCRIPT_MODE if this_process.executor() is None else raycompat.WORKER_MODE

    @property
    def connected(self) -> bool:
        """Whether this process has a session."""
        return raycompat.is_initialized()

    @property
    def current_job_id(self) -> id_types.JobID:
        """The id of the program."""
        return id_types.JobID.from_hex(raycompat.get_runtime_context().get_job_id())

    @property
    def current_node_id(self) -> id_types.NodeID:
        """The id of the node of this process."""
        return id_types.NodeID.from_hex(raycompat.get_runtime_context().get_node_id())

    @property
    def current_task_id(self) -> id_types.TaskID:
        """The id of the running task."""
        return _known(id_types.TaskID, raycompat.get_runtime_context().get_task_id())

    @property
    def actor_id(self) -> id_types.ActorID:
        """The id of the actor of this process."""
        return _known(id_types.ActorID, raycompat.get_runtime_context().get_actor_id())

    @property
    def core_worker(self) -> _CoreWorker:
        """Its methods, which programs ask for the ids of a call."""
        return _CoreWorker()

    @property
    def node_ip_address(self) -> str:
        """The address of this machine."""
        return raycompat.util.get_node_ip_address()

    def check_connected(self) -> None:
        """Raise an error when this process has no session."""
        sessions.connected("global_worker")

    def run_function_on_all_workers(self, function: Any, **options: Any) -> None:
        """Refuse: processes start when calls need them.

        Parameters
        ----------
        function : callable
        **options
            What Ray took with it.

        Raises
        ------
        UnsupportedRayFeatureError
            Always, with today's form.
        """
        MissingName(
            "ray.worker.global_worker.run_function_on_all_workers",
            "Processes start when calls need them",
            'use init(runtime_env={"worker_process_setup_hook": function})',
        )()

    def __getattr__(self, name: str) -> Any:
        return _missing(name)


class _CoreWorker:
    """The methods of ``ray.worker.global_worker.core_worker`` that return ids."""

    def get_actor_id(self) -> id_types.ActorID:
        """Return the id of the actor of this process."""
        return global_worker.actor_id

    def get_current_task_id(self) -> id_types.TaskID:
        """Return the id of the running task."""
        return global_worker.current_task_id

    def get_current_job_id(self) -> id_types.JobID:
        """Return the id of the program."""
        return global_worker.current_job_id

    def get_current_node_id(self) -> id_types.NodeID:
        """Return the id of the node of this process."""
        return global_worker.current_node_id

    def get_worker_id(self) -> id_types.WorkerID:
        """Return the id of this process."""
        return id_types.WorkerID.from_hex(raycompat.get_runtime_context().get_worker_id())

    def __getattr__(self, name: str) -> Any:
        return _missing(f"core_worker.{name}")


def _missing(name: str) -> Any:
    """Return what stands for an attribute of the worker that raycompat does without."""
    if name.rpartition(".")[2].startswith("__"):
        raise AttributeError(f"ray.worker.global_worker has no {name}")
    today = "use ray.get_runtime_context()"
    return MissingName(f"ray.worker.global_worker.{name}", table.MACHINERY, today)


def _known(kind: type[_Id], text: str | None) -> _Id:
    """Return an id of a call; one of zeros in a driver, as Ray had it."""
    return kind.nil() if text is None else kind.from_hex(text)


#: The one of this process.
global_worker = _GlobalWorker()
