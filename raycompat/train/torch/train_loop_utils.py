"""The functions for training functions with PyTorch: devices, models, data loaders, seeds."""

from __future__ import annotations

import logging
import os
import random
from typing import TYPE_CHECKING, Any

import numpy as np

from raycompat._pytorch import imported
from raycompat._surface import forms
from raycompat._surface.modules import names_of
from raycompat.exceptions import UnsupportedRayFeatureError
from raycompat.train import _session
from raycompat.train.torch import _process_group

if TYPE_CHECKING:
    import torch

__all__ = [
    "accelerate",
    "backward",
    "enable_reproducibility",
    "get_device",
    "get_devices",
    "prepare_data_loader",
    "prepare_model",
    "prepare_optimizer",
]

_log = logging.getLogger("raycompat.train")

_STRATEGIES = ("ddp", "fsdp", None)


def get_device() -> torch.device:
    """Return the device of this worker: its first GPU, or the CPU.

    Returns
    -------
    torch.device
        For a GPU, its index among those that this process sees.

    Raises
    ------
    RuntimeError
        Outside a training function, or when ``CUDA_VISIBLE_DEVICES`` was changed.

    Examples
    --------
    In a training function::

        device = get_device()
        model = Network().to(device)
    """
    return _devices("torch.get_device")[0]


def get_devices() -> list[torch.device]:
    """Return the devices of this worker: its GPUs, or the CPU.

    Returns
    -------
    list of torch.device
        For GPUs, their indices among those that this process sees.

    Raises
    ------
    RuntimeError
        Outside a training function, or when ``CUDA_VISIBLE_DEVICES`` was changed.

    Examples
    --------
    In a training function::

        first, *others = get_devices()
    """
    return _devices("torch.get_devices")


def _devices(caller: str) -> list[torch.device]:
    session = _session.current(caller)
    if not isinstance(session, _session.LocalSession):
        return _process_group.devices()
    torch = imported("raycompat.train.torch")
    if torch.cuda.is_available():
        return [torch.device("cuda", torch.cuda.current_device())]
    return [torch.device("cpu")]


@forms.takes_old_options("ray.train.torch.prepare_model")
def prepare_model(
    model: torch.nn.Module,
    move_to_device: bool | torch.device = True,
    parallel_strategy: str | None = "ddp",
    parallel_strategy_kwargs: dict[str, Any] | None = None,
) -> torch.nn.Module:
    """Move a model to this worker's device, and let the workers train it together.

    Parameters
    ----------
    model : torch.nn.Module
        The model; each worker builds the same.
    move_to_device : bool or torch.device, default True
        Whether it is moved to this worker's device, or the device that it is moved to.
    parallel_strategy : {"ddp", "fsdp", None}, default "ddp"
        ``DistributedDataParallel``: each worker has a whole copy, and gradients are averaged.
        ``FullyShardedDataParallel``: each worker's GPU has a part of the model. None: the model is not
        wrapped. A single worker's model never is.
    parallel_strategy_kwargs : dict, optional
        Arguments for the class of the strategy.

    Returns
    -------
    torch.nn.Module
        The model, or the strategy's wrapper around it, whose ``module`` is the model.

    Raises
    ------
    ValueError
        When `parallel_strategy` is not one of the three.
    RuntimeError
        Outside a training function, and for fsdp without GPUs.

    Examples
    --------
    In a training function::

        model = prepare_model(Network())
        optimizer = torch.optim.SGD(model.parameters(), 0.1)

    Notes
    -----
    Ray source: ``ray.train.torch.prepare_model``, 2.60.0. Differs: an unknown strategy is an error.
    """
    context = _session.current("torch.prepare_model").context
    if parallel_strategy not in _STRATEGIES:
        raise ValueError(
            f"parallel_strategy={parallel_strategy!r}: expected 'ddp', 'fsdp' or None."
        )
    torch = imported("raycompat.train.torch")
    device = move_to_device if isinstance(move_to_device, torch.device) else get_device()
    has_cuda = device.type == "cuda" and torch.cuda.is_available()
    if move_to_device or has_cuda:
        _process_group.check_gpus_exist([device])
    if has_cuda:
        torch.cuda.set_device(device)
    if move_to_device:
        model = model.to(device)
    if parallel_strategy is None or context.get_world_size() == 1:
        return model
    given = parallel_strategy_kwargs or {}
    if parallel_strategy == "ddp":
        if device.type != "cpu":
            given = {"device_ids": [device], "output_device": device, **given}
        return torch.nn.parallel.DistributedDataParallel(model, **given)
    if device.type == "cpu" or not torch.cuda.is_available():
        raise RuntimeError(
            "parallel_strategy='fsdp' needs GPUs, and this worker has none: pass "
            "ScalingConfig(use_gpu=True), or use 'ddp'."
        )
    from torch.distributed.fsdp import FullyShardedDataParallel

    return FullyShardedDataParallel(model, **given)


