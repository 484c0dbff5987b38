"""The rules of options: their names, their valid values, and the values that raycompat supports.

An option is checked by two tables: `TASK`, `ACTOR` or `METHOD` list the names and valid values, as in
Ray 2.60; `_LIMITS` lists the values that raycompat does not support.
"""

from __future__ import annotations

import difflib
import sys
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import NoneType
from typing import Any, Final

from raycompat._protocol import accelerator_kinds, label_selector
from raycompat._protocol.plain import plain_where_possible
from raycompat._protocol.resource_set import ResourceSet, to_units
from raycompat._protocol.runtime_env import checked_for_call
from raycompat._protocol.strategy import GroupHandle, SchedulingStrategy
from raycompat._protocol.text import LARGEST_INTEGER, checked_key, checked_namespace, checked_text
from raycompat.exceptions import UnsupportedRayFeatureError

#: How often a call is tried again after its process or node has died; Ray's default.
DEFAULT_MAX_RETRIES: Final = 3

# --- checks: each returns the stored value, or raises ---------------------------------------------

_Check = Callable[[str, Any], Any]


@dataclass(frozen=True, slots=True)
class _Rule:
    """The valid values of an option: of one of the types (empty: any), and accepted by `check`."""

    types: tuple[type, ...] = ()
    check: _Check = lambda _, value: value

    def __call__(self, name: str, value: object) -> object:
        if self.types and not isinstance(value, self.types):
            expected = self.types if len(self.types) > 1 else self.types[0]
            raise TypeError(
                f"The type of keyword '{name}' must be {expected}, but received type "
                f"{type(value)}: {value!r}."
            )
        if isinstance(value, str):
            value = checked_text(f"The option '{name}'", value)
        elif self.types:  # other processes may not have the class of a subclass
            value = plain_where_possible(value)
        return self.check(name, value)


def _quantity(name: str, value: Any) -> object:
    if isinstance(value, bool):
        value = int(value)  # num_gpus=use_gpu is common
    if value is not None:
        to_units(name, value)
    return int(value) if name == "memory" and value is not None else value


def _custom_resources(name: str, value: Mapping[str, float] | None) -> Mapping[str, float] | None:
    if value is None:
        return None
    if "CPU" in value or "GPU" in value:
        raise ValueError(
            "Use the 'num_cpus' and 'num_gpus' keyword instead: CPUs and GPUs are not custom "
            f"resources. {name}={value!r}."
        )
    if "memory" in value or "object_store_memory" in value:
        raise ValueError(
            f"{name}={value!r} must not contain the key 'memory', nor 'object_store_memory'. Use the "
            "option memory, in bytes."
        )
    ResourceSet.from_amounts(value)
    accelerator_kinds.check_amounts(name, value)
    return dict(value)


def _count(infinite: bool, none: int | None = None) -> _Check:
    """Check a number of times; None is kept as `none`."""

    def check(name: str, value: int | None) -> int | None:
        if value is None:
            return none
        if value < (-1 if infinite else 0):
            accepted = (
                "0, -1 or a positive integer, where -1 represents infinity"
                if infinite
                else "0 or a positive integer"
            )
            raise ValueError(
                f"The keyword '{name}' only accepts None, {accepted}; it is {value!r}."
            )
        if value > LARGEST_INTEGER:
            raise ValueError(
                f"The keyword '{name}' is {value!r}: expected at most 2**63 - 1."
                + (" Use -1 for no limit." if infinite else "")
            )
        return int(value)

    return check


def _num_returns(name: str, value: int | str | None) -> int | str | None:
    if value is None or value in ("streaming", "dynamic"):
        return value
    if isinstance(value, str) or value < 0:
        raise ValueError(
            f"{name} must be >= 0, but got {value!r}. The keyword '{name}' only accepts None, a "
            "non-negative integer, or for generators 'streaming'."
        )
    return int(value)


