"""Runtime environments: their fields, the valid values, and what child tasks inherit.

An environment is a dictionary while it is checked and merged, and JSON with sorted keys in messages.
Two calls can share a process when their environments are equal. ``{}`` is the empty environment.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Callable, Collection, Iterable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any, Final

from raycompat._protocol import variables
from raycompat.exceptions import RuntimeEnvSetupError, UnsupportedRayFeatureError

#: The environment of a job that requests none.
EMPTY: Final = "{}"

#: Schemes from which nodes can take a package: one that a driver uploaded, a file that every node has,
#: a folder that every node has.
SCHEMES: Final = ("gcs", "file", "local")

#: Ray's schemes from which nodes do not download here.
_REFUSED_SCHEMES = ("http", "https", "s3", "gs", "azure", "abfss")

#: Endings of archives that can replace a folder.
ARCHIVES: Final = (".zip", ".tar.gz", ".tgz", ".tar.xz")

#: Seconds for the set-up of an environment; Ray's value.
SETUP_TIMEOUT_S: Final = 600

#: The field with the function that each executor of a job runs first. In an environment of a call it is
#: text: an import path, or the name of the job's function.
SETUP_HOOK: Final = "worker_process_setup_hook"

#: Ray's fields that raycompat does not support, and the alternative.
_REFUSED = {
    "conda": "Use pip, or start the nodes in that environment",
    "uv": "Use pip, or start the nodes in that environment",
    "container": "Run the nodes in that container",
    "image_uri": "Run the nodes in that container",
    "java_jars": "Only Python runs here",
    "py_executable": "Start the nodes with that interpreter",
    "nsight": "Start the nodes under the profiler",
    "rocprof_sys": "Start the nodes under the profiler",
    "_nsight": "Start the nodes under the profiler",
    "_rocprof_sys": "Start the nodes under the profiler",
    "_ray_release": "Leave it out",
    "_ray_commit": "Leave it out",
    "_inject_current_ray": "Leave it out",
}


def scheme_of(uri: str) -> str:
    """Return the scheme of a URI: the text before ``://``; empty for a path."""
    scheme, mark, _ = uri.partition("://")
    return scheme if mark else ""


# --- the fields -----------------------------------------------------------------------------------


def _env_vars(value: object) -> dict[str, str]:
    expected = "env_vars of a runtime_env must be a dict of strings"
    if not isinstance(value, Mapping):
        raise TypeError(f"{expected}, got {type(value)}.")
    for part, called in [(k, "key") for k in value] + [(v, "value") for v in value.values()]:
        if not isinstance(part, str):
            raise TypeError(f"{expected}, but the {called} {part!r} is of type {type(part)}.")
    variables.check("runtime_env['env_vars']", value)
    return dict(value)


def _check_uri(field: str, uri: str) -> None:
    scheme = scheme_of(uri)
    if scheme in _REFUSED_SCHEMES:
        raise UnsupportedRayFeatureError(
            f"runtime_env[{field!r}] from {scheme}://",
            "Nodes do not download packages",
            "Give init a local path, or put the package where every node has it and use file://",
        )
    if scheme not in SCHEMES:
        raise ValueError(
            f"{uri} is not a valid URI. Local folders and modules are only supported at the job level: "
            "give them to ray.init. A task or an actor can name a package of its job, as "
            "get_runtime_context().runtime_env shows it, or one that every node has: "
            "file:///archive.zip, local:///folder."
        )
    _, _, path = uri.partition("://")
    if scheme == "local" and not path.startswith("/"):
        raise ValueError(f"{uri}: expected the absolute path of a folder: local:///folder.")
    endings = (*ARCHIVES, ".whl") if field == "py_modules" else ARCHIVES
    if scheme != "local" and not path.endswith(endings):
        raise ValueError(
            f"Only {', '.join(endings)} files are supported for {field} URIs; got {uri}."
        )


def _check_path_or_uri(field: str, value: object) -> None:
    if not isinstance(value, str):
        raise TypeError(f"`{field}` must be a string, got {type(value)}.")
    if scheme_of(value):
        _check_uri(field, value)
    elif not Path(value).exists():
        raise ValueError(
            f"{field}: {value!r} is not a valid path. Nothing is there: give the path of a folder or "
            "file on this machine."
        )


