"""Ids as programs see them: a fixed number of bytes for each kind, shown as hexadecimal digits."""

from __future__ import annotations

import os
from typing import ClassVar, Self

from raycompat._protocol import ids


class Id:
    """An id: `size` bytes.

    Parameters
    ----------
    id : bytes
        `size` of them.

    Raises
    ------
    TypeError
        When it is not bytes.
    ValueError
        When it has another length.
    """

    __slots__ = ("_digits",)

    #: How many bytes an id of this kind has.
    _num_bytes: ClassVar[int]

    def __init__(self, id: bytes) -> None:
        self._digits = _checked(type(self).__name__, id, self._num_bytes).hex()

    @classmethod
    def size(cls) -> int:
        """Return how many bytes an id has.

        Examples
        --------
        >>> ray.NodeID.size()
        28
        """
        return cls._num_bytes

    @classmethod
    def from_binary(cls, id: bytes) -> Self:
        """Return the id with these bytes.

        Examples
        --------
        >>> ray.JobID.from_binary(bytes([7, 0, 0, 0]))
        JobID(07000000)
        """
        return cls(id)

    @classmethod
    def from_hex(cls, digits: str) -> Self:
        """Return the id with these hexadecimal digits.

        Examples
        --------
        >>> ray.JobID.from_hex("07000000")
        JobID(07000000)
        """
        try:
            return cls(bytes.fromhex(digits))
        except ValueError as error:
            raise ValueError(
                f"{digits!r} is not the id of a {cls.__name__}: expected "
                f"{2 * cls._num_bytes} hexadecimal digits."
            ) from error

    @classmethod
    def nil(cls) -> Self:
        """Return the id that stands for no object: all bits are 1.

        Examples
        --------
        >>> ray.JobID.nil()
        JobID(ffffffff)
        """
        return cls(b"\xff" * cls._num_bytes)

    def is_nil(self) -> bool:
        """Return whether this is the id that `nil` returns.

        Examples
        --------
        >>> ray.JobID.nil().is_nil()
        True
        """
        return self._digits == "ff" * self._num_bytes

    def hex(self) -> str:
        """Return the hexadecimal digits.

        Examples
        --------
        >>> ray.JobID.from_int(7).hex()
        '07000000'
        """
        return self._digits

    def binary(self) -> bytes:
        """Return the bytes.

        Examples
        --------
        >>> list(ray.JobID.from_int(7).binary())
        [7, 0, 0, 0]
        """
        return bytes.fromhex(self._digits)

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and other._digits == self._digits

    def __hash__(self) -> int:
        return hash(self._digits)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._digits})"

    def __reduce__(self) -> tuple[type[Self], tuple[bytes]]:
        return type(self), (self.binary(),)


class _RandomId(Id):
    """An id that programs may create at random."""

    __slots__ = ()

    @classmethod
    def from_random(cls) -> Self:
        """Return a new id.

        Examples
        --------
        >>> ray.ActorID.from_random() == ray.ActorID.from_random()
        False
        """
        return cls(os.urandom(cls._num_bytes))


class TaskID(Id):
    """The id of a task, 24 bytes.

    Examples
    --------
    >>> ray.put("value").task_id()
    TaskID(...)
    """

    __slots__ = ()
    _num_bytes = ids.TASK_ID_BYTES


class JobID(Id):
    """The id of a driver's job, 4 bytes.

    Examples
    --------
    >>> job = ray.JobID(bytes([7, 0, 0, 0]))
    >>> job, job.int()
    (JobID(07000000), 7)
    """

    __slots__ = ()
    _num_bytes = ids.JOB_ID_BYTES

    @classmethod
    def from_int(cls, number: int) -> JobID:
        """Return the id that Ray gives to the job with this number.

        Examples
        --------
        >>> ray.JobID.from_int(7)
        JobID(07000000)
        """
        return cls(number.to_bytes(cls._num_bytes, "little"))

    def int(self) -> int:
        """Return the number from which `from_int` makes this id.

        Examples
        --------
        >>> ray.JobID.from_int(7).int()
        7
        """
        return int.from_bytes(self.binary(), "little")


class ActorID(_RandomId):
    """The id of an actor, 16 bytes.

    Examples
    --------
    >>> @ray.remote
    ... class Counter:
    ...     def own_id(self):
    ...         return ray.get_runtime_context().get_actor_id()
    >>> found = ray.get(Counter.remote().own_id.remote())
    >>> ray.ActorID.from_hex(found).hex() == found
    True
    """

    __slots__ = ()
    _num_bytes = ids.ACTOR_ID_BYTES


class PlacementGroupID(_RandomId):
    """The id of a placement group, 18 bytes.

    Examples
    --------
    >>> from raycompat.util import placement_group, remove_placement_group
    >>> group = placement_group([{"CPU": 1}])
    >>> len(group.id.binary()) == ray.PlacementGroupID.size()
    True
    >>> remove_placement_group(group)
    """

    __slots__ = ()
    _num_bytes = ids.PLACEMENT_GROUP_ID_BYTES


class UniqueID(_RandomId):
    """A unique id of any kind, 28 bytes.

    Examples
    --------
    >>> ray.UniqueID(bytes(28)).is_nil()
    False
    """

    __slots__ = ()
    _num_bytes = ids.NODE_ID_BYTES


class NodeID(UniqueID):
    """The id of a node, 28 bytes.

    Examples
    --------
    >>> found = ray.get_runtime_context().get_node_id()
    >>> ray.NodeID.from_hex(found).hex() == found
    True
    """

    __slots__ = ()


class WorkerID(UniqueID):
    """The id of a process that runs calls, 28 bytes.

    Examples
    --------
    >>> found = ray.get_runtime_context().get_worker_id()
    >>> ray.WorkerID.from_hex(found).hex() == found
    True
    """

    __slots__ = ()


class FunctionID(UniqueID):
    """The id of a remote function, 28 bytes.

    Examples
    --------
    >>> ray.FunctionID.from_random() == ray.FunctionID.from_random()
    False
    """

    __slots__ = ()


class ActorClassID(UniqueID):
    """The id of an actor class, 28 bytes.

    Examples
    --------
    >>> ray.ActorClassID.nil().is_nil()
    True
    """

    __slots__ = ()


def checked_object_id(id: bytes) -> bytes:
    """Return the bytes of an object's id.

    Raises
    ------
    TypeError, ValueError
        As those of `Id`.
    """
    return _checked("ObjectRef", id, ids.OBJECT_ID_BYTES)


def _checked(name: str, id: bytes, length: int) -> bytes:
    if not isinstance(id, bytes):
        raise TypeError(f"{name}({id!r}): expected {length} bytes; for digits there is from_hex.")
    if len(id) != length:
        raise ValueError(f"{name} of {len(id)} bytes: ID string needs to have length {length}.")
    return id
