"""`Trial`: one config of an experiment, what became of it, and where its files are."""

from __future__ import annotations

import os
import re
import traceback
from collections import defaultdict, deque
from collections.abc import Callable, Collection, Sequence
from numbers import Real
from typing import TYPE_CHECKING, Any, ClassVar

import cloudpickle

from raycompat._storage import (
    MAX_NAME_BYTES,
    Folder,
    checked_name,
    cut_name,
    default_path,
    when_there_is_room,
)
from raycompat._surface import forms
from raycompat._surface.modules import names_of
from raycompat.train import Checkpoint
from raycompat.train._checkpoint_registry import CheckpointRegistry, Registered
from raycompat.train._context import StorageContext
from raycompat.tune import result as keys
from raycompat.tune.error import TuneError
from raycompat.tune.execution.placement_groups import (
    PlacementGroupFactory,
    resource_dict_to_pg_factory,
)
from raycompat.tune.registry import get_trainable_cls
from raycompat.tune.run_config import CheckpointConfig
from raycompat.tune.trainable.identifiers import date_str, new_trial_id
from raycompat.tune.trainable.nested import flatten_dict
from raycompat.tune.trainable.place import TrialPlace
from raycompat.tune.trainable.trainable import TrainingResult

if TYPE_CHECKING:
    from raycompat.tune.trainable.nested import Config, Metrics

#: How many bytes of its parameters a trial's folder has in its name.
MAX_DIRNAME = 130


