"""The kinds of functions that make tensors from batches, for `iter_torch_batches`."""

from __future__ import annotations

import abc
from typing import Any, Generic, TypeVar

from raycompat._surface.modules import names_of

#: The type of the batches that a function takes.
DataBatchType = TypeVar("DataBatchType")


class CollateFn(abc.ABC, Generic[DataBatchType]):
    """Makes tensors from a batch. Inherit from one of the three classes below.

    Examples
    --------
    In a program with PyTorch; a subclass says in which form it takes batches::

        class Pair(NumpyBatchCollateFn):
            def __call__(self, batch):
                return torch.as_tensor(batch["x"]), torch.as_tensor(batch["y"])


        for x, y in rows.iter_torch_batches(batch_size=32, collate_fn=Pair()):
            loss = compute_loss(model(x), y)
    """

    @abc.abstractmethod
    def __call__(self, batch: DataBatchType) -> Any:
        """Return the tensors of a batch, alone or in a list, tuple or dictionary; or anything else."""


class ArrowBatchCollateFn(CollateFn[Any]):
    """Takes a batch as a ``pyarrow.Table``.

    Examples
    --------
    In a program with PyTorch::

        class Ids(ArrowBatchCollateFn):
            def __call__(self, batch):
                return torch.as_tensor(batch["id"].to_pylist())
    """


class NumpyBatchCollateFn(CollateFn[Any]):
    """Takes a batch as a dictionary of arrays, which may be read-only.

    Examples
    --------
    In a program with PyTorch::

        class Scaled(NumpyBatchCollateFn):
            def __call__(self, batch):
                return torch.as_tensor(batch["image"] / 255)
    """


class PandasBatchCollateFn(CollateFn[Any]):
    """Takes a batch as a ``pandas.DataFrame``.

    Examples
    --------
    In a program with PyTorch::

        class Features(PandasBatchCollateFn):
            def __call__(self, batch):
                return torch.as_tensor(batch.drop(columns="y").to_numpy())
    """


#: Names that raycompat does without.
__getattr__ = names_of(__name__)
