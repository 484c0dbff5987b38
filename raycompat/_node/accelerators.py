"""The GPUs of a node: how many there are, and which ids a call sees."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path


def preset() -> list[str] | None:
    """Return the ids of ``CUDA_VISIBLE_DEVICES`` where the node was started with one."""
    value = os.environ.get("CUDA_VISIBLE_DEVICES")
    if value is None:
        return None
    return [
        part.strip() for part in value.split(",") if part.strip() not in ("", "-1", "NoDevFiles")
    ]


def detect_gpus() -> int:
    """Count the NVIDIA GPUs that this process may use."""
    visible = preset()
    if visible is not None:
        return len(visible)
    return sum(path.name[6:].isdigit() for path in Path("/dev").glob("nvidia[0-9]*"))


def visible_ids(slots: Iterable[int]) -> list[str]:
    """Return the ids, as ``CUDA_VISIBLE_DEVICES`` wants them, of the GPUs at these indices.

    GPUs may be logical (more than there are): then an id is just its index.
    """
    visible = preset() or []
    return [visible[slot] if slot < len(visible) else str(slot) for slot in slots]
