"""The events of `ray.timeline`, in the format that browsers show as a trace."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from raycompat._protocol.plain import Row
from raycompat._protocol.spans import Ran

#: Ray's categories of the parts of a call, and the names of their colours in Chrome.
_LOADING = ("task:deserialize_arguments", "rail_load")
_EXECUTING = ("task:execute", "rail_animation")
_STORING = ("task:store_outputs", "rail_idle")


def events(state: Mapping[str, Any], calls: Iterable[Any]) -> list[dict[str, object]]:
    """Return the events of calls, from the scheduler's state and its answer about the calls."""
    ips = {node["address"]: node["ip"] for node in state["nodes"]}
    return [event for call in calls for event in events_of(Ran.from_wire(call), ips)]


def events_of(ran: Ran, ips: Mapping[str, str]) -> Iterator[dict[str, object]]:
    """Return the event of calls that ran one after the other, and one for each of their phases.

    The phases of several calls are added up, and are shown at the end of their time. `ips` has the IP
    addresses of nodes by their addresses.
    """
    node, process = ips.get(ran.worker, ran.worker), f"worker:{ran.process}"

    def event(
        category: str, colour: str, name: str, start: float, length_s: float, args: Row
    ) -> Row:
        return {
            "cat": category,
            "name": name,
            "pid": node,
            "tid": process,
            "ts": start * 1e6,
            "dur": length_s * 1e6,
            "ph": "X",
            "cname": colour,
            "args": args,
        }

    about = {"name": ran.name, "task_id": ran.task, "calls": ran.num_calls, "failed": ran.is_failed}
    length_s = ran.stop - ran.start
    yield event(f"task::{ran.name}", "generic_work", ran.name, ran.start, length_s, about)
    begin = max(ran.start, ran.stop - sum(ran.phases))
    parts = zip((_LOADING, _EXECUTING, _STORING), ran.phases, strict=True)
    for (category, colour), phase_s in parts:
        if phase_s > 0 and not (ran.is_failed and category == _STORING[0]):
            yield event(category, colour, category, begin, phase_s, {})
        begin += phase_s
