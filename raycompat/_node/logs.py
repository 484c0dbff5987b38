"""What user code prints, on its way to its driver: from pipes to files, from files to the driver.

A thread moves what executors print from their pipes into files (`_node.spool`), whatever the driver
does, so that nobody waits for a driver who reads slowly. The node's event loop reads the files and
sends their lines on, a little at a time, and no more than a *window* of bytes that the driver has not
yet said to have printed. A driver too far behind is told how much was left out, and where it is.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import select
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from raycompat._node.spool import Spool
from raycompat._protocol import ids
from raycompat._protocol.frames import MAX_NAME_BYTES, NAME_MARK

logger = logging.getLogger(__name__)

#: Bytes that are read from a pipe at once: all that it holds.
_PIPE_BYTES = 1 << 16

#: Chunks that a pipe holds, and one for what comes meanwhile.
_CHUNKS_IN_PIPE = 2

#: Bytes that are sent at once; other work of the event loop comes in between.
_PIECE_BYTES = 1 << 15

#: Bytes that a driver may be sent before it says that it has printed some, by each node.
_WINDOW_BYTES = 1 << 18

#: Bytes that a message counts for besides its text.
_MESSAGE_BYTES = 200

#: Seconds that a line without an end waits for the rest.
_PARTIAL_S = 0.5

#: Executors that have ended whose files are kept, and bytes of them all.
_KEPT_EXECUTORS, _KEPT_BYTES = 200, 1 << 30

#: Bytes of one file, and how many older ones are kept, unless Ray's variables say otherwise.
_FILE_BYTES, _NUM_BACKUPS = 128 << 20, 1


class Piece(NamedTuple):
    """Part of an output, as it is sent."""

    #: Of the task or actor that printed it.
    name: str
    data: bytes
    #: Whether a line ends here, though its end was not printed.
    ends: bool


class Output:
    """What one executor writes to one of its standard streams."""

    def __init__(self, descriptor: int, spool: Spool) -> None:
        self.spool = spool
        #: Position up to which all has been taken, and the name of whose output follows there.
        self.position = 0
        self.name = ""
        #: Whether a line without an end is to be taken as it is.
        self.ends_lines = False
        #: Whether nothing more comes out of the pipe.
        self.is_closed = False
        #: Bytes that could not be written, and why.
        self.num_lost, self.why_lost = 0, ""
        self._descriptor = descriptor
        self._is_midline = False
        #: Held while the pipe is read.
        self._lock = threading.Lock()
        #: The name that is to stand before what is printed next; and the last one in the files.
        self._next_name: bytes | None = None
        self._last_name = b""
        #: The last bytes of the files, for names that were read in two parts.
        self._tail = b""
        os.set_blocking(descriptor, False)

    # --- from the pipe to the files -------------------------------------------------------------

    def drain(self) -> None:
        """Take what is in the pipe now. Called from any thread."""
        with self._lock:
            for _ in range(_CHUNKS_IN_PIPE):  # no more: a grandchild may print all the time
                if not self._move_chunk():
                    break

    def _move_chunk(self) -> bool:
        if self.is_closed:
            return False
        try:
            data = os.read(self._descriptor, _PIPE_BYTES)
        except BlockingIOError:
            return False
        if not data:
            self.is_closed = True
            return False
        if self._next_name is not None:
            name, self._next_name = self._next_name, None
            data = NAME_MARK + name + b"\n" + data
        self._note_name(data)
        before = self.spool.end
        try:
            self.spool.append(data)
        except OSError as error:
            self.num_lost += len(data) - (self.spool.end - before)
            self.why_lost = str(error)
        return True

    def _note_name(self, data: bytes) -> None:
        recent = self._tail + data
        at = recent.rfind(NAME_MARK)
        if at >= 0:
            name, end, _ = recent[at + len(NAME_MARK) :].partition(b"\n")
            if end:
                self._last_name = name
        self._tail = recent[-MAX_NAME_BYTES:]

    def begin(self, name: str) -> None:
        """Have what is printed from now on be `name`'s."""
        self.drain()
        encoded = name.encode(errors="replace").replace(b"\n", b" ")[:MAX_NAME_BYTES]
        with self._lock:
            if encoded != self._last_name or self._tail[-1:] not in (b"", b"\n"):
                self._next_name = encoded

    def close(self) -> None:
        """Take the rest; let go of the pipe, whose other end a grandchild may still hold."""
        self.drain()
        with self._lock:
            self.is_closed = True
            os.close(self._descriptor)
        self.ends_lines = True

    # --- from the files to the driver -----------------------------------------------------------

    def take(self, most: int) -> list[Piece]:
        """Return what is to be sent next, some `most` bytes; nothing if a line waits for its end."""
        data = self.spool.read(self.position, most)
        cut = data.rfind(b"\n") + 1
        ends = False
        if not cut and len(data) >= most:
            cut = _before_name(data)
        elif not cut and self.ends_lines and self.position + len(data) >= self.spool.end:
            cut, ends = len(data), True
        self.position += cut
        return self._pieces(data[:cut], ends)

    def _pieces(self, data: bytes, ends: bool) -> list[Piece]:
        pieces, start = [], 0
        while (at := data.find(NAME_MARK, start)) >= 0:
            stop = data.find(b"\n", at)
            if stop < 0:
                break
            if at > start or self._is_midline:
                pieces.append(Piece(self.name, data[start:at], True))
                self._is_midline = False
            self.name = data[at + len(NAME_MARK) : stop].decode(errors="replace")
            start = stop + 1
        if start < len(data):
            pieces.append(Piece(self.name, data[start:], ends))
            self._is_midline = not ends and data[-1:] != b"\n"
        return pieces

    def skip(self) -> int:
        """Leave out what has not been taken; return how many bytes."""
        with self._lock:
            num_bytes, self.position = self.spool.end - self.position, self.spool.end
            self.name = self._last_name.decode(errors="replace")
        return num_bytes

    @property
    def has_more(self) -> bool:
        """Whether not everything has been taken."""
        return self.position < self.spool.end

    @property
    def is_far_behind(self) -> bool:
        """Whether what comes next is gone, or soon will be."""
        spool = self.spool
        return self.position < spool.start or spool.end - self.position > spool.max_bytes


