"""`TorchTrainer` of ``ray.util.sgd`` (0.8 to 1.13): workers that train and validate, call by call."""

from __future__ import annotations

import logging
import math
import numbers
from collections.abc import Callable
from typing import Any, Self

import torch

import raycompat as ray
from raycompat._old.sgd import worker
from raycompat._old.sgd.meters import BATCH_SIZE, NUM_SAMPLES
from raycompat._old.sgd.operator import OperatorOptions, TrainingOperator
from raycompat._old.sgd.trials import group_of_trial, needs_of_workers
from raycompat.exceptions import RayError, RayTaskError, UnsupportedRayFeatureError
from raycompat.train._configs import ScalingConfig
from raycompat.train._worker import RayTrainWorker
from raycompat.train._worker_group import WorkerGroup
from raycompat.train.torch.config import TorchConfig
from raycompat.tune import PlacementGroupFactory, Trainable

logger = logging.getLogger(__name__)

_FREQUENCIES = ("batch", "epoch", "manual", None)

#: Options of functions that make the parts of an operator: the form of 0.8.
_CREATORS = (
    "model_creator",
    "optimizer_creator",
    "data_creator",
    "loss_creator",
    "scheduler_creator",
)


class TorchTrainer:
    """Trains with PyTorch on several workers, which stay between calls.

    Parameters
    ----------
    training_operator_cls : subclass of TrainingOperator
        What a worker does.
    initialization_hook : callable, optional
        Called on each worker first.
    config : dict, optional
        For the operator.
    num_workers : int, default 1
    num_cpus_per_worker : float, default 1
    use_gpu : bool or "auto"
        Whether each worker has a GPU; by default if the cluster has one for each.
    backend : {"gloo", "nccl", "auto"}
        The library that sends gradients.
    wrap_ddp : bool, default True
        Whether the workers' gradients are averaged.
    timeout_s : float, default 1800
        Seconds within which the workers must find each other.
    add_dist_sampler : bool, default True
        Whether each worker gets its part of the data.
    scheduler_step_freq : {"batch", "epoch", "manual"}, optional
        When schedulers of learning rates make a step.
    use_fp16 : bool, default False
        Refused when true.
    use_tqdm, use_local, num_replicas, batch_size, serialize_data_creation, data_loader_args, apex_args
        They have no effect.
    **creators
        ``model_creator``, ``optimizer_creator``, ``data_creator``, ``loss_creator`` and
        ``scheduler_creator``: functions that make the parts, as in Ray 0.8.

    Raises
    ------
    TypeError
        When there is neither an operator nor creators.
    ValueError
        When an option is not valid.

    Notes
    -----
    Ray source: ``ray.util.sgd.TorchTrainer``, 1.12.1. Differs from Ray: all workers are processes of
    their own, and their number stays when one is lost.
    """

    def __init__(
        self,
        *,
        training_operator_cls: type[TrainingOperator] | None = None,
        initialization_hook: Callable[[], Any] | None = None,
        config: dict[str, Any] | None = None,
        num_workers: int = 1,
        num_cpus_per_worker: float = 1,
        use_gpu: bool | str = "auto",
        backend: str = "auto",
        wrap_ddp: bool = True,
        timeout_s: float = 1800,
        use_fp16: Any = False,
        use_tqdm: bool = False,
        add_dist_sampler: bool = True,
        scheduler_step_freq: str | None = None,
        use_local: bool = False,
        num_replicas: int | None = None,
        batch_size: int | None = None,
        serialize_data_creation: bool | None = None,
        data_loader_args: Any = None,
        apex_args: Any = None,
        **creators: Any,
    ) -> None:
        if use_fp16:
            raise UnsupportedRayFeatureError(
                f"TorchTrainer(use_fp16={use_fp16!r})",
                "Precision is not reduced by itself",
                "use torch.autocast in train_batch of the operator",
            )
        if scheduler_step_freq not in _FREQUENCIES:
            raise ValueError(
                f"scheduler_step_freq={scheduler_step_freq!r}: expected 'batch', 'epoch' or 'manual'."
            )
        self._operator = _operator_of(training_operator_cls, creators)
        self.config = dict(config or {})
        if BATCH_SIZE in self.config:
            self.config[BATCH_SIZE] = _part(self.config[BATCH_SIZE], num_workers)
        self._hook = initialization_hook
        self._options = OperatorOptions(wrap_ddp, add_dist_sampler, scheduler_step_freq)
        if not ray.is_initialized():
            ray.init()
        gpus = (
            ray.cluster_resources().get("GPU", 0) >= num_workers if use_gpu == "auto" else use_gpu
        )
        self._scaling = ScalingConfig(
            num_workers=num_workers,
            use_gpu=bool(gpus),
            resources_per_worker={"CPU": num_cpus_per_worker},
        )
        chosen = None if backend == "auto" else backend
        self._torch = TorchConfig(backend=chosen, timeout_s=int(timeout_s))
        self._group: WorkerGroup | None = None
        self._start(None)

    def _start(self, state: dict[str, Any] | None) -> None:
        """Start the workers, and let them continue from a state."""
        group = WorkerGroup(self._scaling, RayTrainWorker, {}, group_of_trial(self._scaling))
        self._group = group
        try:
            group.start()
            if len(group) > 1:
                self._torch.backend_cls().on_start(group, self._torch)
            ray.get(
                [
                    group.execute_single_async(
                        each.rank,
                        worker.set_up,
                        self._operator,
                        self.config,
                        (each.rank, each.local_rank, len(group)),
                        self._options,
                        self._hook,
                    )
                    for each in group.workers
                ]
            )
            if state is not None:
                group.execute(worker.load, state)
        except BaseException:
            self.shutdown(force=True)
            raise

    @property
    def _workers(self) -> WorkerGroup:
        if self._group is None:
            raise RuntimeError(
                "The trainer was shut down. Make another TorchTrainer, and load() a checkpoint."
            )
        return self._group

    def train(
        self,
        num_steps: int | None = None,
        profile: bool = False,
        reduce_results: bool = True,
        max_retries: int = 3,
        info: dict[str, Any] | None = None,
        dataset: Any = None,
    ) -> Any:
        """Train for an epoch on all workers.

        Parameters
        ----------
        num_steps : int, optional
            Batches of each worker. By default all.
        profile : bool, default False
            Has no effect.
        reduce_results : bool, default True
            Return the mean of the workers' metrics, and not a list.
        max_retries : int, default 3
            How often the epoch begins again when a worker dies.
        info : dict, optional
            For the operator.
        dataset : raycompat._old.sgd.torch_dataset.Dataset, optional
            What to train on, and not the operator's data. Each worker gets a shard.

        Raises
        ------
        RayTaskError
            When the operator raised.
        RayError
            When workers died too often.
        """
        if dataset is not None:
            dataset.set_num_shards(len(self._workers))
        before = self.state_dict() if max_retries else None
        for left in range(max_retries, -1, -1):
            try:
                group = self._workers
                shards = [dataset and dataset.get_shard(rank) for rank in range(len(group))]
                metrics = ray.get(
                    [
                        group.execute_single_async(rank, worker.train, num_steps, info, shard)
                        for rank, shard in enumerate(shards)
                    ]
                )
                break
            except RayTaskError:
                raise
            except RayError as error:
                if not left:
                    raise
                logger.warning("A worker died: %s. The epoch begins again.", error)
                self.shutdown(force=True)
                self._start(before)
        return _mean_of(metrics) if reduce_results else metrics

    def validate(
        self,
        num_steps: int | None = None,
        profile: bool = False,
        reduce_results: bool = True,
        info: dict[str, Any] | None = None,
    ) -> Any:
        """Return the metrics of the data for validation; parameters as of `train`."""
        metrics = self._workers.execute(worker.validate, num_steps, info)
        return _mean_of(metrics) if reduce_results else metrics

    def update_scheduler(self, metric: float) -> None:
        """Let the schedulers make a step by a metric, such as a loss."""
        self._workers.execute(worker.step_schedulers, metric)

    def apply_all_workers(self, fn: Callable[[], Any]) -> list[Any]:
        """Call a function on each worker; return the results."""
        return self._workers.execute(fn)

    def apply_all_operators(self, fn: Callable[[Any], Any]) -> list[Any]:
        """Call a function of each worker's operator; return the results."""
        return self._workers.execute(worker.apply_to_operator, fn)

    def get_model(self, to_cpu: bool = False) -> Any:
        """Return a copy of the model, or of all as a list, on the CPU."""
        models: list[Any] = self._workers.execute_single(0, worker.models)
        return models[0] if len(models) == 1 else models

    def get_local_operator(self) -> Any:
        """Refuse: no operator is in this process.

        Raises
        ------
        UnsupportedRayFeatureError
            Names `apply_all_operators`.
        """
        raise UnsupportedRayFeatureError(
            "TorchTrainer.get_local_operator",
            "All operators are in other processes",
            "use apply_all_operators(function)",
        )

    def state_dict(self) -> dict[str, Any]:
        """Return all that training continues from."""
        state: dict[str, Any] = self._workers.execute_single(0, worker.state)
        return state

    def load_state_dict(self, state_dict: dict[str, Any], blocking: bool = False) -> None:
        """Let all workers continue from what `state_dict` returned."""
        self._workers.execute(worker.load, state_dict)

    def save(self, checkpoint: str) -> str:
        """Write the state into a file; return its path."""
        torch.save(self.state_dict(), checkpoint)
        return checkpoint

    def load(self, checkpoint: str) -> None:
        """Continue from a file of `save`, which must come from a trusted source."""
        self.load_state_dict(torch.load(checkpoint, map_location="cpu", weights_only=False))

    restore = load

    def shutdown(self, force: bool = False) -> None:
        """End the workers."""
        group, self._group = self._group, None
        if group is not None:
            if not force and len(group) > 1:
                self._torch.backend_cls().on_shutdown(group, self._torch)
            group.stop()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.shutdown()

    @classmethod
    def as_trainable(
        cls,
        override_tune_step: Callable[[TorchTrainer, dict[str, Any]], dict[str, Any]] | None = None,
        **options: Any,
    ) -> type[BaseTorchTrainable]:
        """Return a class that Tune runs: each of its steps trains for an epoch, and validates.

        Parameters
        ----------
        override_tune_step : callable, optional
            Does a step in another way: takes trainer and a dict with ``iteration``, returns metrics.
        **options
            Of the trainer; the trial's config goes before ``config``.
        """
        body: dict[str, Any] = {"_trainer_class": cls, "_options": options}
        body["_step"] = None if override_tune_step is None else staticmethod(override_tune_step)
        return type("TorchTrainable", (BaseTorchTrainable,), body)


