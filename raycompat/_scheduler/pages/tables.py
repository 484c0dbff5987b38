"""The rows of the pages' tables, from the state of the scheduler and from surveys."""

from __future__ import annotations

import heapq
import itertools
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from operator import itemgetter
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from raycompat._protocol import failures, ids
from raycompat._protocol.plain import Row
from raycompat._protocol.resource_set import UNITS_PER_ONE
from raycompat._scheduler.history import Function
from raycompat._scheduler.notices import Say, english, wanted, where
from raycompat._scheduler.state.objects import sites_of
from raycompat._scheduler.stores import STORE, available, stored

if TYPE_CHECKING:
    from raycompat._messages.nodes import NodeInfo
    from raycompat._protocol.resource_set import ResourceSet
    from raycompat._scheduler.actor_directory import ActorRow
    from raycompat._scheduler.call_table import Call
    from raycompat._scheduler.capacity import Capacity
    from raycompat._scheduler.group_row import Wish
    from raycompat._scheduler.watched_parts import WatchedParts

#: The most rows of one table; a line below the table has the total number.
MOST_ROWS = 200

#: Seconds for which a failure is recent: its row is marked, and among the first.
RECENT_S = 300

#: The most lines of waiting calls, and placement groups, whose reason is looked for in one update of
#: the page.
_MOST_LINES = 50

#: Resources whose amounts are bytes, and their names on the pages.
_RESOURCES = {"memory": "memory (asked for)", STORE: "object store"}

#: Callers that are named beside an actor: those with the most unfinished calls.
_MOST_CALLERS = 5

#: The statistics of an actor that has had no calls.
_NO_CALLS = Function()

#: What the first sentence says of one and of several failures of each sort.
_FAILURES = {
    "actor": ("{count:,} actor died", "{count:,} actors died"),
    "function": (
        "calls of {count:,} function failed",
        "calls of {count:,} functions failed",
    ),
    "job": ("{count:,} job failed", "{count:,} jobs failed"),
    "node": ("{count:,} node left", "{count:,} nodes left"),
}

#: What callers are called, with an id or a number; `table.js` has the same words.
CALLERS = ("driver of job", "process of job", "driver", "process")

#: The names of kinds of calls on the pages. A lease is used by one caller, without the scheduler.
_KINDS = {"task": "task", "actor": "actor", "lease": "calls of one driver or actor"}


def usage(parts: WatchedParts) -> list[Row]:
    """Return one row for each resource of each node: the total amount, and the amount in use."""
    rows: list[Row] = []
    parts.surveys.refresh()
    for address, free in available(parts.ground, parts.surveys.own).items():
        total = parts.ground.ledger.node_total(address)
        for name, units in sorted(total.items()):
            if name.startswith("node:"):
                continue
            used = units - free.get(name)
            rows.append(
                {
                    "node": node_of(parts, address),
                    "resource": _RESOURCES.get(name, name),
                    "used": used / UNITS_PER_ONE,
                    "total": units / UNITS_PER_ONE,
                    "is_bytes": name in _RESOURCES,
                    "share": used / units,
                }
            )
    return rows


