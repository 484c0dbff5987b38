"""Interpreters with packages that pip has installed: one virtual environment for each list of them.

It sees what the node's own interpreter can import, behind its own packages.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import site
import sys
from pathlib import Path
from typing import Any

#: Characters of the output of pip that an error shows: the last ones.
_SHOWN = 4000

_DEFAULT_OPTIONS = ["--disable-pip-version-check", "--no-cache-dir"]


class CommandFailed(Exception):
    """A command that sets a runtime environment up has failed; the text has what it said."""


async def build(folder: Path, pip: dict[str, Any], variables: dict[str, str]) -> Path:
    """Make a virtual environment in `folder` and return its interpreter.

    Raises
    ------
    CommandFailed
        When pip does not succeed.
    """
    python = folder / "bin" / "python"
    folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    try:
        await _run([sys.executable, "-m", "venv", "--without-pip", str(folder)], variables)
        _see_own_packages(folder)
        pip_command = await _pip_command(python, variables)
        if "pip_version" in pip:
            await _run([*pip_command, "install", f"pip{pip['pip_version']}"], variables)
        requirements = folder / "requirements.txt"
        requirements.write_text("\n".join(pip["packages"]) + "\n")
        options = pip.get("pip_install_options", _DEFAULT_OPTIONS)
        await _run([*pip_command, "install", "-r", str(requirements), *options], variables)
        if pip["pip_check"]:
            await _run([*pip_command, "check", "--disable-pip-version-check"], variables)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    return python


def _see_own_packages(folder: Path) -> None:
    """Have the interpreter import from where this one does, after its own packages.

    Not by ``--system-site-packages``: this one may be that of a virtual environment itself.
    """
    (own,) = folder.glob("lib/python*/site-packages")
    places = [
        *site.getsitepackages(),
        *([site.getusersitepackages()] if site.ENABLE_USER_SITE else []),
    ]
    lines = [f"import site; site.addsitedir({place!r})" for place in places if Path(place).is_dir()]
    (own / "raycompat-node.pth").write_text("\n".join(lines) + "\n")


async def _pip_command(python: Path, variables: dict[str, str]) -> list[str]:
    """Return how pip is called: the node's own pip, or else the one that comes with Python."""
    command = [str(python), "-m", "pip"]
    try:
        await _run([*command, "--version"], variables)
    except CommandFailed:
        await _run([str(python), "-m", "ensurepip", "--default-pip"], variables)
    return command


async def _run(command: list[str], variables: dict[str, str]) -> None:
    """Run a command to its end; when this is cancelled, end it and what it has started."""
    process = await asyncio.create_subprocess_exec(
        *command,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        env={**os.environ, **variables},
        start_new_session=True,
    )
    try:
        output, _ = await process.communicate()
    except BaseException:
        os.killpg(process.pid, signal.SIGKILL)
        await process.wait()
        raise
    if process.returncode:
        text = output.decode(errors="replace")[-_SHOWN:]
        raise CommandFailed(
            f"`{' '.join(command)}` ended with exit code {process.returncode}:\n{text}"
        )
