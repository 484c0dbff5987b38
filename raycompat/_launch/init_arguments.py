"""The arguments of `init`: names of early Ray, unknown names, and unsupported values."""

from __future__ import annotations

import copy
import difflib
import json
import logging
import os
import warnings
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from raycompat import exceptions
from raycompat._caller.html_report import checked_file
from raycompat._connect.addresses import NODE_OPTIONS
from raycompat._launch import private_arguments
from raycompat._launch.private_arguments import PrivateArguments
from raycompat._protocol import shared_secret, submission
from raycompat._protocol.logging_config import LoggingConfig
from raycompat._protocol.shared_secret import Authority
from raycompat._protocol.text import checked_namespace
from raycompat._surface import era
from raycompat.job_config import JobConfig

#: With the value 0, all calls go through the scheduler, as with ``init(_leases=False)``.
_LEASES_VARIABLE = "RAYCOMPAT_LEASES"

#: The encoding of the logs where no `LoggingConfig` is given; Ray's variable.
_ENCODING_VARIABLE = "RAY_LOGGING_CONFIG_ENCODING"

#: With the value 1, the runtime environment of `init` replaces that of a submitted job; Ray's variable.
_OVERRIDE_VARIABLE = "RAY_OVERRIDE_JOB_RUNTIME_ENV"

#: Former arguments of `init` in Ray: the present name, or None if it has no effect.
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

#: Arguments that Ray has and raycompat does not support: any value but None is refused.
_NOT_HONOURED = (
    "system_reserved_cpu",
    "system_reserved_memory",
    "proxy_server_url",
)


@dataclass(frozen=True, kw_only=True)
class InitArguments:
    """The arguments of `init`, checked, under the names of today's Ray."""

    #: What names the cluster; None if the program names none.
    address: Any
    #: The arguments of a started node that Ray refuses for an existing cluster; None is not given.
    node: dict[str, Any]
    local_mode: bool
    ignore_reinit_error: bool
    include_dashboard: bool | None
    dashboard_host: str
    dashboard_port: int | None
    job_config: JobConfig
    configure_logging: bool
    logging_level: int | str
    logging_format: str | None
    log_to_driver: bool
    private: PrivateArguments
    #: The certification authority of the password, if there is one.
    authority: Authority | None
    uses_leases: bool
    #: Where `shutdown` writes a report.
    report_file: Path | None


def checked(others: Mapping[str, Any], **given: Any) -> InitArguments:
    """Return the arguments of `init`: `given` are those of its signature, `others` all others.

    Raises
    ------
    Exception
        When one is unknown or not valid, or raycompat does not support it.
    """
    known = tuple(given)
    given |= others
    if (version := given.pop("_ray_version", None)) is not None:
        era.choose(version)
    _adopt_old_names(given)
    uses_leases = _wants_leases(given.pop("_leases", None))
    report_file = _report_file(given.pop("_report", None))
    authority = _authority(given.pop("_redis_password", None), given["address"])
    private = private_arguments.take(given)
    _check_unknown(given, known)
    _refuse(given)
    if given["local_mode"]:
        _refuse_report_in_local_mode(report_file)
    log_to_driver = given["log_to_driver"]
    return InitArguments(
        address=given["address"],
        node={name: given[name] for name in NODE_OPTIONS},
        local_mode=given["local_mode"],
        ignore_reinit_error=given["ignore_reinit_error"],
        include_dashboard=given["include_dashboard"],
        dashboard_host=given["dashboard_host"],
        dashboard_port=given["dashboard_port"],
        job_config=job_config(given),
        configure_logging=given["configure_logging"],
        logging_level=given["logging_level"],
        logging_format=given["logging_format"],
        log_to_driver=True if log_to_driver is None else log_to_driver,
        private=private,
        authority=authority,
        uses_leases=uses_leases,
        report_file=report_file,
    )


def _adopt_old_names(given: dict[str, Any]) -> None:
    """Replace names of early Ray by today's names."""
    for old in [name for name in given if name in _OLD_NAMES]:
        value, new = given.pop(old), _OLD_NAMES[old]
        advice = f"use {new}" if new else "it has no effect any more"
        warnings.warn(
            f"init({old}=...) is a name of early Ray: {advice}.", DeprecationWarning, stacklevel=3
        )
        if new is not None and given.get(new) is None:
            given[new] = value


