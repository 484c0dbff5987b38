"""The part of ``ray.util.sgd.torch.TorchTrainer`` that runs in a worker's process."""

from __future__ import annotations

import copy
import inspect
import itertools
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import torch

from raycompat._old.sgd.operator import OperatorOptions, TrainingOperator
from raycompat.train.torch import _process_group


class _Work:
    """A worker's operator, and the number of its epochs.

    Parameters
    ----------
    operator : TrainingOperator
    """

    def __init__(self, operator: TrainingOperator) -> None:
        self.operator = operator
        self.num_epochs = 0


#: The work of this process.
_work: _Work | None = None


def _current() -> _Work:
    assert _work is not None, "the trainer has not set this worker up"
    return _work


def set_up(
    make_operator: type[TrainingOperator],
    config: dict[str, Any],
    ranks: tuple[int, int, int],
    options: OperatorOptions,
    hook: Callable[[], Any] | None,
) -> None:
    """Make the operator; `ranks` are the worker's rank, its rank on the node, and the number of all."""
    global _work
    if hook is not None:
        hook()
    rank, local_rank, size = ranks
    device = _process_group.devices()[0]
    _work = _Work(make_operator(config, rank, local_rank, options, device, size))


def train(
    num_steps: int | None,
    info: dict[str, Any] | None,
    shard: Iterable[list[tuple[torch.Tensor, torch.Tensor]]] | None = None,
) -> dict[str, Any]:
    """Train for an epoch, on batches of pairs if there are any; return its metrics."""
    work = _current()
    loader = work.operator._train_loader if shard is None else map(_stacked, shard)
    if loader is None:
        raise RuntimeError(
            "The operator has no data to train on. Call register_data(train_loader=...) in its setup()."
        )
    sampler: Any = getattr(loader, "sampler", None)
    has_epochs = hasattr(sampler, "set_epoch")
    if has_epochs:
        sampler.set_epoch(work.num_epochs)
    batches = iter(loader) if num_steps is None else itertools.islice(iter(loader), num_steps)
    if not has_epochs and any(map(_is_averaged, work.operator._models)):
        batches = _in_step(batches, work.operator.device)
    # Methods of users often take the first two alone.
    given = {"info": info or {}, "num_steps": num_steps, "epoch_idx": work.num_epochs}
    found = _called(work.operator.train_epoch, batches, given)
    work.num_epochs += 1
    return {"epoch": work.num_epochs, **found}


def _in_step(batches: Iterator[Any], device: torch.device) -> Iterator[Any]:
    """Yield the batches, as long as all workers have one.

    A worker that has another batch would wait for the gradients of one that has none.

    Raises
    ------
    ValueError
        When some workers have another batch, and some do not.
    """
    size = torch.distributed.get_world_size()
    for number in itertools.count():
        of_batch = list(itertools.islice(batches, 1))
        have_one = torch.tensor(len(of_batch), device=device)
        torch.distributed.all_reduce(have_one)
        if 0 < have_one < size:
            raise ValueError(
                f"After {number} batches, {have_one} of {size} workers have another one. They train "
                "together: expected the same number of batches for each. Give data whose number of "
                f"batches is divisible by {size}, or end all workers early with train(num_steps=...)."
            )
        if not of_batch:
            return
        yield of_batch[0]


def _stacked(pairs: list[tuple[torch.Tensor, torch.Tensor]]) -> tuple[torch.Tensor, ...]:
    return tuple(torch.cat(each) for each in zip(*pairs, strict=True))


def validate(num_steps: int | None, info: dict[str, Any] | None) -> dict[str, Any]:
    """Return the metrics of the data for validation."""
    operator = _current().operator
    loader = operator._validation_loader
    if loader is None:
        raise RuntimeError(
            "The operator has no data for validation. Call register_data(validation_loader=...) in its "
            "setup()."
        )
    batches = iter(loader) if num_steps is None else itertools.islice(iter(loader), num_steps)
    return _called(operator.validate, batches, {"info": info or {}})


def _called(method: Callable[..., Any], batches: Any, given: dict[str, Any]) -> dict[str, Any]:
    names = inspect.signature(method).parameters
    found: dict[str, Any] = method(batches, **{k: v for k, v in given.items() if k in names})
    return found


def state() -> dict[str, Any]:
    """Return all that training continues from."""
    work = _current()
    operator = work.operator
    return {
        "epoch": work.num_epochs,
        "operator": operator.state_dict(),
        "models": [_bare(model).state_dict() for model in operator._models],
        "optimizers": [each.state_dict() for each in operator._optimizers],
        "schedulers": [each.state_dict() for each in operator._schedulers],
    }


def load(found: dict[str, Any]) -> None:
    """Continue from what `state` returned."""
    work = _current()
    operator = work.operator
    work.num_epochs = found["epoch"]
    operator.load_state_dict(found["operator"])
    for model, each in zip(operator._models, found["models"], strict=True):
        _bare(model).load_state_dict(each)
    for kind in ("optimizers", "schedulers"):
        for part, each in zip(getattr(operator, f"_{kind}"), found[kind], strict=True):
            part.load_state_dict(each)


def models() -> list[Any]:
    """Return copies of the models, on the CPU."""
    return [copy.deepcopy(_bare(model)).cpu() for model in _current().operator._models]


def _bare(model: Any) -> Any:
    """Return a model without what averages its gradients."""
    return model.module if _is_averaged(model) else model


def _is_averaged(model: Any) -> bool:
    return isinstance(model, torch.nn.parallel.DistributedDataParallel)


def step_schedulers(metric: float) -> None:
    """Let the schedulers make a step by a metric."""
    for scheduler in _current().operator._schedulers:
        scheduler.step(metric)


def apply_to_operator(function: Callable[[Any], Any]) -> Any:
    """Call a function of the operator."""
    return function(_current().operator)
