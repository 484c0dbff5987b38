"""`TrainingOperator` of ``ray.util.sgd.torch``: a worker's models, data and steps."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils.data import DataLoader, DistributedSampler, IterableDataset

from raycompat._old.sgd.meters import NUM_SAMPLES, AverageMeterCollection
from raycompat.train.torch._data_loader import with_sampler


@dataclass(frozen=True)
class OperatorOptions:
    """What a trainer tells the operators of its workers.

    Parameters
    ----------
    wraps_models : bool
        Whether the workers' gradients are averaged.
    adds_sampler : bool
        Whether each worker gets its part of the data.
    scheduler_step_freq : {"batch", "epoch", "manual"}, optional
        When a scheduler of learning rates makes a step.
    """

    wraps_models: bool = True
    adds_sampler: bool = True
    scheduler_step_freq: str | None = None


class TrainingOperator:
    """Trains a model on a worker; subclasses give `setup`, and what they do in another way.

    Parameters
    ----------
    config : dict
        That of the trainer.
    world_rank, local_rank : int
    options : OperatorOptions
    device : torch.device
    world_size : int

    Notes
    -----
    Ray source: ``ray.util.sgd.torch.TrainingOperator``, 1.12.1. Differs from Ray: no reduced precision
    and no Lightning modules.
    """

    def __init__(
        self,
        config: dict[str, Any],
        world_rank: int,
        local_rank: int,
        options: OperatorOptions,
        device: Any,
        world_size: int,
    ) -> None:
        self._config, self._world_rank, self._local_rank = config, world_rank, local_rank
        self._options, self._device, self._world_size = options, device, world_size
        self._models: list[Any] = []
        self._optimizers: list[Any] = []
        self._schedulers: list[Any] = []
        self._train_loader: Any = None
        self._validation_loader: Any = None
        self.global_step = 0
        self.setup(config)

    def setup(self, config: dict[str, Any]) -> None:
        """Make models, optimizers and data, and call `register` and `register_data`."""
        raise NotImplementedError(
            f"{type(self).__name__} has no setup(self, config): expected one that calls register() "
            "and register_data()."
        )

    def register(
        self,
        *,
        models: Any,
        optimizers: Any,
        criterion: Any = None,
        schedulers: Any = None,
        ddp_args: Mapping[str, Any] | None = None,
        apex_args: Any = None,
    ) -> tuple[Any, ...]:
        """Prepare what is trained.

        Parameters
        ----------
        models : torch.nn.Module or iterable of them
        optimizers : torch.optim.Optimizer or iterable of them
        criterion : callable, optional
            The loss of outputs and targets.
        schedulers : scheduler or iterable of them, optional
            Of learning rates.
        ddp_args : dict, optional
            Of ``DistributedDataParallel``.
        apex_args : optional
            They have no effect.

        Returns
        -------
        tuple
            Models, optimizers, and criterion and schedulers if given, in the form in which they were
            given.
        """
        self._models = [self._prepared(model, ddp_args or {}) for model in _listed(models)]
        self._optimizers = _listed(optimizers)
        self._schedulers = _listed(schedulers)
        found = [_as_given(models, self._models), _as_given(optimizers, self._optimizers)]
        if criterion is not None:
            is_module = isinstance(criterion, torch.nn.Module)
            found.append(criterion.to(self._device) if is_module else criterion)
        if schedulers is not None:
            if self.scheduler_step_freq is None:
                raise ValueError(
                    "scheduler_step_freq=None: the operator registers a scheduler. Expected "
                    "TorchTrainer(..., scheduler_step_freq='epoch'), 'batch' or 'manual'."
                )
            found.append(_as_given(schedulers, self._schedulers))
        return tuple(found)

    def _prepared(self, model: Any, ddp_args: Mapping[str, Any]) -> Any:
        model.to(self._device)
        if not self._options.wraps_models or self._world_size == 1:
            return model
        ids = [self._device.index] if self._device.type == "cuda" else None
        return torch.nn.parallel.DistributedDataParallel(model, device_ids=ids, **ddp_args)

    def register_data(self, *, train_loader: Any = None, validation_loader: Any = None) -> None:
        """Give the worker its data; of a ``DataLoader`` it gets its part.

        Parameters
        ----------
        train_loader, validation_loader : iterable, optional
        """
        self._train_loader = self._part_of(train_loader)
        self._validation_loader = self._part_of(validation_loader)

    def _part_of(self, loader: Any) -> Any:
        has_parts = isinstance(loader, DataLoader) and not isinstance(
            loader.dataset, IterableDataset
        )
        if not has_parts or not self._options.adds_sampler or self._world_size == 1:
            return loader
        return with_sampler(loader, DistributedSampler(loader.dataset))

    # Steps.

    def train_epoch(
        self,
        iterator: Iterable[Any],
        info: Mapping[str, Any] | None = None,
        num_steps: int | None = None,
        epoch_idx: int = 0,
    ) -> dict[str, Any]:
        """Train on each batch; return the averages of the batches' metrics."""
        self._require("model", "train_epoch")
        self.model.train()  # type: ignore[attr-defined]
        meters = AverageMeterCollection()
        told = {**(info or {}), "num_steps": num_steps, "epoch_idx": epoch_idx, "use_fp16": False}
        for index, batch in enumerate(iterator):
            about = {"batch_idx": index, "global_step": self.global_step, **told}
            metrics = self.train_batch(batch, batch_info=about)
            self._step_schedulers("batch")
            meters.update(metrics, n=metrics.pop(NUM_SAMPLES, 1))
            self.global_step += 1
        self._step_schedulers("epoch")
        return meters.summary()

    def _step_schedulers(self, when: str) -> None:
        if self.scheduler_step_freq == when and hasattr(self, "scheduler"):
            self.scheduler.step()

    def train_batch(self, batch: Any, batch_info: Mapping[str, Any]) -> dict[str, Any]:
        """Train on one batch, ``(*features, target)``; return its metrics."""
        for name in ("model", "optimizer", "criterion"):
            self._require(name, "train_batch")
        *features, target = self._moved(batch)
        loss = self.criterion(self.model(*features), target)  # type: ignore[attr-defined]
        self.optimizer.zero_grad()  # type: ignore[attr-defined]
        loss.backward()
        self.optimizer.step()  # type: ignore[attr-defined]
        return {"train_loss": loss.item(), NUM_SAMPLES: target.size(0)}

    def validate(
        self, val_iterator: Iterable[Any], info: Mapping[str, Any] | None = None
    ) -> dict[str, Any]:
        """Return the averages of the metrics of each batch, without training."""
        self._require("model", "validate")
        self.model.eval()  # type: ignore[attr-defined]
        meters = AverageMeterCollection()
        with torch.no_grad():
            for index, batch in enumerate(val_iterator):
                metrics = self.validate_batch(batch, {"batch_idx": index, **(info or {})})
                meters.update(metrics, n=metrics.pop(NUM_SAMPLES, 1))
        return meters.summary()

    def validate_batch(self, batch: Any, batch_info: Mapping[str, Any]) -> dict[str, Any]:
        """Return loss and accuracy of a batch."""
        for name in ("model", "criterion"):
            self._require(name, "validate_batch")
        *features, target = self._moved(batch)
        output = self.model(*features)  # type: ignore[attr-defined]
        loss = self.criterion(output, target)  # type: ignore[attr-defined]
        correct = (torch.max(output.data, 1)[1] == target).sum().item()
        num_samples = target.size(0)
        return {
            "val_loss": loss.item(),
            "val_accuracy": correct / num_samples if num_samples else 0.0,
            NUM_SAMPLES: num_samples,
        }

    def _moved(self, batch: Any) -> list[Any]:
        return [part.to(self._device, non_blocking=True) for part in batch]

    def _require(self, name: str, method: str) -> None:
        if not hasattr(self, name):
            raise RuntimeError(
                f"{type(self).__name__} has no attribute {name!r}, which {method}() needs. Set "
                f"self.{name} in setup(), or write your own {method}()."
            )

    def state_dict(self) -> dict[str, Any]:
        """Return what a subclass wants in checkpoints beside models, optimizers and schedulers."""
        return {}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take what `state_dict` returned."""

    # What it knows.

    @property
    def config(self) -> dict[str, Any]:
        """The trainer's config."""
        return self._config

    @property
    def device(self) -> Any:
        """The device of the models."""
        return self._device

    @property
    def device_ids(self) -> list[int] | None:
        """The number of the GPU, in a list; None without one."""
        return [self._device.index] if self._device.type == "cuda" else None

    @property
    def world_rank(self) -> int:
        """The number of the worker."""
        return self._world_rank

    @property
    def local_rank(self) -> int:
        """The number of the worker on its node."""
        return self._local_rank

    @property
    def use_gpu(self) -> bool:
        """Whether the models are on a GPU."""
        return bool(self._device.type == "cuda")

    @property
    def use_fp16(self) -> bool:
        """Whether precision is reduced: it is not."""
        return False

    use_fp16_apex = use_fp16_native = use_tqdm = use_fp16

    @property
    def scheduler_step_freq(self) -> str | None:
        """When schedulers make a step."""
        return self._options.scheduler_step_freq

    @classmethod
    def from_creators(
        cls,
        model_creator: Callable[[dict[str, Any]], Any],
        optimizer_creator: Callable[[Any, dict[str, Any]], Any],
        data_creator: Callable[[dict[str, Any]], Any] | None = None,
        loss_creator: Any = None,
        scheduler_creator: Callable[[Any, dict[str, Any]], Any] | None = None,
        serialize_data_creation: bool = True,
    ) -> type[TrainingOperator]:
        """Return a subclass whose parts are made by functions of the config.

        Parameters
        ----------
        model_creator : callable
            Returns a model or several.
        optimizer_creator : callable
            Returns optimizers of models and config.
        data_creator : callable, optional
            Returns a loader for training, or one for training and one for validation.
        loss_creator : callable, class or module, optional
            Returns the loss; or a class of ``torch.nn``, or an object of one.
        scheduler_creator : callable, optional
            Returns schedulers of optimizers and config.
        serialize_data_creation : bool, default True
            Whether workers of one node make their data one after the other.
        """
        body = {
            "_creators": (
                model_creator,
                optimizer_creator,
                data_creator,
                loss_creator,
                scheduler_creator,
                serialize_data_creation,
            )
        }
        bases = (cls,) if issubclass(cls, CreatorOperator) else (CreatorOperator, cls)
        if cls is TrainingOperator:
            bases = (CreatorOperator,)
        return type("CreatedOperator", bases, body)


