"""Runtime environments on a node: set up once for all calls with the same one, removed with their jobs.

The input is a call's environment as JSON. The output is what an executor needs at its start
(`Prepared`).
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import shutil
import sys
import time
import traceback
import uuid
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from raycompat._node import shared_tasks
from raycompat._node.packages import Fetch, Packages
from raycompat._node.virtual_env import CommandFailed, Installer
from raycompat._protocol import runtime_env
from raycompat._protocol.runtime_env import EMPTY

#: If this is 1, the node installs packages for jobs with pip. `init` sets it for its own node.
ALLOW_PIP_VARIABLE = "RAYCOMPAT_ALLOW_PIP"

#: Seconds after a failed set-up during which it is not tried again, because many calls may need it.
_FAILED_FOR_S = 10.0

#: Prefixes of variables that are read when a process starts, or when numpy is imported.
_READ_AT_START = (
    *("PYTHON", "LD_", "LC_", "LANG", "MALLOC_", "GLIBC_", "OMP_", "KMP_", "MKL_", "OPENBLAS_"),
    *("GOTO_", "BLIS_", "VECLIB_", "NUMEXPR_", "NPY_", "OPENSSL_", "SSL_"),
)


class RuntimeEnvFailed(Exception):
    """An environment cannot be set up; the text has the reason."""


@dataclass(frozen=True, slots=True)
class Prepared:
    """The parts of an environment that an executor needs at its start."""

    #: As the user gave them, with references to other variables.
    variables: dict[str, str] = field(default_factory=dict)
    #: The first entries of ``sys.path``.
    paths: tuple[str, ...] = ()
    #: Its working directory; None for the driver's.
    cwd: str | None = None
    #: Its interpreter; None for a forked executor.
    interpreter: str | None = None


@dataclass(slots=True)
class _Setup:
    """An environment whose set-up is running or has ended."""

    task: asyncio.Task[Prepared]
    began: float
    jobs: set[str] = field(default_factory=set)
    #: Seconds that it took; None before its end.
    took_s: float | None = None

    def note_end(self, task: asyncio.Task[Prepared]) -> None:
        """Record that the set-up has ended."""
        self.took_s = time.monotonic() - self.began

    def error(self) -> str | None:
        """Return why the set-up has failed; None if it has not."""
        error = self.task.exception()
        return str(error) if error is not None else None


class RuntimeEnvs:
    """The environments of a node, by their JSON."""

    def __init__(self, directory: Path, fetch: Fetch) -> None:
        self._directory = directory
        self._packages = Packages(directory / "packages", fetch)
        self._setups: dict[str, _Setup] = {}
        #: Interpreters with packages from pip, by the name of the list.
        self._interpreters: dict[str, asyncio.Task[Path]] = {}
        self._installer = Installer()
        #: The jobs that use a package or an interpreter.
        self._users: dict[str, set[str]] = {}

    async def prepare(self, job: str, text: str) -> Prepared:
        """Set up an environment, or wait until it is set up.

        Raises
        ------
        RuntimeEnvFailed
            When the set-up fails.
        """
        if text == EMPTY:
            return Prepared()
        fields = runtime_env.loads(text)
        setup = self._setups.get(text)
        if setup is None or _is_worth_another_try(setup):
            task = asyncio.ensure_future(self._set_up(fields))
            setup = self._setups[text] = _Setup(task, time.monotonic())
            task.add_done_callback(setup.note_end)
        setup.jobs.add(job)
        for part in _parts(fields):
            self._users.setdefault(part, set()).add(job)
        try:
            return await asyncio.shield(setup.task)
        except asyncio.CancelledError as error:
            if setup.task.cancelled():
                raise RuntimeEnvFailed("Its job has ended.") from error
            raise

    async def _set_up(self, fields: dict[str, Any]) -> Prepared:
        config = fields.get("config", {})
        seconds = config.get("setup_timeout_seconds", runtime_env.SETUP_TIMEOUT_S)
        try:
            return await asyncio.wait_for(self._build(fields), None if seconds == -1 else seconds)
        except TimeoutError as error:
            raise RuntimeEnvFailed(
                f"It was not set up within {seconds} seconds. Allow more time: "
                "runtime_env={'config': {'setup_timeout_seconds': 1800}, ...}."
            ) from error
        except (RuntimeEnvFailed, CommandFailed, OSError, ValueError) as error:
            raise RuntimeEnvFailed(str(error)) from error
        except Exception as error:
            raise RuntimeEnvFailed(traceback.format_exc()) from error

    async def _build(self, fields: dict[str, Any]) -> Prepared:
        modules = [str(await self._packages.folder(uri)) for uri in fields.get("py_modules", ())]
        cwd = None
        if "working_dir" in fields:
            cwd = str(await self._packages.folder(fields["working_dir"]))
        paths = (*modules, *([cwd] if cwd else []))
        variables = dict(fields.get("env_vars", {}))
        interpreter = None
        if "pip" in fields:
            python = await self._interpreter(fields, cwd)
            interpreter = str(python)
            programs = f"{python.parent}{os.pathsep}{variables.get('PATH', '${PATH}')}"
            variables |= {"VIRTUAL_ENV": str(python.parent.parent), "PATH": programs}
        elif any(name.startswith(_READ_AT_START) for name in variables):
            interpreter = sys.executable
        if paths:
            others = variables.get("PYTHONPATH", "${PYTHONPATH}")
            variables["PYTHONPATH"] = os.pathsep.join([*paths, others])
        return Prepared(variables, paths, cwd, interpreter)

    async def _interpreter(self, fields: dict[str, Any], cwd: str | None) -> Path:
        pip = fields["pip"]
        if os.environ.get(ALLOW_PIP_VARIABLE) != "1":
            raise RuntimeEnvFailed(
                f"This node does not install packages for jobs: {ALLOW_PIP_VARIABLE} is not 1 in its "
                "environment. Set it where the node is started, or install what the job needs there: "
                f"{', '.join(pip['packages'])}."
            )
        variables = dict(fields.get("env_vars", {}))
        if cwd is not None:
            variables["RAY_RUNTIME_ENV_CREATE_WORKING_DIR"] = cwd
        folder = self._directory / "pip" / uuid.uuid4().hex
        return await shared_tasks.result(
            self._interpreters,
            _pip_name(pip),
            lambda: self._installer.build(folder, pip, variables),
        )

    def describe(self) -> list[dict[str, Any]]:
        """Return the environments whose set-up has ended: their JSON, how long it took, the error."""
        return [
            {"environment": text, "seconds": setup.took_s, "error": setup.error()}
            for text, setup in self._setups.items()
            if setup.took_s is not None and not setup.task.cancelled()
        ]

    def end_job(self, job: str) -> None:
        """Remove environments and files that only this job used. Its executors have ended."""
        for text in [text for text, setup in self._setups.items() if setup.jobs == {job}]:
            self._setups.pop(text).task.cancel()
        for setup in self._setups.values():
            setup.jobs.discard(job)
        for part in [part for part, jobs in self._users.items() if job in jobs]:
            self._users[part].discard(job)
            if not self._users[part]:
                del self._users[part]
                self._packages.release(part)
                self._release_interpreter(part)

    def _release_interpreter(self, name: str) -> None:
        building = self._interpreters.pop(name, None)
        if building is None:
            return
        if building.done() and not building.cancelled() and building.exception() is None:
            folder = building.result().parent.parent
            asyncio.get_running_loop().run_in_executor(None, shutil.rmtree, folder, True)
        building.cancel()

    def close(self) -> None:
        """Cancel all set-ups, and remove everything."""
        tasks = [*(setup.task for setup in self._setups.values()), *self._interpreters.values()]
        for task in tasks:
            task.cancel()
        self._installer.close()
        shutil.rmtree(self._directory, ignore_errors=True)


def _is_worth_another_try(setup: _Setup) -> bool:
    task = setup.task
    if not task.done():
        return False
    if task.cancelled():
        return True
    return task.exception() is not None and time.monotonic() - setup.began > _FAILED_FOR_S


def _pip_name(pip: dict[str, Any]) -> str:
    return "pip://" + hashlib.sha256(json.dumps(pip, sort_keys=True).encode()).hexdigest()


def _parts(fields: dict[str, Any]) -> list[str]:
    """Return the names of the parts of an environment on this node: packages, an interpreter."""
    parts = list(fields.get("py_modules", ()))
    if "working_dir" in fields:
        parts.append(fields["working_dir"])
    if "pip" in fields:
        parts.append(_pip_name(fields["pip"]))
    return parts
