"""Rows as text: a table, JSON or YAML."""

from __future__ import annotations

import json
import shutil
import sys
import textwrap
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import yaml

#: The values of `--format`; "default" is a table.
FORMATS = ("default", "json", "yaml", "table")

#: Resources that are bytes.
_BYTES = ("memory", "object_store_memory")

#: The least characters of a column that is wrapped.
_NARROWEST = 8

#: Ids of other rows, which have this number of digits in a window.
_IDS_OF_OTHERS, _ID_DIGITS = ("node_id", "worker_id", "actor_id", "driver_node_id"), 12

#: What is left out of a narrow table, the least important column first.
_LESS_IMPORTANT = (
    "worker_id",
    "func_or_class_name",
    "attempt_number",
    "ray_namespace",
    "creator_job_id",
    "driver_node_id",
    "call_site",
    "type",
    "parent_task_id",
    "driver_info",
    "submission_id",
    "node_ip",
    "ip",
    "job_id",
    "node_id",
    "worker_type",
    "is_alive",
    "labels",
    "reference_type",
    "resources_total",
    "resources",
    "node_name",
    "pid",
    "worker_pid",
    "task_status",
    "actor_id",
    "error_type",
    "source_type",
    "event_id",
)


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


def document(found: Mapping[str, Any], form: str) -> str:
    """Return figures for programs, as JSON or YAML."""
    if form == "json":
        return json.dumps(found)
    text: str = yaml.safe_dump(json.loads(json.dumps(found)), sort_keys=False)
    return text.rstrip()


def window_width() -> int | None:
    """Return the columns of the window; None where the output goes to a file or a program."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


def table(rows: Sequence[Mapping[str, Any]], width: int | None = None) -> str:
    """Return rows as columns of text, without the columns that are empty in all rows.

    For a window of `width` columns, the columns that matter less are left out, and the widest ones that
    are left are wrapped; the first one, the id, is always whole. A last line names what was left out.
    Without a window, all columns are whole.
    """
    names = [
        name for name in (rows[0] if rows else ()) if any(row[name] is not None for row in rows)
    ]
    in_window = width is not None
    columns = {
        name: [
            name.upper(),
            *(cell(name, row[name], short=in_window and name != names[0]) for row in rows),
        ]
        for name in names
    }
    left_out: list[str] = []
    if width is not None:
        columns, left_out = _narrowed(columns, width)
    lines = _lines(columns, width)
    if width is not None and left_out:
        text = f"(not shown in {width} columns: {', '.join(left_out)}; see --format)"
        lines += textwrap.wrap(text, width)
    return "\n".join(lines)


def _narrowed(columns: dict[str, list[str]], width: int) -> tuple[dict[str, list[str]], list[str]]:
    """Return the columns that fit, and the names of the others."""
    first = next(iter(columns), None)
    without: list[str] = []
    for name in _LESS_IMPORTANT:
        if _width_of({each: columns[each] for each in columns if each not in without}) <= width:
            break
        if name in columns and name != first:
            without.append(name)
    for name in reversed(without[:]):  # a narrow one may fit where a wide one was removed
        others = [each for each in without if each != name]
        if _width_of({each: columns[each] for each in columns if each not in others}) <= width:
            without = others
    return {name: columns[name] for name in columns if name not in without}, without


def _width_of(columns: Mapping[str, Sequence[str]]) -> int:
    return sum(max(map(len, cells)) + 2 for cells in columns.values()) - 2


def _lines(columns: Mapping[str, list[str]], width: int | None) -> list[str]:
    widths = {name: max(map(len, cells)) for name, cells in columns.items()}
    excess = _width_of(columns) - width if width is not None and columns else 0
    others = [*columns][1:]
    for _ in range(excess if others else 0):
        widest = max(others, key=lambda name: widths[name])
        widths[widest] = max(_NARROWEST, widths[widest] - 1)
    lines = []
    for cells in zip(*columns.values(), strict=True):
        wrapped = [
            textwrap.wrap(text, size) or [""]
            for text, size in zip(cells, widths.values(), strict=True)
        ]
        for number in range(max(map(len, wrapped), default=0)):
            parts = [each[number] if number < len(each) else "" for each in wrapped]
            padded = map(str.ljust, parts, widths.values())
            lines.append("  ".join(padded).rstrip())
    return lines


#: Smaller numbers of milliseconds are durations: Ray has both under one name. It is a day of 1973.
_FIRST_DATE_MS = 10**11


def cell(name: str, value: Any, *, short: bool = False) -> str:
    """Return a value for readers: sizes with a unit, times as dates; `short` cuts ids of other rows."""
    if value is None:
        return ""
    if name.endswith(("_ms", "_time")) and isinstance(value, int | float):
        if value < _FIRST_DATE_MS:
            return f"{value:,.0f} ms" if value else ""
        return f"{datetime.fromtimestamp(value / 1000):%Y-%m-%d %H:%M:%S}"
    if name == "object_size":
        return size(value)
    if isinstance(value, dict):
        text = ", ".join(f"{key}: {_number(key, each)}" for key, each in value.items())
    else:
        text = str(value)
    text = " ".join(text.split())
    return text[:_ID_DIGITS] if short and name in _IDS_OF_OTHERS else text


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
