"""The configurations of trainers."""

from __future__ import annotations

import logging
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from raycompat import _storage
from raycompat._old_forms.train import options
from raycompat._surface import forms
from raycompat.exceptions import UnsupportedRayFeatureError
from raycompat.train import _run_configs as air
from raycompat.train._run_configs import DEPRECATED, check_retention
from raycompat.util._shown import ShownAsTable

if TYPE_CHECKING:
    import pyarrow.fs

#: How the name of a run begins to which the program has given none.
UNNAMED = "ray_train_run-"


#: The row of callbacks of Tune in a `RunConfig` of Train.
_CALLBACKS_OF_TUNE = "ray.train.RunConfig(callbacks=) with callbacks of Tune"

#: Options of `RunConfig` that were for Tune.
TUNES = ("sync_config", "stop", "progress_reporter", "log_to_file")


class RayTrainCallback:
    """Base class of all callbacks."""


def is_tunes(callback: object) -> bool:
    """Return whether a callback is one of Tune; Tune is imported by programs that have one."""
    tunes = sys.modules.get("raycompat.tune.callback")
    return tunes is not None and isinstance(callback, tunes.Callback)


@forms.takes_old_options_in_constructor("ray.air.ScalingConfig")
@dataclass
class ScalingConfig(air.ScalingConfig):
    """The number of workers that train, and the resources of each.

    Parameters
    ----------
    trainer_resources : dict, optional
        Of no effect, a form of Ray 2.0 to 2.48: the process that starts the workers needs no resources.
    num_workers : int or tuple of int, default 1
        Number of workers, each a new process. 0: the function runs in the calling process. A tuple is
        the least and the most: the run starts with as many as the cluster has room for. It continues,
        from the latest checkpoint, with fewer when a node is lost, and with more when one joins. The
        loss counts as a failure, see `FailureConfig`. As a trial of Tune, the run has the least.
    use_gpu : bool, default False
        Whether each worker gets a GPU.
    resources_per_worker : dict, optional
        Resources of each worker by name. By default one CPU, or with `use_gpu` one GPU.
    placement_strategy : {"PACK", "SPREAD", "STRICT_PACK", "STRICT_SPREAD"}, default "PACK"
        Strategy of the workers' placement group.
    accelerator_type : str, optional
        Type of accelerator that the workers' nodes must have.
    label_selector : dict or list of dict, optional
        Labels of nodes on which a worker may run; in a list, one dictionary for each worker, of the
        most that there may be.
    use_tpu, topology
        Not supported: TPUs do not exist here.
    elastic_resize_monitor_interval_s : float, default 60.0
        With a tuple as `num_workers`: seconds between two checks whether there is room for more; twice
        as many when the workers were started again, and others had taken the room. With STRICT_PACK
        only room on the workers' node counts.

    Raises
    ------
    ValueError
        When a value is out of range, or resources contradict `use_gpu`.
    UnsupportedRayFeatureError
        For TPUs.

    Examples
    --------
    >>> from raycompat import train
    >>> scaling = train.ScalingConfig(
    ...     num_workers=4, resources_per_worker={"CPU": 2}
    ... )
    >>> scaling.total_resources
    {'CPU': 8.0}

    Notes
    -----
    Ray source: ``ray.train.ScalingConfig``, 2.60.0. Differs: workers are added only where resources
    are free, so the run never stops for resources that others use.
    """

    num_workers: Any = 1
    trainer_resources: dict[str, float] | None = None
    label_selector: dict[str, str] | list[dict[str, str]] | None = None
    use_tpu: bool = False
    topology: str | None = None
    elastic_resize_monitor_interval_s: float = 60.0

    def __post_init__(self) -> None:
        if self.trainer_resources is not None:
            forms.option("ray.train.ScalingConfig", "trainer_resources", refusal=DeprecationWarning)
        self._check_workers()
        if self.elastic_resize_monitor_interval_s < 0:
            raise ValueError(
                f"elastic_resize_monitor_interval_s={self.elastic_resize_monitor_interval_s!r}: "
                "expected 0 or more seconds."
            )
        self._check_tpus()
        labels = self.label_selector
        if isinstance(labels, list) and len(labels) != self.max_workers:
            raise ValueError(
                f"label_selector has {len(labels)} entries for {self.max_workers} workers: expected "
                "one for each, or one dict for all."
            )
        super().__post_init__()

    def _check_workers(self) -> None:
        num_workers = self.num_workers
        numbers = (
            num_workers
            if isinstance(num_workers, tuple) and len(num_workers) == 2
            else (num_workers,)
        )
        if any(not isinstance(number, int) or isinstance(number, bool) for number in numbers):
            raise ValueError(
                f"num_workers={num_workers!r}: expected an integer, for example num_workers=2, or a "
                "tuple of the least and the most, for example (1, 4)."
            )
        if numbers[0] < 0:
            raise ValueError(f"num_workers={num_workers!r}: expected 0 or more.")
        if numbers[0] > numbers[-1]:
            raise ValueError(
                f"num_workers={num_workers!r}: expected the least first, then the most."
            )

    def _check_tpus(self) -> None:
        if self.use_gpu and self.use_tpu:
            raise ValueError("use_gpu and use_tpu are both True: expected one of them at most.")
        tpus = (self.resources_per_worker or {}).get("TPU", 0)
        if tpus and not self.use_tpu:
            raise ValueError(
                f"resources_per_worker has TPU: {tpus}, but use_tpu is False. Leave TPU out."
            )
        if self.use_tpu or self.topology:
            raise UnsupportedRayFeatureError(
                "ScalingConfig(use_tpu, topology): Train sets up workers with CPUs and GPUs, not TPUs. "
                "For other accelerators, give tasks and actors the resource by name, such as "
                'resources={"TPU": 1}.'
            )

    @property
    def elasticity_enabled(self) -> bool:
        """Whether the number of workers may change.

        Examples
        --------
        >>> from raycompat import train
        >>> train.ScalingConfig(num_workers=(1, 2)).elasticity_enabled
        True
        >>> train.ScalingConfig(num_workers=2).elasticity_enabled
        False
        """
        return isinstance(self.num_workers, tuple)

    @property
    def min_workers(self) -> int:
        """The least number of workers.

        Examples
        --------
        >>> from raycompat import train
        >>> train.ScalingConfig(num_workers=(1, 2)).min_workers
        1
        """
        return int(self.num_workers[0] if self.elasticity_enabled else self.num_workers)

    @property
    def max_workers(self) -> int:
        """The largest number of workers.

        Examples
        --------
        >>> from raycompat import train
        >>> train.ScalingConfig(num_workers=(1, 2)).max_workers
        2
        """
        return self._most_workers

    @property
    def _most_workers(self) -> int:
        return int(self.num_workers[1] if self.elasticity_enabled else self.num_workers)

    @property
    def _least_workers(self) -> int:
        """The number of workers without which a run waits, or runs in the calling process (0)."""
        return max(self.min_workers, 1) if self.elasticity_enabled else self.min_workers

    @property
    def _trainer_resources_not_none(self) -> dict[str, float]:
        return {}

    @property
    def num_tpus_per_worker(self) -> float:
        """TPUs of each worker, always 0.

        Examples
        --------
        >>> from raycompat import train
        >>> train.ScalingConfig(num_workers=2).num_tpus_per_worker
        0
        """
        return self._resources_per_worker_not_none.get("TPU", 0)

    def labels_of(self, rank: int) -> dict[str, str] | None:
        """Return the labels that the node of a worker must have."""
        labels = self.label_selector
        return labels[rank] if isinstance(labels, list) else labels


