"""`MetricsLogger`: values that programs log for results, and how results have them."""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

import numpy as np

from raycompat._surface import forms
from raycompat.rllib._types import Metrics

#: Says that `MetricsLogger.peek` has no default.
_RAISES: Final = object()
#: Says that the values of a key are reduced as those before, or in the way of its first value.
_AS_BEFORE: Final = object()

#: In an exponential mean, the weight of the newest value.
_NEWEST_WEIGHT = 0.01

#: What results may have of the values of a key, beside those of `REDUCTIONS` and None.
_OTHER_KINDS = ("ema", "item", "item_series", "lifetime_sum", "percentiles")
#: The percentiles that results have of values, by default.
_PERCENTILES = (0, 50, 75, 90, 95, 99, 100)

#: Kinds of results that are computed of numbers.
REDUCTIONS: dict[str, Callable[[list[float]], float]] = {
    "mean": lambda values: float(np.nanmean(values)),
    "min": lambda values: float(np.nanmin(values)),
    "max": lambda values: float(np.nanmax(values)),
    "sum": lambda values: float(np.nansum(values)),
}


@dataclass(frozen=True)
class Logged:
    """A value that a callback has logged.

    Parameters
    ----------
    path : tuple of str
        The keys that lead to it in results.
    value : object
    reduce : str or None
        See `MetricsLogger.log_value`; None keeps all values as a list.
    window : int, optional
        Of how many values.
    weight : float
        Of the newest value in an exponential mean.
    clears : bool
        Whether each result begins without values.
    """

    path: tuple[str, ...]
    value: Any
    reduce: str | None = "mean"
    window: int | None = None
    weight: float = _NEWEST_WEIGHT
    clears: bool = False
    percentiles: tuple[float, ...] = _PERCENTILES


def _path_of(key: str | tuple[str, ...]) -> tuple[str, ...]:
    return (key,) if isinstance(key, str) else tuple(key)


