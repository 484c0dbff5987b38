"""The meetings of ranks in `raycompat.train.collective`: the n-th call of each rank is one meeting.

It only stores data, as `_rounds` does; the controller reads it and answers.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from raycompat.train._session import Met


class Meetings:
    """The meetings of a try.

    Parameters
    ----------
    num_workers : int
        Number of ranks.
    """

    def __init__(self, num_workers: int) -> None:
        self._num_workers = num_workers
        self._next = 0
        #: The calls of the meeting that is next, by rank: each rank waits in its call.
        self._waiting: dict[int, Met] = {}
        self._returned: set[int] = set()

    def add(self, rank: int, call: Met) -> tuple[int, bytes | None] | None:
        """Take a call in; return the meeting's number and the value of rank 0 when all have come."""
        self._waiting[rank] = call
        if len(self._waiting) < self._num_workers or self._functions() != {call.function}:
            return None
        value = self._waiting[0].value
        self._waiting = {}
        self._next += 1
        return self._next - 1, value

    def add_return(self, rank: int) -> None:
        """Record the end of a rank's training function."""
        self._returned.add(rank)

    def incomplete(self) -> tuple[str, list[int], list[int]] | None:
        """Return the call in which ranks wait, with its number, these ranks and those missing."""
        if not self._waiting:
            return None
        missing = [rank for rank in range(self._num_workers) if rank not in self._waiting]
        function = " or ".join(sorted(self._functions()))
        call = f"call number {self._next + 1} in train.collective, {function}()"
        return call, sorted(self._waiting), missing

    def mismatch(self, reporting: Sequence[int]) -> dict[int, str]:
        """Return why ranks wait in a meeting that will never be complete, by rank.

        Parameters
        ----------
        reporting : sequence of int
            The ranks that wait for others in `report`.
        """
        if not self._waiting:
            return {}
        if self._returned:
            why = f"the training function has returned on rank {_listed(self._returned)}"
        elif len(self._waiting) + len(reporting) < self._num_workers:
            return {}
        elif reporting:
            why = f"rank {_listed(reporting)} waits in train.report()"
        else:
            why = "other ranks have called another function of train.collective"
        return {
            rank: f"It waits in train.collective.{call.function}(), but {why}. Every rank must make "
            "the same calls in the same order."
            for rank, call in self._waiting.items()
        }

    def _functions(self) -> set[str]:
        return {call.function for call in self._waiting.values()}


def _listed(ranks: Iterable[int]) -> str:
    return ", ".join(map(str, sorted(ranks)))