@dataclass
class CheckpointConfig(ShownAsTable):
    """The checkpoints of a run that are kept.

    Parameters
    ----------
    num_to_keep : int, optional
        How many are kept, at least 1, and in any case the latest. By default all.
    checkpoint_score_attribute : str, optional
        The metric by which checkpoints are compared. By default the latest are kept.
    checkpoint_score_order : {"max", "min"}, default "max"
        Whether high or low values are better.
    checkpoint_frequency, checkpoint_at_end : optional
        Forms of Ray 2.0 to 2.48, for class trainables of Tune.

    Examples
    --------
    Keep the two checkpoints with the lowest loss:

    >>> from raycompat import train
    >>> config = train.CheckpointConfig(
    ...     num_to_keep=2,
    ...     checkpoint_score_attribute="loss",
    ...     checkpoint_score_order="min",
    ... )
    >>> train.CheckpointConfig(num_to_keep=0)
    Traceback (most recent call last):
    ValueError: ...
    """

    num_to_keep: int | None = None
    checkpoint_score_attribute: str | None = None
    checkpoint_score_order: str | None = "max"
    checkpoint_frequency: int | str = DEPRECATED
    checkpoint_at_end: bool | str | None = DEPRECATED

    def __post_init__(self) -> None:
        for name in ("checkpoint_frequency", "checkpoint_at_end"):
            if getattr(self, name) != DEPRECATED:
                forms.option("ray.train.CheckpointConfig", name, refusal=DeprecationWarning)
        check_retention(self.num_to_keep, self.checkpoint_score_order)


