"""Formatters of log records, as text and as JSON: those that `ray.LoggingConfig` chooses from."""

from __future__ import annotations

import json
import logging
from collections.abc import Sequence
from typing import Literal

#: The names of the attributes that Python's `logging` gives a record; all others are context.
STANDARD_ATTRIBUTES = frozenset(
    {*vars(logging.makeLogRecord({})), "asctime", "message", "taskName"}
)

#: The standard attributes that each record as JSON has.
_ALWAYS = ("asctime", "levelname", "message", "filename", "lineno", "process")

#: A record as text, before its context; the format of Ray.
_TEXT = "%(asctime)s\t%(levelname)s %(filename)s:%(lineno)s -- %(message)s"

_NS_PER_S = 1_000_000_000


class _ContextFormatter(logging.Formatter):
    """A formatter that also shows the context of a record, and chosen standard attributes."""

    def __init__(
        self,
        fmt: str | None = None,
        datefmt: str | None = None,
        style: Literal["%", "{", "$"] = "%",
        validate: bool = True,
    ) -> None:
        super().__init__(fmt, datefmt, style, validate)
        self._additional: list[str] = []

    @property
    def additional_log_standard_attrs(self) -> list[str]:
        """Names of the standard attributes that are shown in addition."""
        return self._additional

    def set_additional_log_standard_attrs(
        self, additional_log_standard_attrs: Sequence[str]
    ) -> None:
        """Choose the standard attributes that are shown in addition."""
        self._additional = list(additional_log_standard_attrs)

    def _context(self, record: logging.LogRecord) -> dict[str, object]:
        """Return the additional attributes, the context, and the time in ns since 1970."""
        shown = {name: getattr(record, name, None) for name in self._additional}
        own = {k: v for k, v in vars(record).items() if k not in STANDARD_ATTRIBUTES}
        return {**shown, **own, "timestamp_ns": int(record.created * _NS_PER_S)}


class JSONFormatter(_ContextFormatter):
    """Formats a record as one line of JSON.

    Notes
    -----
    Ray source: ``ray._common.formatters.JSONFormatter``, 2.60.0. Differs from Ray: values that JSON
    lacks are shown by `str`, where Ray loses the record; Serve's extra fields are not unfolded.
    """

    def format(self, record: logging.LogRecord) -> str:
        """Return the record as a JSON object, without line breaks."""
        record.message = record.getMessage()
        record.asctime = self.formatTime(record, self.datefmt)
        shown = {name: getattr(record, name) for name in _ALWAYS}
        if record.exc_info:
            record.exc_text = record.exc_text or self.formatException(record.exc_info)
            shown["exc_text"] = record.exc_text
        return json.dumps({**shown, **self._context(record)}, default=str)


class TextFormatter(_ContextFormatter):
    """Formats a record as text, followed by its context as ``name=value``.

    Notes
    -----
    Ray source: ``ray._common.formatters.TextFormatter``, 2.60.0. As in Ray, the arguments of the
    constructor do not change the text before the context.
    """

    _inner = logging.Formatter(_TEXT)

    def format(self, record: logging.LogRecord) -> str:
        """Return the record's text and its context."""
        context = self._context(record).items()
        return " ".join([self._inner.format(record), *(f"{k}={v}" for k, v in context)])
