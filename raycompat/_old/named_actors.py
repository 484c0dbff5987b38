"""Actors that got their name after they were made: `register_actor` of Ray 0.5 to 0.8."""

from __future__ import annotations

import pickle
from typing import Any

import raycompat
from raycompat.actor import ActorHandle
from raycompat.experimental import internal_kv

#: Namespace of the names, so that they meet no keys of the program.
_SPACE = "raycompat.named_actors"


def register_actor(name: str, actor_handle: ActorHandle[Any]) -> None:
    """Give a name to an actor, by which `get_actor` finds it in each process of the cluster.

    The name does not keep the actor alive: it ends when no other handle is left.

    Parameters
    ----------
    name : str
    actor_handle : ActorHandle

    Raises
    ------
    TypeError
        When `name` is not a text, or `actor_handle` is not the handle of an actor.
    ValueError
        When another actor has the name.
    """
    if not isinstance(name, str):
        raise TypeError(f"register_actor({name!r}, ...): the name of an actor is a text.")
    if not isinstance(actor_handle, ActorHandle):
        raise TypeError(
            f"register_actor({name!r}, {actor_handle!r}): the second argument is the handle "
            "of an actor, which SomeClass.remote() returns."
        )
    was_there = internal_kv._internal_kv_put(
        name, pickle.dumps(actor_handle), overwrite=False, namespace=_SPACE
    )
    if was_there:
        raise ValueError(
            f"register_actor({name!r}, ...): an actor has this name. Choose another name, or get that "
            f"actor with get_actor({name!r})."
        )


def get_actor(name: str) -> ActorHandle[Any]:
    """Return the handle of the actor that was given a name, here or by the option ``name``.

    Parameters
    ----------
    name : str

    Raises
    ------
    ValueError
        When no actor has the name.
    """
    value = internal_kv._internal_kv_get(name, namespace=_SPACE)
    if value is None:
        return raycompat.get_actor(name)
    handle: ActorHandle[Any] = pickle.loads(value)
    return handle