def _retry_exceptions(name: str, value: Any) -> bool | tuple[type[Exception], ...]:
    if isinstance(value, bool):
        return value
    wrong = [each for each in value if not (isinstance(each, type) and issubclass(each, Exception))]
    if wrong:
        raise ValueError(
            f"{name}: {wrong[0]!r} is not a class of exceptions. Give either a boolean or a list, for "
            "example retry_exceptions=[OSError]."
        )
    return tuple(value)


def _retry_exceptions_or_none(name: str, value: object) -> object:
    return None if value is None else _retry_exceptions(name, value)


def _groups(name: str, value: Any) -> dict[str, int] | None:
    if value is None:
        return None
    if isinstance(value, list):
        value = {each["name"]: each["max_concurrency"] for each in value}
    for group, size in value.items():
        checked_key(f"The name of a group in '{name}'", group)
        if not isinstance(size, int) or size < 1:
            raise ValueError(
                f"{name}: the group {group!r} has {size!r} as its number of concurrent calls; give "
                "a whole number, 1 or more."
            )
    return dict(value)


def _not_for_tasks(name: str, value: int | None) -> None:
    if value is not None:
        raise ValueError(
            f"Setting '{name}' is not implemented for tasks; it is {value!r}. Leave it out."
        )


def _object_store_memory(name: str, value: int | None) -> int | None:
    value = _count(False)(name, value)
    if value is not None:
        _warn(f"Setting '{name}' for actors is deprecated: it reserves no room for objects.")
    return value


def _positive(name: str, value: int | None) -> int | None:
    if value is not None and value <= 0:
        raise ValueError(f"{name} must be set to a positive integer; it is {value!r}.")
    return value


def _backpressure(name: str, value: int | None) -> int | None:
    if value == 0:
        raise ValueError(f"{name}=0 is not allowed. Use a value > 0, or -1 for no limit.")
    return value


def _lifetime(name: str, value: str | None) -> str | None:
    if value not in (None, "detached", "non_detached"):
        raise ValueError(
            f"actor `{name}` argument must be 'detached' or None (in words 'non_detached'); it is "
            f"{value!r}."
        )
    return value


def _actor_name(_: str, value: str | None) -> str | None:
    if value == "":
        raise ValueError("Actor name cannot be an empty string. Leave it out for an actor without.")
    return value


def _namespace(_: str, value: str | None) -> str | None:
    return checked_namespace(value)


def _runtime_env(_: str, value: Mapping[str, object] | None) -> Mapping[str, object] | None:
    return (checked_for_call(value) if value else None) or None


def _strategy(name: str, value: object) -> object:
    if isinstance(value, str) and value not in ("DEFAULT", "SPREAD"):
        raise ValueError(f"Invalid {name} value {value}. Valid values are 'DEFAULT' and 'SPREAD'.")
    if not (value is None or isinstance(value, str | SchedulingStrategy)):
        raise TypeError(
            f"The type of keyword '{name}' must be NoneType, str, PlacementGroupSchedulingStrategy, "
            "NodeAffinitySchedulingStrategy or NodeLabelSchedulingStrategy, but received type "
            f"{type(value)}: {value!r}."
        )
    return value


def _placement_group(name: str, value: object) -> object:
    if not (value in (None, "default") or isinstance(value, GroupHandle)):
        raise TypeError(
            f"The type of keyword '{name}' must be NoneType or PlacementGroup, but received type "
            f"{type(value)}: {value!r}."
        )
    if value != "default":
        _warn_of_group_option(name)
    return value


def _bundle_index(name: str, value: int) -> int:
    if value != -1:
        _warn_of_group_option(name)
    return value


def _capture_child_tasks(name: str, value: bool | None) -> bool | None:
    if value:
        _warn_of_group_option(name)
    return value


#: Ray's names of transports. Which way tensors take does not depend on the name.
_TRANSPORTS = ("CUDA_IPC", "GLOO", "NCCL", "NIXL")


def checked_transport(name: str, value: Any) -> Any:
    """Return the name of a tensor transport in capitals, or None.

    Raises
    ------
    ValueError
        When there is no such transport.
    """
    if value is not None and value.upper() not in _TRANSPORTS:
        raise ValueError(
            f"Invalid tensor transport: {name}={value!r}. Expected one of "
            f"{', '.join(map(repr, _TRANSPORTS))}, in small letters or capitals."
        )
    return value and value.upper()


