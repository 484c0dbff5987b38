"""The options of `remote`, `.options()` and `method`, checked, with their defaults and meaning."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any

from raycompat._protocol.option_rules import ACTOR, DEFAULT_MAX_RETRIES, METHOD, TASK, checked
from raycompat._protocol.resource_set import ResourceSet
from raycompat._protocol.strategy import SchedulingStrategy
from raycompat.exceptions import UnsupportedRayFeatureError


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacementOptions:
    """Where a call may go, beside what it asks for; see `_caller.placement`."""

    scheduling_strategy: str | SchedulingStrategy | None = None
    #: Ray's older way to say it: a `PlacementGroup`, None for no group, or what `captures` says.
    placement_group: Any = "default"
    placement_group_bundle_index: int = -1
    placement_group_capture_child_tasks: bool | None = None

    @property
    def is_plain(self) -> bool:
        """Whether a call goes anywhere, unless the call that makes it captures it."""
        return (
            self.scheduling_strategy in (None, "DEFAULT")
            and self.placement_group in (None, "default")
            and self.placement_group_bundle_index == -1
            and not self.placement_group_capture_child_tasks
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskOptions(PlacementOptions):
    """The options of one remote function; None means that nothing was said."""

    #: 0 when it was set to None, as in Ray.
    num_cpus: float | None = 1
    num_gpus: float | None = None
    resources: Mapping[str, float] | None = None
    #: Bytes.
    memory: int | None = None
    #: References that a call returns: None is 1, or "streaming" for a generator function.
    num_returns: int | str | None = None
    #: -1 is without end.
    max_retries: int = DEFAULT_MAX_RETRIES
    #: Which exceptions of the function are retried too.
    retry_exceptions: bool | tuple[type[Exception], ...] = False
    given_max_calls: int | None = None
    runtime_env: Mapping[str, Any] | None = None
    name: str | None = None
    #: Whether a call needs nothing but CPUs, and a process like any other.
    only_takes_cpus: bool = field(init=False, repr=False, compare=False)
    #: And may go anywhere, too.
    is_simple: bool = field(init=False, repr=False, compare=False)
    _request: ResourceSet = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        request = _resource_set(self.num_cpus or 0, self)
        object.__setattr__(self, "_request", request)
        is_like_any_other = self.max_calls == 0 and not self.runtime_env
        only_cpus = request.units().keys() == {"CPU"}
        object.__setattr__(self, "only_takes_cpus", is_like_any_other and only_cpus)
        object.__setattr__(self, "is_simple", self.only_takes_cpus and self.is_plain)

    @property
    def max_calls(self) -> int:
        """Calls after which the process ends; 0 is no limit. GPUs are let go after each call."""
        if self.given_max_calls is not None:
            return self.given_max_calls
        return 1 if self.num_gpus else 0

    def request(self) -> ResourceSet:
        """Return what a call holds while it runs."""
        return self._request


@dataclass(frozen=True, slots=True, kw_only=True)
class ActorOptions(PlacementOptions):
    """The options of one actor class; None means that nothing was said."""

    num_cpus: float | None = None
    num_gpus: float | None = None
    resources: Mapping[str, float] | None = None
    #: Bytes.
    memory: int | None = None
    #: Bytes.
    object_store_memory: int | None = None
    runtime_env: Mapping[str, Any] | None = None
    name: str | None = None
    namespace: str | None = None
    #: "detached" actors outlive their driver.
    lifetime: str | None = None
    get_if_exists: bool = False
    #: How often the process is started anew after it died; -1 is without end.
    max_restarts: int | None = None
    #: How often a call is made again after the process died under it; -1 is without end.
    max_task_retries: int | None = None
    #: Calls that run at once: 1, or 1000 with asynchronous methods.
    max_concurrency: int | None = None
    #: The same for each group of methods.
    concurrency_groups: Mapping[str, int] | None = None
    #: Calls of one process that may wait; -1 is without end.
    max_pending_calls: int | None = None
    #: Whether a call whose arguments are there may pass one that waits for its own.
    allow_out_of_order_execution: bool | None = None
    _placement_request: ResourceSet = field(init=False, repr=False, compare=False)
    _lifetime_request: ResourceSet = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        cpus = 1 if self.num_cpus is None else self.num_cpus
        placement = lifetime = _resource_set(cpus, self)
        # As in Ray: num_gpus=0 says something, memory does not.
        if self.num_cpus is None and self.num_gpus is None and not self.resources:
            lifetime = _resource_set(0, self)
        object.__setattr__(self, "_placement_request", placement)
        object.__setattr__(self, "_lifetime_request", lifetime)

    def placement_request(self) -> ResourceSet:
        """Return what must be free where the actor is placed: 1 CPU if nothing was said."""
        return self._placement_request

    def lifetime_request(self) -> ResourceSet:
        """Return what the actor holds while it lives: no CPU if nothing was said."""
        return self._lifetime_request


@dataclass(frozen=True, slots=True)
class MethodOptions:
    """The options of one method of an actor; None means that nothing was said."""

    #: As in `TaskOptions`.
    num_returns: int | str | None = None
    name: str | None = None
    #: As in `ActorOptions`, for this method.
    max_task_retries: int | None = None
    #: As in `TaskOptions`.
    retry_exceptions: bool | tuple[type[Exception], ...] | None = None
    concurrency_group: str | None = None


def _resource_set(cpus: float, options: TaskOptions | ActorOptions) -> ResourceSet:
    amounts: dict[str, float] = {"CPU": cpus, "GPU": options.num_gpus or 0}
    amounts["memory"] = options.memory or 0
    if isinstance(options, ActorOptions):
        amounts["object_store_memory"] = options.object_store_memory or 0
    return ResourceSet.from_amounts({**amounts, **(options.resources or {})})


def task_options(given: Mapping[str, Any], base: TaskOptions | None = None) -> TaskOptions:
    """Check the options of a remote function.

    Parameters
    ----------
    given : mapping
        As the user wrote them.
    base : TaskOptions, optional
        What ``.options()`` changes; None at decoration.

    Raises
    ------
    TypeError, ValueError
        When a name is unknown, or a value impossible: as in Ray.
    UnsupportedRayFeatureError
        When a value is possible in Ray, and not honoured here.
    """
    values = checked(TASK, given, base is not None)
    if "max_calls" in values:
        values["given_max_calls"] = values.pop("max_calls")
    if base is not None and not values.get("runtime_env"):
        values.pop("runtime_env", None)  # as in Ray: an empty one says nothing
    return replace(base or TaskOptions(), **_held(TaskOptions, values))


def actor_options(given: Mapping[str, Any], base: ActorOptions | None = None) -> ActorOptions:
    """Check the options of an actor class; see `task_options`."""
    values = checked(ACTOR, given, base is not None)
    options = replace(base or ActorOptions(), **_held(ActorOptions, values))
    if options.get_if_exists and options.name is None:
        raise ValueError(
            "A name must be specified to use `get_if_exists`. For example: "
            ".options(name='counter', get_if_exists=True)."
        )
    return options


def method_options(given: Mapping[str, Any], base: MethodOptions | None = None) -> MethodOptions:
    """Check the options of a method; see `task_options`."""
    values = checked(METHOD, given, base is not None)
    if values.get("num_returns") == "dynamic":
        raise UnsupportedRayFeatureError(
            "num_returns='dynamic'", "It is deprecated in Ray", "Use num_returns='streaming'"
        )
    return replace(base or MethodOptions(), **_held(MethodOptions, values))


def _held(cls: type[TaskOptions | ActorOptions | MethodOptions], values: dict[str, Any]) -> Any:
    """Return the values that the dataclass has; of the others only one value is honoured."""
    names = {each.name for each in fields(cls)}
    return {name: value for name, value in values.items() if name in names}
