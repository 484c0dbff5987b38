"""Rows as text: a table, JSON or YAML."""

from __future__ import annotations

import itertools
import json
import re
import shutil
import sys
import textwrap
from collections.abc import Iterable, Mapping, Sequence
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
    "task_attempt_number_counts",
    "total_num_nodes",
    "total_num_workers",
    "ref_type_counts",
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
    are left are wrapped; the first one, the id, is always whole. Without room beside it, the others are
    below it. A last line names what was left out. Without a window, all columns are whole.
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
    if width is None or not names:
        return "\n".join(itertools.chain(*_blocks(columns, width)))
    shown, left_out = _narrowed(columns, width)
    least = sum(_least(cells) + 2 for cells in [*shown.values()][1:])
    blocks = _blocks(shown, width)
    if len(columns) > 1 and (len(shown) == 1 or _width_of(columns[names[0]]) + least > width):
        others, others_left_out = _narrowed({**columns, names[0]: []}, width)
        del others[names[0]]
        if others:
            left_out, below = others_left_out, _blocks(others, width - 2, num_whole=0)
            blocks = [
                [first, *(f"  {line}" for line in lines)]
                for first, lines in zip(columns[names[0]], below, strict=True)
            ]
    lines = [*itertools.chain(*blocks)]
    if left_out:
        text = f"(not shown in {width} columns: {', '.join(left_out)}; see --format)"
        lines += textwrap.wrap(text, width)
    return "\n".join(lines)


def _narrowed(columns: dict[str, list[str]], width: int) -> tuple[dict[str, list[str]], list[str]]:
    """Return the columns that fit, and the names of the others."""
    first = next(iter(columns))
    without: list[str] = []

    def fits(without: list[str]) -> bool:
        widths = [_width_of(cells) for name, cells in columns.items() if name not in without]
        return sum(widths) + 2 * len(widths) - 2 <= width

    for name in _LESS_IMPORTANT:
        if fits(without):
            break
        if name in columns and name != first:
            without.append(name)
    for name in reversed(without[:]):  # a narrow one may fit where a wide one was removed
        others = [each for each in without if each != name]
        if fits(others):
            without = others
    return {name: columns[name] for name in columns if name not in without}, without


def _width_of(cells: Iterable[str]) -> int:
    return max(map(len, cells), default=0)


def _least(cells: Sequence[str]) -> int:
    """Return the least characters of a column that is wrapped: no word of its name is cut."""
    name = max(map(len, _wrapped(cells[0], 1, cuts=False)))
    return min(_width_of(cells), max(_NARROWEST, name))


class _Wrapper(textwrap.TextWrapper):
    """Breaks lines after underscores too: names of columns and states are long words."""

    wordsep_re = re.compile(r"(\s+|(?<=\w[-_])(?=\w))")


def _wrapped(text: str, width: int, *, cuts: bool = True) -> list[str]:
    return _Wrapper(width, break_long_words=cuts).wrap(text) or [""]


def _blocks(
    columns: Mapping[str, list[str]], width: int | None, *, num_whole: int = 1
) -> list[list[str]]:
    """Return the lines of each row; in a window, the widest columns but the first are wrapped."""
    widths = {name: _width_of(cells) for name, cells in columns.items()}
    excess = sum(widths.values()) + 2 * len(widths) - 2 - width if width is not None else 0
    room = {name: widths[name] - _least(cells) for name, cells in [*columns.items()][num_whole:]}
    for _ in range(excess):
        widest = max(room, key=lambda name: (room[name] > 0, widths[name]), default="")
        if not room.get(widest):
            break
        widths[widest] -= 1
        room[widest] -= 1
    blocks = []
    for cells in zip(*columns.values(), strict=True):
        wrapped = [
            _wrapped(text, size) if len(text) > size else [text]
            for text, size in zip(cells, widths.values(), strict=True)
        ]
        lines = itertools.zip_longest(*wrapped, fillvalue="")
        blocks.append(
            ["  ".join(map(str.ljust, parts, widths.values())).rstrip() for parts in lines]
        )
    return blocks


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
        text = _number(name, value)
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


def headed(title: str, totals: Mapping[str, Any], body: str, width: int | None = None) -> str:
    """Return a text with a title, the time, the totals and a body, for a window or without one."""
    text = f" {title}: {datetime.now():%Y-%m-%d %H:%M:%S} "
    bar = "=" * min(8, (width - len(text)) // 2 if width is not None else 8)
    lines = [f"{name}: {_number(name, value)}" for name, value in totals.items()]
    head = "\n".join([(bar + text + bar).strip(), "Stats:", *lines, "", "Table:"])
    return f"{folded(head, width)}\n{body}"


def folded(text: str, width: int | None) -> str:
    """Return a text whose lines fit a window, if there is one. Long words stay whole."""
    if width is None:
        return text
    lines = []
    for line in text.splitlines():
        start = line[: len(line) - len(line.lstrip())]
        lines += textwrap.wrap(
            line,
            width,
            subsequent_indent=f"{start}    ",
            break_long_words=False,
            break_on_hyphens=False,
        ) or [""]
    return "\n".join(lines)


def summary_rows(groups: Mapping[str, Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return a row for each group of a summary, with its name first."""
    return [
        {"group": name, **{key: each for key, each in group.items() if key[-4:] != "name"}}
        for name, group in groups.items()
    ]
