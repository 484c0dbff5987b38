"""What is there of raycompat and should not be, once work has ended."""

from __future__ import annotations

import gc
import sys
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

import psutil


@dataclass
class LeftOver:
    """Resources that were added after this object was made and still exist."""

    threads_before: int = field(default_factory=lambda: len(_threads()))
    children_before: set[psutil.Process] = field(
        default_factory=lambda: set(psutil.Process().children(recursive=True))
    )

    def wait_until_none(self, deadline_s: float) -> None:
        """Wait until there is nothing; an assertion fails when the deadline has passed."""
        start, pause_s = time.monotonic(), 0.1
        next_collection = start + pause_s
        while found := self.find():
            now = time.monotonic()
            assert now < start + deadline_s, f"left over: {found}"
            if now > next_collection:  # seldom: it takes longer than all else
                gc.collect()
                pause_s *= 2
                next_collection = now + pause_s
            time.sleep(0.01)  # polling with a deadline: the clean-up is asynchronous

    def find(self) -> dict[str, object]:
        """Return what is there now; of a session only what it keeps beside itself."""
        session = sys.modules["raycompat._caller.current_session"].get()
        if session is not None:
            from raycompat._messages.nodes import Inventory  # real Ray's runs do not come here

            session.return_leases()
            session.wake()  # collects dropped references now, not at the next tick
            session.leaked.clear()  # pickled by the test's own hand: kept as long as the driver lives
            found = dict(session.rpc(Inventory()))
            found["segments"] = _segments(session.home.place.store)
            found["entries"] = list(session.table.entries)
            found["channels"] = [*session.channels, *session.relays]
        else:
            found = {"processes": _children(self.children_before), "segments": _segments(None)}
            threads = _threads()
            found["threads"] = threads if len(threads) > self.threads_before else []
        return {what: items for what, items in found.items() if items}


def _threads() -> list[str]:
    """Return the names of this process's threads, but the one that tqdm keeps for all its bars."""
    names = (thread.name for thread in threading.enumerate())
    return [name for name in names if name != "tqdm_monitor"]


def _segments(store: str | None) -> list[str]:
    """Return the segments of a node, or (None) those whose node is no more."""
    segment = sys.modules["raycompat._host.segment"]
    processes = sys.modules["raycompat._host.processes"]
    found = []
    for path in Path("/dev/shm").glob(f"{segment.PREFIX}*/{segment.PREFIX}*"):
        owner = path.name.removeprefix(segment.PREFIX).split("-")[0]
        pid, _, start = owner.partition(".")
        alive = pid.isdecimal() and str(processes.start_of(int(pid))) == start
        is_kept = path.name.endswith("-free") and alive  # free segments, for the next writers
        if (path.name.startswith(f"{store}-") and not is_kept) or not alive:
            found.append(path.name)
    return sorted(found)


def _children(besides: set[psutil.Process]) -> list[str]:
    found = []
    for process in set(psutil.Process().children(recursive=True)) - besides:
        try:
            command = " ".join(process.cmdline())
            if process.name() == "raycompat-pulse" and besides & set(process.parents()):
                continue  # of a node that goes on; it is started in the background
        except psutil.NoSuchProcess:
            continue
        if "raycompat" in command or "ray::" in command:
            found.append(f"{process.pid} {command[:100]}")
    return found
