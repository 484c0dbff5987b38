"""Trainables with several workers, of 1.0 to 2.0: a trainer of Train as a trial does the same."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

from raycompat._old.checkpoints import checkpoint_dir
from raycompat.train import _session
from raycompat.train._configs import ScalingConfig
from raycompat.train.backend import BackendConfig
from raycompat.train.data_parallel_trainer import DataParallelTrainer
from raycompat.tune.trainable.function_trainable import takes_checkpoint_dir


def _creator(
    function: Callable[..., Any],
    backend: BackendConfig,
    num_workers: int,
    resources: dict[str, float],
) -> Callable[[dict[str, Any]], None]:
    """Return the function of a config that trains on workers."""
    from raycompat.tune.trainable.trainer import trainable_of

    takes_folder = takes_checkpoint_dir(function)

    def on_worker(config: dict[str, Any]) -> Any:
        if not takes_folder:
            return function(config)
        checkpoint = _session.current("get_checkpoint").checkpoint
        folder = None if checkpoint is None else checkpoint.to_directory()
        return function(config, checkpoint_dir=folder)

    trainer = DataParallelTrainer(
        on_worker,
        train_loop_config={},
        backend_config=backend,
        scaling_config=ScalingConfig(
            num_workers=num_workers,
            use_gpu=resources.get("GPU", 0) > 0,
            resources_per_worker=resources,
        ),
    )
    as_trial = trainable_of(trainer)

    def train(config: dict[str, Any]) -> None:
        as_trial({"train_loop_config": config})

    train.__name__ = getattr(function, "__name__", "train")
    train._resources = lambda config: as_trial._resources({})  # type: ignore[attr-defined]
    return train


def DistributedTrainableCreator(  # noqa: N802
    func: Callable[..., Any],
    num_workers: int = 1,
    num_cpus_per_worker: float = 1,
    num_gpus_per_worker: float = 0,
    num_workers_per_host: int | None = None,
    backend: str = "gloo",
    timeout_s: int = 1800,
    use_gpu: bool | None = None,
) -> Callable[[dict[str, Any]], None]:
    """Return a trainable that runs a function of PyTorch on several workers.

    Parameters
    ----------
    func : callable
        A function of the config, and of `checkpoint_dir` where it has that parameter.
    num_workers : int, default 1
        Number of workers, in one process group.
    num_cpus_per_worker, num_gpus_per_worker : float
        Resources of each.
    num_workers_per_host : int, optional
        Of no effect: the workers are packed.
    backend : {"gloo", "nccl"}, default "gloo"
        The library that sends tensors.
    timeout_s : int, default 1800
        Seconds within which all workers must join the group.
    """
    from raycompat.train.torch import TorchConfig

    resources = {"CPU": num_cpus_per_worker, "GPU": num_gpus_per_worker or float(bool(use_gpu))}
    config = TorchConfig(backend=backend, timeout_s=timeout_s)
    return _creator(func, config, num_workers, resources)


def tensorflow_trainable(
    func: Callable[..., Any],
    num_workers: int = 2,
    num_gpus_per_worker: float = 0,
    num_cpus_per_worker: float = 1,
    num_workers_per_host: int | None = None,
    timeout_s: int = 900,
    use_gpu: bool | None = None,
) -> Callable[[dict[str, Any]], None]:
    """Return a trainable that runs a function of TensorFlow on several workers.

    Parameters are those of `DistributedTrainableCreator`.
    """
    from raycompat.train.tensorflow import TensorflowConfig

    resources = {"CPU": num_cpus_per_worker, "GPU": num_gpus_per_worker or float(bool(use_gpu))}
    return _creator(func, TensorflowConfig(), num_workers, resources)


@contextlib.contextmanager
def distributed_checkpoint_dir(step: int | None = None, disable: bool = False) -> Iterator[str]:
    """Give rank 0 a folder, whose files the next report keeps; the others one that is not kept."""
    import shutil
    import tempfile

    from raycompat.train._checkpoint import Checkpoint

    if not _session.is_entered():
        with checkpoint_dir(step) as folder:
            yield folder
        return
    session = _session.current("report")
    folder = tempfile.mkdtemp(prefix="checkpoint-")
    yield folder
    if session.context.get_world_rank() == 0 and not disable:
        session.unreported = Checkpoint.from_directory(folder)
    else:
        shutil.rmtree(folder)


def is_distributed_trainable() -> bool:
    """Return whether the function runs on several workers."""
    return _session.is_entered()
