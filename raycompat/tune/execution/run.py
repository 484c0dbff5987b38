"""Running experiments to their end: what `tune.run`, `run_experiments` and `Tuner.fit` have in
common.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import raycompat as ray
from raycompat._old_forms.tune import searchers
from raycompat.tune.analysis.experiment_analysis import ExperimentAnalysis
from raycompat.tune.callback import Callback
from raycompat.tune.config import ResumeConfig
from raycompat.tune.error import TuneError
from raycompat.tune.execution.experiment_state import JOURNAL
from raycompat.tune.execution.restore import restore_search, restored_trials
from raycompat.tune.execution.trial_runner import TrialRunner
from raycompat.tune.experiment.experiment import Experiment
from raycompat.tune.logger import CSVLoggerCallback, JsonLoggerCallback, TBXLoggerCallback
from raycompat.tune.logger.dashboard import DashboardCallback
from raycompat.tune.progress_reporter import ProgressReporter, default_reporter
from raycompat.tune.schedulers import FIFOScheduler, TrialScheduler, create_scheduler
from raycompat.tune.search import (
    BasicVariantGenerator,
    ConcurrencyLimiter,
    SearchAlgorithm,
    Searcher,
    SearchGenerator,
    create_searcher,
)
from raycompat.tune.search.searcher import has_search_space

logger = logging.getLogger(__name__)


@dataclass
class RunSettings:
    """The settings of the execution: arguments of `tune.run` that are not an experiment's."""

    metric: Any = None
    mode: Any = None
    search_alg: SearchAlgorithm | Searcher | str | None = None
    scheduler: TrialScheduler | str | None = None
    verbose: int = 1
    progress_reporter: ProgressReporter | None = None
    fail_fast: bool | str = False
    resume_config: ResumeConfig | None = None
    reuse_actors: bool = False
    raise_on_failed_trial: bool = True
    callbacks: list[Callback] = field(default_factory=list)
    max_concurrent_trials: int | None = None
    works_in_folder: bool = True


def run_experiments_to_end(
    experiments: list[Experiment], settings: RunSettings
) -> ExperimentAnalysis:
    """Run every trial of the experiments, and return the results."""
    _check(settings)
    if not ray.is_initialized():
        ray.init()
    search_alg = make_search_alg(settings, experiments)
    scheduler = _make_scheduler(settings, experiments)
    folder = experiments[0].folder
    trials = None
    if settings.resume_config is not None and folder.exists(JOURNAL):
        trials = restored_trials(folder, settings.resume_config, experiments)
    elif settings.resume_config is not None:
        logger.warning("%s has no experiment to resume; a new one begins.", folder.path)
    runner = TrialRunner(
        experiments,
        search_alg,
        scheduler,
        metric=settings.metric,
        callbacks=[*make_callbacks(settings.callbacks), _on_dashboard(experiments[0], settings)],
        trials=trials,
        fail_fast=settings.fail_fast,
        reuse_actors=settings.reuse_actors,
        works_in_folder=settings.works_in_folder,
    )
    if trials is not None:
        restore_search(folder, search_alg, runner.callbacks, experiments, trials)
    reporter = settings.progress_reporter or default_reporter(settings.verbose)
    interrupted = _run(runner, reporter, search_alg, settings, experiments)
    analysis = ExperimentAnalysis(
        folder.path,
        storage_filesystem=folder.filesystem,
        trials=runner.get_trials(),
        default_metric=settings.metric if isinstance(settings.metric, str) else None,
        default_mode=settings.mode if isinstance(settings.mode, str) else None,
    )
    failed = [trial for trial in runner.get_trials() if trial.status == "ERROR"]
    if failed and settings.raise_on_failed_trial and not interrupted:
        raise TuneError(
            f"{len(failed)} of {len(runner.get_trials())} trials failed: {failed}. The first failed "
            f"with: {failed[0].error!r}. Their errors are in {[trial.error_file for trial in failed]}."
        )
    return analysis


def _run(
    runner: TrialRunner,
    reporter: ProgressReporter,
    search_alg: SearchAlgorithm,
    settings: RunSettings,
    experiments: list[Experiment],
) -> bool:
    """Step until the end; say whether Ctrl-C ended it."""
    reporter.setup(
        total_samples=search_alg.total_samples, metric=settings.metric, mode=settings.mode
    )
    spec = experiments[0].public_spec
    runner.callbacks(
        "setup",
        stop=spec["stop"],
        num_samples=spec["num_samples"],
        total_num_samples=search_alg.total_samples,
        time_budget_s=spec["time_budget_s"],
    )
    interrupted = False
    try:
        try:
            runner.begin()
            while not runner.is_finished():
                runner.step()
                _report(runner, reporter, done=False)
        except KeyboardInterrupt:
            interrupted = True
            logger.warning(
                "Interrupted: the trials' processes end, and the results so far are kept in %s. Go "
                "on with Tuner.restore(%r, trainable=...). Interrupt again to leave at once.",
                experiments[0].path,
                experiments[0].path,
            )
    finally:
        is_failing = sys.exc_info()[0] is not None
        try:
            runner.cleanup()
            _report(runner, reporter, done=True)
        except OSError as error:
            if not is_failing:
                raise
            # The first error is raised, which mostly has the same reason.
            logger.error("The end of the experiment could not be written: %s", error)
        finally:
            getattr(reporter, "close", lambda: None)()
    return interrupted


