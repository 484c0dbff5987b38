"""`TuneConfig`, `RunConfig` and their parts: how an experiment searches and runs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from enum import Enum
from typing import TYPE_CHECKING, Any

from raycompat.air import config as air

if TYPE_CHECKING:
    from raycompat.tune.experiment.trial import Trial


@dataclass(repr=False)
class CheckpointConfig(air.CheckpointConfig):
    """Say which checkpoints of a trial are kept, and when a class trainable makes them.

    Notes
    -----
    Ray source: ``ray.tune.CheckpointConfig``, 2.60.0. Parameters as in
    `raycompat.air.CheckpointConfig`.
    """


@dataclass(repr=False)
class FailureConfig(air.FailureConfig):
    """Say how often a failed trial is tried again.

    Notes
    -----
    Ray source: ``ray.tune.FailureConfig``, 2.60.0. Parameters as in `raycompat.air.FailureConfig`.
    """


@dataclass(repr=False)
class RunConfig(air.RunConfig):
    """Say where an experiment's results go, when its trials stop, and what is shown meanwhile.

    Notes
    -----
    Ray source: ``ray.tune.RunConfig``, 2.60.0. Parameters as in `raycompat.air.RunConfig`.
    """

    def __post_init__(self) -> None:
        self.checkpoint_config = self.checkpoint_config or CheckpointConfig()
        self.failure_config = self.failure_config or FailureConfig()
        super().__post_init__()


@dataclass
class TuneConfig:
    """Say how an experiment searches.

    Parameters
    ----------
    mode : {"min", "max"}, optional
    metric : str, optional
        What is optimized; searchers and schedulers get both.
    search_alg : Searcher or SearchAlgorithm, optional
        By default grids and random draws.
    scheduler : TrialScheduler, optional
        By default every trial runs to its end.
    num_samples : int, default 1
        How often the space is drawn from; -1 is without end.
    max_concurrent_trials : int, optional
        How many trials run at a time; None or 0 is no limit.
    time_budget_s : float or datetime.timedelta, optional
        Seconds after which everything ends.
    reuse_actors : bool, default False
        Run several trials in one process, one after the other.
    trial_name_creator, trial_dirname_creator : callable, optional
        Functions of a trial that return its name, and its folder's.

    Notes
    -----
    Ray source: ``ray.tune.TuneConfig``, 2.60.0. No known difference.
    """

    mode: str | None = None
    metric: str | None = None
    search_alg: Any = None
    scheduler: Any = None
    num_samples: int = 1
    max_concurrent_trials: int | None = None
    time_budget_s: float | timedelta | None = None
    reuse_actors: bool = False
    trial_name_creator: Callable[[Trial], str] | None = None
    trial_dirname_creator: Callable[[Trial], str] | None = None
    chdir_to_trial_dir: Any = "DEPRECATED"


@dataclass
class ResumeConfig:
    """Say what becomes of the trials of an experiment that is restored.

    Parameters
    ----------
    finished, unfinished, errored : ResumeConfig.ResumeType
        By default "skip", "resume" and "skip".

    Notes
    -----
    Ray source: ``ray.tune.ResumeConfig``, 2.60.0. No known difference.
    """

    class ResumeType(Enum):
        """Go on from the last checkpoint, begin again, or leave a trial as it is."""

        RESUME = "resume"
        RESTART = "restart"
        SKIP = "skip"

    finished: Any = ResumeType.SKIP
    unfinished: Any = ResumeType.RESUME
    errored: Any = ResumeType.SKIP
