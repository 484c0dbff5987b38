"""Messages about placement groups."""

from __future__ import annotations

from raycompat._messages.base import FromCaller, ToCaller
from raycompat._protocol.call_spec import GroupSpec


class CreateGroup(FromCaller):
    """Make a placement group."""

    spec: GroupSpec


class RemoveGroup(FromCaller):
    """Remove a placement group."""

    group: str


class AwaitGroup(FromCaller):
    """Report by `GroupReady` when all bundles of a group are reserved."""

    group: str


class GroupReady(ToCaller):
    """The bundles of a group are reserved; or it was removed, which is an error."""

    group: str
    error: bytes | None
