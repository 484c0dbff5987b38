"""The ranks of a group meet, and connect to each other."""

from __future__ import annotations

import contextlib
import socket

from raycompat._host import mesh
from raycompat.util._node_address import get_node_ip_address
from raycompat.util.collective._meeting import Membership
from raycompat.util.collective._peers import Peer
from raycompat.util.collective.types import CollectiveTimeoutError


def connect(
    group_name: str, world_size: int, rank: int, timeout_s: float
) -> tuple[list[Peer], list[str]]:
    """Meet the other ranks of a group, and connect to each.

    Returns
    -------
    list of Peer
        The other ranks.
    list of str
        The place of each rank: ranks with equal ones share a host and a user.

    Raises
    ------
    CollectiveError, CollectiveTimeoutError
        When the ranks do not agree, or one cannot be reached in time.
    """
    membership = Membership(group_name, world_size, rank, timeout_s)
    with contextlib.ExitStack() as stack:
        unix_listener, unix = mesh.listen_unix(stack, world_size)
        roster = membership.join("places", (mesh.place(), unix))
        places = [where for where, _ in roster.rows]
        listeners: list[socket.socket] = [unix_listener]
        tcp: list[tuple[str, int] | None] = [None] * world_size
        if len(set(places)) > 1:
            listener, address = mesh.listen_tcp(stack, get_node_ip_address(), world_size)
            listeners.append(listener)
            tcp = membership.join(roster.token.hex(), address).rows
        own = mesh.Mesh(rank, membership, places, roster.token)
        stack.callback(own.close)
        try:
            for lower in range(rank):
                own.connect(lower, roster.rows[lower][1], tcp[lower])
        except mesh.UnreachableError as error:
            raise CollectiveTimeoutError(str(error), (error.rank,)) from error
        _accept_all(own, listeners, world_size, membership, timeout_s)
        peers = [Peer(other, *own.peers.pop(other)) for other in sorted(own.peers)]
    membership.leave()
    return peers, places


def _accept_all(
    own: mesh.Mesh,
    listeners: list[socket.socket],
    world_size: int,
    membership: Membership,
    timeout_s: float,
) -> None:
    while len(own.peers) < world_size - 1:
        if not own.accept_ready(listeners, membership.remaining_s()):
            missing = [
                rank for rank in range(world_size) if rank not in own.peers and rank != own._rank
            ]
            raise CollectiveTimeoutError(
                f"Ranks {missing} joined the group but did not connect to rank {own._rank} within "
                f"{timeout_s:g} s: their processes may have ended.",
                tuple(missing),
            )
