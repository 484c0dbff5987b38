"""`JobSubmissionClient`: submit programs to a cluster, and follow and stop them."""

from __future__ import annotations

import asyncio
import copy
from collections.abc import AsyncIterator, Iterator
from typing import Any
from urllib.parse import quote

from raycompat._caller.packages import pack
from raycompat._job_submission.connections import connection, scratch, upload
from raycompat._job_submission.details import JobDetails, JobStatus
from raycompat._protocol import runtime_env as environments
from raycompat._protocol import submission
from raycompat.runtime_env import RuntimeEnv

#: Seconds that one request for more output waits in the cluster.
_WAIT_S = 20.0


class JobSubmissionClient:
    """Submit programs to a cluster, where they run as jobs, also after this process has ended.

    Parameters
    ----------
    address : str, optional
        The cluster: the address of its dashboard (``http://host:8265``), or what `init` takes:
        ``host:port`` of the scheduler, or ``"auto"``. By default the cluster of this process's session;
        if it has none, ``"auto"``. The environment variables ``RAY_API_SERVER_ADDRESS`` and
        ``RAY_ADDRESS`` replace it.
    create_cluster_if_needed : bool, default False
        Has no effect, as in Ray: no cluster is started.
    cookies, headers : dict of str to str, optional
        Are sent with each request over HTTP, for proxies that want them.
    metadata : dict of str to str, optional
        Is added to the metadata of each job.
    verify : bool or str, default True
        Whether to check the certificate of an ``https://`` server, or the file or folder with the
        certificates to trust.

    Raises
    ------
    ConnectionError
        When the cluster does not answer, or none is found.
    TypeError
        When an argument has another type.

    Notes
    -----
    Ray source: ``ray.job_submission.JobSubmissionClient``, 2.60.0.

    A job is a program that its user chooses, so a client needs what a driver needs. If the cluster has
    a password, give it by ``RAYCOMPAT_PASSWORD_FILE`` or ``RAYCOMPAT_PASSWORD``; an address of the
    dashboard with its token works too, as `init` prints it. If the cluster has no password, its
    dashboard runs no programs: the client asks it where the scheduler is, and connects there.

    Differs from Ray: jobs wait for their resources without a limit; websockets are not used.

    Examples
    --------
    >>> import raycompat as ray
    >>> from raycompat.job_submission import JobStatus, JobSubmissionClient
    >>> context = ray.init(
    ...     num_cpus=1, configure_logging=False, include_dashboard=False
    ... )
    >>> client = JobSubmissionClient()
    >>> job = client.submit_job(entrypoint="echo hello")
    >>> async def follow():
    ...     async for text in client.tail_job_logs(job):
    ...         print(text, end="")
    >>> import asyncio
    >>> asyncio.run(follow())
    hello
    >>> client.get_job_status(job) is JobStatus.SUCCEEDED
    True
    >>> ray.shutdown()
    """

    def __init__(
        self,
        address: str | None = None,
        create_cluster_if_needed: bool = False,
        cookies: dict[str, Any] | None = None,
        metadata: dict[str, Any] | None = None,
        headers: dict[str, Any] | None = None,
        verify: str | bool | None = True,
        **kwargs: object,
    ) -> None:
        for name, value, kinds in [
            ("address", address, str | None),
            ("create_cluster_if_needed", create_cluster_if_needed, bool),
            ("cookies", cookies, dict | None),
            ("metadata", metadata, dict | None),
            ("headers", headers, dict | None),
            ("verify", verify, str | bool | None),
        ]:
            if not isinstance(value, kinds):
                raise TypeError(
                    f"JobSubmissionClient({name}={value!r}): expected {kinds}, not {type(value)}."
                )
        if kwargs:
            raise TypeError(
                f"JobSubmissionClient has no parameters {sorted(kwargs)}: they are for addresses of "
                "other products, such as anyscale://."
            )
        self._metadata = metadata or {}
        self._connection = connection(
            address, headers or {}, cookies or {}, True if verify is None else verify
        )

    def get_address(self) -> str:
        """Return the address to which this client sends its requests."""
        return self._connection.address

    def get_version(self) -> str:
        """Return the version of the cluster's requests, which is Ray's."""
        return str(self._ask("GET", "/api/version")["version"])

    def submit_job(
        self,
        *,
        entrypoint: str,
        job_id: str | None = None,
        runtime_env: dict[str, Any] | None = None,
        metadata: dict[str, str] | None = None,
        submission_id: str | None = None,
        entrypoint_num_cpus: int | float | None = None,
        entrypoint_num_gpus: int | float | None = None,
        entrypoint_memory: int | None = None,
        entrypoint_resources: dict[str, float] | None = None,
        entrypoint_label_selector: dict[str, str] | None = None,
    ) -> str:
        """Run a command of the shell as a job, and return its id at once.

        Parameters
        ----------
        entrypoint : str
            The command, such as ``"python program.py"``. It runs in the `working_dir` of the
            `runtime_env`. Its ``init()`` connects to this cluster, and ``python`` is the interpreter of
            the node.
        job_id : str, optional
            The former name of `submission_id`.
        runtime_env : dict or RuntimeEnv, optional
            Variables, files and packages for the command, and for the tasks and actors of its driver.
            Local folders are uploaded.
        metadata : dict of str to str, optional
            Text for other programs: `get_job_info` returns it.
        submission_id : str, optional
            The id, 1 to 200 characters; less if it has others than ASCII letters and digits, because a
            file has its name. By default a new one.
        entrypoint_num_cpus, entrypoint_num_gpus : float, default 0
            CPUs and GPUs for the command itself, beside those of its tasks and actors. If it needs
            nothing, it runs on the head node.
        entrypoint_memory : int, default 0
            Bytes of memory for the command itself.
        entrypoint_resources : dict of str to float, optional
            Other resources for the command itself.
        entrypoint_label_selector : dict of str to str, optional
            The labels that its node must have.

        Returns
        -------
        str
            The id of the job.

        Raises
        ------
        RuntimeError
            When the cluster refuses the job: its id is taken.
        TypeError, ValueError
            When an argument is not valid.
        RuntimeEnvSetupError
            When a folder cannot be packed.
        UnsupportedRayFeatureError
            When raycompat does not support a field of the `runtime_env`.
        ConnectionError
            When the cluster does not answer.
        """
        fields = environments.checked(copy.deepcopy(dict(runtime_env or {})))
        hook = fields.get(environments.SETUP_HOOK)
        if hook is not None and not isinstance(hook, str):
            raise ValueError(
                f"{environments.SETUP_HOOK}={hook!r}: a submitted job takes the import path of a "
                "function, such as 'module.function'. Give the function itself to init, in the program."
            )
        request = {
            "entrypoint": entrypoint,
            "submission_id": submission_id or job_id,
            "metadata": {**(metadata or {}), **self._metadata},
            "entrypoint_num_cpus": entrypoint_num_cpus,
            "entrypoint_num_gpus": entrypoint_num_gpus,
            "entrypoint_memory": entrypoint_memory,
            "entrypoint_resources": entrypoint_resources,
            "entrypoint_label_selector": entrypoint_label_selector,
        }
        submission.checked(request)  # before files are sent
        with scratch(bool({"working_dir", "py_modules"} & fields.keys())) as folder:
            packed, packages = pack(fields, folder)
            for package in packages:
                upload(self._connection, package.uri, package.path)
        request["runtime_env"] = RuntimeEnv(**packed).to_dict() if packed else {}
        if submission_id is None and job_id is None:
            del request["submission_id"]
        wire = submission.checked(request).to_wire()
        return str(self._ask("POST", "/api/jobs/", wire)["submission_id"])

    def stop_job(self, job_id: str) -> bool:
        """Ask a job to end, without waiting for it.

        Its processes get SIGTERM, and SIGKILL three seconds later. The variables
        ``RAY_JOB_STOP_SIGNAL`` (SIGINT) and ``RAY_JOB_STOP_WAIT_TIME_S`` of the job's `runtime_env`
        change that.

        Parameters
        ----------
        job_id : str
            The id of the submitted job.

        Returns
        -------
        bool
            Whether it had not ended yet.

        Raises
        ------
        RuntimeError
            When there is no such job, or it is a driver that was not submitted.
        """
        return bool(self._ask("POST", f"{_path(job_id)}/stop")["stopped"])

    def delete_job(self, job_id: str) -> bool:
        """Remove the record of the job `job_id`, which has ended.

        Its output stays in the file on its node.

        Raises
        ------
        RuntimeError
            When there is no such job, or it has not ended.
        """
        return bool(self._ask("DELETE", _path(job_id))["deleted"])

    def get_job_info(self, job_id: str) -> JobDetails:
        """Return what is known of a job; `job_id` is its submission's id or its driver's.

        Raises
        ------
        RuntimeError
            When there is no such job.
        """
        return JobDetails(**self._ask("GET", _path(job_id)))

    def list_jobs(self) -> list[JobDetails]:
        """Return all jobs: those that were submitted, and other drivers."""
        return [JobDetails(**job) for job in self._ask("GET", "/api/jobs/")]

    def get_job_status(self, job_id: str) -> JobStatus:
        """Return the state of the job `job_id`.

        Raises
        ------
        RuntimeError
            When there is no such job.
        """
        return self.get_job_info(job_id).status

    def get_job_logs(self, job_id: str) -> str:
        """Return all that the command of the job `job_id` has printed so far.

        Raises
        ------
        RuntimeError
            When there is no such job, or the output has gone with its node.
        """
        pieces, position, size = [], 0, None
        while size is None or position < size:  # what is printed meanwhile is left
            piece = self._ask_for_more(job_id, position, wait_s=0)
            pieces.append(piece["logs"])
            size = piece["size"] if size is None else size
            if piece["position"] <= position:  # a part of a character, or a file that was cut
                break
            position = piece["position"]
        return "".join(pieces)

    async def tail_job_logs(self, job_id: str) -> AsyncIterator[str]:
        """Iterate over the output of the job `job_id` as it is printed, to the end of the job.

        Yields
        ------
        str
            The next part of the output, which can end within a line.

        Raises
        ------
        RuntimeError
            When there is no such job, or the output has gone with its node.
        ConnectionError
            When the cluster does not answer any more.
        """
        position, is_complete = 0, False
        while not is_complete:
            piece = await asyncio.to_thread(self._ask_for_more, job_id, position, _WAIT_S)
            position, is_complete = piece["position"], piece["is_complete"]
            if piece["logs"]:
                yield piece["logs"]

    def _follow(self, job_id: str) -> Iterator[str]:
        """Iterate as `tail_job_logs` does, in this thread, where Ctrl-C ends a request."""
        position, is_complete = 0, False
        while not is_complete:
            piece = self._ask_for_more(job_id, position, _WAIT_S)
            position, is_complete = piece["position"], piece["is_complete"]
            if piece["logs"]:
                yield piece["logs"]

    def _ask_for_more(self, job_id: str, position: int, wait_s: float) -> dict[str, Any]:
        """Return the next piece of a job's output, for which the cluster waits so long."""
        query = {"position": position, "wait_s": wait_s}
        piece: dict[str, Any] = self._ask("GET", f"{_path(job_id)}/logs", query=query)
        return piece

    def _ask(
        self,
        method: str,
        path: str,
        fields: dict[str, Any] | None = None,
        query: dict[str, Any] | None = None,
    ) -> Any:
        status, answer = self._connection.ask(method, path, query, submission.encoded(fields))
        if status != 200:
            raise RuntimeError(f"Request failed with status code {status}: {answer}")
        return answer


def _path(job_id: str) -> str:
    if not isinstance(job_id, str) or not job_id:
        raise TypeError(f"job_id={job_id!r}: expected the id of a job, which submit_job returns.")
    return f"/api/jobs/{quote(job_id, safe='')}"
