"""Values as bytes, and the references inside them.

A value is pickled with protocol 5. Its pickle and its out-of-band buffers form one *block*. The block
is the same inside a message and in a shared-memory segment, so a reader unpickles either without a
copy::

    "RC01" | number of buffers u32 | pickle length u64 | (offset u64, length u64) per buffer
    | pickle | padding | buffer | padding | buffer ...

Buffers are aligned to 64 bytes, for vector instructions and for TensorFlow, which then need not copy
them. A reader gets read-only views: of the segment, or of a copy of a block that came in a message.
"""

from __future__ import annotations

import ctypes
import io
import pickle
import pickletools
import struct
import sys
import threading
import weakref
from collections import ChainMap
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import chain
from types import CodeType, FunctionType, ModuleType
from typing import Any, ClassVar

import cloudpickle

from raycompat._host.mapping import Mapping, address
from raycompat._pickling import cells, deep_values
from raycompat._pickling.dual_error import native_class, registered_reducer
from raycompat._pickling.tensor_bytes import (
    DeviceBytes,
    InBandReducer,
    Reducer,
    library_of,
    pieces_of,
)

#: Bytes. Up to this size a value travels inside messages and references; above it, in a segment.
#: Ray's own limit is 100 KiB (``max_direct_call_object_size``).
INLINE_LIMIT_BYTES = 100 * 1024

_MAGIC = b"RC01"
_HEAD = struct.Struct("<4sIQ")
_SPAN = struct.Struct("<QQ")
_ALIGNMENT_BYTES = 64

#: Pickles up to this size are compared to find out whether a value is stored already.
_COMPARED_BYTES = 4096

#: Types whose pickle never refers to ``__main__`` or holds a reference: the plain pickler is enough.
_PLAIN_TYPES = frozenset({type(None), bool, int, float, str, bytes, bytearray})


class Block:
    """A serialized value in the form of `parts` to write in order, `size` bytes in all.

    One that this process has pickled also has its `pickle` and its `buffers`, which are parts of it.
    """

    __slots__ = ("buffers", "parts", "pickle", "refs", "size")

    def __init__(
        self,
        parts: list[Any],
        size: int,
        refs: tuple[str, ...],
        pickle: bytes = b"",
        buffers: Sequence[memoryview | DeviceBytes] = (),
    ) -> None:
        self.parts = parts
        self.size = size
        self.refs = refs
        self.pickle = pickle
        self.buffers = buffers

    def is_stored_as(self, stored: memoryview) -> bool:
        """Return whether `stored` is a block of the same value, whose buffers are this block's."""
        _, count, length = _HEAD.unpack_from(stored)
        if count != len(self.buffers) or max(length, len(self.pickle)) > _COMPARED_BYTES:
            return False
        data, views = _split(stored)
        is_same = _places(views) == _places(self.buffers)
        return is_same and _meaning(bytes(data)) == _meaning(self.pickle)

    @property
    def is_small(self) -> bool:
        """Whether the block can travel inside a message."""
        return self.size <= INLINE_LIMIT_BYTES

    def to_bytes(self) -> bytes:
        """Return the block as one bytes object."""
        if DeviceBytes in map(type, self.parts):
            return b"".join(self.pieces())
        return b"".join(self.parts)

    def pieces(self) -> Iterator[memoryview]:
        """Yield the bytes of the block."""
        return chain.from_iterable(map(pieces_of, self.parts))


def _places(buffers: Sequence[Any]) -> list[tuple[int, int]]:
    return [(address(each), each.nbytes) for each in buffers]


def _meaning(data: bytes) -> list[bytes]:
    """Return the operations of a pickle, except those that change nothing for `deserialize`."""
    operations = [(operation.name, start) for operation, _, start in pickletools.genops(data)]
    ends = [start for _, start in operations[1:]] + [len(data)]
    return [
        data[start:end]
        for (name, start), end in zip(operations, ends, strict=True)
        if name not in ("FRAME", "READONLY_BUFFER")
    ]


class _Found(dict[str, Any]):
    """The references that a pickler has found, by key."""

    __slots__ = ("__weakref__",)


class _Innermost(threading.local):
    """The innermost pickling by this module that is in progress in this thread.

    The reference is weak: after an interrupt, an abandoned pickling does not count as in progress.
    """

    found: Callable[[], _Found | None] = staticmethod(lambda: None)


