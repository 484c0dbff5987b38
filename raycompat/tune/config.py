"""`TuneConfig` and `ResumeConfig`: how an experiment searches, and continues."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from enum import Enum
from typing import TYPE_CHECKING

from raycompat._surface import forms
from raycompat.tune.experiment.trial import Trial

if TYPE_CHECKING:
    from raycompat.tune.schedulers.trial_scheduler import TrialScheduler
    from raycompat.tune.search.search_algorithm import SearchAlgorithm
    from raycompat.tune.search.searcher import Searcher

#: Ray's default of an option that has gone.
DEPRECATED = "DEPRECATED"


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
    chdir_to_trial_dir : bool, default True
        Whether each trial works in its folder. An old form of the environment variable
        ``RAY_CHDIR_TO_TRIAL_DIR`` (1 or 0).

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
    """

    mode: str | None = None
    metric: str | None = None
    search_alg: SearchAlgorithm | Searcher | str | None = None
    scheduler: TrialScheduler | str | None = None
    num_samples: int = 1
    max_concurrent_trials: int | None = None
    time_budget_s: float | timedelta | None = None
    reuse_actors: bool = False
    trial_name_creator: Callable[[Trial], str] | None = None
    trial_dirname_creator: Callable[[Trial], str] | None = None
    chdir_to_trial_dir: bool | str = DEPRECATED

    def __post_init__(self) -> None:
        works_in_folder(self.chdir_to_trial_dir, "ray.tune.TuneConfig")


def works_in_folder(chdir_to_trial_dir: bool | str, of: str) -> bool:
    """Return whether trials work in their folders, by the old option of a name of Ray."""
    if chdir_to_trial_dir == DEPRECATED:
        return True
    if not isinstance(chdir_to_trial_dir, bool):
        raise TypeError(f"{of}(chdir_to_trial_dir={chdir_to_trial_dir!r}): expected True or False.")
    forms.option(of, "chdir_to_trial_dir", refusal=DeprecationWarning)
    return chdir_to_trial_dir


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

    finished: ResumeConfig.ResumeType = ResumeType.SKIP
    unfinished: ResumeConfig.ResumeType = ResumeType.RESUME
    errored: ResumeConfig.ResumeType = ResumeType.SKIP
