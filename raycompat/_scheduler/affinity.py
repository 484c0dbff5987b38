"""The nodes that a call's strategy allows. Pure functions."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from raycompat._protocol.strategy import ByLabels, LabelRule, OnNode, Selecting, Strategy

if TYPE_CHECKING:
    from raycompat._protocol.resource_set import ResourceSet
    from raycompat._scheduler.ledger import Ledger

#: The reports of nodes, by address.
Nodes = Mapping[str, Mapping[str, Any]]


def choices(
    strategy: Strategy, request: ResourceSet, nodes: Nodes, ledger: Ledger
) -> list[Collection[str] | None]:
    """Return sets of addresses that a call may use, the best set first; None is any node.

    An empty list: no such node exists, or will exist.
    """
    if isinstance(strategy, Selecting):
        return _selected(strategy, request, nodes, ledger)
    if isinstance(strategy, OnNode):
        return _on_node(strategy, request, nodes, ledger)
    if isinstance(strategy, ByLabels):
        meant = _obeying(strategy.hard, nodes, nodes)
        preferred = _obeying(strategy.soft, meant, nodes) if strategy.soft else []
        return [preferred, meant] if preferred else [meant]
    return [None]


def _on_node(
    strategy: OnNode, request: ResourceSet, nodes: Nodes, ledger: Ledger
) -> list[Collection[str] | None]:
    there = [address for address, info in nodes.items() if info["node_id"] == strategy.node_id]
    if there and ledger.feasible(request, there):
        return [there, None] if strategy.may_spill else [there]
    return [None] if strategy.is_soft else []


def _selected(
    strategy: Selecting, request: ResourceSet, nodes: Nodes, ledger: Ledger
) -> list[Collection[str] | None]:
    found: list[Collection[str] | None] = []
    for rules in strategy.selectors:
        admitted = _obeying(rules, nodes, nodes)
        among = {address: nodes[address] for address in admitted}
        found += [
            admitted if allowed is None else allowed
            for allowed in choices(strategy.base, request, among, ledger)
        ]
    return found


def admitted(
    selectors: Iterable[Collection[LabelRule]], nodes: Nodes
) -> tuple[frozenset[str] | None, ...]:
    """Return the addresses that obey each selector; None is any node."""
    return tuple(frozenset(_obeying(rules, nodes, nodes)) if rules else None for rules in selectors)


def _obeying(
    rules: Collection[LabelRule], addresses: Collection[str], nodes: Nodes
) -> Collection[str]:
    return [
        address
        for address in addresses
        if all(rule.admits(nodes[address]["labels"]) for rule in rules)
    ]
