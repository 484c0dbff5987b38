"""The named actor through which the members of a group find each other.

It answers when all ranks have joined, and creates the token with which they authenticate each other. It
ends with the process that made it, after that process has connected to all other ranks.
"""

from __future__ import annotations

import asyncio
import secrets
from dataclasses import dataclass, field
from typing import Any

from raycompat import _api, actor
from raycompat._host import clock
from raycompat.exceptions import ActorDiedError, GetTimeoutError, RayTaskError
from raycompat.object_ref import ObjectRef
from raycompat.util._internal_actors import internal_actor
from raycompat.util.collective.types import CollectiveError, CollectiveTimeoutError

#: Bytes of a group's token.
_TOKEN_BYTES = 32

#: Seconds for a member that has timed out to ask which ranks are missing.
_ASK_S = 10.0


@dataclass(frozen=True)
class Declared:
    """The declaration of a group by `create_collective_group`.

    Parameters
    ----------
    ranks : dict
        The rank of each actor, by the actor's id in hexadecimal digits.
    """

    world_size: int
    ranks: dict[str, int]
    backend: str
    gloo_timeout: int


@dataclass
class Roster:
    """The rows of all ranks, by rank, and a secret that only they know."""

    token: bytes
    rows: list[Any]


@dataclass
class _Table:
    """The ranks that have joined so far."""

    world_size: int
    rows: dict[int, Any] = field(default_factory=dict)
    waiting: dict[int, asyncio.Future[Roster]] = field(default_factory=dict)


class _MeetingIsOver(Exception):
    """The member that made the meeting has failed."""


class _Meeting:
    """The actor; it runs in one event loop."""

    def __init__(self, declared: Declared | None = None, maker: str | None = None) -> None:
        self._declared = declared
        self._maker = maker
        self._tables: dict[str, _Table] = {}

    async def wait_for_end(self) -> None:
        """Wait without end: the call fails when the meeting is ended."""
        await asyncio.get_running_loop().create_future()

    async def get_declared(self) -> Declared | None:
        return self._declared

    async def join(self, stage: str, world_size: int, rank: int, row: Any) -> Roster:
        table = self._tables.setdefault(stage, _Table(world_size))
        if table.world_size != world_size:
            error = ValueError(
                f"The members of a group give different world sizes: {table.world_size}, and "
                f"{world_size} at rank {rank}."
            )
            self._fail(stage, error)
            raise error
        replaced = table.waiting.pop(rank, None)
        if replaced is not None and not replaced.done():
            replaced.set_exception(
                ValueError(
                    f"Another process joined the group as rank {rank}. Give each process a different "
                    "rank."
                )
            )
        mine = table.waiting[rank] = asyncio.get_running_loop().create_future()
        table.rows[rank] = row
        if len(table.rows) == world_size:
            del self._tables[stage]
            token = secrets.token_bytes(_TOKEN_BYTES)
            for future in table.waiting.values():
                future.set_result(Roster(token, [table.rows[each] for each in range(world_size)]))
        roster: Roster = await mine
        return roster

    def _fail(self, stage: str, error: Exception) -> None:
        for future in self._tables.pop(stage).waiting.values():
            future.set_exception(error)

    async def give_up(self, stage: str, rank: int, row: Any) -> list[int]:
        """Remove a member from a stage's table; return the ranks that are missing."""
        table = self._tables.get(stage)
        if table is None:
            return []
        missing = [each for each in range(table.world_size) if each not in table.rows]
        if table.rows.get(rank) == row:  # otherwise another process has joined with this rank
            del table.rows[rank]
            table.waiting.pop(rank).set_result(Roster(b"", []))  # no process waits for it
        if not table.rows:
            del self._tables[stage]
        return missing

    async def leave(self, member: str) -> None:
        """End if the member that made this meeting fails: the others meet again without it.

        Otherwise this actor, which no handle keeps alive, would go on until the last of them gives up,
        and members that come later would meet elsewhere.
        """
        if member == self._maker:
            for stage in list(self._tables):
                self._fail(stage, _MeetingIsOver())
            actor.exit_actor()


