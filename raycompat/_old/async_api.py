"""`ray.experimental.async_api` of 0.6 to 0.8: references as futures of asyncio."""

from __future__ import annotations

import asyncio
from typing import TypeVar

from raycompat import ObjectRef

_T = TypeVar("_T")


def init() -> None:
    """Prepare nothing: every event loop can await references."""


async def async_init() -> None:
    """Prepare nothing: every event loop can await references."""


def as_future(object_ref: ObjectRef[_T]) -> asyncio.Future[_T]:
    """Return a future of the value, for the running event loop."""
    return asyncio.ensure_future(object_ref)


def shutdown() -> None:
    """Release nothing."""
