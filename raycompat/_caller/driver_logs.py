"""How a driver prints what its tasks and actors print: with their name and pid, each line once.

What comes from the nodes is printed in a thread of its own, so that a terminal that is slow, or a pipe
that nobody reads, holds up neither the session nor the program. Nodes send more when they hear that
something was printed.
"""

from __future__ import annotations

import logging
import os
import queue
import re
import sys
import threading
import time
from collections.abc import Iterable
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any, NamedTuple, TextIO

from raycompat._caller.log_folding import Folding
from raycompat._protocol.frames import BAR_MARK
from raycompat._protocol.operations import ToScheduler

if TYPE_CHECKING:
    from raycompat._caller.session import Session

logger = logging.getLogger(__name__)

#: Bytes. A longer line is shown in pieces.
_LONGEST_LINE_BYTES = 4 << 20

#: Bytes that are printed before the node hears of them, unless there is nothing else to do.
_PRINTED_BYTES = 1 << 16

#: Seconds for which the last output of a session is waited for: while nothing comes, and altogether.
_LAST_WORDS_S, _FLUSH_S = 3.0, 60.0

#: Seconds for which lines are counted that several processes print alike, unless told otherwise.
_FOLDING_S = 5

_CYAN, _GREEN, _NORMAL = "\x1b[36m", "\x1b[32m", "\x1b[0m"
#: From which ``RAY_COLOR_PREFIX=1`` chooses by pid; Ray's.
_COLORS = ("\x1b[35m", _CYAN, _GREEN, "\x1b[90m", "\x1b[94m", "\x1b[95m", "\x1b[93m")


class Source(NamedTuple):
    """Who has printed something. `pid` is 0 for the scheduler."""

    name: str
    pid: int
    #: Of its node; empty if that is the driver's.
    ip: str

    def prefix(self) -> str:
        """Return what stands before each of its lines."""
        if not self.pid or os.environ.get("RAY_DISABLE_WORKER_LOG_PREFIX", "0") not in ("0", ""):
            return ""
        name, ip = f"{self.name} " if self.name else "", f", ip={self.ip}" if self.ip else ""
        text, color = f"({name}pid={self.pid}{ip})", os.environ.get("RAY_COLOR_PREFIX")
        if color == "0":
            return f"{text} "
        chosen = _COLORS[self.pid % len(_COLORS)] if color == "1" else _CYAN
        return f"{chosen}{text}{_NORMAL} "