_innermost = _Innermost()


def collecting_refs(pickled: Callable[[], bytes]) -> tuple[bytes, dict[str, object]]:
    """Call `pickled`; return its result and the references reported to `report_ref` by key."""
    outer, found = _innermost.found, _Found()
    try:
        _innermost.found = weakref.ref(found)
        return pickled(), found
    finally:
        _innermost.found = outer


def report_ref(key: str, holder: object) -> bool:
    """Report to the pickling in progress that it contains `key`; `holder` keeps the object alive.

    Return False when this module is not pickling: another pickler pickles the reference.
    """
    keys = _innermost.found()
    if keys is None:
        return False
    keys[key] = holder
    return True


#: The position of the file's name in the arguments of `CodeType`, in Python 3.11 to 3.14.
_FILE_NAME = 10


def _reduce_code(code: CodeType) -> tuple[object, ...]:
    """Reduce code as cloudpickle does, but with the name of its file, which tracebacks show."""
    kind, arguments = cloudpickle.Pickler.dispatch_table[CodeType](code)
    cell = cells.cell_of(code.co_filename)
    name = code.co_filename if cell is None else cell.name
    arguments = (*arguments[:_FILE_NAME], name, *arguments[_FILE_NAME + 1 :])
    return (kind, arguments) if cell is None else (cells.made, (tuple(cell), kind, arguments))


#: Functions and classes of NumPy and raycompat that were pickled by reference, by their ids. Each array
#: has two of them. cloudpickle decides about each one again, which doubles the time to pickle an array.
_by_name: dict[int, object] = {}


def _reduce_exception(error: BaseException) -> object:
    reduced = error.__reduce_ex__(pickle.DEFAULT_PROTOCOL)
    if isinstance(reduced, tuple) and reduced[0] is type(error):
        return (_made_again, reduced[:2], *reduced[2:])
    return reduced


def _made_again(kind: type[BaseException], args: tuple[object, ...]) -> BaseException:
    """Return an exception of a class; without its constructor if that does not take its `args`.

    Python passes what the constructor gave to ``Exception.__init__``, which is often one text. Then the
    fields, which are set afterwards, are all that the constructor would have set.
    """
    try:
        return kind(*args)
    except Exception:
        error = kind.__new__(kind, *args)
        native_class(kind).__init__(error, *args)
        return error


class Pickler(cloudpickle.Pickler):  # type: ignore[misc, unused-ignore]
    """Pickles what cloudpickle can: code with the name of its file, exceptions by their ``__reduce__``.

    cloudpickle leaves out the names of files from 3.1.3 on.
    """

    dispatch_table: ClassVar[ChainMap[object, object]] = ChainMap(
        {CodeType: _reduce_code}, *cloudpickle.Pickler.dispatch_table.maps
    )

    #: Reduces the tensors of the value.
    tensors: Reducer = InBandReducer()

    def reducer_override(self, obj: object) -> object:
        """Reduce exceptions as Python does, and tensors as `tensor_bytes` does."""
        if id(obj) in _by_name:
            return NotImplemented
        library = library_of(obj)
        if library is not None:
            reduced = self.tensors.reduce(obj, library)
            if reduced is not NotImplemented:
                return reduced
        if isinstance(obj, BaseException) and registered_reducer(type(obj)) is None:
            return _reduce_exception(obj)
        reduced = super().reducer_override(obj)
        if reduced is NotImplemented and isinstance(obj, type | FunctionType):
            package = str(obj.__module__).partition(".")[0]
            module = sys.modules.get(package)
            if package in ("numpy", "raycompat"):
                _by_name[id(obj)] = obj
            elif type(module) is ModuleType and (module.__name__, module.__spec__) == (
                package,
                None,
            ):
                # It was made here, for example by `runpy.run_path`: no other process can import it.
                cloudpickle.register_pickle_by_value(module)
                return super().reducer_override(obj)
        return reduced


def dumps(
    value: object,
    buffer_callback: Callable[[pickle.PickleBuffer], object] | None = None,
    tensors: Reducer | None = None,
) -> bytes:
    """Return the pickle of a value; without `buffer_callback`, with its buffers."""
    with io.BytesIO() as file:
        pickler = Pickler(file, protocol=5, buffer_callback=buffer_callback)
        if tensors is not None:
            pickler.tensors = tensors
        pickler.dump(value)
        return file.getvalue()


