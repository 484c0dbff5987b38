"""`TuneConfig`, `RunConfig` and their parts: how an experiment searches and runs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from enum import Enum
from typing import TYPE_CHECKING, Any

from raycompat.train import _run_configs as air

if TYPE_CHECKING:
    from raycompat.tune.experiment.trial import Trial


@dataclass(repr=False)
class CheckpointConfig(air.CheckpointConfig):
    """The checkpoints of a trial that are kept, and when a class trainable makes them.

    Examples
    --------
    >>> from raycompat import tune
    >>> best_two = tune.CheckpointConfig(
    ...     num_to_keep=2,
    ...     checkpoint_score_attribute="accuracy",
    ...     checkpoint_score_order="max",
    ... )

    Notes
    -----
    Ray source: ``ray.tune.CheckpointConfig``, 2.60.0. Parameters as in
    `raycompat.air.CheckpointConfig`.
    """


@dataclass(repr=False)
class FailureConfig(air.FailureConfig):
    """How often a failed trial is retried.

    Examples
    --------
    >>> from raycompat import tune
    >>> tune.FailureConfig(max_failures=3).max_failures
    3

    Notes
    -----
    Ray source: ``ray.tune.FailureConfig``, 2.60.0. Parameters as in `raycompat.air.FailureConfig`.
    """


@dataclass(repr=False)
class RunConfig(air.RunConfig):
    """The place of an experiment's results, when its trials stop, and what is shown during the run.

    Examples
    --------
    >>> from raycompat import tune
    >>> config = tune.RunConfig(
    ...     name="digits",
    ...     storage_path="/tmp/experiments",
    ...     stop={"training_iteration": 20},
    ...     checkpoint_config=tune.CheckpointConfig(num_to_keep=2),
    ...     failure_config=tune.FailureConfig(max_failures=1),
    ... )

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
    """The search of an experiment.

    Parameters
    ----------
    mode : {"min", "max"}, optional
    metric : str, optional
        The metric to optimize. Searchers and schedulers get it, with the mode.
    search_alg : Searcher or SearchAlgorithm, optional
        By default grids and random draws.
    scheduler : TrialScheduler, optional
        By default every trial runs to its end.
    num_samples : int, default 1
        Number of draws from the space; -1: no limit.
    max_concurrent_trials : int, optional
        Maximum number of concurrent trials; None or 0: no limit.
    time_budget_s : float or datetime.timedelta, optional
        Seconds after which everything ends.
    reuse_actors : bool, default False
        Run several trials in one process, one after the other.
    trial_name_creator, trial_dirname_creator : callable, optional
        Functions of a trial that return its name, and its folder's.

    Examples
    --------
    >>> from raycompat import tune
    >>> config = tune.TuneConfig(
    ...     metric="loss",
    ...     mode="min",
    ...     num_samples=20,
    ...     max_concurrent_trials=4,
    ...     time_budget_s=600,
    ... )

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
    """What happens to the trials of a restored experiment.

    Parameters
    ----------
    finished, unfinished, errored : ResumeConfig.ResumeType
        By default "skip", "resume" and "skip".

    Examples
    --------
    >>> from raycompat import tune
    >>> config = tune.ResumeConfig(errored=tune.ResumeConfig.ResumeType.RESTART)

    Notes
    -----
    Ray source: ``ray.tune.ResumeConfig``, 2.60.0. No known difference.
    """

    class ResumeType(Enum):
        """Continue from the last checkpoint, start again, or leave a trial as it is.

        Examples
        --------
        >>> from raycompat import tune
        >>> [resume.name for resume in tune.ResumeConfig.ResumeType]
        ['RESUME', 'RESTART', 'SKIP']
        """

        RESUME = "resume"
        RESTART = "restart"
        SKIP = "skip"

    finished: Any = ResumeType.SKIP
    unfinished: Any = ResumeType.RESUME
    errored: Any = ResumeType.SKIP
