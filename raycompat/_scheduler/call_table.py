"""The calls in the scheduler, from their submission until Dask forgets their keys."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from raycompat._protocol.call_spec import CallSpec
from raycompat._protocol.resource_set import ResourceSet
from raycompat._protocol.spans import Phases
from raycompat._protocol.strategy import InGroup, Strategy
from raycompat._scheduler.capacity import Holding

if TYPE_CHECKING:
    from raycompat._scheduler.functions import Functions
    from raycompat._scheduler.lines import Line


@dataclass(slots=True)
class Call:
    """A call in the scheduler, from its submission until Dask forgets its key."""

    spec: CallSpec
    owner: str
    request: ResourceSet
    strategy: Strategy
    retries: int
    since: float = 0.0
    address: str | None = None
    #: Its start on a node, in seconds since 1970, and the process that ran it there.
    started: float = 0.0
    pid: int | None = None
    #: How long its phases took, if it has succeeded.
    phases: Phases = field(default_factory=Phases)
    holding: Holding | None = None
    #: Whether it is about to fail and must not start again.
    is_doomed: bool = False
    is_cancelled: bool = False
    #: Whether the process that used its accelerators has ended.
    is_freed: bool = False
    #: Whether its dependencies are ready and it is on no node.
    is_ready: bool = False
    #: The line in which it waits.
    line: Line | None = None
    #: Whether its owner runs it by a lease; the node that stores its results, and the results.
    runs_by_lease: bool = False
    results: tuple[str, list[Any]] | None = None
    #: Small results that its owner has, until Dask knows that the node has stored them. If the node
    #: dies before that, another node stores them, if there is one, and the call does not run again.
    sent: list[Any] | None = None


class CallTable:
    """All calls, by key, by owner, and by placement group."""

    def __init__(self, functions: Functions) -> None:
        self._functions = functions
        self.by_key: dict[str, Call] = {}
        #: The calls that hold resources.
        self.holding: dict[str, Call] = {}
        #: The calls by owner, and those in placement groups by group.
        self._by_owner: dict[str, dict[str, Call]] = {}
        self._by_group: dict[str, dict[str, Call]] = {}

    def enter(self, key: str, call: Call) -> None:
        """Add a call."""
        self.by_key[key] = call
        self._functions.call_came(call.spec["function"])
        self._by_owner.setdefault(call.owner, {})[key] = call
        if isinstance(call.strategy, InGroup):
            self._by_group.setdefault(call.strategy.group, {})[key] = call

    def strike_out(self, key: str) -> None:
        """Remove a call, if it is there."""
        call = self.by_key.pop(key, None)
        if call is None:
            return
        self._functions.call_left(call.spec["function"])
        _remove_from(self._by_owner, call.owner, key)
        if isinstance(call.strategy, InGroup):
            _remove_from(self._by_group, call.strategy.group, key)

    def of_owner(self, client: str) -> Mapping[str, Call]:
        """Return the calls that a client owns, by key."""
        return self._by_owner.get(client, {})

    def in_group(self, group: str) -> list[str]:
        """Return the keys of the calls in a placement group."""
        return list(self._by_group.get(group, ()))


def group_of(call: Call | None) -> str | None:
    """Return the id of the placement group that a call is in."""
    strategy = call.strategy if call is not None else None
    return strategy.group if isinstance(strategy, InGroup) else None


def _remove_from(index: dict[str, dict[str, Call]], name: str, key: str) -> None:
    calls = index[name]
    del calls[key]
    if not calls:
        del index[name]
