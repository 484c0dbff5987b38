"""What processes have printed: their files on the nodes, by name, process, actor or task."""

from __future__ import annotations

import codecs
import re
import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from raycompat._messages.logs import LogNames, ReadLog
from raycompat._protocol import submission
from raycompat._protocol.output_marks import without_marks
from raycompat.util.state.client import StateApiClient
from raycompat.util.state.common import DEFAULT_RPC_TIMEOUT, GetApiOptions, StateResource
from raycompat.util.state.exception import RayStateApiException

#: Seconds between two looks at a file that is followed.
_INTERVAL_S = 0.5

#: Escape sequences of terminals.
_ANSI = re.compile(rb"\x1b\[[0-9;]*[A-Za-z]")


def list_logs(
    address: str | None = None,
    node_id: str | None = None,
    node_ip: str | None = None,
    glob_filter: str | None = None,
    timeout: int = DEFAULT_RPC_TIMEOUT,
    _client: StateApiClient | None = None,
) -> dict[str, list[str]]:
    """Return the names of the files of a node, by kind.

    They are ``worker_out`` and ``worker_err``, and ``internal`` for the output of submitted jobs.

    Parameters
    ----------
    address : str, optional
        The cluster, as in `list_tasks`.
    node_id, node_ip : str, optional
        The node; one of them is required.
    glob_filter : str, optional
        A pattern of the shell, for example ``*12345*``.
    timeout : int, default 30
        Seconds that the request may take.

    Raises
    ------
    AssertionError
        When no node is named.
    RayStateApiException
        When there is no such node, or the cluster does not answer.

    Notes
    -----
    Ray source: ``ray.util.state.list_logs``, 2.60.0. Differs from Ray: files of Ray's own processes are
    not there.
    """
    node = node_id or node_ip
    if node is None:
        raise AssertionError("list_logs needs a node: give node_id or node_ip.")
    client = _client or StateApiClient(address)
    listing = client.ask(LogNames(node, glob_filter or "*"), timeout)
    groups: dict[str, list[str]] = {}
    for name in listing["names"]:
        groups.setdefault(_kind_of(name), []).append(name)
    return groups


def _kind_of(name: str) -> str:
    if not name.startswith("worker-"):  # a submitted job's
        return "internal"
    return "worker_err" if ".err" in name else "worker_out"


def get_log(
    address: str | None = None,
    node_id: str | None = None,
    node_ip: str | None = None,
    filename: str | None = None,
    actor_id: str | None = None,
    task_id: str | None = None,
    pid: int | None = None,
    follow: bool = False,
    tail: int = -1,
    timeout: int = DEFAULT_RPC_TIMEOUT,
    suffix: str = "out",
    encoding: str | None = "utf-8",
    errors: str | None = "strict",
    submission_id: str | None = None,
    attempt_number: int = 0,
    _interval: float | None = None,
    filter_ansi_code: bool = False,
    _client: StateApiClient | None = None,
) -> Iterator[Any]:
    """Yield what a process has printed, in parts.

    Parameters
    ----------
    address : str, optional
        The cluster, as in `list_tasks`.
    node_id, node_ip : str, optional
        The node; required with `filename` and `pid`.
    filename : str, optional
        A name that `list_logs` has returned.
    actor_id, task_id : str, optional
        The actor, or the task, whose process has printed it.
    pid : int, optional
        The process.
    follow : bool, default False
        Whether to wait for more, for ever.
    tail : int, default -1
        Lines from the end to begin with; -1 for all.
    timeout : int, default 30
        Seconds that each request may take.
    suffix : {"out", "err"}, default "out"
        Which stream; not used with `filename`.
    encoding : str, optional
        How to decode the bytes, by default UTF-8; None yields bytes.
    errors : str, default "strict"
        What to do with bytes that cannot be decoded, as in `bytes.decode`.
    submission_id : str, optional
        The submitted job whose command has printed it.
    attempt_number : int, default 0
        Which attempt of the task.
    filter_ansi_code : bool, default False
        Whether to leave out the escape sequences of terminals.

    Raises
    ------
    ValueError
        When it is not said which log, or not on which node.
    RayStateApiException
        When there is none, or the cluster does not answer.

    Notes
    -----
    Ray source: ``ray.util.state.get_log``, 2.60.0. By `task_id` both yield the lines of that task. Here
    that holds for methods too, also in actors that run several calls at the same time. The output of
    native code and of child processes belongs to the task if the task has printed from Python before,
    or if it is a function that has run for some milliseconds. Attempts that ran in the same process are
    shown together, and lines before the last rotation of the file are not shown.
    """
    if suffix not in ("out", "err"):
        raise ValueError(f"Invalid suffix: {suffix!r}. It must be 'out' or 'err'.")
    client = _client or StateApiClient(address)
    if actor_id is not None:
        node_id, pid = _place_of_actor(client, actor_id, timeout)
    elif task_id is not None:
        node_id, pid = _place_of_task(client, task_id, attempt_number, timeout)
    elif submission_id is not None:
        node_id, filename = _place_of_job(client, submission_id, timeout)
    node = node_id or node_ip
    if node is None:
        raise ValueError(
            "get_log needs a node: give node_id or node_ip, or actor_id, task_id or submission_id."
        )
    if filename is None and pid is None:
        raise ValueError("get_log needs one of filename, pid, actor_id, task_id and submission_id.")
    name = filename or _name_of(client, node, f"worker-*-{pid}.{suffix}", timeout)
    if name is None:  # a file is made when something is printed
        return
    task = task_id or ""
    position = 0 if tail < 0 or task else -1
    parts = _read(
        client,
        ReadLog(node, name, position, tail, task),
        timeout,
        _interval or _INTERVAL_S if follow else None,
    )
    if task:
        parts = _last_lines(parts, tail)
    yield from _decoded(parts, encoding, errors, filter_ansi_code=filter_ansi_code)


