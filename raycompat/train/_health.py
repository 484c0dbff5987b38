"""The detection of workers that hang: soon for stopped processes, later for others that do not answer.

A worker that holds the interpreter's lock for long does not answer either: for example, TensorFlow
while it connects to other workers. So the status of a silent process is checked on its node. Only a
stopped process is given up at once.
"""

from __future__ import annotations

import os
import time
from typing import Any

import psutil

import raycompat as ray
from raycompat.exceptions import RayError
from raycompat.train._worker_group import Worker
from raycompat.util.scheduling_strategies import NodeAffinitySchedulingStrategy

#: Seconds between two pings of a worker; Ray's variable and default.
_INTERVAL_S = float(os.environ.get("RAY_TRAIN_HEALTH_CHECK_INTERVAL_S", "2"))
#: Seconds without an answer after which a worker that runs is given up; Ray's variable and default.
_TIMEOUT_S = float(os.environ.get("RAY_TRAIN_WORKER_HEALTH_CHECK_TIMEOUT_S", "600"))
#: Seconds without an answer after which its process is looked at.
_SILENT_S = 2.0


def _process_status(pid: int) -> str:
    try:
        return str(psutil.Process(pid).status())
    except psutil.NoSuchProcess:
        return "gone"


class Health:
    """The pings of all workers of a try."""

    def __init__(self, workers: list[Worker]) -> None:
        now = time.monotonic()
        self._pings = [Ping(worker, now) for worker in workers]

    def check(self) -> dict[int, Exception]:
        """Ping those whose turn it is; return why others are given up, by rank."""
        found = {ping.worker.rank: ping.check() for ping in self._pings}
        return {rank: error for rank, error in found.items() if error is not None}


class Ping:
    """The pings of one worker."""

    def __init__(self, worker: Worker, now: float) -> None:
        self.worker = worker
        self._answer: Any = None
        self._sent = now
        self._look: Any = None

    def check(self) -> Exception | None:
        """Send the next ping, or check why the last one has no answer."""
        now = time.monotonic()
        if self._answer is not None and ray.wait([self._answer], timeout=0)[0]:
            self._answer = self._look = None
        if self._answer is None:
            if now - self._sent >= _INTERVAL_S:
                self._answer, self._sent = self.worker.actor.ping.remote(), now
            return None
        silent = now - self._sent
        if silent > _TIMEOUT_S:
            return RuntimeError(
                f"It has not answered for {silent:.0f} s (RAY_TRAIN_WORKER_HEALTH_CHECK_TIMEOUT_S)."
            )
        return self._look_at_process() if silent > _SILENT_S else None

    def _look_at_process(self) -> Exception | None:
        if self._look is None:
            strategy = NodeAffinitySchedulingStrategy(self.worker.place.node_id, soft=False)
            look = ray.remote(num_cpus=0, max_retries=0)(_process_status)
            self._look = look.options(scheduling_strategy=strategy).remote(self.worker.place.pid)
        ready, _ = ray.wait([self._look], timeout=0)
        if not ready:
            return None
        look, self._look = self._look, None
        try:
            status = ray.get(look)
        except RayError:  # the node has left: the worker's calls will fail
            return None
        if status == psutil.STATUS_STOPPED:
            return RuntimeError("Its process is stopped (SIGSTOP) and does not answer.")
        return None
