"""What the job client returns: states, kinds and descriptions of jobs, with Ray's names."""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from raycompat._messages.state import DriverInfo
from raycompat._protocol.submission import FINAL


class JobStatus(StrEnum):
    """The state of a job."""

    #: The job waits for its resources, its environment, or the start of its process.
    PENDING = "PENDING"
    #: Its command runs.
    RUNNING = "RUNNING"
    #: A user has stopped it.
    STOPPED = "STOPPED"
    #: Its command has ended with exit code 0.
    SUCCEEDED = "SUCCEEDED"
    #: Its command has failed, or could not run to its end.
    FAILED = "FAILED"

    def is_terminal(self) -> bool:
        """Return whether this state is final."""
        return self.value in FINAL


class JobErrorType(StrEnum):
    """Why a job has failed.

    Notes
    -----
    Ray source: ``ray.job_submission.JobErrorType``, 2.60.0. Differs from Ray: a job waits for its
    resources as long as it takes, so ``JOB_SUPERVISOR_ACTOR_START_TIMEOUT`` does not occur.
    """

    RUNTIME_ENV_SETUP_FAILURE = "RUNTIME_ENV_SETUP_FAILURE"
    JOB_SUPERVISOR_ACTOR_START_TIMEOUT = "JOB_SUPERVISOR_ACTOR_START_TIMEOUT"
    JOB_SUPERVISOR_ACTOR_START_FAILURE = "JOB_SUPERVISOR_ACTOR_START_FAILURE"
    JOB_SUPERVISOR_ACTOR_UNSCHEDULABLE = "JOB_SUPERVISOR_ACTOR_UNSCHEDULABLE"
    JOB_SUPERVISOR_ACTOR_UNKNOWN_FAILURE = "JOB_SUPERVISOR_ACTOR_UNKNOWN_FAILURE"
    JOB_SUPERVISOR_ACTOR_DIED = "JOB_SUPERVISOR_ACTOR_DIED"
    JOB_ENTRYPOINT_COMMAND_START_ERROR = "JOB_ENTRYPOINT_COMMAND_START_ERROR"
    JOB_ENTRYPOINT_COMMAND_ERROR = "JOB_ENTRYPOINT_COMMAND_ERROR"


class JobType(StrEnum):
    """How a job came to the cluster."""

    #: It was submitted.
    SUBMISSION = "SUBMISSION"
    #: A program has called `init`.
    DRIVER = "DRIVER"


@dataclass
class JobInfo:
    """A submitted job, as Ray keeps it.

    Notes
    -----
    Ray source: ``ray.job_submission.JobInfo``, 2.60.0. Differs from Ray: without a `message` there is
    none; the cluster writes the messages.
    """

    status: JobStatus
    entrypoint: str
    message: str | None = None
    error_type: JobErrorType | None = None
    #: Milliseconds since 1970.
    start_time: int | None = None
    end_time: int | None = None
    metadata: dict[str, str] | None = None
    runtime_env: dict[str, Any] | None = None
    entrypoint_num_cpus: float | None = None
    entrypoint_num_gpus: float | None = None
    entrypoint_memory: int | None = None
    entrypoint_resources: dict[str, float] | None = None
    driver_agent_http_address: str | None = None
    driver_node_id: str | None = None
    driver_exit_code: int | None = None

    def __post_init__(self) -> None:
        self.status = JobStatus(self.status)

    def to_json(self) -> dict[str, object]:
        """Return the fields as JSON can hold them; the environment is a string."""
        fields = dataclasses.asdict(self)
        environment = fields.pop("runtime_env")
        if environment is not None:
            fields["runtime_env_json"] = json.dumps(environment)
        return {
            name: str(value) if isinstance(value, StrEnum) else value
            for name, value in fields.items()
        }

    @classmethod
    def from_json(cls, json_dict: dict[str, Any]) -> JobInfo:
        """Return the job with these fields, as `to_json` returns them."""
        fields = dict(json_dict)
        environment = fields.pop("runtime_env_json", None)
        if environment is not None:
            fields["runtime_env"] = json.loads(environment)
        if fields.get("error_type"):
            fields["error_type"] = JobErrorType(fields["error_type"])
        return cls(**fields)


@dataclass(kw_only=True)
class JobDetails:
    """A job: one that was submitted, or a driver.

    Notes
    -----
    Ray source: ``ray.job_submission.JobDetails``, 2.60.0. Differs from Ray: a dataclass, with the
    methods of Ray's model that return its fields.
    """

    type: JobType
    #: The id of its driver's session; None before the driver calls `init`.
    job_id: str | None = None
    submission_id: str | None = None
    driver_info: DriverInfo | None = None
    status: JobStatus
    entrypoint: str
    message: str | None = None
    error_type: str | None = None
    #: Milliseconds since 1970.
    start_time: int | None = None
    end_time: int | None = None
    metadata: dict[str, str] | None = None
    runtime_env: dict[str, Any] | None = None
    driver_agent_http_address: str | None = None
    driver_node_id: str | None = None
    driver_exit_code: int | None = None

    def __post_init__(self) -> None:
        self.type, self.status = JobType(self.type), JobStatus(self.status)
        given: Any = self.driver_info
        if isinstance(given, dict):
            self.driver_info = DriverInfo(**given)

    def json(self) -> str:
        """Return the fields as JSON."""
        return json.dumps(dataclasses.asdict(self))

    def model_dump(self) -> dict[str, object]:
        """Return the fields."""
        return dataclasses.asdict(self)

    def dict(self) -> Any:
        """Return the fields, as `model_dump` does."""
        return dataclasses.asdict(self)

    model_dump_json = json
