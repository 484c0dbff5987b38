"""Functions for the function of a trial, in 0.8 to 2.0; today they are on ``tune.get_context()``."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from raycompat.tune.trainable import session


def get_trial_dir() -> str | None:
    """Return the trial's folder; None outside of a trial."""
    return session.get_context().get_trial_dir()


def get_trial_name() -> str | None:
    """Return the trial's name; None outside of a trial."""
    return session.get_context().get_trial_name()


def get_trial_id() -> str | None:
    """Return the trial's id; None outside of a trial."""
    return session.get_context().get_trial_id()


def get_trial_resources() -> Any:
    """Return the trial's resources; None outside of a trial."""
    return session.get_context().get_trial_resources()


def log(**metrics: Any) -> None:
    """Report a result, as ``tune.track.log(mean_accuracy=...)`` did."""
    session.report(metrics)


@contextmanager
def running(**_: Any) -> Iterator[None]:
    """Do nothing: ``tune.track.init`` began a trial that Tune itself begins today."""
    yield


def init(*args: Any, **kwargs: Any) -> None:
    """Do nothing: a trial has its session already."""


def shutdown() -> None:
    """Do nothing: Tune ends the session of a trial."""


def trial_dir() -> str | None:
    """Return the trial's folder."""
    return get_trial_dir()


def function(func: Any) -> Any:
    """Return the function itself: until 2019, Tune called functions that were not wrapped."""
    return func


def durable(trainable: Any) -> Any:
    """Return the trainable itself: all are kept in the experiment's storage."""
    return trainable
