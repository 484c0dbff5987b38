"""A report of what a part of a program did, as one HTML file that outlives the cluster."""

from __future__ import annotations

import html
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from raycompat import _driver

#: What the report has of functions and actors: field, title, and format of numbers.
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

_STYLE = (
    "font-family: sans-serif; margin: 1em; border-collapse: collapse",
    "text-align: left; padding: 0.2em 1em 0.2em 0; border-bottom: 1px solid #ccc",
)


@contextmanager
def performance_report(filename: str = "raycompat-report.html") -> Iterator[None]:
    """Write a report of what the cluster did in a ``with`` block.

    It is Dask's report (timeline of all processes, profile, bandwidths), which shows the calls of
    leases and actors too, and below it the functions and actors of the cluster. It loads nothing from
    elsewhere.

    Parameters
    ----------
    filename : str, default "raycompat-report.html"
        The file to write.

    Raises
    ------
    RaySystemError
        When there is no session.

    Notes
    -----
    Differs from Ray: Ray has no such function. The counts of functions are those since the cluster
    started.
    """
    import distributed

    session = _driver.connected_session("performance_report")
    with session.client.as_current():
        with distributed.performance_report(filename, mode="inline"):
            yield
            # Calls are in the timeline when their processes have reported them.
            session.rpc("raycompat_overview")
        found = session.rpc("raycompat_overview")
    path = Path(filename)
    report = path.read_text(encoding="utf-8")
    tables = _table("Functions", _FUNCTIONS, found["functions"])
    tables += _table("Actors", _ACTORS, found["actors"])
    before, end, after = report.rpartition("</body>")
    path.write_text(f"{before}{tables}{end}{after}", encoding="utf-8")


def _table(
    title: str, columns: Iterable[tuple[str, str, str]], rows: Iterable[Mapping[str, Any]]
) -> str:
    table, cell = _STYLE
    head = "".join(f'<th style="{cell}">{html.escape(name)}</th>' for _, name, _ in columns)
    lines = [
        "".join(
            f'<td style="{cell}">{html.escape(format(row[field], form))}</td>'
            for field, _, form in columns
        )
        for row in rows
    ]
    body = "".join(f"<tr>{line}</tr>" for line in lines)
    return f'<table style="{table}"><caption>{title}</caption><tr>{head}</tr>{body}</table>\n'
