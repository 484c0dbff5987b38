"""What notebooks show of a session, of actors, and of references: small HTML tables."""

from __future__ import annotations

import html
from collections.abc import Iterable
from typing import Any

from raycompat._caller import current_session
from raycompat._caller.object_table import FAILED, PENDING, READY, Entry
from raycompat._messages.nodes import ClusterState
from raycompat._messages.watching import ListRows
from raycompat._protocol.text import with_scheme
from raycompat._protocol.values import SegmentLink

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

#: What a cell says of a reference.
_STATES = {PENDING: "not ready", READY: "ready", FAILED: "failed"}


def of_cluster(rows: Iterable[tuple[str, str]], dashboard_url: str) -> str:
    """Return `rows`, a link to the dashboard, and how much of each resource is in use now."""
    table = _table(rows, _link(dashboard_url) if dashboard_url else "")
    session = current_session.get()
    return table + _in_use(session.rpc(ClusterState())) if session is not None else table


def _in_use(state: dict[str, Any]) -> str:
    total, free = state["total"], state["available"]
    lines = ["<tr><th>Resource</th><th>in use</th><th>in the cluster</th></tr>"]
    for name in sorted(name for name in total if not name.startswith("node:")):
        used, all_of_it = total[name] - free.get(name, 0), total[name]
        cells = html.escape(name), _amount(name, used), _amount(name, all_of_it)
        lines.append(f"<tr>{''.join(f'<td>{cell}</td>' for cell in cells)}</tr>")
    return f"<table>{''.join(lines)}</table>"


def of_actor(class_name: str, actor_id: str) -> str:
    """Return the class, the id and, from the scheduler, the state of an actor."""
    session = current_session.get()
    rows = [("Actor", class_name), ("Id", actor_id)]
    if session is not None:
        filters = [("actor_id", "=", actor_id)]
        answer = session.rpc(ListRows("actors", filters, limit=1, detail=True))
        for found in answer["result"]:
            shown = "name", "state", "pid", "node_id", "num_restarts", "death_cause"
            rows += [(_NAMES[name], str(found[name])) for name in shown if found[name]]
    return _table(rows)


def of_object(object_id: str, entry: Entry | None) -> str:
    """Return the id of an object and, if this process refers to it, whether its value is there."""
    rows = [("Object", object_id)]
    if entry is not None:
        rows.append(("State", _STATES[entry.state]))
        if isinstance(entry.value, SegmentLink):
            rows.append(("Bytes", f"{entry.value.size:,}"))
        elif entry.value is not None:
            rows.append(("Bytes", f"{len(entry.value.block):,}"))
    return _table(rows)


def _table(rows: Iterable[tuple[str, str]], last: str = "") -> str:
    lines = [f"<tr><td>{name}</td><td>{html.escape(text)}</td></tr>" for name, text in rows]
    return f"<table>{''.join(lines)}{last}</table>"


def _link(url: str) -> str:
    """Return the row with the dashboard's address, which is shown without its token."""
    address = html.escape(with_scheme(url))
    shown = html.escape(url.partition("?")[0])
    return f'<tr><td>Dashboard</td><td><a href="{address}" target="_blank">{shown}</a></td></tr>'


def _amount(name: str, amount: float) -> str:
    return f"{amount / 2**30:.2f} GiB" if name in _IN_BYTES else f"{amount:g}"
