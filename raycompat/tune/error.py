"""`TuneError`: what Tune raises when an experiment cannot be run or has failed."""

from __future__ import annotations

from raycompat._surface.modules import names_of


class TuneError(Exception):
    """An experiment is not valid, or its trials failed.

    Examples
    --------
    >>> from raycompat import tune
    >>> try:
    ...     tune.run("a name that is not registered", verbose=0)
    ... except tune.TuneError:
    ...     print("call tune.register_trainable first")
    call tune.register_trainable first
    """


class NoExperimentError(TuneError, ValueError):
    """A folder is not that of an experiment; Ray raises a `ValueError` there."""


class InvalidModeError(ValueError, AssertionError):
    """A mode that is neither "min" nor "max"; Ray raises an AssertionError."""


class InvalidRangeError(ValueError, AssertionError):
    """A parameter of a scheduler or searcher is out of its range; Ray raises an AssertionError."""


class NoMetricError(TuneError, ValueError):
    """A result lacks the metric that decides."""


#: Names of older Rays.
__getattr__ = names_of(__name__)