def failed(parts: WatchedParts, job: str = "") -> list[Row]:
    """Return what has failed in the last minutes, the last first: actors, functions, jobs and nodes.

    With `job`, only what belongs to this job, and the nodes.
    """
    since, history = time.time() - RECENT_S, parts.history
    rows: list[Row] = [
        {
            "at": at,
            "of": "actor",
            "kind": "actor died",
            "what": actor_name(actor),
            "error": _last_line(actor.error),
            "traceback": _whole(actor.error),
            "log": _log_of(actor),
        }
        for at, actor in parts.endings.deaths
        if at > since and job in ("", actor.job)
    ]
    rows += [
        {
            "at": function.failed_at,
            "of": "function",
            "kind": "calls failed",
            "times": function.num_failed,
            "what": name,
            "error": function.last_error,
            "traceback": function.last_traceback,
            "log": _address("tasks", "functions", "name", name),
        }
        for name, function in (history.functions_of(job) if job else history.functions).items()
        # The death of an actor is a row of its own.
        if function.failed_at > since and function.type != "ACTOR_CREATION_TASK"
    ]
    rows += [
        {
            "at": each.ended,
            "of": "job",
            "kind": "job failed",
            "what": each.request.entrypoint,
            "error": each.message or "",
            "log": _address("jobs", "jobs", "id", each.id),
        }
        for each in parts.submissions.by_id.values()
        if each.status == "FAILED"
        and each.ended > since
        and job in ("", each.driver["id"] if each.driver is not None else None)
    ]
    rows += [
        {
            "at": gone["ended"],
            "of": "node",
            "kind": "node left",
            "what": gone["name"],
            "error": "",
            "log": _address("nodes", "nodes", "id", gone["node_id"]),
        }
        for gone in parts.ground.nodes.departed
        if gone["ended"] > since and not gone["is_expected"]
    ]
    return sorted(rows, key=lambda row: -row["at"])


def _address(page: str, table: str, field: str, value: str) -> str:
    """Return the address of the page with those rows of a table whose field has exactly this value."""
    return f"individual-ray-{page}?{table}.{field}={quote(value)}"


def sentence(parts: WatchedParts, say: Say = english) -> tuple[bool, str]:
    """Return whether the cluster is well, and one sentence on it. It contains no text of users.

    `say` returns a text of the pages' catalogue with its values, in the language of the page.
    """
    of = Counter(row["of"] for row in failed(parts))
    found = [
        say(one if of[what] == 1 else several, count=of[what])
        for what, (one, several) in _FAILURES.items()
        if of[what]
    ]
    said = (
        [say("{failures} in the last 5 minutes", failures=say(", ").join(found))] if found else []
    )
    firsts = [parts.calls.by_key[line.first] for line in parts.dispatcher.lines()]
    if firsts:
        by_job = _waiting_calls(parts, of_actors=False)
        waiting = sum(by_job[job] for job in {call.spec["job"] for call in firsts})
        seconds = time.monotonic() - min(call.since for call in firsts)
        said.append(
            say(
                "{count:,} call waits for resources or arguments, the first for {seconds:,.0f} s"
                if waiting == 1
                else "{count:,} calls wait for resources or arguments, the first for {seconds:,.0f} s",
                count=waiting,
                seconds=seconds,
            )
        )
    groups = sum(1 for _ in parts.groups.waiting())
    if groups:
        said.append(
            say(
                "{count:,} placement group waits"
                if groups == 1
                else "{count:,} placement groups wait",
                count=groups,
            )
        )
    if not parts.nodes.info:
        return False, say("The cluster has no nodes, so no call can run.")
    num_nodes = len(parts.nodes.info)
    nodes = say("{count:,} node" if num_nodes == 1 else "{count:,} nodes", count=num_nodes)
    if not said:
        return True, say(
            "All is well on {nodes}: nothing has failed in the last 5 minutes.", nodes=nodes
        )
    return not found, say("{said} ({nodes}).", said=say("; ").join(said), nodes=nodes)


def _waiting_calls(parts: WatchedParts, *, of_actors: bool) -> Counter[str]:
    """Return the number of waiting calls of each job, with or without the calls of living actors.

    Callers and nodes report them: these figures are up to a second old. The scheduler knows the
    requests for resources: one is for many calls, so there are at least as many calls.
    """
    findings, calls = parts.surveys.refresh(), parts.calls
    waiting: Counter[str] = Counter()
    for caller in findings.callers.values():
        num_of_actors = 0 if of_actors else sum(caller["by_actor"].values())
        waiting[caller["job"]] += sum(caller["counts"].values()) - num_of_actors
    for node in findings.nodes.values():
        for party, *_ in node["running"]:
            call = calls.by_key.get(party)
            if call is not None and (of_actors or call.spec["kind"] != "actor"):
                waiting[call.spec["job"]] -= 1
    waiting.subtract(
        call.spec["job"] for call in calls.holding.values() if call.spec["kind"] == "task"
    )
    requests: Counter[str] = Counter()
    actors: Counter[str] = Counter()
    for line in parts.dispatcher.lines():  # the calls of a line have one owner
        job = calls.by_key[line.first].spec["job"]
        num_actors = line.counts["actor"]  # no caller counts the actors that it makes as its calls
        actors[job] += num_actors
        requests[job] += len(line.keys) - num_actors
    return (waiting | requests) + actors


