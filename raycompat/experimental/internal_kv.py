"""Small values by key, which the processes of a cluster share.

Ray keeps its own settings there, and some libraries use it. The functions are private in Ray, but
named in public programs. Keys, values and namespaces are bytes; texts are encoded as UTF-8.

Notes
-----
Ray source: ``ray.experimental.internal_kv``, 2.60.0. Differs from Ray: there is no GCS client to pass
on, and what Ray itself keeps there is not here. All values together may have 256 MB.
"""

from __future__ import annotations

from typing import TypeVar

from raycompat._caller import current_session
from raycompat._caller import session as sessions
from raycompat._messages.key_values import DeleteValues, GetValue, ListKeys, PutValue
from raycompat._protocol.message import Request
from raycompat._surface.modules import names_of

__all__ = [
    "_internal_kv_del",
    "_internal_kv_exists",
    "_internal_kv_get",
    "_internal_kv_initialized",
    "_internal_kv_list",
    "_internal_kv_put",
]

_Text = str | bytes

_A = TypeVar("_A")


def _internal_kv_initialized() -> bool:
    """Return whether there is a session."""
    return current_session.get() is not None


def _internal_kv_get(key: _Text, *, namespace: _Text | None = None) -> bytes | None:
    """Return the value of a key; None if there is none."""
    return _ask(GetValue(_space(namespace), _bytes("key", key)))


def _internal_kv_exists(key: _Text, *, namespace: _Text | None = None) -> bool:
    """Return whether a key has a value."""
    return _internal_kv_get(key, namespace=namespace) is not None


def _internal_kv_put(
    key: _Text, value: _Text, overwrite: bool = True, *, namespace: _Text | None = None
) -> bool:
    """Store a value; return whether the key had one before, which stays without `overwrite`."""
    return _ask(
        PutValue(_space(namespace), _bytes("key", key), _bytes("value", value), bool(overwrite))
    )


def _internal_kv_del(
    key: _Text, *, del_by_prefix: bool = False, namespace: _Text | None = None
) -> int:
    """Delete a value, or those of all keys that begin with `key`; return how many there were."""
    return _ask(DeleteValues(_space(namespace), _bytes("key", key), bool(del_by_prefix)))


def _internal_kv_list(prefix: _Text, *, namespace: _Text | None = None) -> list[bytes]:
    """Return the keys that begin with `prefix`."""
    return list(_ask(ListKeys(_space(namespace), _bytes("prefix", prefix))))


def _ask(request: Request[_A]) -> _A:
    return sessions.require().rpc(request)


def _space(namespace: _Text | None) -> bytes:
    return b"" if namespace is None else _bytes("namespace", namespace)


def _bytes(name: str, value: _Text) -> bytes:
    if isinstance(value, str):
        return value.encode()
    if not isinstance(value, bytes):
        raise TypeError(f"{name} is a {type(value).__name__}: expected str or bytes.")
    return value


#: Names of older Rays.
__getattr__ = names_of(__name__)
