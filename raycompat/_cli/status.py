"""The output of ``raycompat status``."""

from __future__ import annotations

import os
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any

from raycompat._cli.tables import table, window_width
from raycompat._messages.watching import Overview
from raycompat._protocol.values import StorePlace

if TYPE_CHECKING:
    from raycompat.util.state.client import StateApiClient

#: Seconds for the cluster to answer.
_TIMEOUT_S = 30

#: Resources that are bytes.
_BYTES = ("memory", "object_store_memory")

#: How many names of equal placement groups are shown.
_MANY_NAMES = 5


def report(state: Mapping[str, Any], now: datetime, dashboard: str | None = None) -> str:
    """Return the state of a cluster (`ClusterState`) as text.

    `dashboard` is the address of its dashboard, if it has one.
    """
    header = f"======== Cluster status: {now:%Y-%m-%d %H:%M:%S} ========"
    rule = "-" * len(header)
    return "\n".join(
        [
            header,
            "Node status",
            rule,
            "Active:",
            *_or_none(_nodes(state["nodes"]), "no nodes"),
            *_unfit(state["unfit"]),
            "",
            "Resources",
            rule,
            "Total Usage:",
            *_or_none(_usage(state), "nothing"),
            "",
            "Pending Demands:",
            *_or_none(
                [*_demands(state["pending"]), *_groups(state["pending_groups"])],
                "no resource demands",
            ),
            *(["", f"Dashboard: {dashboard}"] if dashboard is not None else []),
        ]
    )


def described(
    state: Mapping[str, Any], dashboard: str | None, what_runs: list[dict[str, Any]] | None
) -> dict[str, Any]:
    """Return the same for programs; `what_runs` is None where it is not wanted."""
    return {
        "nodes": described_nodes(state),
        "workers_that_are_not_nodes": state["unfit"],
        "resources_total": state["total"],
        "resources_available": state["available"],
        "object_store_bytes": state["stored"],
        "pending": state["pending"],
        "pending_placement_groups": state["pending_groups"],
        "dashboard": dashboard,
        **({"running": what_runs} if what_runs is not None else {}),
    }


def node_name(node: Mapping[str, Any]) -> str:
    """Return the name that a user has given to a node, with its address."""
    name, ip = str(node["name"]), str(node["ip"])
    return ip if name in ("", ip) else f"{name}, {ip}"


def described_nodes(state: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the nodes for programs."""
    fields = (
        "node_id",
        "address",
        "ip",
        "name",
        "hostname",
        "pid",
        "resources",
        "available",
        "draining",
    )
    return [
        {
            **{field: node[field] for field in fields},
            "spilled_bytes": node["spilled"],
            "spill_directory": _spill_directory(node),
        }
        for node in state["nodes"]
    ]


def _spill_directory(node: Mapping[str, Any]) -> str:
    """Return where a node keeps the values that it spills."""
    directories = StorePlace(*node["place"]).directories
    return os.path.dirname(directories[-1])


def running(client: StateApiClient) -> list[dict[str, Any]]:
    """Return the running tasks and actors of each node."""
    return [
        {
            "node": row["node"],
            "kind": row["kind"],
            "name": row["name"],
            "resources": row["resources"],
        }
        for row in client.ask(Overview(), _TIMEOUT_S)["running"]
    ]


def running_report(rows: list[dict[str, Any]]) -> str:
    """Return the text about what runs."""
    lines = table(rows, window_width()).splitlines() if rows else [" (nothing)"]
    return "\n".join(["", "Running:", *lines])


def _or_none(lines: Iterable[str], otherwise: str) -> list[str]:
    return [f" {line}" for line in lines] or [f" ({otherwise})"]


def _nodes(nodes: Iterable[Mapping[str, Any]]) -> list[str]:
    lines = []
    for node in nodes:
        total, free = node["resources"], node["available"]
        used = ", ".join(_share(name, total, free) for name in ("CPU", "GPU") if total.get(name))
        where = f"{node_name(node)} ({node['hostname']}, pid {node['pid']})"
        lines.append(f"node_{node['node_id'][:12]}  {where}  {used}")
        if node["draining"]:
            lines.append(f"  {node['draining']}")
        if node["spilled"]:
            lines.append(
                f"  {_bytes(node['spilled'])} of objects spilled to {_spill_directory(node)}"
            )
    return lines


def _unfit(workers: Mapping[str, str]) -> list[str]:
    if not workers:
        return []
    lines = [f" {address}: {reason}" for address, reason in workers.items()]
    return ["Dask workers that are not nodes:", *lines]


def _usage(state: Mapping[str, Any]) -> list[str]:
    total = state["total"]
    names = [name for name in sorted(total) if not name.startswith("node:")]
    return [_share(name, total, state["available"]) for name in names]


def _share(name: str, total: Mapping[str, float], free: Mapping[str, float]) -> str:
    used = total[name] - free.get(name, 0)
    show = _bytes if name in _BYTES else _number
    return f"{show(used)}/{show(total[name])} {name}"


def _number(amount: float) -> str:
    return f"{round(amount, 4):.10g}" if amount % 1 else f"{amount:.1f}"


def _bytes(amount: float) -> str:
    for unit, size in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if amount >= size:
            return f"{amount / size:.2f}{unit}"
    return f"{amount:.0f}B"


def _demands(pending: Iterable[Mapping[str, Any]]) -> list[str]:
    return [
        f"{dict(demand['request'])}: {demand['count']} pending {demand['kind']}(s)"
        + ("" if demand["is_feasible"] else ", which no node can ever provide")
        for demand in pending
    ]


def _groups(pending: Iterable[Mapping[str, Any]]) -> list[str]:
    names = defaultdict(list)
    for group in pending:
        bundles = Counter(str(dict(each)) for each in group["bundles"])
        what = ", ".join(f"{bundle} * {count}" for bundle, count in bundles.items())
        names[f"{what} ({group['strategy']})", group["is_feasible"]].append(group["name"])
    return [
        f"{what}: {len(each)} pending placement group(s)"
        + ("" if is_feasible else ", which no nodes can ever provide")
        + (f": {', '.join(filter(None, each[:_MANY_NAMES]))}" if any(each[:_MANY_NAMES]) else "")
        for (what, is_feasible), each in names.items()
    ]
