"""Settings of `raycompat.data`: the size of blocks, the limits of executions, what may fail."""

from __future__ import annotations

import contextlib
import copy
import enum
import numbers
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from raycompat._surface import era
from raycompat._surface.modules import names_of
from raycompat.data.limits import ExecutionOptions
from raycompat.exceptions import UnsupportedRayFeatureError


class ShuffleStrategy(enum.StrEnum):
    """The ways in which Ray moves rows between blocks; all have the same results here."""

    SORT_SHUFFLE_PULL_BASED = "sort_shuffle_pull_based"
    SORT_SHUFFLE_PUSH_BASED = "sort_shuffle_push_based"
    HASH_SHUFFLE = "hash_shuffle"
    SHUFFLE_V2 = "shuffle_v2"
    GPU_SHUFFLE = "gpu_shuffle"


#: Settings of Ray's executor that change how fast it works and what it logs, and no result: the values
#: that they have in Ray. A program may set them; nothing here reads them.
_WITHOUT_EFFECT: dict[str, object] = {
    "accurate_map_phase_timing": False,
    "actor_init_max_retries": 3,
    "actor_prefetcher_enabled": False,
    "block_splitting_enabled": True,
    "decoding_size_estimation": True,
    "default_hash_shuffle_parallelism": 200,
    "default_map_logical_memory_enabled": False,
    "downstream_capacity_backpressure_ratio": 2.0,
    "eager_free": True,
    "enable_auto_log_stats": False,
    "enable_dynamic_output_queue_size_backpressure": False,
    "enable_get_object_locations_for_metrics": False,
    "enable_lineage_reconstruction_resource_accounting": True,
    "enable_operator_progress_bars": True,
    "enable_pandas_block": True,
    "enable_per_node_metrics": False,
    "enable_progress_bar_name_truncation": True,
    "enable_rich_progress_bars": False,
    "enable_stats_summary_collection": False,
    "execution_no_progress_timeout_s": 1800,
    "hash_aggregate_operator_actor_num_cpus_override": None,
    "hash_shuffle_aggregator_health_warning_interval_s": 30,
    "hash_shuffle_operator_actor_num_cpus_override": None,
    "hash_shuffle_reduce_batch_size": 16,
    "hash_shuffle_reduce_get_timeout_s": 1800.0,
    "isolate_read_workers": False,
    "join_operator_actor_num_cpus_override": None,
    "large_args_threshold": 50 * 2**20,
    "log_internal_stack_trace": False,
    "max_hash_shuffle_aggregators": None,
    "max_hash_shuffle_finalization_batch_size": None,
    "max_tasks_in_flight_per_actor": None,
    "memory_usage_poll_interval_s": 1,
    "min_hash_shuffle_aggregator_wait_time_in_s": 300,
    "min_parallelism": 200,
    "object_store_memory_pressure_fraction": None,
    "object_store_reservation_overshoot_ratio": None,
    "op_resource_reservation_enabled": True,
    "op_resource_reservation_ratio": 0.5,
    "optimize_fuse_stages": True,
    "optimizer_enabled": True,
    "output_backpressure_guard_release_interval_s": None,
    "pandas_block_ignore_metadata": False,
    "per_stage_map_timing": False,
    "pipeline_push_based_shuffle_reduce_tasks": True,
    "print_on_execution_start": True,
    "scheduling_strategy": "SPREAD",
    "scheduling_strategy_large_args": "DEFAULT",
    "shuffle_compression": "zstd",
    "shuffle_input_batch_bytes": 2**30,
    "shuffle_strategy": ShuffleStrategy.SHUFFLE_V2,
    "streaming_read_buffer_size": 32 * 2**20,
    "target_shuffle_max_block_size": 2**30,
    "trace_allocations": False,
    "use_arrow_tensor_v2": True,
    "use_streaming_executor": True,
    "use_datasource_v2": True,
    "use_disk_based_hash_shuffle": False,
    "use_legacy_dataset_ids": False,
    "use_polars": False,
    "use_polars_sort": False,
    "use_push_based_shuffle": False,
    "use_ray_tqdm": True,
    "verbose_stats_logs": False,
    "wait_for_min_actors_s": -1,
    "warn_on_driver_memory_usage_bytes": 2 * 2**30,
}

