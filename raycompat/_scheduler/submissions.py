"""Submitted jobs: their records, from the request to the end of the command.

Each job is run by an actor, its *supervisor* (`raycompat._job_submission`), which waits for resources,
is placed, and ends with its node as every actor does. Only a driver can make actors, so a short process
beside the scheduler makes them: the *submitter*. It takes all jobs that wait, and one runs at a time.
"""

from __future__ import annotations

import asyncio
import json
import logging
import pickle
import time
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from raycompat._messages.jobs import EndSubmission
from raycompat._protocol import failures, run_module, shared_secret
from raycompat._protocol.plain import Row
from raycompat._protocol.spans import milliseconds
from raycompat._protocol.submission import (
    FINAL,
    NAMESPACE,
    REPORT_VARIABLE,
    SubmitRequest,
    actor_name,
    id_of_actor,
)

if TYPE_CHECKING:
    from raycompat._scheduler.actor_directory import ActorRow
    from raycompat._scheduler.actors import Actors
    from raycompat._scheduler.ground import Ground
    from raycompat._scheduler.job_table import Job
    from raycompat._scheduler.packages import Packages

logger = logging.getLogger(__name__)

_SUBMITTER = "raycompat._job_submission.submitter"

#: Ended jobs whose records are kept.
_MOST_ENDED = 1000

#: Seconds for one submitter. Without nodes it waits for one, and then gives up by itself.
_SENDING_S = 600.0

#: Characters of a submitter's last words in the message of a job that it could not send.
_MOST_CHARACTERS = 2000

#: Ray's types of failures of jobs, by the type of the supervisor's error.
_ERROR_TYPES = {
    "ACTOR_DIED": "JOB_SUPERVISOR_ACTOR_DIED",
    "NODE_DIED": "JOB_SUPERVISOR_ACTOR_DIED",
    "RUNTIME_ENV_SETUP_FAILED": "RUNTIME_ENV_SETUP_FAILURE",
    "TASK_UNSCHEDULABLE_ERROR": "JOB_SUPERVISOR_ACTOR_UNSCHEDULABLE",
    "ACTOR_UNSCHEDULABLE_ERROR": "JOB_SUPERVISOR_ACTOR_UNSCHEDULABLE",
}

_NO_REASON = "The process that sends jobs has ended without a word."


@dataclass(slots=True, eq=False)
class Submission:
    """One submitted job."""

    request: SubmitRequest
    status: str = "PENDING"
    message: str | None = None
    error_type: str | None = None
    #: When it was submitted, and when it ended; in seconds since 1970, 0 before.
    started: float = field(default_factory=time.time)
    ended: float = 0.0
    #: The node of its command, and the exit code.
    node_id: str | None = None
    exit_code: int | None = None
    #: Its last driver: the fields of Ray's `DriverInfo`.
    driver: dict[str, str] | None = None
    is_stop_wanted: bool = False
    #: Whether a submitter has taken it. Before, an actor of its name is that of a former job.
    is_sent: bool = False
    #: Set when it is to be stopped or has ended, and when it has ended.
    stops: asyncio.Event = field(default_factory=asyncio.Event)
    ends: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def id(self) -> str:
        """Its id."""
        return self.request.submission_id

    @property
    def is_over(self) -> bool:
        """Whether its state is final."""
        return self.status in FINAL

    def packages(self) -> list[str]:
        """Return the URIs of uploaded packages in its environment."""
        environment = self.request.runtime_env
        found = [environment.get("working_dir"), *(environment.get("py_modules") or ())]
        return [each for each in found if isinstance(each, str) and each.startswith("gcs://")]

    def describe(self) -> Row:
        """Return the fields of Ray's `JobDetails`."""
        driver = self.driver
        return {
            "type": "SUBMISSION",
            "job_id": driver["id"] if driver is not None else None,
            "submission_id": self.id,
            "driver_info": driver,
            "status": self.status,
            "entrypoint": self.request.entrypoint,
            "message": self.message or _MESSAGES[self.status],
            "error_type": self.error_type,
            "start_time": milliseconds(self.started),
            "end_time": milliseconds(self.ended),
            "metadata": self.request.metadata,
            "runtime_env": self.request.runtime_env,
            "driver_agent_http_address": None,
            "driver_node_id": self.node_id,
            "driver_exit_code": self.exit_code,
        }


