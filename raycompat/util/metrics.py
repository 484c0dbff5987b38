"""Metrics of the program: counters, gauges and histograms, for Prometheus.

They are at the address ``/metrics`` of Dask's dashboard, where the package prometheus_client is
installed (``pip install 'raycompat[watch]'``), with ``ray_`` before their names, as in Ray. Values that
are recorded without a session do not count.
"""

from __future__ import annotations

import re
import warnings
from typing import Any, TypeVar

from raycompat._caller import session as sessions
from raycompat._protocol.measurements import About, Kind
from raycompat._protocol.plain import plain_where_possible
from raycompat._protocol.text import checked_text
from raycompat._surface import forms
from raycompat._surface.modules import names_of

Self = TypeVar("Self", bound="Metric")

#: Valid names for Prometheus.
_NAME = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*")


class Metric:
    """The common base of counters, gauges and histograms.

    Parameters
    ----------
    name : str
        Letters, digits and underscores. With another name it warns, and nothing is recorded.
    description : str, default ""
    tag_keys : tuple of str, optional
        The names of the tags; each recorded value needs a value for all of them.

    Raises
    ------
    ValueError
        When the name is empty.
    TypeError
        When `tag_keys` is not a tuple of strings.

    Notes
    -----
    Ray source: ``ray.util.metrics.Metric``, 2.60.0.
    """

    _kind: Kind

    def __init__(
        self, name: str, description: str = "", tag_keys: tuple[str, ...] | None = None
    ) -> None:
        keys = () if tag_keys is None else tag_keys
        self._is_discarded = not _is_valid(name)
        if not isinstance(keys, tuple):
            raise TypeError(f"tag_keys should be a tuple type, got: {type(keys)}")
        for key in keys:
            if not isinstance(key, str):
                raise TypeError(f"Tag keys must be str, got {type(key)}.")
        name, keys = plain_where_possible(name), plain_where_possible(keys)
        self._name = name
        self._description = checked_text("The description of a metric", description)
        self._tag_keys = keys
        self._default_tags: dict[str, str] = {}
        self._about = About(self._kind, name, self._description, keys)

    def set_default_tags(self: Self, default_tags: dict[str, str]) -> Self:
        """Set tags for values that are recorded without them; return this metric.

        Raises
        ------
        ValueError
            When a tag is not one of `tag_keys`.
        TypeError
            When a value is not a string.
        """
        for key, value in default_tags.items():
            if key not in self._tag_keys:
                raise ValueError(f"Unrecognized tag key {key}.")
            _check_value(value)
        self._default_tags = default_tags
        return self

    def record(self, value: float, tags: dict[str, str] | None = None) -> None:
        """Record a value, as Ray 1.0 to 1.13 named it for metrics of all kinds.

        Parameters
        ----------
        value : float
            What `inc`, `set` and `observe` of today take.
        tags : dict, optional
            A value for each tag that has no default.
        """
        forms.used("ray.util.metrics.Metric.record", refusal=AttributeError)
        self._record(value, tags)

    def _record(self, value: float, tags: dict[str, str] | None) -> None:
        if self._is_discarded:
            return
        for each in (tags or {}).values():
            _check_value(each)
        final = {**self._default_tags, **(tags or {})}
        missing = [key for key in self._tag_keys if key not in final]
        if missing:
            raise ValueError(f"Missing value for tag key(s): {','.join(missing)}.")
        values = tuple(checked_text("A tag", final[key]) for key in self._tag_keys)
        session = sessions.current()
        if session is not None:
            session.measurements.record(self._about, values, float(value))

    @property
    def info(self) -> dict[str, Any]:
        """Name, description, tag keys and default tags."""
        return {
            "name": self._name,
            "description": self._description,
            "tag_keys": self._tag_keys,
            "default_tags": self._default_tags,
        }

    def __reduce__(self) -> tuple[Any, ...]:
        # As in Ray, the default tags do not travel.
        return type(self), (self._name, self._description, self._tag_keys)


def _is_valid(name: str) -> bool:
    if not name:
        raise ValueError("Empty name is not allowed. Give the metric a name.")
    if _NAME.fullmatch(name):
        return True
    warnings.warn(
        f"Invalid metric name: {name!r}. Use letters, digits and underscores, and no digit first. "
        "What is recorded under this name is discarded.",
        UserWarning,
        stacklevel=4,
    )
    return False


