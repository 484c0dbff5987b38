"""Experiments on the dashboard: a program reports its figures, and the page *Ray* draws them.

Tune, Train and RLlib report with it; your own training loop can report too.
"""

from __future__ import annotations

import math
import numbers
import secrets
import time
from collections.abc import Mapping
from types import TracebackType
from typing import Any, Literal

from raycompat._caller import session as sessions
from raycompat._protocol import tracked
from raycompat._protocol.plain import plain
from raycompat._protocol.text import LARGEST_INTEGER, is_key_of_dask
from raycompat._recordable import as_number, as_text

#: Characters of a parameter that is shown as text.
_MANY_CHARACTERS = 60

#: Parameters of a trial.
_MANY_PARAMETERS = 50

#: Characters of an error that are kept: its end names the cause.
_ERROR_CHARACTERS = 3_000

#: States that a trial can be given.
STATES = ("PENDING", "RUNNING", "PAUSED", "TERMINATED", "ERROR")


class Experiment:
    """An experiment on the tab *Experiments* of the page *Ray*: its trials and their figures.

    As a context manager it ends at the end of the block. Tasks and actors that get it report to the
    same experiment. Reports without a session are not shown. Reports are sent once a second.

    Parameters
    ----------
    name : str
    metric : str, optional
        The figure that is drawn first, and by which trials are compared.
    mode : str, default "max"
        "max" or "min": which values of `metric` are better.
    kind : str, default "experiment"
        A word that is shown beside the name.

    Raises
    ------
    ValueError
        When `mode` is neither "max" nor "min".

    Notes
    -----
    Differs from Ray: Ray does not have this class; its dashboard shows no experiments.

    Examples
    --------
    >>> from raycompat.util.tracking import Experiment
    >>> with Experiment("by hand", metric="loss", mode="min") as experiment:
    ...     for step in range(100):
    ...         experiment.report("run 1", step, {"loss": 1 / (1 + step)})
    """

    def __init__(
        self,
        name: str,
        *,
        metric: str | None = None,
        mode: Literal["max", "min"] = "max",
        kind: str = "experiment",
    ) -> None:
        if mode not in ("max", "min"):
            raise ValueError(f"mode={mode!r}: expected 'max' or 'min'.")
        self._id = secrets.token_hex(8)
        session = sessions.current()
        if session is not None:
            job = session.setup.job
            self._note(tracked.EXPERIMENT, str(name), str(kind), metric or "", mode, job)
            session.tracker.flush()  # before the reports of tasks and actors that get this object

    def _note(self, kind: str, *rest: Any) -> None:
        session = sessions.current()
        if session is not None:
            session.tracker.note(kind, self._id, *rest)

    def trial(
        self,
        name: str,
        state: str = "RUNNING",
        parameters: Mapping[str, Any] | None = None,
        error: str = "",
    ) -> None:
        """Add a trial, or change its state.

        Parameters
        ----------
        name : str
        state : str, default "RUNNING"
            "PENDING", "RUNNING", "PAUSED", "TERMINATED" or "ERROR".
        parameters : mapping, optional
            By flat names; of 50 the first. Numbers are drawn, other values are shown as text.
        error : str, optional
            Why it has failed, such as a traceback; the last 3,000 characters are kept. The last line is
            in the table, the others are in the row's details.

        Raises
        ------
        ValueError
            When the state is not valid.

        Examples
        --------
        >>> from raycompat.util.tracking import Experiment
        >>> experiment = Experiment("by hand", metric="loss", mode="min")
        >>> experiment.trial("run 1", parameters={"lr": 0.1})
        >>> experiment.report("run 1", 0, {"loss": 0.5})
        >>> experiment.end()
        """
        if state not in STATES:
            raise ValueError(f"state={state!r}: expected one of {', '.join(STATES)}.")
        shown = None
        if parameters is not None:
            items = list(parameters.items())[:_MANY_PARAMETERS]
            shown = {_as_key(name): _as_parameter(value) for name, value in items}
        self._note(tracked.TRIAL, str(name), state, shown, str(error)[-_ERROR_CHARACTERS:])

    def report(self, trial: str, step: float, figures: Mapping[str, Any]) -> None:
        """Add a point to the curves of a trial.

        Parameters
        ----------
        trial : str
            The name of the trial, which need not be added before.
        step : float
            Where the point is on the horizontal axis: the iteration, or the number of steps.
        figures : mapping of str to number
            Values that are not finite numbers are left out.
        """
        drawn = {
            _as_key(name): number
            for name, value in figures.items()
            if _is_number(value)
            and (number := as_number(value)) is not None
            and math.isfinite(number)
        }
        self._note(tracked.FIGURES, str(trial), float(step), drawn, time.time())

    def end(self) -> None:
        """End the experiment. It stays on the page, as one of the last 50."""
        self._note(tracked.END)

    def __enter__(self) -> Experiment:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.end()


def _as_key(name: object) -> str:
    """Return a name as a key of a message."""
    text: str = plain(as_text(name))
    return f"{text} " if is_key_of_dask(text) else text


def _is_number(value: Any) -> bool:
    return isinstance(value, numbers.Real) and not isinstance(value, bool)


def _as_parameter(value: Any) -> Any:
    """Return a number as one that can be sent, and anything else as a short text."""
    if isinstance(value, bool) or not _is_number(value):
        return plain(as_text(value)[:_MANY_CHARACTERS])
    number = as_number(value)
    if number is None:
        return as_text(value)[:_MANY_CHARACTERS]
    is_short = isinstance(value, numbers.Integral) and abs(int(value)) <= LARGEST_INTEGER
    return int(value) if is_short else number