class CreatorOperator(TrainingOperator):
    """An operator whose parts are made by functions; see `TrainingOperator.from_creators`."""

    _creators: tuple[Any, ...]

    def setup(self, config: dict[str, Any]) -> None:
        """Make the parts."""
        model_creator, optimizer_creator, data, loss, scheduler_creator, in_turn = self._creators
        models = model_creator(config)
        optimizers = optimizer_creator(models, config)
        schedulers = scheduler_creator(optimizers, config) if scheduler_creator else None
        found = list(
            self.register(
                models=models,
                optimizers=optimizers,
                criterion=_loss(loss, config),
                schedulers=schedulers,
            )
        )
        self.models, self.optimizers = found[:2]
        self.model, self.optimizer = _first(found[0]), _first(found[1])
        if loss is not None:
            self.criterion = found[2]
        if schedulers is not None:
            self.schedulers = found[-1]
            self.scheduler = _first(found[-1])
        if data is not None:
            loaders = _in_turn(data, config) if in_turn else data(config)
            train, validation = loaders if isinstance(loaders, tuple | list) else (loaders, None)
            self.register_data(train_loader=train, validation_loader=validation)


def _in_turn(create: Callable[[dict[str, Any]], Any], config: dict[str, Any]) -> Any:
    """Make data while no other worker of this node does: it may be downloaded to one folder."""
    import tempfile
    from pathlib import Path

    from filelock import FileLock

    with FileLock(Path(tempfile.gettempdir(), "raycompat-sgd-data.lock")):
        return create(config)


def _loss(creator: Any, config: dict[str, Any]) -> Any:
    if creator is None or isinstance(creator, torch.nn.Module):
        return creator
    if inspect.isclass(creator) and issubclass(creator, torch.nn.Module):
        return creator()
    return creator(config)


def _listed(given: Any) -> list[Any]:
    if given is None:
        return []
    return list(given) if isinstance(given, list | tuple) else [given]


def _as_given(given: Any, found: list[Any]) -> Any:
    return found if isinstance(given, list | tuple) else found[0]


def _first(found: Any) -> Any:
    return found[0] if isinstance(found, list) else found


__all__ = ["CreatorOperator", "TrainingOperator"]