def _warn_of_group_option(name: str) -> None:
    _warn(
        f"{name} parameter is deprecated. Use "
        "scheduling_strategy=PlacementGroupSchedulingStrategy(...) instead."
    )


# --- which options there are: the names and their order are Ray's ---------------------------------

_TEXT = _Rule((str, NoneType))
_FLAG = _Rule((bool, NoneType))
_MAPPING = _Rule((dict, NoneType))
_QUANTITY = _Rule((float, int, NoneType), _quantity)
_WHOLE = (int, NoneType)

_COMMON: dict[str, _Rule] = {
    "label_selector": _Rule((dict, NoneType), label_selector.checked),
    "fallback_strategy": _Rule((list, NoneType), label_selector.checked_fallbacks),
    "accelerator_type": _TEXT,
    "memory": _QUANTITY,
    "name": _TEXT,
    "num_cpus": _QUANTITY,
    "num_gpus": _QUANTITY,
    "object_store_memory": _Rule(_WHOLE, _object_store_memory),
    "placement_group": _Rule((), _placement_group),
    "placement_group_bundle_index": _Rule((int,), _bundle_index),
    "placement_group_capture_child_tasks": _Rule((bool, NoneType), _capture_child_tasks),
    "resources": _Rule((dict, NoneType), _custom_resources),
    "runtime_env": _Rule((dict, NoneType), _runtime_env),
    "scheduling_strategy": _Rule((), _strategy),
    "enable_task_events": _Rule((bool,)),
    "_labels": _MAPPING,
}