def _working_dir(value: object) -> str:
    value = str(value) if isinstance(value, Path) else value
    _check_path_or_uri("working_dir", value)
    return str(value)


def _py_modules(value: object) -> list[object]:
    if not isinstance(value, list):
        raise TypeError(f"`py_modules` must be a list of paths or modules, not {type(value)}.")
    for module in value:
        if not isinstance(module, ModuleType | Path):
            _check_path_or_uri("py_modules", module)
    return list(value)


def _lines_of(path: str) -> list[str]:
    if not Path(path).is_file():
        raise ValueError(
            f"{path} is not a valid file. Name a file of requirements, or give a list."
        )
    lines = (line.partition(" #")[0].strip() for line in Path(path).read_text().splitlines())
    return [line for line in lines if line and not line.startswith("#")]


_PIP_FIELDS = {"packages": object, "pip_check": bool, "pip_version": str}
_PIP_FIELDS["pip_install_options"] = list


def _pip(value: object) -> dict[str, object]:
    if isinstance(value, str):
        value = _lines_of(value)
    if isinstance(value, list) and all(isinstance(each, str) for each in value):
        value = {"packages": value}
    if not isinstance(value, dict):
        raise TypeError(
            f"pip in runtime_env must be of type str, list or dict, not {type(value)}. Give a "
            "file of requirements or a list of packages."
        )
    if set(value) - set(_PIP_FIELDS):
        raise ValueError(
            f"runtime_env['pip'] can only have the fields {', '.join(sorted(_PIP_FIELDS))}; it has "
            f"{list(value)}."
        )
    for name, given in value.items():
        if not isinstance(given, _PIP_FIELDS[name]):
            raise TypeError(
                f"runtime_env['pip'][{name!r}] must be of type {_PIP_FIELDS[name].__name__}, got "
                f"{type(given)}."
            )
    if "packages" not in value:
        raise ValueError(f"runtime_env['pip'] must include field 'packages'; it is {value}.")
    packages = value["packages"]
    packages = _lines_of(packages) if isinstance(packages, str) else packages
    if not isinstance(packages, list):
        raise ValueError(
            f"The packages of runtime_env['pip'] are a list or a file's name, not {type(packages)}."
        )
    return {
        **value,
        "packages": list(dict.fromkeys(packages)),
        "pip_check": value.get("pip_check", False),
    }


def _excludes(value: object) -> list[str]:
    if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
        raise TypeError(
            f"runtime_env['excludes'] must be of type list, with strings; it is {value!r}."
        )
    return value


def _config(value: object) -> dict[str, object]:
    if not isinstance(value, Mapping):
        raise TypeError(f"The config of runtime_env must be of type dict; it is {type(value)}.")
    _refuse_unknown(value, ("setup_timeout_seconds", "eager_install", "log_files"), "['config']")
    seconds = value.get("setup_timeout_seconds", SETUP_TIMEOUT_S)
    if isinstance(seconds, bool) or not isinstance(seconds, int):
        raise TypeError(
            f"The setup_timeout_seconds of runtime_env must be of type int; it is {type(seconds)}."
        )
    if seconds <= 0 and seconds != -1:
        raise ValueError(
            f"setup_timeout_seconds must be 1 or more, or -1 for no limit; it is {seconds}."
        )
    eager = value.get("eager_install", True)
    if not isinstance(eager, bool):
        raise TypeError(f"eager_install must be a boolean, got {type(eager)}.")
    if value.get("log_files"):
        raise UnsupportedRayFeatureError(
            "runtime_env['config']['log_files']", "Only a failed set-up is reported", "Leave it out"
        )
    return {"setup_timeout_seconds": seconds, "eager_install": eager, "log_files": []}


def _setup_hook(value: object) -> object:
    if not callable(value) and not isinstance(value, str):
        raise TypeError(
            f"runtime_env[{SETUP_HOOK!r}] must be a function, or its import path 'module.function', "
            f"got {type(value)}."
        )
    return value


def is_import_path(hook: str) -> bool:
    """Return whether a hook is named by its import path; otherwise it is the function of a job."""
    module, _, name = hook.rpartition(".")
    return bool(module and name)


