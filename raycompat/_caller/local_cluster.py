"""The cluster that `init` starts by itself: a scheduler process and one node process.

Both are told to end through their standard input, which closes when the driver ends, however it ends.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from raycompat import exceptions
from raycompat._protocol import segment

#: Seconds that a process of the cluster has to end before it is killed.
_END_S = 10.0


class _Process:
    """One process of the cluster. It says one line of JSON when it is up."""

    def __init__(self, module: str, options: dict[str, Any], log: Path) -> None:
        self.log = log
        # One thread: executors are forked from a process that has imported numpy.
        environment = {"OMP_NUM_THREADS": "1", **os.environ}
        with log.open("wb") as output:
            self._popen = subprocess.Popen(
                [sys.executable, "-m", module, json.dumps(options)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=output,
                env=environment,
                start_new_session=True,
            )

    def first_words(self) -> dict[str, Any]:
        """Wait until the process is up and return what it says of itself."""
        assert self._popen.stdout is not None
        line = self._popen.stdout.readline()
        if not line:
            code = self._popen.wait()
            log = self.log.read_text(errors="replace")[-4000:]
            raise exceptions.RaySystemError(
                f"A process of the local cluster ended with exit code {code} while starting. "
                f"Its log said:\n{log}"
            )
        words: dict[str, Any] = json.loads(line)
        return words

    def tell(self, words: dict[str, Any]) -> None:
        """Tell the process something that it waits for."""
        assert self._popen.stdin is not None
        self._popen.stdin.write(json.dumps(words).encode() + b"\n")
        self._popen.stdin.flush()

    def end(self) -> None:
        """Have the process end, and wait until it has."""
        assert self._popen.stdin is not None
        assert self._popen.stdout is not None
        self._popen.stdin.close()
        try:
            self._popen.wait(_END_S)
        except subprocess.TimeoutExpired:
            self._popen.kill()
            self._popen.wait()
        self._popen.stdout.close()


class LocalCluster:
    """A scheduler and a node on this machine, for one driver."""

    def __init__(
        self,
        *,
        resources: dict[str, float],
        memory_bytes: int,
        dashboard_address: str | None,
        temp_dir: str | None,
    ) -> None:
        self.directory = Path(tempfile.mkdtemp(prefix="raycompat-", dir=temp_dir))
        self._processes: list[_Process] = []
        try:
            scheduler = self._start(
                "raycompat._scheduler.main",
                {"directory": str(self.directory), "dashboard_address": dashboard_address},
                "scheduler",
            )
            # The node imports while the scheduler starts, and is told the address then.
            node = self._start(
                "raycompat._node.main",
                {
                    "directory": str(self.directory),
                    "resources": resources,
                    "memory_bytes": memory_bytes,
                },
                "node",
            )
            words = scheduler.first_words()
            self.address: str = words["address"]
            self.dashboard_url: str | None = words["dashboard"]
            node.tell({"scheduler": self.address})
            node.first_words()
        except BaseException:
            self.close()
            raise

    def _start(self, module: str, options: dict[str, Any], name: str) -> _Process:
        process = _Process(module, options, self.directory / f"{name}.log")
        self._processes.append(process)
        return process

    def close(self) -> None:
        """End both processes, the node first, and remove what they left."""
        for process in reversed(self._processes):
            process.end()
        self._processes.clear()
        segment.sweep([str(segment.SHARED_MEMORY)], and_mine=True)
        shutil.rmtree(self.directory, ignore_errors=True)
