"""Actors that got their name after they were made: `register_actor` of Ray 0.5 to 0.8."""

from __future__ import annotations

import pickle
from typing import Any, TypeGuard

import raycompat
from raycompat._caller import session as sessions
from raycompat._caller.object_ref import WeakObjectRef
from raycompat._protocol.actor_about import About
from raycompat.actor import ActorHandle
from raycompat.experimental import internal_kv
from raycompat.util.state import list_actors

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
    # Its key and description, and not the handle, which would keep the actor alive.
    value = pickle.dumps((actor_handle._actor_ref._key, actor_handle._about))
    if not internal_kv._internal_kv_put(name, value, overwrite=False, namespace=_SPACE):
        return
    if _is_living(_registered(name)):
        raise ValueError(
            f"register_actor({name!r}, ...): an actor has this name. Choose another name, or get that "
            f"actor with get_actor({name!r})."
        )
    internal_kv._internal_kv_put(name, value, overwrite=True, namespace=_SPACE)


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
    found = _registered(name)
    if not _is_living(found):
        return raycompat.get_actor(name)
    key, about = found
    return ActorHandle(WeakObjectRef(key, sessions.require()), about)


def _registered(name: str) -> tuple[str, About] | None:
    """Return the key and the description of the actor that was given a name."""
    value = internal_kv._internal_kv_get(name, namespace=_SPACE)
    return None if value is None else pickle.loads(value)


def _is_living(found: tuple[str, About] | None) -> TypeGuard[tuple[str, About]]:
    if found is None:
        return False
    rows = list_actors(filters=[("actor_id", "=", found[0].rpartition("-")[2])])
    return any(row.state != "DEAD" for row in rows)
