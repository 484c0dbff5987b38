"""Environments of jobs, tasks and actors as objects: `RuntimeEnv`."""

from __future__ import annotations

import copy
import json
from typing import Any

from raycompat._protocol import runtime_env as fields
from raycompat._surface.modules import names_of

__all__ = ["RuntimeEnv", "RuntimeEnvConfig"]


class RuntimeEnvConfig(dict[str, Any]):
    """The settings of a runtime environment's set-up.

    Parameters
    ----------
    setup_timeout_seconds : int, default 600
        Maximum seconds for the set-up on a node, more than 0; -1 is without limit.
    eager_install : bool, default True
        Whether the set-up starts with the job, and not with the first call that needs it.

    Raises
    ------
    TypeError, ValueError
        When a value is not valid.
    UnsupportedRayFeatureError
        For `log_files`: the errors of calls have the reason of a failed set-up.

    Notes
    -----
    Ray source: ``ray.runtime_env.RuntimeEnvConfig``, 2.60.0.
    """

    def __init__(
        self,
        setup_timeout_seconds: int = fields.SETUP_TIMEOUT_S,
        eager_install: bool = True,
        log_files: list[str] | None = None,
    ) -> None:
        given = {"setup_timeout_seconds": setup_timeout_seconds, "eager_install": eager_install}
        super().__init__(fields.checked_field("config", {**given, "log_files": log_files}))

    def to_dict(self) -> dict[str, Any]:
        """Return the settings as a plain dictionary."""
        return copy.deepcopy(dict(self))


class RuntimeEnv(dict[str, Any]):
    """The environment of a job, task or actor: a dictionary that is checked when it is made.

    Parameters
    ----------
    env_vars : dict of str to str, optional
        Environment variables. ``${NAME}`` in a value is the earlier value of the variable.
    working_dir : str or Path, optional
        The folder in which code runs, and from which it imports. For a job: a local folder or archive
        (``.zip``, ``.tar.gz``, ``.tgz``, ``.tar.xz``), which is uploaded. For tasks and actors:
        ``file:///archive.zip`` or ``local:///folder``, which every node has, or a package that the job
        has uploaded.
    py_modules : list of str, Path or module, optional
        More modules to import: folders of packages, ``.py`` files, modules, wheels, archives.
    pip : list of str, str or dict, optional
        Packages for pip to install: requirements, a file of them, or both with pip's options
        (``packages``, ``pip_check``, ``pip_version``, ``pip_install_options``). Nodes that `init` did
        not start do so only with ``RAYCOMPAT_ALLOW_PIP=1``.
    worker_process_setup_hook : callable or str, optional
        A function without arguments, or its import path ``"module.function"``. Each process that runs
        tasks or actors calls it once, before its first call; the driver does not. When it fails, calls
        raise `WorkerCrashedError`, and actors are dead, with its traceback. A function is for a job;
        tasks and actors can name an import path.
    config : dict or RuntimeEnvConfig, optional
        Settings of the set-up.
    py_executable, conda, container, nsight, rocprof_sys, image_uri, uv
        Not supported.

    Raises
    ------
    TypeError, ValueError
        When a value is not valid.
    RuntimeEnvSetupError
        When the field is unknown.
    UnsupportedRayFeatureError
        When Ray supports the field, and raycompat does not.

    Notes
    -----
    Ray source: ``ray.runtime_env.RuntimeEnv``, 2.60.0. Differs from Ray: unknown fields raise; Ray only
    logs them. ``excludes`` is a field and not an attribute, as in Ray.
    """

    def __init__(
        self,
        *,
        py_modules: list[str] | None = None,
        py_executable: str | None = None,
        working_dir: str | None = None,
        pip: list[str] | None = None,
        conda: dict[str, str] | str | None = None,
        container: dict[str, str] | None = None,
        env_vars: dict[str, str] | None = None,
        worker_process_setup_hook: Any = None,
        nsight: str | dict[str, str] | None = None,
        rocprof_sys: str | dict[str, dict[str, str]] | None = None,
        config: dict[str, Any] | RuntimeEnvConfig | None = None,
        _validate: bool = True,
        image_uri: str | None = None,
        uv: list[str] | None = None,
        **kwargs: Any,
    ) -> None:
        given = {
            **kwargs,
            "py_modules": py_modules,
            "py_executable": py_executable,
            "working_dir": working_dir,
            "pip": pip,
            "uv": uv,
            "conda": conda,
            "nsight": nsight,
            "rocprof_sys": rocprof_sys,
            "container": container,
            "env_vars": env_vars,
            "config": config,
            "worker_process_setup_hook": worker_process_setup_hook,
            "image_uri": image_uri,
        }
        given = {name: value for name, value in given.items() if value is not None}
        super().__init__(fields.checked(given) if _validate else given)

    def __setitem__(self, key: str, value: Any) -> None:
        kept = fields.checked_field(key, value)
        if kept is not None:
            super().__setitem__(key, kept)

    def set(self, name: str, value: Any) -> None:
        """Set a field; its value is checked."""
        self[name] = value

    def to_dict(self) -> dict[str, Any]:
        """Return the environment as a plain dictionary."""
        return copy.deepcopy(dict(self))

    def serialize(self) -> str:
        """Return the environment as JSON."""
        return fields.dumps(fields.checked(self))

    @classmethod
    def deserialize(cls, serialized_runtime_env: str) -> RuntimeEnv:
        """Return the environment from the JSON of `serialize`."""
        return cls(_validate=False, **json.loads(serialized_runtime_env))

    def env_vars(self) -> dict[str, str]:
        """Return the environment variables."""
        return dict(self.get("env_vars", {}))

    def working_dir(self) -> str:
        """Return the URI of the working directory; empty without one."""
        return str(self.get("working_dir", ""))

    def has_working_dir(self) -> bool:
        """Return whether it has a working directory."""
        return "working_dir" in self

    def working_dir_uri(self) -> str | None:
        """Return the URI of the working directory; None without one."""
        return self.get("working_dir")

    def py_modules(self) -> list[str]:
        """Return the URIs of the modules."""
        return list(self.get("py_modules", ()))

    def has_pip(self) -> bool:
        """Return whether pip must install packages."""
        return bool(self.get("pip"))

    def pip_config(self) -> dict[str, Any]:
        """Return the packages and options for pip."""
        return dict(self.get("pip", {}))


#: Names of older Rays.
__getattr__ = names_of(__name__)
