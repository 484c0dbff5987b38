"""The GPUs of a node: their number, and the ids that a call sees."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path


def preset() -> list[str] | None:
    """Return the ids in ``CUDA_VISIBLE_DEVICES``; None if it was not set when the node started."""
    value = os.environ.get("CUDA_VISIBLE_DEVICES")
    if value is None:
        return None
    return [
        part.strip() for part in value.split(",") if part.strip() not in ("", "-1", "NoDevFiles")
    ]


def detect_gpus() -> int:
    """Return the number of NVIDIA GPUs that this process may use."""
    visible = preset()
    if visible is not None:
        return len(visible)
    return sum(path.name[6:].isdigit() for path in Path("/dev").glob("nvidia[0-9]*"))


def visible_ids(slots: Iterable[int]) -> list[str]:
    """Return the ids of the GPUs with these indices, for ``CUDA_VISIBLE_DEVICES``.

    A node can have more logical GPUs than real ones: the id of a logical GPU is its index.
    """
    visible = preset() or []
    return [visible[slot] if slot < len(visible) else str(slot) for slot in slots]