def _before_name(data: bytes) -> int:
    """Return how much of a long line can be sent: all but what may be the beginning of a name."""
    at = data.rfind(NAME_MARK[:1])
    return at if at > len(data) - len(NAME_MARK) - MAX_NAME_BYTES and at > 0 else len(data)


@dataclass(slots=True, eq=False)
class _Sender:
    """What is on its way to one driver."""

    job: str
    in_flight: int = 0
    #: Outputs that have something to send.
    waiting: deque[ExecutorOutput] = field(default_factory=deque)
    #: Where outputs must get to before a question is answered, by its token.
    goals: dict[int, dict[ExecutorOutput, int]] = field(default_factory=dict)


class ExecutorOutput(Output):
    """An output, and whose it is."""

    def __init__(
        self, descriptor: int, spool: Spool, sender: _Sender | None, pid: int, stream: str
    ) -> None:
        super().__init__(descriptor, spool)
        self.sender = sender
        self.pid = pid
        self.stream = stream
        self.is_waiting = False
        self.timer: asyncio.TimerHandle | None = None


class ExecutorLogs:
    """The two outputs of one executor."""

    def __init__(self, logs: Logs, outputs: dict[int, ExecutorOutput]) -> None:
        self._logs = logs
        self._outputs = outputs

    def begin(self, name: str) -> None:
        """Have what is printed from now on be `name`'s."""
        for output in self._outputs.values():
            output.begin(name)
            self._logs.send(output)

    def drain(self) -> None:
        """Send what was printed up to now: a call has ended and its output is still its own."""
        for output in self._outputs.values():
            output.drain()
            self._logs.send(output, ends_line=True)

    def close(self) -> None:
        """Take what is left in the pipes: the process has ended."""
        self._logs.close_outputs(self._outputs)