def jobs(parts: WatchedParts) -> list[Row]:
    """Return one row for each job: failed ones first, then those that run."""
    now, by_job = time.time(), parts.history.by_job
    held = Counter(call.spec["job"] for call in parts.calls.holding.values())
    waiting = _waiting_calls(parts, of_actors=True)
    rows: list[Row] = []
    for each in parts.state.cluster.all_jobs():
        done, num_failed = by_job.get(each["job_id"] or "", (0, 0))
        driver = each["driver_info"] or {}
        start, end = ((each[name] or 0) / 1000 for name in ("start_time", "end_time"))
        is_submitted = each["type"] == "SUBMISSION"
        rows.append(
            {
                "id": each["submission_id"] or each["job_id"],
                "job": each["job_id"] or "",
                "state": each["status"],
                "program": each["entrypoint"],
                "kind": "submitted" if is_submitted else "driver",
                "pid": driver.get("pid", ""),
                "ip": driver.get("node_ip_address", ""),
                "start": start,
                "seconds": (end or now) - start if start else None,
                "waiting": waiting[each["job_id"]],
                "holding": held[each["job_id"]],
                "done": done,
                "failed": num_failed,
                "message": (each["message"] or "") if each["status"] == "FAILED" else "",
                "metadata": _listed(each["metadata"]),
                "only": f"ray?job={each['job_id']}" if each["job_id"] else "",
                "log": _log_of_job(each["submission_id"], each["job_id"]),
                "is_failed": each["status"] == "FAILED" and end > now - RECENT_S,
            }
        )
    order = {"FAILED": 0, "RUNNING": 1, "PENDING": 2}
    return sorted(rows, key=lambda row: (order.get(row["state"], 3), -row["start"]))


def _log_of_job(submission: str | None, job: str | None) -> str:
    """Return the address of the output of a job's command, or of the processes of a driver."""
    if submission:
        return f"individual-ray-logs?process={quote(f'job {submission}')}"
    return f"individual-ray-logs?job={job}" if job else ""


def _listed(values: Mapping[str, object] | None) -> str:
    return ", ".join(f"{name}={value}" for name, value in (values or {}).items())


def nodes(parts: WatchedParts) -> list[Row]:
    """Return one row for each node, and after them one for each that has left, the last first."""
    findings = parts.surveys.refresh()
    bytes_of = stored(parts.ground, parts.surveys.own)
    rows: list[Row] = []
    for address in parts.nodes.info:
        info, found = parts.ground.nodes.current(address), findings.nodes.get(address)
        total, free = (
            parts.ground.ledger.node_total(address),
            parts.ground.ledger.node_available(address),
        )
        processes = found["executors"] if found is not None else []
        drain = parts.ground.drains.get(address)
        rows.append(
            {
                **_about_node(info, address),
                "state": "ALIVE" if drain is None else "DRAINING",
                "closes": drain.deadline if drain is not None else None,
                "why": drain.message if drain is not None else "",
                "cpu": _used(total, free, "CPU"),
                "gpu": _used(total, free, "GPU"),
                "store": bytes_of[address].memory,
                "processes": len(processes),
                "rss": sum(each.get("rss_bytes") or 0 for each in processes),
            }
        )
    gone = [
        {
            **_about_node(each, each["address"]),
            "state": "DEAD",
            "left": each["ended"],
            "is_expected": each["is_expected"],
        }
        for each in reversed(parts.ground.nodes.departed)
    ]
    return [*rows, *gone]


