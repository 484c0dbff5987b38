"""Placement groups: their bundles, the clients that wait for them, and their ends.

A group's bundles are grants in the ledger, and its calls get grants from the bundles. Bundles have no
processes, and nodes do not know them.
"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

from raycompat._messages.groups import AwaitGroup, CreateGroup, GroupReady, GroupRow, RemoveGroup
from raycompat._protocol import failures, label_selector
from raycompat._protocol.call_spec import GroupSpec
from raycompat._protocol.resource_set import ResourceSet
from raycompat._protocol.strategy import InGroup
from raycompat._scheduler.affinity import admitted
from raycompat._scheduler.group_row import Group, Wish
from raycompat._scheduler.keeping import Keeper

if TYPE_CHECKING:
    from raycompat._scheduler.actor_directory import ActorRow
    from raycompat._scheduler.actors import Actors
    from raycompat._scheduler.capacity import Holding
    from raycompat._scheduler.ground import Ground
    from raycompat._scheduler.leases import Leases

#: The number of removed groups that the table still shows.
_MANY_REMOVED = 1000


class Groups:
    """All placement groups, and their reservations."""

    def __init__(self, ground: Ground, actors: Actors, leases: Leases) -> None:
        self._ground = ground
        self._actors = actors
        self._dask = ground.dask
        #: The groups by id, in order of creation; and the groups that were removed last.
        self._rows: dict[str, Group] = {}
        self._removed: dict[str, Group] = {}
        self._collection_is_due = False
        self.keeper = Keeper(ground, leases)

    # --- requests from callers ------------------------------------------------------------------

    def create(self, client: str, message: CreateGroup) -> None:
        """Add a group."""
        self._create(message.spec)

    def _create(self, spec: GroupSpec) -> None:
        bundles = [ResourceSet.from_units(units) for units in spec["bundles"]]
        selectors = [label_selector.rules(each) for each in spec["label_selectors"]]
        number = len(bundles)
        self._rows[spec["group"]] = Group(spec, bundles, selectors, [None] * number, [""] * number)
        self._ground.next_round.soon()

    async def create_named(self, client: str, spec: GroupSpec) -> bool:
        """Add a group; False when its name is taken.

        Raises
        ------
        ValueError
            When the client has left.
        """
        while spec["job"] not in self._ground.jobs.open:  # the job's message is separate
            if client not in self._dask.clients():
                raise ValueError(f"{client} has left the cluster")
            await self._ground.next_change.wait()
        if self._find(spec["name"], spec["namespace"]) is not None:
            return False
        self._create(spec)
        return True

    def _find(self, name: str, namespace: str) -> Group | None:
        for row in self._rows.values():
            if (row.spec["name"], row.spec["namespace"]) == (name, namespace):
                return row
        return None

    async def find(self, name: str, namespace: str) -> str | None:
        """Return the id of the group with that name; None if there is none."""
        row = self._find(name, namespace)
        return row.id if row is not None else None

    async def table(self, group: str | None = None, is_living: bool = False) -> dict[str, GroupRow]:
        """Describe all groups, or one, by id; or those that were not removed."""
        rows = self._rows if is_living else {**self._removed, **self._rows}
        if group is not None:
            rows = {group: rows[group]} if group in rows else {}
        return {row.id: self._describe(row) for row in rows.values()}

    def _describe(self, row: Group) -> GroupRow:
        progress: str = "FINISHED" if row.state == "CREATED" else row.state
        if row.is_waiting:
            may_be_placed = self.keeper.is_feasible(row) or self._ground.nodes.may_come()
            progress = "QUEUED" if may_be_placed else "INFEASIBLE"
        return {
            "name": row.spec["name"],
            "strategy": row.spec["strategy"],
            "state": row.state,
            "bundles": [bundle.amounts() for bundle in row.bundles],
            "nodes": row.node_ids,
            "latency_s": row.latency_s,
            "num_attempts": row.num_attempts,
            "progress": progress,
        }

    def tell_when_ready(self, client: str, message: AwaitGroup) -> None:
        """Notify a client when all bundles of a group are reserved, or when it was removed."""
        group = message.group
        row = self._rows.get(group)
        if row is None:
            self._tell(client, group, failures.group_removed())
        elif row.state == "CREATED":
            self._tell(client, group, None)
        else:
            row.awaited_by.add(client)

    def _tell(self, client: str, group: str, error: bytes | None) -> None:
        self._dask.notify_client(client, GroupReady(group, error))

    def _tell_all(self, row: Group, error: bytes | None = None) -> None:
        clients, row.awaited_by = row.awaited_by, set()
        for client in clients:
            self._tell(client, row.id, error)

    # --- reservation ----------------------------------------------------------------------------

    def waiting(self) -> list[Group]:
        """Return the waiting groups, in the order in which they are served."""
        rows = [row for row in self._rows.values() if row.is_waiting]
        return sorted(rows, key=lambda row: row.state != "RESCHEDULING")

    def pending(self) -> list[dict[str, object]]:
        """Return the waiting groups with what they ask for."""
        may_come = self._ground.nodes.may_come()
        return [
            {
                "name": row.spec["name"],
                "strategy": row.spec["strategy"],
                "bundles": [bundle.amounts() for bundle in row.bundles],
                "is_feasible": may_come or self.keeper.is_feasible(row),
            }
            for row in self.waiting()
        ]

    def serve(self) -> None:
        """Reserve nodes for the waiting groups that fit."""
        waiting = self.waiting()
        running = self._ground.drains.accepting() if waiting else set()
        # The room tells soon that a group fits nowhere. One that has just come is tried at once.
        looks = len(waiting) > 1 or any(row.num_attempts for row in waiting)
        room = self._ground.ledger.room(running) if looks else None
        in_vain: set[Wish] = set()
        for row in waiting:
            wish = row.wish()
            row.num_attempts += 1
            if (room is not None and not room.may_take(wish.bundles)) or wish in in_vain:
                continue
            if self._try(row, wish, running):
                room = room and room.without(wish.bundles)
            else:
                in_vain.add(wish)
        self.keeper.update_turn([row for row in waiting if row.is_waiting], running)

    def _try(self, row: Group, wish: Wish, running: set[str]) -> bool:
        grants = self._ground.ledger.reserve(
            wish.bundles,
            wish.strategy,
            only=running - self.keeper.kept_from_groups(row.id),
            beside=wish.beside,
            allowed=admitted(wish.selectors, self._ground.nodes.info),
        )
        if grants is None:
            return False
        for number, grant in zip(row.homeless(), grants, strict=True):
            row.holdings[number] = grant
            row.node_ids[number] = self._ground.nodes.info[grant.node_id]["node_id"]
        if row.state == "PENDING":
            row.latency_s = time.monotonic() - row.created
        row.state = "CREATED"
        self._tell_all(row)
        return True

    def bundles(self, strategy: InGroup) -> list[Holding]:
        """Return the reserved bundles from which a call may take resources."""
        row = self._rows.get(strategy.group)
        holdings = row.holdings if row is not None else []
        if strategy.index != -1:
            holdings = holdings[strategy.index : strategy.index + 1]
        return [holding for holding in holdings if holding is not None]

    def node_left(self, address: str) -> None:
        """Place the bundles of a node that has left on other nodes."""
        for row in self._rows.values():
            if address in row.addresses():
                row.holdings = [
                    None if holding is None or holding.node_id == address else holding
                    for holding in row.holdings
                ]
                if row.state == "CREATED":
                    row.state, row.since = "RESCHEDULING", time.monotonic()

    # --- the end --------------------------------------------------------------------------------

    def is_gone(self, group: str) -> bool:
        """Return whether a group was removed, or never existed."""
        return group not in self._rows

    def remove(self, client: str, message: RemoveGroup) -> None:
        """Remove a group, and end its calls."""
        self._remove(message.group)

    def _remove(self, group: str) -> None:
        row = self._rows.pop(group, None)
        if row is None:
            return
        row.state = "REMOVED"
        for holding in row.holdings:
            if holding is not None:
                self._ground.ledger.release(holding)
        row.holdings = [None] * len(row.bundles)
        self._tell_all(row, failures.group_removed())
        for key in self._ground.calls.in_group(group):
            self._actors.end_call(key, self.why_it_is_gone(key))
        self._removed[group] = row
        if len(self._removed) > _MANY_REMOVED:
            del self._removed[next(iter(self._removed))]
        self._ground.next_round.soon()

    def why_it_is_gone(self, key: str) -> bytes:
        """Return the error for a call, or an actor, whose group was removed."""
        row = self._ground.actors.rows.get(key)
        if row is not None and row.address is not None:
            return failures.actor_died(failures.GROUP_REMOVED, key)
        return failures.group_removed(is_actor=row is not None)

    def actor_died(self, row: ActorRow, error: bytes) -> None:
        """Look for groups whose creator has died."""
        self.collect_soon()

    def collect_soon(self) -> None:
        """Remove the groups whose creators have ended, after the current work."""
        if not self._collection_is_due:
            self._collection_is_due = True
            asyncio.get_running_loop().call_soon(self._collect)

    def _collect(self) -> None:
        self._collection_is_due = False
        for row in list(self._rows.values()):
            job = self._ground.jobs.open.get(row.spec["job"])
            is_job_over = job is None or job.orphaned
            if not row.spec["detached"] and is_job_over and not self._lives(row.spec["actor"]):
                self._remove(row.id)

    def _lives(self, actor: str | None) -> bool:
        row = self._ground.actors.rows.get(actor or "")
        return row is not None and row.state != "DEAD"

    def all(self) -> list[Group]:
        """Return all groups that were not removed."""
        return list(self._rows.values())

    def removed(self) -> list[Group]:
        """Return the groups that were removed last."""
        return list(self._removed.values())

    def placed(self) -> list[Group]:
        """Return the groups whose bundles are all reserved."""
        return [row for row in self._rows.values() if row.state == "CREATED"]

    def living(self) -> list[str]:
        """Return the ids of all groups that were not removed."""
        return list(self._rows)
