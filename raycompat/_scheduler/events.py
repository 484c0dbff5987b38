"""Events of the cluster: the last nodes, drivers and jobs that came and left, and actors that died."""

from __future__ import annotations

import itertools
from collections import deque
from datetime import datetime

from raycompat._protocol.plain import Row

#: The number of events that are kept.
_MANY = 1_000

#: Characters of an event's id, as in Ray.
_ID_DIGITS = 36


class Events:
    """The last events, as the state API describes them."""

    def __init__(self) -> None:
        self.rows: deque[Row] = deque(maxlen=_MANY)
        self._numbers = itertools.count(1)

    def note(self, severity: str, source: str, message: str, **about: object) -> None:
        """Record an event of now; `about` are the ids that it is about. Ids grow with time."""
        self.rows.append(
            {
                "severity": severity,
                "time": f"{datetime.now():%Y-%m-%d %H:%M:%S}",
                "source_type": source,
                "message": message,
                "event_id": f"{next(self._numbers):0{_ID_DIGITS}x}",
                "custom_fields": about,
            }
        )
