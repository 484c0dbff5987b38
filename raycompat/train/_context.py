"""`TrainContext`: a worker's description of itself and of its run."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any, NoReturn

from raycompat import _storage
from raycompat._surface import era, table
from raycompat.train._functions import get_dataset_shard

if TYPE_CHECKING:
    import pyarrow.fs


class StorageContext:
    """The place of a run's files.

    Parameters
    ----------
    folder : Folder
        The run's folder.
    trial_dir_name : str, optional
        The name of the folder of a trial in it.

    Notes
    -----
    Ray source: the result of ``ray.train.get_context().get_storage()``, and ``Trial.storage`` of Tune,
    2.60.0.
    """

    def __init__(self, folder: _storage.Folder, trial_dir_name: str | None = None) -> None:
        self._folder = folder
        self.trial_dir_name = trial_dir_name

    @property
    def storage_filesystem(self) -> pyarrow.fs.FileSystem:
        """The pyarrow file system."""
        return _storage.as_pyarrow(self._folder.filesystem)

    @property
    def storage_fs_path(self) -> str:
        """The path that `RunConfig` names, on the file system."""
        return self._folder.path.rpartition("/")[0]

    @property
    def experiment_dir_name(self) -> str:
        """The name of the run's folder."""
        return self._folder.path.rpartition("/")[2]

    @property
    def experiment_fs_path(self) -> str:
        """The path of the run's folder on the file system."""
        return self._folder.path

    @property
    def trial_fs_path(self) -> str:
        """The path of the trial's folder on the file system."""
        if self.trial_dir_name is None:
            raise RuntimeError("This is the place of a run without trials: use experiment_fs_path.")
        return self._folder.at(self.trial_dir_name)

    def build_checkpoint_path_from_name(self, checkpoint_name: str) -> str:
        """Return the path of a checkpoint on the file system."""
        return self._folder.at(checkpoint_name)

    @staticmethod
    def make_default_checkpoint_dir_name() -> str:
        """Return the name of a checkpoint that is made now."""
        return f"checkpoint_{datetime.now():%Y-%m-%d_%H-%M-%S.%f}"


def _has_trials() -> bool:
    """Return whether the program was written for a Ray in which each run of Train was a trial."""
    row = table.use("ray.train.TrainContext with a trial")
    return row is not None and era.is_within(row.last)


def _only_in_tune(name: str) -> NoReturn:
    raise DeprecationWarning(
        f"TrainContext.{name}(): Ray has removed this from Train, which has no trials. In a "
        "trial of Tune, call it on tune.get_context()."
    )


@dataclass(frozen=True)
class TrainContext:
    """A worker's description of itself and of its run, from `get_context`.

    Examples
    --------
    >>> import tempfile
    >>> from raycompat import train
    >>> from raycompat.train.data_parallel_trainer import DataParallelTrainer
    >>> def describe():
    ...     context = train.get_context()
    ...     return {
    ...         "run": context.get_experiment_name(),
    ...         "rank": context.get_world_rank(),
    ...         "workers": context.get_world_size(),
    ...         "on this node": context.get_local_world_size(),
    ...         "folder": context.get_storage().experiment_dir_name,
    ...     }
    >>> trainer = DataParallelTrainer(
    ...     describe,
    ...     scaling_config=train.ScalingConfig(num_workers=2),
    ...     run_config=train.RunConfig(
    ...         name="digits", storage_path=tempfile.mkdtemp()
    ...     ),
    ... )
    >>> trainer.fit().return_value
    {'run': 'digits', 'rank': 0, 'workers': 2, 'on this node': 2,
     'folder': 'digits'}
    """

    experiment_name: str
    world_size: int = 1
    world_rank: int = 0
    local_rank: int = 0
    local_world_size: int = 1
    node_rank: int = 0
    _folder: _storage.Folder | None = field(default=None, repr=False)

    def get_experiment_name(self) -> str:
        """Return the name of the run."""
        return self.experiment_name

    def get_world_size(self) -> int:
        """Return the number of workers."""
        return self.world_size

    def get_world_rank(self) -> int:
        """Return the number of this worker among all, from 0."""
        return self.world_rank

    def get_local_rank(self) -> int:
        """Return the number of this worker among those of its node, from 0.

        Examples
        --------
        >>> import tempfile
        >>> from raycompat import train
        >>> from raycompat.train.data_parallel_trainer import DataParallelTrainer
        >>> def place():
        ...     context = train.get_context()
        ...     return context.get_node_rank(), context.get_local_rank()
        >>> DataParallelTrainer(
        ...     place,
        ...     scaling_config=train.ScalingConfig(num_workers=2),
        ...     run_config=train.RunConfig(storage_path=tempfile.mkdtemp()),
        ... ).fit().return_value
        (0, 0)
        """
        return self.local_rank

    def get_local_world_size(self) -> int:
        """Return the number of workers on this node."""
        return self.local_world_size

    def get_node_rank(self) -> int:
        """Return the number of this node among those of the run, from 0."""
        return self.node_rank

    def get_storage(self) -> StorageContext:
        """Return where the run keeps its files.

        Raises
        ------
        NotImplementedError
            With ``num_workers=0``: such a run has no folder.
        """
        if self._folder is None:
            raise NotImplementedError("A run with num_workers=0 has no folder.")
        return StorageContext(self._folder)

    def get_dataset_shard(self, dataset_name: str | None = None) -> Any:
        """Return this worker's part of a data set: see `raycompat.train.get_dataset_shard`.

        Examples
        --------
        >>> import tempfile
        >>> from raycompat import train
        >>> from raycompat.train.data_parallel_trainer import DataParallelTrainer
        >>> def count_rows():
        ...     shard = train.get_context().get_dataset_shard("train")
        ...     return sum(1 for row in shard.iter_rows())
        >>> DataParallelTrainer(
        ...     count_rows,
        ...     datasets={"train": ray.data.range(10)},
        ...     scaling_config=train.ScalingConfig(
        ...         num_workers=2, resources_per_worker={"CPU": 0.5}
        ...     ),
        ...     run_config=train.RunConfig(storage_path=tempfile.mkdtemp()),
        ... ).fit().return_value
        5
        """
        return get_dataset_shard(dataset_name)

    def get_metadata(self) -> NoReturn:
        """Not supported: pass the data for workers as `train_loop_config`."""
        raise DeprecationWarning(
            "TrainContext.get_metadata(): Ray has removed this. Pass the data for workers as "
            "train_loop_config."
        )

    def get_trial_name(self) -> str:
        """Return the run's name, for programs of Ray 2.48 or less; today it belongs to Tune."""
        if not _has_trials():
            _only_in_tune("get_trial_name")
        return self.get_experiment_name()

    def get_trial_id(self) -> str:
        """Return the run's name, for programs of Ray 2.48 or less; today it belongs to Tune."""
        if not _has_trials():
            _only_in_tune("get_trial_id")
        return self.get_experiment_name()

    def get_trial_resources(self) -> NoReturn:
        """Not supported: it belongs to Tune."""
        _only_in_tune("get_trial_resources")

    def get_trial_dir(self) -> str:
        """Return the run's folder, for programs of Ray 2.48 or less; today it belongs to Tune."""
        if not _has_trials():
            _only_in_tune("get_trial_dir")
        return self.get_storage().experiment_fs_path


TrainContext.__module__ = "raycompat.train"