def _check_unknown(given: dict[str, Any], known: Collection[str]) -> None:
    """Raise for names that are not arguments of `init`."""
    unknown = [name for name in given if name not in known]
    if unknown:
        close = [found for name in unknown for found in difflib.get_close_matches(name, known, 1)]
        raise RuntimeError(
            f"Unknown keyword argument(s): {', '.join(unknown)}."
            + (f" Did you mean {', '.join(close)}?" if close else "")
        )


def _refuse(given: dict[str, Any]) -> None:
    """Raise for values that raycompat does not support."""
    unsupported = exceptions.UnsupportedRayFeatureError
    checked_namespace(given["namespace"])
    if given["local_mode"]:
        _refuse_in_local_mode(given)
    if given["enable_resource_isolation"] or given["cgroup_path"]:
        raise unsupported("resource isolation by cgroups", "", "run the node in a container")
    for name in _NOT_HONOURED:
        if given[name] is not None:
            raise unsupported(f"init({name}=...)")
    if given["configure_logging"]:
        _check_logging_arguments(given["logging_level"], given["logging_format"])


def _check_logging_arguments(level: int | str, text: str | None) -> None:
    try:
        logging.Handler(level.upper() if isinstance(level, str) else level)
    except (TypeError, ValueError):
        raise ValueError(
            f"init(logging_level={level!r}): expected a level of Python's logging, as in "
            "logging_level='DEBUG'."
        ) from None
    try:
        logging.Formatter(text)
    except ValueError as error:
        raise ValueError(
            f"init(logging_format={text!r}): {error}. Expected a format of Python's logging, as in "
            "logging_format='%(levelname)s %(message)s'."
        ) from None


def _refuse_in_local_mode(given: dict[str, Any]) -> None:
    """Raise for values that need a cluster or separate processes."""
    config = given["job_config"]
    in_config = isinstance(config, JobConfig) and config.runtime_env
    for name, is_given, alternative in [
        ("address", given["address"] is not None, "leave the address out"),
        (
            "runtime_env",
            given["runtime_env"] or in_config,
            "prepare the environment of the driver, in which all calls run",
        ),
    ]:
        if is_given:
            raise exceptions.UnsupportedRayFeatureError(
                f"init(local_mode=True) with {name}",
                "local mode runs everything in this process",
                f"{alternative}, or leave out local_mode=True",
            )


def _refuse_report_in_local_mode(file: Path | None) -> None:
    """Raise if a report of the cluster's work was requested: local mode has no cluster."""
    if file is not None:
        raise exceptions.UnsupportedRayFeatureError(
            f"A report ({file}) of local mode",
            "local mode has no cluster",
            f"unset {submission.REPORT_VARIABLE} and leave out _report, or leave out local_mode=True",
        )


def job_config(given: dict[str, Any]) -> JobConfig:
    """Return the settings of the job; those of `init` itself replace those of its `job_config`.

    Raises
    ------
    TypeError, ValueError
        When an argument or a setting is not valid.
    UnsupportedRayFeatureError
        When raycompat does not support a setting.
    """
    config = given["job_config"]
    if not isinstance(config, JobConfig | None):
        raise TypeError(
            f"init(job_config={config!r}): expected a ray.job_config.JobConfig, as in "
            "job_config=JobConfig(ray_namespace='letters')."
        )
    config = copy.copy(config) if config is not None else JobConfig()
    if given["logging_config"] is not None:
        config.set_py_logging_config(given["logging_config"])
    elif config.py_logging_config is None and (encoding := os.environ.get(_ENCODING_VARIABLE)):
        config.set_py_logging_config(LoggingConfig(encoding))
    if given["namespace"] is not None:
        config.set_ray_namespace(given["namespace"])
    if given["runtime_env"]:
        config.set_runtime_env(given["runtime_env"])
    if (text := os.environ.get(submission.CONFIG_VARIABLE)) is not None:
        _add_submitted(config, JobConfig.from_json(json.loads(text)))
    _check_logging(config)
    _check_job(config)
    return config


