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


def pytest_collection_finish() -> None:
    """Spare the collections of garbage after each test what all the imports have made."""
    gc.collect()
    gc.freeze()


def _segments(store: str | None) -> list[str]:
    """Return the segments of a node, or (None) those whose node is no more."""
    segment = sys.modules["raycompat._protocol.segment"]
    found = []
    for path in Path("/dev/shm").glob(f"{segment.PREFIX}*"):
        owner = path.name.removeprefix(segment.PREFIX).split("-")[0]
        pid, _, start = owner.partition(".")
        alive = pid.isdigit() and str(segment.process_start(int(pid))) == start
        is_kept = path.name.endswith("-free") and alive  # free segments, for the next writers
        if (path.name.startswith(f"{store}-") and not is_kept) or not alive:
            found.append(path.name)
    return sorted(found)


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
        session.return_leases()
        session.leaked.clear()  # pickled by the test's own hand: kept as long as the driver lives
        found = dict(session.rpc("raycompat_inventory"))
        found["segments"] = _segments(session.home.place.store)
        found["entries"] = list(session.table.entries)
        found["channels"] = [*session.channels, *session.relays]
    else:
        found = {"processes": _children(), "segments": _segments(None)}
        more = threading.active_count() - threads_before
        found["threads"] = [t.name for t in threading.enumerate()] if more > 0 else []
    return {what: items for what, items in found.items() if items}


@pytest.fixture(autouse=True)
def nothing_is_left(request: pytest.FixtureRequest):
    """Fail a test that leaves a task, a segment, a process or a thread."""
    threads_before = threading.active_count()
    had_session, sessions_before = _has_session(), _sessions_made()
    yield
    request.node.funcargs.clear()  # pytest would keep the fixtures' values until later
    started = _sessions_made() > sessions_before
    if not (had_session or started or _has_session()):
        return  # the test had nothing to do with a cluster
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


def _sessions_made() -> int:
    """Return how many clusters this process has started."""
    module = sys.modules.get("raycompat._driver")
    return module.num_started if module is not None else 0


def _has_session() -> bool:
    module = sys.modules.get("raycompat._caller.session")
    return module is not None and module.current() is not None


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo):
    report = yield
    if report.failed or hasattr(report, "wasxfail"):
        item.failed = True  # what it left is not looked at
    return report


os.environ.setdefault("RAY_DEDUP_LOGS", "0")
