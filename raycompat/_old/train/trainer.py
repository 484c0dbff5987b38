"""`Trainer` of 1.9 to 1.13: ``start()``, ``run(function)`` several times, ``shutdown()``.

Each run is one of `DataParallelTrainer`, whose reports go to the callbacks of the time. A worker's last
report has what its function has returned, because `run` returns that of every worker.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import pickle
import queue
import shutil
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import cloudpickle

import raycompat as ray
from raycompat import _storage
from raycompat._old.train.callbacks import TrainingCallback
from raycompat.train._callback import UserCallback
from raycompat.train._checkpoint import Checkpoint
from raycompat.train._configs import CheckpointConfig, FailureConfig, RunConfig, ScalingConfig
from raycompat.train._data_config import DataConfig
from raycompat.train._functions import report
from raycompat.train.backend import BackendConfig
from raycompat.train.data_parallel_trainer import DataParallelTrainer

if TYPE_CHECKING:
    from raycompat.tune.trainable.function_trainable import FunctionTrainable

__all__ = ["CheckpointStrategy", "Trainer", "TrainingIterator"]

#: A data set whose name has this ending is not divided: each worker gets all of it, as in Ray 1.12.
_WHOLE = "_NO-SHARD"

#: The key of a worker's last report, with what its function has returned, pickled.
_RETURNED = "_raycompat_returned"


@dataclass
class CheckpointStrategy:
    """The checkpoints of a run that are kept.

    Parameters
    ----------
    num_to_keep : int, optional
        How many. By default all; with 0, none is left in a folder, and the trainer has its values.
    checkpoint_score_attribute : str, default "_timestamp"
        The value of a checkpoint by which they are compared.
    checkpoint_score_order : {"max", "min"}, default "max"
        Whether high values are better.
    """

    num_to_keep: int | None = None
    checkpoint_score_attribute: str = "_timestamp"
    checkpoint_score_order: str = "max"


def _backend_config(backend: str | BackendConfig) -> BackendConfig:
    if isinstance(backend, BackendConfig):
        return backend
    if backend == "torch":
        from raycompat.train.torch import TorchConfig

        return TorchConfig()
    if backend == "tensorflow":
        from raycompat.train.tensorflow import TensorflowConfig

        return TensorflowConfig()
    raise ValueError(f"backend={backend!r}: expected 'torch', 'tensorflow' or a BackendConfig.")


class Trainer:
    """Runs functions on a number of workers.

    Parameters
    ----------
    backend : {"torch", "tensorflow"} or BackendConfig
        The preparation of the workers.
    num_workers : int
        Number of workers.
    use_gpu : bool, default False
        Whether each gets a GPU.
    resources_per_worker : dict, optional
        Resources of each by name. By default one CPU.
    logdir : str, optional
        Where the folders of runs are. By default one in ``~/ray_results``.
    max_retries : int, default 3
        Number of failures after which training continues from the last checkpoint.
    """

    def __init__(
        self,
        backend: str | BackendConfig,
        num_workers: int,
        use_gpu: bool = False,
        resources_per_worker: dict[str, float] | None = None,
        logdir: str | Path | None = None,
        max_retries: int = 3,
    ) -> None:
        self._backend = _backend_config(backend)
        self._scaling = ScalingConfig(
            num_workers=num_workers, use_gpu=use_gpu, resources_per_worker=resources_per_worker
        )
        name = f"train_{datetime.now():%Y-%m-%d_%H-%M-%S}"
        base = Path(_storage.default_path())
        self.logdir = base / (logdir or name)
        self._max_retries = max_retries
        self._num_runs = 0
        self._hook: Callable[[], Any] | None = None
        self._checkpoints: list[tuple[Path, dict[str, Any]]] = []
        self._strategy = CheckpointStrategy()

    def start(self, initialization_hook: Callable[[], Any] | None = None) -> None:
        """Prepare to run functions; each worker calls `initialization_hook` first."""
        if not ray.is_initialized():
            ray.init()
        self._hook = initialization_hook

    def run(
        self,
        train_func: Callable[..., Any],
        config: dict[str, Any] | None = None,
        callbacks: Sequence[TrainingCallback] | None = None,
        dataset: Any = None,
        checkpoint: dict[str, Any] | str | Path | None = None,
        checkpoint_strategy: CheckpointStrategy | None = None,
    ) -> list[Any]:
        """Run a function on all workers; return what it returned on each, in the order of ranks."""
        run = _Run(self, callbacks or ())
        return run.fit(self._trainer(train_func, config, dataset, checkpoint, checkpoint_strategy))

    def run_iterator(
        self,
        train_func: Callable[..., Any],
        config: dict[str, Any] | None = None,
        dataset: Any = None,
        checkpoint: dict[str, Any] | str | Path | None = None,
        checkpoint_strategy: CheckpointStrategy | None = None,
    ) -> TrainingIterator:
        """Run a function on all workers, and iterate over the results of its reports."""
        trainer = self._trainer(train_func, config, dataset, checkpoint, checkpoint_strategy)
        return TrainingIterator(self, trainer)

    def _trainer(
        self,
        function: Callable[..., Any],
        config: dict[str, Any] | None,
        dataset: Any,
        checkpoint: Any,
        strategy: CheckpointStrategy | None,
    ) -> DataParallelTrainer:
        self._num_runs += 1
        self._strategy = strategy or CheckpointStrategy()
        self._checkpoints = []
        if dataset is not None and not isinstance(dataset, dict):
            dataset = {"train": dataset}
        given: dict[str, Any] = dataset or {}
        return DataParallelTrainer(
            _with_result(function, self._hook),
            train_loop_config=config or {},
            backend_config=self._backend,
            scaling_config=self._scaling,
            run_config=RunConfig(
                name=f"run_{self._num_runs:03d}",
                storage_path=str(self.logdir),
                failure_config=FailureConfig(max_failures=self._max_retries),
                checkpoint_config=CheckpointConfig(num_to_keep=self._num_in_folders()),
                verbose=0,
            ),
            datasets={name.removesuffix(_WHOLE): each for name, each in given.items()},
            dataset_config=DataConfig([name for name in given if not name.endswith(_WHOLE)]),
            resume_from_checkpoint=_as_checkpoint(checkpoint),
        )

    def _num_in_folders(self) -> int | None:
        """Return how many a run keeps in folders: a run that begins again needs the last one."""
        kept = self._strategy.num_to_keep
        return None if kept is None else max(kept, 1)

    def forget_folders(self) -> None:
        """Remove the folders of checkpoints that no longer serve, after a run."""
        if self._strategy.num_to_keep == 0:
            for folder, _ in self._checkpoints:
                shutil.rmtree(folder, ignore_errors=True)

    def take_checkpoint(self, checkpoint: Checkpoint) -> None:
        """Record a checkpoint of the run."""
        self._checkpoints.append((Path(checkpoint.path), checkpoint.to_dict()))

    @property
    def latest_run_dir(self) -> Path | None:
        """The folder of the last run; None before the first."""
        return self.logdir / f"run_{self._num_runs:03d}" if self._num_runs else None

    @property
    def latest_checkpoint_dir(self) -> Path | None:
        """The folder with the checkpoints of the last run."""
        return self.latest_run_dir

    @property
    def latest_checkpoint(self) -> dict[str, Any] | None:
        """The last checkpoint of the last run; None without one."""
        return self._checkpoints[-1][1] if self._checkpoints else None

    def _best(self) -> tuple[Path, dict[str, Any]] | None:
        name = self._strategy.checkpoint_score_attribute
        scored = [each for each in self._checkpoints if name in each[1]]
        if not scored:
            return self._checkpoints[-1] if self._checkpoints else None
        pick = max if self._strategy.checkpoint_score_order == "max" else min
        return pick(scored, key=lambda each: each[1][name])

    @property
    def best_checkpoint(self) -> dict[str, Any] | None:
        """The best checkpoint of the last run, by its strategy; None without one."""
        best = self._best()
        return None if best is None else best[1]

    @property
    def best_checkpoint_path(self) -> Path | None:
        """The folder of the best checkpoint; None without one."""
        best = self._best()
        return None if best is None or self._strategy.num_to_keep == 0 else best[0]

    @staticmethod
    def load_checkpoint_from_path(checkpoint_file_path: str | Path) -> dict[str, Any]:
        """Return the dict of a checkpoint in a folder."""
        return Checkpoint(checkpoint_file_path).to_dict()

    def shutdown(self) -> None:
        """End: the workers of each run have ended with it."""

    def to_tune_trainable(
        self, train_func: Callable[[dict[str, Any]], Any], dataset: Any = None
    ) -> type[FunctionTrainable]:
        """Return the function as a trainable of Tune, whose trials have these workers."""
        from raycompat.tune.trainable.function_trainable import wrap_function
        from raycompat.tune.trainable.trainer import trainable_of

        trainer = self._trainer(train_func, {}, dataset, None, None)
        trainer.train_loop_per_worker = _with_hook(train_func, self._hook)
        train_as_trial = trainable_of(trainer)

        def train(config: dict[str, Any]) -> None:
            train_as_trial({"train_loop_config": config})

        train.__name__ = getattr(train_func, "__name__", "train")
        train._resources = lambda config: train_as_trial._resources({})  # type: ignore[attr-defined]
        trainable = wrap_function(train)
        trainable._accepts_checkpoint_times = True
        return trainable


def _as_checkpoint(given: Any) -> Checkpoint | None:
    if given is None or isinstance(given, Checkpoint):
        return given
    return Checkpoint.from_dict(given) if isinstance(given, dict) else Checkpoint(given)


def _with_hook(function: Callable[..., Any], hook: Callable[[], Any] | None) -> Callable[..., Any]:
    takes_config = bool(inspect.signature(function).parameters)

    @functools.wraps(function)
    def call(config: dict[str, Any]) -> Any:
        if hook is not None:
            hook()
        return function(config) if takes_config else function()

    call.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [inspect.Parameter("config", inspect.Parameter.POSITIONAL_OR_KEYWORD)]
    )
    return call


def _with_result(
    function: Callable[..., Any], hook: Callable[[], Any] | None
) -> Callable[..., Any]:
    """Return the function with a report of what it returned at the end."""
    train = _with_hook(function, hook)

    @functools.wraps(train)
    def call(config: dict[str, Any]) -> None:
        returned = cloudpickle.dumps(train(config))
        report({_RETURNED: returned.decode("latin-1")})

    return call


class _ToCallbacks(UserCallback):
    """Passes reports on to the run."""

    def __init__(self, run: _Run) -> None:
        self._run = run

    def after_report(
        self, run_context: Any, metrics: list[dict[str, Any]], checkpoint: Checkpoint | None
    ) -> None:
        self._run.take(metrics, checkpoint)

    def __reduce__(self) -> Any:
        # The run's folder keeps the trainer's arguments; results go to this process alone.
        return UserCallback, ()


class _Run:
    """A run, and those who want its results.

    Parameters
    ----------
    owner : Trainer
        Gets the checkpoints.
    callbacks : sequence of TrainingCallback
        Get the results.
    """

    def __init__(self, owner: Trainer, callbacks: Sequence[TrainingCallback]) -> None:
        self._owner, self._callbacks = owner, callbacks
        self._returned: list[Any] = []
        self._num_results = 0
        self._last_s = time.time()

    def fit(self, trainer: DataParallelTrainer) -> list[Any]:
        """Train, and return what the function has returned on each worker."""
        logdir, config = self._owner.latest_run_dir, trainer.train_loop_config
        for each in self._callbacks:
            each.start_training(logdir=str(logdir), config=config or {})
        trainer.run_config.callbacks = [_ToCallbacks(self)]
        failed = True
        try:
            trainer.fit()
            failed = False
        finally:
            self._owner.forget_folders()
            for each in self._callbacks:
                each.finish_training(error=failed)
        return self._returned

    def take(self, metrics: list[dict[str, Any]], checkpoint: Checkpoint | None) -> None:
        """Handle a report of all workers."""
        if checkpoint is not None:
            self._owner.take_checkpoint(checkpoint)
        if _RETURNED in metrics[0]:
            encoded = [each[_RETURNED].encode("latin-1") for each in metrics]
            self._returned = [pickle.loads(each) for each in encoded]
            return
        self._num_results += 1
        now = time.time()
        added = {
            "_timestamp": int(now),
            "_time_this_iter_s": now - self._last_s,
            "_training_iteration": self._num_results,
        }
        self._last_s = now
        results = [{**added, **each} for each in metrics]
        for callback in self._callbacks:
            callback.process_results(results)


class TrainingIterator(TrainingCallback):
    """Iterates over the results of a run: at each report a list with those of each worker.

    Made by `Trainer.run_iterator`. The run begins with the first step.
    """

    def __init__(self, owner: Trainer, trainer: DataParallelTrainer) -> None:
        self._owner, self._trainer = owner, trainer
        self._results: queue.SimpleQueue[tuple[str, Any]] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._fit, name="train", daemon=True)
        self._final: list[Any] | None = None

    def _fit(self) -> None:
        try:
            self._results.put(("end", _Run(self._owner, [self]).fit(self._trainer)))
        except BaseException as error:  # raised again by the iteration
            self._results.put(("error", error))

    def handle_result(self, results: list[dict[str, Any]], **info: Any) -> None:
        """Pass results on to the iteration."""
        self._results.put(("results", results))

    def __iter__(self) -> Iterator[list[dict[str, Any]]]:
        return self

    def __next__(self) -> list[dict[str, Any]]:
        if self._final is not None:
            raise StopIteration
        if not self._thread.is_alive():
            with contextlib.suppress(RuntimeError):  # it has ended, and its last results are read
                self._thread.start()
        kind, value = self._results.get()
        if kind == "error":
            self._final = []
            raise value
        if kind == "end":
            self._final = value
            self._thread.join()
            raise StopIteration
        found: list[dict[str, Any]] = value
        return found

    def is_finished(self) -> bool:
        """Return whether the iteration has come to the end of the run."""
        return self._final is not None

    def get_final_results(self, force: bool = False) -> list[Any]:
        """Return what the function has returned on each worker.

        Parameters
        ----------
        force : bool, default False
            Iterate to the end of the run first.
        """
        if force:
            for _ in self:
                pass
        return self._final or []
