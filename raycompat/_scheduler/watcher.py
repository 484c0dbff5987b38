"""What the parts report to those who watch: pages, the state API, and figures."""

from __future__ import annotations

from typing import TYPE_CHECKING

from raycompat._protocol.plain import Row

if TYPE_CHECKING:
    from raycompat._protocol.spans import Failure
    from raycompat._scheduler.actor_directory import ActorRow
    from raycompat._scheduler.call_table import Call
    from raycompat._scheduler.job_table import Job


class Watcher:
    """One who watches; this one ignores everything."""

    def ran(
        self,
        key: str,
        *,
        failed: bool,
        startstops: list[Row] | None,
        worker: str,
        thread: int = 0,
        **_: object,
    ) -> None:
        """Hear of a call that the scheduler sent to a node: when, where, and in which thread it ran."""

    def failed(self, key: str) -> None:
        """Hear of a call that failed before it ran."""

    def forgotten(self, key: str) -> None:
        """Hear of a task or value that Dask forgets."""

    def tried(self, key: str, worker: str, failure: Failure) -> None:
        """Hear of a failed try of a call, which its node tries again."""

    def actor_came(self, row: ActorRow, call: Call) -> None:
        """Hear of an actor that accepts calls now."""

    def actor_failed(self, row: ActorRow, call: Call, error: bytes) -> None:
        """Hear of an actor that died before it accepted calls."""

    def actor_died(self, row: ActorRow, error: bytes) -> None:
        """Hear of an actor that has died."""

    def actor_left(self, row: ActorRow) -> None:
        """Hear of an actor that is about to be forgotten."""

    def job_left(self, job: Job) -> None:
        """Hear of a job that has ended."""

    def process_left(self, who: str) -> None:
        """Hear of a node or client that has left."""
