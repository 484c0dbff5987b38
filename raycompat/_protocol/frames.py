"""Frames on sockets between raycompat's processes: a length, then one pickled object.

The objects hold built-in types only. `_protocol.connection` sends lists of messages, the socket between
a node and an executor one message (`_messages.executors`).

A message that cannot be written or read fails alone. The writer converts subclasses of built-in types,
and refuses other objects (`_protocol.plain`). If a frame has such objects after all, the reader reads
it without them: the messages that contained one are `Unreadable`, and keep their other fields.
"""

from __future__ import annotations

import asyncio
import io
import pickle
import socket
import struct
from collections.abc import Sequence
from typing import Any, TypeVar

from raycompat._protocol.plain import plain

_LENGTH = struct.Struct("<Q")

_Message = TypeVar("_Message")


class _StrictPickler(pickle.Pickler):
    """A pickler of built-in types. It raises `_NotPlainError` for other objects."""

    def reducer_override(self, obj: object) -> Any:
        """Refuse everything that Python's pickler would describe by its class."""
        raise _NotPlainError(type(obj).__qualname__)


class _NotPlainError(Exception):
    """A frame has an object that is not of a built-in type."""


class _Chunks:
    """The file of a pickler: a list of what it writes."""

    def __init__(self) -> None:
        self.written: list[bytes] = []
        self.write = self.written.append


class Encoder:
    """Encodes frames; one thread at a time may use it. To make one takes longer than a frame."""

    def __init__(self) -> None:
        self._chunks = _Chunks()
        self._pickler = _StrictPickler(self._chunks, 5)
        self._is_used = False

    def encode(self, content: object) -> bytes:
        """Return an object as one frame.

        Raises
        ------
        Exception
            When it cannot be written: it has objects that are not of built-in types, or no memory is
            left.
        """
        if self._is_used:  # by this thread, which a signal handler has interrupted
            return Encoder().encode(content)
        chunks, self._is_used = self._chunks.written, True
        try:
            try:
                self._pickler.dump(content)
            except _NotPlainError:
                chunks.clear()
                self._pickler.clear_memo()
                self._pickler.dump(plain(content))
            return b"".join((_LENGTH.pack(sum(map(len, chunks))), *chunks))
        finally:
            chunks.clear()
            self._pickler.clear_memo()
            self._is_used = False

    def encode_all(
        self, messages: Sequence[_Message]
    ) -> tuple[bytes | None, list[tuple[_Message, str]]]:
        """Return messages as one frame, without those that cannot be written; and those, with reasons.

        The frame is None if none is left. A reason is a text: the traceback of an exception would keep
        the caller's objects alive.
        """
        try:
            return self.encode(messages), []
        except Exception as error:
            if len(messages) == 1:
                return None, [(messages[0], described(error))]
        written, refused = [], []
        for message in messages:
            try:
                self.encode([message])
            except Exception as error:
                refused.append((message, described(error)))
            else:
                written.append(message)
        frame, more = self.encode_all(written) if written else (None, [])
        return frame, refused + more


def described(error: Exception) -> str:
    """Return the class and the text of an error."""
    return f"{type(error).__name__}: {error}"


def encode(content: object) -> bytes:
    """Return an object as one frame; see `Encoder.encode`."""
    return Encoder().encode(content)


# --- reading ----------------------------------------------------------------------------------------


class Unreadable:
    """A message that could not be read: its fields, some of them `Missing`, and the reason."""

    def __init__(self, fields: Any, why: str) -> None:
        self.fields = fields
        self.why = why

    def __repr__(self) -> str:
        return f"Unreadable({self.fields!r}, {self.why!r})"

    @property
    def key(self) -> str:
        """The second field, which is the key of a call in all messages about one; else ""."""
        fields = self.fields
        has_key = isinstance(fields, tuple) and len(fields) > 1 and isinstance(fields[1], str)
        return fields[1] if has_key else ""

    @property
    def kind(self) -> str:
        """The first field; "" if it could not be read."""
        fields = self.fields
        has_kind = isinstance(fields, tuple) and bool(fields) and isinstance(fields[0], str)
        return fields[0] if has_kind else ""


