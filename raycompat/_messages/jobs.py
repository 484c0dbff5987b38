"""Messages about jobs: drivers, their settings, and the functions and classes of their calls."""

from __future__ import annotations

from typing import TypedDict, cast

from raycompat._messages.nodes import NodeAt
from raycompat._protocol.message import FromCaller, Request, ToCaller, ToExecutor, ToNode
from raycompat._protocol.plain import Row


class JobSettings(TypedDict):
    """The settings of a job, which its executors get beside those of its program."""

    #: The runtime environment, as `_protocol.runtime_env` encodes it.
    runtime_env: str
    driver_pid: int
    #: The id of the driver's host.
    driver_host: str
    #: The address of the node that keeps the driver's values.
    home: str
    uses_leases: bool
    #: Whether programs import raycompat as ``ray``.
    as_ray: bool
    #: The version of Ray that the program chose.
    ray_version: str | None
    #: The old forms of which the driver has warned already.
    old_forms: list[str]
    #: The frameworks that the job's code uses.
    frameworks: list[str]
    log_to_driver: bool
    #: The submitted job whose command has started the driver; empty for other drivers.
    submission: str


class JobSetup(JobSettings):
    """The settings of a job, with those of its program."""

    #: Pickled settings of the driver's program: paths of imports, hooks, logging.
    program: bytes


def without_program(setup: JobSetup) -> JobSettings:
    """Return a copy of the settings of a job without those of its program, which can be large."""
    names = JobSettings.__annotations__
    return cast("JobSettings", {name: value for name, value in setup.items() if name in names})


class BeginJob(FromCaller, ToNode):
    """A driver has connected; the settings of its executors."""

    job: str
    namespace: str
    setup: JobSetup


class JobEnded(ToNode):
    """A driver has ended."""

    job: str
    #: Whether its job has ended too: it has no detached actors.
    for_good: bool


class Export(FromCaller):
    """The code of a function or class, which a job's calls name by its id."""

    job: str
    function: str
    code: bytes


class ForgetCode(FromCaller):
    """The process that has exported a function or class makes no more calls of it."""

    function: str


class ForgetFunctions(ToNode, ToExecutor):
    """No call needs these functions and classes any more."""

    functions: list[str]


class NamesFramework(FromCaller, ToNode):
    """The job's code uses a framework, so its executors import it early."""

    job: str
    framework: str


class HomeMoved(ToCaller):
    """The node that keeps this process's values from now on; None while there is none."""

    node: NodeAt | None


class Detached(ToCaller):
    """The session ends, because raycompat is taken off the cluster, and why."""

    text: str


# --- requests to the scheduler


class FunctionOf(Request[bytes]):
    """Give a node the code of a function or class of a job, once it was exported."""

    function: str
    job: str


class AskJobs(Request[Row]):
    """A request about submitted jobs in the form of Ray's REST: the answer has a status too."""

    method: str
    path: str
    query: dict[str, str]
    body: bytes


class BeginSubmission(Request[Row | None]):
    """The actor of a submitted job runs: give it the job's record, None if it was stopped."""

    submission_id: str
    node_id: str


class AwaitStop(Request[bool]):
    """Answer when a submitted job is to be stopped, or has ended."""

    submission_id: str


class EndSubmission(Request[None]):
    """How the command of a submitted job has ended."""

    submission_id: str
    #: None if it could not be started or watched: then there is an error.
    exit_code: int | None = None
    #: The last characters of its output.
    tail: str = ""
    error: str = ""