_MESSAGES = {
    "PENDING": "The job has not started: it waits for its resources, its environment or its process.",
    "RUNNING": "The command of the job runs.",
    "STOPPED": "The job was stopped by a user.",
    "SUCCEEDED": "The command of the job has ended with exit code 0.",
    "FAILED": "The job has failed.",
}


class Submissions:
    """All submitted jobs, by id, the oldest first."""

    def __init__(
        self,
        ground: Ground,
        actors: Actors,
        packages: Packages,
    ) -> None:
        self._ground = ground
        self._actors = actors
        self._packages = packages
        self.by_id: dict[str, Submission] = {}
        #: Jobs that the next submitter takes, and the task that runs submitters.
        self._waiting: deque[Submission] = deque()
        self._sending: asyncio.Task[None] | None = None
        self._ended: deque[Submission] = deque()

    def submit(self, request: SubmitRequest) -> Submission:
        """Add a job.

        Raises
        ------
        ValueError
            When its id is taken, or a package of its environment was not uploaded.
        """
        if request.submission_id in self.by_id:
            raise ValueError(
                f"There is a job {request.submission_id!r} already. Choose another submission_id, or "
                "leave it out."
            )
        added = Submission(request)
        for uri in added.packages():
            if not self._packages.hold(_holder(added), uri):
                self._packages.release(_holder(added))
                raise ValueError(
                    f"The package {uri} of the runtime_env is not in the cluster. Upload it first; "
                    "JobSubmissionClient does this for local folders."
                )
        self.by_id[added.id] = added
        self._waiting.append(added)
        if self._sending is None:
            self._sending = asyncio.create_task(self._send())
        self._ground.next_change.notify()
        return added

    def stop(self, job: Submission) -> bool:
        """Stop a job; return whether it had not ended."""
        if job.is_over:
            return False
        job.is_stop_wanted = True
        job.stops.set()
        if job.status == "PENDING":  # else its supervisor ends the command first
            self._end(job, "STOPPED")
        return True

    def delete(self, job: Submission) -> None:
        """Remove the record of a job that has ended."""
        del self.by_id[job.id]
        self._ended.remove(job)

    # --- the submitter ---------------------------------------------------------------------------

    async def _send(self) -> None:
        """Run submitters until no job waits."""
        try:
            while jobs := [job for job in self._waiting if not job.is_over]:
                self._waiting.clear()
                for job in jobs:
                    job.is_sent = True
                errors = await self._errors_of([job.request.to_wire() for job in jobs])
                for job in jobs:
                    if (error := errors.get(job.id)) is not None and job.status == "PENDING":
                        self._fail(job, "JOB_SUPERVISOR_ACTOR_START_FAILURE", error)
                    if job.is_over:  # perhaps before its actor was made
                        self._end_actor(job.id)
        finally:
            self._waiting.clear()
            self._sending = None

    async def _errors_of(self, jobs: list[Row]) -> dict[str, str]:
        """Send jobs; return the errors by id, whatever happens."""
        try:
            async with asyncio.timeout(_SENDING_S):
                return await self._send_by_process(jobs)
        except TimeoutError:
            return _for_all(
                jobs, f"The process that sends jobs has not ended in {_SENDING_S:.0f} s."
            )
        except Exception as error:
            logger.exception("Jobs could not be sent.")
            return _for_all(jobs, repr(error))

    async def _send_by_process(self, jobs: list[Row]) -> dict[str, str]:
        """Let a submitter send jobs; return the errors by id."""
        dask = self._ground.dask
        given = {
            "address": dask.address,
            "security": dask.client_security(),
            "jobs": jobs,
        }
        pipe = asyncio.subprocess.PIPE
        try:
            process = await asyncio.create_subprocess_exec(
                *run_module.command(_SUBMITTER),
                stdin=pipe,
                stdout=pipe,
                stderr=pipe,
                env=_environment(),
            )
        except OSError as error:
            return _for_all(jobs, str(error))
        try:
            printed, words = await process.communicate(pickle.dumps(given))
        except asyncio.CancelledError:
            if process.returncode is None:
                process.kill()
            raise
        if process.returncode:
            text = words.decode(errors="replace").strip()[-_MOST_CHARACTERS:]
            return _for_all(jobs, text or _NO_REASON)
        errors: dict[str, str] = json.loads(printed.splitlines()[-1])["errors"]
        return errors

    # --- the supervisors -------------------------------------------------------------------------

    async def begin(self, submission_id: str, node_id: str) -> Row | None:
        """Note that the actor of a job runs; return what it runs, None if the job has ended."""
        job = self.by_id.get(submission_id)
        if job is None or job.is_over or not job.is_sent:
            self._end_actor(submission_id)
            return None
        job.status, job.node_id = "RUNNING", node_id
        text = f"The submitted job {job.id} has started."
        self._ground.events.note("INFO", "JOBS", text, submission_id=job.id, node_id=node_id)
        self._ground.next_change.notify()
        return job.request.to_wire()

    async def await_stop(self, submission_id: str) -> bool:
        """Wait until a job is to be stopped, or has ended."""
        job = self.by_id.get(submission_id)
        if job is not None:
            await job.stops.wait()
        return True

    async def finish(self, end: EndSubmission) -> None:
        """Note how the command of a job has ended."""
        job = self.by_id.get(end.submission_id)
        if job is None or job.is_over:
            self._end_actor(end.submission_id)
            return
        job.exit_code = end.exit_code
        if end.error:
            self._fail(job, "JOB_ENTRYPOINT_COMMAND_START_ERROR", end.error)
        elif job.is_stop_wanted:
            self._end(job, "STOPPED")
        elif end.exit_code == 0:
            self._end(job, "SUCCEEDED")
        else:
            self._fail(job, "JOB_ENTRYPOINT_COMMAND_ERROR", _how_it_failed(end.exit_code, end.tail))

    def actor_ended(self, row: ActorRow, error: bytes) -> None:
        """Handle the end of an actor: the job that it ran has failed if it has not ended before."""
        submission_id = id_of_actor(row.name) if row.namespace == NAMESPACE else None
        job = self.by_id.get(submission_id) if submission_id is not None else None
        if job is None or job.is_over or not job.is_sent:
            return
        if job.is_stop_wanted:
            self._end(job, "STOPPED")
            return
        kind, text = failures.kind_and_text(error)
        self._fail(job, _ERROR_TYPES.get(kind, "JOB_SUPERVISOR_ACTOR_UNKNOWN_FAILURE"), text)

    def driver_began(self, opened: Job) -> None:
        """Note the driver of a submitted job, which names the job in its metadata."""
        job = self.by_id.get(opened.setup["submission"])
        if job is None:
            return
        node = self._ground.nodes.info.get(opened.home or "")
        job.driver = {
            "id": opened.job,
            "node_ip_address": node["ip"] if node is not None else "",
            "pid": str(opened.setup["driver_pid"]),
        }
        for uri in job.packages():  # its detached actors may outlive the job
            self._packages.hold(opened.client, uri)

    # --- ends ------------------------------------------------------------------------------------

    def _fail(self, job: Submission, kind: str, message: str) -> None:
        job.error_type, job.message = kind, message
        self._end(job, "FAILED")

    def _end(self, job: Submission, status: str) -> None:
        job.status, job.ended = status, time.time()
        severity = "ERROR" if status == "FAILED" else "INFO"
        text = f"The submitted job {job.id} has ended with the status {status}."
        self._ground.events.note(severity, "JOBS", text, submission_id=job.id)
        job.stops.set()
        job.ends.set()
        self._packages.release(_holder(job))
        self._end_actor(job.id)
        self._ended.append(job)
        while len(self._ended) > _MOST_ENDED:
            self.by_id.pop(self._ended.popleft().id, None)
        self._ground.next_change.notify()

    def _end_actor(self, submission_id: str) -> None:
        row = self._actors.of_name(actor_name(submission_id), NAMESPACE)
        if row is not None:
            error = failures.actor_exited(row.key)
            self._actors.end(row.key, error, gracefully=True)

    def close(self) -> None:
        """Send no more jobs."""
        if self._sending is not None:
            self._sending.cancel()


def _holder(job: Submission) -> str:
    """Return the name under which a job keeps its packages."""
    return f"submission-{job.id}"


def _environment() -> dict[str, str]:
    """Return the variables of a submitter: no password, no other cluster's address, and no report."""
    variables = shared_secret.environment_without()
    variables.pop(REPORT_VARIABLE, None)
    return {name: value for name, value in variables.items() if not name.startswith("RAY_ADDRESS")}


def _for_all(jobs: list[Row], error: str) -> dict[str, str]:
    return {job["submission_id"]: f"The job could not be sent: {error}" for job in jobs}


def _how_it_failed(exit_code: int | None, tail: str) -> str:
    how = f"The command of the job has failed with exit code {exit_code}."
    return f"{how} Its last output:\n{tail}" if tail else f"{how} It has printed nothing."
