"""Requests about packages: files of a job's runtime environment, which the scheduler keeps."""

from __future__ import annotations

from raycompat._protocol.message import Request


class BeginPackage(Request[bool]):
    """Keep a package for a client; the answer is whether the scheduler has it already."""

    client: str
    uri: str


class WritePackage(Request[None]):
    """The next piece of a package."""

    client: str
    uri: str
    data: bytes


class EndPackage(Request[None]):
    """All pieces of a package were sent."""

    client: str
    uri: str


class ReadPackage(Request[bytes | None]):
    """Give a node a piece of a package: empty at its end, None for an unknown package."""

    uri: str
    offset: int
