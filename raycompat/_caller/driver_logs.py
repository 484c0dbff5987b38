"""A driver prints the output of its tasks and actors: each line once, with their name and pid.

A separate thread prints, so that a slow terminal or a blocked pipe delays neither the session nor the
program. The driver reports to the nodes how much it has printed, and they then send more.
"""

from __future__ import annotations

import logging
import os
import queue
import re
import sys
import threading
from collections.abc import Iterable
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any, NamedTuple, TextIO

from raycompat._caller.log_folding import Folding
from raycompat._host import clock
from raycompat._messages.logs import FlushLogs, LogsFlushed, OutputPiece, Printed
from raycompat._protocol.output_marks import BAR_MARK

if TYPE_CHECKING:
    from raycompat._caller.membership import Membership

logger = logging.getLogger(__name__)

#: Bytes. A longer line is printed in pieces.
_LONGEST_LINE_BYTES = 4 << 20

#: Printed bytes after which the node gets a report, unless the thread has nothing else to do.
_PRINTED_BYTES = 1 << 16

#: Seconds to wait for the last output of a session: while none arrives and the scheduler does not
#: report that it will (`LogsAwaited`), and in total.
_LAST_WORDS_S, _FLUSH_S = 3.0, 60.0

#: The default for the seconds in which equal lines of several processes are counted.
_FOLDING_S = 5

_CYAN, _GREEN, _NORMAL = "\x1b[36m", "\x1b[32m", "\x1b[0m"
#: The colours from which ``RAY_COLOR_PREFIX=1`` chooses by pid, as in Ray.
_COLORS = ("\x1b[35m", _CYAN, _GREEN, "\x1b[90m", "\x1b[94m", "\x1b[95m", "\x1b[93m")


class Source(NamedTuple):
    """The process that has printed a line. `pid` is 0 for the scheduler."""

    name: str
    pid: int
    #: The address of its node; empty if that is the driver's node.
    ip: str

    def prefix(self) -> str:
        """Return the text before each of its lines."""
        if not self.pid or os.environ.get("RAY_DISABLE_WORKER_LOG_PREFIX", "0") not in ("0", ""):
            return ""
        name, ip = f"{self.name} " if self.name else "", f", ip={self.ip}" if self.ip else ""
        text, color = f"({name}pid={self.pid}{ip})", os.environ.get("RAY_COLOR_PREFIX")
        if color == "0":
            return f"{text} "
        chosen = _COLORS[self.pid % len(_COLORS)] if color == "1" else _CYAN
        return f"{chosen}{text}{_NORMAL} "


