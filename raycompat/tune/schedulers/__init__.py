"""Schedulers of trials: they decide which trials continue, pause or stop."""

from __future__ import annotations

from collections.abc import Callable

from raycompat._surface.modules import names_of
from raycompat.tune.schedulers.async_hyperband import ASHAScheduler, AsyncHyperBandScheduler
from raycompat.tune.schedulers.hb_bohb import HyperBandForBOHB
from raycompat.tune.schedulers.hyperband import HyperBandScheduler
from raycompat.tune.schedulers.median_stopping_rule import MedianStoppingRule
from raycompat.tune.schedulers.pb2 import PB2
from raycompat.tune.schedulers.pbt import PopulationBasedTraining
from raycompat.tune.schedulers.pbt_replay import PopulationBasedTrainingReplay
from raycompat.tune.schedulers.resource_changing_scheduler import ResourceChangingScheduler
from raycompat.tune.schedulers.trial_scheduler import FIFOScheduler, TrialScheduler
from raycompat.tune.search import with_known_arguments

__all__ = [
    "ASHAScheduler",
    "AsyncHyperBandScheduler",
    "FIFOScheduler",
    "HyperBandForBOHB",
    "HyperBandScheduler",
    "MedianStoppingRule",
    "PopulationBasedTraining",
    "PopulationBasedTrainingReplay",
    "ResourceChangingScheduler",
    "TrialScheduler",
    "create_scheduler",
]


SCHEDULERS: dict[str, Callable[..., TrialScheduler]] = {
    "fifo": FIFOScheduler,
    "async_hyperband": AsyncHyperBandScheduler,
    "asynchyperband": AsyncHyperBandScheduler,
    "median_stopping_rule": MedianStoppingRule,
    "medianstopping": MedianStoppingRule,
    "hyperband": HyperBandScheduler,
    "hb_bohb": HyperBandForBOHB,
    "pbt": PopulationBasedTraining,
    "pbt_replay": PopulationBasedTrainingReplay,
    "pb2": PB2,
    "resource_changing": ResourceChangingScheduler,
}


def create_scheduler(scheduler: str, **kwargs: object) -> TrialScheduler:
    """Make a scheduler by its name.

    Parameters
    ----------
    scheduler : str
        Such as "fifo", "async_hyperband", "hyperband", "median_stopping_rule", "pbt".
    **kwargs
        Arguments of the scheduler; those that it lacks are left out.

    Raises
    ------
    ValueError
        When no scheduler has that name.

    Examples
    --------
    >>> from raycompat import tune
    >>> scheduler = tune.create_scheduler("asynchyperband", max_t=20)
    >>> type(scheduler).__name__
    'AsyncHyperBandScheduler'
    """
    name = scheduler.lower()
    if name not in SCHEDULERS:
        raise ValueError(f"scheduler={scheduler!r}: expected one of {sorted(SCHEDULERS)}.")
    made: TrialScheduler = with_known_arguments(SCHEDULERS[name], kwargs)
    return made


#: Names of older Rays.
__getattr__ = names_of(__name__)
