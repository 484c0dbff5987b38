"""Messages about nodes: Dask workers that become nodes of raycompat, and cease to be ones."""

from __future__ import annotations

from typing import Any

from raycompat._messages.base import FromNode, ToNode


class NodeReady(FromNode):
    """A worker is a node now."""

    #: See `_node.node.Node`, which describes itself.
    info: dict[str, Any]


class Unfit(FromNode):
    """A worker cannot be a node, and why."""

    reason: str


class Resign(FromNode):
    """A worker is to be a node no more: its plugin was removed. The answer is `Dismiss`."""


class Dismiss(ToNode):
    """End: the worker is no node any more. No other message follows."""


class Gone(FromNode):
    """A worker is no node any more: it sends no other message."""
