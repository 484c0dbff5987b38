"""Warns of ranks that keep the others waiting in `report` or in `collective`, or ends the wait.

Most are slow. Others wait for ranks that have already reported: TensorFlow's strategies add up
variables when a model is saved, so saving on one rank alone never ends.
"""

from __future__ import annotations

import logging
import os

from raycompat.train._meetings import Meetings
from raycompat.train._rounds import Rounds

_log = logging.getLogger("raycompat.train")

#: Ray's variable for the limit of a wait.
_TIMEOUT = "RAY_TRAIN_COLLECTIVE_TIMEOUT_S"
#: Seconds that ranks wait before a warning, and between two; Ray's variable and default.
_WARN_S = float(os.environ.get("RAY_TRAIN_COLLECTIVE_WARN_INTERVAL_S", "60"))


def _timeout_s() -> float | None:
    """Return the seconds after which a wait fails the run: Ray's variable; None: no limit, its default.

    Raises
    ------
    ValueError
        When the variable is not a number.
    """
    value = os.environ.get(_TIMEOUT, "None")
    try:
        return None if value == "None" else float(value)
    except ValueError:
        text = f"{_TIMEOUT}={value!r}: expected a number of seconds, or None for no limit."
        raise ValueError(text) from None


class Stragglers:
    """The wait for the report, or for the call of `raycompat.train.collective`, that is next.

    Parameters
    ----------
    rounds : Rounds
        The reports of the try.
    meetings : Meetings
        The other calls that all ranks make.
    interval_s : float, optional
        Seconds before a warning, and between two.
    """

    def __init__(self, rounds: Rounds, meetings: Meetings, interval_s: float = _WARN_S) -> None:
        self._timeout_s = _timeout_s()
        self._rounds = rounds
        self._meetings = meetings
        self._interval_s = interval_s
        self._call: str | None = None
        self._since = self._warned = 0.0

    def check(self, now: float) -> dict[int, Exception]:
        """Log a warning when ranks have waited long; return why others have waited too long, by rank.

        `now` is in seconds.
        """
        found = self._found()
        call = None if found is None else found[0]
        if call != self._call:
            self._call, self._since, self._warned = call, now, now
        if found is None:
            return {}
        if self._timeout_s is not None and now - self._since >= self._timeout_s:
            error = TimeoutError(
                f"It has waited in its {call} for {self._timeout_s:g} s ({_TIMEOUT}); ranks {found[2]} "
                "have not come to it."
            )
            return dict.fromkeys(found[1], error)
        if now - self._warned >= self._interval_s:
            self._warn(now, *found)
        return {}

    def _warn(self, now: float, call: str, waiting: list[int], missing: list[int]) -> None:
        self._warned = now
        _log.warning(
            "Ranks %s have waited in their %s for %.0f s; ranks %s have not come to it. "
            "If these are not slow, they may wait in an operation that all ranks must take part in. "
            "With a strategy of TensorFlow, saving a model is one: save on every rank, report on one.",
            waiting,
            call,
            now - self._since,
            missing,
        )

    def _found(self) -> tuple[str, list[int], list[int]] | None:
        """Return the call in which ranks wait, with its number, these ranks and those missing."""
        report = self._rounds.incomplete()
        if report is not None:
            return f"report number {report[0] + 1}", report[1], report[2]
        return self._meetings.incomplete()
