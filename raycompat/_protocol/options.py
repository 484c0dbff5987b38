"""The options of `remote`, `.options()` and `method`: checked, with their defaults."""

from __future__ import annotations

import pickle
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any

import cloudpickle

from raycompat._protocol import accelerator_kinds
from raycompat._protocol.option_rules import ACTOR, DEFAULT_MAX_RETRIES, METHOD, TASK, checked
from raycompat._protocol.resource_set import (
    LEASED,
    TYPE_RESOURCE,
    TYPE_SHARE,
    LeaseKind,
    ResourceSet,
)
from raycompat._protocol.strategy import SchedulingStrategy


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacementOptions:
    """The options that restrict where a call may run."""

    scheduling_strategy: str | SchedulingStrategy | None = None
    #: The deprecated option: a `PlacementGroup`, None for no group; "default" means not given.
    placement_group: object = "default"
    placement_group_bundle_index: int = -1
    placement_group_capture_child_tasks: bool | None = None
    #: Conditions on the labels of the node, by label; and those to try after these, in order.
    label_selector: Mapping[str, str] | None = None
    fallback_strategy: Sequence[Mapping[str, str]] = ()

    @property
    def is_plain(self) -> bool:
        """Return whether any node is allowed, unless the calling task's placement group captures."""
        return (
            self.scheduling_strategy in (None, "DEFAULT")
            and self.placement_group in (None, "default")
            and self.placement_group_bundle_index == -1
            and not self.placement_group_capture_child_tasks
            and not self.label_selector
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskOptions(PlacementOptions):
    """The options of one remote function; None means that the option was not given."""

    #: 0 if the option is None, as in Ray.
    num_cpus: float | None = 1
    num_gpus: float | None = None
    resources: Mapping[str, float] | None = None
    #: Bytes.
    memory: int | None = None
    #: References that a call returns: None is 1, or "streaming" for a generator function.
    num_returns: int | str | None = None
    #: ``_generator_backpressure_num_objects``: how many items may wait; -1 is without limit.
    max_items: int | None = None
    #: -1 is without limit.
    max_retries: int = DEFAULT_MAX_RETRIES
    #: Which exceptions of the function are retried too.
    retry_exceptions: bool | tuple[type[Exception], ...] = False
    given_max_calls: int | None = None
    runtime_env: Mapping[str, Any] | None = None
    name: str | None = None
    #: The type of the node's GPUs, as in "H100".
    accelerator_type: str | None = None
    #: The kind of lease that runs its calls. None: it needs other resources, or a separate process.
    lease_kind: LeaseKind | None = field(init=False, repr=False, compare=False)
    #: Whether any lease of this kind can run its calls, on any node.
    is_simple: bool = field(init=False, repr=False, compare=False)
    _request: ResourceSet = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        request = _resource_set(self.num_cpus or 0, self)
        object.__setattr__(self, "_request", request)
        is_leased = request.units().keys() <= LEASED
        if self.max_calls or self.runtime_env:
            is_leased = False
        object.__setattr__(self, "lease_kind", LeaseKind.of(request) if is_leased else None)
        object.__setattr__(self, "is_simple", is_leased and self.is_plain)

    @property
    def max_calls(self) -> int:
        """Calls after which the process ends; 0 is without limit.

        A call with accelerators ends its process, which may hold their memory.
        """
        if self.given_max_calls is not None:
            return self.given_max_calls
        return 1 if accelerator_kinds.any_in(self.request()) else 0

    def request(self) -> ResourceSet:
        """Return what a call holds while it runs."""
        return self._request


@dataclass(frozen=True, slots=True, kw_only=True)
class ActorOptions(PlacementOptions):
    """The options of one actor class; None means that the option was not given."""

    num_cpus: float | None = None
    num_gpus: float | None = None
    resources: Mapping[str, float] | None = None
    #: Bytes.
    memory: int | None = None
    #: Bytes.
    object_store_memory: int | None = None
    runtime_env: Mapping[str, Any] | None = None
    #: The type of the node's GPUs, as in "H100".
    accelerator_type: str | None = None
    name: str | None = None
    namespace: str | None = None
    #: "detached" actors outlive their driver.
    lifetime: str | None = None
    get_if_exists: bool = False
    #: How often the process is restarted after it died; -1 is without limit.
    max_restarts: int | None = None
    #: How often a call is retried after its process died; -1 is without limit.
    max_task_retries: int | None = None
    #: Calls that run at the same time: 1, or 1000 with asynchronous methods.
    max_concurrency: int | None = None
    #: The same for each group of methods.
    concurrency_groups: Mapping[str, int] | None = None
    #: As in `TaskOptions`, for its methods: ``_actor_generator_backpressure_num_objects``.
    max_items: int | None = None
    #: Calls of one process that may wait; -1 is without limit.
    max_pending_calls: int | None = None
    #: Whether a call may overtake an earlier call whose arguments are not ready.
    allow_out_of_order_execution: bool | None = None
    #: Whether methods may keep the tensors of their results in the actor's process.
    enable_tensor_transport: bool | None = None
    _placement_request: ResourceSet = field(init=False, repr=False, compare=False)
    _lifetime_request: ResourceSet = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        cpus = 1 if self.num_cpus is None else self.num_cpus
        placement = lifetime = _resource_set(cpus, self)
        # As in Ray: num_gpus=0 counts as given, memory does not.
        if self.num_cpus is None and self.num_gpus is None and not self.resources:
            lifetime = _resource_set(0, self)
        object.__setattr__(self, "_placement_request", placement)
        object.__setattr__(self, "_lifetime_request", lifetime)

    def placement_request(self) -> ResourceSet:
        """Return what must be free where the actor is placed: 1 CPU by default."""
        return self._placement_request

    def lifetime_request(self) -> ResourceSet:
        """Return what the actor holds while it lives: no CPU by default."""
        return self._lifetime_request


@dataclass(frozen=True, slots=True)
class MethodOptions:
    """The options of one method of an actor; None means that the option was not given."""

    #: As in `TaskOptions`.
    num_returns: int | str | None = None
    max_items: int | None = None
    name: str | None = None
    #: As in `ActorOptions`, for this method.
    max_task_retries: int | None = None
    #: As in `TaskOptions`.
    retry_exceptions: bool | tuple[type[Exception], ...] | None = None
    concurrency_group: str | None = None
    #: The name of a transport: then the tensors of the result stay in the actor's process.
    tensor_transport: str | None = None


def _resource_set(cpus: float, options: TaskOptions | ActorOptions) -> ResourceSet:
    amounts: dict[str, float] = {"CPU": cpus, "GPU": options.num_gpus or 0}
    amounts["memory"] = options.memory or 0
    if isinstance(options, ActorOptions):
        amounts["object_store_memory"] = options.object_store_memory or 0
    if options.accelerator_type:
        amounts[f"{TYPE_RESOURCE}{options.accelerator_type}"] = TYPE_SHARE
    return ResourceSet.from_amounts({**amounts, **(options.resources or {})})


#: The fields that have other names than their options.
FIELDS = {
    "max_calls": "given_max_calls",
    "_generator_backpressure_num_objects": "max_items",
    "_actor_generator_backpressure_num_objects": "max_items",
}


def limit_of_items(*options: int | None) -> int | None:
    """Return the first limit of waiting items that was given; None is without limit."""
    for given in options:
        if given is not None:
            return given if given > 0 else None
    return None


def task_options(given: Mapping[str, object], base: TaskOptions | None = None) -> TaskOptions:
    """Check the options of a remote function.

    Parameters
    ----------
    given : mapping
        As the user wrote them.
    base : TaskOptions, optional
        The options that ``.options()`` changes; None at decoration.

    Raises
    ------
    TypeError, ValueError
        When a name is unknown or a value is not valid in Ray.
    UnsupportedRayFeatureError
        When a value is valid in Ray and not supported here.
    """
    values = checked(TASK, given, base is not None)
    if base is not None and not values.get("runtime_env"):
        values.pop("runtime_env", None)  # as in Ray: an empty one counts as not given
    return replace(base or TaskOptions(), **_held(TaskOptions, values))


def actor_options(given: Mapping[str, object], base: ActorOptions | None = None) -> ActorOptions:
    """Check the options of an actor class, as `task_options` does."""
    values = checked(ACTOR, given, base is not None)
    options = replace(base or ActorOptions(), **_held(ActorOptions, values))
    if options.get_if_exists and options.name is None:
        raise ValueError(
            "A name must be specified to use `get_if_exists`. For example: "
            ".options(name='counter', get_if_exists=True)."
        )
    return options


def method_options(given: Mapping[str, object], base: MethodOptions | None = None) -> MethodOptions:
    """Check the options of a method, as `task_options` does."""
    values = checked(METHOD, given, base is not None)
    return replace(base or MethodOptions(), **_held(MethodOptions, values))


def _held(cls: type[TaskOptions | ActorOptions | MethodOptions], values: dict[str, Any]) -> Any:
    """Return the values that are fields of the dataclass; the other options allow one value only."""
    names = {each.name for each in fields(cls)}
    named = {FIELDS.get(name, name): value for name, value in values.items()}
    return {name: value for name, value in named.items() if name in names}


def pickled_exceptions(wanted: Any) -> bool | bytes:
    """Return the option `retry_exceptions` in the form for messages."""
    if isinstance(wanted, bool) or wanted is None:
        return bool(wanted)
    return bytes(cloudpickle.dumps(tuple(wanted), protocol=pickle.HIGHEST_PROTOCOL))