@dataclass
class FailureConfig(air.FailureConfig):
    """The reaction to the failure of a worker.

    Parameters
    ----------
    max_failures : int, default 0
        Number of failures after which training continues from the last checkpoint. -1: no limit.
    fail_fast : bool or "raise", optional
        A form of Ray 2.0 to 2.48: the first failure ends the experiment of Tune.
    controller_failure_limit : int, default -1
        How often the start of the workers may fail. -1: no limit.
    max_preemption_failures, relax_collectives_on_preemption, preemption_grace_s
        Of no effect: a node that goes is a failure as any other.

    Examples
    --------
    Start again from the last checkpoint, up to three times; -1 has no limit:

    >>> from raycompat import train
    >>> config = train.RunConfig(failure_config=train.FailureConfig(max_failures=3))
    >>> config.failure_config.max_failures
    3

    Notes
    -----
    Ray source: ``ray.train.FailureConfig``, 2.60.0. Differs: raycompat gets no notice of nodes that
    will be preempted.
    """

    fail_fast: Any = DEPRECATED
    controller_failure_limit: int = -1
    max_preemption_failures: int = -1
    relax_collectives_on_preemption: bool = False
    preemption_grace_s: float = 0.0

    def __post_init__(self) -> None:
        if self.fail_fast != DEPRECATED:
            forms.option("ray.train.FailureConfig", "fail_fast", refusal=DeprecationWarning)
            super().__post_init__()


@dataclass
class LoggingConfig(ShownAsTable):
    """The amount of logging by Train.

    Parameters
    ----------
    log_level : str, default "INFO"
        Name of a level of `logging`.

    Examples
    --------
    >>> from raycompat import train
    >>> train.LoggingConfig("warning").log_level
    'WARNING'
    """

    log_level: str = "INFO"

    def __post_init__(self) -> None:
        levels = logging.getLevelNamesMapping()
        if not isinstance(self.log_level, str) or self.log_level.upper() not in levels:
            raise ValueError(f"log_level={self.log_level!r}: expected one of {sorted(levels)}.")
        self.log_level = self.log_level.upper()


