"""The transfer of stored values between processes through Dask.

A node on the same host gets a name of the segment, which it then owns. Another host, or the disk, gets
the bytes. Dask calls these functions for transfers between workers and for spilling.

An address does not show the host: containers can have the same address and separate memory. So nodes
exchange the ids of their hosts when they connect.
"""

from __future__ import annotations

import pickle
from collections.abc import Mapping
from typing import Any, Protocol, TypeAlias

from distributed.protocol.serialize import dask_deserialize, dask_serialize

from raycompat._dask import worker as adapter
from raycompat._host import segment
from raycompat._pickling.serialization import Block
from raycompat._protocol.values import InlineValue, SegmentLink, SegmentValue, SeveralValues


class Store(Protocol):
    """The store of a node, for received values."""

    def take(self, link: SegmentLink) -> SegmentValue:
        """Store a value that another node of this host has shared."""

    def receive(self, block: Block) -> InlineValue | SegmentValue:
        """Store a value from another host, or from disk."""


_store: Store | None = None

#: The name of a node's host in what it tells about itself when it connects.
_HOST = "raycompat-host"


#: What Dask tells a serializer of a connection: what its "sender" and its "recipient" have told.
_Context: TypeAlias = Mapping[str, Mapping[str, object]]

#: What a serializer has written before the frames.
_Header: TypeAlias = Mapping[str, Any]


def keep_in(store: Store, host: str) -> None:
    """Store the values that this node, on `host`, receives in `store`. Other processes keep bytes."""
    global _store
    _store = store
    adapter.tell_when_connecting(_HOST, host)


def _same_host(context: _Context | None) -> bool:
    if not context or "sender" not in context or "recipient" not in context:
        return False
    sender, recipient = context["sender"].get(_HOST), context["recipient"].get(_HOST)
    return sender is not None and sender == recipient


@dask_serialize.register(SegmentValue)
def _serialize_segment(
    value: SegmentValue, context: _Context | None = None
) -> tuple[dict[str, object], list[memoryview]]:
    link = value.link
    header = {"size": link.size, "host": link.host, "refs": link.refs}
    if _same_host(context):
        return {**header, "path": segment.share(link.path)}, []
    return {**header, "path": None}, [memoryview(segment.read(link.path))]


@dask_deserialize.register(SegmentValue)
def _deserialize_segment(header: _Header, frames: list[bytes]) -> object:
    refs = tuple(header["refs"])
    if header["path"] is not None:
        assert _store is not None  # only nodes tell their host
        return _store.take(SegmentLink(header["path"], header["size"], header["host"], refs))
    parts = [memoryview(frame).cast("B") for frame in frames]
    if _store is None:
        return InlineValue(b"".join(parts), refs)
    return _store.receive(Block(list(parts), header["size"], refs))


@dask_serialize.register(SeveralValues)
def _serialize_several(
    several: SeveralValues, context: _Context | None = None
) -> tuple[dict[str, object], list[memoryview]]:
    headers, frames = [], []
    for value in several.values:
        if isinstance(value, SegmentValue):
            header, parts = _serialize_segment(value, context)
        else:
            header, parts = {"pickle": pickle.dumps(value)}, []
        headers.append({**header, "num_frames": len(parts)})
        frames += parts
    return {"values": headers}, frames


@dask_deserialize.register(SeveralValues)
def _deserialize_several(header: _Header, frames: list[bytes]) -> SeveralValues:
    values, position = [], 0
    for each in header["values"]:
        end = position + each["num_frames"]
        if "pickle" in each:
            values.append(pickle.loads(each["pickle"]))
        else:
            values.append(_deserialize_segment(each, frames[position:end]))
        position = end
    return SeveralValues(tuple(values))


@dask_serialize.register(SegmentLink)
def _serialize_link(value: SegmentLink) -> tuple[dict[str, object], list[bytes]]:
    return {"link": pickle.dumps(value)}, []


@dask_deserialize.register(SegmentLink)
def _deserialize_link(header: _Header, frames: list[bytes]) -> SegmentLink:
    link: SegmentLink = pickle.loads(header["link"])
    return link