def _add_submitted(config: JobConfig, submitted: JobConfig) -> None:
    """Add the settings with which a user has submitted the job whose command runs this program.

    Raises
    ------
    ValueError
        When the program and the user set the same part of the runtime environment.
    """
    own, of_user = dict(config.runtime_env), dict(submitted.runtime_env)
    own_variables, of_user_variables = own.pop("env_vars", {}), of_user.pop("env_vars", {})
    both = [*(own.keys() & of_user.keys()), *(own_variables.keys() & of_user_variables.keys())]
    if both and os.environ.get(_OVERRIDE_VARIABLE) != "1":
        raise ValueError(
            f"init(runtime_env=...) and the runtime_env with which this job was submitted both set "
            f"{sorted(both)!r}. Set each in one place, or let those of init apply: "
            f"{_OVERRIDE_VARIABLE}=1 in the environment of the job."
        )
    merged = {**of_user, **own}
    if variables := {**of_user_variables, **own_variables}:
        merged["env_vars"] = variables
    config.set_runtime_env(merged)
    config.metadata = {**config.metadata, **submitted.metadata}


def _check_logging(config: JobConfig) -> None:
    logs = config.py_logging_config
    if logs is None:
        return
    if not isinstance(logs, LoggingConfig):
        raise TypeError(
            f"init(logging_config={logs!r}): expected a ray.LoggingConfig, as in "
            "logging_config=ray.LoggingConfig(encoding='JSON')."
        )
    try:
        logs._check_level()
    except (TypeError, ValueError) as error:
        raise type(error)(
            f"LoggingConfig(log_level={logs.log_level!r}): {error}. Expected a level of Python's "
            "logging, as in log_level='DEBUG'."
        ) from error


def _check_job(config: JobConfig) -> None:
    config.ray_namespace = checked_namespace(config.ray_namespace)
    for what, is_given, reason, alternative in [
        ("jvm_options", config.jvm_options, "there are no Java workers", "leave them out"),
        ("_client_job", config._client_job, "there is no Ray Client", "use init(address=...)"),
        (
            "_disable_job_level_lineage_reconstruction",
            config._disable_job_level_lineage_reconstruction,
            "a lost object of a task is computed again",
            "give the functions max_retries=0",
        ),
    ]:
        if is_given:
            raise exceptions.UnsupportedRayFeatureError(
                f"JobConfig({what}=...)", reason, alternative
            )
    for name in ("code_search_path", "_py_driver_sys_path"):
        for folder in getattr(config, name):
            if not isinstance(folder, str):
                raise TypeError(f"JobConfig({name}=...): {folder!r} is not the path of a folder.")
            if folder.endswith(".jar"):
                raise exceptions.UnsupportedRayFeatureError(
                    f"JobConfig({name}=[{folder!r}])", "there are no Java workers", "leave it out"
                )
    wrong = [item for item in config.metadata.items() if not all(isinstance(x, str) for x in item)]
    if wrong:
        raise TypeError(
            f"JobConfig(metadata=...): {dict(wrong)!r} has keys or values that are not strings. "
            "Convert them, for example by json.dumps."
        )


def _authority(password: object, address: object) -> Authority | None:
    """Return the certification authority of the password; None without a password."""
    if not isinstance(address, str | os.PathLike | None):
        if password is not None:
            raise ValueError(
                f"init(address={address!r}, _redis_password=...): a Dask Client or Cluster "
                "has its own security. Leave the password out."
            )
        return None
    secret = shared_secret.find(password)
    return shared_secret.Authority(secret) if secret is not None else None


def _wants_leases(given: object) -> bool:
    """Return the value of ``_leases``, or the default from the environment."""
    if given is None:
        value = os.environ.get(_LEASES_VARIABLE, "1")
        if value not in ("0", "1"):
            raise ValueError(f"{_LEASES_VARIABLE}={value!r}: expected 0 or 1.")
        return value == "1"
    if not isinstance(given, bool):
        raise TypeError(f"init(_leases={given!r}): expected True or False.")
    return given


def _report_file(given: object) -> Path | None:
    """Return the file in ``_report``, or in the environment; None if no report is wanted."""
    wanted = os.environ.get(submission.REPORT_VARIABLE) or None if given is None else given
    if wanted is None:
        return None
    return checked_file(wanted)
