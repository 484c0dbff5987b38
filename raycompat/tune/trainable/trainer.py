"""Trainers of `raycompat.train` as trainables: a run of Train as a trial.

The trial's placement group has a bundle for each worker; the trial's own process, which starts the
workers and collects their reports, takes no resources. The workers save checkpoints in the trial's
folder, where Tune keeps them.
"""

from __future__ import annotations

import copy
import dataclasses
import difflib
import itertools
import logging
import posixpath
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from raycompat import train
from raycompat.exceptions import UnsupportedRayFeatureError
from raycompat.train._configs import TUNES, UNNAMED, is_tunes
from raycompat.train._round_reports import MakesCheckpoints
from raycompat.train._run_configs import DEPRECATED
from raycompat.train._trial import InTrial
from raycompat.train.data_parallel_trainer import DataParallelTrainer
from raycompat.tune.execution.placement_groups import PlacementGroupFactory
from raycompat.tune.run_config import CheckpointConfig, FailureConfig, RunConfig
from raycompat.tune.trainable import session as sessions
from raycompat.util.placement_group import get_current_placement_group

if TYPE_CHECKING:
    from raycompat.tune.trainable.nested import Config, Metrics, Space

logger = logging.getLogger(__name__)

#: Arguments of a trainer that a search space can have.
SEARCHED = (
    "train_loop_config",
    "scaling_config",
    "datasets",
    "dataset_config",
    "resume_from_checkpoint",
)


def trainable_of(
    trainer: DataParallelTrainer, checkpoints: CheckpointConfig | None = None
) -> Callable[[Config], None]:
    """Return the function that trains as the trainer does, with a trial's config in its arguments.

    Parameters
    ----------
    trainer : DataParallelTrainer
    checkpoints : CheckpointConfig, optional
        The experiment's, for a trainer whose function makes checkpoints by itself.

    Raises
    ------
    UnsupportedRayFeatureError
        When the trainer validates checkpoints.
    """
    if trainer.validation_config is not None:
        raise UnsupportedRayFeatureError(
            "Tuner(trainer) with a validation_config",
            "A trial's results are the reports of its workers, and a validation ends after its report",
            "report the validation's metric in the training function",
        )
    cls, arguments = type(trainer), {**trainer._arguments(), "datasets": trainer.datasets}
    function = trainer.train_loop_per_worker
    if makes_checkpoints := isinstance(function, MakesCheckpoints):
        arguments["train_loop_per_worker"] = function.with_checkpoints(checkpoints)

    def train_in_trial(config: Config) -> None:
        _train(cls, _merged(cls, arguments, config))

    def resources(config: Config) -> PlacementGroupFactory:
        return _resources(_merged(cls, arguments, config)["scaling_config"])

    train_in_trial.__name__ = train_in_trial.__qualname__ = cls.__name__
    train_in_trial._resources = resources  # type: ignore[attr-defined]
    train_in_trial._makes_checkpoints = makes_checkpoints  # type: ignore[attr-defined]
    return train_in_trial


def checked_space(cls: type[DataParallelTrainer], param_space: Space) -> Space:
    """Return the search space of a trainer; a `ScalingConfig` in it becomes a dict.

    Raises
    ------
    ValueError
        When it has keys that are not searched.
    """
    searched = (*SEARCHED, *cls._also_searched)
    unknown = [name for name in param_space if name not in searched]
    if unknown:
        near = {name: difflib.get_close_matches(str(name), searched) for name in unknown}
        raise ValueError(
            f"param_space of a trainer has {unknown}: expected {list(searched)}; the closest names: "
            f"{near}. Hyperparameters belong into 'train_loop_config'; a run_config is an argument of "
            "the Tuner."
        )
    scaling = param_space.get("scaling_config")
    if not isinstance(scaling, train.ScalingConfig):
        return param_space
    return {**param_space, "scaling_config": dict(scaling.__dict__)}


def run_config_of(trainer: DataParallelTrainer, given: RunConfig | None) -> RunConfig:
    """Return the experiment's configuration: the tuner's, or else the trainer's."""
    own = trainer.run_config
    if given is not None:
        if not str(own.name).startswith(UNNAMED):
            logger.info(
                "Tuner and trainer have a run_config each: name, storage, failures and checkpoints are "
                "as in the Tuner's."
            )
        return given
    return tunes(own)


