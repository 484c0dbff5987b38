"""The output of user code, on its way to its driver: all outputs of a node's executors.

A thread moves the output of executors from their pipes into files (`_node.output`), however slow the
driver is, so that no executor waits for it. The node's event loop reads the files and sends their lines
in small pieces. It sends at most a *window* of bytes beyond those that the driver reports as printed. A
driver that is too far behind gets a message with the number of bytes that were left out, and their
file.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from raycompat._host.poller import READABLE, Poller
from raycompat._messages.logs import FlushOutput, OutputFlushed, OutputPiece, OutputPrinted
from raycompat._node.output import Output, Piece
from raycompat._node.spool import Spool
from raycompat._protocol import ids
from raycompat._protocol.message import FromNode

logger = logging.getLogger(__name__)

#: Bytes of one message; other work of the event loop can run in between.
_PIECE_BYTES = 1 << 15

#: Bytes from one node that a driver can have received and not yet printed.
_WINDOW_BYTES = 1 << 18

#: The fixed cost of a message beside the bytes of its text.
_MESSAGE_BYTES = 200

#: Seconds to wait for the rest of a line.
_PARTIAL_S = 0.5

#: The number of ended executors whose files are kept, and the bytes of all these files.
_KEPT_EXECUTORS, _KEPT_BYTES = 200, 1 << 30

#: Bytes of one file, and the number of older ones that are kept; Ray's variables can change both.
_FILE_BYTES, _NUM_BACKUPS = 128 << 20, 1


@dataclass(slots=True, eq=False)
class _Sender:
    """The outputs that wait to be sent to one driver."""

    job: str
    in_flight: int = 0
    #: Outputs with unsent bytes.
    waiting: deque[ExecutorOutput] = field(default_factory=deque)
    #: The positions that outputs must reach before a flush is answered, by its token.
    goals: dict[int, dict[ExecutorOutput, int]] = field(default_factory=dict)


class ExecutorOutput(Output):
    """One output of an executor, and its driver's sender."""

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

    def begin(self, name: str, key: str) -> None:
        """Mark the output from now on with the name and the key of a call."""
        for output in self._outputs.values():
            output.begin(name, key)
            self._logs.send(output)

    def drain(self) -> None:
        """Send the output so far, because the call that printed it has ended."""
        for output in self._outputs.values():
            output.drain()
            self._logs.send(output, ends_line=True)

    def close(self) -> None:
        """Read the rest of the pipes, because the process has ended."""
        self._logs.close_outputs(self._outputs)


