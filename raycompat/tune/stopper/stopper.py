"""`Stopper`, and stoppers that use counts and clocks."""

from __future__ import annotations

import abc
import logging
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any, TypeAlias

from raycompat.tune.trainable.nested import flatten_dict

if TYPE_CHECKING:
    from raycompat.tune.trainable.nested import Metrics

logger = logging.getLogger(__name__)


class Stopper(abc.ABC):
    """Decides when a trial ends, and when all do. Subclass it for your own stopper.

    Examples
    --------
    Stop all trials as soon as one is good enough:

    >>> import tempfile
    >>> from raycompat import tune
    >>> class GoodEnough(tune.Stopper):
    ...     def __init__(self):
    ...         self.is_found = False
    ...
    ...     def __call__(self, trial_id, result):
    ...         self.is_found = self.is_found or result["loss"] < 0.2
    ...         return self.is_found
    ...
    ...     def stop_all(self):
    ...         return self.is_found
    >>> def halve(config):
    ...     loss = 1.0
    ...     while True:
    ...         loss /= 2
    ...         tune.report({"loss": loss})
    >>> run_config = tune.RunConfig(
    ...     storage_path=tempfile.mkdtemp(), verbose=0, stop=GoodEnough()
    ... )
    >>> results = tune.Tuner(halve, run_config=run_config).fit()
    >>> results[0].metrics["loss"]
    0.125
    """

    @abc.abstractmethod
    def __call__(self, trial_id: str, result: Metrics) -> bool:
        """Return whether the trial ends after this result."""

    @abc.abstractmethod
    def stop_all(self) -> bool:
        """Return whether the experiment ends."""


class CombinedStopper(Stopper):
    """Stop when one of `stoppers` does.

    Examples
    --------
    >>> from raycompat.tune.stopper import (
    ...     CombinedStopper,
    ...     FunctionStopper,
    ...     MaximumIterationStopper,
    ... )
    >>> stopper = CombinedStopper(
    ...     MaximumIterationStopper(max_iter=100),
    ...     FunctionStopper(lambda trial_id, result: result["loss"] < 0.1),
    ... )
    >>> stopper("trial_1", {"training_iteration": 1, "loss": 0.5})
    False
    >>> stopper("trial_1", {"training_iteration": 2, "loss": 0.05})
    True

    Notes
    -----
    Ray source: ``ray.tune.stopper.CombinedStopper``, 2.60.0. Differs from Ray: every stopper sees every
    result, also when one before it stops the trial.
    """

    def __init__(self, *stoppers: Stopper) -> None:
        self._stoppers = stoppers

    def __call__(self, trial_id: str, result: Metrics) -> bool:
        decisions = [stopper(trial_id, result) for stopper in self._stoppers]
        return any(decisions)

    def stop_all(self) -> bool:
        return any(stopper.stop_all() for stopper in self._stoppers)


class NoopStopper(Stopper):
    """Never stop.

    Examples
    --------
    >>> from raycompat.tune.stopper import NoopStopper
    >>> stopper = NoopStopper()
    >>> stopper("a trial", {"loss": 0.0}), stopper.stop_all()
    (False, False)
    """

    def __call__(self, trial_id: str, result: Metrics) -> bool:
        return False

    def stop_all(self) -> bool:
        return False


class FunctionStopper(NoopStopper):
    """Stop a trial when `function` says so: it takes the id of a trial and its result.

    Examples
    --------
    >>> from raycompat.tune.stopper import FunctionStopper
    >>> stopper = FunctionStopper(lambda trial_id, result: result["loss"] < 0.1)
    >>> stopper("trial_1", {"loss": 0.5}), stopper("trial_1", {"loss": 0.05})
    (False, True)
    """

    def __init__(self, function: Callable[[str, Metrics], bool]) -> None:
        self._function = function

    def __call__(self, trial_id: str, result: Metrics) -> bool:
        return self._function(trial_id, result)

    @classmethod
    def is_valid_function(cls, fn: object) -> bool:
        """Return whether an object can be the function: it is callable, and not a Stopper.

        Raises
        ------
        ValueError
            When it has the methods of a Stopper, but is not one.

        Examples
        --------
        >>> from raycompat.tune.stopper import FunctionStopper
        >>> FunctionStopper.is_valid_function(lambda trial, result: result["loss"] < 1)
        True
        """
        if isinstance(fn, Stopper) or not callable(fn):
            return False
        if hasattr(fn, "stop_all"):
            raise ValueError(
                f"stop={fn!r} has stop_all: make its class a subclass of tune.Stopper."
            )
        return True