def prepare_data_loader(
    data_loader: torch.utils.data.DataLoader,
    add_dist_sampler: bool = True,
    move_to_device: bool = True,
    auto_transfer: bool = True,
) -> Any:
    """Give each worker its part of a data loader's rows, on the worker's device.

    Parameters
    ----------
    data_loader : torch.utils.data.DataLoader
        The loader; its batch size is that of each worker.
    add_dist_sampler : bool, default True
        Whether several workers divide the rows, by a ``DistributedSampler``. It shuffles if the loader
        does: call ``loader.sampler.set_epoch(epoch)`` before each epoch, or all have the same order.
        An iterable data set, and a loader that has such a sampler, stay as they are.
    move_to_device : bool, default True
        Whether batches are moved to this worker's device: tensors, also in dictionaries, tuples and
        lists.
    auto_transfer : bool, default True
        Whether the next batch is copied to a GPU while one is used.

    Returns
    -------
    torch.utils.data.DataLoader
        A loader with the options of the given one.

    Raises
    ------
    ValueError
        When the loader has a batch sampler of the program's, which cannot be divided.
    RuntimeError
        Outside a training function.

    Examples
    --------
    In a training function::

        loader = prepare_data_loader(DataLoader(rows, batch_size=32, shuffle=True))
        for x, y in loader:
            loss = compute_loss(model(x), y)

    Notes
    -----
    Ray source: ``ray.train.torch.prepare_data_loader``, 2.60.0. Differs: the loader keeps all its
    options, such as ``prefetch_factor`` and ``persistent_workers``. Ray ignores a batch sampler.
    """
    context = _session.current("torch.prepare_data_loader").context
    imported("raycompat.train.torch")
    from raycompat.train.torch import _data_loader

    if add_dist_sampler and context.get_world_size() > 1 and _data_loader.can_divide(data_loader):
        if not _data_loader.has_default_sampler(data_loader) and context.get_world_rank() == 0:
            _log.warning(
                "prepare_data_loader replaces the sampler %s by a DistributedSampler. To keep it, pass "
                "add_dist_sampler=False.",
                type(data_loader.sampler).__name__,
            )
        data_loader = _data_loader.divided(
            data_loader, context.get_world_size(), context.get_world_rank()
        )
    device = get_device() if move_to_device else None
    if device is None or device.type == "cpu":
        return data_loader
    _process_group.check_gpus_exist([device])
    return _data_loader.DeviceLoader(data_loader, device, in_background=auto_transfer)


def enable_reproducibility(seed: int = 0) -> None:
    """Make this process compute the same each time, as far as PyTorch can.

    PyTorch, NumPy and Python get a seed, from which data loaders' processes get theirs. PyTorch uses
    deterministic algorithms only, which may be slower.

    Parameters
    ----------
    seed : int, default 0
        The seed.

    Examples
    --------
    In a training function, before the model is made::

        enable_reproducibility(seed=1)
    """
    torch = imported("raycompat.train.torch")
    torch.manual_seed(seed)
    random.seed(seed)
    np.random.seed(seed)
    torch.use_deterministic_algorithms(True)
    torch.backends.cudnn.benchmark = False
    # cuBLAS is deterministic only with a workspace of a fixed size.
    os.environ["CUBLAS_WORKSPACE_CONFIG"] = ":4096:8"


def accelerate(amp: bool = False) -> None:
    """Prepare this worker, as in Ray 1.12 to 2.48; without `amp` there is nothing to do.

    Parameters
    ----------
    amp : bool, default False
        Refused: use ``torch.autocast``.

    Raises
    ------
    UnsupportedRayFeatureError
        With `amp`.

    Examples
    --------
    In a training function, with half the precision on GPUs::

        accelerate(amp=True)
        model = prepare_model(Network())
        optimizer = prepare_optimizer(torch.optim.SGD(model.parameters(), 0.1))
        ...
        backward(loss)
        optimizer.step()

    Notes
    -----
    Ray source: ``ray.train.torch.accelerate``, of 1.12 to 2.48. That of 2.60.0 raises.
    """
    _note_old("accelerate")
    if amp:
        raise UnsupportedRayFeatureError(
            "train.torch.accelerate(amp=True)",
            "PyTorch itself has mixed precision",
            "use torch.autocast and torch.amp.GradScaler",
        )


def prepare_optimizer(optimizer: torch.optim.Optimizer) -> torch.optim.Optimizer:
    """Return `optimizer` itself, as in Ray 1.12 to 2.48 without mixed precision.

    Examples
    --------
    In a training function::

        accelerate(amp=True)
        optimizer = prepare_optimizer(torch.optim.SGD(model.parameters(), 0.1))

    Notes
    -----
    Ray source: ``ray.train.torch.prepare_optimizer``, of 1.12 to 2.48. That of 2.60.0 raises.
    """
    _note_old("prepare_optimizer")
    return optimizer


def backward(tensor: torch.Tensor) -> None:
    """Compute the gradients of `tensor`, as in Ray 1.12 to 2.48: the same as ``tensor.backward()``.

    Examples
    --------
    In a training function, in place of ``loss.backward()``::

        backward(loss)
        optimizer.step()

    Notes
    -----
    Ray source: ``ray.train.torch.backward``, of 1.12 to 2.48. That of 2.60.0 raises.
    """
    _note_old("backward")
    tensor.backward()


def _note_old(name: str) -> None:
    forms.used(f"ray.train.torch.{name}()", refusal=DeprecationWarning)


#: Names of older Rays.
__getattr__ = names_of(__name__)
