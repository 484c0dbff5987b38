"""References to objects: `ObjectRef`, and how one crosses to another process.

In a message between processes, a reference has its small value with it, or the key of a large one.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Generator
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

from raycompat._caller import current_session
from raycompat._caller.object_table import FAILED, READY, Entry
from raycompat._pickling.serialization import report_ref
from raycompat._protocol import id_types, ids
from raycompat._protocol.values import InlineValue
from raycompat._surface.modules import lacks

if TYPE_CHECKING:
    from raycompat._caller.membership import Membership

#: References are read, never written: an ``ObjectRef[bool]`` is an ``ObjectRef[int]``.
T_co = TypeVar("T_co", covariant=True)

#: The session of references that were made from an id, without an object.
_NO_SESSION = cast("Membership", None)


@lacks("ray.ObjectRef", "owner_address", "redis_shard_hash")
class ObjectRef(Generic[T_co]):
    """A reference to a value of the cluster, which may not be computed yet.

    Calls and `put` return references; `get` returns the value. You can pass references as arguments,
    inside other objects, in closures and in results. The value is kept as long as a reference to it
    exists in any process.

    Examples
    --------
    >>> reference = ray.put([1, 2, 3])
    >>> ray.get(reference)
    [1, 2, 3]
    >>> ray.ObjectRef.from_hex(reference.hex()) == reference
    True

    Notes
    -----
    Ray source: ``ray.ObjectRef``, 2.60.0 (``ray.ObjectID`` before 0.8.7). No known difference.
    """

    # There is no `__getattr__`: with one, Python reads each attribute two to three times as slowly.
    __slots__ = ("__weakref__", "_carried", "_key", "_session")

    _key: str
    _session: Membership
    #: The pickled small value that came with the reference, until it is read.
    _carried: bytes | None

    def __init__(self, id: bytes) -> None:
        digits = id_types.checked_object_id(id).hex()
        self._carried = None
        session = current_session.get()
        known = session.table.find_and_count(digits) if session is not None else None
        if session is None or known is None:
            # An id alone keeps no object, so there is nothing to count or to get.
            self._key, self._session = f"id-{digits}", _NO_SESSION
            return
        self._key, self._session = known, session

    @classmethod
    def from_binary(cls, id_bytes: bytes) -> ObjectRef[Any]:
        """Return the reference whose id has the 28 bytes `id_bytes`.

        It refers to an object only if this process has a reference to that object already.

        Examples
        --------
        >>> reference = ray.put("value")
        >>> ray.ObjectRef.from_binary(reference.binary()) == reference
        True
        """
        return cls(id_bytes)

    @classmethod
    def from_hex(cls, hex_id: str) -> ObjectRef[Any]:
        """Return the reference whose id has the 56 hexadecimal digits `hex_id`; see `from_binary`.

        Examples
        --------
        >>> reference = ray.put("value")
        >>> ray.get(ray.ObjectRef.from_hex(reference.hex()))
        'value'
        """
        return cls(bytes.fromhex(hex_id))

    @classmethod
    def from_random(cls) -> ObjectRef[Any]:
        """Return a reference with a new id that refers to no object.

        Examples
        --------
        >>> ray.ObjectRef.from_random() == ray.ObjectRef.from_random()
        False
        """
        return cls(os.urandom(ids.OBJECT_ID_BYTES))

    @classmethod
    def nil(cls) -> ObjectRef[Any]:
        """Return the reference whose id stands for no object.

        Examples
        --------
        >>> ray.ObjectRef.nil().is_nil()
        True
        """
        return cls(b"\xff" * ids.OBJECT_ID_BYTES)

    @classmethod
    def _from_key(cls, key: str, session: Membership) -> ObjectRef[Any]:
        """Return one more reference to an object with an entry in the session's table."""
        self = object.__new__(cls)
        self._carried = None
        self._key = key
        session.table.count_up(key)
        # After it is counted: `__del__` would uncount it, also after an interrupt in between.
        self._session = session
        return self

    @classmethod
    def _of_new(cls, entry: Entry, session: Membership) -> ObjectRef[Any]:
        """Return the first reference to an object that no other code knows yet."""
        self = object.__new__(cls)
        self._carried = None
        self._key = entry.key
        self._session = session
        entry.count = 1
        return self

    def __del__(self) -> None:
        session = getattr(self, "_session", None)
        if session is None or self._carried is not None:
            return  # nothing was counted
        if session.table.note_dropped(self._key):
            session.wake()

    #: Dask's functions treat a reference as one of its futures, with its value under `key`.
    __dask_future__ = True

    @property
    def key(self) -> str:
        """Return the key of a Dask task whose value is the object's. Dask calls this.

        Raises
        ------
        ValueError
            When a Dask client of another cluster calls this, or the reference is of an ended session.

        Examples
        --------
        >>> isinstance(ray.put(3).key, str)
        True
        """
        from raycompat._caller import dask_values

        return dask_values.key_for_dask(self, self._entry)

    # For the rest of Dask, a reference is a collection of one value.
    __dask_optimize__ = None

    def __dask_tokenize__(self) -> str:
        return self._key

    def __dask_graph__(self) -> dict[str, object]:
        from raycompat._caller import dask_values

        return dask_values.graph(self, *self.__dask_keys__())

    def __dask_keys__(self) -> list[str]:
        return [f"ref-{self.hex()}"]

    def __dask_postcompute__(self) -> tuple[object, tuple[()]]:
        from raycompat._caller import dask_values

        return dask_values.only, ()

    def __dask_postpersist__(self) -> tuple[object, tuple[object, ...]]:
        from raycompat._caller import dask_values

        return dask_values.rebuilt, tuple(self.__dask_keys__())

    @staticmethod
    def __dask_scheduler__(graph: object, keys: object, **options: object) -> object:
        from raycompat._caller import dask_values

        return dask_values.compute(graph, keys, **options)

    @property
    def _entry(self) -> Entry:
        """The table's entry of the object."""
        if self._session is _NO_SESSION:
            raise ValueError(
                f"{self!r} was made from an id alone, and this process does not refer to that object. "
                "Pass or pickle the reference itself."
            )
        if self._carried is not None:
            self._unpack()
        return self._session.table.entries[self._key]

    def _unpack(self) -> None:
        """Store the value that came with the reference in the session's table."""
        table = self._session.table
        with self._session.lock:
            block = self._carried
            if block is None:
                return  # another thread was quicker
            entry = table.get(self._key) or table.add(self._key)
            entry.count += 1
            self._carried = None
        table.settle(entry, value=InlineValue(block))

    def hex(self) -> str:
        """Return the object's id: 56 hexadecimal digits.

        Examples
        --------
        >>> len(ray.put("value").hex())
        56
        """
        return ids.object_hex(self._key)

    def binary(self) -> bytes:
        """Return the object's id: 28 bytes.

        Examples
        --------
        >>> len(ray.put("value").binary())
        28
        """
        return bytes.fromhex(self.hex())

    def task_id(self) -> id_types.TaskID:
        """Return the id of the task that computes the object: 24 bytes.

        Examples
        --------
        >>> @ray.remote
        ... def own_id():
        ...     return ray.get_runtime_context().get_task_id()
        >>> reference = own_id.remote()
        >>> ray.get(reference) == reference.task_id().hex()
        True
        """
        return id_types.TaskID.from_hex(ids.task_hex(self._key))

    def job_id(self) -> id_types.JobID:
        """Return the id of the job that this process works for: 4 bytes.

        Examples
        --------
        >>> ray.put("value").job_id().hex() == ray.get_runtime_context().get_job_id()
        True
        """
        return id_types.JobID.from_hex(self._session.setup.job)

    def tensor_transport(self) -> str | None:
        """Return the transport of a result whose tensors stay in their actor; None for others.

        The process that has called the method knows it; others get None.

        Examples
        --------
        >>> ray.put("value").tensor_transport() is None
        True
        """
        return self._entry.tensor_transport

    @staticmethod
    def size() -> int:
        """Return the number of bytes of an id.

        Examples
        --------
        >>> ray.ObjectRef.size()
        28
        """
        return ids.OBJECT_ID_BYTES

    def is_nil(self) -> bool:
        """Return whether the id stands for no object.

        Examples
        --------
        >>> ray.put("value").is_nil()
        False
        """
        return self.hex() == "ff" * ids.OBJECT_ID_BYTES

    def call_site(self) -> str:
        """Return the lines of the program that made the object; empty if this process does not know.

        The text is ``(put object)  | file:function:line | …``, the innermost function first, with at
        most three functions. Processes record it if the environment variable
        ``RAY_record_ref_creation_sites`` is 1 when they start, as in Ray.

        Examples
        --------
        >>> ray.put("value").call_site()
        ''
        """
        return (self._entry.site or "") if self._session is not _NO_SESSION else ""

    def __copy__(self) -> ObjectRef[T_co]:
        return self

    def __deepcopy__(self, memo: object) -> ObjectRef[T_co]:
        # A reference does not change. Its `__reduce__` would keep the object until the end.
        return self

    def __repr__(self) -> str:
        return f"ObjectRef({self.hex()})"

    def _repr_html_(self) -> str:
        from raycompat._caller import notebook

        entry = self._entry if self._session is not _NO_SESSION else None
        return notebook.of_object(self.hex(), self.task_id().hex(), entry)

    def __hash__(self) -> int:
        return hash(self._key)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ObjectRef) and other._key == self._key

    def future(self) -> Future[T_co]:
        """Return a `concurrent.futures.Future` of the value.

        Cancelling it does not cancel the task.

        Examples
        --------
        >>> ray.put("value").future().result()
        'value'
        """
        return self._session.as_future(self)

    def as_future(self, _internal: bool = False) -> asyncio.Future[T_co]:
        """Return an `asyncio.Future` of the value.

        It belongs to the running event loop, or else to the one that is set in this thread.

        Examples
        --------
        >>> import asyncio
        >>> async def wait_for(reference):
        ...     return await asyncio.wait_for(reference.as_future(), timeout=10)
        >>> asyncio.run(wait_for(ray.put("value")))
        'value'
        """
        return self._session.as_asyncio_future(self)

    def __await__(self) -> Generator[object, None, T_co]:
        return self.as_future().__await__()

    def __reduce__(self) -> tuple[object, ...]:
        if self._session is _NO_SESSION:
            return ObjectRef, (self.binary(),)
        block = self._carried
        if block is not None:
            return _restore_small, (self._key, block)
        carried = _export(self)
        if carried[0] == "value" and not carried[3]:
            return _restore_small, carried[1:3]
        if carried[0] == "key" and not report_ref(self._key, self):
            # Another pickler is at work, so the receiver of the bytes is unknown.
            self._session.leaked[self._key] = self
        return _restore, carried