class DictStopper(NoopStopper):
    """Stop a trial when one of its values reaches a bound.

    Parameters
    ----------
    bounds : dict
        Bounds by name; nested values are ``"a/b"`` or nested dicts.
    """

    def __init__(self, bounds: Mapping[str, Any]) -> None:
        self.bounds = flatten_dict(bounds)
        self._warned = False

    def __call__(self, trial_id: str, result: Metrics) -> bool:
        flat = result if all(name in result for name in self.bounds) else flatten_dict(result)
        missing = [name for name in self.bounds if name not in flat]
        if missing and not self._warned:
            self._warned = True
            logger.warning(
                "stop=%r names %s, which a result lacks; it has %s. A trial that never reports it "
                "is not stopped by it.",
                dict(self.bounds),
                missing,
                sorted(flat),
            )
        return any(name in flat and flat[name] >= bound for name, bound in self.bounds.items())


class MaximumIterationStopper(NoopStopper):
    """Stop a trial after a number of results.

    Parameters
    ----------
    max_iter : int

    Examples
    --------
    >>> from raycompat.tune.stopper import MaximumIterationStopper
    >>> stopper = MaximumIterationStopper(max_iter=2)
    >>> [stopper("trial_1", {"loss": 0.5}) for _ in range(3)]
    [False, True, True]
    """

    def __init__(self, max_iter: int) -> None:
        self._max_iter = max_iter
        self._counts: defaultdict[str, int] = defaultdict(int)

    def __call__(self, trial_id: str, result: Metrics) -> bool:
        self._counts[trial_id] += 1
        return self._counts[trial_id] >= self._max_iter


class TimeoutStopper(NoopStopper):
    """Stop everything after a time, counted from the first check.

    Parameters
    ----------
    timeout : float or datetime.timedelta
        Seconds.

    Examples
    --------
    >>> from raycompat import tune
    >>> from raycompat.tune.stopper import TimeoutStopper
    >>> config = tune.RunConfig(stop=TimeoutStopper(timeout=600))

    Notes
    -----
    Ray source: ``ray.tune.stopper.TimeoutStopper``, 2.60.0. A restored experiment continues with
    the remaining time.
    """

    def __init__(self, timeout: float | timedelta) -> None:
        if isinstance(timeout, timedelta):
            timeout = timeout.total_seconds()
        if isinstance(timeout, bool) or not isinstance(timeout, int | float):
            raise ValueError(f"timeout={timeout!r}: expected seconds, or a datetime.timedelta.")
        self._left_s = float(timeout)
        self._last_check: float | None = None

    def stop_all(self) -> bool:
        now = time.monotonic()
        if self._last_check is not None:
            self._left_s -= now - self._last_check
        self._last_check = now
        return self._left_s <= 0

    def __getstate__(self) -> dict[str, object]:
        return {**self.__dict__, "_last_check": None}


#: When trials end, as a user says it: limits of metrics, a function of a trial's id and its result, or
#: stoppers.
Stop: TypeAlias = "Mapping[str, Any] | Callable[[str, Metrics], bool] | Stopper | Sequence[Stopper]"


def stopper_of(stop: Any) -> Stopper:
    """Return the stopper that the argument `stop` of an experiment means.

    Raises
    ------
    ValueError
        When it is neither a dict, a function of trial id and result, a Stopper, nor a list of Stoppers.
    """
    if stop is None:
        return NoopStopper()
    if isinstance(stop, Stopper):
        return stop
    if isinstance(stop, Mapping):
        return DictStopper(stop)
    if isinstance(stop, list | tuple) and all(isinstance(each, Stopper) for each in stop):
        return CombinedStopper(*stop)
    if not isinstance(stop, type) and FunctionStopper.is_valid_function(stop):
        return FunctionStopper(stop)
    raise ValueError(
        f"stop={stop!r}: expected a dict such as {{'training_iteration': 10}}, a function of "
        "trial id and "
        "result, or an instance of tune.Stopper."
    )
