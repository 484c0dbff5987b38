"""What `init` is given: names of early Ray, what is unknown, and what is not honoured."""

from __future__ import annotations

import difflib
import os
import warnings
from collections.abc import Collection
from pathlib import Path
from typing import Any

from raycompat import exceptions
from raycompat._caller.report import checked_file
from raycompat._protocol import shared_secret
from raycompat._protocol.shared_secret import Authority
from raycompat._protocol.text import checked_text

#: Set to 0, it has every call go by the scheduler, as ``init(_leases=False)`` does.
_LEASES_VARIABLE = "RAYCOMPAT_LEASES"

#: The file of a report, as ``init(_report=)`` says it.
_REPORT_VARIABLE = "RAYCOMPAT_REPORT"

#: Arguments of `init` that Ray once had: the present name, or None where nothing is left to do.
_OLD_NAMES: dict[str, str | None] = {
    "num_workers": "num_cpus",
    "include_webui": "include_dashboard",
    "webui_host": "dashboard_host",
    "redis_address": "address",
    "redis_password": "_redis_password",
    "plasma_directory": None,
    "huge_pages": None,
    "driver_object_store_memory": None,
    "redis_max_memory": None,
    "load_code_from_local": None,
    "lru_evict": None,
    "use_pickle": None,
    "use_raylet": None,
    "redirect_output": None,
    "redirect_worker_output": None,
    "num_redis_shards": None,
    "redis_max_clients": None,
    "plasma_store_socket_name": None,
    "raylet_socket_name": None,
    "object_id_seed": None,
    "include_java": None,
    "temp_dir": "_temp_dir",
}

#: Arguments that Ray has and we do not honour: anything but None is refused.
_NOT_HONOURED = (
    "system_reserved_cpu",
    "system_reserved_memory",
    "job_config",
    "logging_config",
    "proxy_server_url",
)


def adopt_old_names(given: dict[str, Any]) -> None:
    """Replace names of early Ray by those of today."""
    for old in [name for name in given if name in _OLD_NAMES]:
        value, new = given.pop(old), _OLD_NAMES[old]
        advice = f"use {new}" if new else "it has no effect any more"
        warnings.warn(
            f"init({old}=...) is a name of early Ray: {advice}.", DeprecationWarning, stacklevel=3
        )
        if new is not None and given.get(new) is None:
            given[new] = value


def check_unknown(given: dict[str, Any], known: Collection[str]) -> None:
    """Raise for names that `init` does not know."""
    unknown = [name for name in given if name not in known]
    if unknown:
        close = {name: difflib.get_close_matches(name, known, 1) for name in unknown}
        hints = [f"{name} (did you mean {found[0]}?)" for name, found in close.items() if found]
        raise RuntimeError(
            f"Unknown keyword argument(s): {', '.join(unknown)}."
            + (f" Close to: {', '.join(hints)}." if hints else "")
        )


def refuse(given: dict[str, Any]) -> None:
    """Raise for what is not honoured: nothing is dropped in silence."""
    unsupported = exceptions.UnsupportedRayFeatureError
    if given["namespace"] is not None and not isinstance(given["namespace"], str):
        raise TypeError("namespace must be None or a string.")
    if given["namespace"] == "":
        raise ValueError('"" is not a valid namespace. Give it a name, or leave it out.')
    if given["namespace"] is not None:
        checked_text("namespace", given["namespace"])
    if given["local_mode"]:
        raise unsupported(
            "init(local_mode=True)",
            "it runs tasks in the driver, which hides what fails in separate processes",
            "start with num_cpus=1 and use the remote traceback, or a debugger in the task",
        )
    if given["enable_resource_isolation"] or given["cgroup_path"]:
        raise unsupported("resource isolation by cgroups", "", "run the node in a container")
    for name in _NOT_HONOURED:
        if given[name] is not None:
            raise unsupported(f"init({name}=...)")


def authority(password: Any, address: Any) -> Authority | None:
    """Return what makes certificates of those who know the password, if there is one."""
    if not isinstance(address, str | os.PathLike | None):
        if password is not None:
            raise ValueError(
                f"init(address={address!r}, _redis_password=...): a Client or Cluster of Dask's "
                "brings its own security. Leave the password out."
            )
        return None
    secret = shared_secret.find(password)
    return shared_secret.Authority(secret) if secret is not None else None


def wants_leases(given: Any) -> bool:
    """Return what ``_leases`` says, or the environment."""
    if given is None:
        value = os.environ.get(_LEASES_VARIABLE, "1")
        if value not in ("0", "1"):
            raise ValueError(f"{_LEASES_VARIABLE}={value!r}: expected 0 or 1.")
        return value == "1"
    if not isinstance(given, bool):
        raise TypeError(f"init(_leases={given!r}): expected True or False.")
    return given


def report_file(given: Any) -> Path | None:
    """Return the file that ``_report`` names, or the environment, if a report is wanted."""
    wanted = os.environ.get(_REPORT_VARIABLE) or None if given is None else given
    if wanted is None:
        return None
    return checked_file(wanted)
