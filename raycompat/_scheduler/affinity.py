"""Which nodes a call may go to by its strategy. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any

from raycompat._protocol.strategy import ByLabels, LabelRule, OnNode, Strategy

if TYPE_CHECKING:
    from raycompat._protocol.resource_set import ResourceSet
    from raycompat._scheduler.placement import Ledger

#: What nodes have reported, by address.
Nodes = Mapping[str, Mapping[str, Any]]


def choices(
    strategy: Strategy, request: ResourceSet, nodes: Nodes, ledger: Ledger
) -> list[Collection[str] | None]:
    """Return where a call may go: sets of addresses, the best first; None is any node.

    Empty: there is no such node, nor will there be.
    """
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


def _obeying(
    rules: Collection[LabelRule], addresses: Collection[str], nodes: Nodes
) -> Collection[str]:
    return [
        address
        for address in addresses
        if all(rule.admits(nodes[address]["labels"]) for rule in rules)
    ]
