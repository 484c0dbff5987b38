"""Runs a command of Dask in a process that is forked from one that has imported Dask already.

Nothing here imports raycompat: a scheduler or worker of a user's has not imported it either.
"""

from __future__ import annotations

import importlib
import multiprocessing
import os
import signal
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

#: Folders from which these tests import, and Dask's commands do not.
_OURS = tuple(str(Path(__file__).parents[2] / name) for name in ("tests", "docs", "tutorials"))

_CONTEXT = multiprocessing.get_context("forkserver")
_CONTEXT.set_forkserver_preload(["distributed.cli.dask_scheduler", "distributed.cli.dask_worker"])


class DaskProcess:
    """A running ``dask scheduler`` or ``dask worker``: what tests use of `subprocess.Popen`."""

    def __init__(self, module: str, arguments: Sequence[str], log: Path) -> None:
        path = [each for each in sys.path if each and not each.startswith(_OURS)]
        here = os.getcwd()
        self._process = _CONTEXT.Process(
            target=_run, args=(module, arguments, log, here, path, dict(os.environ))
        )
        self._process.start()
        assert self._process.pid is not None
        self.pid = self._process.pid

    def poll(self) -> int | None:
        return self._process.exitcode

    def wait(self, timeout_s: float | None = None) -> int:
        self._process.join(timeout_s)
        assert self._process.exitcode is not None, "it still runs"
        return self._process.exitcode

    def send_signal(self, number: int) -> None:
        os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


def start_early() -> None:
    """Start the process that the others are forked from."""
    _CONTEXT.Process(target=int).start()


def _run(
    module: str,
    arguments: Sequence[str],
    log: Path,
    here: str,
    path: Sequence[str],
    environment: dict[str, str],
) -> None:
    """Be the command, as ``python -m`` would run it."""
    import dask

    os.chdir(here)
    os.environ.clear()
    os.environ.update(environment)
    sys.path[:] = [here, *path]
    sys.argv[:] = [module, *arguments]
    tempfile.tempdir = None  # as the variables say
    descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    os.dup2(descriptor, 1)
    os.dup2(descriptor, 2)
    dask.config.refresh()
    importlib.import_module(f"distributed.cli.{module}").main(list(arguments))
