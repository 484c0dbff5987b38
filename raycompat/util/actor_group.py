"""`ActorGroup`: several actors of one class, called together."""

from __future__ import annotations

import warnings
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from raycompat import _api
from raycompat.actor import ActorHandle, kill
from raycompat.object_ref import ObjectRef

__all__ = ["ActorConfig", "ActorGroup", "ActorGroupMethod", "ActorWrapper"]


@dataclass
class ActorWrapper:
    """An actor of a group, and the result of its ``get_actor_metadata``."""

    actor: ActorHandle[Any]
    metadata: Any


@dataclass
class ActorConfig:
    """The options and arguments of each actor of a group."""

    num_cpus: float
    num_gpus: float
    resources: dict[str, float] | None
    init_args: tuple[Any, ...]
    init_kwargs: dict[str, Any]


class ActorGroupMethod:
    """A method of all actors of a group."""

    def __init__(self, actor_group: ActorGroup, method_name: str) -> None:
        self._group, self._name = actor_group, method_name

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Raise an error: call `remote` instead."""
        raise TypeError(
            f"{self._name} is a method of a group of actors: call it with {self._name}.remote()."
        )

    def remote(self, *args: Any, **kwargs: Any) -> list[ObjectRef[Any]]:
        """Call the method of every actor; return one reference for each."""
        return [
            getattr(member.actor, self._name).remote(*args, **kwargs)
            for member in self._group.actors
        ]


class ActorGroup:
    """Starts several actors of one class, and calls them together.

    Parameters
    ----------
    actor_cls : class
        A plain class.
    num_actors : int, default 1
        1 or more.
    num_cpus_per_actor : float, default 1
    num_gpus_per_actor : float, default 0
    resources_per_actor : dict of str to float, optional
    init_args, init_kwargs : optional
        Arguments for the constructor of each actor.

    Raises
    ------
    ValueError
        When a number is out of range.

    Examples
    --------
    >>> from raycompat.util.actor_group import ActorGroup
    >>> class Adder:
    ...     def __init__(self, start):
    ...         self.start = start
    ...
    ...     def add(self, number):
    ...         return self.start + number
    >>> group = ActorGroup(Adder, num_actors=2, init_args=(10,))
    >>> ray.get(group.add.remote(1))
    [11, 11]
    >>> group.shutdown()
    >>> group.start()  # again
    >>> ray.get(group.add.remote(2))
    [12, 12]
    >>> group.shutdown()

    Notes
    -----
    Ray source: ``ray.util.ActorGroup``, 2.60.0, where it is deprecated in favour of
    ``ray.util.multiprocessing`` and actor pools. No known difference.
    """

    def __init__(
        self,
        actor_cls: type,
        num_actors: int = 1,
        num_cpus_per_actor: float = 1,
        num_gpus_per_actor: float = 0,
        resources_per_actor: dict[str, float] | None = None,
        init_args: Sequence[Any] | None = None,
        init_kwargs: Mapping[str, Any] | None = None,
    ) -> None:
        warnings.warn(
            "ActorGroup is deprecated: use ray.util.multiprocessing.Pool or ray.util.ActorPool.",
            DeprecationWarning,
            stacklevel=2,
        )
        if num_actors <= 0:
            raise ValueError(f"num_actors={num_actors!r} must be greater than 0.")
        if num_cpus_per_actor < 0 or num_gpus_per_actor < 0:
            raise ValueError(
                f"num_cpus_per_actor={num_cpus_per_actor!r}, "
                f"num_gpus_per_actor={num_gpus_per_actor!r} must not be negative."
            )
        self.actors: list[ActorWrapper] = []
        self.num_actors = num_actors
        self.actor_config = ActorConfig(
            num_cpus_per_actor,
            num_gpus_per_actor,
            resources_per_actor,
            tuple(init_args or ()),
            dict(init_kwargs or {}),
        )
        self._remote_class: Any = _api.remote(
            num_cpus=num_cpus_per_actor, num_gpus=num_gpus_per_actor, resources=resources_per_actor
        )(actor_cls)
        self.start()

    def __getattr__(self, item: str) -> ActorGroupMethod:
        if item.startswith("__") or not self.__dict__.get("actors"):
            raise RuntimeError(
                f"{item}: this ActorGroup has been shutdown, or was not started. Call start()."
            )
        return ActorGroupMethod(self, item)

    def __len__(self) -> int:
        return len(self.actors)

    def __getitem__(self, item: int) -> ActorWrapper:
        return self.actors[item]

    def start(self) -> None:
        """Start the actors.

        Raises
        ------
        RuntimeError
            When the group was already started.
        """
        if self.actors:
            raise RuntimeError("The actors have already been started: call shutdown() first.")
        self.add_actors(self.num_actors)

    def shutdown(self, patience_s: float = 5) -> None:
        """End all actors: after their calls, or at once after `patience_s` seconds."""
        members, self.actors = self.actors, []
        ended = []
        if patience_s > 0:
            ended = [member.actor.__ray_terminate__.remote() for member in members]
            ended, _ = _api.wait(ended, num_returns=len(ended), timeout=patience_s)
        if len(ended) < len(members):
            for member in members:
                kill(member.actor)

    def remove_actors(self, actor_indexes: Collection[int]) -> None:
        """Remove the actors at these positions from the group."""
        self.actors = [
            member for index, member in enumerate(self.actors) if index not in actor_indexes
        ]

    def add_actors(self, num_actors: int) -> None:
        """Start `num_actors` more actors.

        Examples
        --------
        >>> class Adder:
        ...     def __init__(self, amount):
        ...         self.amount = amount
        ...
        ...     def add(self, number):
        ...         return number + self.amount
        >>> from raycompat.util.actor_group import ActorGroup
        >>> group = ActorGroup(Adder, num_actors=1, init_args=(10,))
        >>> group.add_actors(1)
        >>> len(group)
        2
        >>> group.remove_actors([0])
        >>> len(group)
        1
        >>> group.shutdown()
        """
        config = self.actor_config
        actors = [
            self._remote_class.remote(*config.init_args, **config.init_kwargs)
            for _ in range(num_actors)
        ]
        metadata: list[Any] = [None] * num_actors
        if actors and "get_actor_metadata" in dir(actors[0]):
            metadata = _api.get([actor.get_actor_metadata.remote() for actor in actors])
        self.actors += [ActorWrapper(*pair) for pair in zip(actors, metadata, strict=True)]

    @property
    def actor_metadata(self) -> list[Any]:
        """The results of each actor's ``get_actor_metadata``; None for actors without it.

        Examples
        --------
        >>> from raycompat.util.actor_group import ActorGroup
        >>> class Reader:
        ...     def __init__(self, files):
        ...         self.files = files
        ...
        ...     def get_actor_metadata(self):
        ...         return {"files": len(self.files)}
        >>> group = ActorGroup(Reader, num_actors=2, init_args=(["a.csv", "b.csv"],))
        >>> group.actor_metadata
        [{'files': 2}, {'files': 2}]
        >>> group.shutdown()
        """
        return [member.metadata for member in self.actors]
