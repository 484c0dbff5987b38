"""Validation of checkpoints in parallel to the training, by remote functions."""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

import raycompat as ray
from raycompat.train._checkpoint_registry import Registered
from raycompat.train._report_options import ValidationConfig, ValidationTaskConfig
from raycompat.train._run_state import RunState

if TYPE_CHECKING:
    from raycompat.train._types import Metrics

_log = logging.getLogger(__name__)


@dataclass
class _Running:
    entry: Registered
    ref: object
    deadline: float | None


class Validations:
    """The validations of a run that have not ended.

    Parameters
    ----------
    config : ValidationConfig, optional
        How checkpoints are validated.
    state : RunState
        The run's, which takes the results.
    """

    def __init__(self, config: ValidationConfig | None, state: RunState) -> None:
        self._config = config
        self._state = state
        self._running: list[_Running] = []

    def __len__(self) -> int:
        return len(self._running)

    def start(self, entry: Registered, asked: bool | ValidationTaskConfig) -> None:
        """Validate a checkpoint; until that has ended, it is kept."""
        assert self._config is not None
        task = asked if isinstance(asked, ValidationTaskConfig) else self._config.task_config
        options = self._config.ray_remote_kwargs
        function = (
            ray.remote(**options)(self._config.fn) if options else ray.remote(self._config.fn)
        )
        arguments = {**(self._config.task_config.fn_kwargs or {}), **(task.fn_kwargs or {})}
        ref = function.remote(entry.checkpoint, **arguments)
        seconds = task.timeout_s
        entry.status = "PENDING_VALIDATION"
        self._running.append(
            _Running(entry, ref, None if seconds is None else time.monotonic() + seconds)
        )
        self._state.save()

    def collect(self, timeout_s: float = 0.0) -> None:
        """Take in the results that are there."""
        if not self._running:
            return
        refs = [running.ref for running in self._running]
        ready, _ = ray.wait(refs, num_returns=1, timeout=timeout_s)
        for running in list(self._running):
            if running.ref in ready or ray.wait([running.ref], timeout=0)[0]:
                self._take(running)
            elif running.deadline is not None and time.monotonic() > running.deadline:
                ray.cancel(running.ref)
                self._end(running, "VALIDATION_TIMEOUT", {})

    def _take(self, running: _Running) -> None:
        try:
            metrics = ray.get(running.ref)
        except Exception as error:  # the function's, of any type
            _log.error("Validation of %r failed: %s", running.entry.checkpoint, error)
            self._end(running, "VALIDATION_FAILED", {})
            return
        self._end(running, "VALIDATED", metrics or {})

    def _end(self, running: _Running, status: str, metrics: Metrics) -> None:
        self._running.remove(running)
        running.entry.status = status
        running.entry.metrics.update(metrics)
        self._state.keep(self._state.registry.rank(self._state.pending))

    def finish(self) -> None:
        """Wait for all that run."""
        while self._running:
            self.collect(timeout_s=1.0)
