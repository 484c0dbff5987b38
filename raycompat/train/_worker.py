"""The actor in which a rank trains: a process for one try of one run."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import raycompat as ray
from raycompat import _storage
from raycompat.train import _session
from raycompat.train._checkpoint import Checkpoint
from raycompat.train._context import TrainContext

#: A file in the run's folder: a worker that does not see it does not see the storage.
MARKER = ".validate_storage_marker"
#: How the return value of a training function travels when it cannot be pickled.
_UNSENT = "The return value of the training function cannot be sent: "


@dataclass(frozen=True)
class Place:
    """The node and the process of a worker.

    Attributes
    ----------
    node_id : str
        Its node.
    node_ip : str
        The node's address.
    pid : int
        Its process.
    gpu_ids : list of str
        Its GPUs.
    """

    node_id: str
    node_ip: str
    pid: int
    gpu_ids: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Setup:
    """The settings of a worker, for its `Session`."""

    context: TrainContext
    folder: _storage.Folder
    checkpoint: Checkpoint | None
    shards: dict[str, object]
    validates: bool


class RayTrainWorker:
    """See the module.

    Parameters
    ----------
    rank : int
        World rank.
    num_threads : int, optional
        Value for ``OMP_NUM_THREADS``, also for PyTorch. By default the variable stays as it is.
    """

    def __init__(self, rank: int, num_threads: int | None) -> None:
        self._rank = rank
        self._session: _session.Session | None = None
        if num_threads is not None:
            os.environ["OMP_NUM_THREADS"] = str(num_threads)
            if "torch" in sys.modules:  # PyTorch reads the variable only when it is imported
                sys.modules["torch"].set_num_threads(num_threads)

    def __repr__(self) -> str:
        return f"RayTrainWorker(rank={self._rank})"

    def find_place(self) -> Place:
        """Return where this process runs."""
        context = ray.get_runtime_context()
        gpus = context.get_accelerator_ids().get("GPU", [])
        return Place(context.get_node_id(), ray.util.get_node_ip_address(), os.getpid(), gpus)

    def execute(self, function: Callable[..., object], *args: object, **kwargs: object) -> Any:
        """Call a function in this process."""
        return function(*args, **kwargs)

    def prepare(self, setup: Setup) -> None:
        """Make this process ready to train.

        Raises
        ------
        RuntimeError
            When it does not see the run's folder.
        FileNotFoundError
            When it does not see the checkpoint.
        """
        if not setup.folder.exists(MARKER):
            raise RuntimeError(
                f"Node {ray.util.get_node_ip_address()} does not see the run's folder "
                f"{setup.folder.uri}. Pass RunConfig(storage_path=...) a place that all nodes share: a "
                "network file system, or a URI such as s3://bucket/folder."
            )
        checkpoint = setup.checkpoint
        if checkpoint is not None and not checkpoint._folder.exists():
            raise FileNotFoundError(
                f"Node {ray.util.get_node_ip_address()} does not see the checkpoint to resume from, "
                f"{checkpoint._folder.uri}. Pass resume_from_checkpoint a folder that all nodes see."
            )
        self._session = _session.Session(
            setup.context, setup.folder, setup.checkpoint, setup.shards, setup.validates
        )
        _session.enter(self._session)

    @staticmethod
    def function() -> Any:
        """Train: a subclass has the training function."""
        raise NotImplementedError

    def train(self) -> None:
        """Run the training function; the last event has its result."""
        session = self._session
        assert session is not None
        try:
            value = self.function()
            session.finish()
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
        value = _sendable(value) if self._rank == 0 else None
        session.outbox.put(_session.Returned(session.num_reports, value))

    def next_event(self) -> Any:
        """Wait for the next event of the training function."""
        assert self._session is not None
        return self._session.outbox.get()

    def answer(self, about: str, index: int, value: object) -> None:
        """Pass on an answer of the controller's."""
        assert self._session is not None
        self._session.answer(about, index, value)

    def ping(self) -> None:
        """Show that the process is alive."""


def _sendable(value: object) -> Any:
    try:
        ray.cloudpickle.dumps(value)
    except Exception as error:
        return f"{_UNSENT}{error}"
    return value
