"""The requests about submitted jobs: Ray's REST, over HTTP and over Dask's connections.

Both have the same requests: a method, a path, and JSON. A process that may connect to the scheduler may
run programs anyhow. A request to the web server that changes something needs the cluster's token in the
header ``Authorization: Bearer``. A web page cannot send this header to another site, so it cannot use
the cookie of its reader to run programs. The web server of a cluster without a token changes nothing:
the users of such a cluster connect to the scheduler.
"""

from __future__ import annotations

import asyncio
import codecs
import json
import math
import re
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from tornado import web

from raycompat._dask import security
from raycompat._messages.jobs import AskJobs
from raycompat._messages.logs import ReadLog
from raycompat._protocol import submission
from raycompat._protocol.plain import Row
from raycompat._protocol.version import VERSION

if TYPE_CHECKING:
    from raycompat._scheduler.parts import Parts
    from raycompat._scheduler.state import State
    from raycompat._scheduler.submissions import Submission

#: The addresses over HTTP.
PATTERN = r"/api/(?:version|jobs(?:/.*)?|packages/.*)"

#: Names of uploaded packages, as `_caller.packages` makes them.
_PACKAGE = re.compile(r"_ray_pkg_[0-9a-f]{40}\.(?:zip|whl|tar\.gz|tar\.xz)")

#: What a client calls one upload: part of the name of a file.
_UPLOAD = re.compile(r"[0-9A-Za-z]{1,64}")

#: Seconds that an uploaded package is kept for the job that will name it.
_UPLOADED_S = 600.0

#: Seconds between two looks at the output of a job that runs, and that one answer can wait.
_LOOK_S, _MOST_WAIT_S = 0.5, 30.0

#: Bytes of output in one answer without a position: what a scheduler can well hold in its memory.
_MOST_BYTES = 16 << 20

#: What replaces the values of an environment for readers without the token.
_HIDDEN = "<hidden>"