#: Faults of S3 that Ray tries again.
_S3_FAULTS = [
    "AWS Error INTERNAL_FAILURE",
    "AWS Error NETWORK_CONNECTION",
    "AWS Error SLOW_DOWN",
    "AWS Error UNKNOWN (HTTP status 503)",
]

#: Settings that change results or errors, with the values that they have in Ray: those are what is done
#: here, and no others are possible.
_FIXED: dict[str, object] = {
    "actor_init_retry_on_errors": False,
    "actor_task_retry_on_errors": False,
    "batch_to_block_arrow_format": True,
    "enable_fallback_to_arrow_object_ext_type": None,
    "enable_tensor_extension_casting": True,
    "enforce_schemas": False,
    "max_consecutive_actor_init_deaths": 0,
    "max_map_retries": 0,
    "override_object_store_memory_limit_fraction": None,
    "retried_io_errors": [*_S3_FAULTS, "AWS Error SERVICE_UNAVAILABLE"],
    "retried_map_errors": False,
    "s3_try_create_dir": False,
    "write_file_retry_on_errors": tuple(_S3_FAULTS),
}


#: The settings that are whole numbers, with the least ones that are possible.
_LEAST = {
    "target_max_block_size": 1,
    "target_min_block_size": 1,
    "read_op_min_num_blocks": 1,
    "max_errored_blocks": -1,
}

#: The settings that are true or false.
_SWITCHES = {
    "enable_progress_bars",
    "enable_arrow_backed_pandas_conversion",
    "raise_original_map_exception",
}


def _whole_number(name: str, value: object) -> int:
    if value is None and name == "target_max_block_size":
        raise UnsupportedRayFeatureError(
            f"DataContext.{name} = None",
            "tasks stream their output in blocks of a limited size",
            "set a large number of bytes, 2**40 for example",
        )
    if isinstance(value, float) and value.is_integer():  # 1e9, say
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, numbers.Integral):
        raise TypeError(f"DataContext.{name} = {value!r}: expected a whole number.")
    if value < _LEAST[name]:
        raise ValueError(f"DataContext.{name} = {value!r}: expected {_LEAST[name]} or more.")
    return int(value)


def _truth(name: str, value: object) -> bool:
    if isinstance(value, numbers.Integral | np.bool_) and value in (0, 1):
        return bool(value)
    raise TypeError(f"DataContext.{name} = {value!r}: expected True or False.")


