"""The base of all messages, and the tables of their handlers.

A message is a dataclass of plain types. On Dask's streams it travels as a dictionary of its fields,
with its kind under the name ``op``. Dask adds who has sent it: ``client`` for a caller, ``worker`` for
a node. In a frame between a node and an executor it travels as a tuple of its kind and its fields.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, TypeAlias, TypeVar, dataclass_transform

#: A handler as Dask calls it, with the fields of a message.
Handler: TypeAlias = Callable[..., None]


@dataclass_transform()
class Message:
    """One kind of message. Each class that inherits this one is a dataclass."""

    #: The name of the kind as it travels.
    op: ClassVar[str]

    def __init_subclass__(cls) -> None:
        dataclass(cls, match_args=False)  # each further method of 90 classes delays the import
        if "op" not in vars(cls):
            cls.op = "raycompat" + re.sub(
                "[A-Z]", lambda found: f"-{found[0].lower()}", cls.__name__
            )

    def to_wire(self) -> dict[str, Any]:
        """Return the message as it travels on a stream."""
        return {"op": self.op, **vars(self)}

    def to_frame(self) -> tuple[Any, ...]:
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


_M = TypeVar("_M", bound=Message)


def handled(kind: type[_M], handler: Callable[[_M], object]) -> tuple[str, Handler]:
    """Return the entry of a table of handlers, for messages of which only one process is the sender."""

    def handle(*values: Any, **fields: Any) -> None:
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
