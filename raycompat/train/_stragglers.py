"""Warns of ranks that keep the others waiting in `report`.

Most are slow. Others wait for ranks that have already reported: TensorFlow's strategies add up
variables when a model is saved, so saving on one rank alone never ends.
"""

from __future__ import annotations

import logging
import os

from raycompat.train._rounds import Rounds

_log = logging.getLogger("raycompat.train")

#: Seconds that ranks wait before a warning, and between two; Ray's variable and default.
_WARN_S = float(os.environ.get("RAY_TRAIN_COLLECTIVE_WARN_INTERVAL_S", "60"))


class Stragglers:
    """The wait for the report that is next.

    Parameters
    ----------
    rounds : Rounds
        The reports of the try.
    interval_s : float, optional
        Seconds before a warning, and between two.
    """

    def __init__(self, rounds: Rounds, interval_s: float = _WARN_S) -> None:
        self._rounds = rounds
        self._interval_s = interval_s
        self._index: int | None = None
        self._since = self._warned = 0.0

    def check(self, now: float) -> None:
        """Log a warning when ranks have waited long; `now` is in seconds."""
        found = self._rounds.incomplete()
        index = None if found is None else found[0]
        if index != self._index:
            self._index, self._since, self._warned = index, now, now
        if found is None or now - self._warned < self._interval_s:
            return
        self._warned = now
        _, waiting, missing = found
        _log.warning(
            "Ranks %s have waited in their report number %d for %.0f s; ranks %s have not come to it. "
            "If these are not slow, they may wait in an operation that all ranks must take part in. "
            "With a strategy of TensorFlow, saving a model is one: save on every rank, report on one.",
            waiting,
            found[0] + 1,
            now - self._since,
            missing,
        )