def _about_node(info: NodeInfo, address: str) -> Row:
    return {
        "id": info["node_id"],
        "name": info["name"],
        "address": node_name(address),
        "pid": info["pid"],
        "joined": info["started"],
        "labels": _listed({k: v for k, v in info["labels"].items() if v != info["node_id"]}),
    }


def _used(total: ResourceSet, free: ResourceSet, name: str) -> str:
    units = total.get(name)
    used = (units - free.get(name)) / UNITS_PER_ONE
    return f"{used:g} of {units / UNITS_PER_ONE:g}" if units else ""


def running(parts: WatchedParts) -> list[Row]:
    """Return one row for each process that runs calls, and each bundle: its node and its resources."""
    return by_node(each_running(parts))


def by_node(rows: Iterable[Row]) -> list[Row]:
    """Return the rows of what runs in their order."""
    return sorted(rows, key=itemgetter("node", "kind", "name"))


def each_running(parts: WatchedParts) -> Iterator[Row]:
    """Iterate over the rows of what runs, in no order. The cluster may change meanwhile."""
    for key, call in list(parts.calls.holding.items()):
        if call.address is not None:
            yield {
                "node": node_of(parts, call.address),
                "kind": _KINDS[call.spec["kind"]],
                "name": _name(parts, key, call),
                "resources": _amounts(call.holding.resources) if call.holding else "",
                "gpus": _gpus(call.holding.gpus) if call.holding else "",
                "caller": _caller(parts, call),
                "job": call.spec["job"],
            }
    for row in list(parts.groups.all()):
        for bundle in list(row.holdings):
            if bundle is not None:
                yield {
                    "node": node_of(parts, bundle.node_id),
                    "kind": "placement group",
                    "name": row.spec["name"] or row.id,
                    "resources": str(bundle.resources),
                    "gpus": _gpus(bundle.gpus),
                    "caller": "",
                    "job": row.spec["job"],
                }


def actors(parts: WatchedParts) -> list[Row]:
    """Return one row for each actor: its description, and its calls that wait, run, and have ended."""
    return ranked(living_actors(parts))


def every_actor(parts: WatchedParts) -> Iterator[Row]:
    """Iterate over the rows of actors, and of the last ones to which nothing refers any more.

    Rows of the latter have no figures. The rows are in no order. The cluster may change meanwhile.
    """
    yield from living_actors(parts)
    yield from _forgotten_actors(parts)


def living_actors(parts: WatchedParts) -> Iterator[Row]:
    """Iterate over the rows of actors to which something refers, in no order.

    Callers and nodes report the unfinished calls: these figures are up to a second old.
    """
    findings, now = parts.surveys.refresh(), time.time()
    running = Counter(party for found in findings.nodes.values() for party, *_ in found["running"])
    called: Counter[str] = Counter()
    callers: dict[str, list[tuple[int, str]]] = {}
    classes, gpu_bytes = classes_of_processes(parts), _gpu_bytes(parts)
    for found in findings.callers.values():
        called.update(found["by_actor"])
        for key, count in found["by_actor"].items():
            callers.setdefault(key, []).append((count, _name_of_caller(found, classes)))
    for key, actor in list(parts.actors.rows.items()):
        call = parts.calls.by_key.get(key)
        holding = call.holding if call is not None else None
        calls = parts.endings.calls_of_actors.get(key, _NO_CALLS)
        use = findings.executor(actor.address, actor.pid)
        yield {
            "class": actor.class_name,
            "name": actor.name or "",
            "state": actor.state,
            "node": node_of(parts, actor.address),
            "pid": actor.pid or "",
            "waiting": max(0, called[key] - running[key]),
            "running": running[key],
            "callers": _most(callers.get(key, [])),
            "done": calls.num_done,
            "failed": calls.num_failed,
            "rate": calls.rate(now),
            "rss": use.get("rss_bytes"),
            "cpu": use.get("cpu_percent"),
            "gpu_memory": gpu_bytes.get((actor.address, actor.pid)),
            "restarts": actor.incarnation,
            "resources": _amounts(holding.resources) if holding is not None else "",
            "error": _last_line(actor.error),
            "traceback": _whole(actor.error),
            "is_expected": actor.error is not None and failures.is_expected(actor.error),
            "is_internal": actor.is_internal,
            "calls": _address("calls", "calls", "actor", key.rpartition("-")[2]),
            "log": _log_of(actor),
            "stack": f"{_log_of(actor)}&stream=stack" if use else "",
            "profile": f"{_log_of(actor)}&stream=profile" if use else "",
            "job": actor.job,
            "id": key.rpartition("-")[2],
        }