@dataclass
class DataContext:
    """Settings of the data sets of this process; each data set keeps a copy.

    Parameters
    ----------
    target_max_block_size : int, default 128 MiB
        Bytes that a block has at most, roughly.
    target_min_block_size : int, default 1 MiB
        Minimum bytes of a block that is read, if there is enough data.
    read_op_min_num_blocks : int, default 200
        Maximum number of blocks of `range` and similar functions, unless their size needs more.
    enable_progress_bars : bool, default True
        Show bars on a terminal.
    execution_options : ExecutionOptions
        Limits.
    enable_arrow_backed_pandas_conversion : bool, default True
        Give the columns of DataFrames Arrow's types (``int64[pyarrow]``). False: numpy's types. A
        program that was written for a Ray before 2.56 has False.
    max_errored_blocks : int, default 0
        Tasks of maps and reads that may fail: the rows that they have not made yet are left out, and a
        warning says so. -1: any number.
    raise_original_map_exception : bool, default False
        Raise the error of a function without `UserCodeException` among its classes.

    Examples
    --------
    >>> from raycompat.data import DataContext
    >>> DataContext.get_current().target_max_block_size
    134217728

    Notes
    -----
    Ray source: ``ray.data.DataContext``, 2.60.0. Differs from Ray: settings that only make Ray's
    executor faster, or change what it logs, have no effect (``use_push_based_shuffle``,
    ``verbose_stats_logs`` for example). One that would change results or errors can be read; to set it
    to another value than Ray's default is an `UnsupportedRayFeatureError`.
    """

    target_max_block_size: int = 128 * 2**20
    target_min_block_size: int = 2**20
    read_op_min_num_blocks: int = 200
    enable_progress_bars: bool = True
    execution_options: ExecutionOptions = field(default_factory=ExecutionOptions)
    enable_arrow_backed_pandas_conversion: bool = field(
        default_factory=lambda: not era.is_before("2.56")
    )
    max_errored_blocks: int = 0
    raise_original_map_exception: bool = False

    #: Values that a program keeps here by its own names.
    _values: dict[str, object] = field(default_factory=dict, init=False, repr=False, compare=False)

    #: How many executions of the data sets with these settings have succeeded.
    _num_executions: int = field(default=0, init=False, repr=False, compare=False)

    _current: ClassVar[DataContext | None] = None
    _lock: ClassVar[threading.Lock] = threading.Lock()

    def __setattr__(self, name: str, value: object) -> None:
        if name in _FIXED and value != _FIXED[name]:
            settings = (each for each in self.__dataclass_fields__ if not each.startswith("_"))
            raise UnsupportedRayFeatureError(
                f"DataContext.{name} = {value!r}",
                f"it changes results or errors, and is always {_FIXED[name]!r} here",
                f"the settings here are {', '.join(settings)}",
            )
        if name in _LEAST:
            value = _whole_number(name, value)
        elif name in _SWITCHES:
            value = _truth(name, value)
        elif name == "execution_options" and not isinstance(value, ExecutionOptions):
            raise TypeError(f"DataContext.{name} = {value!r}: expected an ExecutionOptions.")
        super().__setattr__(name, value)

    def __getattr__(self, name: str) -> Any:
        for settings in (_WITHOUT_EFFECT, _FIXED):
            if name in settings:
                return copy.copy(settings[name])
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    @staticmethod
    def get_current() -> DataContext:
        """Return the settings of this process."""
        with DataContext._lock:
            if DataContext._current is None:
                DataContext._current = DataContext()
            return DataContext._current

    @staticmethod
    def _set_current(context: DataContext) -> None:
        with DataContext._lock:
            DataContext._current = context

    @staticmethod
    @contextlib.contextmanager
    def current(context: DataContext) -> Iterator[DataContext]:
        """Use other settings in this process while a block of code runs.

        Parameters
        ----------
        context : DataContext
            The settings.

        Examples
        --------
        >>> other = ray.data.DataContext.get_current().copy()
        >>> other.target_max_block_size = 1_000_000
        >>> with ray.data.DataContext.current(other):
        ...     ray.data.range(3).context.target_max_block_size
        1000000
        """
        before = DataContext.get_current()
        DataContext._set_current(context)
        try:
            yield context
        finally:
            DataContext._set_current(before)

    def set_config(self, key: str, value: object) -> None:
        """Keep a value of the program with the settings.

        Parameters
        ----------
        key : str
            Its name.
        value : object
            The value; it can be pickled.

        Examples
        --------
        >>> context = ray.data.DataContext.get_current().copy()
        >>> context.set_config("tenant", "a")
        >>> context.get_config("tenant")
        'a'
        """
        self._values[key] = value

    def get_config(self, key: str, default: object = None) -> Any:
        """Return a value that `set_config` has kept.

        Parameters
        ----------
        key : str
            Its name.
        default : object, optional
            What to return when there is none.

        Examples
        --------
        >>> ray.data.DataContext.get_current().get_config("nothing", default=0)
        0
        """
        return self._values.get(key, default)

    def remove_config(self, key: str) -> None:
        """Drop a value that `set_config` has kept, if there is one.

        Parameters
        ----------
        key : str
            Its name.

        Examples
        --------
        >>> context = ray.data.DataContext.get_current().copy()
        >>> context.set_config("tenant", "a")
        >>> context.remove_config("tenant")
        >>> context.get_config("tenant") is None
        True
        """
        self._values.pop(key, None)

    def _note_execution(self) -> None:
        """Count an execution that has succeeded."""
        with DataContext._lock:
            self._num_executions += 1

    def copy(self) -> DataContext:
        """Return settings that may be changed without changing these.

        Examples
        --------
        >>> context = ray.data.DataContext.get_current()
        >>> other = context.copy()
        >>> other.target_max_block_size = 1_000_000
        >>> context.target_max_block_size == other.target_max_block_size
        False
        """
        return copy.deepcopy(self)


__getattr__ = names_of(__name__)
