"""Options of older versions of the core. The rows of ``core.toml`` name these."""

from __future__ import annotations

from typing import Any


def worker_env(given: dict[str, Any], value: dict[str, str] | None) -> None:
    """Set environment variables as a runtime environment does."""
    if value:
        given["runtime_env"] = {**(given.get("runtime_env") or {}), "env_vars": dict(value)}
