"""Actors of raycompat itself, which pages and ``raycompat top`` show only on demand."""

from __future__ import annotations

from typing import Any, TypeVar

from raycompat._protocol.options import actor_options
from raycompat.actor import ActorClass

T = TypeVar("T")


def internal_actor(cls: type[T], **options: Any) -> ActorClass[T]:
    """Return an actor class as ``ray.remote`` does, whose actors are of raycompat and not of users."""
    return ActorClass(cls, actor_options(options), is_internal=True)
