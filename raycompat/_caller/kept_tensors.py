"""The tensors that this process keeps for readers of its results (see `tensors`)."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from raycompat._messages.objects import ObjectFreed


@dataclass(slots=True)
class Kept:
    """The tensors of one value that this process keeps."""

    tensors: list[Any] = field(default_factory=list)
    #: What must be released with them.
    releases: list[Callable[[], object]] = field(default_factory=list)


#: The tensors that this process keeps for readers, by the keys of their tokens.
_kept: dict[str, Kept] = {}
#: Called when this process has kept tensors. An actor then reads callers' messages during calls too.
when_kept: Callable[[], object] = lambda: None  # noqa: E731  (replaced by the actor)
#: Notified when tensors are dropped.
_dropped = threading.Condition()


def _reset_in_child() -> None:
    """Forget the tensors of the parent, in a forked process."""
    global _dropped
    _kept.clear()
    _dropped = threading.Condition()


os.register_at_fork(after_in_child=_reset_in_child)


def keep(key: str, holding: Kept) -> None:
    """Keep the tensors of a value until the object `key` is freed."""
    _kept[key] = holding
    when_kept()


def get(key: str) -> Kept | None:
    """Return the tensors that belong to a token, if this process keeps them."""
    return _kept.get(key)


def on_freed(message: ObjectFreed) -> None:
    """Drop the tensors of a token that no process needs any more."""
    holding = _kept.pop(message.key, None)
    if holding is None:
        return
    for release in holding.releases:
        release()
    with _dropped:
        _dropped.notify_all()


def wait_until_freed(tensor: Any, timeout_s: float | None) -> bool:
    """Wait until no value that keeps the memory of `tensor` is needed; False after the time."""

    def is_free() -> bool:
        address = tensor.untyped_storage().data_ptr()
        return not any(
            each.untyped_storage().data_ptr() == address
            for holding in list(_kept.values())
            for each in holding.tensors
        )

    with _dropped:
        return _dropped.wait_for(is_free, timeout_s)
