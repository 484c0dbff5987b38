"""Progress bars of many processes in the driver's terminal, one below the other.

A bar in a task or actor (`experimental.tqdm_ray`) prints its state as a line of JSON. The driver that
prints the output of tasks recognizes such lines, and draws the bar. This needs the package tqdm.
"""

from __future__ import annotations

import builtins
import json
import logging
import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from raycompat._caller import current_session
from raycompat._protocol.output_marks import BAR_MARK

logger = logging.getLogger(__name__)

#: As it was before there were bars.
plain_print = builtins.print


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
            builtins.print = plain_print

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
        plain_print(*args, **kwargs)
        return
    with above():
        plain_print(*args, **kwargs)
