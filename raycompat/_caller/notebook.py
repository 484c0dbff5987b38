"""What notebooks show of a session, and of handles and references: small HTML tables."""

from __future__ import annotations

import html
from collections.abc import Iterable, Mapping
from typing import TypeVar

from raycompat._caller import current_session
from raycompat._caller.object_table import FAILED, PENDING, READY, Entry
from raycompat._messages.groups import DescribeGroups
from raycompat._messages.nodes import ClusterState
from raycompat._messages.watching import CountCalls, ListRows
from raycompat._protocol import failures
from raycompat._protocol.message import Request
from raycompat._protocol.plain import Row
from raycompat._protocol.text import with_scheme
from raycompat._protocol.values import SegmentLink
from raycompat.exceptions import UnsupportedRayFeatureError

_A = TypeVar("_A")

#: Resources that are counted in bytes; a notebook shows them in GiB.
_IN_BYTES = ("memory", "object_store_memory")

#: The titles of the rows of an actor.
_NAMES = {
    "name": "Name",
    "state": "State",
    "pid": "Process",
    "node_id": "Node",
    "num_restarts": "Restarts",
    "death_cause": "Cause of its end",
}

#: The titles of the numbers of a function's calls.
_CALLS = {"waiting": "Waiting", "running": "Running", "done": "Done", "failed": "Failed"}

#: What a cell says of a reference.
_STATES = {PENDING: "not ready", READY: "ready", FAILED: "failed"}


def of_cluster(rows: Iterable[tuple[str, str]], dashboard_url: str) -> str:
    """Return `rows`, a link to the dashboard, and how much of each resource is in use now."""
    table = _table(rows, _link(dashboard_url) if dashboard_url else "")
    session = current_session.get()
    return table + _in_use(session.rpc(ClusterState())) if session is not None else table


def _in_use(state: Row) -> str:
    total, free = state["total"], state["available"]
    lines = ["<tr><th>Resource</th><th>in use</th><th>in the cluster</th></tr>"]
    for name in sorted(name for name in total if not name.startswith("node:")):
        used, all_of_it = total[name] - free.get(name, 0), total[name]
        cells = html.escape(name), _amount(name, used), _amount(name, all_of_it)
        lines.append(f"<tr>{''.join(f'<td>{cell}</td>' for cell in cells)}</tr>")
    return f"<table>{''.join(lines)}</table>"


def of_actor(class_name: str, actor_id: str) -> str:
    """Return the class, the id and, from the scheduler, the state of an actor."""
    rows = [("Actor", class_name), ("Id", actor_id)]
    filters = [("actor_id", "=", actor_id)]
    answer = _asked(ListRows("actors", filters, limit=1, detail=True))
    for found in answer["result"] if answer is not None else ():
        shown = "name", "state", "pid", "node_id", "num_restarts", "death_cause"
        rows += [(_NAMES[name], str(found[name])) for name in shown if found[name]]
    return _table(rows)


def of_function(
    kind: str, name: str, signature: object, calls: str, options: Mapping[str, object] | None = None
) -> str:
    """Return the name and the signature of a function or method, and the numbers of its calls.

    Parameters
    ----------
    kind : str
        What it is, the title of the first row.
    name : str
        Its whole name.
    signature : object
        Its signature, shown as text.
    calls : str
        The name that its calls have by default.
    options : mapping, optional
        The options that were given, a row for each.
    """
    rows = [(kind, name), ("Signature", str(signature))]
    rows += [(f"Option {option}", repr(value)) for option, value in (options or {}).items()]
    if found := _asked(CountCalls(calls)):
        rows += [(title, f"{found[field]:,}") for field, title in _CALLS.items()]
    return _table(rows)


def of_group(group: str) -> str:
    """Return the id of a placement group and, from the scheduler, its state and its bundles."""
    rows = [("Placement group", group)]
    found = _asked(DescribeGroups(group)) or {}
    for row in found.values():
        rows += [("Name", row["name"])] if row["name"] else []
        rows += [("State", row["state"]), ("Strategy", row["strategy"])]
        for number, (bundle, node) in enumerate(zip(row["bundles"], row["nodes"], strict=True)):
            amounts = ", ".join(f"{name}: {_amount(name, each)}" for name, each in bundle.items())
            rows.append((f"Bundle {number}", f"{amounts} on node {node}" if node else amounts))
    return _table(rows)


def of_object(object_id: str, task_id: str, entry: Entry | None) -> str:
    """Return the id of an object and, if this process refers to it, whether its value is there.

    The name of the call that makes the object is asked of the scheduler.
    """
    rows = [("Object", object_id)]
    if entry is not None:
        rows += _call_of(task_id)
        rows.append(("State", _STATES[entry.state]))
        if entry.error is not None:
            rows.append(("Error", failures.last_line(failures.text_of(entry.error))))
        if isinstance(entry.value, SegmentLink):
            rows.append(("Bytes", f"{entry.value.size:,}"))
        elif entry.value is not None:
            rows.append(("Bytes", f"{len(entry.value.block):,}"))
    return _table(rows)


def _call_of(task_id: str) -> list[tuple[str, str]]:
    found = _asked(ListRows("tasks", [("task_id", "=", task_id)], limit=1, detail=True))
    return [("Call", row["name"]) for row in found["result"]] if found is not None else []


def _asked(request: Request[_A]) -> _A | None:
    """Return the scheduler's answer; None without a session, and in local mode."""
    session = current_session.get()
    if session is None:
        return None
    try:
        return session.rpc(request)
    except UnsupportedRayFeatureError:  # local mode has no scheduler, and answers few requests
        return None


def _table(rows: Iterable[tuple[str, str]], last: str = "") -> str:
    lines = [
        f"<tr><td>{html.escape(name)}</td><td>{html.escape(text)}</td></tr>" for name, text in rows
    ]
    return f"<table>{''.join(lines)}{last}</table>"


def _link(url: str) -> str:
    """Return the row with the address of the dashboard's page `Ray`, shown without its token."""
    place, mark, token = url.partition("?")
    page = f"{place.removesuffix('/status')}/ray" if place.endswith("/status") else place
    address, shown = html.escape(with_scheme(page + mark + token)), html.escape(page)
    return f'<tr><td>Dashboard</td><td><a href="{address}" target="_blank">{shown}</a></td></tr>'


def _amount(name: str, amount: float) -> str:
    return f"{amount / 2**30:.2f} GiB" if name in _IN_BYTES else f"{amount:g}"