class Logs:
    """All outputs of a node's executors; see the module."""

    def __init__(self, directory: Path, ip: str, tell: Callable[[dict[str, Any]], None]) -> None:
        self._directory = directory
        self._ip = ip
        self._tell = tell
        self._max_bytes = _setting("RAY_ROTATION_MAX_BYTES", _FILE_BYTES, 1)
        self._num_backups = _setting("RAY_ROTATION_BACKUP_COUNT", _NUM_BACKUPS, 0)
        self._senders: dict[str, _Sender] = {}
        #: By the descriptor of the pipe.
        self._outputs: dict[int, ExecutorOutput] = {}
        #: Files of executors that have ended, with the bytes in them; and the sum of those.
        self._ended: deque[tuple[Spool, int]] = deque()
        self._ended_bytes = 0
        #: Outputs that have grown since the event loop looked; and whether it will look.
        self._grown: deque[ExecutorOutput] = deque()
        self._look_due = False
        self._loop = asyncio.get_running_loop()
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._epoll = select.epoll()
        self._wake_read, self._wake_write = os.pipe()
        self._epoll.register(self._wake_read, select.EPOLLIN)
        self._thread = threading.Thread(target=self._read, name="raycompat-logs", daemon=True)
        self._thread.start()

    # --- executors and drivers come and go ------------------------------------------------------

    def open(self, streams: dict[int, str], job: str, pid: int) -> ExecutorLogs:
        """Read the pipes of an executor: `streams` names them by descriptor."""
        outputs = {}
        for descriptor, stream in streams.items():
            ending = "err" if stream == "stderr" else "out"
            path = self._directory / f"worker-{ids.worker_id(pid, job)}-{job}-{pid}.{ending}"
            spool = Spool(path, self._max_bytes, self._num_backups)
            sender = self._senders.get(job)
            output = ExecutorOutput(descriptor, spool, sender, pid, stream)
            outputs[descriptor] = self._outputs[descriptor] = output
            self._epoll.register(descriptor, select.EPOLLIN)
        return ExecutorLogs(self, outputs)

    def follow(self, job: str) -> None:
        """Send what a job prints to its driver."""
        self._senders.setdefault(job, _Sender(job))

    def unfollow(self, job: str) -> None:
        """Send nothing more: the driver is gone, and only files are written."""
        sender = self._senders.pop(job, None)
        if sender is not None:
            sender.goals.clear()
            while sender.waiting:
                self._close_if_done(sender.waiting.popleft())

    def close_outputs(self, outputs: dict[int, ExecutorOutput]) -> None:
        """Take what is left in the pipes of an executor that has ended."""
        for descriptor, output in outputs.items():
            if self._outputs.pop(descriptor, None) is None:
                continue
            with contextlib.suppress(OSError):  # the reading thread may have seen the end
                self._epoll.unregister(descriptor)
            output.close()
            self._keep(output.spool)
            self.send(output, ends_line=True)
            self._close_if_done(output)

    def _keep(self, spool: Spool) -> None:
        """Keep the files of an executor that has ended, for a while."""
        if spool.end:
            self._ended.append((spool, spool.num_kept))
            self._ended_bytes += spool.num_kept
        while len(self._ended) > 2 * _KEPT_EXECUTORS or self._ended_bytes > _KEPT_BYTES:
            oldest, num_bytes = self._ended.popleft()
            self._ended_bytes -= num_bytes
            oldest.remove()

    def _close_if_done(self, output: ExecutorOutput) -> None:
        if output.is_closed and not (output.has_more and self._is_followed(output)):
            output.spool.close()

    def _is_followed(self, output: ExecutorOutput) -> bool:
        sender = output.sender
        return sender is not None and self._senders.get(sender.job) is sender

    def close(self) -> None:
        """End the thread, and let go of all files. All executors have ended."""
        self.close_outputs(dict(self._outputs))
        for job in list(self._senders):
            self.unfollow(job)
        os.write(self._wake_write, b"x")
        self._thread.join()
        self._epoll.close()
        os.close(self._wake_read)
        os.close(self._wake_write)

    # --- the reading thread ---------------------------------------------------------------------

    def _read(self) -> None:
        while True:
            for descriptor, _ in self._epoll.poll():
                if descriptor == self._wake_read:
                    return
                output = self._outputs.get(descriptor)
                if output is not None:
                    self._read_output(descriptor, output)

    def _read_output(self, descriptor: int, output: ExecutorOutput) -> None:
        before = output.spool.end
        try:
            output.drain()
        except Exception:
            logger.exception("raycompat could not read what process %d prints", output.pid)
            output.is_closed = True
        if output.is_closed:
            with contextlib.suppress(OSError):  # it has just been closed
                self._epoll.unregister(descriptor)
        if output.spool.end > before and self._is_followed(output):
            self._grown.append(output)
            if not self._look_due:
                self._look_due = True
                with contextlib.suppress(RuntimeError):  # the loop is closed: so is the node
                    self._loop.call_soon_threadsafe(self._look)

    # --- in the event loop ----------------------------------------------------------------------

    def _look(self) -> None:
        self._look_due = False
        while self._grown:
            self.send(self._grown.popleft())

    def send(self, output: ExecutorOutput, *, ends_line: bool = False) -> None:
        """Have an output be sent as far as it goes; `ends_line` says not to wait for a line's end."""
        sender = output.sender
        if sender is None or not self._is_followed(output):
            return
        output.ends_lines = output.is_closed or (
            output.has_more and (output.ends_lines or ends_line)
        )
        if not output.is_waiting and (output.has_more or output.num_lost):
            output.is_waiting = True
            sender.waiting.append(output)
        self._advance(sender)

    def _advance(self, sender: _Sender) -> None:
        for _ in range(len(sender.waiting)):
            if sender.in_flight >= _WINDOW_BYTES:
                break
            output = sender.waiting.popleft()
            output.is_waiting = False
            if self._send_some(sender, output):
                output.is_waiting = True
                sender.waiting.append(output)
        if sender.waiting and sender.in_flight < _WINDOW_BYTES:
            self._loop.call_soon(self._advance, sender)
        self._answer(sender)

    def _send_some(self, sender: _Sender, output: ExecutorOutput) -> bool:
        """Send one piece of an output; return whether there is more to send now."""
        if output.is_far_behind:
            self._leave_out(sender, output)
        if output.num_lost:
            self._tell_of_loss(sender, output)
        before = output.position
        for piece in output.take(_PIECE_BYTES):
            self._send_piece(sender, output, piece)
        if output.position == before and output.has_more:
            if output.timer is None:
                output.timer = self._loop.call_later(_PARTIAL_S, self._end_line, output)
            return False
        if not output.has_more:
            output.ends_lines = output.is_closed
            self._close_if_done(output)
        return output.has_more

    def _end_line(self, output: ExecutorOutput) -> None:
        output.timer = None
        self.send(output, ends_line=True)

    def _send_piece(self, sender: _Sender, output: ExecutorOutput, piece: Piece) -> None:
        cost = len(piece.data) + _MESSAGE_BYTES
        sender.in_flight += cost
        message = {"op": "raycompat-log", "job": sender.job, "ip": self._ip, "cost": cost}
        about = {"pid": output.pid, "stream": output.stream, **piece._asdict()}
        self._tell({**message, **about})

    def _leave_out(self, sender: _Sender, output: ExecutorOutput) -> None:
        num_bytes = output.skip()
        text = (
            f"raycompat: {num_bytes / 1e6:.1f} MB of the output were left out here, because the driver "
            f"did not keep up with it. Node {self._ip} keeps the last of them in {output.spool.path} "
            "and the files beside it.\n"
        )
        self._send_piece(sender, output, Piece(output.name, b"", True))
        self._send_piece(sender, output, Piece(output.name, text.encode(), True))

    def _tell_of_loss(self, sender: _Sender, output: ExecutorOutput) -> None:
        num_bytes, output.num_lost = output.num_lost, 0
        text = (
            f"raycompat: {num_bytes / 1e6:.1f} MB of the output are lost, because node {self._ip} "
            f"could not write {output.spool.path}: {output.why_lost}.\n"
        )
        self._send_piece(sender, output, Piece(output.name, text.encode(), True))

    # --- what drivers say -----------------------------------------------------------------------

    def printed(self, job: str, cost: int) -> None:
        """Hear that a driver has printed some of what it was sent."""
        sender = self._senders.get(job)
        if sender is not None:
            sender.in_flight -= cost
            self._advance(sender)

    def flush(self, job: str, token: int) -> None:
        """Answer when all is sent that the job has printed up to now."""
        sender = self._senders.get(job)
        if sender is None:
            self._tell({"op": "raycompat-logs-flushed", "token": token})
            return
        ours = {each for each in self._outputs.values() if each.sender is sender}
        for output in ours:
            output.drain()
        goals = {each: each.spool.end for each in {*ours, *sender.waiting} if each.has_more}
        sender.goals[token] = goals
        for output in goals:
            self.send(output, ends_line=True)
        self._answer(sender)

    def _answer(self, sender: _Sender) -> None:
        for token, goals in list(sender.goals.items()):
            if all(output.position >= goal for output, goal in goals.items()):
                del sender.goals[token]
                self._tell({"op": "raycompat-logs-flushed", "token": token})


def _setting(variable: str, default: int, least: int) -> int:
    value = os.environ.get(variable, "")
    if value.isdigit() and int(value) >= least:
        return int(value)
    if value:
        logger.warning("%s=%r: expected a whole number, %d or more.", variable, value, least)
    return default