class WeakObjectRef(ObjectRef[object]):
    """A reference that does not keep its object alive. Its unpickled copies do, if the object lives."""

    __slots__ = ()

    def __init__(self, key: str, session: Membership) -> None:
        self._carried = None
        self._key = key
        self._session = session

    def __del__(self) -> None:
        """Record nothing: this reference was not counted."""

    def __reduce__(self) -> tuple[object, ...]:
        return _restore, ("key", self._key)


class UnboundObjectRef(WeakObjectRef):
    """A reference in a process without a session: it can only be passed on.

    An error while it is unpickled could end the process: Dask's workers unpickle tasks as they arrive.
    """

    __slots__ = ("_reduced",)

    def __init__(self, key: str, reduced: tuple[object, ...]) -> None:
        super().__init__(key, _NO_SESSION)
        self._reduced = reduced

    @property
    def _entry(self) -> Entry:
        raise self.error()

    def error(self) -> RuntimeError:
        """Return the error of its use."""
        return RuntimeError(
            f"{self!r} was unpickled in a process that was not connected to a cluster. Call "
            "raycompat.init() before. To use it in a task of Dask, make it an argument of the task "
            "(client.submit, client.map, dask.delayed), alone or in lists, tuples and dictionaries: "
            "the task then gets its value."
        )

    def __reduce__(self) -> tuple[object, ...]:
        return self._reduced


