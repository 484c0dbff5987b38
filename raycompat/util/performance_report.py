"""A report of what a part of a program did, as one HTML file that outlives the cluster."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

from raycompat import _driver
from raycompat._caller.report import Report


@contextmanager
def performance_report(
    filename: str | os.PathLike[str] = "raycompat-report.html",
) -> Iterator[None]:
    """Write a report of what the cluster did in a ``with`` block, also if the block raises.

    It is Dask's report (timeline of all processes, profile, bandwidths), which shows the calls of
    leases and actors too. Below it are the functions and actors of the cluster, the tasks that have
    failed, and the memory that objects use. It loads nothing from elsewhere.

    Parameters
    ----------
    filename : str or os.PathLike, default "raycompat-report.html"
        The file to write, in a folder that exists.

    Raises
    ------
    FileNotFoundError
        When the folder does not exist; before the block runs.
    RaySystemError
        When there is no session, or the connection to the scheduler was lost.

    Notes
    -----
    Differs from Ray: Ray has no such function. The counts of functions are those since the cluster
    started.
    """
    report = Report(_driver.connected_session("performance_report"), filename)
    try:
        yield
    finally:
        report.write()
