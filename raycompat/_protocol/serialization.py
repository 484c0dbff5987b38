"""Values as bytes, and the references found inside them.

A value is pickled with protocol 5. Its pickle and its out-of-band buffers are laid out in one
*block*, the same whether it travels inside a message or lies in a shared-memory segment, so that a
reader maps either and unpickles without a copy::

    "RC01" | number of buffers u32 | pickle length u64 | (offset u64, length u64) per buffer
    | pickle | padding | buffer | padding | buffer ...

Buffers are aligned to 64 bytes, what vector instructions like. A reader gets read-only views.
"""

from __future__ import annotations

import copyreg
import io
import pickle
import struct
import threading
import weakref
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import cloudpickle

from raycompat._protocol.mapping import Mapping

#: Bytes. Up to this size a value travels inside messages and references; above it, in a segment.
#: Ray's own limit is 100 KiB (``max_direct_call_object_size``).
INLINE_LIMIT_BYTES = 100 * 1024

_MAGIC = b"RC01"
_HEAD = struct.Struct("<4sIQ")
_SPAN = struct.Struct("<QQ")
_ALIGNMENT_BYTES = 64

#: Types whose pickle never refers to ``__main__`` nor holds a reference: the plain pickler does.
_PLAIN_TYPES = frozenset({type(None), bool, int, float, str, bytes, bytearray})


class Block:
    """A value laid out for writing: `parts` follow one another, `size` bytes in all."""

    __slots__ = ("parts", "refs", "size")

    def __init__(self, parts: list[Any], size: int, refs: tuple[str, ...]) -> None:
        self.parts = parts
        self.size = size
        self.refs = refs

    @property
    def is_small(self) -> bool:
        """Whether the block may travel inside a message."""
        return self.size <= INLINE_LIMIT_BYTES

    def to_bytes(self) -> bytes:
        """Return the block as one bytes object."""
        return b"".join(self.parts)


class _Found(dict[str, Any]):
    """The references that a pickling has met, by key."""

    __slots__ = ("__weakref__",)


class _Innermost(threading.local):
    """The innermost pickling of ours that is under way in this thread.

    A weak reference: after an interrupt at any place no pickling is taken for one that still goes on.
    """

    found: Callable[[], _Found | None] = staticmethod(lambda: None)


_innermost = _Innermost()


def collecting_refs(pickled: Callable[[], bytes]) -> tuple[bytes, dict[str, Any]]:
    """Call `pickled`; return its result and, by key, what objects report to `report_ref` meanwhile."""
    outer, found = _innermost.found, _Found()
    try:
        _innermost.found = weakref.ref(found)
        return pickled(), found
    finally:
        _innermost.found = outer


def report_ref(key: str, holder: Any) -> bool:
    """Tell the pickling under way that it met `key`; `holder` keeps it alive.

    Returns False where no pickling of ours is under way: somebody else pickles a reference.
    """
    found = _innermost.found()
    if found is None:
        return False
    found[key] = holder
    return True


class Pickler(cloudpickle.Pickler):  # type: ignore[misc, unused-ignore]
    """Pickles what cloudpickle can, and exceptions by their own rules.

    Importing distributed makes tblib reduce every exception class of the process: with traceback and
    context, but without the fields of some built-in ones.
    """

    def reducer_override(self, obj: Any) -> Any:
        """Reduce exceptions as Python does."""
        if isinstance(obj, BaseException):
            reducer = copyreg.dispatch_table.get(type(obj))
            if (getattr(reducer, "__module__", None) or "").startswith("tblib."):
                return obj.__reduce_ex__(pickle.DEFAULT_PROTOCOL)
        return super().reducer_override(obj)


def _pickle(value: Any, buffers: list[pickle.PickleBuffer]) -> bytes:
    if type(value) in _PLAIN_TYPES:
        return pickle.dumps(value, protocol=5)
    with io.BytesIO() as file:
        Pickler(file, protocol=5, buffer_callback=buffers.append).dump(value)
        return file.getvalue()


def _lay_out(data: bytes, buffers: Sequence[pickle.PickleBuffer]) -> tuple[list[Any], int]:
    if not buffers:
        return [_HEAD.pack(_MAGIC, 0, len(data)), data], _HEAD.size + len(data)
    views = [buffer.raw() for buffer in buffers]
    position = _HEAD.size + _SPAN.size * len(views) + len(data)
    spans: list[bytes] = []
    body: list[Any] = [data]
    for view in views:
        padding = -position % _ALIGNMENT_BYTES
        body.append(bytes(padding))
        body.append(view)
        spans.append(_SPAN.pack(position + padding, view.nbytes))
        position += padding + view.nbytes
    return [_HEAD.pack(_MAGIC, len(views), len(data)), *spans, *body], position


def serialize(value: Any) -> tuple[Block, dict[str, Any]]:
    """Lay `value` out as a block, and say what holds the references inside it.

    Returns the block, and the holder of each reference by its key: keep it as long as the block.

    Raises
    ------
    TypeError, pickle.PicklingError, ...
        Whatever the value's own pickling raises.
    """
    buffers: list[pickle.PickleBuffer] = []
    data, found = collecting_refs(partial(_pickle, value, buffers))
    parts, size = _lay_out(data, buffers)
    return Block(parts, size, tuple(found)), found


def deserialize(block: bytes | memoryview | Mapping) -> Any:
    """Make the value of a block anew. Its buffers are read-only views of `block`, not copies."""
    magic, count, length = _HEAD.unpack_from(block)
    if magic != _MAGIC:
        raise ValueError(f"not a raycompat block: it begins with {magic!r}, expected {_MAGIC!r}")
    view = memoryview(block).toreadonly()
    start = _HEAD.size + _SPAN.size * count
    data = view[start : start + length]
    if not count:
        return pickle.loads(data)
    spans = (_SPAN.unpack_from(view, _HEAD.size + _SPAN.size * i) for i in range(count))
    return pickle.loads(data, buffers=[view[at : at + size] for at, size in spans])


def unpicklable(what: str, error: BaseException) -> TypeError:
    """Return the error for a value that cannot be pickled; `what` it is, in words."""
    return TypeError(
        f"Could not serialize {what}: {error!r}. Everything that goes to another process must be "
        "picklable: pass data rather than open files, locks, sockets or sessions, or make such things "
        "inside of the task or actor."
    )


def shortened(value: Any) -> str:
    """Return how a value looks, in an error about it."""
    text = repr(value)
    return text if len(text) <= 200 else text[:200] + "..."