def _decoded(
    parts: Iterator[tuple[bytes, bool]],
    encoding: str | None,
    errors: str | None,
    *,
    filter_ansi_code: bool,
) -> Iterator[Any]:
    decode = codecs.getincrementaldecoder(encoding)(errors or "strict") if encoding else None
    for part, _ in parts:
        if data := _ANSI.sub(b"", part) if filter_ansi_code else part:
            yield decode.decode(data) if decode is not None else data


def _name_of(client: StateApiClient, node: str, pattern: str, timeout: int) -> str | None:
    listing = client.ask(LogNames(node, pattern), timeout)
    name: str | None = next(iter(listing["names"]), None)
    return name


def _place_of_actor(client: StateApiClient, actor: str, timeout: int) -> tuple[str | None, int]:
    state = client.get(StateResource.ACTORS, actor, GetApiOptions(timeout))
    if state is None or not state.pid:
        raise RayStateApiException(f"The actor {actor!r} is not known, or has no process yet.")
    return state.node_id, state.pid


def _place_of_job(client: StateApiClient, job: str, timeout: int) -> tuple[str, str]:
    state = client.get(StateResource.JOBS, job, GetApiOptions(timeout))
    if state is None or state.submission_id is None:
        raise RayStateApiException(f"The submitted job {job!r} is not known: list_jobs() has them.")
    if state.driver_node_id is None:
        raise RayStateApiException(f"The job {job!r} has not run, so it has printed nothing.")
    return state.driver_node_id, submission.log_name(state.submission_id)


def _place_of_task(
    client: StateApiClient, task: str, attempt: int, timeout: int
) -> tuple[str | None, int]:
    states = client.get(StateResource.TASKS, task, GetApiOptions(timeout))
    attempts = states if isinstance(states, list) else [states]
    for each in attempts:
        if each is not None and each.attempt_number == attempt and each.worker_pid:
            return each.node_id, each.worker_pid
    raise RayStateApiException(
        f"The attempt {attempt} of the task {task!r} is not known, or had no process."
    )


def _read(
    client: StateApiClient, question: ReadLog, timeout: int, interval_s: float | None
) -> Iterator[tuple[bytes, bool]]:
    """Yield the parts of a file, and whether others follow now; with an interval, wait for others."""
    while True:
        part = client.ask(question, timeout)
        question = replace(
            question, position=part["position"], is_inside=part.get("is_inside", False)
        )
        yield without_marks(part["data"]), part["has_more"]
        if not part["has_more"]:
            if interval_s is None:
                return
            time.sleep(interval_s)


def _last_lines(parts: Iterator[tuple[bytes, bool]], tail: int) -> Iterator[tuple[bytes, bool]]:
    """Yield the last lines of what is in the file now, then what is added to it; all if it is -1."""
    held = b""
    for data, has_more in parts if tail >= 0 else ():
        held += data
        at = len(held) - held.endswith(b"\n")
        for _ in range(tail):
            at = held.rfind(b"\n", 0, max(0, at))
        held = held[at + 1 :] if tail else b""
        if not has_more:
            break
    yield held, False
    yield from parts
