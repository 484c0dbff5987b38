"""The options of `remote`, `options` and `method` as type checkers and editors see them.

What a value may be is checked by `option_rules`; a test compares the names.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Literal, TypedDict

if TYPE_CHECKING:
    from raycompat._protocol.strategy import GroupHandle, SchedulingStrategy


class _Keywords(TypedDict, total=False):
    """The options of tasks and of actors."""

    accelerator_type: str | None
    enable_task_events: bool
    fallback_strategy: Sequence[Mapping[str, object]] | None
    label_selector: Mapping[str, str] | None
    memory: float | None
    name: str | None
    num_cpus: float | None
    num_gpus: float | None
    object_store_memory: int | None
    placement_group: GroupHandle | Literal["default"] | None
    placement_group_bundle_index: int
    placement_group_capture_child_tasks: bool | None
    resources: Mapping[str, float] | None
    runtime_env: Mapping[str, object] | None
    scheduling_strategy: SchedulingStrategy | Literal["DEFAULT", "SPREAD"] | None
    _labels: Mapping[str, str] | None


class TaskKeywords(_Keywords, total=False):
    """The options of a remote function, beside ``num_returns``, which decides what a call returns."""

    max_calls: int | None
    max_retries: int | None
    retry_exceptions: bool | Sequence[type[BaseException]]
    _generator_backpressure_num_objects: int | None
    _num_objects_per_yield: int | None


class ActorKeywords(_Keywords, total=False):
    """The options of an actor class."""

    allow_out_of_order_execution: bool | None
    concurrency_groups: Mapping[str, int] | Sequence[Mapping[str, object]] | None
    enable_tensor_transport: bool | None
    get_if_exists: bool
    lifetime: Literal["detached", "non_detached"] | None
    max_concurrency: int | None
    max_pending_calls: int | None
    max_restarts: int | None
    max_task_retries: int | None
    namespace: str | None
    _actor_generator_backpressure_num_objects: int | None


class RemoteKeywords(TaskKeywords, ActorKeywords, total=False):
    """The options of ``@ray.remote(...)``, before it is known what it decorates."""


class MethodKeywords(TypedDict, total=False):
    """The options of a method of an actor."""

    concurrency_group: str | None
    enable_task_events: bool | None
    max_task_retries: int | None
    name: str | None
    num_returns: int | str | None
    retry_exceptions: bool | Sequence[type[BaseException]] | None
    tensor_transport: str | None
    _generator_backpressure_num_objects: int | None
    _num_objects_per_yield: int | None
