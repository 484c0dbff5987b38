"""Groups of actors for tensor transports, as Ray's programs make them.

raycompat's transports need no group. These functions make one all the same, so that programs written
for Ray run, and so that their actors can use its name in `raycompat.util.collective`.
"""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from raycompat import _api
from raycompat._protocol.actor_about import SYSTEM_GROUP
from raycompat._surface.modules import names_of
from raycompat.exceptions import ActorDiedError
from raycompat.util import collective
from raycompat.util.collective.types import Backend

if TYPE_CHECKING:
    from raycompat.actor import ActorHandle

__all__ = [
    "create_collective_group",
    "destroy_all_collective_groups",
    "destroy_collective_group",
    "get_collective_groups",
]


class CommunicatorHandle:
    """A group that this process has made.

    Notes
    -----
    Ray source: ``ray.experimental.collective.communicator.CommunicatorHandle``, 2.60.0.
    """

    def __init__(self, actors: Sequence[ActorHandle[Any]], name: str, backend: str) -> None:
        self._actors = list(actors)
        self._name = name
        self._backend = backend

    def get_rank(self, actor: ActorHandle[Any]) -> int:
        """Return the rank of an actor; -1 if it is not a member."""
        return self._actors.index(actor) if actor in self._actors else -1

    @property
    def actors(self) -> list[ActorHandle[Any]]:
        """The members in the order of their ranks."""
        return self._actors.copy()

    @property
    def name(self) -> str:
        """The name of the group in `raycompat.util.collective`."""
        return self._name

    @property
    def backend(self) -> str:
        """The backend, in capitals."""
        return self._backend


#: The groups that this process has made, by name.
_made: dict[str, CommunicatorHandle] = {}


def get_collective_groups(
    actors: list[ActorHandle[Any]] | None = None, backend: str | None = None
) -> list[CommunicatorHandle]:
    """Return the groups of this process that have all of these actors as members.

    Notes
    -----
    Ray source: ``ray.experimental.collective.get_collective_groups``, 2.60.0. No known difference.
    """
    wanted = None if backend is None else Backend(backend)
    return [
        group
        for group in _made.values()
        if wanted in (None, group.backend)
        and all(group.get_rank(each) >= 0 for each in actors or ())
    ]


def create_collective_group(
    actors: list[ActorHandle[Any]], backend: str, name: str | None = None
) -> CommunicatorHandle:
    """Make a group of actors, whose ranks are their positions; return when all have joined.

    Parameters
    ----------
    actors : list of ActorHandle
        Different actors.
    backend : str
        As for `raycompat.util.collective.init_collective_group`.
    name : str, optional
        The name of the group. By default, a new one.

    Raises
    ------
    RuntimeError
        When an actor is in a group of this backend already, or cannot use the backend.
    ValueError
        When an actor is listed twice, or there is no such backend.

    Notes
    -----
    Ray source: ``ray.experimental.collective.create_collective_group``, 2.60.0. No known difference.
    """
    backend = Backend(backend)
    name = name or str(uuid.uuid4())
    for actor in actors:
        if get_collective_groups([actor], backend):
            raise RuntimeError(
                f"{actor!r} is in a group of the backend {backend} already; an actor can be in one. "
                "Call destroy_collective_group with that group first."
            )
    if len({each._actor_id for each in actors}) != len(actors):
        raise ValueError(f"All actors must be unique, and one is listed twice: {actors!r}.")
    size = len(actors)

    def join(_: Any, rank: int) -> None:
        collective.init_collective_group(size, rank, backend, group_name=name)

    _api.get([each.__ray_call__.remote(join, rank) for rank, each in enumerate(actors)])
    _made[name] = made = CommunicatorHandle(actors, name, backend)
    return made


def destroy_collective_group(group_or_name: CommunicatorHandle | str) -> None:
    """End a group that this process has made.

    Raises
    ------
    ValueError
        When there is no such group.

    Notes
    -----
    Ray source: ``ray.experimental.collective.destroy_collective_group``, 2.60.0. No known difference.
    """
    name = group_or_name.name if isinstance(group_or_name, CommunicatorHandle) else group_or_name
    if not isinstance(name, str):
        raise ValueError(f"Expected a group or its name, not {group_or_name!r}.")
    group = _made.pop(name, None)
    if group is None:
        raise ValueError(
            f"No group with name {name!r} found among those that this process has made."
        )

    def leave(_: Any) -> None:
        collective.destroy_collective_group(name)

    left: list[Any] = [
        each.__ray_call__.options(concurrency_group=SYSTEM_GROUP).remote(leave)
        for each in group.actors
    ]
    for ref in left:
        with contextlib.suppress(ActorDiedError):  # its part of the group has ended with it
            _api.get(ref)


def destroy_all_collective_groups() -> None:
    """End all groups that this process has made.

    Notes
    -----
    Ray source: ``ray.experimental.collective.destroy_all_collective_groups``, 2.60.0. No known
    difference.
    """
    for name in list(_made):
        destroy_collective_group(name)


#: Names of older Rays.
__getattr__ = names_of(__name__)
