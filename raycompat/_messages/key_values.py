"""Requests about small values that programs share by a namespace and a key."""

from __future__ import annotations

from raycompat._protocol.message import Request


class GetValue(Request[bytes | None]):
    """Give the value of a key; None if it has none."""

    namespace: bytes
    key: bytes


class PutValue(Request[bool]):
    """Store a value; the answer is whether the key had one, which stays without `overwrite`."""

    namespace: bytes
    key: bytes
    value: bytes
    overwrite: bool


class DeleteValues(Request[int]):
    """Delete a value, or those of all keys that begin with `key`; the answer is their number."""

    namespace: bytes
    key: bytes
    is_prefix: bool


class ListKeys(Request[list[bytes]]):
    """List the keys that begin with `prefix`."""

    namespace: bytes
    prefix: bytes
