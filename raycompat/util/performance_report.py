"""A report of a program's work as one HTML file that outlives the cluster."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

from raycompat._caller import session as sessions
from raycompat._caller.html_report import Report


@contextmanager
def performance_report(
    filename: str | os.PathLike[str] = "raycompat-report.html",
) -> Iterator[None]:
    """Write a report of the cluster's work in a ``with`` block, also if the block raises.

    The first tab has tables: the failed tasks, the functions and actors of the cluster, and the memory
    of objects. The second tab is Dask's report (timeline of all processes, profile, bandwidths), with
    the calls of leases and actors. The page loads nothing from other servers.

    Parameters
    ----------
    filename : str or os.PathLike, default "raycompat-report.html"
        The file to write, in a folder that exists.

    Raises
    ------
    FileNotFoundError
        When the folder does not exist; it is raised before the block runs.
    RaySystemError
        When this process has no session, or the connection to the scheduler was lost.

    Examples
    --------
    >>> import os, tempfile
    >>> from raycompat.util import performance_report
    >>> @ray.remote
    ... def square(x):
    ...     return x * x
    >>> path = os.path.join(tempfile.mkdtemp(), "report.html")
    >>> with performance_report(path):
    ...     squares = ray.get([square.remote(x) for x in range(4)])
    >>> os.path.exists(path)
    True

    Notes
    -----
    Differs from Ray: Ray does not have this function. The counts of functions include the time before
    the block.
    """
    report = Report(sessions.connected("performance_report"), filename)
    try:
        yield
    finally:
        report.write()
