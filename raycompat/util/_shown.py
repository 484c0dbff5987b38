"""How configurations are shown: as text without default values, and as a table in notebooks."""

from __future__ import annotations

import html
from collections.abc import Mapping
from dataclasses import fields
from typing import Any


def as_text(config: Any, defaults: Mapping[str, Any] | None = None) -> str:
    """Return the repr of a dataclass with only the fields that differ from their defaults.

    Parameters
    ----------
    config : dataclass instance
        The configuration to show.
    defaults : mapping, optional
        Defaults of fields that are set after the constructor, by name.
    """
    defaults = defaults or {}
    shown = (
        f"{field.name}={getattr(config, field.name)!r}"
        for field in fields(config)
        if getattr(config, field.name) != defaults.get(field.name, field.default)
    )
    return f"{type(config).__name__}({', '.join(shown)})"


def as_table(title: str, rows: Mapping[str, Any]) -> str:
    """Return a table in HTML with one row for each setting."""
    body = "".join(
        f"<tr><th>{html.escape(str(name))}</th><td>{html.escape(str(value))}</td></tr>"
        for name, value in rows.items()
    )
    return f"<table><caption>{html.escape(title)}</caption>{body}</table>"


class ShownAsTable:
    """A dataclass that notebooks show as a table of its fields."""

    def _repr_html_(self) -> str:
        rows = {field.name: getattr(self, field.name) for field in fields(self)}  # type: ignore[arg-type]
        return as_table(type(self).__name__, rows)
