"""Interpreters with packages from pip: one virtual environment for each list of packages.

It can also import the packages of the node's interpreter, after its own.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
import site
import sys
from pathlib import Path
from typing import Any

#: Characters of pip's output that an error shows: the last ones.
_SHOWN = 4000

_DEFAULT_OPTIONS = ["--disable-pip-version-check", "--no-cache-dir"]


class CommandFailed(Exception):
    """A command of the set-up has failed; the text has the command's output."""


class Installer:
    """Makes virtual environments, and keeps a list of the running commands."""

    def __init__(self) -> None:
        #: Leaders of the process groups of running commands.
        self._running: set[int] = set()

    async def build(self, folder: Path, pip: dict[str, Any], variables: dict[str, str]) -> Path:
        """Make a virtual environment in `folder` and return its interpreter.

        Raises
        ------
        CommandFailed
            When pip fails.
        """
        folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        try:
            return await self._build(folder, pip, variables)
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise

    async def _build(self, folder: Path, pip: dict[str, Any], variables: dict[str, str]) -> Path:
        python = folder / "bin" / "python"
        await self._run(
            [sys.executable, "-P", "-m", "venv", "--without-pip", str(folder)], variables
        )
        _see_own_packages(folder)
        command = [str(python), "-P", "-m", "pip"]  # and not a file in this folder
        try:
            await self._run([*command, "--version"], variables)  # with the node's interpreter
        except CommandFailed:
            await self._run([str(python), "-P", "-m", "ensurepip", "--default-pip"], variables)
        if "pip_version" in pip:
            await self._run([*command, "install", f"pip{pip['pip_version']}"], variables)
        requirements = folder / "requirements.txt"
        requirements.write_text("\n".join(pip["packages"]) + "\n")
        options = pip.get("pip_install_options", _DEFAULT_OPTIONS)
        await self._run([*command, "install", "-r", str(requirements), *options], variables)
        if pip["pip_check"]:
            await self._run([*command, "check", "--disable-pip-version-check"], variables)
        return python

    async def _run(self, command: list[str], variables: dict[str, str]) -> None:
        """Run a command to its end; on cancellation, end it and its child processes."""
        process = await asyncio.create_subprocess_exec(
            *command,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            env={**os.environ, **variables},
            start_new_session=True,
        )
        self._running.add(process.pid)
        try:
            output, _ = await process.communicate()
        except BaseException:
            self._kill(process.pid)
            raise
        finally:
            self._running.discard(process.pid)
        if process.returncode:
            text = output.decode(errors="replace")[-_SHOWN:]
            raise CommandFailed(
                f"`{' '.join(command)}` ended with exit code {process.returncode}:\n{text}"
            )

    def _kill(self, leader: int) -> None:
        if leader in self._running:
            with contextlib.suppress(ProcessLookupError):  # the process has just ended
                os.killpg(leader, signal.SIGKILL)

    def close(self) -> None:
        """End all running commands at once."""
        for leader in list(self._running):
            self._kill(leader)


def _see_own_packages(folder: Path) -> None:
    """Let the new interpreter import the packages of this one, after its own.

    ``--system-site-packages`` is not enough: this interpreter may be in a virtual environment itself.
    """
    (own,) = folder.glob("lib/python*/site-packages")
    places = [
        *site.getsitepackages(),
        *([site.getusersitepackages()] if site.ENABLE_USER_SITE else []),
    ]
    lines = [f"import site; site.addsitedir({place!r})" for place in places if Path(place).is_dir()]
    (own / "raycompat-node.pth").write_text("\n".join(lines) + "\n")
