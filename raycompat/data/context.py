"""Settings of `raycompat.data`: the size of blocks, and the limits of memory."""

from __future__ import annotations

import copy
import threading
from dataclasses import dataclass, field
from typing import Any, ClassVar

from raycompat._surface import era
from raycompat._surface.modules import names_of
from raycompat.exceptions import UnsupportedRayFeatureError


@dataclass
class ExecutionResources:
    """Amounts of resources.

    Parameters
    ----------
    cpu, gpu : float, optional
        Numbers of CPUs and GPUs.
    object_store_memory, memory : float, optional
        Bytes. Default: no limit but the cluster's.

    Examples
    --------
    >>> ray.data.ExecutionResources(cpu=2, object_store_memory=10e9).cpu
    2

    Notes
    -----
    Ray source: ``ray.data.ExecutionResources``, 2.60.0. Differs from Ray: ``gpu`` and ``memory`` limit
    nothing; tasks wait for them as all tasks do.
    """

    cpu: float | None = None
    gpu: float | None = None
    object_store_memory: float | None = None
    memory: float | None = None


@dataclass
class ExecutionOptions:
    """The limits with which plans are executed.

    Parameters
    ----------
    resource_limits : ExecutionResources, optional
        The limits of an execution: ``cpu``, the number of concurrent tasks; ``object_store_memory``,
        the bytes of blocks between operators.
    preserve_order : bool, default False
        Has no effect: blocks are always in order.
    verbose_progress : bool, optional
        Has no effect.

    Examples
    --------
    >>> options = ray.data.ExecutionOptions(
    ...     resource_limits=ray.data.ExecutionResources(cpu=2), preserve_order=True
    ... )
    >>> context = ray.data.DataContext.get_current().copy()
    >>> context.execution_options = options

    Notes
    -----
    Ray source: ``ray.data.ExecutionOptions``, 2.60.0. Differs from Ray: order is always kept.
    """

    resource_limits: ExecutionResources | None = None
    preserve_order: bool = False
    verbose_progress: bool | None = None

    def __post_init__(self) -> None:
        if self.resource_limits is None:
            self.resource_limits = ExecutionResources()


#: Settings of Ray's executor that change how fast it works and what it logs, and no result: the values
#: that they have in Ray. A program may set them; nothing here reads them.
_WITHOUT_EFFECT: dict[str, Any] = {
    "accurate_map_phase_timing": False,
    "actor_prefetcher_enabled": False,
    "decoding_size_estimation": True,
    "default_hash_shuffle_parallelism": 200,
    "downstream_capacity_backpressure_ratio": 2.0,
    "enable_auto_log_stats": False,
    "enable_dynamic_output_queue_size_backpressure": False,
    "enable_get_object_locations_for_metrics": False,
    "enable_operator_progress_bars": True,
    "enable_per_node_metrics": False,
    "enable_progress_bar_name_truncation": True,
    "enable_rich_progress_bars": False,
    "enable_stats_summary_collection": False,
    "hash_aggregate_operator_actor_num_cpus_override": None,
    "hash_shuffle_operator_actor_num_cpus_override": None,
    "hash_shuffle_reduce_batch_size": 16,
    "join_operator_actor_num_cpus_override": None,
    "large_args_threshold": 50 * 2**20,
    "log_internal_stack_trace": False,
    "max_hash_shuffle_aggregators": None,
    "max_hash_shuffle_finalization_batch_size": None,
    "max_tasks_in_flight_per_actor": None,
    "memory_usage_poll_interval_s": 1,
    "min_hash_shuffle_aggregator_wait_time_in_s": 300,
    "op_resource_reservation_enabled": True,
    "op_resource_reservation_ratio": 0.5,
    "per_stage_map_timing": False,
    "pipeline_push_based_shuffle_reduce_tasks": True,
    "print_on_execution_start": True,
    "shuffle_compression": "zstd",
    "shuffle_input_batch_bytes": 2**30,
    "streaming_read_buffer_size": 32 * 2**20,
    "trace_allocations": False,
    "use_disk_based_hash_shuffle": False,
    "use_polars": False,
    "use_polars_sort": False,
    "use_push_based_shuffle": False,
    "use_ray_tqdm": True,
    "verbose_stats_logs": False,
    "warn_on_driver_memory_usage_bytes": 2 * 2**30,
}


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

    Examples
    --------
    >>> from raycompat.data import DataContext
    >>> DataContext.get_current().target_max_block_size
    134217728

    Notes
    -----
    Ray source: ``ray.data.DataContext``, 2.60.0. Differs from Ray: settings that only make Ray's
    executor faster, or change what it logs, have no effect (``use_push_based_shuffle``,
    ``verbose_stats_logs`` for example). To set one that would change results or errors is an
    `UnsupportedRayFeatureError`.
    """

    target_max_block_size: int = 128 * 2**20
    target_min_block_size: int = 2**20
    read_op_min_num_blocks: int = 200
    enable_progress_bars: bool = True
    execution_options: ExecutionOptions = field(default_factory=ExecutionOptions)
    enable_arrow_backed_pandas_conversion: bool = field(
        default_factory=lambda: not era.is_before("2.56")
    )

    #: How many executions of the data sets with these settings have succeeded.
    _num_executions: int = field(default=0, init=False, repr=False, compare=False)

    _current: ClassVar[DataContext | None] = None
    _lock: ClassVar[threading.Lock] = threading.Lock()

    def __setattr__(self, name: str, value: Any) -> None:
        if name not in self.__dataclass_fields__ and name not in _WITHOUT_EFFECT:
            settings = (each for each in self.__dataclass_fields__ if not each.startswith("_"))
            raise UnsupportedRayFeatureError(
                f"DataContext.{name}",
                "it is a setting of Ray's own executor that changes results or errors",
                f"the settings here are {', '.join(settings)}",
            )
        super().__setattr__(name, value)

    def __getattr__(self, name: str) -> Any:
        if name in _WITHOUT_EFFECT:
            return _WITHOUT_EFFECT[name]
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