@forms.has_old_members("ray.tune.experiment.Trial")
class Trial:
    """One config of an experiment.

    Attributes
    ----------
    trial_id : str
    config : dict
        The hyperparameters.
    evaluated_params : dict
        Those that were drawn or enumerated, by flat names.
    experiment_tag : str
        The same as a short text.
    status : str
        "PENDING", "RUNNING", "PAUSED", "TERMINATED" or "ERROR".
    last_result : dict
        Its last report.
    stopping_criterion : dict
        Metrics, and the value of each at which `should_stop` is true. Experiments have stoppers.
    metric_analysis : dict
        For each metric "max", "min", "avg", "last", and the means of the last 5 and 10.

    Notes
    -----
    Ray source: ``ray.tune.experiment.Trial``, 2.60.0. Made by experiments, not by users.
    """

    PENDING: ClassVar[str] = "PENDING"
    RUNNING: ClassVar[str] = "RUNNING"
    PAUSED: ClassVar[str] = "PAUSED"
    TERMINATED: ClassVar[str] = "TERMINATED"
    ERROR: ClassVar[str] = "ERROR"

    #: Whether its resources were changed after it had begun.
    _has_new_resources = False

    def __init__(
        self,
        trainable_name: str,
        config: Config | None = None,
        *,
        experiment_folder: Folder | None = None,
        checkpoint_config: CheckpointConfig | None = None,
        trial_id: str | None = None,
        experiment_tag: str = "",
        evaluated_params: Config | None = None,
        resources: PlacementGroupFactory | None = None,
        max_failures: int = 0,
        restore_path: str | None = None,
        log_to_file: tuple[str | None, str | None] = (None, None),
        export_formats: str | Sequence[str] = (),
        trial_name_creator: Callable[[Trial], str] | None = None,
        trial_dirname_creator: Callable[[Trial], str] | None = None,
        placement_group_factory: PlacementGroupFactory | None = None,
        stopping_criterion: dict[str, float] | None = None,
        stub: bool = False,
    ) -> None:
        if not stub:
            get_trainable_cls(trainable_name)
        self.trainable_name = trainable_name
        self.trial_id = trial_id or new_trial_id()
        self.config = config or {}
        self.experiment_tag = experiment_tag
        self.evaluated_params = evaluated_params or {}
        self.experiment_folder = experiment_folder or Folder(default_path()).folder(trainable_name)
        self.stopping_criterion = stopping_criterion or {}
        self.placement_group_factory = (
            placement_group_factory or resources or PlacementGroupFactory([{"CPU": 1}])
        )
        self.max_failures = max_failures
        self.checkpoint_config = checkpoint_config or CheckpointConfig()
        self.checkpoints = CheckpointRegistry(self.checkpoint_config)
        self.restore_path = restore_path
        self.log_to_file = log_to_file
        self.export_formats = export_formats
        self.status = Trial.PENDING
        self.num_failures = 0
        self.last_result: Metrics = {}
        self.num_results = 0
        self.metric_analysis: dict[str, dict[str, float]] = {}
        self._recent: defaultdict[str, deque[float]] = defaultdict(lambda: deque(maxlen=10))
        self.error: BaseException | None = None
        self.is_saving = False
        self.start_time: float | None = None
        self._next_checkpoint = 0
        #: The checkpoint of another trial, from which this one continues.
        self._continue_from: TrainingResult | None = None
        #: Another trial's checkpoint from which it last started.
        self._started_from: TrainingResult | None = None
        self.custom_trial_name = trial_name_creator(self) if trial_name_creator else None
        self.custom_dirname = trial_dirname_creator(self) if trial_dirname_creator else None
        self.dirname = self._make_dirname()

    def _make_dirname(self) -> str:
        if self.custom_dirname:
            name = checked_name("trial_dirname_creator: the name", self.custom_dirname)
            if "/" in name:
                raise ValueError(
                    f"trial_dirname_creator returned {name!r}: expected a name without '/'."
                )
        else:
            name = cut_name(f"{self}_{self.experiment_tag}", MAX_DIRNAME) + f"_{date_str()}"
        return re.sub(r'[/()<>:"\\|?*\0-\x1f\x7f]', "_", name)

    def make_dirname_unlike(self, taken: Collection[str]) -> None:
        """Choose a folder that no other trial has: names can be equal, or become equal by the cut."""
        if self.dirname in taken or (self.custom_dirname and self.folder.exists()):
            begin = cut_name(self.dirname, MAX_NAME_BYTES - len(self.trial_id) - 1)
            self.dirname = f"{begin}_{self.trial_id}"

    def __repr__(self) -> str:
        if self.custom_trial_name:
            return self.custom_trial_name
        env = self.config.get("env")
        parts = [self.trainable_name, self.trial_id]
        if env is not None:
            parts.insert(1, env.__name__ if isinstance(env, type) else str(env))
        return "_".join(parts).replace("/", "_")

    # Where its files are.

    @property
    def folder(self) -> Folder:
        """The trial's folder in the storage."""
        return self.experiment_folder.folder(self.dirname)

    @property
    def storage(self) -> StorageContext:
        """Where the files of the trial and its experiment are."""
        return StorageContext(self.experiment_folder, self.dirname)

    @property
    def path(self) -> str:
        """The path of the trial's folder in the storage."""
        return self.folder.path

    @property
    def local_path(self) -> str:
        """The same as `path`."""
        return self.path

    @property
    def logdir(self) -> str:
        """The same as `path`; the name of earlier Rays."""
        return self.path

    @property
    def local_dir(self) -> str:
        """The path of the experiment's folder."""
        return self.experiment_folder.path

    @property
    def local_experiment_path(self) -> str:
        """The path of the experiment's folder."""
        return self.experiment_folder.path

    @property
    def experiment_dir_name(self) -> str:
        """The name of the experiment's folder."""
        return os.path.basename(self.experiment_folder.path)

    def place(self) -> TrialPlace:
        """Return the description of the trial for its process."""
        return TrialPlace(
            trial_id=self.trial_id,
            trial_name=str(self),
            experiment_name=self.experiment_dir_name,
            folder=self.folder,
            resources=self.placement_group_factory,
            next_checkpoint=self._next_checkpoint,
            log_to_file=self.log_to_file,
            has_new_resources=self._has_new_resources,
        )

    # What became of it.

    def is_finished(self) -> bool:
        return self.status in (Trial.TERMINATED, Trial.ERROR)

    @classmethod
    def generate_id(cls) -> str:
        """Return a new id of a trial."""
        return new_trial_id()

    def should_stop(self, result: Metrics) -> bool:
        """Return whether a result is the last one by the trial's own criterion."""
        return bool(result.get(keys.DONE)) or any(
            result[name] >= limit for name, limit in self.stopping_criterion.items()
        )

    @property
    def has_reported_at_least_once(self) -> bool:
        return self.num_results > 0

    def set_status(self, status: str) -> None:
        if status == Trial.RUNNING:
            self._started_from = self._continue_from
        self.status = status

    def set_config(self, config: Config) -> None:
        self.config = config

    def set_experiment_tag(self, experiment_tag: str) -> None:
        self.experiment_tag = experiment_tag

    def update_resources(self, resources: dict[str, float] | PlacementGroupFactory) -> None:
        """Give the trial other resources, for its next process.

        Raises
        ------
        ValueError
            When it runs.
        """
        if self.status == Trial.RUNNING:
            raise ValueError(f"{self} runs: pause it before its resources change.")
        if isinstance(resources, dict):
            resources = resource_dict_to_pg_factory(resources)
        self.placement_group_factory = resources
        self._has_new_resources = True

    def update_last_result(self, result: Metrics, flat: Metrics) -> None:
        """Take note of a result, and of each number in it."""
        self.last_result = result
        self.num_results += 1
        for name, value in flat.items():
            if isinstance(value, Real) and name not in _NOT_METRICS:
                self._update_metric(name, value)

    def _update_metric(self, name: str, value: Any) -> None:
        recent = self._recent[name]
        recent.append(value)
        known = self.metric_analysis.get(name)
        if known is None:
            names = ("max", "min", "avg", "last", "last-5-avg", "last-10-avg")
            self.metric_analysis[name] = dict.fromkeys(names, value)
            return
        known["max"], known["min"] = max(value, known["max"]), min(value, known["min"])
        known["avg"] += (value - known["avg"]) / self.num_results
        known["last"] = value
        known["last-5-avg"] = sum(list(recent)[-5:]) / min(len(recent), 5)
        known["last-10-avg"] = sum(recent) / len(recent)

    # Its checkpoints.

    @property
    def checkpoint(self) -> Checkpoint | None:
        """The last checkpoint."""
        return None if self.checkpoints.latest is None else self.checkpoints.latest.checkpoint

    def has_checkpoint(self) -> bool:
        return self.checkpoint is not None

    def on_checkpoint(self, made: TrainingResult) -> None:
        """Record a checkpoint, and delete those that are not kept any more."""
        if made.checkpoint is None:
            return
        number = _number(made.checkpoint.path)
        self._next_checkpoint = max(self._next_checkpoint, number + 1)
        # One that it got since, while it pauses, is where it continues.
        if self._continue_from is self._started_from:
            self._continue_from = None
        latest = self.checkpoints.latest
        if latest is not None and latest.checkpoint.path == made.checkpoint.path:
            return
        entry = Registered(made.checkpoint, made.metrics, number)
        for doomed in self.checkpoints.register(entry):
            doomed.checkpoint._folder.delete()

    def continue_from(self, checkpoint: Checkpoint, metrics: Metrics) -> None:
        """Begin next with a checkpoint of another trial."""
        self._continue_from = TrainingResult(checkpoint, metrics)

    def starting_point(self) -> TrainingResult | None:
        """Return the checkpoint from which the trial continues; None at the start."""
        if self._continue_from is not None:
            return self._continue_from
        if self.checkpoints.latest is not None:
            latest = self.checkpoints.latest
            return TrainingResult(latest.checkpoint, latest.metrics)
        if self.restore_path is not None:
            return TrainingResult(Checkpoint(self.restore_path), {})
        return None

    def should_checkpoint(self, result: Metrics) -> bool:
        """Return whether the runner requests a checkpoint after this result."""
        if result.get(keys.DONE) and self.checkpoint_config.checkpoint_at_end:
            return True
        frequency = self.checkpoint_config.checkpoint_frequency
        return bool(frequency) and result.get(keys.TRAINING_ITERATION, 0) % frequency == 0

    # Its errors.

    def handle_error(self, error: BaseException) -> None:
        """Count a failure, and write the error where users look for it."""
        self.num_failures += 1
        text = "".join(traceback.format_exception(error))
        line = f"Failure # {self.num_failures} (occurred at {date_str()})\n{text}"
        when_there_is_room(lambda: self.folder.append_line(keys.EXPR_ERROR_FILE, line))
        # Its frames would keep the runner, and all that the runner refers to.
        error = error.with_traceback(None)
        try:
            pickled, self.error = cloudpickle.dumps(error), error
        except Exception:  # an error that cannot be pickled is kept as its text
            self.error = TuneError(text)
            pickled = cloudpickle.dumps(self.error)
        when_there_is_room(lambda: self.folder.write(keys.EXPR_ERROR_PICKLE_FILE, pickled))

    def should_recover(self) -> bool:
        """Return whether the trial is retried."""
        return self.max_failures < 0 or self.num_failures <= self.max_failures

    def get_error(self) -> BaseException | None:
        """Return why the trial failed; None when it did not."""
        return self.error if self.status == Trial.ERROR else None

    @property
    def error_file(self) -> str | None:
        """The file with the trial's errors; None when there were none."""
        return self.folder.at(keys.EXPR_ERROR_FILE) if self.num_failures else None

    def revive(self, experiment_folder: Folder) -> None:
        """Complete a trial that was read from an experiment's folder, which may have moved."""
        recent, self._recent = self._recent, defaultdict(lambda: deque(maxlen=10))
        self._recent.update(recent)
        self.is_saving = False
        self.experiment_folder = experiment_folder
        for entry in self.checkpoints.ranked:
            name = os.path.basename(entry.checkpoint.path)
            inside = self.folder.folder(name)
            if inside.path != entry.checkpoint.path and inside.exists():
                entry.checkpoint = Checkpoint(inside.path, inside.filesystem)

    def reset(self) -> None:
        """Begin again, without checkpoints."""
        self.checkpoints = CheckpointRegistry(self.checkpoint_config)
        self._continue_from, self.error, self.num_failures = None, None, 0
        self.last_result, self.num_results, self.metric_analysis = {}, 0, {}
        self._recent.clear()
        self.status = Trial.PENDING


#: Numbers of a result that say nothing of the training.
_NOT_METRICS = {keys.PID, keys.TIMESTAMP}


def _number(path: str) -> int:
    """Return the number of a checkpoint's folder."""
    found = re.search(r"(\d+)/*$", path)
    return int(found.group(1)) if found else 0


def flat_result(result: Metrics) -> Metrics:
    """Return a result with flat names; the config keeps its own."""
    if not any(isinstance(value, dict) for name, value in result.items() if name != "config"):
        return {
            **result,
            **{
                f"config/{name}": value
                for name, value in flatten_dict(result.get("config", {})).items()
            },
        }
    return flatten_dict(result)


#: Names of older Rays.
__getattr__ = names_of(__name__)