def _report(runner: TrialRunner, reporter: ProgressReporter, done: bool) -> None:
    trials = runner.get_trials()
    if reporter.should_report(trials, done=done):
        reporter.report(trials, done, runner.scheduler_alg.debug_string(), runner.resources_text())


def _check(settings: RunSettings) -> None:
    modes = settings.mode if isinstance(settings.mode, list) else [settings.mode]
    for mode in modes:
        if mode not in (None, "min", "max"):
            raise ValueError(f"mode={mode!r}: expected 'min' or 'max'.")
    limit = settings.max_concurrent_trials
    if limit is not None and limit < 0:
        raise ValueError(f"max_concurrent_trials={limit!r}: expected 0 or more.")


def make_search_alg(settings: RunSettings, experiments: list[Experiment]) -> SearchAlgorithm:
    """Return the search algorithm, with the experiments and their metric in it."""
    searcher = settings.search_alg
    if isinstance(searcher, str):
        searcher = create_searcher(searcher)
    if searcher is None:
        searcher = BasicVariantGenerator(max_concurrent=settings.max_concurrent_trials or 0)
    else:
        limits = settings.max_concurrent_trials, searchers.limit_of(searcher)
        if limit := min(filter(None, limits), default=None):
            searcher = _limited(searcher, limit)
    search_alg = SearchGenerator(searcher) if isinstance(searcher, Searcher) else searcher
    if not isinstance(search_alg, SearchAlgorithm):
        raise TypeError(
            f"search_alg={searcher!r}: expected a Searcher, such as OptunaSearch(), or a "
            "SearchAlgorithm."
        )
    config = experiments[0].spec["config"]
    took = search_alg.set_search_properties(
        settings.metric, settings.mode, config, **experiments[0].public_spec_without_config
    )
    if not took and has_search_space(config):
        raise ValueError(
            f"{type(searcher).__name__} has its own search space, or cannot take one, and the "
            "experiment has one, too: pass the space to one of them, and metric and mode with it."
        )
    search_alg.add_configurations(experiments)
    return search_alg


def _limited(given: Any, limit: int) -> Any:
    if isinstance(given, ConcurrencyLimiter):
        raise ValueError(
            "max_concurrent_trials and ConcurrencyLimiter say the same: leave one of them out."
        )
    if isinstance(given, Searcher):
        return ConcurrencyLimiter(given, max_concurrent=limit)
    given.max_concurrent = limit
    return given


def _make_scheduler(settings: RunSettings, experiments: list[Experiment]) -> TrialScheduler:
    given = settings.scheduler
    scheduler = create_scheduler(given) if isinstance(given, str) else given or FIFOScheduler()
    if not isinstance(scheduler, TrialScheduler):
        raise TypeError(f"scheduler={given!r}: expected a TrialScheduler, or the name of one.")
    spec = experiments[0].public_spec
    if not scheduler.set_search_properties(settings.metric, settings.mode, **spec):
        raise ValueError(
            f"{type(scheduler).__name__} has its own metric or mode, and so has the experiment "
            f"(metric={settings.metric!r}, mode={settings.mode!r}): pass them to one of the two."
        )
    return scheduler


def make_callbacks(given: Sequence[Callback]) -> list[Callback]:
    """Return the callbacks, with those that write results where none of the kind is given."""
    callbacks = list(given)
    for callback in callbacks:
        if not isinstance(callback, Callback):
            raise ValueError(f"callbacks has {callback!r}: expected instances of tune.Callback.")
    if os.environ.get("TUNE_DISABLE_AUTO_CALLBACK_LOGGERS") == "1":
        return callbacks
    for cls in (JsonLoggerCallback, CSVLoggerCallback, TBXLoggerCallback):
        if not any(isinstance(callback, cls) for callback in callbacks):
            try:
                callbacks.append(cls())
            except ImportError as error:
                logger.warning("No event files for TensorBoard: %s", error)
    return callbacks


def _on_dashboard(experiment: Experiment, settings: RunSettings) -> DashboardCallback:
    """Return what shows the experiment on the dashboard; of several metrics the first."""
    metric, mode = (
        each[0] if isinstance(each, list) else each for each in (settings.metric, settings.mode)
    )
    return DashboardCallback(experiment.name, metric, mode)
