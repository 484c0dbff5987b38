"""One line for each report: in a terminal a line of the log, in a notebook one that changes."""

from __future__ import annotations

import logging
import numbers
import sys
import time
from typing import TYPE_CHECKING, Any

from raycompat._recordable import as_number, as_text

if TYPE_CHECKING:
    from raycompat.train._types import Metrics

_log = logging.getLogger("raycompat.train")


def shown(metrics: Metrics) -> str:
    """Return metrics as text, numbers with four digits."""
    return " ".join(
        f"{name}={_figure(value)}"
        for name, value in metrics.items()
        if isinstance(value, numbers.Number | str)
    )


def _figure(value: object) -> str:
    number = None if isinstance(value, numbers.Integral) else as_number(value)
    return as_text(value) if number is None else f"{number:.4g}"


class Progress:
    """The progress of a run.

    Parameters
    ----------
    name : str
        The run's name.
    verbose : int
        0: nothing is shown.
    """

    def __init__(self, name: str, verbose: int) -> None:
        self._name = name
        self._verbose = verbose
        self._began = time.monotonic()
        self._number = 0
        self._display: Any = None

    def add(self, metrics: Metrics, num_workers: int, checkpoint: str | None) -> None:
        """Show a report of rank 0."""
        self._number += 1
        if self._verbose <= 0:
            return
        line = (
            f"{self._name}: report {self._number}, made by {num_workers} workers, "
            f"{time.monotonic() - self._began:.1f} s: {shown(metrics)}"
        )
        if checkpoint is not None:
            line += f" [{checkpoint}]"
        if "ipykernel" in sys.modules:
            self._show_in_notebook(line)
        else:
            _log.info(line)

    def _show_in_notebook(self, line: str) -> None:
        from IPython.display import display

        content = {"text/plain": line}
        if self._display is None:
            self._display = display(content, raw=True, display_id=True)  # type: ignore[no-untyped-call]
        else:
            self._display.update(content, raw=True)