def tunes(own: train.RunConfig) -> RunConfig:
    """Return the configuration of Tune that says the same as one of Train."""
    kept, failures = own.checkpoint_config, own.failure_config
    assert failures is not None
    return RunConfig(
        name=None if str(own.name).startswith(UNNAMED) else own.name,
        storage_path=own.storage_path,
        storage_filesystem=own.storage_filesystem,
        failure_config=FailureConfig(**_given(failures, "max_failures", "fail_fast")),
        checkpoint_config=CheckpointConfig(
            **_given(kept, *(field.name for field in dataclasses.fields(CheckpointConfig)))
        ),
        callbacks=[callback for callback in own.callbacks or () if is_tunes(callback)],
        **_given(own, "verbose", "stop", "progress_reporter", "log_to_file", "sync_config"),
    )


def _given(config: object, *names: str) -> dict[str, Any]:
    """Return the fields that a program has set."""
    fields = {name: getattr(config, name) for name in names}
    return {name: value for name, value in fields.items() if value != DEPRECATED}


def _merged(
    cls: type[DataParallelTrainer], arguments: dict[str, Any], config: Config
) -> dict[str, Any]:
    """Return the trainer's arguments with those of a trial; dicts are merged."""
    merged = dict(arguments)
    for given, value in config.items():
        name = cls._also_searched.get(given, given)
        before = merged.get(name)
        is_dict = isinstance(before, dict) and isinstance(value, dict)
        merged[name] = _deep_merged(before, value) if is_dict else value
    if isinstance(merged["scaling_config"], dict):
        merged["scaling_config"] = train.ScalingConfig(**merged["scaling_config"])
    return merged


def _deep_merged(before: Any, after: dict[str, Any]) -> dict[str, Any]:
    merged = dict(before)
    for name, value in after.items():
        both = isinstance(merged.get(name), dict) and isinstance(value, dict)
        merged[name] = _deep_merged(merged[name], value) if both else value
    return merged


def _resources(scaling: train.ScalingConfig) -> PlacementGroupFactory:
    """Return a bundle for each worker; without workers the trial itself trains."""
    needs = scaling._resources_per_worker_not_none
    number = scaling._least_workers
    if number == 0:
        return PlacementGroupFactory([dict(needs) or {"CPU": 1}])
    labels = [scaling.labels_of(rank) or {} for rank in range(number)]
    return PlacementGroupFactory(
        [{}, *[dict(needs) for _ in range(number)]],
        scaling.placement_strategy,
        **({"bundle_label_selector": labels} if any(labels) else {}),
    )


def _train(cls: type[DataParallelTrainer], arguments: dict[str, Any]) -> None:
    """Train in the trial of this process; raise the error of the first worker that failed."""
    session = sessions.current("report")
    place = session.place
    assert place is not None
    before: train.RunConfig = arguments["run_config"]
    head, _, name = place.folder.path.rpartition("/")
    is_local_mode = arguments["scaling_config"].num_workers == 0
    run_config = copy.copy(before)
    run_config.__dict__.pop("storage_context", None)
    run_config.name, run_config.storage_path = name, head
    run_config.storage_filesystem = None if place.folder.is_local else place.folder.filesystem
    run_config.verbose = 0
    # Each failure is one of the trial, and Tune decides on checkpoints.
    run_config.failure_config = train.FailureConfig(max_failures=0)
    run_config.checkpoint_config = train.CheckpointConfig()
    own = [callback for callback in before.callbacks or () if not is_tunes(callback)]
    run_config.callbacks = [*own, _ToTrial(is_kept=not is_local_mode)]
    for name in TUNES:
        setattr(run_config, name, DEPRECATED)
    arguments["run_config"] = run_config
    # A trial that was retried, restored or perturbed continues from a checkpoint.
    arguments["resume_from_checkpoint"] = session.checkpoint or arguments["resume_from_checkpoint"]
    trainer = cls._from_arguments(arguments)
    if is_local_mode:
        trainer.fit()
        return
    group = get_current_placement_group()
    assert group is not None, "the trial of a trainer has a placement group"
    names = _names(place.next_checkpoint)
    try:
        trainer._fit(InTrial(group, names))
    except train.WorkerGroupError as error:
        raise error.worker_failures[min(error.worker_failures)] from error


def _names(first: int) -> Iterator[str]:
    return (f"checkpoint_{number:06d}" for number in itertools.count(first))


class _ToTrial(train.UserCallback):
    """Report the metrics of rank 0, and the checkpoint, as the trial's.

    Parameters
    ----------
    is_kept : bool
        Whether checkpoints are where they are to stay.
    """

    def __init__(self, is_kept: bool) -> None:
        self._is_kept = is_kept

    def after_report(
        self, run_context: object, metrics: list[Metrics], checkpoint: train.Checkpoint | None
    ) -> None:
        session = sessions.current("report")
        session.report(dict(metrics[0]), checkpoint, is_kept=self._is_kept)
        if checkpoint is not None and self._is_kept and session.place is not None:
            inside = posixpath.dirname(checkpoint.path) == session.place.folder.path
            session.place.next_checkpoint += inside
