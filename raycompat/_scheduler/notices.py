"""Notices to drivers about requests that wait in vain: no node can provide the resources, or actors
and placement groups hold them.

There is one notice for each line of calls and for each placement group, after ten seconds of waiting.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING, NamedTuple

from raycompat._protocol.resource_set import ResourceSet
from raycompat._protocol.strategy import InGroup, Strategy
from raycompat._scheduler.affinity import admitted, choices
from raycompat._scheduler.arrangement import arrange

if TYPE_CHECKING:
    from raycompat._scheduler.capacity import Capacity, Holding
    from raycompat._scheduler.dispatcher import Dispatcher
    from raycompat._scheduler.ground import Ground
    from raycompat._scheduler.group_row import Group, Wish
    from raycompat._scheduler.groups import Groups
    from raycompat._scheduler.lines import Line
    from raycompat._scheduler.logs import Logs
    from raycompat._scheduler.placer import Placer

#: Seconds that a request waits before its driver gets a notice.
PATIENCE_S = 10.0

#: Seconds between two checks at least: one check costs time in which the scheduler does nothing else.
_PAUSE_S = 1.0

#: How many holders of one kind a notice names.
_MANY_HOLDERS = 5

#: Returns a text with its values, in the language of a reader.
Say = Callable[..., str]


def english(text: str, **values: object) -> str:
    """Return a text with its values, for drivers."""
    return text.format(**values)


class Why(NamedTuple):
    """Why a request waits."""

    text: str
    #: Whether nothing that happens by itself will let it run.
    is_in_vain: bool = True


class Notices:
    """The notices about calls and placement groups that wait in vain."""

    def __init__(
        self,
        ground: Ground,
        dispatcher: Dispatcher,
        groups: Groups,
        logs: Logs,
        placer: Placer,
    ) -> None:
        self._ground = ground
        self._dispatcher = dispatcher
        self._groups = groups
        self._logs = logs
        self._placer = placer
        self._is_due = False

    def look_later(self) -> None:
        """Check the requests that wait now, once they have waited long enough."""
        if not self._is_due:
            self._is_due = True
            asyncio.get_running_loop().call_later(self._until_due(), self._look)

    def _until_due(self) -> float:
        """Return the seconds until the next request has waited for a multiple of ten seconds."""
        calls, now = self._ground.calls.by_key, time.monotonic()
        since = [calls[line.first].since for line in self._dispatcher.lines() if not line.is_told]
        since += [row.since for row in self._groups.waiting() if not row.is_told]
        due = min((PATIENCE_S - (now - each) % PATIENCE_S for each in since), default=PATIENCE_S)
        return max(due, _PAUSE_S) + 0.1

    def _look(self) -> None:
        self._is_due = False
        later = self.later()
        for line in self._dispatcher.lines():
            if not line.is_told and (text := self._about_line(line, later)):
                line.is_told = True
                self._logs.tell(self._ground.calls.by_key[line.first].spec["job"], text)
        whys: dict[Wish, Why] = {}
        for row in self._groups.waiting():
            if not row.is_told and (text := self._about_group(row, later, whys)):
                row.is_told = True
                self._logs.tell(row.spec["job"], text)
        self._ground.next_round.soon()  # which calls `look_later` if something still waits

    def later(self) -> list[Capacity]:
        """Return the nodes as they will be when all running calls have ended, for `why`."""
        return self._ground.ledger.without(self._ending(), self._ground.drains.staying())

    def _about_line(self, line: Line, later: Sequence[Capacity]) -> str | None:
        call, (_, request, strategy) = self._ground.calls.by_key[line.first], line.shape
        waited_s = time.monotonic() - call.since
        why = self.why(line, later) if waited_s >= PATIENCE_S else None
        if why is None or not why.is_in_vain:
            return None
        what = f"{call.spec['name']} has waited {waited_s:.0f} s"
        return f"raycompat: {what} for {request}{where(strategy)}: {why.text}"

    def why(self, line: Line, later: Sequence[Capacity], say: Say = english) -> Why:
        """Return why a line waits. Many lines are checked against one copy of the nodes, `later`."""
        _, request, strategy = line.shape
        if not self._placer.is_feasible(request, strategy):
            if self._ground.nodes.may_come():
                return _comes(say)
            text = say(
                "no node can ever provide that. The largest node has {largest}, the cluster in total "
                "{total}. Ask for less, or add a node that has it.",
                largest=self._ground.ledger.largest_node(request).text_of(request),
                total=self._ground.ledger.cluster_total().text_of(request),
            )
            return Why(text)
        if isinstance(strategy, InGroup):
            bundles = self._groups.bundles(strategy)
            if not self._is_full(bundles, request):
                return _ends(say)
            return self._held_by(request.units(), bundles, say)
        nodes = self._ground.nodes.info
        wanted = choices(strategy, request, nodes, self._ground.ledger)
        staying = set(self._ground.drains.staying())
        if not any(
            self._ground.ledger.feasible(
                request, staying.intersection(nodes if only is None else only)
            )
            for only in wanted
        ):
            text = say(
                "the nodes that can provide it are drained: no new call starts there. Add a node."
            )
            return Why(text)
        allowed = [
            node for node in later if any(only is None or node.node_id in only for only in wanted)
        ]
        if any(node.fits(request) for node in allowed):
            return _ends(say)
        return self._held_by(self._short(request, allowed), None, say)

    def _short(self, request: ResourceSet, allowed: Sequence[Capacity]) -> Collection[str]:
        """Return the resources that the allowed nodes lack; all, if each alone would fit."""
        each = {
            name: ResourceSet.from_units({name: units}) for name, units in request.units().items()
        }
        short = [
            name for name, alone in each.items() if not any(node.fits(alone) for node in allowed)
        ]
        return short or list(each)

    def _about_group(
        self, row: Group, later: Sequence[Capacity], whys: dict[Wish, Why]
    ) -> str | None:
        waited_s = time.monotonic() - row.since
        if waited_s < PATIENCE_S:
            return None
        wish = row.wish()
        if wish not in whys:
            whys[wish] = self.why_group(row, wish, later)
        why = whys[wish]
        if not why.is_in_vain:
            return None
        name = f" {row.spec['name']}" if row.spec["name"] else ""
        return (
            f"raycompat: a placement group{name} has waited {waited_s:.0f} s for the bundles "
            f"{wanted(wish)}: {why.text}"
        )

    def why_group(
        self, row: Group, wish: Wish, later: Sequence[Capacity], say: Say = english
    ) -> Why:
        """Return why a group waits, as `why`."""
        if not self._groups.keeper.is_feasible(row):
            if self._ground.nodes.may_come():
                return _comes(say)
            total = self._ground.ledger.cluster_total().text_of(_names(wish.bundles))
            text = say(
                "no nodes can ever provide that. The cluster has in total {total}. Ask for less, or "
                "add nodes that also have the labels."
                if wish.selectors
                else "no nodes can ever provide that. The cluster has in total {total}. Ask for less, "
                "or add nodes.",
                total=total,
            )
            return Why(text)
        allowed = admitted(wish.selectors, self._ground.nodes.info)
        nodes = [node.copy() for node in later]
        if arrange(wish.bundles, wish.strategy, nodes, wish.beside, allowed) is not None:
            return _ends(say)
        return self._held_by(_names(wish.bundles), None, say)

    # --- resources that will be free, and the holders of the others -----------------------------

    def _ending(self) -> list[Holding]:
        """Return the holdings of leases and of calls that end by themselves."""
        calls = self._ground.calls.holding.values()
        return [
            call.holding
            for call in calls
            if call.holding is not None and call.spec["kind"] != "actor"
        ]

    def _is_full(self, bundles: Collection[Holding], request: ResourceSet) -> bool:
        """Return whether actors hold so much of all these bundles that a request fits into none."""
        ledger, ending = self._ground.ledger, self._ending()
        return bool(bundles) and not any(
            ledger.fits_without(
                bundle,
                request,
                [each.resources for each in ending if ledger.place_of(each) is bundle],
            )
            for bundle in bundles
        )

    def _held_by(
        self, wanted: Collection[str], bundles: Collection[Holding] | None, say: Say
    ) -> Why:
        """Return a text that names the actors and groups that hold the wanted resources."""
        holders = self._actors_with(wanted, bundles, say)
        if bundles is None:
            holders += [
                say("the placement group {group} ({bundles})", group=row.id, bundles=row.bundles)
                for row in self._groups.placed()
                if any(bundle.get(name) for bundle in row.bundles for name in wanted)
            ]
        shown = say(", ").join(holders[:_MANY_HOLDERS])
        others = len(holders) - _MANY_HOLDERS
        if others > 0:
            shown = say("{shown} and {others} more", shown=shown, others=others)
        text = say(
            "actors or placement groups hold it: {shown}. End those that you do not need (ray.kill, "
            "remove_placement_group), ask for less (an actor that is made without num_cpus holds no "
            "CPU), or add a node.",
            shown=shown,
        )
        return Why(text)

    def _actors_with(
        self, wanted: Collection[str], bundles: Collection[Holding] | None, say: Say
    ) -> list[str]:
        counts: Counter[str] = Counter()
        for key, call in self._ground.calls.holding.items():
            holding = call.holding
            if holding is None or call.spec["kind"] != "actor":
                continue
            place = self._ground.ledger.place_of(holding)
            is_there = isinstance(place, str) if bundles is None else place in bundles
            if is_there and any(holding.resources.get(name) for name in wanted):
                counts[f"{self._ground.actors.rows[key].class_name} ({holding.resources})"] += 1
        return [
            say("{count} of the actor {name}", count=count, name=name)
            for name, count in counts.most_common()
        ]


def _ends(say: Say) -> Why:
    text = say("calls that run now hold it; this starts when they end")
    return Why(text, is_in_vain=False)


def _comes(say: Say) -> Why:
    text = say("no node has it now, but a node that has just joined or left may bring it")
    return Why(text, is_in_vain=False)


def _names(bundles: Collection[ResourceSet]) -> list[str]:
    """Return the names of the resources in bundles, each once."""
    return list(dict.fromkeys(name for each in bundles for name in each))


def wanted(wish: Wish) -> str:
    """Return a text about the bundles that a group lacks, its strategy, and their selectors."""
    bundles = f"{list(wish.bundles)} ({wish.strategy})"
    if not wish.selectors:
        return bundles
    rules = ["; ".join(map(str, each)) or "any node" for each in wish.selectors]
    return f"{bundles} on nodes whose labels obey [{'], ['.join(rules)}]"


def where(strategy: Strategy) -> str:
    """Return a text about the place that a call asks for, to follow its request; empty for any node."""
    if isinstance(strategy, InGroup):
        bundle = "" if strategy.index == -1 else f", bundle {strategy.index}"
        return f" in the placement group {strategy.group}{bundle}"
    return "" if isinstance(strategy, str) else f" ({strategy})"