@forms.takes_old_options_in_constructor("ray.train.RunConfig")
@dataclass
class RunConfig(ShownAsTable):
    """The place of a run's checkpoints, and other settings of the run.

    Parameters
    ----------
    name : str, optional
        Name of the run's folder. A run that has the name of one that was there continues it, from its
        last checkpoint. By default a name made of the time.
    storage_path : str or path-like, optional
        Where folders of runs are: a local path that all nodes see, or a URI that fsspec knows. By
        default ``~/ray_results``.
    storage_filesystem : pyarrow or fsspec file system, optional
        The file system of `storage_path`.
    failure_config : FailureConfig, optional
        How many failures are recovered from.
    checkpoint_config : CheckpointConfig, optional
        Which checkpoints are kept.
    callbacks : list of UserCallback, optional
        Callbacks that run after reports and failures.
    worker_runtime_env : dict, optional
        Runtime environment of the workers.
    logging_config : LoggingConfig, optional
        How much Train logs.
    verbose : int, optional
        0: no line of progress. 1 or more: one for each report, as in Ray's older Train.
    sync_config, stop, progress_reporter, log_to_file : optional
        Forms of Ray 2.0 to 2.48, for Tune. A trainer with `stop`, or with callbacks of Tune, runs as
        the only trial of an experiment, as it did then.

    Examples
    --------
    >>> from raycompat import train
    >>> config = train.RunConfig(
    ...     name="digits",
    ...     storage_path="/tmp/results",
    ...     failure_config=train.FailureConfig(max_failures=1),
    ...     checkpoint_config=train.CheckpointConfig(num_to_keep=2),
    ...     worker_runtime_env={"env_vars": {"TF_NUM_INTRAOP_THREADS": "1"}},
    ... )
    >>> config.storage_context.path
    '/tmp/results/digits'

    Notes
    -----
    Ray source: ``ray.train.RunConfig``, 2.60.0. Differs: `verbose` is accepted.
    """

    name: str | None = None
    storage_path: Any = None
    storage_filesystem: pyarrow.fs.FileSystem | None = None
    failure_config: FailureConfig | None = None
    checkpoint_config: CheckpointConfig | None = None
    callbacks: list[RayTrainCallback] | None = None
    worker_runtime_env: Mapping[str, object] | None = None
    logging_config: LoggingConfig | None = None
    sync_config: object = DEPRECATED
    verbose: Any = DEPRECATED
    stop: Any = DEPRECATED
    progress_reporter: Any = DEPRECATED
    log_to_file: Any = DEPRECATED

    def __post_init__(self) -> None:
        if self.storage_path is None:
            self.storage_path = _storage.default_path()
        if isinstance(self.storage_path, Path):
            self.storage_path = self.storage_path.as_posix()
        self.failure_config = options.of_air(self.failure_config) or FailureConfig()
        self.checkpoint_config = options.of_air(self.checkpoint_config) or CheckpointConfig()
        self.logging_config = self.logging_config or LoggingConfig()
        self._note_what_is_tunes()
        if not self.name:
            self.name = f"{UNNAMED}{datetime.now():%Y-%m-%d_%H-%M-%S}"
        self.callbacks = self.callbacks or []
        self.worker_runtime_env = self.worker_runtime_env or {}
        self.name = _storage.checked_name("RunConfig(name", self.name)
        self._check_types()

    def _note_what_is_tunes(self) -> None:
        for name in TUNES:
            if getattr(self, name) != DEPRECATED:
                forms.option("ray.train.RunConfig", name, refusal=DeprecationWarning)
        if self.verbose != DEPRECATED and not isinstance(self.verbose, int):
            raise ValueError(f"verbose={self.verbose!r}: expected 0, 1 or 2.")

    def _check_types(self) -> None:
        for callback in self.callbacks or []:
            if is_tunes(callback):
                forms.used(_CALLBACKS_OF_TUNE, refusal=ValueError)
            elif not isinstance(callback, RayTrainCallback):
                raise ValueError(
                    f"callbacks: {callback!r} is not a train.UserCallback. Write a class that inherits "
                    "from it; callbacks of Tune do not fit."
                )
        for given, expected in (
            (self.checkpoint_config, CheckpointConfig),
            (self.failure_config, FailureConfig),
        ):
            if not isinstance(given, expected):
                raise ValueError(
                    f"{given!r} is not a train.{expected.__name__}: import it from raycompat.train."
                )

    @property
    def is_for_tune(self) -> bool:
        """Whether the run stops, or reports, as only an experiment of Tune does.

        Examples
        --------
        >>> from raycompat import train
        >>> train.RunConfig().is_for_tune
        False
        """
        return self.stop not in (None, DEPRECATED) or any(map(is_tunes, self.callbacks or ()))

    @cached_property
    def storage_context(self) -> _storage.Folder:
        """The folder of the run."""
        return _storage.Folder(self.storage_path, self.storage_filesystem).folder(str(self.name))


for _class in (ScalingConfig, CheckpointConfig, FailureConfig, LoggingConfig, RunConfig):
    _class.__module__ = "raycompat.train"