class _Refused(Exception):
    """The request cannot be answered as asked."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status


@dataclass(frozen=True)
class JobRequest:
    """One request."""

    method: str
    path: str
    query: Mapping[str, str]
    body: bytes
    #: Whether the sender has proved that it may run programs in the cluster.
    is_trusted: bool

    @property
    def parts(self) -> list[str]:
        """The parts of the path after ``/api``."""
        return [unquote(part) for part in self.path.split("/")[2:] if part]


class JobRequests:
    """Answers requests."""

    def __init__(self, parts: Parts, state: State) -> None:
        self._parts = parts
        self._state = state
        self._submissions = parts.submissions

    def routes(self) -> web.Application:
        """Return the application for requests over HTTP."""
        return web.Application([(PATTERN, _Handler, {"requests": self})])

    async def answer_caller(self, asked: AskJobs) -> dict[str, object]:
        """Answer a request over a connection of Dask."""
        request = JobRequest(asked.method, asked.path, asked.query, asked.body, is_trusted=True)
        status, answer = await self.answer(request)
        return {"status": status, "answer": answer}

    async def answer(self, request: JobRequest) -> tuple[int, Any]:
        """Return the status and the answer: JSON, or the text of an error."""
        try:
            if request.method != "GET" and not request.is_trusted:
                raise _Refused(403, self._why_not_trusted())
            return 200, await self._answer(request)
        except _Refused as refused:
            return refused.status, str(refused)
        except (TypeError, ValueError) as error:
            return 400, str(error)

    def _why_not_trusted(self) -> str:
        if security.has_token(self._parts.ground.dask.http_server):
            return (
                "This request changes the cluster, so it needs the token of the cluster in its header "
                "`Authorization: Bearer TOKEN`: a cookie or a token in the address is not enough."
            )
        return (
            "This cluster has no password, so its web server runs no programs: anybody can send it "
            "requests, also a web page that you look at. Connect to the scheduler: "
            f'JobSubmissionClient("{self._parts.ground.dask.address}"). Or start the cluster with a '
            "password."
        )

    async def _answer(self, request: JobRequest) -> object:
        match request.method, request.parts:
            case "GET", ["version"]:
                return self._version()
            case "GET", ["jobs"]:
                return self._all(request)
            case "POST", ["jobs"]:
                return self._submit(request)
            case "GET", ["jobs", job]:
                return _shown(self._find(job), request)
            case "DELETE", ["jobs", job]:
                return self._delete(self._submission(job, "deleted"))
            case "POST", ["jobs", job, "stop"]:
                return {"stopped": self._submissions.stop(self._submission(job, "stopped"))}
            case "GET", ["jobs", job, "logs"]:
                return await self._logs(self._submission(job, "read"), request.query)
            case "GET" | "PUT", ["packages", scheme, name]:
                return await self._package(request, f"{scheme}://{name}", name)
        raise _Refused(404, f"There is no {request.method} {request.path} here.")

    def _version(self) -> dict[str, object]:
        return {
            "version": submission.VERSION,
            "ray_version": VERSION,
            "ray_commit": "",
            "session_name": self._parts.ground.dask.id,
            # Of raycompat only: where a client connects that this server lets change nothing.
            "scheduler": self._parts.ground.dask.address,
            "changes_over_http": security.has_token(self._parts.ground.dask.http_server),
        }

    # --- jobs ------------------------------------------------------------------------------------

    def _all(self, request: JobRequest) -> list[Row]:
        return [_shown(job, request) for job in self._state.cluster.all_jobs()]

    def _find(self, job: str) -> Row:
        for found in self._state.cluster.all_jobs():
            if job in (found["submission_id"], found["job_id"]):
                return found
        raise _Refused(404, f"There is no job {job!r}: `raycompat job list` shows the ids.")

    def _submission(self, job: str, what: str) -> Submission:
        """Return a submitted job by one of its ids."""
        found = self._find(job)
        if found["type"] != "SUBMISSION":
            raise _Refused(
                400,
                f"The job {job!r} is a driver that a user has started. Only submitted jobs can be "
                f"{what}.",
            )
        return self._submissions.by_id[found["submission_id"]]

    def _submit(self, request: JobRequest) -> dict[str, str]:
        fields = json.loads(request.body)
        if not isinstance(fields, dict):
            raise TypeError(f"A job is an object in JSON, not {fields!r}.")
        job = self._submissions.submit(submission.checked(fields))
        return {"submission_id": job.id, "job_id": job.id}

    def _delete(self, job: Submission) -> dict[str, bool]:
        if not job.is_over:
            raise _Refused(
                400, f"The job {job.id!r} is {job.status}. Stop it before you delete it."
            )
        self._submissions.delete(job)
        return {"deleted": True}

    # --- output ----------------------------------------------------------------------------------

    async def _logs(self, job: Submission, query: Mapping[str, str]) -> Row:
        """Return the output of a job; with ``position``, the next piece, for which it can wait."""
        if "position" not in query:
            return {"logs": await self._end_of_log(job)}
        position, wait_s = int(query["position"]), float(query.get("wait_s", 0))
        if position < 0 or not math.isfinite(wait_s):
            raise ValueError(
                f"position={position}, wait_s={wait_s}: expected a number of bytes and one of seconds."
            )
        loop = asyncio.get_running_loop()
        deadline = loop.time() + min(wait_s, _MOST_WAIT_S)
        while True:
            is_over = job.is_over  # asked first: then the output is complete
            piece = await self._read(job, position)
            is_complete = is_over and not piece["has_more"]
            text, num_bytes = _decoded(piece["data"], is_complete=is_complete)
            if text or is_over or loop.time() >= deadline:
                break
            try:
                async with asyncio.timeout(_LOOK_S):
                    await job.ends.wait()
            except TimeoutError:
                pass
        # A reader behind the end is sent to the beginning: the position is that of the piece.
        begin = piece["position"] - len(piece["data"])
        return {
            "logs": text,
            "position": begin + num_bytes,
            "is_complete": is_complete,
            "size": piece["size"],
        }

    async def _end_of_log(self, job: Submission) -> str:
        """Return the output so far; of much output, the end, after a line that says so."""
        piece = await self._read(job, 0)
        size, before = piece["size"], ""
        if size > _MOST_BYTES:
            left_out = size - _MOST_BYTES
            before = (
                f"[{left_out} bytes of output before this are left out: ask for ?position=0.]\n"
            )
            piece = await self._read(job, left_out)
        data = bytearray(piece["data"])
        while piece["has_more"] and len(data) < min(size, _MOST_BYTES):  # it may grow meanwhile
            piece = await self._read(job, piece["position"])
            data += piece["data"]
        return before + data.decode(errors="replace")

    async def _read(self, job: Submission, position: int) -> Row:
        """Read from the file on the job's node; it is empty before the command runs."""
        nothing = {"data": b"", "position": position, "has_more": False, "size": 0}
        if job.node_id is None:
            return nothing
        if self._parts.ground.nodes.address_of(job.node_id) is None:
            raise _Refused(
                404, f"The output of the job {job.id!r} has gone with its node, {job.node_id}."
            )
        piece = await self._parts.logs.of_node(
            ReadLog(job.node_id, submission.log_name(job.id), position, tail=0)
        )
        return nothing if "error" in piece else piece  # the command has not been started yet

    # --- packages --------------------------------------------------------------------------------

    async def _package(self, request: JobRequest, uri: str, name: str) -> dict[str, object]:
        """Tell whether a package is there; or store it, or its next piece."""
        packages = self._parts.packages
        if not uri.startswith("gcs://") or not _PACKAGE.fullmatch(name):
            raise ValueError(
                f"{uri!r} is not the name of a package: gcs://_ray_pkg_, 40 digits of the SHA-256 of "
                "its content, and .zip."
            )
        loop = asyncio.get_running_loop()
        if request.method == "GET":
            if not packages.has(uri):
                raise _Refused(404, f"The package {uri} is not in the cluster.")
            if request.is_trusted:  # it will name the package in a job
                holder = f"found-{secrets.token_hex(8)}"
                packages.hold(holder, uri)
                loop.call_later(_UPLOADED_S, packages.release, holder)
            return {}
        upload = request.query.get("upload", secrets.token_hex(8))  # Ray's sends all at once
        if not _UPLOAD.fullmatch(upload):
            raise ValueError(f"upload={upload!r}: expected 1 to 64 ASCII letters and digits.")
        holder = f"upload-{upload}"
        if request.query.get("position", "0") == "0":
            loop.call_later(_UPLOADED_S, packages.release, holder)
            if await packages.begin(holder, uri):
                return {"is_there": True}
        elif not packages.is_begun(holder, uri):
            raise ValueError(f"The upload of {uri} was not begun, or it took {_UPLOADED_S:.0f} s.")
        await packages.write(holder, uri, request.body)
        if request.query.get("has_more", "0") == "0":
            await packages.end(holder, uri)
        return {"is_there": False}