def ranked(rows: Iterable[Row]) -> list[Row]:
    """Return the rows of actors in their order, each marked if it is that of a failure."""
    ranks = []
    for row in rows:
        rank = _rank(row)
        row["is_failed"] = rank == 0
        ranks.append((rank, row["class"], row["id"], row))
    return [row for *_, row in sorted(ranks, key=itemgetter(0, 1, 2))]


def _forgotten_actors(parts: WatchedParts) -> Iterator[Row]:
    """Iterate over the rows of the last actors that have ended and to which nothing refers."""
    known = {actor.key.rpartition("-")[2]: actor for _, actor in parts.endings.deaths}
    nodes = {info["node_id"]: address for address, info in parts.nodes.info.items()}
    for each in list(parts.history.actors):
        actor = known.get(each["actor_id"])
        cause = each["death_cause"] or {}
        text = "".join(cause.get("actor_died_error_context", {}).get("error_message", ""))
        yield {
            "class": each["class_name"],
            "name": each["name"],
            "state": each["state"],
            "node": node_of(parts, nodes.get(each["node_id"])),
            "pid": each["pid"] or "",
            "restarts": each["num_restarts"],
            "error": failures.last_line(text),
            "traceback": _whole(actor.error) if actor is not None else text,
            "is_expected": each["is_expected"],
            "is_internal": each["is_internal"],
            "calls": _address("calls", "calls", "actor", each["actor_id"]),
            "log": _log_of_process(nodes.get(each["node_id"]), each["pid"]),
            "job": each["job_id"],
            "id": each["actor_id"],
        }


def _amounts(resources: ResourceSet) -> str:
    """Return resources as a text; empty if there are none."""
    return str(resources) if resources.units() else ""


def _most(counts: Iterable[tuple[int, str]]) -> str:
    """Return the names with the largest numbers."""
    largest = heapq.nlargest(_MOST_CALLERS, counts)
    return ", ".join(f"{name}: {count:,}" for count, name in largest)


def _gpu_bytes(parts: WatchedParts) -> dict[tuple[str | None, int | None], int]:
    """Return the memory of GPUs that each process has, by its node and pid, as NVML reports it."""
    found: Counter[tuple[str | None, int | None]] = Counter()
    for address in parts.nodes.info:
        for gpu in parts.ground.nodes.current(address).get("gpus", ()):
            for pid, size in gpu["processes"]:
                found[address, pid] += size or 0
    return found


def _log_of(actor: ActorRow) -> str:
    """Return the address of the output of an actor's process; empty if it has none yet."""
    return _log_of_process(actor.address, actor.pid)


def _log_of_process(address: str | None, pid: int | None) -> str:
    if not pid or not address:
        return ""
    return f"individual-ray-logs?process={quote(f'{node_name(address)} {pid}')}"


def _rank(actor: Row) -> int:
    """Return where an actor stands: failed ones first, ones that their programs have ended last."""
    if actor["state"] not in ("DEAD", "RESTARTING"):
        return 1
    return 2 if actor["is_expected"] else 0