_meetings = internal_actor(_Meeting)


def name_of(group_name: str) -> str:
    """Return the name of the actor of a group's meeting."""
    return f"info_{group_name}"


def declare(group_name: str, declared: Declared) -> tuple[Any, ObjectRef[None]]:
    """Create the meeting of a group with declared ranks.

    Returns
    -------
    ActorHandle
        Keeps the meeting alive.
    ObjectRef
        Fails when the meeting is ended.

    Raises
    ------
    ValueError
        When the group already has a meeting.
    """
    meeting: Any = _meetings.options(name=name_of(group_name), num_cpus=0).remote(declared)
    _api.get(meeting.get_declared.remote())
    return meeting, meeting.wait_for_end.remote()


def declared(group_name: str) -> Declared | None:
    """Return the declaration of a group; None if there is none."""
    try:
        meeting: Any = actor.get_actor(name_of(group_name))
        found: Declared | None = _api.get(meeting.get_declared.remote())
    except (ValueError, ActorDiedError):
        return None
    return found


class Membership:
    """One rank's part in the meeting of a group.

    The handle keeps the meeting alive if this process made it, so drop it only when the group is
    complete.

    Parameters
    ----------
    timeout_s : float
        Seconds for all steps here together.
    """

    def __init__(self, group_name: str, world_size: int, rank: int, timeout_s: float) -> None:
        self._group_name, self._world_size, self._rank = group_name, world_size, rank
        self._timeout_s = timeout_s
        self._deadline = clock.monotonic() + timeout_s
        self._id = secrets.token_hex(_TOKEN_BYTES)
        self._meeting: Any = None

    def remaining_s(self) -> float:
        """Return how many seconds are left; 0 when the time is up."""
        return max(0.0, self._deadline - clock.monotonic())

    def join(self, stage: str, row: Any) -> Roster:
        """Send a row to all ranks, and return the rows of all.

        Raises
        ------
        CollectiveTimeoutError
            When ranks are missing.
        CollectiveError
            When the members do not agree on size or ranks.
        """
        try:
            return self._join(stage, row)
        except CollectiveError:
            self._meeting.leave.remote(self._id)
            raise

    def _join(self, stage: str, row: Any) -> Roster:
        name = name_of(self._group_name)
        while True:
            options = _meetings.options(name=name, get_if_exists=True, num_cpus=0)
            self._meeting = options.remote(maker=self._id)
            answer = self._meeting.join.remote(stage, self._world_size, self._rank, row)
            try:
                roster: Roster = _api.get(answer, timeout=self.remaining_s())
            except GetTimeoutError:
                raise self._too_late(stage, row) from None
            except ActorDiedError:
                # The meeting belonged to an earlier group of this name, or to a member that has died:
                # the remaining ranks meet again.
                if not self.remaining_s():
                    raise self._too_late(stage, row) from None
            except RayTaskError as error:
                if not isinstance(error.cause, _MeetingIsOver):
                    raise CollectiveError(str(error.cause)) from None
            else:
                return roster

    def _too_late(self, stage: str, row: Any) -> CollectiveTimeoutError:
        missing: list[int] = []
        try:
            call = self._meeting.give_up.remote(stage, self._rank, row)
            missing = _api.get(call, timeout=_ASK_S)
        except (ActorDiedError, GetTimeoutError):
            pass  # then the missing ranks are unknown
        who = f"ranks {missing} of {self._world_size}" if missing else "other ranks"
        return CollectiveTimeoutError(
            f"The group {self._group_name!r} is not complete: {who} did not join within "
            f"{self._timeout_s:g} s. Check that every member calls init_collective_group with the same "
            "name and world size, or give a longer gloo_timeout.",
            tuple(missing),
        )

    def leave(self) -> None:
        """Release the meeting: every rank is connected to this one, so all have the roster."""
        self._meeting = None
