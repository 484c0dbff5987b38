"""How stored values cross between processes through Dask.

To a process on the same host goes a link to the segment; to another host, or to disk, go the bytes.
Dask's own machinery calls this: transfers between workers, gathers, spilling.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

from distributed.comm.addressing import get_address_host
from distributed.protocol.serialize import dask_deserialize, dask_serialize

from raycompat._protocol import segment
from raycompat._protocol.serialization import Block
from raycompat._protocol.values import InlineValue, SegmentLink, SegmentValue

_receive: Callable[[Block], Any] | None = None


def receive_with(keep: Callable[[Block], Any]) -> None:
    """Have this process, a node, keep what it receives with `keep`. Callers keep bytes."""
    global _receive
    _receive = keep


def _same_host(context: dict[str, Any] | None) -> bool:
    if not context or "sender" not in context or "recipient" not in context:
        return False
    sender, recipient = context["sender"]["address"], context["recipient"]["address"]
    return bool(get_address_host(sender) == get_address_host(recipient))


@dask_serialize.register(SegmentValue)
def _serialize_segment(
    value: SegmentValue, context: dict[str, Any] | None = None
) -> tuple[dict[str, Any], list[memoryview]]:
    link = value.link
    header = {"path": link.path, "size": link.size, "host": link.host, "refs": link.refs}
    if _same_host(context):
        return {**header, "linked": True}, []
    return {**header, "linked": False}, [segment.read(link.path)]


@dask_deserialize.register(SegmentValue)
def _deserialize_segment(header: dict[str, Any], frames: list[Any]) -> Any:
    refs = tuple(header["refs"])
    if header["linked"]:
        return SegmentLink(header["path"], header["size"], header["host"], refs)
    parts = [memoryview(frame).cast("B") for frame in frames]
    if _receive is None:
        return InlineValue(b"".join(parts), refs)
    return _receive(Block(list(parts), header["size"], refs))


@dask_serialize.register(SegmentLink)
def _serialize_link(value: SegmentLink) -> tuple[dict[str, Any], list[bytes]]:
    return {"link": pickle.dumps(value)}, []


@dask_deserialize.register(SegmentLink)
def _deserialize_link(header: dict[str, Any], frames: list[Any]) -> SegmentLink:
    link: SegmentLink = pickle.loads(header["link"])
    return link
