"""Metrics as they can be recorded: written as JSON, CSV and curves, shown in tables, and compared.

A metric can be any value of user code: one that contains itself, or whose methods raise. `recordable`
replaces such values by texts where a report enters, so that no reader has to expect them. What reads
metrics that may not have come this way uses `as_number`, `as_text` and `as_json_text`.

Train and Tune share this module, which does not depend on them.
"""

from __future__ import annotations

import json
import logging
import numbers
from collections.abc import Mapping
from typing import Any

logger = logging.getLogger(__name__)

#: Levels of dicts and lists in a metric.
_MOST_LEVELS = 50

#: Bits of an integer that a float can hold.
_FLOAT_BITS = 1023

#: The reports and metrics about which this process has warned.
_warned: set[tuple[str, str]] = set()

_PLAIN = (bool, float, str, bytes, type(None))


def recordable(metrics: Mapping[Any, Any], report: str | None = None) -> dict[Any, Any]:
    """Return metrics with texts in place of the values that cannot be recorded.

    Those are integers that are larger than any float, values that contain themselves, dicts and lists
    below many others, and values whose conversion to a text or a number raises. `report` is the name of
    the function that reports them, for one warning about each metric.
    """
    return _Recorder(report).of_dict(metrics, (), "")


class _Recorder:
    """One walk through the metrics of a report."""

    def __init__(self, report: str | None) -> None:
        self._report = report

    def of_dict(
        self, value: Mapping[Any, Any], above: tuple[int, ...], name: str
    ) -> dict[Any, Any]:
        # The methods of dict: a subclass may have others that raise.
        items = dict.items(value) if isinstance(value, dict) else value.items()
        found = {}
        for given, inner in list(items):
            key = self._key(given)
            found[key] = self._of(inner, (*above, id(value)), f"{name}/{key}" if name else f"{key}")
        return found

    @staticmethod
    def _key(key: Any) -> Any:
        if type(key) in (str, int, bool, float, type(None)):
            return key
        return str.__str__(key) if isinstance(key, str) else as_text(key)

    def _of(self, value: Any, above: tuple[int, ...], name: str) -> Any:
        kind = type(value)
        if kind in _PLAIN:
            return value
        if id(value) in above:
            return self._text(name, "...", "it contains itself")
        if len(above) > _MOST_LEVELS:
            return self._text(name, "...", f"it has more than {_MOST_LEVELS} levels")
        try:
            if isinstance(value, Mapping):
                return self.of_dict(value, above, name)
            if kind in (list, tuple):
                return kind(self._of(inner, (*above, id(value)), name) for inner in value)
            return (
                value if (why := _why_not(value)) is None else self._text(name, as_text(value), why)
            )
        except Exception as error:  # of any method of the value
            return self._text(name, as_text(value), _described(error))

    def _text(self, name: str, text: str, why: str) -> str:
        if self._report is not None and (self._report, name) not in _warned:
            _warned.add((self._report, name))
            logger.warning("%s: the metric %r is recorded as text: %s.", self._report, name, why)
        return text


def _why_not(value: Any) -> str | None:
    """Return why a value cannot be recorded as it is; its methods may raise."""
    if isinstance(value, int):
        is_small = value.bit_length() <= _FLOAT_BITS
        return None if is_small else "it is larger than any float"
    dtype = getattr(value, "dtype", None)
    if dtype is not None and not getattr(dtype, "hasobject", False):
        return None  # an array of numbers, which may be large
    if isinstance(value, numbers.Real):
        float(value)
    as_plain(value)
    str(value)
    repr(value)
    return None


def as_number(value: Any) -> float | None:
    """Return a real number, or an array with one, as a float; None for anything else."""
    try:
        if not isinstance(value, numbers.Real):
            if getattr(value, "size", None) != 1 or not callable(getattr(value, "item", None)):
                return None
            value = value.item()
        return float(value) if isinstance(value, numbers.Real) else None
    except Exception:  # a method of user code, or an integer that no float can hold
        return None


def as_text(value: Any) -> str:
    """Return a value as text that can be encoded, also when its own text cannot be made."""
    try:
        text = str(value)
        return text if text.isascii() else text.encode(errors="backslashreplace").decode()
    except Exception as error:  # of user code
        if isinstance(value, int):
            return f"an integer of {value.bit_length()} bits"
        return f"<{type(value).__name__} object: {_described(error)}>"


def _described(error: Exception) -> str:
    try:
        return f"{type(error).__name__}: {error}"
    except Exception:  # its text cannot be made either
        return type(error).__name__


def as_plain(value: Any) -> Any:
    """Return a number of numpy or TensorFlow as Python's, an array as lists, and all others as text."""
    number = getattr(value, "item", None)
    if callable(number) and getattr(value, "size", 1) == 1:
        return number()
    if hasattr(value, "tolist"):
        return value.tolist()
    return repr(value)


def as_json_text(value: Mapping[Any, Any] | list[Any], indent: int | None = None) -> str:
    """Return a dict, or a list of them, as JSON; what JSON lacks is written as text."""
    return json.dumps(recordable({"": value})[""], indent=indent, default=_as_json)


def _as_json(value: Any) -> Any:
    try:
        plain = as_plain(value)
        # An array of objects has more of them inside.
        return recordable({"value": plain})["value"] if isinstance(plain, list) else _inner(plain)
    except Exception:  # of user code
        return as_text(value)


def _inner(plain: Any) -> Any:
    """Return what a number of numpy has become; dates of numpy become objects that JSON lacks."""
    return plain if isinstance(plain, str | int | float | bool | None) else as_text(plain)