def waiting(parts: WatchedParts, say: Say = english) -> list[Row]:
    """Return what waits for resources, for how long, and why.

    There is one row for each shape of request, with the number of its calls, and one for each placement
    group.
    """
    now, rows, later = time.monotonic(), [], parts.notices.later()
    for line in itertools.islice(parts.dispatcher.lines(), _MOST_LINES):
        call, (_, request, strategy) = parts.calls.by_key[line.first], line.shape
        rows.append(
            {
                "kind": "call",
                "name": call.spec["name"],
                "count": len(line.keys),
                "request": f"{request}{where(strategy)}",
                "waited": now - call.since,
                "reason": parts.notices.why(line, later, say).text,
                "job": call.spec["job"],
            }
        )
    rows += _waiting_groups(parts, now, later, say)
    return sorted(rows, key=lambda row: -row["waited"])


def _waiting_groups(
    parts: WatchedParts, now: float, later: Sequence[Capacity], say: Say
) -> list[Row]:
    rows: list[Row] = []
    reasons: dict[Wish, str] = {}
    for group in parts.groups.waiting()[:_MOST_LINES]:
        wish = group.wish()
        if wish not in reasons:
            reasons[wish] = parts.notices.why_group(group, wish, later, say).text
        rows.append(
            {
                "kind": "placement group",
                "name": group.spec["name"] or group.id,
                "count": 1,
                "request": wanted(wish),
                "waited": now - group.since,
                "reason": reasons[wish],
                "job": group.spec["job"],
            }
        )
    return rows


def functions(parts: WatchedParts, job: str = "") -> list[Row]:
    """Return one row for each function and method: its calls that wait, run, and have ended.

    Callers and nodes report the unfinished calls: these figures are up to a second old. With `job`,
    only the calls of this job count.
    """
    findings, now, calls = parts.surveys.refresh(), time.time(), parts.calls

    def counts(of: str | None) -> bool:
        return not job or of == job

    running = Counter(
        name
        for found in findings.nodes.values()
        for party, _, name, *_ in found["running"]
        if not job or (party in calls.by_key and counts(calls.by_key[party].spec["job"]))
    )
    running.update(
        call.spec["name"]
        for call in calls.holding.values()
        if call.spec["kind"] == "task" and counts(call.spec["job"])
    )
    called: Counter[str] = Counter()
    for found in findings.callers.values():
        if counts(found["job"]):
            called.update(found["counts"])
    history = parts.history
    known = history.functions_of(job) if job else history.functions
    names = [*known, *(name for name in called if name not in known)]
    actors = parts.actors.rows.values()
    own = {actor.class_name for actor in actors if actor.is_internal}
    theirs = {actor.class_name for actor in actors if not actor.is_internal}

    def is_internal(name: str) -> bool:
        of, dot, _ = name.rpartition(".")
        is_own = known[name].is_internal if name in known else bool(dot) and of in own
        return is_own and of not in theirs

    rows: list[Row] = [
        {
            "name": name,
            "waiting": max(0, called[name] - running[name]),
            "running": running[name],
            "done": known[name].num_done if name in known else 0,
            "failed": known[name].num_failed if name in known else 0,
            "rate": known[name].rate(now) if name in known else 0.0,
            "error": known[name].last_error if name in known else "",
            "traceback": known[name].last_traceback if name in known else "",
            "failed_at": known[name].failed_at if name in known else 0.0,
            "calls": _address("calls", "calls", "name", name),
            "log": _log_of_function(known.get(name), name),
            "is_failed": name in known and known[name].failed_at > now - RECENT_S,
            "is_internal": is_internal(name),
        }
        for name in names
    ]
    rows.sort(
        key=lambda row: (
            not row["is_failed"],
            -row["running"],
            -row["waiting"],
            -row["rate"],
            row["name"],
        )
    )
    for row in rows:
        function = known.get(row["name"])
        times = function.quantiles() if function is not None else None
        row["median"], row["high"], row["longest"] = times or (None, None, None)
    return rows