@forms.has_old_members("ray.rllib.utils.metrics.metrics_logger.MetricsLogger")
class MetricsLogger:
    """Collects values of programs for results.

    Parameters
    ----------
    **options
        ``root`` and others have no effect.

    Notes
    -----
    Ray source: ``ray.rllib.utils.metrics.metrics_logger.MetricsLogger``, 2.60.0. Differs from Ray: it
    has the methods that callbacks, learners and algorithms of programs call; values of all processes
    are reduced together; those of a window, and an "item", stay for the next results.
    """

    def __init__(self, **options: object) -> None:
        self._logged: list[Logged] = []
        self._kept = LoggedMetrics()
        #: Returns the results in which `peek` looks for keys that were not logged here.
        self.results: Callable[[], Mapping[str, object]] = dict
        #: Counts what runners have played, which `aggregate` is given; set by an algorithm.
        self.count_played: Callable[[object, tuple[str, ...]], None] | None = None

    def log_value(
        self,
        key: str | tuple[str, ...],
        value: object,
        *,
        reduce: object = _AS_BEFORE,
        window: int | float | None = None,
        ema_coeff: float | None = None,
        clear_on_reduce: bool | None = None,
        percentiles: Sequence[float] | bool | None = None,
        **options: object,
    ) -> None:
        """Log a value; what a key's first value does not say of it need not be said again.

        Parameters
        ----------
        key : str or tuple of str
            Where results have it; a tuple is a path through dicts.
        value : object
        reduce : str or None, optional
            What results have of the values since the last result: "mean", "min", "max", "sum",
            "percentiles", or "item_series" (until 2025: None), which is all of them; of all values
            until now: "lifetime_sum"; "ema", a mean in which the newest count most; "item", the
            newest. Default: "mean" with a window, "ema" without.
        window : int, optional
            Of how many values; these stay for the next results.
        ema_coeff : float, optional
            In an exponential mean, the weight of the newest value. Default 0.01. With it, "mean" is
            "ema".
        clear_on_reduce : bool, optional
            Whether each result begins without values. Default: as `reduce` says. A "sum" with False
            is a "lifetime_sum".
        percentiles : list of float or True, optional
            Which percentiles, from 0 to 100. They may be given without `reduce`, as until 2025.
        **options
            ``with_throughput`` and others have no effect.

        Raises
        ------
        ValueError
            When `reduce` is something else, or is not of percentiles, and they are given.
        """
        if percentiles and reduce not in (None, _AS_BEFORE, "percentiles"):
            raise ValueError(
                f"log_value({key!r}, reduce={reduce!r}, percentiles={percentiles!r}): expected "
                'reduce="percentiles", or no percentiles.'
            )
        if percentiles:
            reduce = "percentiles"
        kinds = (*_OTHER_KINDS, *REDUCTIONS)
        if reduce not in (None, _AS_BEFORE) and reduce not in kinds:
            raise ValueError(
                f"log_value({key!r}, reduce={reduce!r}): expected None or one of {sorted(kinds)}."
            )
        given: dict[str, Any] = {
            "reduce": reduce,
            "window": None if window == float("inf") else window,
            "weight": ema_coeff,
            "clears": clear_on_reduce if isinstance(clear_on_reduce, bool) else None,
            "percentiles": tuple(percentiles) if isinstance(percentiles, list | tuple) else None,
        }
        path = _path_of(key)
        default = "ema" if window is None else "mean"
        before = self._kept.last_of(path) or Logged(path, None, default)
        changes = {name: each for name, each in given.items() if each is not None}
        if reduce is _AS_BEFORE:
            del changes["reduce"]
        elif reduce is None:
            changes["reduce"] = None
        elif reduce == "mean" and ema_coeff is not None:
            changes["reduce"] = "ema"
        elif reduce == "sum" and clear_on_reduce is False:
            changes["reduce"] = "lifetime_sum"
        logged = replace(before, value=value, **changes)
        self._logged.append(logged)
        self._kept.add([logged])

    @contextlib.contextmanager
    def log_time(self, key: str | tuple[str, ...], **options: Any) -> Iterator[None]:
        """Log the seconds that a ``with`` block takes.

        Parameters
        ----------
        key : str or tuple of str
            Where results have them.
        **options
            See `log_value`.
        """
        begin = time.perf_counter()
        try:
            yield
        finally:
            self.log_value(key, time.perf_counter() - begin, **options)

    def peek(self, key: str | tuple[str, ...], default: object = _RAISES, **options: object) -> Any:
        """Return what results would have under a key now.

        Parameters
        ----------
        key : str or tuple of str
            A tuple is a path through dicts, which may end before the last one.
        default : object, optional
            What to return if nothing was ever logged. Without it, that is an error. A number that
            was not logged since the last result is NaN.
        **options
            ``compile`` and others have no effect.

        Raises
        ------
        KeyError
            When there is nothing under the key, and no default.
        """
        path = _path_of(key)
        for results in (self._kept.described(clears=False), self.results()):
            found: object = results
            for part in path:
                found = found.get(part, _RAISES) if isinstance(found, Mapping) else _RAISES
            if found is not _RAISES:
                return found
        if self._kept.last_of(path) is not None:
            return math.nan
        if default is _RAISES:
            raise KeyError(key)
        return default

    def log_dict(
        self,
        value_dict: Mapping[str, object],
        *,
        key: str | tuple[str, ...] | None = None,
        **options: Any,
    ) -> None:
        """Log each value of a dict, under its key.

        Parameters
        ----------
        value_dict : dict
        key : str or tuple of str, optional
            What goes before each key.
        **options
            See `log_value`; the default of ``reduce`` is "mean".
        """
        head = () if key is None else _path_of(key)
        for name, value in value_dict.items():
            path = (*head, name)
            if isinstance(value, Mapping):
                self.log_dict(value, key=path, **options)
            elif self._kept.last_of(path) is None:
                self.log_value(path, value, **{"reduce": "mean", **options})
            else:
                self.log_value(path, value, **options)

    def aggregate(
        self, stats_dicts: Iterable[object], *, key: str | tuple[str, ...] | None = None
    ) -> None:
        """Log the results of several runners or learners.

        Parameters
        ----------
        stats_dicts : list
            Dicts of values, as ``learner_group.update`` returns them; or what ``get_metrics`` of env
            runners returned: their episodes and steps are in results then.
        key : str or tuple of str, optional
            What goes before each key of a dict. Of episodes of env runners, one that begins with
            "evaluation" says that these are not of training: figures of them are logged under it.
        """
        for each in stats_dicts:
            if isinstance(each, Mapping):
                self.log_dict(each, key=key)
            elif self.count_played is not None:
                self.count_played(each, () if key is None else _path_of(key))

    def merge_and_log_n_dicts(
        self,
        stats_dicts: Iterable[object],
        *,
        key: str | tuple[str, ...] | None = None,
        **options: Any,
    ) -> None:
        """Do what `aggregate` does, the form until 2025.

        Parameters
        ----------
        stats_dicts : list
        key : str or tuple of str, optional
        **options
            For the values of dicts, see `log_dict`.
        """
        for each in stats_dicts:
            if options and isinstance(each, Mapping):
                self.log_dict(each, key=key, **options)
            else:
                self.aggregate([each], key=key)

    def reduce(self, key: str | tuple[str, ...] | None = None, **options: object) -> Any:
        """Return what results have now; keys whose values are of each result begin again.

        Parameters
        ----------
        key : str or tuple of str, optional
            A part of them, by its path. Default: all.
        **options
            They have no effect.

        Raises
        ------
        KeyError
            When there is nothing under the key.
        """
        found: Any = self._kept.described()
        for part in () if key is None else _path_of(key):
            found = found[part]
        return found

    def forget(self, *path: str) -> bool:
        """Forget what was logged under a path, or all; return whether there was something.

        Parameters
        ----------
        *path : str
            The first keys.
        """
        count = len(path)
        self._logged = [each for each in self._logged if each.path[:count] != path]
        return self._kept.forget(path)

    def has(self, name: str) -> bool:
        """Return whether something was logged whose path begins with the name."""
        return self._kept.has(name)

    def put_back(self, logged: list[Logged]) -> None:
        """Take values that `take` returned, and that no result has had."""
        self._logged[:0] = logged
        self._kept.add(each for each in logged if _is_of_each_result(each))

    def take(self) -> list[Logged]:
        """Return what was logged since the last call."""
        logged, self._logged = self._logged, []
        self._kept.begin_again()
        return logged


