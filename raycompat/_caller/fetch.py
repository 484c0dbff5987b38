"""Fetching values from the cluster: the home node gets them from any node that has them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING

from raycompat._host import segment
from raycompat._messages.objects import Fetch, Locate
from raycompat._protocol import failures
from raycompat._protocol.message import ask
from raycompat._protocol.plain import Row
from raycompat._protocol.values import InlineValue, SegmentLink, from_wire

if TYPE_CHECKING:
    from raycompat._caller.membership import Membership
    from raycompat._caller.object_table import Entry

logger = logging.getLogger(__name__)

#: Seconds for the scheduler to name a node that this process can reach.
_UNREACHABLE_S = 30.0


async def fetch(session: Membership, entries: Sequence[Entry]) -> None:
    """Fetch values to this host. Called in the session's event loop."""
    keys = [session.sharing.publish(entry) for entry in entries]
    for entry, answer in zip(entries, await _ask_for(session, keys), strict=True):
        if "block" in answer:
            session.settle(entry, InlineValue(bytes(answer["block"]), tuple(answer["refs"])))
            continue
        value = from_wire(answer["wire"])
        if isinstance(value, SegmentLink):
            _take(session, entry, value)
        else:
            session.settle(entry, value)


def _take(session: Membership, entry: Entry, link: SegmentLink) -> None:
    try:
        path = segment.take(link.path, session.home.place.store)
    except FileNotFoundError:  # removed in the meantime: a later `get` fetches again
        return
    mine = SegmentLink(path, link.size, link.host, link.refs)
    session.table.settle(entry, value=mine, own_segment=True)
    if entry.value is not mine:  # another thread has fetched it too
        session.home.place.remove(path)


async def _ask_for(session: Membership, keys: list[str]) -> list[Row]:
    asked = asyncio.ensure_future(_ask_node(session, session.home.address, keys))
    left = asyncio.ensure_future(session.home_left.wait())
    await asyncio.wait({asked, left}, return_when=asyncio.FIRST_COMPLETED)
    left.cancel()
    try:
        if asked.done():
            return asked.result()
        asked.cancel()  # Dask would try to connect for some time
    except OSError:  # the node cannot be reached
        pass
    return [await _ask_a_holder(session, key) for key in keys]  # each key from a node that has it


async def _ask_node(session: Membership, node: str, keys: list[str]) -> list[dict[str, object]]:
    """Ask a node for values; through the scheduler when this process cannot reach the node.

    Raises
    ------
    OSError
        When the scheduler cannot reach the node either.
    """
    from raycompat._dask import client as adapter

    question = Fetch(node, keys, session.setup.host)
    if session.setup.reaches_nodes and node not in session.out_of_reach:
        try:
            answers = await adapter.ask_worker(session.client, node, question)
        except OSError as error:
            logger.debug("no connection to the node %s: %r", node, error)
        else:
            return answers
    answers = await ask(session.client.scheduler, question)
    session.out_of_reach.add(node)
    return answers


async def _ask_a_holder(session: Membership, key: str) -> dict[str, object]:
    """Ask the nodes that have a value; if none of them answers, the value is computed again."""
    scheduler = session.client.scheduler
    unreachable: list[str] = []
    while True:
        asked = ask(scheduler, Locate([key], unreachable))
        try:
            located = await asyncio.wait_for(asked, _UNREACHABLE_S if unreachable else None)
        except TimeoutError:
            return {"wire": ("error", failures.fetch_timed_out(key), ())}
        if key in located["errors"]:
            return {"wire": ("error", located["errors"][key], ())}
        for holder in located["holders"][key]:
            try:
                return (await _ask_node(session, holder, [key]))[0]
            except OSError:  # the node has died, or cannot be reached
                unreachable.append(holder)