def _log_of_function(function: Function | None, name: str) -> str:
    """Return the address of what the calls of a function have printed; an actor has its own address."""
    if function is None or function.type != "NORMAL_TASK":
        return ""
    return f"individual-ray-logs?function={quote(name)}"


def stores(parts: WatchedParts) -> list[Row]:
    """Return one row for each node: the bytes of objects that it has in memory and on disk."""
    parts.surveys.refresh()
    return [
        {
            "node": node_of(parts, address),
            "memory": memory,
            "disk": disk,
            "total": parts.ground.ledger.node_total(address).get(STORE) / UNITS_PER_ONE,
        }
        for address, (memory, disk) in stored(parts.ground, parts.surveys.own).items()
    ]


def keepers(parts: WatchedParts) -> list[Row]:
    """Return one row for each process that refers to objects; first, the one with the largest."""
    classes = classes_of_processes(parts)
    rows = [
        {
            "process": _name_of_caller(found, classes),
            "count": found["num_objects"],
            "size": sum(max(0, _size(parts, each)) for each in found["objects"]),
            "job": found["job"],
        }
        for found in parts.surveys.refresh().callers.values()
        if found["num_objects"]
    ]
    return sorted(rows, key=lambda row: -row["size"])


def objects(parts: WatchedParts) -> list[Row]:
    """Return one row for each object, the largest first: its size, and its processes."""
    rows: dict[str, Row] = {}
    classes, findings = classes_of_processes(parts), parts.surveys.refresh()
    sites = sites_of(findings)
    for found in findings.callers.values():
        for each in found["objects"]:
            row = rows.setdefault(each["key"], _new_object(each["key"], sites))
            row["jobs"].add(found["job"])
            row["size"] = max(row["size"], _size(parts, each))
            row["state"], row["kind"] = each["state"], each["kind"]
            row["holders"].append(_name_of_caller(found, classes))
    largest = sorted(rows.values(), key=lambda row: -row["size"])
    for row in largest:
        row["holders"] = ", ".join(row["holders"])
    return largest


def _new_object(key: str, sites: Mapping[str, str]) -> Row:
    """Return the row of an object without its processes: what made it, and on which line."""
    kind, is_actor = key.rpartition("-")[0], ids.is_of_actor(key)
    place = sites.get(key, "").partition(" | ")[2]
    return {
        "id": ids.object_hex(key),
        "size": -1,
        "holders": [],
        "jobs": set(),
        "made_by": "ray.put" if kind == "put" else kind,
        "task": "" if kind == "put" or is_actor else ids.task_hex(key),
        "place": _short_place(place),
        "places": place.replace(" | ", "\n"),
    }


def _short_place(places: str) -> str:
    """Return the innermost place of a call site: the name of the file, the line, and the function."""
    path, _, rest = places.partition(" | ")[0].rpartition("/")
    file, _, place = rest.partition(":")
    function, _, line = place.partition(":")
    return f"{file}:{line} {function}" if line else f"{path}{rest}"


def classes_of_processes(parts: WatchedParts) -> dict[int | None, str]:
    """Return the classes of actors by the pids of their processes."""
    return {row.pid: row.class_name for row in parts.actors.rows.values()}


def _name_of_caller(found: Row, classes: dict[int | None, str]) -> str:
    kind = "driver" if found["is_driver"] else classes.get(found["pid"], "process")
    return f"{kind} {found['pid']}"


def _size(parts: WatchedParts, found: Row) -> int:
    """Return the bytes of an object; its holder may not know them."""
    size: int = found["size"]
    return size if size >= 0 else parts.ground.dask.num_bytes(found["key"])


def groups(parts: WatchedParts) -> list[Row]:
    """Return one row for each placement group."""
    return [
        {
            "id": row.id,
            "name": row.spec["name"],
            "state": row.state,
            "strategy": row.spec["strategy"],
            "bundles": ", ".join(map(str, row.bundles)),
            "nodes": ", ".join(node_of(parts, address) for address in row.addresses()),
            "job": row.spec["job"],
        }
        for row in parts.groups.all()
    ]


