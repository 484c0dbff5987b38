"""What user code prints, on its way to its driver: all outputs of a node's executors.

A thread moves what executors print from their pipes into files (`_node.output`), whatever the driver
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
from functools import partial
from pathlib import Path
from typing import Any

from raycompat._node.output import Output, Piece
from raycompat._node.spool import Spool
from raycompat._protocol import ids
from raycompat._protocol.operations import ToScheduler

logger = logging.getLogger(__name__)

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
        self,
        descriptor: int,
        spool: Spool,
        on_end: Callable[[], None],
        sender: _Sender | None,
        pid: int,
        stream: str,
    ) -> None:
        super().__init__(descriptor, spool, on_end)
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
        """Mark what is printed from now on as `name`'s."""
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
        self.directory = directory
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
            path = self.directory / f"worker-{ids.worker_id(pid, job)}-{job}-{pid}.{ending}"
            spool = Spool(path, self._max_bytes, self._num_backups)
            unwatch = partial(self._epoll.unregister, descriptor)
            sender = self._senders.get(job)
            output = ExecutorOutput(descriptor, spool, unwatch, sender, pid, stream)
            self._epoll.register(descriptor, select.EPOLLIN)
            outputs[descriptor] = self._outputs[descriptor] = output
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
                    self._read_output(output)

    def _read_output(self, output: ExecutorOutput) -> None:
        before = output.spool.end
        try:
            output.drain()
        except Exception:
            logger.exception("raycompat could not read what process %d prints", output.pid)
            output.give_up()
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
        """Send an output as far as it goes; `ends_line` says not to wait for a line's end."""
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
        message = {"op": ToScheduler.LOG, "job": sender.job, "ip": self._ip, "cost": cost}
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
            self._tell({"op": ToScheduler.LOGS_FLUSHED, "token": token})
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
                self._tell({"op": ToScheduler.LOGS_FLUSHED, "token": token})


def _setting(variable: str, default: int, least: int) -> int:
    value = os.environ.get(variable, "")
    if value.isdecimal() and int(value) >= least:
        return int(value)
    if value:
        logger.warning("%s=%r: expected a whole number, %d or more.", variable, value, least)
    return default
