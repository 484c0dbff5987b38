"""The names of actors."""

from __future__ import annotations

from typing import Any

from raycompat import _driver
from raycompat._protocol.operations import Request


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

    Notes
    -----
    Ray source: ``ray.util.list_named_actors``, 2.60.0. No known difference.
    """
    session = _driver.require_session()
    namespace = None if all_namespaces else session.setup.namespace
    found = [dict(row) for row in session.rpc(Request.NAMED_ACTORS, namespace=namespace)]
    return found if all_namespaces else [row["name"] for row in found]
