"""The actor that runs a job's command on its node, and reports to the scheduler when it ends.

The command is the leader of a session and a process group of its own. When the actor's process ends,
whatever the reason, the forkserver kills what is left of the command (`_host.offspring`).
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import Future
from pathlib import Path

import psutil

from raycompat._caller import session as sessions
from raycompat._executor import rank
from raycompat._host import memory_file
from raycompat._messages.jobs import AwaitStop, BeginSubmission, EndSubmission
from raycompat._protocol import submission, threads
from raycompat._protocol.message import ask
from raycompat._protocol.plain import Row

logger = logging.getLogger(__name__)

#: Seconds between the signal that asks a command to end and SIGKILL, and that signal: Ray's variables.
_STOP_WAIT_VARIABLE, _STOP_WAIT_S = "RAY_JOB_STOP_WAIT_TIME_S", 3.0
_SIGNAL_VARIABLE, _SIGNALS = "RAY_JOB_STOP_SIGNAL", ("SIGTERM", "SIGINT")

#: The end of the output that the message of a failed job has: lines and characters.
_TAIL_LINES, _TAIL_CHARACTERS = 10, 20_000


class JobSupervisor:
    """Runs the command of one job."""

    def __init__(self, submission_id: str) -> None:
        self._id = submission_id
        self._session = sessions.require()
        #: The credentials of the command, in memory, as long as this process lives.
        self._cluster_file: int | None = None
        #: Held while the command is stopped: the end of this actor, which follows the report, would
        #: kill processes that still have time to end.
        self._stopping = threading.Lock()
        threading.Thread(target=self._run, name="raycompat-job", daemon=True).start()

    def _run(self) -> None:
        try:
            how = self._how_it_ended()
        except Exception as error:  # whatever it is, nobody else would say that the job has ended
            logger.exception("The command of the job %s could not be watched.", self._id)
            how = self._failed(f"The command could not be watched: {error!r}.")
        if how is not None:
            self._report(how)

    def _how_it_ended(self) -> EndSubmission | None:
        """Run the command, and return how it has ended; None if it was not to run."""
        begun = self._session.rpc(BeginSubmission(self._id, self._session.home.node_id))
        if begun is None:  # it was stopped before; the scheduler ends this actor
            return None
        path = Path(self._session.setup.logs) / submission.log_name(self._id)
        try:
            process = self._start(begun, path)
        except (OSError, ValueError) as error:
            return self._failed(f"The command could not be started: {error}.")
        wanted = self._session.run(ask(self._session.client.scheduler, AwaitStop(self._id)))
        threading.Thread(target=self._stop_when, args=(wanted, process), daemon=True).start()
        exit_code = process.wait()
        with self._stopping:
            return EndSubmission(self._id, exit_code, _tail_of(path))

    def _stop_when(self, wanted: Future[object], process: subprocess.Popen[bytes]) -> None:
        """Stop the command when the scheduler asks for it, or cannot be reached any more."""
        wanted.exception()  # waits
        with self._stopping:
            if process.returncode is None:
                _stop(process)

    def _start(self, begun: Row, path: Path) -> subprocess.Popen[bytes]:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        try:
            return subprocess.Popen(
                begun["entrypoint"],
                shell=True,
                stdin=subprocess.DEVNULL,
                stdout=descriptor,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                env=self._environment(begun),
            )
        finally:
            os.close(descriptor)

    def _environment(self, begun: Row) -> dict[str, str]:
        """Return the variables of the command: how it finds the cluster, and its job's settings."""
        variables = dict(os.environ)
        if rank.follows_cpus():
            variables.pop(threads.VARIABLE, None)  # it is for calls; a driver may use all cores
        if submission.REPORT_VARIABLE not in (begun["runtime_env"].get("env_vars") or {}):
            variables.pop(submission.REPORT_VARIABLE, None)  # it is the file of another program
        folder = os.path.dirname(sys.executable)  # so that `python` is the node's
        names = {submission.ID_ENTRY: self._id, submission.NAME_ENTRY: self._id}
        settings = {
            "runtime_env": begun["runtime_env"],
            "metadata": {**names, **begun["metadata"]},
        }
        return {
            **variables,
            "PATH": os.pathsep.join([folder, variables.get("PATH", os.defpath)]),
            "PYTHONUNBUFFERED": "1",
            "RAY_ADDRESS": self._address(),
            submission.CONFIG_VARIABLE: json.dumps(settings),
        }

    def _address(self) -> str:
        """Return the cluster's address, or the path of a file that has it with this job's certificate.

        The file is one in memory, which only processes of this user can open, and only while this
        process lives.
        """
        setup = self._session.setup
        if setup.security is None:
            return setup.scheduler
        self._cluster_file = memory_file.make("raycompat-cluster")
        with os.fdopen(self._cluster_file, "w", closefd=False) as file:
            json.dump({"address": setup.scheduler, "security": setup.security}, file)
        return memory_file.path_of(self._cluster_file)

    def _failed(self, error: str) -> EndSubmission:
        return EndSubmission(self._id, error=error)

    def _report(self, how: EndSubmission) -> None:
        try:
            self._session.rpc(how)
        except Exception:  # the cluster has gone, and the record of the job with it
            logger.exception("The end of the job %s could not be reported.", self._id)


def _tail_of(path: Path) -> str:
    try:
        with path.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - _TAIL_CHARACTERS))
            text = file.read(_TAIL_CHARACTERS).decode(errors="replace")
    except OSError:  # the command can remove the file of its output
        return ""
    return "".join(text.splitlines(keepends=True)[-_TAIL_LINES:])


def _stop(process: subprocess.Popen[bytes]) -> None:
    """Signal the command and what it has started; kill what is left when its time has passed."""
    name = os.environ.get(_SIGNAL_VARIABLE, _SIGNALS[0])
    if name not in _SIGNALS:
        logger.warning("%s=%r: expected one of %s.", _SIGNAL_VARIABLE, name, ", ".join(_SIGNALS))
        name = _SIGNALS[0]
    try:
        others = psutil.Process(process.pid).children(recursive=True)
    except psutil.NoSuchProcess:  # it has just ended
        return
    process.send_signal(getattr(signal, name))
    for each in others:  # else a shell begins its next command
        _send(each, getattr(signal, name))
    deadline = time.monotonic() + _stop_wait_s()
    # Only `Popen` waits for the leader: who waits for a child first takes its exit code.
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(max(0.0, deadline - time.monotonic()))
    _, left = psutil.wait_procs(others, max(0.0, deadline - time.monotonic()))
    process.kill()  # does nothing if it has ended
    for each in left:
        _send(each, signal.SIGKILL)


def _stop_wait_s() -> float:
    text = os.environ.get(_STOP_WAIT_VARIABLE, "")
    try:
        return max(0.0, float(text)) if text else _STOP_WAIT_S
    except ValueError:
        logger.warning("%s=%r: expected a number of seconds.", _STOP_WAIT_VARIABLE, text)
        return _STOP_WAIT_S


def _send(process: psutil.Process, number: int) -> None:
    with contextlib.suppress(psutil.NoSuchProcess):  # it has just ended
        process.send_signal(number)