class BaseTorchTrainable(Trainable):
    """A `TorchTrainer` as a trainable; see `TorchTrainer.as_trainable`."""

    _trainer_class: type[TorchTrainer]
    _options: dict[str, Any]
    _step: Callable[[TorchTrainer, dict[str, Any]], dict[str, Any]] | None

    @classmethod
    def default_resource_request(cls, config: dict[str, Any]) -> PlacementGroupFactory:
        """Return a bundle for each worker; the trial itself needs none."""
        options = cls._options
        return needs_of_workers(
            options.get("num_workers", 1),
            options.get("num_cpus_per_worker", 1),
            options.get("use_gpu") is True,
        )

    def setup(self, config: dict[str, Any]) -> None:
        """Make the trainer."""
        merged = {**self._options.get("config", {}), **config}
        self._trainer = self._trainer_class(**{**self._options, "config": merged})

    @property
    def trainer(self) -> TorchTrainer:
        """The trainer."""
        return self._trainer

    def step(self) -> dict[str, Any]:
        """Train and validate."""
        if self._step is not None:
            return self._step(self._trainer, {"iteration": self.training_iteration})
        trained = self._trainer.train(max_retries=0, profile=True)
        return {**trained, **self._trainer.validate(profile=True)}

    def save_checkpoint(self, checkpoint_dir: str) -> None:
        """Save the trainer's state."""
        self._trainer.save(f"{checkpoint_dir}/trainer.checkpoint")

    def load_checkpoint(self, checkpoint_path: Any) -> None:
        """Continue from a state."""
        self._trainer.load(f"{checkpoint_path}/trainer.checkpoint")

    def cleanup(self) -> None:
        """End the workers."""
        self._trainer.shutdown()


