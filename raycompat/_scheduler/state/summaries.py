"""Summaries of rows: the numbers of rows in each state, by function, class, or origin."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable

from raycompat._protocol.plain import Row
from raycompat._scheduler.state.objects import DISABLED

_BYTES_PER_MB = 1024**2

#: The field of a summary with the number of tasks of each type.
_TOTALS = {
    "NORMAL_TASK": "total_tasks",
    "ACTOR_TASK": "total_actor_tasks",
    "ACTOR_CREATION_TASK": "total_actor_scheduled",
}


def of_tasks(rows: Iterable[tuple[Row, int]]) -> Row:
    """Count tasks by name; each row comes with the number of tasks that it stands for."""
    totals: Counter[str] = Counter()
    groups: dict[str, Row] = {}
    for row, number in rows:
        totals[_TOTALS[row["type"]]] += number
        group = groups.setdefault(
            row["name"],
            {"func_or_class_name": row["name"], "type": row["type"], "state_counts": {}},
        )
        _count(group["state_counts"], row["state"], number)
    counts = {field: totals[field] for field in _TOTALS.values()}
    return {"summary": groups, **counts, "summary_by": "func_name"}


def of_actors(rows: list[Row]) -> Row:
    """Count actors by class."""
    groups: dict[str, Row] = {}
    for row in rows:
        group = groups.setdefault(
            row["class_name"], {"class_name": row["class_name"], "state_counts": {}}
        )
        _count(group["state_counts"], row["state"])
    return {"summary": groups, "total_actors": len(rows), "summary_by": "class"}


def of_objects(rows: list[Row]) -> dict[str, object]:
    """Count objects by the place in the program that made them."""
    groups: dict[str, Row] = {}
    holders: dict[str, tuple[set[int], set[str]]] = {}
    for row in rows:
        site = row["call_site"]
        group = groups.setdefault(
            site,
            {
                "total_objects": 0,
                "total_size_mb": 0.0,
                "task_state_counts": {},
                "task_attempt_number_counts": {},
                "ref_type_counts": {},
            },
        )
        group["total_objects"] += 1
        group["total_size_mb"] += max(0, row["object_size"]) / _BYTES_PER_MB
        _count(group["task_state_counts"], row["task_status"])
        _count(group["task_attempt_number_counts"], str(row["attempt_number"]))
        _count(group["ref_type_counts"], row["reference_type"])
        pids, ips = holders.setdefault(site, (set(), set()))
        pids.add(row["pid"])
        ips.add(row["ip"])
    for site, (pids, ips) in holders.items():
        groups[site] |= {"total_num_workers": len(pids), "total_num_nodes": len(ips)}
    return {
        "summary": groups,
        "total_objects": len(rows),
        "total_size_mb": sum(group["total_size_mb"] for group in groups.values()),
        "callsite_enabled": any(site != DISABLED for site in groups),
        "summary_by": "callsite",
    }


def _count(counts: dict[str, int], what: str, number: int = 1) -> None:
    counts[what] = counts.get(what, 0) + number


SUMMARIES: dict[str, Callable[[list[Row]], dict[str, object]]] = {
    "actors": of_actors,
    "objects": of_objects,
}
