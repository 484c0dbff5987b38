"""Progress bars of many processes in the driver's terminal, one below the other.

A bar in a task or actor prints its state as a line of JSON. The driver that prints the output of tasks
(`_caller.driver_logs`) recognizes such lines, and draws the bar. This needs the package tqdm.
"""

from __future__ import annotations

import builtins
import json
import logging
import os
import sys
import threading
import time
import uuid
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from raycompat._caller import current_session
from raycompat._protocol.output_marks import BAR_MARK

logger = logging.getLogger(__name__)

#: Marks the output lines of bars, as in `_protocol.output_marks.BAR_MARK`.
RAY_TQDM_MAGIC = "__ray_tqdm_magic_token__"

_print = builtins.print


class tqdm:  # noqa: N801 (Ray's name)
    """A progress bar that the driver draws, in whichever process it is used.

    Parameters
    ----------
    iterable : iterable, optional
        What to iterate over: the bar advances by one for each item.
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
            _print(json.dumps(state))
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


class _Bars:
    """The bars that this process draws, each on a separate line."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._bars: dict[str, Any] = {}
        #: The bars of other processes.
        self._of_others: set[str] = set()
        self._was_told = False

    def process_state_update(self, state: dict[str, Any]) -> None:
        """Draw a bar in its new state."""
        try:
            from tqdm.auto import tqdm as real
        except ModuleNotFoundError:
            if not self._was_told:
                self._was_told = True
                logger.warning("There are no bars: pip install 'raycompat[watch]' has tqdm.")
            return
        with self._lock:
            bar = self._bars.get(state["uuid"])
            if bar is None:
                if state["closed"] and state["x"] == 0:
                    return
                bar = self._begin(real, state)
                if state["pid"] != os.getpid():
                    self._of_others.add(state["uuid"])
            if bar.total != state["total"]:
                bar.total = state["total"]
            bar.set_description_str(_described(state), refresh=False)
            bar.n = state["x"]
            bar.refresh()
            if state["closed"]:
                self._end(state["uuid"])

    def _begin(self, real: Any, state: dict[str, Any]) -> Any:
        used = {-bar.pos for bar in self._bars.values()}
        position = next(number for number in range(len(used) + 1) if number not in used)
        bar = self._bars[state["uuid"]] = real(
            desc=_described(state),
            total=state["total"],
            unit=state["unit"],
            position=position,
            dynamic_ncols=True,
            unit_scale=True,
        )
        if len(self._bars) == 1 and os.environ.get("RAY_TQDM_PATCH_PRINT", "1") != "0":
            builtins.print = safe_print
        return bar

    def _end(self, bar: str) -> None:
        self._of_others.discard(bar)
        self._bars.pop(bar).close()
        if not self._bars and builtins.print is safe_print:
            builtins.print = _print

    def end_those_of_others(self) -> None:
        """Stop drawing the bars of other processes, for example of those that were killed."""
        with self._lock:
            for bar in list(self._of_others):
                self._end(bar)

    def hide_bars(self) -> None:
        """Hide the bars, and keep the lock until `unhide_bars`."""
        self._lock.acquire()
        for bar in self._bars.values():
            bar.clear()

    def unhide_bars(self) -> None:
        """Draw the bars again."""
        try:
            for bar in self._bars.values():
                bar.refresh()
        finally:
            self._lock.release()


def _described(state: dict[str, Any]) -> str:
    """Return the text before a bar; for another process it has the pid."""
    session = current_session.get()
    if state["pid"] == os.getpid() or session is None:
        return str(state["desc"])
    ip = "" if state["ip"] == session.home.ip else f", ip={state['ip']}"
    return f"(pid={state['pid']}{ip}) {state['desc']}"


_bars = _Bars()


def instance() -> _Bars:
    """Return the object that draws the bars of this process."""
    return _bars


def draws(line: str) -> bool:
    """Draw the bar in a line of output; return False if the line is not a bar."""
    if not line.startswith(BAR_MARK):
        return False
    try:
        state = json.loads(line)
    except ValueError:  # the line was cut, because it was too long
        return False
    _bars.process_state_update(state)
    return True


@contextmanager
def above() -> Iterator[None]:
    """Hide the bars while other output is printed."""
    _bars.hide_bars()
    try:
        yield
    finally:
        _bars.unhide_bars()


def safe_print(*args: Any, **kwargs: Any) -> None:
    """Print above the bars. While there are bars, this function replaces ``print``.

    Notes
    -----
    Ray source: ``ray.experimental.tqdm_ray.safe_print``, 2.60.0. ``RAY_TQDM_PATCH_PRINT=0`` leaves
    ``print`` as it is.
    """
    if kwargs.get("file") not in (sys.stdout, sys.stderr, None):
        _print(*args, **kwargs)
        return
    with above():
        _print(*args, **kwargs)
