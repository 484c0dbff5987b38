"""Going on with an experiment whose driver has ended: which of its trials run again, and from where."""

from __future__ import annotations

from typing import TYPE_CHECKING

from raycompat._storage import Folder
from raycompat.tune.config import ResumeConfig
from raycompat.tune.execution.experiment_state import load_snapshot, load_trials
from raycompat.tune.experiment.experiment import Experiment
from raycompat.tune.experiment.trial import Trial, flat_result

if TYPE_CHECKING:
    from raycompat.tune.callback import CallbackList
    from raycompat.tune.search.search_algorithm import SearchAlgorithm

#: What `resume=` of `tune.run` can be.
RESUME = ResumeConfig.ResumeType.RESUME
RESTART = ResumeConfig.ResumeType.RESTART
SKIP = ResumeConfig.ResumeType.SKIP

#: Old names that mean the same as ``resume=True``.
SAME_AS_TRUE = ("LOCAL", "REMOTE", "PROMPT", "AUTO")


def resume_config_of(resume: object) -> ResumeConfig | None:
    """Return the meaning of the argument `resume` of `tune.run`; None is a new experiment.

    Raises
    ------
    ValueError
        When it is unknown.
    """
    if not resume:
        return None
    config = ResumeConfig()
    for part in ("AUTO" if resume is True else str(resume).upper()).split("+"):
        if part in SAME_AS_TRUE:
            continue
        if part in ("ERRORED", "ERRORED_ONLY"):
            config.errored = RESUME
        elif part in ("RESTART_ERRORED", "RESTART_ERRORED_ONLY"):
            config.errored = RESTART
        else:
            raise ValueError(
                f"resume={resume!r}: expected a bool, or one of {[*SAME_AS_TRUE, 'ERRORED_ONLY']} and "
                "'+ERRORED' or '+RESTART_ERRORED' behind it."
            )
        if part.endswith("ONLY"):
            config.unfinished = SKIP
    return config


def check_same_trainable(folder: Folder, before: str, given: set[str]) -> None:
    """Raise a ValueError when the trainable that an experiment had is not among those given."""
    if before not in given:
        raise ValueError(
            f"{folder.path} is an experiment with the trainable {before!r}, not with {sorted(given)}: "
            "pass the trainable that it had, under the same name."
        )


def restored_trials(
    folder: Folder, config: ResumeConfig, experiments: list[Experiment]
) -> list[Trial]:
    """Return the trials of an experiment, each ready to continue as the config requires.

    Raises
    ------
    ValueError
        When the trials are of other trainables than the experiments.
    """
    trials = load_trials(folder)
    names = {experiment.run_identifier for experiment in experiments}
    for trial in trials:
        check_same_trainable(folder, trial.trainable_name, names)
    for trial in trials:
        action = {Trial.TERMINATED: config.finished, Trial.ERROR: config.errored}.get(
            trial.status, config.unfinished
        )
        action = ResumeConfig.ResumeType(action)
        if action is RESTART:
            trial.reset()
        elif action is RESUME:
            trial.status, trial.error, trial.num_failures = Trial.PENDING, None, 0
        elif not trial.is_finished():
            trial.status = Trial.TERMINATED
    return trials


def restore_search(
    folder: Folder,
    search_alg: SearchAlgorithm,
    callbacks: CallbackList,
    experiments: list[Experiment],
    trials: list[Trial],
) -> None:
    """Give the searcher, the stoppers and the callbacks the state that they had."""
    snapshot = load_snapshot(folder)
    if snapshot:
        search_alg.set_state(snapshot["search_alg"])
        callbacks.set_state(snapshot["callbacks"])
        for experiment, stopper in zip(experiments, snapshot["stoppers"], strict=False):
            experiment.stopper = stopper
    # The searcher learns of trials that ended after its state was written.
    for trial in trials[: snapshot.get("num_trials", 0)]:
        if trial.is_finished() and trial.trial_id not in snapshot["finished"]:
            result = flat_result(trial.last_result) if trial.last_result else None
            search_alg.on_trial_complete(
                trial.trial_id, result=result, error=trial.status == Trial.ERROR
            )
    if hasattr(search_alg, "skip_made"):
        search_alg.skip_made(len(trials))
