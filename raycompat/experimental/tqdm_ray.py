"""Progress bars of many processes, which the driver draws in its terminal (`_caller.bars`)."""

from __future__ import annotations

import json
import os
import time
import uuid
from collections.abc import Iterable, Iterator
from typing import Any

from raycompat._caller import bars, current_session
from raycompat._caller.bars import instance, safe_print

__all__ = ["RAY_TQDM_MAGIC", "instance", "safe_print", "tqdm"]

#: Marks the output lines of bars, as in `_protocol.output_marks.BAR_MARK`.
RAY_TQDM_MAGIC = "__ray_tqdm_magic_token__"


class tqdm:  # noqa: N801 (Ray's name)
    """A progress bar that the driver draws, in whichever process it is used.

    Parameters
    ----------
    iterable : iterable, optional
        The items: the bar advances by one for each item.
    desc : str, optional
        The text before the bar.
    total : int, optional
        The number of steps, by default the length of `iterable`.
    unit : str, default "it"
        The name of a step.
    position : int, default 0
        The position of the bar among those of its process.
    flush_interval_s : float, default 1.0
        Minimum seconds between two updates of the bar.

    Notes
    -----
    Ray source: ``ray.experimental.tqdm_ray.tqdm``, 2.60.0. Without tqdm no bar is drawn, and a warning
    is logged.
    """

    DEFAULT_FLUSH_INTERVAL_SECONDS = 1.0

    def __init__(
        self,
        iterable: Iterable[Any] | None = None,
        desc: str | None = None,
        total: int | None = None,
        unit: str | None = None,
        position: int | None = None,
        flush_interval_s: float | None = None,
    ) -> None:
        if total is None and hasattr(iterable, "__len__"):
            total = len(iterable)  # type: ignore[arg-type]
        self._iterable = iterable
        self.total = total
        self.n = 0
        self._desc = desc or ""
        self._unit = unit or "it"
        self._position = position or 0
        self._uuid = uuid.uuid4().hex
        self._is_closed = False
        default_s = self.DEFAULT_FLUSH_INTERVAL_SECONDS
        self._interval_s = default_s if flush_interval_s is None else flush_interval_s
        self._shown = 0.0

    def set_description(self, desc: str) -> None:
        """Change the text before the bar."""
        self._desc = desc
        self._show()

    def update(self, n: int = 1) -> None:
        """Advance by `n` steps."""
        self.n += n
        self._show()

    def refresh(self) -> None:
        """Draw the current state, unless it was drawn a moment ago."""
        self._show()

    def close(self) -> None:
        """Draw the last state, and stop drawing the bar."""
        self._is_closed = True
        self._show(now=True)

    def __iter__(self) -> Iterator[Any]:
        if self._iterable is None:
            raise ValueError("This bar has nothing to iterate over: give it an iterable.")
        try:
            for item in self._iterable:
                self.update(1)
                yield item
        finally:
            self.close()

    def _show(self, *, now: bool = False) -> None:
        moment = time.monotonic()
        if not now and moment - self._shown < self._interval_s:
            return
        self._shown = moment
        session = current_session.get()
        state = self._state(session)
        if session is not None and not session.setup.is_driver:
            bars.plain_print(json.dumps(state))
        else:
            instance().process_state_update(state)

    def _state(self, session: Any) -> dict[str, Any]:
        return {
            "__magic_token__": RAY_TQDM_MAGIC,
            "x": self.n,
            "pos": self._position,
            "desc": self._desc,
            "total": self.total,
            "unit": self._unit,
            "ip": session.home.ip if session is not None else "",
            "pid": os.getpid(),
            "uuid": self._uuid,
            "closed": self._is_closed,
        }
