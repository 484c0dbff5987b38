"""Reports of 1.x: ``tune.report(loss=0.5)``, ``tune.report(0.5)`` and ``train.report(loss=0.5)``."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from numbers import Number
from typing import Any, TypeVar, cast

from raycompat._surface import forms

_F = TypeVar("_F", bound=Callable[..., Any])

#: The name of the metric of a report that is only a number.
_METRIC = "_metric"


def takes_metrics_as_keywords(words: str) -> Callable[[_F], _F]:
    """Make a function of today, ``report(metrics, ...)``, take metrics as keywords too.

    Parameters
    ----------
    words : str
        The row of the old way to use it.
    """

    def decorate(report: _F) -> _F:
        known = frozenset(inspect.signature(report).parameters)

        @functools.wraps(report)
        def report_either(*args: Any, **kwargs: Any) -> Any:
            if _is_old(args, kwargs, known) and forms.is_used_today(words):
                forms.used(words)
                return report(_metrics(args, kwargs))
            return report(*args, **kwargs)

        return cast("_F", report_either)

    return decorate


def _is_old(args: tuple[Any, ...], kwargs: dict[str, Any], known: frozenset[str]) -> bool:
    """Return whether a call has the form of 1.x: a number, or metrics as keywords."""
    if args:
        first = args[0]
        return isinstance(first, Number) or (
            isinstance(first, Mapping) and not kwargs.keys() <= known
        )
    return not isinstance(kwargs.get("metrics"), Mapping)


def _metrics(args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    if not args:
        return kwargs
    first = args[0]
    return {**(first if isinstance(first, Mapping) else {_METRIC: first}), **kwargs}