def _operator_of(
    given: type[TrainingOperator] | None, creators: dict[str, Any]
) -> type[TrainingOperator]:
    unknown = sorted(set(creators) - set(_CREATORS))
    if unknown:
        raise TypeError(
            f"TorchTrainer: unknown options {unknown}: expected one of {list(_CREATORS)}."
        )
    if creators:
        if not {"model_creator", "optimizer_creator"} <= set(creators):
            raise TypeError("TorchTrainer: expected model_creator and optimizer_creator.")
        return (given or TrainingOperator).from_creators(**creators)
    if given is None:
        raise TypeError(
            "TorchTrainer: expected training_operator_cls, such as "
            "TrainingOperator.from_creators(model_creator, optimizer_creator)."
        )
    return given


def _part(batch_size: int, num_workers: int) -> int:
    if batch_size < num_workers:
        raise ValueError(
            f"config[{BATCH_SIZE!r}]={batch_size}: expected at least one sample for each of the "
            f"{num_workers} workers."
        )
    return batch_size // num_workers


def _mean_of(found: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the mean of the workers' numbers; of other values the first."""
    merged = dict(found[0])
    for name, value in found[0].items():
        if isinstance(value, numbers.Number):
            values = [
                float(each[name]) for each in found if not math.isnan(each.get(name, math.nan))
            ]
            if any(each != values[0] for each in values):
                merged[name] = sum(values) / len(values)
    if NUM_SAMPLES in merged:
        merged[NUM_SAMPLES] = sum(each.get(NUM_SAMPLES, 0) for each in found)
    return merged


__all__ = ["BaseTorchTrainable", "TorchTrainer"]
