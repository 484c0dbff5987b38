"""The job, node, task and actor of the running code: `get_runtime_context`."""

from __future__ import annotations

import inspect
import pickle
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

from raycompat._caller import session as sessions
from raycompat._caller import this_process
from raycompat._messages.nodes import SessionName
from raycompat._protocol import id_types, ids
from raycompat._protocol.accelerator_kinds import GPU, KINDS
from raycompat._surface.modules import lacks
from raycompat.runtime_env import RuntimeEnv

if TYPE_CHECKING:
    from raycompat.actor import ActorHandle


@lacks("ray.runtime_context.RuntimeContext", "get_temp_dir")
class RuntimeContext:
    """The job, node, task and actor of the running code.

    Examples
    --------
    >>> context = ray.get_runtime_context()
    >>> @ray.remote
    ... def in_task(name):
    ...     return getattr(ray.get_runtime_context(), name)()
    >>> @ray.remote
    ... class Probe:
    ...     def in_actor(self, name):
    ...         return getattr(ray.get_runtime_context(), name)()
    """

    def __init__(self) -> None:
        self._session = sessions.require()

    def get(self) -> dict[str, Any]:
        """Return ids as a dictionary: job_id, node_id, namespace, and task_id, actor_id in calls.

        Examples
        --------
        >>> sorted(context.get())
        ['job_id', 'namespace', 'node_id']
        """
        found: dict[str, Any] = {
            "job_id": self.get_job_id(),
            "node_id": self.get_node_id(),
            "namespace": self.namespace,
        }
        if self.get_task_id() is not None:
            found["task_id"] = self.get_task_id()
        if self.get_actor_id() is not None:
            found["actor_id"] = self.get_actor_id()
        return found

    def get_job_id(self) -> str:
        """Return the id of the driver's job: 8 hexadecimal digits.

        Examples
        --------
        >>> len(context.get_job_id())
        8
        """
        return self._session.setup.job

    @property
    def job_id(self) -> id_types.JobID:
        """Id of the job of the driver. Deprecated in Ray, where `get_job_id` replaces it.

        Examples
        --------
        >>> context.job_id.hex() == context.get_job_id()
        True
        """
        _old_property("job_id")
        return id_types.JobID.from_hex(self.get_job_id())

    @property
    def node_id(self) -> id_types.NodeID:
        """Id of this node. Deprecated in Ray, where `get_node_id` replaces it.

        Examples
        --------
        >>> context.node_id.hex() == context.get_node_id()
        True
        """
        _old_property("node_id")
        return id_types.NodeID.from_hex(self.get_node_id())

    def get_node_id(self) -> str:
        """Return the id of this node: 56 hexadecimal digits.

        Examples
        --------
        >>> context.get_node_id() in [node["NodeID"] for node in ray.nodes()]
        True
        """
        return self._session.home.node_id

    def get_worker_id(self) -> str:
        """Return the id of this process: 56 hexadecimal digits.

        Examples
        --------
        >>> ray.get(in_task.remote("get_worker_id")) == context.get_worker_id()
        False
        """
        return self._session.worker_id

    def get_task_id(self) -> str | None:
        """Return the id of the running task, 48 hexadecimal digits; None in a driver.

        Examples
        --------
        >>> context.get_task_id() is None
        True
        >>> len(ray.get(in_task.remote("get_task_id")))
        48
        """
        call = this_process.current()
        return call.task_id.ljust(2 * ids.TASK_ID_BYTES, "0") if call is not None else None

    def get_task_name(self) -> str | None:
        """Return the name of the running task; None in a driver.

        Examples
        --------
        >>> ray.get(in_task.options(name="look").remote("get_task_name"))
        'look'
        """
        call = this_process.current()
        return call.name if call is not None else None

    def get_task_function_name(self) -> str | None:
        """Return the module and the name of the running function; None in a driver.

        Examples
        --------
        >>> in_look = in_task.options(name="look")
        >>> ray.get(in_look.remote("get_task_function_name")).rpartition(".")[2]
        'in_task'
        """
        call = this_process.current()
        if call is None:
            return None
        if call.actor is None:
            return f"{_module_of(call.function)}.{call.key.rpartition('-')[0]}"
        executor = call.runner or this_process.executor()
        assert executor is not None
        assert executor.actor is not None
        return f"{_module_of(type(executor.actor.instance))}.{call.name}"

    def get_actor_id(self) -> str | None:
        """Return the id of the actor of this code, 32 hexadecimal digits; None outside an actor.

        Examples
        --------
        >>> probe = Probe.options(name="probe").remote()
        >>> len(ray.get(probe.in_actor.remote("get_actor_id")))
        32
        """
        call = this_process.current()
        return call.actor.rpartition("-")[2] if call is not None and call.actor else None

    @property
    def task_id(self) -> id_types.TaskID:
        """Id of the running task. Deprecated in Ray, where `get_task_id` replaces it.

        Raises
        ------
        AssertionError
            In a driver.

        Examples
        --------
        >>> @ray.remote
        ... def has_both_ids():
        ...     context = ray.get_runtime_context()
        ...     return context.task_id.hex() == context.get_task_id()
        >>> ray.get(has_both_ids.remote())
        True
        """
        warnings.warn("Use get_task_id() instead", DeprecationWarning, stacklevel=2)
        task = self.get_task_id()
        if task is None:
            raise AssertionError("task_id is only available in tasks and actors, not in a driver.")
        return id_types.TaskID.from_hex(task)

    @property
    def actor_id(self) -> id_types.ActorID | None:
        """Id of the running actor, None in a task; `get_actor_id` replaces it in Ray.

        Raises
        ------
        AssertionError
            In a driver.

        Examples
        --------
        >>> @ray.remote
        ... class Known:
        ...     def has_both_ids(self):
        ...         context = ray.get_runtime_context()
        ...         return context.actor_id.hex() == context.get_actor_id()
        >>> ray.get(Known.remote().has_both_ids.remote())
        True
        """
        warnings.warn("Use get_actor_id() instead", DeprecationWarning, stacklevel=2)
        if this_process.current() is None:
            raise AssertionError("actor_id is only available in tasks and actors, not in a driver.")
        actor = self.get_actor_id()
        return id_types.ActorID.from_hex(actor) if actor is not None else None

    def get_actor_name(self) -> str | None:
        """Return the name of the actor of this code; empty without a name, None outside an actor.

        Examples
        --------
        >>> ray.get(probe.in_actor.remote("get_actor_name"))
        'probe'
        """
        call = this_process.current()
        return (call.actor_name or "") if call is not None and call.actor else None

    @property
    def namespace(self) -> str:
        """The namespace in which names of actors are looked up.

        Examples
        --------
        >>> isinstance(context.namespace, str)
        True
        """
        return self._session.setup.namespace

    def get_placement_group_id(self) -> str | None:
        """Return the id of the running call's placement group, 36 hexadecimal digits; or None.

        Examples
        --------
        >>> context.get_placement_group_id() is None
        True
        """
        call = this_process.current()
        return call.group.group if call is not None and call.group is not None else None

    @property
    def current_placement_group_id(self) -> id_types.PlacementGroupID:
        """Id of the placement group. Deprecated in Ray, where `get_placement_group_id` replaces it.

        Examples
        --------
        >>> context.current_placement_group_id.is_nil()
        True
        """
        warnings.warn("Use get_placement_group_id() instead", DeprecationWarning, stacklevel=2)
        group = self.get_placement_group_id()
        return (
            id_types.PlacementGroupID.from_hex(group) if group else id_types.PlacementGroupID.nil()
        )

    @property
    def should_capture_child_tasks_in_placement_group(self) -> bool:
        """Whether calls made here use the placement group of the running call.

        Examples
        --------
        >>> context.should_capture_child_tasks_in_placement_group
        False
        """
        return this_process.captured() is not None

    def get_node_labels(self) -> dict[str, str]:
        """Return the labels of this node.

        Examples
        --------
        >>> context.get_node_labels()["ray.io/node-id"] == context.get_node_id()
        True
        """
        return dict(self._session.home.labels)

    @property
    def was_current_actor_reconstructed(self) -> bool:
        """Whether this actor's process was restarted after it died.

        Examples
        --------
        >>> @ray.remote
        ... class Fresh:
        ...     def is_restarted(self):
        ...         return ray.get_runtime_context().was_current_actor_reconstructed
        >>> ray.get(Fresh.remote().is_restarted.remote())
        False
        """
        if self.get_actor_id() is None:
            raise RuntimeError("was_current_actor_reconstructed is only available in an actor.")
        return this_process.num_restarts() > 0

    @property
    def current_actor(self) -> ActorHandle[Any]:
        """A handle of the actor of this code.

        Examples
        --------
        >>> @ray.remote
        ... class Registered:
        ...     def handle(self):
        ...         return ray.get_runtime_context().current_actor
        >>> registered = Registered.remote()
        >>> ray.get(registered.handle.remote()) == registered
        True

        Raises
        ------
        RuntimeError
            Outside of an actor.
        """
        from raycompat.actor import ActorHandle

        executor = this_process.executor()
        if executor is None or executor.actor is None:
            raise RuntimeError("current_actor is only available in an actor.")
        (ref,) = self._session.sharing.hold([executor.actor.key])
        return ActorHandle(ref, pickle.loads(executor.actor.spec["about"]))

    def get_assigned_resources(self) -> dict[str, float]:
        """Return the resources of the running call.

        Examples
        --------
        >>> ray.get(in_task.options(num_cpus=0.5).remote("get_assigned_resources"))
        {'CPU': 0.5}
        """
        call = this_process.current()
        if call is None:
            raise AssertionError(  # the class that Ray raises here
                "get_assigned_resources is only available in tasks and actors, not in a driver."
            )
        return dict(call.resources)

    def get_accelerator_ids(self) -> dict[str, list[str]]:
        """Return the ids of the accelerators of the running call, by kind; all kinds are named.

        Examples
        --------
        >>> context.get_accelerator_ids()["GPU"]
        []
        """
        call = this_process.current()
        ids = call.accelerators if call is not None else {}
        return {kind: list(ids.get(kind, ())) for kind in (*KINDS, GPU)}

    def get_resource_ids(self) -> dict[str, list[str]]:
        """Return the result of `get_accelerator_ids`; the old name of it in Ray.

        Examples
        --------
        >>> context.get_resource_ids()["GPU"]
        []
        """
        return self.get_accelerator_ids()

    def get_runtime_env_string(self) -> str:
        """Return the runtime environment of this process as JSON: its job's, or its call's.

        Examples
        --------
        >>> call = in_task.options(runtime_env={"env_vars": {"MODE": "test"}})
        >>> ray.get(call.remote("get_runtime_env_string"))
        '{"env_vars": {"MODE": "test"}...}'
        """
        return self._session.setup.runtime_env

    @property
    def runtime_env(self) -> RuntimeEnv:
        """Runtime environment of this process, from its job or its call.

        Examples
        --------
        >>> @ray.remote(runtime_env={"env_vars": {"LANGUAGE": "en"}})
        ... def variables():
        ...     return ray.get_runtime_context().runtime_env.env_vars()
        >>> ray.get(variables.remote())
        {'LANGUAGE': 'en'}
        """
        return RuntimeEnv.deserialize(self.get_runtime_env_string())

    def is_canceled(self) -> bool:
        """Return whether the cancellation of the running task was requested.

        Examples
        --------
        >>> ray.get(in_task.remote("is_canceled"))
        False
        """
        call, executor = this_process.current(), this_process.executor()
        if executor is None or call is None:
            raise RuntimeError("is_canceled is only available in a task, not in a driver.")
        if executor.actor is not None and executor.actor.spec["is_async"]:
            raise RuntimeError(
                "is_canceled is not supported in an async actor: its methods get a CancelledError "
                "where they await."
            )
        return executor.is_cancelled(call.key)

    def get_session_name(self) -> str:
        """Return the name of the cluster: the id of its scheduler, the same in all processes.

        It tells a cluster from one that had the same address before. In Ray it is also a label of each
        metric and the name of a folder; here it is neither.

        Examples
        --------
        >>> context.get_session_name() == context.get_session_name()
        True
        """
        return self._session.rpc(SessionName())

    @property
    def gcs_address(self) -> str:
        """The address of the scheduler.

        Examples
        --------
        >>> context.gcs_address.count(":")
        1
        """
        return self._session.setup.scheduler.split("://")[-1]


def _old_property(name: str) -> None:
    warnings.warn(
        f"{name} is deprecated in Ray: use get_{name}().", DeprecationWarning, stacklevel=3
    )


def get_runtime_context() -> RuntimeContext:
    """Return the context of this process: job, node, task and actor. Calls `init` if necessary.

    Examples
    --------
    >>> ray.get_runtime_context().get_actor_id() is None
    True
    """
    return RuntimeContext()


def _module_of(of: object) -> str:
    """Return the module of a function or class; for that of the driver, its file without ``.py``."""
    module = str(getattr(of, "__module__", None))
    if module != "__main__":
        return module
    functions = vars(of).values() if inspect.isclass(of) else [of]
    files = [
        inspect.unwrap(each).__code__.co_filename for each in functions if inspect.isfunction(each)
    ]
    return Path(files[0]).stem if files else module