_FIELDS: dict[str, Callable[[Any], Any]] = {
    "py_modules": _py_modules,
    "working_dir": _working_dir,
    "excludes": _excludes,
    "pip": _pip,
    "env_vars": _env_vars,
    "config": _config,
    SETUP_HOOK: _setup_hook,
}


def _refuse_unknown(given: Iterable[str], valid: Collection[str], where: str = "") -> None:
    unknown = [name for name in given if name not in valid]
    if unknown:
        close = difflib.get_close_matches(str(unknown[0]), valid, n=1)
        hint = f" Did you mean {close[0]}?" if close else ""
        raise RuntimeEnvSetupError(
            f"runtime_env{where} has unknown fields: {', '.join(map(repr, unknown))}. The fields are "
            f"{', '.join(valid)}.{hint}"
        )


def checked_field(name: str, value: object) -> Any:
    """Return the value of a field as it is stored; None if it requests nothing.

    Raises
    ------
    TypeError, ValueError
        When the value is not valid in Ray.
    RuntimeEnvSetupError
        When Ray has no such field.
    UnsupportedRayFeatureError
        When Ray supports the value, and raycompat does not.
    """
    if name in _REFUSED:
        if value is None:
            return None
        raise UnsupportedRayFeatureError(
            f"runtime_env[{name!r}]", "Nodes do not set it up", _REFUSED[name]
        )
    _refuse_unknown([name], _FIELDS)
    if value is None:
        return None
    kept = _FIELDS[name](value)
    nothing = not kept or (name == "pip" and not kept["packages"])
    return None if nothing else kept


def checked(given: Mapping[str, object]) -> dict[str, Any]:
    """Return the fields of an environment as they are stored, each checked by `checked_field`.

    Local folders and modules stay as they are: `_caller.packages` uploads those of a job.
    """
    if not isinstance(given, Mapping):
        raise TypeError(f"runtime_env must be a dict or a RuntimeEnv, got {type(given)}.")
    exclusive = [name for name in ("pip", "conda", "uv") if given.get(name) is not None]
    if len(exclusive) > 1:
        raise ValueError(
            f"A runtime_env has {' and '.join(exclusive)}, which exclude each other. Keep one of "
            "pip, uv and conda."
        )
    _refuse_unknown(set(given) - set(_REFUSED), _FIELDS)
    fields = {name: checked_field(name, value) for name, value in given.items()}
    return {name: value for name, value in fields.items() if value is not None}


def checked_for_call(given: Mapping[str, object]) -> dict[str, object]:
    """Return the stored environment of a task or an actor, which cannot have local folders."""
    fields = checked(given)
    if not isinstance(fields.get(SETUP_HOOK, ""), str):
        raise TypeError(
            f"runtime_env[{SETUP_HOOK!r}]: a task or an actor can only name a function by its import "
            "path, 'module.function'. Give the function itself to ray.init."
        )
    if "working_dir" in fields:
        if not isinstance(given["working_dir"], str):
            raise TypeError(f"`working_dir` must be a string, got {type(given['working_dir'])}.")
        _check_uri("working_dir", fields["working_dir"])
    for module in fields.get("py_modules", ()):
        if not isinstance(module, str):
            raise TypeError(f"`py_module` must be a string, got {type(module)}.")
        _check_uri("py_modules", module)
    return fields


# --- in messages ----------------------------------------------------------------------------------


def dumps(fields: Mapping[str, object]) -> str:
    """Return the environment as JSON, for messages."""
    return json.dumps(fields, sort_keys=True)


def loads(text: str) -> dict[str, Any]:
    """Return the environment from its JSON."""
    fields: dict[str, Any] = json.loads(text)
    return fields


def is_eager(text: str) -> bool:
    """Return whether nodes set the environment up as soon as its job connects."""
    fields = loads(text)
    eager: bool = fields.get("config", {}).get("eager_install", True)
    return bool(fields) and eager


def inherited(parent: str, fields: Mapping[str, Any] | None) -> str:
    """Return the environment of a call that requests `fields`, as JSON.

    The call inherits its caller's environment. Each variable in env_vars is added; any other field is
    replaced.
    """
    if not fields:
        return parent
    merged = loads(parent)
    env_vars = {**merged.get("env_vars", {}), **fields.get("env_vars", {})}
    merged.update(fields)
    if env_vars:
        merged["env_vars"] = env_vars
    return dumps(merged)