class Logs:
    """All outputs of a node's executors."""

    def __init__(
        self, directory: Path, node_id: str, ip: str, tell: Callable[[FromNode], None]
    ) -> None:
        self.directory = directory
        self._node_id, self._ip = node_id, ip
        self._tell = tell
        self._max_bytes = _setting("RAY_ROTATION_MAX_BYTES", _FILE_BYTES, 1)
        self._num_backups = _setting("RAY_ROTATION_BACKUP_COUNT", _NUM_BACKUPS, 0)
        self._senders: dict[str, _Sender] = {}
        #: The outputs by the descriptors of their pipes.
        self._outputs: dict[int, ExecutorOutput] = {}
        #: Files of ended executors, with the number of bytes in each; and the sum.
        self._ended: deque[tuple[Spool, int]] = deque()
        self._ended_bytes = 0
        #: Outputs that have grown since the event loop last checked; whether a check is scheduled.
        self._grown: deque[ExecutorOutput] = deque()
        self._look_due = False
        self._loop = asyncio.get_running_loop()
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._poller = Poller()
        self._thread = threading.Thread(target=self._read, name="raycompat-logs", daemon=True)
        self._thread.start()

    # --- executors and drivers ------------------------------------------------------------------

    def open(self, streams: dict[int, str], job: str, pid: int) -> ExecutorLogs:
        """Read the pipes of an executor: `streams` names them by descriptor."""
        outputs = {}
        for descriptor, stream in streams.items():
            ending = "err" if stream == "stderr" else "out"
            worker = ids.worker_id(pid, job, self._node_id)
            path = self.directory / f"worker-{worker}-{job}-{pid}.{ending}"
            spool = Spool(path, self._max_bytes, self._num_backups)
            unwatch = partial(self._poller.unregister, descriptor)
            sender = self._senders.get(job)
            output = ExecutorOutput(descriptor, spool, unwatch, sender, pid, stream)
            self._poller.register(descriptor, READABLE)
            outputs[descriptor] = self._outputs[descriptor] = output
        return ExecutorLogs(self, outputs)

    def follow(self, job: str) -> None:
        """Send the output of a job to its driver from now on."""
        self._senders.setdefault(job, _Sender(job))

    def unfollow(self, job: str) -> None:
        """Send nothing more, because the driver is gone; the output is still written to files."""
        sender = self._senders.pop(job, None)
        if sender is not None:
            sender.goals.clear()
            while sender.waiting:
                self._close_if_done(sender.waiting.popleft())

    def close_outputs(self, outputs: dict[int, ExecutorOutput]) -> None:
        """Read the rest of the pipes of an ended executor."""
        for descriptor, output in outputs.items():
            if self._outputs.pop(descriptor, None) is None:
                continue
            output.close()
            self._keep(output.spool)
            self.send(output, ends_line=True)
            self._close_if_done(output)

    def _keep(self, spool: Spool) -> None:
        """Keep the files of an ended executor for a while."""
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
        """End the thread and close all files. All executors have ended."""
        self.close_outputs(dict(self._outputs))
        for job in list(self._senders):
            self.unfollow(job)
        self._poller.wake()
        self._thread.join()
        self._poller.close()

    # --- the reading thread ---------------------------------------------------------------------

    def _read(self) -> None:
        while True:
            for descriptor, _ in self._poller.poll():
                if descriptor == self._poller.wake_descriptor:
                    return
                output = self._outputs.get(descriptor)
                if output is not None:
                    self._read_output(output)

    def _read_output(self, output: ExecutorOutput) -> None:
        before = output.spool.end
        try:
            output.drain()
        except Exception:
            logger.exception("raycompat could not read the output of process %d", output.pid)
            output.give_up()
        if output.spool.end > before and self._is_followed(output):
            self._grown.append(output)
            if not self._look_due:
                self._look_due = True
                with contextlib.suppress(RuntimeError):  # the loop is closed, so the node is too
                    self._loop.call_soon_threadsafe(self._look)

    # --- in the event loop ----------------------------------------------------------------------

    def _look(self) -> None:
        self._look_due = False
        while self._grown:
            self.send(self._grown.popleft())

    def send(self, output: ExecutorOutput, *, ends_line: bool = False) -> None:
        """Send as much of an output as possible; with `ends_line`, unfinished lines too."""
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
        """Send one piece of an output; return whether another can be sent now."""
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
        self._tell(
            OutputPiece(
                job=sender.job,
                ip=self._ip,
                cost=cost,
                pid=output.pid,
                stream=output.stream,
                name=piece.name,
                data=piece.data,
                ends=piece.ends,
            )
        )

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

    # --- messages from drivers ------------------------------------------------------------------

    def printed(self, message: OutputPrinted) -> None:
        """Handle a driver's report that it has printed some output."""
        sender = self._senders.get(message.job)
        if sender is not None:
            sender.in_flight -= message.cost
            self._advance(sender)

    def flush(self, message: FlushOutput) -> None:
        """Answer when all output of the job so far is sent."""
        sender = self._senders.get(message.job)
        if sender is None:
            self._tell(OutputFlushed(message.token))
            return
        ours = {each for each in self._outputs.values() if each.sender is sender}
        for output in ours:
            output.drain()
        goals = {each: each.spool.end for each in {*ours, *sender.waiting} if each.has_more}
        sender.goals[message.token] = goals
        for output in goals:
            self.send(output, ends_line=True)
        self._answer(sender)

    def _answer(self, sender: _Sender) -> None:
        for token, goals in list(sender.goals.items()):
            if all(output.position >= goal for output, goal in goals.items()):
                del sender.goals[token]
                self._tell(OutputFlushed(token))


def _setting(variable: str, default: int, least: int) -> int:
    value = os.environ.get(variable, "")
    if value.isdecimal() and int(value) >= least:
        return int(value)
    if value:
        logger.warning("%s=%r: expected a whole number, %d or more.", variable, value, least)
    return default
