"""Options of older versions of Train: what each means today. The rows of ``train.toml`` name these."""

from __future__ import annotations

from typing import Any


def wrap_ddp(given: dict[str, Any], value: bool) -> None:
    """Choose whether the workers' models are kept equal."""
    given["parallel_strategy"] = "ddp" if value else None
