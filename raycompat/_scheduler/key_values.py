"""Small values by key, which programs share through the scheduler (`ray.experimental.internal_kv`)."""

from __future__ import annotations

#: Bytes of all keys and values together.
LIMIT_BYTES = 256 * 2**20


class KeyValues:
    """Keys and values as bytes, in namespaces. They live as long as the cluster."""

    def __init__(self) -> None:
        self._values: dict[tuple[bytes, bytes], bytes] = {}
        self._num_bytes = 0

    def get(self, namespace: bytes, key: bytes) -> bytes | None:
        """Return a value; None if the key has no value."""
        return self._values.get((namespace, key))

    def put(self, namespace: bytes, key: bytes, value: bytes, overwrite: bool) -> bool:
        """Store a value; return whether the key had one before. Without `overwrite`, that one stays.

        Raises
        ------
        ValueError
            When the values of the cluster would need more than `LIMIT_BYTES`.
        """
        before = self._values.get((namespace, key))
        if before is not None and not overwrite:
            return True
        more = len(value) - len(before) if before is not None else len(key) + len(value)
        if self._num_bytes + more > LIMIT_BYTES:
            raise ValueError(
                f"The value of {key!r} has {len(value)} bytes and does not fit: all values together "
                f"can have {LIMIT_BYTES} bytes. Delete some, or put large values with ray.put."
            )
        self._values[namespace, key] = value
        self._num_bytes += more
        return before is not None

    def delete(self, namespace: bytes, key: bytes, is_prefix: bool) -> int:
        """Delete a value, or those of all keys that begin with `key`; return their number."""
        keys = self.keys(namespace, key) if is_prefix else [key]
        deleted = [each for each in keys if (namespace, each) in self._values]
        for each in deleted:
            self._num_bytes -= len(each) + len(self._values.pop((namespace, each)))
        return len(deleted)

    def keys(self, namespace: bytes, prefix: bytes) -> list[bytes]:
        """Return the keys that begin with `prefix`."""
        return [key for space, key in self._values if space == namespace and key.startswith(prefix)]
