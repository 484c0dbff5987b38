"""The names of actors."""

from __future__ import annotations

from typing import Any

from raycompat._caller import session as sessions
from raycompat._messages.actors import NamedActors


def list_named_actors(all_namespaces: bool = False) -> list[str] | list[dict[str, Any]]:
    """Return the names of the living actors of this namespace.

    Parameters
    ----------
    all_namespaces : bool, default False
        Return the names of all namespaces, each as ``{"name": ..., "namespace": ...}``.

    Examples
    --------
    >>> @ray.remote
    ... class Named:
    ...     pass
    >>> named = Named.options(name="listed").remote()
    >>> "listed" in ray.util.list_named_actors()
    True
    >>> del named
    """
    session = sessions.require()
    namespace = None if all_namespaces else session.setup.namespace
    rows = session.rpc(NamedActors(namespace))
    return [{**row} for row in rows] if all_namespaces else [row["name"] for row in rows]