class DriverLogs:
    """See the module."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._queue: queue.SimpleQueue[dict[str, Any] | None] = queue.SimpleQueue()
        #: What has come of lines whose end has not, by node, pid and stream; and its length.
        self._partial: dict[tuple[str, int, str], tuple[list[bytes], int]] = {}
        self._foldings = _foldings()
        self._was_explained = False
        self._is_flushed = threading.Event()
        self._num_printed = 0
        #: What each node has not heard of yet.
        self._unsaid: dict[str, int] = {}
        self._thread = threading.Thread(target=self._run, name="raycompat-print", daemon=True)
        self._thread.start()

    # --- in the session's event loop and in the program's threads -------------------------------

    def receive(self, **message: Any) -> None:
        """Print some output soon; or hear, if it is none, that all has come that was asked for."""
        self._queue.put(message)

    def flush(self) -> None:
        """Wait until all is printed that was printed elsewhere up to now, as long as some comes."""
        self._is_flushed.clear()
        self._session.send(ToScheduler.FLUSH_LOGS, job=self._session.setup.job)
        self._wait_for(self._is_flushed.wait)
        if not self._is_flushed.is_set():
            logger.warning(
                "Some of what tasks printed last may be missing: nothing more of it came, or could "
                "be printed, for %s s, or all of it took more than %s s. Nodes keep it in their "
                "folders raycompat-logs.",
                _LAST_WORDS_S,
                _FLUSH_S,
            )

    def _wait_for(self, wait: Any) -> None:
        seen, deadline = self._num_printed, time.monotonic() + _FLUSH_S
        while not wait(_LAST_WORDS_S) and self._thread.is_alive():
            if seen == self._num_printed or time.monotonic() > deadline:
                break
            seen = self._num_printed

    def close(self) -> None:
        """Print what has come, and what was counted."""
        self._queue.put(None)
        self._wait_for(self._thread.join)

    # --- in the printing thread -----------------------------------------------------------------

    def _run(self) -> None:
        while True:
            try:
                message = self._queue.get(timeout=self._until_due())
            except queue.Empty:
                self._show_due()
                continue
            if message is None:
                break
            try:
                self._handle(message)
            except Exception:  # one message must not end all output
                logger.exception("raycompat could not print what a task has printed")
            self._num_printed += 1
            if "cost" in message:
                self._say_printed(message["worker"], message["cost"])
        self._finish()

    def _until_due(self) -> float | None:
        if self._unsaid:
            return 0.0
        times = [folding.next_due() for folding in self._foldings.values()]
        due = [each for each in times if each is not None]
        return max(0.0, min(due) - time.monotonic()) if due else None

    def _handle(self, message: dict[str, Any]) -> None:
        if "stream" not in message:
            self._show_due()
            self._is_flushed.set()
            return
        home = self._session.home
        is_here = home.host == self._session.setup.host and message["ip"] == home.ip
        ip = "" if is_here else message["ip"]
        source = Source(message["name"], message["pid"], ip)
        lines = _without_bars(self._lines(message))
        stream = message["stream"]
        folding = self._foldings.get(stream)
        if folding is not None and source.pid:
            process = (message["worker"], source.pid)
            lines = folding.fold(source, lines, time.monotonic(), process)
        self._print(stream, source, lines)
        self._show_due()

    def _lines(self, message: dict[str, Any]) -> list[str]:
        """Return the lines that have come to their end."""
        key = (message["worker"], message["pid"], message["stream"])
        pieces, size = self._partial.pop(key, ([], 0))
        *ended, rest = message["data"].split(b"\n")
        if ended:
            ended[0] = b"".join([*pieces, ended[0]])
            pieces, size = [], 0
        if rest:
            pieces.append(rest)
            size += len(rest)
        if pieces and (message["ends"] or size > _LONGEST_LINE_BYTES):
            ended.append(b"".join(pieces))
        elif pieces:
            self._partial[key] = (pieces, size)
        return [line.rstrip(b"\r").decode(errors="replace") for line in ended]

    def _print(self, stream: str, source: Source, lines: Iterable[str]) -> None:
        prefix = source.prefix()
        text = "".join([f"{prefix}{line}\n" for line in lines])
        target = sys.stderr if stream == "stderr" else sys.stdout
        if text and target is not None:
            with _above_bars():
                _write(target, text)

    def _show_due(self) -> None:
        now = time.monotonic()
        for stream, folding in self._foldings.items():
            for folded in folding.due(now):
                self._print(stream, folded.source, [self._repeated(folded.line, folded.count)])
        for worker in list(self._unsaid) if self._queue.empty() else ():
            self._say_printed(worker, 0, now=True)

    def _repeated(self, line: str, count: int) -> str:
        if count == 1:
            return line
        text = f" [repeated {count}x across cluster]"
        if not self._was_explained:
            self._was_explained = True
            text += (
                " (Lines that several processes print alike are counted, not shown. "
                "RAY_DEDUP_LOGS=0 shows them all.)"
            )
        return f"{line}{_GREEN}{text}{_NORMAL}"

    def _say_printed(self, worker: str, cost: int, *, now: bool = False) -> None:
        cost += self._unsaid.pop(worker, 0)
        if cost and (now or cost > _PRINTED_BYTES):
            job = self._session.setup.job
            self._session.send(ToScheduler.LOG_PRINTED, worker=worker, job=job, cost=cost)
        elif cost:
            self._unsaid[worker] = cost

    def _finish(self) -> None:
        for stream, folding in self._foldings.items():
            for folded in folding.flush():
                self._print(stream, folded.source, [self._repeated(folded.line, folded.count)])
        for (_, pid, stream), (pieces, _) in self._partial.items():
            line = b"".join(pieces).decode(errors="replace")
            self._print(stream, Source("", pid, ""), [line])


def _without_bars(lines: list[str]) -> list[str]:
    """Draw what tasks have printed that is a progress bar; return the other lines."""
    if not any(line.startswith(BAR_MARK) for line in lines):
        return lines
    from raycompat.experimental import tqdm_ray

    return [line for line in lines if not tqdm_ray.draws(line)]


def _above_bars() -> AbstractContextManager[object]:
    """Keep progress bars out of the way of what is printed meanwhile."""
    bars = sys.modules.get("raycompat.experimental.tqdm_ray")
    return bars.above() if bars is not None else nullcontext()


def _write(target: TextIO, text: str) -> None:
    try:
        try:
            target.write(text)
        except UnicodeEncodeError:  # a terminal that has not all characters
            encoding = target.encoding or "ascii"
            target.write(text.encode(encoding, "replace").decode(encoding))
        target.flush()
    except (OSError, ValueError) as error:  # the program has closed it
        logger.debug("what tasks have printed could not be printed: %r", error)


def check_settings() -> None:
    """Look whether the variables that say how output is shown make sense.

    Raises
    ------
    ValueError
        When one is no regular expression.
    """
    _foldings()


def _foldings() -> dict[str, Folding[Source]]:
    """Return what folds standard output and standard error, as Ray's variables say."""
    if os.environ.get("RAY_DEDUP_LOGS", "1").lower() not in ("1", "true"):
        return {}
    window = os.environ.get("RAY_DEDUP_LOGS_AGG_WINDOW_S", "")
    seconds = int(window) if window.isdecimal() else _FOLDING_S
    allow = _pattern("RAY_DEDUP_LOGS_ALLOW_REGEX")
    skip = _pattern("RAY_DEDUP_LOGS_SKIP_REGEX")
    return {stream: Folding(seconds, allow, skip) for stream in ("stdout", "stderr")}


def _pattern(variable: str) -> re.Pattern[str] | None:
    text = os.environ.get(variable)
    if not text:
        return None
    try:
        return re.compile(text)
    except re.error as error:
        raise ValueError(f"{variable}={text!r} is no regular expression: {error}.") from error
