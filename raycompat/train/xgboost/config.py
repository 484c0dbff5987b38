"""`XGBoostConfig`: the preparation of workers for XGBoost."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Any

import raycompat as ray
from raycompat._old_forms.packages import require
from raycompat.train._worker_group import WorkerGroup
from raycompat.train.backend import Backend, BackendConfig

__all__ = ["XGBoostConfig"]

_log = logging.getLogger("raycompat.train")

#: Seconds that XGBoost's tracker has to end after a successful training.
_TRACKER_S = 5

#: How this process, a worker, reaches the other workers.
_arguments: dict[str, object] = {}


@contextmanager
def _in_group() -> Iterator[None]:
    """Be a member of XGBoost's group of workers."""
    with require("xgboost.collective", "XGBoostTrainer").CommunicatorContext(**_arguments):
        yield


@dataclass
class XGBoostConfig(BackendConfig):
    """Connect the workers in a group of ``xgboost.collective``, in which the training function runs.

    Parameters
    ----------
    xgboost_communicator : str, default "rabit"
        The kind of group. There is no other.

    Raises
    ------
    NotImplementedError
        When `xgboost_communicator` is another.

    Examples
    --------
    >>> from raycompat.train.xgboost import XGBoostConfig
    >>> XGBoostConfig().to_dict()
    {'xgboost_communicator': 'rabit'}

    Notes
    -----
    Ray source: ``ray.train.xgboost.XGBoostConfig``, 2.60.0. Differs: XGBoost must be 2.1 or newer.
    """

    xgboost_communicator: str = "rabit"

    def __post_init__(self) -> None:
        if self.xgboost_communicator != "rabit":
            raise NotImplementedError(
                f"xgboost_communicator={self.xgboost_communicator!r}: expected 'rabit'."
            )

    @property
    def backend_cls(self) -> type[Backend]:
        return _XGBoostBackend

    @property
    def train_func_context(self) -> Callable[[], AbstractContextManager[object]]:
        """A context manager in which the worker is a member of the group."""
        return _in_group

    @property
    def framework(self) -> Any:
        return "xgboost"

    def to_dict(self) -> dict[str, object]:
        """Return the settings."""
        return {"xgboost_communicator": self.xgboost_communicator}


class _XGBoostBackend(Backend):
    """Sets `XGBoostConfig` up: a tracker in the driver, which the workers meet by."""

    def __init__(self) -> None:
        self._waiting: threading.Thread | None = None

    def on_training_start(self, worker_group: WorkerGroup, backend_config: XGBoostConfig) -> None:
        """Start the tracker, and send its address to all workers."""
        tracker = require("xgboost.tracker", "XGBoostTrainer").RabitTracker(
            n_workers=len(worker_group), host_ip=ray.util.get_node_ip_address(), sortby="task"
        )
        tracker.start()
        self._waiting = threading.Thread(
            target=tracker.wait_for, name="xgboost-tracker", daemon=True
        )
        self._waiting.start()
        shared = tracker.worker_args()
        ray.get(
            [
                # The tracker orders the workers by these names, so the ranks are those of Train.
                worker_group.execute_single_async(
                    rank, _arguments_are, {**shared, "dmlc_task_id": f"rank-{rank:08}"}
                )
                for rank in range(len(worker_group))
            ]
        )

    def on_shutdown(self, worker_group: WorkerGroup, backend_config: XGBoostConfig) -> None:
        """Wait for the tracker. It ends when all workers have left the group."""
        if self._waiting is not None:
            self._waiting.join(_TRACKER_S)
            if self._waiting.is_alive():
                _log.warning("XGBoost's tracker has not ended within %d s.", _TRACKER_S)


def _arguments_are(arguments: dict[str, object]) -> None:
    _arguments.update(arguments)
