"""A report of a program's work as one HTML file: Dask's report, followed by tables of the cluster."""

from __future__ import annotations

import html
import os
import re
import shlex
import sys
from collections.abc import Awaitable, Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from raycompat._messages.watching import ListRows, Overview

if TYPE_CHECKING:
    from raycompat._caller.session import Session

#: The report's tables of functions, actors, failures and nodes: field, title, and format of numbers.
_FUNCTIONS = (
    ("name", "Function", ""),
    ("waiting", "Waiting", ",d"),
    ("running", "Running", ",d"),
    ("done", "Done", ",d"),
    ("failed", "Failed", ",d"),
    ("median", "Median (s)", ".4f"),
    ("high", "95 % (s)", ".4f"),
    ("longest", "Longest (s)", ".4f"),
)
_ACTORS = (
    ("class", "Class", ""),
    ("name", "Name", ""),
    ("state", "State", ""),
    ("node", "Node", ""),
    ("restarts", "Restarts", ",d"),
    ("error", "Error", ""),
)
_FAILURES = (
    ("name", "Task", ""),
    ("error_type", "Type", ""),
    ("error_message", "Error", ""),
    ("worker_pid", "Process", ""),
    ("task_id", "Id", ""),
)
_STORES = (
    ("node", "Node", ""),
    ("memory", "Bytes in memory", ",d"),
    ("disk", "Bytes on disk", ",d"),
    ("total", "Bytes meant for objects", ",.0f"),
)

_STYLE = (
    "font-family: sans-serif; margin: 1em; border-collapse: collapse",
    "text-align: left; font-weight: bold",
    "text-align: left; padding: 0.2em 1em 0.2em 0; border-bottom: 1px solid #ccc",
)


#: Dask's title and icon, which would be loaded from its site, and those of the report: it has no icon.
_DASK_HEAD = re.compile(r"<title>.*?</title>\s*(<link rel=\"shortcut icon\"[^>]*>)?", re.DOTALL)
_HEAD = '<title>Report of raycompat</title>\n<link rel="icon" href="data:,">'

#: The number of failed tasks whose errors the report shows: the last ones.
_MOST_FAILURES = 100


class Report:
    """A report of the cluster's work, from its creation until it is written."""

    def __init__(self, session: Session, file: str | os.PathLike[str]) -> None:
        import distributed

        self._file = checked_file(file)
        self._session = session
        self._of_dask = distributed.performance_report(str(self._file), mode="inline")
        self._sync(self._of_dask.__aenter__)

    def write(self) -> None:
        """Write the file, in place of an older one."""
        ask = self._session.rpc
        ask(Overview())  # its answer comes after the reports of all ended calls
        self._sync(self._of_dask.__aexit__, None, None, None, code=shlex.join(sys.argv))
        found = ask(Overview())
        failed = ask(
            ListRows("tasks", [("state", "=", "FAILED")], limit=_MOST_FAILURES, detail=True)
        )
        tables = _table("Functions", _FUNCTIONS, found["functions"])
        tables += _table("Actors", _ACTORS, found["actors"])
        tables += _table("Tasks that have failed", _FAILURES, failed["result"])
        tables += _table("Memory of objects", _STORES, found["stores"])
        report = self._file.read_text(encoding="utf-8")
        report = _DASK_HEAD.sub(_HEAD, report, count=1)
        before, end, after = report.rpartition("</body>")
        self._file.write_text(f"{before}{tables}{end}{after}", encoding="utf-8")

    def _sync(self, function: Callable[..., Awaitable[None]], *args: Any, **kwargs: Any) -> None:
        client = self._session.client

        async def call() -> None:
            with client.as_current():
                await function(*args, **kwargs)

        client.sync(call)


def checked_file(file: Any) -> Path:
    """Return the path of the file for a report.

    Raises
    ------
    TypeError
        When it is not a path.
    FileNotFoundError, IsADirectoryError
        When its folder does not exist, or when it is a folder.
    """
    if not isinstance(file, str | os.PathLike):
        raise TypeError(f"The file of a report is {file!r}: expected the path of a file.")
    path = Path(file).absolute()
    if path.is_dir():
        raise IsADirectoryError(f"{file!r} is a folder: give the path of a file to write.")
    if not path.parent.is_dir():
        raise FileNotFoundError(
            f"{file!r} cannot be written: the folder does not exist: {path.parent}."
        )
    return path


def _table(
    title: str, columns: Iterable[tuple[str, str, str]], rows: Iterable[Mapping[str, Any]]
) -> str:
    table, caption, cell = _STYLE
    head = "".join(f'<th style="{cell}">{html.escape(name)}</th>' for _, name, _ in columns)
    lines = [
        "".join(
            f'<td style="{cell}">{html.escape(_text(row[field], form))}</td>'
            for field, _, form in columns
        )
        for row in rows
    ]
    body = "".join(f"<tr>{line}</tr>" for line in lines)
    head = f'<caption style="{caption}">{title}</caption><tr>{head}</tr>'
    return f'<table style="{table}">{head}{body}</table>\n'


def _text(value: Any, form: str) -> str:
    return format(value, form) if value is not None else ""
