"""The groups of which this process is a member."""

from __future__ import annotations

import contextlib
import threading
from typing import Any

from raycompat import actor
from raycompat.object_ref import ObjectRef
from raycompat.runtime_context import get_runtime_context
from raycompat.util.collective import _meeting
from raycompat.util.collective.backend_registry import _global_registry
from raycompat.util.collective.collective_group.base_collective_group import BaseGroup
from raycompat.util.collective.collective_group.cpu_collective_group import CPUGroup
from raycompat.util.collective.collective_group.torch_collective_group import NCCLGroup
from raycompat.util.collective.types import Backend

_global_registry.put(Backend.GLOO, CPUGroup)
_global_registry.put(Backend.NCCL, NCCLGroup)

_lock = threading.Lock()
_groups: dict[str, BaseGroup] = {}
#: Held while a group is formed, so that two threads do not both join it; other groups do not wait.
_forming: dict[str, threading.Lock] = {}
#: In the process that declared groups: the handles that keep their meetings alive.
_declared: dict[str, Any] = {}


def check_backend(backend: str, *, is_used_here: bool = True) -> str:
    """Return a backend's registered name; raise for those that do not work.

    A driver declares groups of members that may have GPUs where it has none.
    """
    if not isinstance(backend, str):
        raise TypeError(f"backend must be the name of a backend, such as 'gloo', not {backend!r}.")
    upper = backend.upper()
    upper = Backend.GLOO if upper == "TORCH_GLOO" else upper
    backend_class = _global_registry.get(upper)
    if is_used_here and not backend_class.check_backend_availability():
        if upper == Backend.NCCL:
            raise RuntimeError(
                "The backend NCCL (the default of Ray's signature) needs PyTorch with NCCL, and a GPU "
                "that this process sees. Ask for num_gpus=1 in the options of the members, or give "
                "backend='gloo'."
            )
        raise RuntimeError(f"Backend {upper} is registered but does not work in this process.")
    return upper


def check_inside() -> None:
    """Raise in a driver: only tasks and actors can be in a group."""
    if get_runtime_context().get_task_id() is None:
        raise RuntimeError(
            "Operations of groups work inside tasks and actors only. Call them in a method of an "
            "actor; in the driver, create_collective_group declares a group of actors."
        )


def is_member(group_name: str) -> bool:
    """Return whether this process is in the group of this name."""
    return group_name in _groups


def form(world_size: int, rank: int, backend: str, group_name: str, gloo_timeout: int) -> BaseGroup:
    """Join a group; wait until it is complete.

    Raises
    ------
    RuntimeError
        When this process is already in a group of this name.
    """
    group_cls = _global_registry.get(check_backend(backend))
    with _lock:
        forming = _forming.setdefault(group_name, threading.Lock())
    with forming:
        if is_member(group_name):
            raise RuntimeError(
                f"This process is in the group {group_name!r} already. Call "
                "destroy_collective_group first, or use another name."
            )
        if issubclass(group_cls, CPUGroup | NCCLGroup):
            group: BaseGroup = group_cls(world_size, rank, group_name, gloo_timeout)
        else:
            group = group_cls(world_size, rank, group_name)
        _groups[group_name] = group
    return group


def find(group_name: str) -> BaseGroup:
    """Return the group of a name; join it first if it was declared.

    Raises
    ------
    RuntimeError
        When the group does not exist, or was declared without this actor.
    """
    group = _groups.get(group_name)
    if group is not None:
        return group
    check_inside()
    declared = _meeting.declared(group_name)
    own = get_runtime_context().get_actor_id()
    if declared is None or own not in declared.ranks:
        raise RuntimeError(
            f"The collective group {group_name!r} is not initialized in this process. Call "
            "init_collective_group in every member, or create_collective_group in the driver with all "
            "of its actors."
        )
    rank = declared.ranks[own]
    return form(declared.world_size, rank, declared.backend, group_name, declared.gloo_timeout)


def rank_of(group_name: str) -> tuple[int, int]:
    """Return rank and size of a group; -1 and -1 if this process is not in it."""
    group = _groups.get(group_name)
    return (group.rank, group.world_size) if group is not None else (-1, -1)


def declare(group_name: str, declared: _meeting.Declared) -> None:
    """Declare a group to its actors.

    Raises
    ------
    RuntimeError
        When a group of this name exists.
    """
    try:
        actor.get_actor(_meeting.name_of(group_name))
    except ValueError:
        _keep(group_name, *_meeting.declare(group_name, declared))
        return
    raise RuntimeError(
        f"A group {group_name!r} exists already. Let its members call destroy_collective_group, or use "
        "another name."
    )


def _keep(group_name: str, meeting: Any, end: ObjectRef[None]) -> None:
    """Keep the handle of a meeting until a member ends the meeting."""
    _declared[group_name] = meeting

    def forget(_: Any) -> None:
        if _declared.get(group_name) is meeting:  # otherwise the group was declared again
            del _declared[group_name]

    end.future().add_done_callback(forget)


def destroy(group_name: str) -> bool:
    """Leave a group and end its declaration; return whether this process was in it."""
    group = _groups.pop(group_name, None)
    if group is None:
        return False
    group.destroy_group()
    with contextlib.suppress(ValueError):  # it was not declared, or another member has ended it
        actor.kill(actor.get_actor(_meeting.name_of(group_name)))
    return True