@dataclass
class _Kept:
    """The values of one key."""

    last: Logged
    values: list[Any] = field(default_factory=list)
    average: float | None = None


class LoggedMetrics:
    """Merges what callbacks have logged in all processes."""

    def __init__(self) -> None:
        self._kept: dict[tuple[str, ...], _Kept] = {}

    def last_of(self, path: tuple[str, ...]) -> Logged | None:
        """Return the newest value of a key; None without one."""
        kept = self._kept.get(path)
        return None if kept is None else kept.last

    def forget(self, path: tuple[str, ...]) -> bool:
        """Forget the keys that begin with a path; return whether there were any."""
        found = [each for each in self._kept if each[: len(path)] == path]
        for each in found:
            del self._kept[each]
        return bool(found)

    def has(self, name: str) -> bool:
        """Return whether a key begins with the name."""
        return any(path[0] == name for path in self._kept)

    def add(self, logged: Iterable[Logged]) -> None:
        """Add values."""
        for each in logged:
            kept = self._kept.setdefault(each.path, _Kept(each))
            kept.last = each
            if each.reduce == "ema" and each.window is None and not each.clears:
                before = kept.average
                kept.average = (
                    float(each.value)
                    if before is None
                    else (1 - each.weight) * before + each.weight * float(each.value)
                )
                continue
            kept.values.append(each.value)
            if each.window is not None:
                del kept.values[: -each.window]
            elif each.reduce == "item":
                del kept.values[:-1]
            elif each.reduce in ("min", "max", "sum", "lifetime_sum") and not each.clears:
                kept.values = [_reduced(kept)]

    def described(self, *, clears: bool = True) -> Metrics:
        """Return the reduced values, as dicts by their paths.

        Parameters
        ----------
        clears : bool, default True
            Whether keys of which each result begins without values have none from now on.
        """
        found: Metrics = {}
        for path, kept in self._kept.items():
            is_list = kept.last.reduce in (None, "item_series") and not clears
            if kept.average is None and not kept.values and not is_list:
                continue
            within = found
            for part in path[:-1]:
                within = within.setdefault(part, {})
            within[path[-1]] = _reduced(kept) if kept.average is None else kept.average
        if clears:
            self.begin_again()
        return found

    def begin_again(self) -> None:
        """Forget the values of keys of which each result begins without values."""
        for kept in self._kept.values():
            if _is_of_each_result(kept.last):
                kept.values = []


def _is_of_each_result(logged: Logged) -> bool:
    """Return whether each result has the values since the one before it."""
    if logged.clears or logged.reduce in (None, "item_series", "percentiles"):
        return True
    return logged.window is None and logged.reduce in REDUCTIONS


#: Kinds that are computed as others.
_COMPUTED_AS = {"lifetime_sum": "sum", "ema": "mean"}


def _reduced(kept: _Kept) -> Any:
    reduce = kept.last.reduce
    if reduce is None or reduce == "item_series":
        return list(kept.values)
    if reduce == "item":
        return kept.values[-1]
    if reduce == "percentiles":
        found = np.percentile(kept.values, kept.last.percentiles)
        return dict(zip(kept.last.percentiles, found.tolist(), strict=True))
    return REDUCTIONS[_COMPUTED_AS.get(reduce, reduce)](kept.values)
