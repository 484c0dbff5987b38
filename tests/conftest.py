"""What holds for every test: when it has ended, nothing of it is left."""

from __future__ import annotations

import gc
import os
import sys
import threading
import time
from pathlib import Path

import psutil
import pytest

#: Seconds after which what is still there counts as left over.
DEADLINE_S = 20.0


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--impl",
        choices=("raycompat", "ray"),
        default="raycompat",
        help="the implementation that tests/conformance runs on",
    )


def _segments() -> list[str]:
    return sorted(path.name for path in Path("/dev/shm").glob("raycompat-*"))


def _children() -> list[str]:
    found = []
    for process in psutil.Process().children(recursive=True):
        try:
            command = " ".join(process.cmdline())
        except psutil.NoSuchProcess:
            continue
        if "raycompat" in command or "ray::" in command:
            found.append(f"{process.pid} {command[:100]}")
    return found


def left_over(raycompat: object, threads_before: int) -> dict[str, object]:
    """Return what is there and should not be, now."""
    gc.collect()
    session = sys.modules["raycompat._caller.session"].current()
    if session is not None:
        session.leaked.clear()  # pickled by the test's own hand: kept as long as the driver lives
        found = dict(session.rpc("raycompat_inventory"))
        found["segments"] = _segments()
        found["entries"] = list(session.table.entries)
    else:
        found = {"processes": _children(), "segments": _segments()}
        more = threading.active_count() - threads_before
        found["threads"] = [t.name for t in threading.enumerate()] if more > 0 else []
    return {what: items for what, items in found.items() if items}


@pytest.fixture(autouse=True)
def nothing_is_left(request: pytest.FixtureRequest):
    """Fail a test that leaves a task, a segment, a process or a thread."""
    threads_before = threading.active_count()
    had_session = _has_session()
    yield
    raycompat = sys.modules.get("raycompat")
    failed = getattr(request.node, "failed", False)
    if raycompat is None or failed or "raycompat._caller.session" not in sys.modules:
        return
    if had_session and not _has_session():
        threads_before = threading.active_count()  # the module's cluster has gone meanwhile
    deadline = time.monotonic() + DEADLINE_S
    while found := left_over(raycompat, threads_before):
        if time.monotonic() > deadline:
            pytest.fail(f"left over after the test: {found}")
        time.sleep(0.02)  # polling with a deadline: the clean-up is asynchronous


def _has_session() -> bool:
    module = sys.modules.get("raycompat._caller.session")
    return module is not None and module.current() is not None


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo):
    report = yield
    if report.failed:
        item.failed = True
    return report


os.environ.setdefault("RAY_DEDUP_LOGS", "0")
