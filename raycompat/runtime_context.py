"""What a program can ask about where it runs: `get_runtime_context`."""

from __future__ import annotations

import os
import pickle
import warnings
from typing import TYPE_CHECKING, Any

from raycompat import _driver
from raycompat._caller import this_process
from raycompat._protocol import id_types, ids
from raycompat.runtime_env import RuntimeEnv

if TYPE_CHECKING:
    from raycompat.actor import ActorHandle


class RuntimeContext:
    """Where this code runs: job, node, task, actor.

    Notes
    -----
    Ray source: ``ray.runtime_context.RuntimeContext``, 2.60.0.
    """

    def __init__(self) -> None:
        self._session = _driver.require_session()

    def get(self) -> dict[str, Any]:
        """Return ids as a dictionary: job_id, node_id, namespace, and task_id, actor_id in calls."""
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
        """Return the id of the driver's job: 8 hexadecimal digits."""
        return self._session.setup.job

    @property
    def job_id(self) -> id_types.JobID:
        """The id of the driver's job; Ray's old way to say `get_job_id`."""
        _old_property("job_id")
        return id_types.JobID.from_hex(self.get_job_id())

    @property
    def node_id(self) -> id_types.NodeID:
        """The id of this node; Ray's old way to say `get_node_id`."""
        _old_property("node_id")
        return id_types.NodeID.from_hex(self.get_node_id())

    def get_node_id(self) -> str:
        """Return the id of this node: 56 hexadecimal digits."""
        return self._session.home.node_id

    def get_worker_id(self) -> str:
        """Return the id of this process: 56 hexadecimal digits."""
        return ids.worker_id(os.getpid(), self._session.setup.job)

    def get_task_id(self) -> str | None:
        """Return the id of the running task, 48 hexadecimal digits; None in a driver."""
        call = this_process.current()
        return call.task_id.ljust(2 * ids.TASK_ID_BYTES, "0") if call is not None else None

    def get_task_name(self) -> str | None:
        """Return the name of the running task; None in a driver."""
        call = this_process.current()
        return call.name if call is not None else None

    def get_task_function_name(self) -> str | None:
        """Return the name of the running function; None in a driver."""
        call = this_process.current()
        if call is None or call.actor is not None:
            return self.get_task_name()
        return call.key.rpartition("-")[0]

    def get_actor_id(self) -> str | None:
        """Return the id of the actor that runs this, 32 hexadecimal digits; None elsewhere."""
        call = this_process.current()
        return call.actor.rpartition("-")[2] if call is not None and call.actor else None

    @property
    def task_id(self) -> id_types.TaskID:
        """The id of the running task; Ray's old way to say `get_task_id`.

        Raises
        ------
        AssertionError
            In a driver.
        """
        warnings.warn("Use get_task_id() instead", DeprecationWarning, stacklevel=2)
        task = self.get_task_id()
        if task is None:
            raise AssertionError("task_id is only available in tasks and actors, not in a driver.")
        return id_types.TaskID.from_hex(task)

    @property
    def actor_id(self) -> id_types.ActorID | None:
        """The id of the actor that runs this, None in a task; Ray's old way to say `get_actor_id`.

        Raises
        ------
        AssertionError
            In a driver.
        """
        warnings.warn("Use get_actor_id() instead", DeprecationWarning, stacklevel=2)
        if this_process.current() is None:
            raise AssertionError("actor_id is only available in tasks and actors, not in a driver.")
        actor = self.get_actor_id()
        return id_types.ActorID.from_hex(actor) if actor is not None else None

    def get_actor_name(self) -> str | None:
        """Return the name of the actor that runs this; empty without a name, None elsewhere."""
        call = this_process.current()
        return (call.actor_name or "") if call is not None and call.actor else None

    @property
    def namespace(self) -> str:
        """The namespace in which names of actors are looked up."""
        return self._session.setup.namespace

    def get_placement_group_id(self) -> str | None:
        """Return the id of the placement group that this runs in, 36 hexadecimal digits; or None."""
        call = this_process.current()
        return call.group.group if call is not None and call.group is not None else None

    @property
    def current_placement_group_id(self) -> id_types.PlacementGroupID:
        """The id of the placement group; Ray's old way to say `get_placement_group_id`."""
        warnings.warn("Use get_placement_group_id() instead", DeprecationWarning, stacklevel=2)
        group = self.get_placement_group_id()
        return (
            id_types.PlacementGroupID.from_hex(group) if group else id_types.PlacementGroupID.nil()
        )

    @property
    def should_capture_child_tasks_in_placement_group(self) -> bool:
        """Whether what is called here goes to the placement group that this runs in."""
        return this_process.captured() is not None

    def get_node_labels(self) -> dict[str, str]:
        """Return the labels of this node."""
        return dict(self._session.home.labels)

    @property
    def was_current_actor_reconstructed(self) -> bool:
        """Whether this actor's process was started again after it died."""
        if self.get_actor_id() is None:
            raise RuntimeError("was_current_actor_reconstructed is only available in an actor.")
        return this_process.num_restarts() > 0

    @property
    def current_actor(self) -> ActorHandle[Any]:
        """A handle of the actor that runs this.

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
        return ActorHandle(ref, pickle.loads(executor.actor.about["about"]))

    def get_assigned_resources(self) -> dict[str, float]:
        """Return what the running call holds, by resource."""
        call = this_process.current()
        if call is None:
            raise AssertionError(  # Ray's class for it
                "get_assigned_resources is only available in tasks and actors, not in a driver."
            )
        return dict(call.resources)

    def get_accelerator_ids(self) -> dict[str, list[str]]:
        """Return the ids of the accelerators that the running call was given, by kind."""
        call = this_process.current()
        return {"GPU": list(call.gpus) if call is not None else []}

    def get_resource_ids(self) -> dict[str, list[str]]:
        """Return what `get_accelerator_ids` returns; Ray's old name for it."""
        return self.get_accelerator_ids()

    def get_runtime_env_string(self) -> str:
        """Return the runtime environment of this process as JSON: its job's, or its call's."""
        return self._session.setup.runtime_env

    @property
    def runtime_env(self) -> RuntimeEnv:
        """The runtime environment of this process, that of its job or of its call."""
        return RuntimeEnv.deserialize(self.get_runtime_env_string())

    def is_canceled(self) -> bool:
        """Return whether the running task has been asked to end."""
        call, executor = this_process.current(), this_process.executor()
        if executor is None or call is None:
            raise RuntimeError("is_canceled is only available in a task, not in a driver.")
        if executor.actor is not None and executor.actor.about["is_async"]:
            raise RuntimeError(
                "is_canceled is not supported in an async actor: its methods get a CancelledError "
                "where they await."
            )
        return executor.is_cancelled(call.key)

    @property
    def gcs_address(self) -> str:
        """The address of the scheduler."""
        return self._session.setup.scheduler.split("://")[-1]


def _old_property(name: str) -> None:
    warnings.warn(f"{name} is Ray's old way: use get_{name}().", DeprecationWarning, stacklevel=3)


def get_runtime_context() -> RuntimeContext:
    """Return what there is to know about where this runs; connects if need be.

    Notes
    -----
    Ray source: ``ray.get_runtime_context``, 2.60.0.
    """
    return RuntimeContext()
