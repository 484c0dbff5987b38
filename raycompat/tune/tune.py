"""`run` and `run_experiments`: experiments in one call."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING

from raycompat._surface import forms
from raycompat.tune.analysis.experiment_analysis import ExperimentAnalysis
from raycompat.tune.config import DEPRECATED, ResumeConfig, works_in_folder
from raycompat.tune.execution.restore import resume_config_of
from raycompat.tune.execution.run import RunSettings, run_experiments_to_end
from raycompat.tune.experiment.experiment import Experiment, convert_to_experiment_list
from raycompat.tune.experiment.trial import Trial
from raycompat.tune.progress_reporter import ProgressReporter
from raycompat.tune.run_config import CheckpointConfig, FailureConfig

if TYPE_CHECKING:
    import pyarrow.fs

    from raycompat.train import SyncConfig
    from raycompat.tune.callback import Callback
    from raycompat.tune.execution.placement_groups import PlacementGroupFactory
    from raycompat.tune.schedulers.trial_scheduler import TrialScheduler
    from raycompat.tune.search.search_algorithm import SearchAlgorithm
    from raycompat.tune.search.searcher import Names, Searcher
    from raycompat.tune.stopper.stopper import Stop
    from raycompat.tune.trainable.nested import Config


@forms.takes_old_options("ray.tune.run")
def run(
    run_or_experiment: str | Callable[..., object] | Experiment | list[Experiment],
    *,
    name: str | None = None,
    metric: Names = None,
    mode: Names = None,
    stop: Stop | None = None,
    time_budget_s: float | timedelta | None = None,
    config: Config | None = None,
    resources_per_trial: Mapping[str, object]
    | PlacementGroupFactory
    | Callable[[Config], object]
    | None = None,
    num_samples: int = 1,
    storage_path: str | None = None,
    storage_filesystem: pyarrow.fs.FileSystem | None = None,
    search_alg: SearchAlgorithm | Searcher | str | None = None,
    scheduler: TrialScheduler | str | None = None,
    checkpoint_config: CheckpointConfig | None = None,
    verbose: int | None = None,
    progress_reporter: ProgressReporter | None = None,
    log_to_file: bool | str | Sequence[str] = False,
    trial_name_creator: Callable[[Trial], str] | None = None,
    trial_dirname_creator: Callable[[Trial], str] | None = None,
    sync_config: SyncConfig | None = None,
    export_formats: Sequence[str] | None = None,
    max_failures: int = 0,
    fail_fast: bool | str = False,
    restore: str | None = None,
    resume: bool | str | None = None,
    resume_config: ResumeConfig | None = None,
    reuse_actors: bool = False,
    raise_on_failed_trial: bool = True,
    callbacks: Sequence[Callback] | None = None,
    max_concurrent_trials: int | None = None,
    keep_checkpoints_num: int | None = None,
    checkpoint_score_attr: str | None = None,
    checkpoint_freq: int = 0,
    checkpoint_at_end: bool = False,
    chdir_to_trial_dir: bool | str = DEPRECATED,
    local_dir: str | None = None,
) -> ExperimentAnalysis:
    """Run an experiment to its end.

    Parameters
    ----------
    run_or_experiment : callable, subclass of Trainable, str, Experiment or list of Experiment
        The trainable or experiments. Arguments that an `Experiment` has are only for trainables.
    metric, mode : str, optional
        The metric to optimize, and "min" or "max"; lists for several objectives.
    search_alg : Searcher, SearchAlgorithm or str, optional
        By default grids and random draws.
    scheduler : TrialScheduler or str, optional
        By default every trial runs to its end.
    verbose : int, default 1
        0 shows nothing.
    progress_reporter : ProgressReporter, optional
        The object that shows the progress.
    fail_fast : bool or "raise", default False
        End, or raise the error, when a trial has failed.
    resume : bool or str, optional
        Go on with the experiment of this name: True; "ERRORED_ONLY"; with "AUTO+ERRORED" failed trials,
        too.
    resume_config : ResumeConfig, optional
        The same, in detail.
    reuse_actors : bool, default False
        Run several trials in one process.
    raise_on_failed_trial : bool, default True
        Raise at the end when a trial has failed.
    callbacks : list of Callback, optional
    max_concurrent_trials : int, optional
        How many trials run at a time.
    keep_checkpoints_num, checkpoint_score_attr, checkpoint_freq, checkpoint_at_end : optional
        Names of earlier Rays for parts of `checkpoint_config`; a score that begins with ``min-``
        is best when low.
    name, stop, time_budget_s, config, resources_per_trial, num_samples : optional
        As in `Experiment`; so are `storage_path`, `storage_filesystem`, `checkpoint_config`,
        `log_to_file`, `trial_name_creator`, `trial_dirname_creator`, `max_failures`, `restore` and
        `local_dir`, an old name of `storage_path`.
    chdir_to_trial_dir : bool, default True
        As in `TuneConfig`.
    sync_config : SyncConfig, optional
        Has no effect: files are written to `storage_path` at once.

    Raises
    ------
    TuneError
        When a trial has failed, or the experiment is not valid.
    ValueError, TypeError
        When an argument is not valid, or a result lacks the metric.

    Examples
    --------
    >>> import tempfile
    >>> from raycompat import tune
    >>> def cost(config):
    ...     return {"cost": (config["x"] - 3) ** 2}
    >>> analysis = tune.run(
    ...     cost,
    ...     config={"x": tune.grid_search([1, 3, 5])},
    ...     metric="cost",
    ...     mode="min",
    ...     storage_path=tempfile.mkdtemp(),
    ...     verbose=0,
    ... )
    >>> analysis.best_config
    {'x': 3}

    Notes
    -----
    Ray source: ``ray.tune.run``, 2.60.0. Differs from Ray: an interrupt by Ctrl-C returns the results
    so far; `resume` continues.
    """
    FailureConfig(
        max_failures=max_failures, fail_fast=fail_fast
    )  # raises if they exclude each other
    storage_path = storage_path or getattr(sync_config, "_storage_path", None)
    checkpoint_config = _with_old_names(
        checkpoint_config,
        keep_checkpoints_num,
        checkpoint_score_attr,
        checkpoint_freq,
        checkpoint_at_end,
    )
    if isinstance(run_or_experiment, Experiment | list):
        experiments = convert_to_experiment_list(run_or_experiment)
    else:
        experiments = [
            Experiment(
                name or "",
                run_or_experiment,
                stop=stop,
                time_budget_s=time_budget_s,
                config=config,
                resources_per_trial=resources_per_trial,
                num_samples=num_samples,
                storage_path=storage_path,
                storage_filesystem=storage_filesystem,
                sync_config=sync_config,
                checkpoint_config=checkpoint_config,
                trial_name_creator=trial_name_creator,
                trial_dirname_creator=trial_dirname_creator,
                log_to_file=log_to_file,
                export_formats=export_formats,
                max_failures=max_failures,
                restore=restore,
                local_dir=local_dir,
            )
        ]
    return run_experiments_to_end(
        experiments,
        RunSettings(
            metric=metric,
            mode=mode,
            search_alg=search_alg,
            scheduler=scheduler,
            verbose=1 if verbose is None else verbose,
            progress_reporter=progress_reporter,
            fail_fast=fail_fast,
            resume_config=resume_config or resume_config_of(resume),
            reuse_actors=reuse_actors,
            raise_on_failed_trial=raise_on_failed_trial,
            callbacks=list(callbacks or []),
            max_concurrent_trials=max_concurrent_trials,
            works_in_folder=works_in_folder(chdir_to_trial_dir, "ray.tune.run"),
        ),
    )


def _with_old_names(
    config: CheckpointConfig | None,
    num_to_keep: int | None,
    score: str | None,
    frequency: int,
    at_end: bool,
) -> CheckpointConfig | None:
    if num_to_keep is None and score is None and not frequency and not at_end:
        return config
    if config is not None:
        raise ValueError(
            "checkpoint_config and its old names say the same: leave the old ones out."
        )
    lowest = score is not None and score.startswith("min-")
    return CheckpointConfig(
        num_to_keep=num_to_keep,
        checkpoint_score_attribute=score.removeprefix("min-") if score else None,
        checkpoint_score_order="min" if lowest else "max",
        checkpoint_frequency=frequency,
        checkpoint_at_end=at_end or None,
    )


@forms.takes_old_options("ray.tune.run_experiments")
def run_experiments(
    experiments: Experiment | Mapping[str, object] | Sequence[object],
    scheduler: TrialScheduler | str | None = None,
    verbose: int | None = None,
    progress_reporter: ProgressReporter | None = None,
    resume: bool | str | None = None,
    resume_config: ResumeConfig | None = None,
    reuse_actors: bool = False,
    raise_on_failed_trial: bool = True,
    concurrent: bool = True,
    callbacks: Sequence[Callback] | None = None,
    _search_alg: SearchAlgorithm | Searcher | str | None = None,
) -> list[Trial]:
    """Run several experiments to their end, and return their trials.

    Parameters
    ----------
    experiments : Experiment, list of Experiment, or dict
        A dict has a spec for each name: ``{"run": ..., "stop": ..., "config": ...}``, with the keys of
        `Experiment`, and with those of 2018: ``resources``, ``trial_resources``, ``repeat``,
        ``local_dir``, ``checkpoint_freq``.
    concurrent : bool, default True
        Run them side by side, not one after the other.

    Other parameters are those of `run`.

    Raises
    ------
    TuneError
        When a trial has failed, or a spec is not valid.

    Examples
    --------
    >>> import tempfile
    >>> from raycompat import tune
    >>> def cost(config):
    ...     return {"cost": (config["x"] - 3) ** 2}
    >>> trials = tune.run_experiments(
    ...     {
    ...         "parabola": {
    ...             "run": cost,
    ...             "config": {"x": tune.grid_search([1, 5])},
    ...             "storage_path": tempfile.mkdtemp(),
    ...         }
    ...     },
    ...     verbose=0,
    ... )
    >>> [trial.last_result["cost"] for trial in trials]
    [4, 4]

    The form of 2018::

        tune.register_trainable("train", lambda config, reporter: ...)
        tune.run_experiments(
            {
                "mine": {
                    "run": "train",
                    "stop": {"mean_accuracy": 0.99},
                    "config": {"lr": tune.grid_search([0.1, 0.01])},
                    "trial_resources": {"cpu": 1},
                }
            }
        )

    Notes
    -----
    Ray source: ``ray.tune.run_experiments``, 2.60.0, and of 0.2 to 0.8.
    """
    found = convert_to_experiment_list(experiments)
    groups = [found] if concurrent else [[experiment] for experiment in found]
    trials: list[Trial] = []
    for group in groups:
        trials += run(
            group,
            search_alg=_search_alg,
            scheduler=scheduler,
            verbose=verbose,
            progress_reporter=progress_reporter,
            resume=resume,
            resume_config=resume_config,
            reuse_actors=reuse_actors,
            raise_on_failed_trial=raise_on_failed_trial,
            callbacks=callbacks,
        ).trials
    return trials