def gpus(parts: WatchedParts) -> list[Row]:
    """Return one row for each GPU of each node: how much of it is in use, and by what."""
    holders: dict[tuple[str, int], list[str]] = {}
    used: dict[tuple[str, int], int] = {}
    for key, call in parts.calls.holding.items():
        for index, units in call.holding.gpus if call.holding is not None else ():
            assert call.holding is not None
            place = (call.holding.node_id, index)
            holders.setdefault(place, []).append(_name(parts, key, call))
            used[place] = used.get(place, 0) + units
    rows: list[Row] = []
    for address in parts.ground.ledger.nodes:
        info = parts.nodes.info.get(address)
        gpus = info.get("gpus", []) if info is not None else []
        samples = {each["index"]: each for each in gpus}
        for index in parts.ground.ledger.gpus_of(address):
            place = (address, index)
            rows.append(
                {
                    "node": node_of(parts, address),
                    "gpu": index,
                    "used": used.get(place, 0) / UNITS_PER_ONE,
                    "holders": ", ".join(holders.get(place, [])),
                    **_sampled(samples.get(index, {})),
                }
            )
    return rows


def _sampled(sample: Mapping[str, Any]) -> Row:
    """Return the columns from a sample of a GPU, which are empty where NVML does not work."""
    processes = [
        f"{pid}" if used is None else f"{pid}: {used / 2**30:.2f} GiB"
        for pid, used in sample.get("processes", ())
    ]
    used, total = sample.get("memory_used"), sample.get("memory_total")
    memory = (
        "" if used is None or total is None else f"{used / 2**30:.1f} of {total / 2**30:.1f} GiB"
    )
    return {
        "memory": memory,
        "busy": _with_unit(sample.get("utilisation"), "%"),
        "temperature": _with_unit(sample.get("temperature"), "°C"),
        "processes": ", ".join(processes),
        "strangers": ", ".join(map(str, sample.get("strangers", ()))),
    }


def _with_unit(number: int | None, unit: str) -> str:
    return "" if number is None else f"{number} {unit}"


def node_name(address: str | None) -> str:
    """Return the host and port of a node, by which the addresses of pages name it."""
    return address.rpartition("/")[2] if address is not None else ""


def node_of(parts: WatchedParts, address: str | None) -> str:
    """Return the name that a user has given to a node; host and port where there is none.

    Where nodes have the same name, each has its host and port too.
    """
    info, place = parts.ground.nodes.known(address or ""), node_name(address)
    if info is None or info["name"] in ("", info["ip"]):
        return place
    name: str = info["name"]
    others = (each for at, each in parts.nodes.info.items() if at != address)
    is_only = all(each["name"] != name for each in others)
    return name if is_only else f"{name} ({place})"


def actor_name(actor: ActorRow) -> str:
    """Return the class of an actor, and its name if it has one."""
    return f"{actor.class_name} ({actor.name})" if actor.name else actor.class_name


def _name(parts: WatchedParts, key: str, call: Call) -> str:
    """Return the name of a running call: an actor's class and name, or a function's name."""
    actor = parts.actors.rows.get(key)
    return call.spec["name"] if actor is None else actor_name(actor)


def _caller(parts: WatchedParts, call: Call) -> str:
    """Return the caller of a call: a driver, by its job, or a process of that job."""
    job = parts.jobs.open.get(call.spec["job"])
    is_driver = job is not None and job.client == call.owner
    kind = "driver of job" if is_driver else "process of job"
    return f"{kind} {call.spec['job']}"


def _gpus(slots: tuple[tuple[int, int], ...]) -> str:
    return ", ".join(str(index) for index, _ in slots)


def _whole(error: bytes | None) -> str:
    return failures.traceback_of(error) if error is not None else ""


def _last_line(error: bytes | None) -> str:
    return failures.last_line(failures.text_of(error)) if error is not None else ""
