"""Small values by key, which the processes of a cluster share.

Ray keeps its own settings there, and some libraries use it. The functions are private in Ray, but
named in public programs. Keys, values and namespaces are bytes; texts are encoded as UTF-8.

Notes
-----
Ray source: ``ray.experimental.internal_kv``, 2.60.0. Differs from Ray: there is no GCS client to pass
on, and what Ray itself keeps there is not here. All values together may have 256 MB.
"""

from __future__ import annotations

from typing import Any

from raycompat import _driver
from raycompat._protocol.operations import Request

__all__ = [
    "_internal_kv_del",
    "_internal_kv_exists",
    "_internal_kv_get",
    "_internal_kv_initialized",
    "_internal_kv_list",
    "_internal_kv_put",
]

_Text = str | bytes


def _internal_kv_initialized() -> bool:
    """Return whether there is a session."""
    return _driver.is_initialized()


def _internal_kv_get(key: _Text, *, namespace: _Text | None = None) -> bytes | None:
    """Return the value of a key; None if there is none."""
    value: bytes | None = _ask(Request.KV_GET, namespace, key=_bytes("key", key))
    return value


def _internal_kv_exists(key: _Text, *, namespace: _Text | None = None) -> bool:
    """Return whether a key has a value."""
    return _internal_kv_get(key, namespace=namespace) is not None


def _internal_kv_put(
    key: _Text, value: _Text, overwrite: bool = True, *, namespace: _Text | None = None
) -> bool:
    """Store a value; return whether the key had one before, which stays without `overwrite`."""
    fields = {"key": _bytes("key", key), "value": _bytes("value", value)}
    return bool(_ask(Request.KV_PUT, namespace, **fields, overwrite=overwrite))


def _internal_kv_del(
    key: _Text, *, del_by_prefix: bool = False, namespace: _Text | None = None
) -> int:
    """Delete a value, or those of all keys that begin with `key`; return how many there were."""
    found = _ask(Request.KV_DELETE, namespace, key=_bytes("key", key), is_prefix=del_by_prefix)
    return int(found)


def _internal_kv_list(prefix: _Text, *, namespace: _Text | None = None) -> list[bytes]:
    """Return the keys that begin with `prefix`."""
    found: list[bytes] = _ask(Request.KV_KEYS, namespace, prefix=_bytes("prefix", prefix))
    return list(found)


def _ask(request: Request, namespace: _Text | None, **fields: Any) -> Any:
    space = b"" if namespace is None else _bytes("namespace", namespace)
    return _driver.require_session().rpc(request, namespace=space, **fields)


def _bytes(name: str, value: _Text) -> bytes:
    if isinstance(value, str):
        return value.encode()
    if not isinstance(value, bytes):
        raise TypeError(f"{name} is a {type(value).__name__}: expected str or bytes.")
    return value