def _decoded(data: bytes, *, is_complete: bool) -> tuple[str, int]:
    """Return the text of bytes, and their number; a character whose rest is still to come is left."""
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    text = decoder.decode(data, is_complete)
    return text, len(data) - len(decoder.getstate()[0])


def _shown(job: Row, request: JobRequest) -> Row:
    """Return the description of a job; only a trusted reader sees the values of its environment.

    Variables can be secrets, and so can parts of URLs in each field.
    """
    if request.is_trusted or not job["runtime_env"]:
        return job
    hidden: Row = dict.fromkeys(job["runtime_env"], _HIDDEN)
    if variables := job["runtime_env"].get("env_vars"):
        hidden["env_vars"] = dict.fromkeys(variables, _HIDDEN)
    return {**job, "runtime_env": hidden}


class _Handler(web.RequestHandler):
    """Answers requests over HTTP."""

    def initialize(self, requests: JobRequests) -> None:
        """Take the part that answers."""
        self._requests = requests

    async def get(self) -> None:
        """Answer a request that reads."""
        await self._answer()

    post = put = delete = get

    async def _answer(self) -> None:
        server = self._requests._parts.ground.dask.http_server
        status, answer = await self._requests.answer(
            JobRequest(
                str(self.request.method),
                self.request.path,
                {name: self.get_query_argument(name) for name in self.request.query_arguments},
                self.request.body,
                is_trusted=security.has_bearer(server, self.request),
            )
        )
        self.set_status(status)
        if isinstance(answer, str):
            self.set_header("Content-Type", "text/plain; charset=utf-8")
            self.finish(answer)
        else:
            self.set_header("Content-Type", "application/json")
            self.finish(json.dumps(answer))
