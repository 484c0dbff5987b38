"""The configurations that Train and Tune had in common until Train's second version.

`raycompat.train` and `raycompat.tune` have subclasses of these.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from raycompat import _storage
from raycompat._surface import forms
from raycompat._upper import upper
from raycompat.train._sync_config import SyncConfig
from raycompat.util._shown import ShownAsTable, as_text

if TYPE_CHECKING:
    import pyarrow.fs

__all__ = ["CheckpointConfig", "FailureConfig", "RunConfig", "ScalingConfig"]

#: The default of fields that Ray has removed.
DEPRECATED = "DEPRECATED"


@forms.takes_old_options_in_constructor("ray.air.ScalingConfig")
@dataclass(repr=False, eq=False)
class ScalingConfig(ShownAsTable):
    """The number of workers that train, and the resources of each.

    Parameters
    ----------
    trainer_resources : dict, optional
        Resources of the process that starts the workers. By default one CPU.
    num_workers : int, default 1
        Number of workers, each a process.
    use_gpu : bool, default False
        Whether each worker gets a GPU.
    resources_per_worker : dict, optional
        Resources of each worker by name. By default one CPU, or with `use_gpu` one GPU.
    placement_strategy : str, default "PACK"
        Strategy of the workers' placement group.
    accelerator_type : str, optional
        Type of accelerator that the workers' nodes must have.
    """

    trainer_resources: dict[str, float] | None = None
    num_workers: Any = 1
    use_gpu: bool = False
    resources_per_worker: dict[str, float] | None = None
    placement_strategy: str = "PACK"
    accelerator_type: str | None = None

    def __post_init__(self) -> None:
        if not self.resources_per_worker:
            return
        gpus = self.resources_per_worker.get("GPU", 0)
        if not self.use_gpu and gpus > 0:
            raise ValueError(
                f"resources_per_worker has GPU: {gpus}, but use_gpu is False. Pass use_gpu=True, or "
                "leave GPU out of resources_per_worker."
            )

    def __repr__(self) -> str:
        return as_text(self)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, type(self)):
            return False
        return self._needs() == other._needs()

    __hash__ = None  # type: ignore[assignment]

    def _needs(self) -> tuple[object, ...]:
        return (
            self._trainer_resources_not_none,
            self._resources_per_worker_not_none,
            self.num_workers,
            self.placement_strategy,
        )

    @property
    def _resources_per_worker_not_none(self) -> dict[str, float]:
        resources = self.resources_per_worker
        if resources is None:
            needs: dict[str, float] = {} if self.use_gpu else {"CPU": 1}
        else:
            needs = {name: amount for name, amount in resources.items() if amount != 0}
        if self.use_gpu:
            needs.setdefault("GPU", 1)
        if self.accelerator_type:
            needs.setdefault(f"accelerator_type:{self.accelerator_type}", 0.001)
        return needs

    @property
    def _trainer_resources_not_none(self) -> dict[str, float]:
        if self.trainer_resources is None:
            return {"CPU": 1}
        return {name: amount for name, amount in self.trainer_resources.items() if amount != 0}

    @property
    def _most_workers(self) -> int:
        return int(self.num_workers)

    @property
    def total_resources(self) -> dict[str, float]:
        """Resources of the trainer and all workers together, by name."""
        total = dict(self._trainer_resources_not_none)
        for name, amount in self._resources_per_worker_not_none.items():
            total[name] = total.get(name, 0.0) + amount * self._most_workers
        return total

    @property
    def num_cpus_per_worker(self) -> float:
        """CPUs of each worker.

        Examples
        --------
        >>> from raycompat import train
        >>> train.ScalingConfig(num_workers=2).num_cpus_per_worker
        1
        """
        return self._resources_per_worker_not_none.get("CPU", 0)

    @property
    def num_gpus_per_worker(self) -> float:
        """GPUs of each worker.

        Examples
        --------
        >>> from raycompat import train
        >>> train.ScalingConfig(num_workers=2, use_gpu=True).num_gpus_per_worker
        1
        """
        return self._resources_per_worker_not_none.get("GPU", 0)

    @property
    def additional_resources_per_worker(self) -> dict[str, float]:
        """Resources of each worker other than CPUs and GPUs, by name.

        Examples
        --------
        >>> from raycompat import train
        >>> needs = {"CPU": 2, "licence": 1}
        >>> train.ScalingConfig(
        ...     resources_per_worker=needs
        ... ).additional_resources_per_worker
        {'licence': 1}
        """
        needs = self._resources_per_worker_not_none
        return {name: amount for name, amount in needs.items() if name not in ("CPU", "GPU")}

    def _bundles(self) -> list[dict[str, float]]:
        """Return the bundles of a trial that trains: the trainer shares the first worker's."""
        worker = self._resources_per_worker_not_none
        first = {
            name: self._trainer_resources_not_none.get(name, 0) + worker.get(name, 0)
            for name in {**self._trainer_resources_not_none, **worker}
        }
        return [{}, first, *[dict(worker) for _ in range(self._most_workers - 1)]]

    def as_placement_group_factory(self) -> Any:
        """Return the resources of a trial that trains, as Tune's ``PlacementGroupFactory``.

        Examples
        --------
        >>> from raycompat import train
        >>> scaling = train.ScalingConfig(num_workers=2)
        >>> scaling.as_placement_group_factory().required_resources["CPU"]
        2.0
        """
        groups = upper("tune.execution.placement_groups")
        return groups.PlacementGroupFactory(self._bundles(), strategy=self.placement_strategy)


