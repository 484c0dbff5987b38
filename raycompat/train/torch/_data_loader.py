"""Data loaders: the part of a worker, and batches on a GPU."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch.utils.data import (
    DataLoader,
    DistributedSampler,
    IterableDataset,
    RandomSampler,
    SequentialSampler,
)

_END = object()


def can_divide(loader: torch.utils.data.DataLoader) -> bool:
    """Whether the loader's rows have an order, and are not divided already.

    Raises
    ------
    ValueError
        When a batch sampler of the program's decides on the batches.
    """
    if isinstance(loader.dataset, IterableDataset) or isinstance(
        loader.sampler, DistributedSampler
    ):
        return False
    # A loader that was given a batch sampler does not know a batch size.
    if loader.batch_size is None and loader.batch_sampler is not None:
        if isinstance(getattr(loader.batch_sampler, "sampler", None), DistributedSampler):
            return False
        raise ValueError(
            f"prepare_data_loader cannot divide the batches of {loader.batch_sampler!r}. Put a "
            "DistributedSampler into the batch sampler, or pass add_dist_sampler=False: then each "
            "worker reads all."
        )
    return True


def has_default_sampler(loader: torch.utils.data.DataLoader) -> bool:
    """Whether the sampler is one that PyTorch makes from the option ``shuffle``."""
    return isinstance(loader.sampler, SequentialSampler | RandomSampler)


def divided(
    loader: torch.utils.data.DataLoader, size: int, rank: int
) -> torch.utils.data.DataLoader:
    """Return a loader with the same options, for the part of one of `size` workers."""
    shuffle = not isinstance(loader.sampler, SequentialSampler)
    return with_sampler(loader, DistributedSampler(loader.dataset, size, rank, shuffle=shuffle))


def with_sampler(
    loader: torch.utils.data.DataLoader, sampler: torch.utils.data.Sampler
) -> torch.utils.data.DataLoader:
    """Return a loader with the same options and another sampler."""
    more: dict[str, object] = {}
    if loader.num_workers:  # without processes PyTorch does not take these
        more = {
            "multiprocessing_context": loader.multiprocessing_context,
            "persistent_workers": loader.persistent_workers,
            "prefetch_factor": loader.prefetch_factor,
        }
    return DataLoader(
        loader.dataset,
        batch_size=loader.batch_size,
        sampler=sampler,
        num_workers=loader.num_workers,
        collate_fn=loader.collate_fn,
        pin_memory=loader.pin_memory,
        drop_last=loader.drop_last,
        timeout=loader.timeout,
        worker_init_fn=loader.worker_init_fn,
        generator=loader.generator,
        **more,
    )


class DeviceLoader(DataLoader):
    """The batches of a loader, moved to a device.

    Parameters
    ----------
    loader : DataLoader
        The loader, whose attributes this one has too.
    device : torch.device
        Where the batches go.
    in_background : bool
        Whether the next batch is copied on a separate stream while one is used.
    """

    def __init__(
        self, loader: torch.utils.data.DataLoader, device: torch.device, *, in_background: bool
    ) -> None:
        # Not the constructor, which would make samplers again.
        self.__dict__.update(loader.__dict__)
        self.__dict__.update(
            _loader=loader, _device=device, _in_background=in_background and device.type == "cuda"
        )

    def __len__(self) -> int:
        return len(self._loader)

    def __iter__(self) -> Iterator[Any]:
        stream = torch.cuda.Stream(self._device) if self._in_background else None
        copies = self._copies(stream)
        following = next(copies, _END)
        while following is not _END:
            batch = _ready(following, stream)
            # After the wait for this batch, which would include the copy of the next one.
            following = next(copies, _END)
            yield batch

    def _copies(self, stream: torch.cuda.Stream) -> Iterator[Any]:
        for batch in self._loader:
            with torch.cuda.stream(stream):  # without a stream: the current one
                copy = moved(batch, self._device, non_blocking=stream is not None)
            yield copy


def moved(value: object, device: torch.device, *, non_blocking: bool) -> Any:
    """Return a batch with its tensors on a device; what is not a tensor stays as it is."""
    if isinstance(value, torch.Tensor):
        return value.to(device, non_blocking=non_blocking)
    if isinstance(value, Mapping):
        return {key: moved(each, device, non_blocking=non_blocking) for key, each in value.items()}
    if isinstance(value, tuple | list):
        found = [moved(each, device, non_blocking=non_blocking) for each in value]
        if hasattr(value, "_fields"):  # a named tuple
            return type(value)(*found)
        return tuple(found) if isinstance(value, tuple) else found
    return value


def _ready(batch: object, stream: torch.cuda.Stream) -> Any:
    """Let the current stream wait for the copy of a batch, and return the batch."""
    if stream is not None:
        current = torch.cuda.current_stream(stream.device)
        current.wait_stream(stream)
        for tensor in _tensors(batch):
            tensor.record_stream(current)  # its memory is not reused while this stream needs it
    return batch


def _tensors(value: object) -> Iterator[Any]:
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, Mapping):
        for each in value.values():
            yield from _tensors(each)
    elif isinstance(value, tuple | list):
        for each in value:
            yield from _tensors(each)
