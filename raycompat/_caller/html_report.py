"""A report of a program's work as one HTML file: tables of the cluster, then Dask's report."""

from __future__ import annotations

import html
import os
import re
import shlex
import sys
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from pathlib import Path
from string import Template
from typing import TYPE_CHECKING, NamedTuple

from raycompat._messages.watching import ListRows, Overview

if TYPE_CHECKING:
    from raycompat._caller.membership import Membership


class _Table(NamedTuple):
    """One table of the report."""

    title: str
    #: Field, title, and format of numbers of each column.
    columns: tuple[tuple[str, str, str], ...]


_FAILURES = _Table(
    "Tasks that have failed",
    (
        ("name", "Task", ""),
        ("error_type", "Type", ""),
        ("error_message", "Error", ""),
        ("worker_pid", "Process", ""),
        ("task_id", "Id", ""),
    ),
)
_FUNCTIONS = _Table(
    "Functions",
    (
        ("name", "Function", ""),
        ("waiting", "Waiting", ",d"),
        ("running", "Running", ",d"),
        ("done", "Done", ",d"),
        ("failed", "Failed", ",d"),
        ("median", "Median", "time"),
        ("high", "95 %", "time"),
        ("longest", "Longest", "time"),
    ),
)
_ACTORS = _Table(
    "Actors",
    (
        ("class", "Class", ""),
        ("name", "Name", ""),
        ("state", "State", ""),
        ("node", "Node", ""),
        ("restarts", "Restarts", ",d"),
        ("error", "Error", ""),
    ),
)
_STORES = _Table(
    "Memory of objects",
    (
        ("node", "Node", ""),
        ("memory", "In memory", "bytes"),
        ("disk", "On disk", "bytes"),
        ("total", "Meant for objects", "bytes"),
    ),
)

#: Dask's functions that write durations and sizes, by the format of their column.
_WITH_UNITS = {"time": "format_time", "bytes": "format_bytes"}

#: The page, with a place for each value that this module writes.
_PAGE = Path(__file__).with_name("report.html")

#: Dask's icon, which would be loaded from its site.
_ICON = re.compile(r"<link rel=\"shortcut icon\"[^>]*>")

#: The number of failed tasks whose errors the report shows: the last ones.
_MOST_FAILURES = 100


class Report:
    """A report of the cluster's work, from its creation until it is written."""

    def __init__(self, session: Membership, file: str | os.PathLike[str]) -> None:
        import distributed

        self._file = checked_file(file)
        self._begun = time.time()
        self._session = session
        self._of_dask = distributed.performance_report(str(self._file), mode="inline")
        self._sync(self._of_dask.__aenter__)

    def write(self) -> None:
        """Write the file, in place of an older one."""
        ask = self._session.rpc
        ask(Overview())  # its answer comes after the reports of all ended calls
        code = html.escape(shlex.join(sys.argv))  # Dask shows it as HTML
        self._sync(self._of_dask.__aexit__, None, None, None, code=code)
        found = ask(Overview())
        failed = ask(
            ListRows("tasks", [("state", "=", "FAILED")], limit=_MOST_FAILURES, detail=True)
        )
        tables = (
            (_FAILURES, failed["result"]),
            (_FUNCTIONS, found["functions"]),
            (_ACTORS, found["actors"]),
            (_STORES, found["stores"]),
        )
        of_dask = _ICON.sub("", self._file.read_text(encoding="utf-8"))
        ended = time.time()
        page = Template(_PAGE.read_text(encoding="utf-8")).substitute(
            program=html.escape(shlex.join(sys.argv)),
            begun=_time(self._begun),
            ended=_time(ended),
            seconds=f"{ended - self._begun:.1f}",
            tables="".join(_shown(table, rows) for table, rows in tables),
            of_dask=html.escape(of_dask),
        )
        self._file.write_text(page, encoding="utf-8")

    def _sync(
        self, function: Callable[..., Awaitable[None]], *args: object, **kwargs: object
    ) -> None:
        client = self._session.client

        async def call() -> None:
            with client.as_current():
                await function(*args, **kwargs)

        client.sync(call)


def checked_file(file: object) -> Path:
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


def _shown(table: _Table, rows: Iterable[Mapping[str, object]]) -> str:
    """Return a table in HTML; a sentence when it has no rows."""
    lines = [
        "".join(_cell(row[field], title, form) for field, title, form in table.columns)
        for row in rows
    ]
    if not lines:
        return f"<table><caption>{table.title}</caption><tbody><tr><td>None</td></tr></tbody></table>\n"
    head = "".join(
        f"<th{_class(form)}>{html.escape(title)}</th>" for _, title, form in table.columns
    )
    body = "".join(f"<tr>{line}</tr>\n" for line in lines)
    return (
        f"<table><caption>{table.title}</caption>"
        f'<tbody><tr class="head">{head}</tr>\n{body}</tbody></table>\n'
    )


def _cell(value: object, title: str, form: str) -> str:
    text = "" if value is None else html.escape(_written(value, form))
    return f'<td data-title="{html.escape(title)}"{_class(form)}>{text}</td>'


def _written(value: object, form: str) -> str:
    if form not in _WITH_UNITS:
        return format(value, form)
    from dask import utils  # importing Dask takes most of a second

    return str(getattr(utils, _WITH_UNITS[form])(value))


def _class(form: str) -> str:
    return ' class="number"' if form else ""


def _time(seconds: float) -> str:
    """Return a local time with its zone."""
    return time.strftime("%Y-%m-%d %H:%M:%S %z", time.localtime(seconds))