def _lay_out(data: bytes, views: Sequence[memoryview | DeviceBytes]) -> tuple[list[object], int]:
    if not views:
        return [_HEAD.pack(_MAGIC, 0, len(data)), data], _HEAD.size + len(data)
    position = _HEAD.size + _SPAN.size * len(views) + len(data)
    spans: list[bytes] = []
    body: list[object] = [data]
    for view in views:
        padding = -position % _ALIGNMENT_BYTES
        body.append(bytes(padding))
        body.append(view)
        spans.append(_SPAN.pack(position + padding, view.nbytes))
        position += padding + view.nbytes
    return [_HEAD.pack(_MAGIC, len(views), len(data)), *spans, *body], position


def serialize(value: object, tensors: Reducer | None = None) -> tuple[Block, dict[str, object]]:
    """Serialize `value` as a block, and collect the references inside it; `tensors` reduces tensors.

    Return the block, and the holder of each reference by its key. Keep the holders as long as the
    block.

    Raises
    ------
    TypeError, pickle.PicklingError, ...
        Any exception of the value's own pickling.
    """
    views: list[memoryview | DeviceBytes] = []
    references: dict[str, Any] = {}
    if type(value) in _PLAIN_TYPES:
        data = pickle.dumps(value, protocol=5)
    else:
        buffers: list[pickle.PickleBuffer] = []
        tensors = tensors or Reducer()
        pickled = partial(dumps, value, buffers.append, tensors)
        try:
            data, references = collecting_refs(pickled)
        except pickle.PicklingError as error:
            if not isinstance(error.__cause__, RecursionError):
                raise
            buffers.clear()
            with deep_values.more_room():
                data, references = collecting_refs(pickled)
        views = [tensors.real(each.raw()) for each in buffers]
    parts, size = _lay_out(data, views)
    return Block(parts, size, tuple(references), data, views), references


def deserialize(block: bytes | memoryview | Mapping) -> Any:
    """Unpickle the value of a block. Its buffers are read-only views of it, or of one aligned copy."""
    magic, count, length = _HEAD.unpack_from(block)
    if magic != _MAGIC:
        raise ValueError(f"not a raycompat block: it begins with {magic!r}, expected {_MAGIC!r}")
    if not count:
        return pickle.loads(memoryview(block)[_HEAD.size : _HEAD.size + length])
    data, buffers = _split(memoryview(_aligned(block) if isinstance(block, bytes) else block))
    return pickle.loads(data, buffers=buffers)


def _split(block: memoryview) -> tuple[memoryview, list[memoryview]]:
    """Return read-only views of the pickle and the buffers of a block."""
    _, count, length = _HEAD.unpack_from(block)
    view, start = block.toreadonly(), _HEAD.size + _SPAN.size * count
    spans = (_SPAN.unpack_from(view, _HEAD.size + _SPAN.size * i) for i in range(count))
    return view[start : start + length], [view[at : at + size] for at, size in spans]


def _aligned(block: bytes) -> memoryview:
    """Return a copy that begins at a multiple of 64 bytes; a bytes object does not."""
    room = bytearray(len(block) + _ALIGNMENT_BYTES - 1)
    start = -ctypes.addressof(ctypes.c_char.from_buffer(room)) % _ALIGNMENT_BYTES
    copy = memoryview(room)[start : start + len(block)]
    copy[:] = block
    return copy


def unpicklable(what: str, error: BaseException) -> TypeError:
    """Return the error for a value that cannot be pickled; `what` describes the value."""
    return TypeError(
        f"Could not serialize {what}: {error!r}. A value that goes to another process must be "
        "picklable. Pass data instead of open files, locks, sockets or sessions, or create them "
        "inside the task or actor. ray.util.inspect_serializability(value) finds the part that "
        "cannot be pickled."
    )


def shortened(value: object) -> str:
    """Return the repr of a value for an error message, cut to 200 characters."""
    try:
        text = repr(value)
    except Exception:
        return f"<{type(value).__name__} object whose __repr__ raises>"
    return text if len(text) <= 200 else text[:200] + "..."
