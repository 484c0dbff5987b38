"""``raycompat drain-node``: let a node close without an end to what runs there."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING, Any

import click

from raycompat._cli.completion import Connect
from raycompat._cli.state import StateCommand
from raycompat._messages.nodes import IDLE_TERMINATION, PREEMPTION, ClusterState, DrainNode

if TYPE_CHECKING:
    from raycompat.util.state.client import StateApiClient

#: Seconds for the cluster to answer.
_TIMEOUT_S = 30


def drain_node(connect: Connect) -> click.Command:
    """Return the command `drain-node`."""

    @click.command(
        "drain-node", cls=StateCommand, short_help="Let a node close when its calls have ended."
    )
    @click.option(
        "--node-id",
        metavar="HEX",
        help="The id of the node, or its beginning (`raycompat list nodes`).  [default: the node of "
        "this machine]",
    )
    @click.option(
        "--reason",
        required=True,
        type=click.Choice((IDLE_TERMINATION, PREEMPTION)),
        help="The first one is refused while calls, actors or bundles hold resources of the node.",
    )
    @click.option("--reason-message", required=True, metavar="TEXT", help="The reason, for users.")
    @click.option(
        "--deadline-remaining-seconds",
        type=click.IntRange(0, 10 * 365 * 86_400),
        help="Seconds after which the node closes although calls run there.  [default: no limit]",
    )
    def drain(
        node_id: str | None,
        reason: str,
        reason_message: str,
        deadline_remaining_seconds: int | None,
        **given: Any,
    ) -> None:
        """Start no more calls on a node, and close it when what runs there has ended.

        The private cluster of a program is not changed unless you name it by --address or RAY_ADDRESS.

        Its values move to other nodes. Actors that have restarts left start again on other nodes when
        the node closes at its deadline.

        Example: raycompat drain-node --node-id 5f2a --reason DRAIN_NODE_REASON_PREEMPTION
        --reason-message "the machine is given back" --deadline-remaining-seconds 600
        """
        client = connect(given)
        node = node_id if node_id is not None else _here(client)
        request = DrainNode(node, reason, reason_message, deadline_remaining_seconds)
        client.ask(request, _TIMEOUT_S)
        limit = deadline_remaining_seconds
        late = "" if limit is None else f", or in {limit} s at the latest"
        click.echo(
            f"No more calls start on the node {node}. It closes when its calls, actors and bundles "
            f"have ended{late}."
        )

    return drain


def _here(client: StateApiClient) -> str:
    """Return the id of the only node on this machine."""
    nodes = client.ask(ClusterState(), _TIMEOUT_S)["nodes"]
    here = [node["node_id"] for node in nodes if node["hostname"] == socket.gethostname()]
    if len(here) != 1:
        raise click.UsageError(
            f"{len(here)} nodes of the cluster are on this machine. Name one with --node-id: "
            "`raycompat list nodes` shows the ids."
        )
    return str(here[0])