def _check_value(value: object) -> None:
    if not isinstance(value, str):
        raise TypeError(f"Tag values must be str, got {type(value)}.")


def _check_number(value: object) -> None:
    if not isinstance(value, int | float):
        raise TypeError(f"value must be int or float, got {type(value)}.")


class Counter(Metric):
    """A sum that only grows, of all processes together.

    Parameters
    ----------
    name, description, tag_keys
        As in `Metric`.

    Examples
    --------
    >>> from raycompat.util.metrics import Counter
    >>> requests = Counter("requests", description="Requests", tag_keys=("path",))
    >>> requests.inc(1, tags={"path": "/"})

    Notes
    -----
    Ray source: ``ray.util.metrics.Counter``, 2.60.0. At the endpoint its name ends with ``_total``.
    """

    _kind = "counter"

    def inc(self, value: float = 1.0, tags: dict[str, str] | None = None) -> None:
        """Add to the sum.

        Parameters
        ----------
        value : float, default 1.0
            More than 0.
        tags : dict, optional
            A value for each tag that has no default.

        Raises
        ------
        TypeError
            When `value` is not a number, or a tag's value not a string.
        ValueError
            When `value` is not positive, or a tag is missing.
        """
        _check_number(value)
        if value <= 0:
            raise ValueError(f"value must be >0, got {value}")
        self._record(value, tags)


class Gauge(Metric):
    """A value that goes up and down; the last one of each process counts.

    Parameters
    ----------
    name, description, tag_keys
        As in `Metric`.

    Examples
    --------
    >>> from raycompat.util.metrics import Gauge
    >>> waiting = Gauge("waiting", description="Requests that wait")
    >>> waiting.set(3)

    Notes
    -----
    Ray source: ``ray.util.metrics.Gauge``, 2.60.0. At the endpoint it has one more tag, ``WorkerId``:
    the process.
    """

    _kind = "gauge"

    def set(self, value: float | None, tags: dict[str, str] | None = None) -> None:
        """Set the value; None does nothing.

        Raises
        ------
        TypeError
            When `value` is not a number, or a tag's value not a string.
        ValueError
            When a tag is missing.
        """
        if value is None:
            return
        _check_number(value)
        self._record(value, tags)


class Histogram(Metric):
    """How often values have fallen into each of some buckets.

    Parameters
    ----------
    name, description, tag_keys
        As in `Metric`.
    boundaries : list of float
        The upper bounds of the buckets, positive and ascending; there is one more for larger values.

    Examples
    --------
    >>> from raycompat.util.metrics import Histogram
    >>> duration = Histogram(
    ...     "duration_s", description="Seconds", boundaries=[0.1, 1, 10]
    ... )
    >>> duration.observe(0.3)

    Raises
    ------
    ValueError
        When there are no boundaries, or one is not positive.
    """

    _kind = "histogram"

    def __init__(
        self,
        name: str,
        description: str = "",
        boundaries: list[float] | None = None,
        tag_keys: tuple[str, ...] | None = None,
    ) -> None:
        super().__init__(name, description, tag_keys)
        if not boundaries:
            raise ValueError(
                "A Histogram needs boundaries, for example Histogram('name', boundaries=[1.0, 2.0])."
            )
        for index, boundary in enumerate(boundaries):
            if boundary <= 0:
                raise ValueError(
                    f"Invalid `boundaries` argument at index {index}, {boundaries}: each must be "
                    "positive."
                )
        self.boundaries = boundaries
        self._about = About(
            "histogram", name, self._description, self._tag_keys, tuple(map(float, boundaries))
        )

    def observe(self, value: float, tags: dict[str, str] | None = None) -> None:
        """Enter a value.

        Raises
        ------
        TypeError
            When `value` is not a number, or a tag's value not a string.
        ValueError
            When a tag is missing.
        """
        _check_number(value)
        self._record(value, tags)

    @property
    def info(self) -> dict[str, Any]:
        """Name, description, tag keys, default tags and boundaries."""
        return {**super().info, "boundaries": self.boundaries}

    def __reduce__(self) -> tuple[Any, ...]:
        return Histogram, (self._name, self._description, self.boundaries, self._tag_keys)


__all__ = ["Counter", "Gauge", "Histogram"]


#: Names of older Rays.
__getattr__ = names_of(__name__)