_RETURNS: dict[str, _Rule] = {
    "num_returns": _Rule((int, str, NoneType), _num_returns),
    "retry_exceptions": _Rule((bool, list, tuple), _retry_exceptions),
    "_generator_backpressure_num_objects": _Rule(_WHOLE, _backpressure),
    "_num_objects_per_yield": _Rule(_WHOLE, _positive),
}


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of thing with options: its name in messages, its options, those not in `.options()`."""

    title: str
    rules: Mapping[str, _Rule]
    decorator_only: str | None = None


TASK = Kind(
    "remote functions",
    {
        **_COMMON,
        "object_store_memory": _Rule(_WHOLE, _not_for_tasks),
        "max_calls": _Rule(_WHOLE, _count(infinite=False)),
        "max_retries": _Rule(_WHOLE, _count(infinite=True, none=DEFAULT_MAX_RETRIES)),
        **_RETURNS,
    },
    decorator_only="max_calls",
)

ACTOR = Kind(
    "actors",
    {
        **_COMMON,
        "name": _Rule((str, NoneType), _actor_name),
        "concurrency_groups": _Rule((list, dict, NoneType), _groups),
        "enable_tensor_transport": _FLAG,
        "lifetime": _Rule((str, NoneType), _lifetime),
        "max_concurrency": _Rule(_WHOLE, _count(infinite=False)),
        "max_restarts": _Rule(_WHOLE, _count(infinite=True)),
        "max_task_retries": _Rule(_WHOLE, _count(infinite=True)),
        "max_pending_calls": _Rule(_WHOLE, _count(infinite=True)),
        "namespace": _Rule((str, NoneType), _namespace),
        "get_if_exists": _Rule((bool,)),
        "allow_out_of_order_execution": _FLAG,
        "_actor_generator_backpressure_num_objects": _Rule(_WHOLE, _backpressure),
    },
    decorator_only="concurrency_groups",
)

METHOD = Kind(
    "methods",
    {
        **_RETURNS,
        "retry_exceptions": _Rule((bool, list, tuple, NoneType), _retry_exceptions_or_none),
        "concurrency_group": _TEXT,
        "max_task_retries": _Rule(_WHOLE, _count(infinite=True)),
        "enable_task_events": _FLAG,
        "tensor_transport": _Rule((str, NoneType), checked_transport),
        "name": _TEXT,
    },
)


# --- values that raycompat does not support -------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Limit:
    """The supported values of an option, the reason for the limit, and the alternative."""

    honoured: Callable[[object], bool]
    reason: str
    alternative: str


def _only(*values: object) -> Callable[[Any], bool]:
    return lambda value: value in values


def _empty(value: object) -> bool:
    return not value


#: All option values that raycompat refuses. Every other value works as in Ray.
_LIMITS: dict[str, _Limit] = {
    "_labels": _Limit(_empty, "Calls have no labels", "Leave it out"),
    "_num_objects_per_yield": _Limit(_only(None, 1), "A yield makes one object", "Leave it out"),
}


def _refuse_what_is_not_honoured(values: Mapping[str, object]) -> None:
    for name, value in values.items():
        limit = _LIMITS.get(name)
        if limit is not None and not limit.honoured(value):
            raise UnsupportedRayFeatureError(f"{name}={value!r}", limit.reason, limit.alternative)


# --- checking what the user wrote -----------------------------------------------------------------


def checked(kind: Kind, given: Mapping[str, object], in_options: bool) -> dict[str, Any]:
    """Return the options as they are stored, or raise; `in_options` is True for `.options()`."""
    given = _with_new_names(given)
    _refuse_unknown_names(kind, given, in_options)
    if in_options and kind.decorator_only in given:
        raise ValueError(
            f"Setting '{kind.decorator_only}' is not supported in '.options()'. Give it to "
            "@ray.remote."
        )
    values = {name: kind.rules[name](name, value) for name, value in given.items()}
    group, strategy = values.get("placement_group", "default"), values.get("scheduling_strategy")
    if group not in ("default", None) and strategy is not None:
        raise ValueError(
            "scheduling_strategy and placement_group are both given. They should be specified via "
            "the scheduling_strategy option: remove the deprecated placement_group."
        )
    _refuse_what_is_not_honoured(values)
    return values


def _with_new_names(given: Mapping[str, object]) -> Mapping[str, object]:
    if "num_return_vals" not in given:
        return given
    if "num_returns" in given:
        raise ValueError("num_return_vals is the old name of num_returns: give only num_returns.")
    _warn("num_return_vals is the name that num_returns had before Ray 1.0: use num_returns.")
    names = {"num_return_vals": "num_returns"}
    return {names.get(name, name): value for name, value in given.items()}


def _refuse_unknown_names(kind: Kind, given: Mapping[str, object], in_options: bool) -> None:
    valid = list(kind.rules)
    if kind is METHOD and not in_options:
        valid.remove("name")
    unknown = [name for name in given if name not in valid]
    if not unknown:
        return
    first, listed = unknown[0], ", ".join(_with_advice(name, valid) for name in unknown)
    public = ", ".join(name for name in sorted(valid) if not name.startswith("_"))
    advice = f"Not valid: {listed}. Valid ones are {public}."
    if kind is not METHOD:
        raise ValueError(f"Invalid option keyword {first} for {kind.title}. {advice}")
    if in_options:
        raise TypeError(
            f".options() of a method got an unexpected keyword argument '{first}'. {advice}"
        )
    # The class of the error is Ray's.
    raise AssertionError(f"Unexpected keyword argument to @ray.method: '{first}'. {advice}")


def _with_advice(name: str, valid: list[str]) -> str:
    for kind in (TASK, ACTOR, METHOD):
        if name in kind.rules:
            return f"{name} (an option of {kind.title})"
    close = difflib.get_close_matches(name, valid, n=1)
    return f"{name} (did you mean {close[0]}?)" if close else name


def _warn(message: str) -> None:
    """Warn of a deprecated option, at the line of user code that called raycompat."""
    package = __name__.partition(".")[0]
    frame, level = sys._getframe(), 1
    while frame.f_globals.get("__name__", "").partition(".")[0] == package and frame.f_back:
        frame, level = frame.f_back, level + 1
    warnings.warn(message, DeprecationWarning, stacklevel=level)