#: The name of `ObjectRef` before Ray 0.8.7.
ObjectID = ObjectRef


def _restore(*carried: object) -> ObjectRef[object]:
    session = current_session.get()
    if session is None:
        return UnboundObjectRef(str(carried[1]), (_restore, carried))
    return _restored(session, carried)


def _restore_small(key: str, block: bytes) -> ObjectRef[object]:
    """Return a reference to a small value without references inside. There are often thousands."""
    session = current_session.get()
    if session is None:
        return UnboundObjectRef(key, (_restore_small, (key, block)))
    session.num_restored += 1
    self = object.__new__(ObjectRef)
    self._key = key
    self._session = session
    self._carried = block
    return self


def _export(ref: ObjectRef[object]) -> tuple[Any, ...]:
    """Return the tuple to pickle in place of `ref`."""
    session, entry = ref._session, ref._entry
    with session.lock:
        if entry.state is READY and isinstance(entry.value, InlineValue):
            for held in entry.holds:
                if not report_ref(held._key, held):
                    session.leaked[held._key] = held  # its receiver is unknown
            return ("value", ref._key, entry.value.block, entry.value.refs)
        if entry.state is FAILED:
            entry.is_asked_for = True
            return ("error", ref._key, entry.error, entry.victim)
        return ("key", session.sharing.publish(entry))


def _restored(session: Membership, carried: tuple[Any, ...]) -> ObjectRef[object]:
    """Return the reference from a tuple of `_export`, in this process."""
    kind, key, *rest = carried
    session.num_restored += 1
    with session.lock:
        entry = session.table.get(key)
        if entry is None:
            if kind == "key":
                session.sharing.borrow(key)
            else:
                entry = session.table.add(key)
        ref = ObjectRef._from_key(key, session)
    if kind == "value" and entry is not None:
        value = InlineValue(rest[0], tuple(rest[1]))
        session.table.settle(entry, value=value, holds=session.sharing.hold(value.refs))
    elif kind == "error" and entry is not None:
        session.table.settle(entry, error=rest[0], victim=rest[1])
    return ref
