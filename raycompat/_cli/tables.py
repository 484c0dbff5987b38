"""Rows as text: a table, JSON or YAML."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import yaml

#: The values of `--format`; "default" is a table.
FORMATS = ("default", "json", "yaml", "table")

#: Resources that are bytes.
_BYTES = ("memory", "object_store_memory")

#: The most characters of a cell.
_WIDEST = 60


def formatted(rows: Sequence[Mapping[str, Any]], form: str) -> str:
    """Return rows as text in one of the formats."""
    if form == "json":
        return json.dumps(rows)
    if form == "yaml":
        text: str = yaml.safe_dump(
            [dict(row) for row in rows], sort_keys=False, explicit_start=True
        )
        return text
    return table(rows)


def table(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return rows as columns of text, without the columns that are empty in all rows."""
    names = [
        name for name in (rows[0] if rows else ()) if any(row[name] is not None for row in rows)
    ]
    lines = [[name.upper() for name in names]]
    lines += [[cell(name, row[name]) for name in names] for row in rows]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "\n".join(
        "  ".join(text.ljust(width) for text, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    )


def cell(name: str, value: Any) -> str:
    """Return a value for readers: sizes with a unit, times as dates."""
    if value is None:
        return ""
    if name.endswith(("_ms", "_time")) and isinstance(value, int | float):
        return f"{datetime.fromtimestamp(value / 1000):%Y-%m-%d %H:%M:%S}" if value else ""
    if name == "object_size":
        return size(value)
    if isinstance(value, dict):
        text = ", ".join(f"{key}: {_number(key, each)}" for key, each in value.items())
    else:
        text = str(value)
    text = " ".join(text.split())
    return text if len(text) <= _WIDEST else f"{text[: _WIDEST - 3]}..."


def size(num_bytes: float) -> str:
    """Return a size with its unit; "?" if it is unknown."""
    if num_bytes < 0:
        return "?"
    for unit, bytes_of_unit in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if num_bytes >= bytes_of_unit:
            return f"{num_bytes / bytes_of_unit:.2f} {unit}"
    return f"{num_bytes:.0f} B"


def _number(name: str, value: Any) -> str:
    if name in _BYTES:
        return size(value)
    return f"{value:g}" if isinstance(value, float) else str(value)


def headed(title: str, totals: Mapping[str, Any], body: str) -> str:
    """Return a text with a title, the time, the totals and a body."""
    header = f"======== {title}: {datetime.now():%Y-%m-%d %H:%M:%S} ========"
    lines = [f"{name}: {value}" for name, value in totals.items()]
    return "\n".join([header, "Stats:", *lines, "", "Table:", body])


def summary_rows(groups: Mapping[str, Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return a row for each group of a summary, with its name first."""
    return [
        {"group": name, **{key: each for key, each in group.items() if key[-4:] != "name"}}
        for name, group in groups.items()
    ]