class DriverLogs:
    """The queue of output that has arrived, and the thread that prints it."""

    def __init__(self, session: Membership, *, has_prefixes: bool = True) -> None:
        self._session = session
        #: False in jobs with a `LoggingConfig`, whose lines are parsed by programs.
        self._has_prefixes = has_prefixes
        self._queue: queue.SimpleQueue[OutputPiece | LogsFlushed | None] = queue.SimpleQueue()
        #: The beginnings of lines whose ends have not arrived, by node, pid and stream; their length.
        self._partial: dict[tuple[str, int, str], tuple[list[bytes], int]] = {}
        self._foldings = _foldings()
        self._was_explained = False
        self._is_flushed = threading.Event()
        self._num_printed = 0
        #: The scheduler's reports that the last output will come.
        self._num_awaited = 0
        #: Printed bytes that were not yet reported, by node.
        self._unreported: dict[str, int] = {}
        self._thread = threading.Thread(target=self._run, name="raycompat-print", daemon=True)
        self._thread.start()

    # --- in the session's event loop and in the program's threads -------------------------------

    def receive(self, message: OutputPiece | LogsFlushed) -> None:
        """Queue output for printing, or the report that all requested output was sent."""
        self._queue.put(message)

    def note_that_it_comes(self) -> None:
        """Note that the nodes with the rest of the output are alive. Called in the event loop."""
        self._num_awaited += 1

    def flush(self) -> None:
        """Wait until all earlier output of other processes is printed, as long as some comes."""
        self._is_flushed.clear()
        self._session.send(FlushLogs(self._session.setup.job))
        self._wait_for(self._is_flushed.wait)
        if not self._is_flushed.is_set():
            logger.warning(
                "Some of the last output of tasks may be missing. No more of it arrived, or could be "
                "printed, for %s s, or all of it took more than %s s. The nodes still have it in their "
                "folders raycompat-logs.",
                _LAST_WORDS_S,
                _FLUSH_S,
            )

    def _wait_for(self, wait: Any) -> None:
        deadline, seen = clock.monotonic() + _FLUSH_S, self._progress()
        while not wait(_LAST_WORDS_S) and self._thread.is_alive():
            if seen == self._progress() or clock.monotonic() > deadline:
                break
            seen = self._progress()

    def _progress(self) -> tuple[int, int]:
        return self._num_printed, self._num_awaited

    def close(self) -> None:
        """Print what has arrived, and the counts of folded lines."""
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
                logger.exception("raycompat could not print the output of a task")
            self._num_printed += 1
            if isinstance(message, OutputPiece):
                self._report_printed(message.node, message.cost)
        self._finish()

    def _until_due(self) -> float | None:
        if self._unreported:
            return 0.0
        times = [folding.next_due() for folding in self._foldings.values()]
        due = [each for each in times if each is not None]
        return max(0.0, min(due) - clock.monotonic()) if due else None

    def _handle(self, message: OutputPiece | LogsFlushed) -> None:
        if isinstance(message, LogsFlushed):
            self._show_due()
            self._is_flushed.set()
            return
        home = self._session.home
        is_here = home.host == self._session.setup.host and message.ip == home.ip
        ip = "" if is_here else message.ip
        source = Source(message.name, message.pid, ip)
        lines = _without_bars(self._lines(message))
        stream = message.stream
        folding = self._foldings.get(stream)
        if folding is not None and source.pid:
            process = (message.node, source.pid)
            lines = folding.fold(source, lines, clock.monotonic(), process)
        self._print(stream, source, lines)
        self._show_due()

    def _lines(self, message: OutputPiece) -> list[str]:
        """Return the lines that are complete."""
        key = (message.node, message.pid, message.stream)
        pieces, size = self._partial.pop(key, ([], 0))
        *ended, rest = message.data.split(b"\n")
        if ended:
            ended[0] = b"".join([*pieces, ended[0]])
            pieces, size = [], 0
        if rest:
            pieces.append(rest)
            size += len(rest)
        if pieces and (message.ends or size > _LONGEST_LINE_BYTES):
            ended.append(b"".join(pieces))
        elif pieces:
            self._partial[key] = (pieces, size)
        return [line.rstrip(b"\r").decode(errors="replace") for line in ended]

    def _print(self, stream: str, source: Source, lines: Iterable[str]) -> None:
        prefix = source.prefix() if self._has_prefixes else ""
        text = "".join([f"{prefix}{line}\n" for line in lines])
        target = sys.stderr if stream == "stderr" else sys.stdout
        if text and target is not None:
            with _above_bars():
                _write(target, text)

    def _show_due(self) -> None:
        now = clock.monotonic()
        for stream, folding in self._foldings.items():
            for folded in folding.due(now):
                self._print(stream, folded.source, [self._repeated(folded.line, folded.count)])
        for worker in list(self._unreported) if self._queue.empty() else ():
            self._report_printed(worker, 0, now=True)

    def _repeated(self, line: str, count: int) -> str:
        if count == 1:
            return line
        text = f" [repeated {count}x across cluster]"
        if not self._was_explained:
            self._was_explained = True
            text += (
                " (Equal lines of several processes are counted, not shown. "
                "RAY_DEDUP_LOGS=0 shows them all.)"
            )
        return f"{line}{_GREEN}{text}{_NORMAL}"

    def _report_printed(self, worker: str, cost: int, *, now: bool = False) -> None:
        cost += self._unreported.pop(worker, 0)
        if cost and (now or cost > _PRINTED_BYTES):
            job = self._session.setup.job
            self._session.send(Printed(worker, job, cost))
        elif cost:
            self._unreported[worker] = cost

    def _finish(self) -> None:
        for stream, folding in self._foldings.items():
            for folded in folding.flush():
                self._print(stream, folded.source, [self._repeated(folded.line, folded.count)])
        for (_, pid, stream), (pieces, _) in self._partial.items():
            line = b"".join(pieces).decode(errors="replace")
            self._print(stream, Source("", pid, ""), [line])
        bars = _bars_module()
        if bars is not None:
            bars.instance().end_those_of_others()


def _without_bars(lines: list[str]) -> list[str]:
    """Draw the progress bars in the output of tasks; return the other lines."""
    if not any(line.startswith(BAR_MARK) for line in lines):
        return lines
    from raycompat._caller import bars

    return [line for line in lines if not bars.draws(line)]


def _bars_module() -> Any:
    """Return the module that draws progress bars; None before there are any."""
    return sys.modules.get("raycompat._caller.bars")


def _above_bars() -> AbstractContextManager[object]:
    """Hide progress bars while other output is printed."""
    bars = _bars_module()
    return bars.above() if bars is not None else nullcontext()


def _write(target: TextIO, text: str) -> None:
    try:
        try:
            target.write(text)
        except UnicodeEncodeError:  # the terminal does not have all characters
            encoding = target.encoding or "ascii"
            target.write(text.encode(encoding, "replace").decode(encoding))
        target.flush()
    except (OSError, ValueError) as error:  # the program has closed it
        logger.debug("the output of tasks could not be printed: %r", error)


def check_settings() -> None:
    """Check the environment variables that control how output is shown.

    Raises
    ------
    ValueError
        When one is not a valid regular expression.
    """
    _foldings()


def _foldings() -> dict[str, Folding[Source]]:
    """Return the folding of standard output and of standard error, as Ray's variables set it."""
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
        raise ValueError(f"{variable}={text!r} is not a regular expression: {error}.") from error
