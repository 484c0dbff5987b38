"""The combination of reports: the n-th report of a run consists of the n-th report of each rank.

It only stores data; the controller reads it and acts.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from raycompat.train._checkpoint import Checkpoint
from raycompat.train._session import Reported, Saved


@dataclass
class Round:
    """One report of all ranks.

    Attributes
    ----------
    reports : dict of int to Reported
        The reports of the ranks so far.
    saved : dict of int to Saved
        The saved checkpoints of the ranks so far.
    name : str or None
        The checkpoint's folder, after all ranks have reported.
    """

    reports: dict[int, Reported] = field(default_factory=dict)
    saved: dict[int, Saved] = field(default_factory=dict)
    name: str | None = None

    @property
    def savers(self) -> list[int]:
        """The ranks that have a checkpoint."""
        return [rank for rank, report in sorted(self.reports.items()) if report.has_checkpoint]

    @property
    def is_saved(self) -> bool:
        """Whether all ranks have reported, and all that have a checkpoint have saved it."""
        return self.name is not None and all(rank in self.saved for rank in self.savers)

    @property
    def elsewhere(self) -> Checkpoint | None:
        """The folder in which the training function saved the checkpoint itself; None: the run's."""
        return next((self.saved[rank].elsewhere for rank in self.savers), None)


class Rounds:
    """The reports of a try.

    Parameters
    ----------
    num_workers : int
        Number of ranks.
    """

    def __init__(self, num_workers: int) -> None:
        self._num_workers = num_workers
        self._open: dict[int, Round] = {}
        self._returned: dict[int, int] = {}
        self._next = 0

    def add_report(self, rank: int, report: Reported) -> Round | None:
        """Take a report in; return its round when it was the last one that was missing."""
        round_ = self._open.setdefault(report.index, Round())
        round_.reports[rank] = report
        return round_ if len(round_.reports) == self._num_workers else None

    def add_saved(self, rank: int, saved: Saved) -> None:
        """Take in that a rank has saved its part."""
        self._open[saved.index].saved[rank] = saved

    def pop_saved(self) -> tuple[int, Round] | None:
        """Return the next round that is whole, with its number, in their order; None: not yet."""
        round_ = self._open.get(self._next)
        if round_ is None or not round_.is_saved:
            return None
        del self._open[self._next]
        self._next += 1
        return self._next - 1, round_

    def add_return(self, rank: int, num_reports: int) -> None:
        """Record the end of a rank's training function, after `num_reports` reports."""
        self._returned[rank] = num_reports

    def incomplete(self) -> tuple[int, list[int], list[int]] | None:
        """Return the first report that only some of the ranks have made.

        Returns
        -------
        tuple of int, list of int, list of int, or None
            The report's number from 0, the ranks that wait in it, and the ranks that are missing.
        """
        for index, round_ in sorted(self._open.items()):
            missing = [rank for rank in range(self._num_workers) if rank not in round_.reports]
            if missing:
                return index, sorted(round_.reports), missing
        return None

    def mismatch(self) -> dict[int, str]:
        """Return why ranks wait in a report that others will never make, by rank."""
        found: dict[int, str] = {}
        for index, round_ in self._open.items():
            ended = sorted(rank for rank, number in self._returned.items() if number <= index)
            if not ended:
                continue
            text = (
                f"It waits in its report number {index + 1}, but the training function has returned "
                f"on rank {', '.join(map(str, ended))} after {self._returned[ended[0]]} reports. Every "
                "rank must call train.report() equally often."
            )
            found.update(dict.fromkeys(round_.reports, text))
        return found
