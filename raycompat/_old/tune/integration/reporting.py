"""What the callbacks of all libraries have in common: which metrics, and when there is a checkpoint."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from typing import Any

from raycompat.train._checkpoint import Checkpoint
from raycompat.tune.trainable import session

Metrics = str | list[str] | dict[str, str] | None


def chosen(metrics: Metrics, found: dict[str, Any]) -> dict[str, Any]:
    """Return the metrics that are reported: names of the library, or new names for them; None is all.

    Raises
    ------
    KeyError
        When the library has none of that name.
    """
    if metrics is None:
        return dict(found)
    listed = [metrics] if isinstance(metrics, str) else metrics
    names = listed if isinstance(listed, dict) else {name: name for name in listed}
    missing = [name for name in names.values() if name not in found]
    if missing:
        raise KeyError(f"The metrics {missing} are not among those reported: {sorted(found)}.")
    return {new: found[name] for new, name in names.items()}


def report(metrics: dict[str, Any], write: Callable[[str], Any] | None = None) -> None:
    """Report to Tune; with a checkpoint that `write` makes in a folder."""
    if write is None:
        session.report(metrics)
        return
    with tempfile.TemporaryDirectory(prefix="checkpoint-") as folder:
        write(folder)
        session.report(metrics, checkpoint=Checkpoint.from_directory(folder))