class Missing:
    """Stands for an object that could not be read. It accepts all that a pickle does with an object."""

    def __new__(cls, *_: object, **__: object) -> Missing:
        return object.__new__(cls)

    def __init__(self, *_: object, **__: object) -> None:
        return

    def __setstate__(self, _: object) -> None:
        return

    def __setitem__(self, _: object, __: object) -> None:
        return

    def append(self, _: object) -> None:
        """Accept an item of a list, and drop it."""

    add = extend = append


class _LenientUnpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> object:
        """Return `Missing` for each class and function."""
        return Missing


def _decode(data: bytes | memoryview, *, is_list: bool) -> Any:
    """Return a frame's object: a list of messages, or one message. Some may be `Unreadable`."""
    try:
        return pickle.loads(data)
    except Exception as error:
        why = described(error)
        try:
            found = _LenientUnpickler(io.BytesIO(data)).load()
        except Exception:  # the bytes are damaged, or no memory is left
            return [Unreadable(None, why)] if is_list else Unreadable(None, why)
        if not is_list:
            return Unreadable(found, why)
        return [Unreadable(each, why) if _misses(each) else each for each in found]


def _misses(content: object) -> bool:
    """Return whether something in a message could not be read."""
    if isinstance(content, Missing):
        return True
    if isinstance(content, dict):
        return any(_misses(each) for pair in content.items() for each in pair)
    return isinstance(content, list | tuple | set | frozenset) and any(map(_misses, content))


def split(data: bytes) -> tuple[list[list[Any]], int]:
    """Return the messages of all whole frames at the start of `data`, and where the rest begins."""
    contents: list[list[Any]] = []
    position, end = 0, len(data)
    view = memoryview(data)
    while end - position >= _LENGTH.size:
        stop = position + _LENGTH.size + _LENGTH.unpack_from(data, position)[0]
        if stop > end:
            break
        contents.append(_decode(view[position + _LENGTH.size : stop], is_list=True))
        position = stop
    return contents, position


def num_bytes_needed(rest: bytes) -> int:
    """Return how many bytes the frame that begins with `rest` has, as far as is known."""
    if len(rest) < _LENGTH.size:
        return _LENGTH.size
    length: int = _LENGTH.unpack_from(rest)[0]
    return _LENGTH.size + length


async def read_async(reader: asyncio.StreamReader) -> Any:
    """Read a frame of one message, perhaps `Unreadable`; return None at the end of the stream."""
    try:
        head = await reader.readexactly(_LENGTH.size)
        data = await reader.readexactly(_LENGTH.unpack(head)[0])
    except (asyncio.IncompleteReadError, ConnectionError):
        return None
    return _decode(data, is_list=False)


class BlockingChannel:
    """One end of a socket: one thread reads and blocks; any thread writes whole frames."""

    def __init__(self, connection: socket.socket) -> None:
        self._socket = connection
        self._file = connection.makefile("rb", buffering=1 << 16)
        self._encoder = Encoder()

    def send(self, content: object) -> None:
        """Write one frame. Only one thread may send at a time: the caller holds a lock.

        Raises
        ------
        OSError
            When the other end is closed.
        Exception
            When the object cannot be written; the other end gets nothing of it.
        """
        self._socket.sendall(self._encoder.encode(content))

    def receive(self) -> Any:
        """Read a frame of one message, perhaps `Unreadable`; return None at the end of the stream."""
        head = self._file.read(_LENGTH.size)
        if len(head) < _LENGTH.size:
            return None
        length: int = _LENGTH.unpack(head)[0]
        data = self._file.read(length)
        return _decode(data, is_list=False) if len(data) == length else None
