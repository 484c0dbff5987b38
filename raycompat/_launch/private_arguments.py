"""The private arguments of Ray's `init`: those of the node that it starts, and those without effect.

They begin with an underscore. Programs pass them because Ray takes them; each is honoured, or named in
one warning.
"""

from __future__ import annotations

import os
import re
import warnings
from collections.abc import Iterable
from typing import Any, NamedTuple

#: Settings of ``_system_config`` that raycompat has; the node reads them as variables, as in Ray.
_SETTINGS = (
    "local_fs_capacity_threshold",
    "memory_monitor_refresh_ms",
    "memory_usage_threshold",
    "worker_niceness",
    "worker_oom_score_adjustment",
)

#: Arguments without effect: what is the case instead.
_WITHOUT_EFFECT = {
    "_driver_object_store_memory": "object_store_memory is for all processes of a node",
    "_metrics_export_port": "the dashboard's port has the metrics",
    "_node_ip_address": (
        "other machines cannot reach the nodes of init; start such a cluster with `raycompat start "
        "--head --node-ip-address=...`"
    ),
    "_plasma_directory": "objects are in /dev/shm",
    "_redis_username": "a cluster has a password and no users",
}

#: Values that mean Ray's default.
_DEFAULTS = {"_redis_username": ("", "default")}

#: Arguments that say what raycompat does always: a lost object is computed again, and no hook changes
#: the runtime environment.
_ALWAYS = ("_enable_object_reconstruction", "_skip_env_hook")

#: Where Ray writes objects that do not fit: Ray 2.60's name, and the earlier one.
_SPILLING = ("object_spilling_directory", "_object_spilling_directory")

#: Arguments of the started node that Ray refuses for an existing cluster.
_REFUSED_WHEN_CONNECTING = ("_node_name", "_system_config")


class PrivateArguments(NamedTuple):
    """The arguments of `init` that are private in Ray, without those that have no effect."""

    #: The folder of the cluster's files, in which nodes keep the objects that they spill.
    folder: str | None
    #: Arguments of the started node, for `node_options`.
    of_node: dict[str, object]
    #: The names that were given and that only a started node can honour.
    given: tuple[str, ...]
    #: The function that sets up OpenTelemetry in the driver and in executors: "module:function".
    tracing_hook: str | None = None

    def refuse_when_connecting(self) -> None:
        """Refuse or name the arguments that came for a node, because the cluster exists already.

        Raises
        ------
        ValueError
            For those that Ray refuses.
        """
        refused = [name for name in self.given if name in _REFUSED_WHEN_CONNECTING]
        if refused:
            raise ValueError(
                f"When connecting to an existing cluster, {' and '.join(refused)} must not be "
                "provided: its nodes already have their settings. Leave them out, or start a new "
                "cluster with init(address='local')."
            )
        _warn([(name, "the cluster already exists") for name in self.given])


def take(given: dict[str, Any]) -> PrivateArguments:
    """Take the private arguments out of `given`, and name those without effect in one warning.

    Raises
    ------
    TypeError
        When one has a value that is not valid.
    OSError
        When the folder cannot be made.
    """
    for name in _ALWAYS:
        given.pop(name, None)
    tracing_hook = _tracing_hook(given.pop("_tracing_startup_hook", None))
    told = [
        (name, instead)
        for name, instead in _WITHOUT_EFFECT.items()
        if (value := given.pop(name, None)) is not None and value not in _DEFAULTS.get(name, ())
    ]
    names = ("_temp_dir", *_SPILLING, "_memory", "_node_name", "_system_config")
    found = {name: given.pop(name) for name in names if name in given}
    found = {name: value for name, value in found.items() if value is not None}
    folders = [
        _checked_text(name, found[name]) for name in ("_temp_dir", *_SPILLING) if name in found
    ]
    if len({*folders}) > 1:
        name = next(name for name in _SPILLING if name in found)
        told.append((name, "objects that do not fit are written to _temp_dir"))
    of_node: dict[str, Any] = {}
    if "_memory" in found:
        of_node["memory"] = found["_memory"]
    if "_node_name" in found:
        of_node["node_name"] = _checked_text("_node_name", found["_node_name"])
    if "_system_config" in found:
        settings, unknown = _settings(found["_system_config"])
        of_node["env_vars"] = settings
        told += [(f"_system_config[{name!r}]", "raycompat has no such setting") for name in unknown]
    _warn(told)
    folder = folders[0] if folders else None
    if folder is not None:
        os.makedirs(folder, exist_ok=True)
    return PrivateArguments(folder, of_node, tuple(found), tracing_hook)


def _tracing_hook(value: object) -> str | None:
    if value is None or (isinstance(value, str) and re.fullmatch(r"[\w.]+:\w+", value)):
        return value
    raise (ValueError if isinstance(value, str) else TypeError)(
        f"init(_tracing_startup_hook={value!r}): expected the import path of a function that sets up "
        "OpenTelemetry, 'module:function'."
    )


def _checked_text(name: str, value: object) -> str:
    if not isinstance(value, str | os.PathLike):
        raise TypeError(f"init({name}={value!r}): expected a string.")
    return str(value)


def _settings(config: object) -> tuple[dict[str, str], list[str]]:
    """Return the variables for a node, and the names of settings that raycompat does not have."""
    if not isinstance(config, dict) or not all(isinstance(name, str) for name in config):
        raise TypeError(
            f"init(_system_config={config!r}): expected a dictionary of names and values, as in "
            "{'worker_niceness': 0}."
        )
    variables = {f"RAY_{name}": str(value) for name, value in config.items() if name in _SETTINGS}
    return variables, [name for name in config if name not in _SETTINGS]


def _warn(told: Iterable[tuple[str, str]]) -> None:
    """Name all arguments without effect in one warning, at the program's line."""
    lines = [f"{name}: {instead}" for name, instead in told]
    if lines:
        text = f"init: these arguments have no effect. {'; '.join(lines)}."
        warnings.warn(text, UserWarning, stacklevel=4)