@dataclass(repr=False)
class FailureConfig(ShownAsTable):
    """The reaction to the failure of a worker or a trial.

    Parameters
    ----------
    max_failures : int, default 0
        Number of failures after which training continues from the last checkpoint; -1: no limit.
    fail_fast : bool or "raise", default False
        Whether the first failure ends the run; with "raise", `fit` raises the error itself.
    """

    max_failures: int = 0
    fail_fast: bool | str = False

    def __post_init__(self) -> None:
        fast = self.fail_fast
        if not (isinstance(fast, bool) or (isinstance(fast, str) and fast.upper() == "RAISE")):
            raise ValueError(f"fail_fast={fast!r}: expected True, False or 'raise'.")
        if fast and self.max_failures != 0:
            raise ValueError(
                f"fail_fast={fast!r} and max_failures={self.max_failures} exclude each other: "
                "leave one of them out."
            )

    def __repr__(self) -> str:
        return as_text(self)


@dataclass(repr=False)
class CheckpointConfig(ShownAsTable):
    """The checkpoints to keep, and when a Tune trainable makes them.

    Parameters
    ----------
    num_to_keep : int, optional
        How many checkpoints are kept, at least 1. By default all.
    checkpoint_score_attribute : str, optional
        The metric by which checkpoints are compared. By default the latest are kept.
    checkpoint_score_order : {"max", "min"}, default "max"
        Whether high or low values are better.
    checkpoint_frequency : int, default 0
        Number of iterations between two checkpoints of a class trainable; 0: none.
    checkpoint_at_end : bool, optional
        Whether a class trainable makes a checkpoint at its end. By default it does in a `Tuner`, if it
        has `save_checkpoint`.
    """

    num_to_keep: int | None = None
    checkpoint_score_attribute: str | None = None
    checkpoint_score_order: str | None = "max"
    checkpoint_frequency: Any = 0
    checkpoint_at_end: bool | None = None

    def __post_init__(self) -> None:
        check_retention(self.num_to_keep, self.checkpoint_score_order)
        if self.checkpoint_frequency < 0:
            raise ValueError(
                f"checkpoint_frequency={self.checkpoint_frequency!r}: expected 0 or more iterations."
            )

    def __repr__(self) -> str:
        return as_text(self)


def check_retention(num_to_keep: int | None, score_order: str | None) -> None:
    """Raise `ValueError` unless both are valid."""
    if num_to_keep is not None and num_to_keep <= 0:
        raise ValueError(
            f"num_to_keep={num_to_keep!r}: expected an integer of at least 1, or None."
        )
    if score_order not in ("max", "min"):
        raise ValueError(f"checkpoint_score_order={score_order!r}: expected 'max' or 'min'.")


@dataclass(repr=False)
class RunConfig(ShownAsTable):
    """The place of a run's results, and how its progress is shown.

    Parameters
    ----------
    name : str, optional
        Name of the run's folder.
    storage_path : str or path-like, optional
        Where folders of runs are: a local path or a URI. By default ``~/ray_results``.
    storage_filesystem : pyarrow or fsspec file system, optional
        The file system of `storage_path`.
    failure_config : FailureConfig, optional
        The reaction to a failure.
    checkpoint_config : CheckpointConfig, optional
        Which checkpoints are kept.
    sync_config : object, optional
        How results are copied to the storage.
    verbose : int, optional
        0: silent. 1: progress. 2: more of it.
    stop : mapping, Stopper or callable, optional
        When a trial of Tune has trained enough.
    callbacks : list, optional
        Callbacks of Tune, which are called as trials start, report and end.
    progress_reporter : object, optional
        The object that shows the progress.
    log_to_file : bool, str or pair of str, default False
        Whether trials write their output to files, and to which.
    local_dir : str, optional
        Refused: use `storage_path`.
    """

    name: str | None = None
    storage_path: Any = None
    storage_filesystem: pyarrow.fs.FileSystem | None = None
    failure_config: Any = None
    checkpoint_config: Any = None
    sync_config: object = None
    verbose: Any = None
    stop: Mapping[str, Any] | Callable[..., bool] | Any = None
    callbacks: list[Any] | None = None
    progress_reporter: Any = None
    log_to_file: bool | str | tuple[str, str] = False
    local_dir: str | None = None

    def __post_init__(self) -> None:
        if self.local_dir is not None:
            forms.option("ray.air.RunConfig", "local_dir", refusal=DeprecationWarning)
            self.storage_path = self.storage_path or self.local_dir
        if self.storage_path is None:
            self.storage_path = getattr(self.sync_config, "_storage_path", None)
        if self.storage_path is None:
            self.storage_path = os.environ.get("RAY_STORAGE") or _storage.default_path()
        if isinstance(self.storage_path, Path):
            self.storage_path = self.storage_path.as_posix()
        self.failure_config = self.failure_config or FailureConfig()
        self.checkpoint_config = self.checkpoint_config or CheckpointConfig()
        self.sync_config = self.sync_config or SyncConfig()
        if self.verbose is None:
            self.verbose = int(os.environ.get("AIR_VERBOSITY") or 1)

    def __repr__(self) -> str:
        given = {
            "failure_config": FailureConfig(),
            "checkpoint_config": CheckpointConfig(),
            "sync_config": SyncConfig(),
        }
        return as_text(self, given)
