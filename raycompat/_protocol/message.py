"""The base of all messages, and the tables of their handlers.

A message is a dataclass of plain types. On Dask's streams it travels as a dictionary of its fields,
with its kind under the name ``op``. Dask adds who has sent it: ``client`` for a caller, ``worker`` for
a node. In a frame between a node and an executor it travels as a tuple of its kind and its fields.

A `Request` is a message with an answer. It travels by Dask's RPC, and the answer comes back over the
same connection.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, Self, TypeAlias, TypeVar, dataclass_transform

from raycompat._protocol.text import encodable

#: A handler as Dask calls it, with the fields of a message.
Handler: TypeAlias = Callable[..., None]
#: The same for a request; the result, or what is awaited, is the answer.
Answerer: TypeAlias = Callable[..., object]


@dataclass_transform()
class Message:
    """One kind of message. Each class that inherits this one is a dataclass."""

    #: The name of the kind as it travels.
    op: ClassVar[str]

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        dataclass(cls, match_args=False)  # each further method of 130 classes delays the import
        if "op" not in vars(cls):
            cls.op = "raycompat" + re.sub(
                "[A-Z]", lambda found: f"-{found[0].lower()}", cls.__name__
            )

    def to_wire(self) -> dict[str, Any]:
        """Return the message as it travels on a stream."""
        return {"op": self.op, **vars(self)}

    def to_frame(self) -> tuple[object, ...]:
        """Return the message as it travels in a frame."""
        return (self.op, *vars(self).values())


class FromCaller(Message):
    """A driver, or an executor whose code makes calls, sends it to the scheduler."""


class FromNode(Message):
    """A node sends it to the scheduler."""


class ToCaller(Message):
    """The scheduler sends it to a driver, or to an executor whose code makes calls."""


class ToNode(Message):
    """The scheduler sends it to a node."""


class ToExecutor(Message):
    """A node sends it to one of its executors."""


class FromExecutor(Message):
    """An executor sends it to its node."""


_A_co = TypeVar("_A_co", covariant=True)


class Request(Message, Generic[_A_co]):
    """A question. Its parameter is the type of the answer: plain types, as in a message."""

    @classmethod
    def answered(cls, handler: Callable[[Self], _A_co | Awaitable[_A_co]]) -> tuple[str, Answerer]:
        """Return the entry of a table of handlers."""

        def answer(**fields: object) -> object:
            return handler(cls(**fields))

        return cls.op, answer


async def ask(peer: object, request: Request[_A_co], /) -> _A_co:
    """Send a request over an ``rpc`` object of Dask, and return the answer.

    Raises
    ------
    OSError
        When the other side cannot be reached, or ends before it has answered.
    TypeError, ValueError
        When a field is neither of a built-in type nor can be converted to one.
    """
    answer: _A_co = await getattr(peer, request.op)(**encodable(vars(request)))
    return answer


_M = TypeVar("_M", bound=Message)


def handled(kind: type[_M], handler: Callable[[_M], object]) -> tuple[str, Handler]:
    """Return the entry of a table of handlers, for messages of which only one process is the sender."""

    def handle(*values: object, **fields: object) -> None:
        handler(kind(*values, **fields))

    return kind.op, handle


def handled_from(kind: type[_M], handler: Callable[[str, _M], object]) -> tuple[str, Handler]:
    """Return the entry of the scheduler's table. The handler also gets the id of the sender.

    That is the id of a caller's Dask client, or the address of a node.
    """

    def handle(**fields: Any) -> None:
        sender = fields.pop("client", None)
        if sender is None:
            sender = fields.pop("worker")
        handler(sender, kind(**fields))

    return kind.op, handle
