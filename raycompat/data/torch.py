"""Tensors of PyTorch, which is imported when one of these is called."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias, TypeGuard

import numpy as np

from raycompat._pytorch import imported
from raycompat._upper import upper
from raycompat.data import batch, block
from raycompat.data.block import Block, require_columns
from raycompat.data.collate_fn import ArrowBatchCollateFn, PandasBatchCollateFn

if TYPE_CHECKING:
    import torch

#: A batch as tensors, by column.
Tensors: TypeAlias = "dict[str, torch.Tensor]"

#: The type of the tensors: one for all, or by column.
TorchDtypes: TypeAlias = "torch.dtype | Mapping[str, torch.dtype]"

#: The type of the tensors of `to_torch`: one for all, or for each tensor, in the form of the columns.
ColumnDtypes: TypeAlias = "TorchDtypes | Sequence[torch.dtype]"

_USER = "This part of raycompat.data"

#: Bytes of the tables that are converted together, and then divided into batches. The memory of larger
#: copies comes fresh from the kernel each time, page by page, which takes longer than the copies.
_CONVERTED_BYTES = 128 * 2**10


def device_of(device: str | torch.device) -> torch.device:
    """Return a ``torch.device``; ``"auto"`` is that of a worker of Train, and elsewhere the CPU."""
    torch = imported(_USER)
    if device != "auto":
        return torch.device(device)
    session = sys.modules.get("raycompat.train._session")
    if session is None or not session.is_entered():
        return torch.device("cpu")
    return upper("train.torch").get_device()


class Converter:
    """Makes batches of tensors from tables.

    Parameters
    ----------
    dtypes : torch.dtype or dict of str to torch.dtype, optional
        The types of the tensors, for all or by column.
    device : str or torch.device
        Where they go.
    pin_memory : bool
        Whether they are first copied into page-locked memory, from which a GPU can fetch them while the
        program goes on.
    """

    def __init__(
        self, dtypes: TorchDtypes | None, device: str | torch.device, pin_memory: bool
    ) -> None:
        self._dtypes = dtypes
        self._device = device_of(device)
        self._pin_memory = pin_memory

    def __call__(self, table: Block) -> Tensors:
        """Return the columns as tensors."""
        return self._tensors(block.to_numpy(table))

    def batches(
        self, tables: Iterable[Block], batch_size: int, drop_last: bool
    ) -> Iterator[Tensors]:
        """Yield batches that are cut from larger ones: a conversion takes longer than many cuts."""
        for table in batch.of_whole_batches(tables, batch_size, _CONVERTED_BYTES):
            arrays = block.to_numpy(table)
            if any(values.dtype == object for values in arrays.values()):
                # Lists that have one length in each batch need not have it in all.
                yield from map(self, batch.sized([table], batch_size, drop_last))
                continue
            whole = self._tensors(arrays)
            columns = [tensor.split(batch_size) for tensor in whole.values()]
            for tensors in zip(*columns, strict=True):
                if len(tensors[0]) == batch_size or not drop_last:
                    yield dict(zip(whole, tensors, strict=True))

    def _tensors(self, arrays: Mapping[str, np.ndarray]) -> Tensors:
        dtypes = self._dtypes
        return {
            name: self._moved(
                to_tensor(
                    values,
                    dtypes.get(name) if isinstance(dtypes, Mapping) else dtypes,
                    pin_memory=self._pin_memory,
                )
            )
            for name, values in arrays.items()
        }

    def _moved(self, tensor: torch.Tensor) -> torch.Tensor:
        return tensor.to(self._device, non_blocking=self._pin_memory)

    def collated(self, collate: Callable[[Any], object]) -> Callable[[Block], Any]:
        """Return a function that makes batches by a function of the program's."""
        batch_format = "numpy"
        if isinstance(collate, ArrowBatchCollateFn):
            batch_format = "pyarrow"
        elif isinstance(collate, PandasBatchCollateFn):
            batch_format = "pandas"
        elif not callable(collate):
            raise ValueError(
                f"collate_fn={collate!r}: expected a function of a batch, or an instance of "
                "ArrowBatchCollateFn, NumpyBatchCollateFn or PandasBatchCollateFn."
            )

        def convert(table: Block) -> Any:
            return self._placed(collate(batch.formatted(table, batch_format)))

        return convert

    def _placed(self, value: Any) -> Any:
        """Move what a program's function returned, if it consists of tensors alone."""
        if _is_tensor(value):
            return self._moved(value.pin_memory() if self._pin_memory else value)
        if isinstance(value, Mapping):
            parts = list(value.values())
            if all(map(_is_tensor, parts)) or all(map(_are_tensors, parts)):
                return {name: self._joined(part) for name, part in value.items()}
        elif _are_tensors(value) or (
            isinstance(value, list | tuple) and all(map(_are_tensors, value))
        ):
            return type(value)([self._joined(part) for part in value])
        return value

    def _joined(self, part: torch.Tensor | Sequence[torch.Tensor]) -> torch.Tensor:
        """Return a tensor, or the pieces of one, as a tensor on the device."""
        whole = part if _is_tensor(part) else imported(_USER).cat(list(part))
        return self._placed(whole)


def _is_tensor(value: object) -> TypeGuard[torch.Tensor]:
    return isinstance(value, imported(_USER).Tensor)


def _are_tensors(value: object) -> bool:
    return isinstance(value, list | tuple) and all(map(_is_tensor, value))


def to_tensor(
    values: np.ndarray, dtype: torch.dtype | None, *, pin_memory: bool = False
) -> torch.Tensor:
    """Return an array as a tensor.

    Raises
    ------
    TypeError
        When the rows are text.
    RuntimeError
        When they are other objects, or arrays of several shapes.
    """
    torch = imported(_USER)
    if values.dtype == object:
        values = _stacked(values)
    if values.flags.writeable:
        tensor = torch.as_tensor(values, dtype=dtype)
        return tensor.pin_memory() if pin_memory else tensor
    # The object store's memory. PyTorch does not know of memory that cannot be written: an operation in
    # place would end the process.
    return torch.tensor(values, dtype=dtype, pin_memory=pin_memory)


def _stacked(values: np.ndarray) -> np.ndarray:
    rows = list(values)
    if all(isinstance(row, np.ndarray) for row in rows) and len({row.shape for row in rows}) == 1:
        return np.stack(rows)
    shown = repr(rows[0]) if len(repr(rows[0])) < 80 else type(rows[0]).__name__
    error = TypeError if isinstance(rows[0], str) else RuntimeError
    raise error(
        f"A column of rows such as {shown} cannot be a tensor: they are text, missing, or arrays of "
        "several shapes. Leave it out with select_columns, or pass collate_fn, a function that makes "
        "tensors from a batch."
    )


# `to_torch`.

Columns = list[str] | list[list[str]] | dict[str, list[str]] | None


def check_dtypes(columns: Columns, dtypes: ColumnDtypes | None) -> None:
    """Raise for types that do not have the form of the columns.

    Raises
    ------
    TypeError, ValueError
        When they do not.
    """
    torch = imported(_USER)
    if dtypes is None or isinstance(dtypes, torch.dtype):
        return
    if isinstance(columns, dict):
        form, fits = "a dict", isinstance(dtypes, dict)
    elif columns and not isinstance(columns[0], str):
        form, fits = "a list of lists", isinstance(dtypes, list | tuple)
    else:
        form, fits = "a list of names", False
    if not fits:
        raise TypeError(
            f"feature_column_dtypes={dtypes!r} does not fit feature_columns, {form}: expected one "
            f"torch.dtype{'' if form == 'a list of names' else ', or one for each of its entries'}."
        )
    assert columns is not None
    same = set(dtypes) == set(columns) if isinstance(dtypes, dict) else len(dtypes) == len(columns)
    if not same:
        raise ValueError(
            f"feature_column_dtypes={dtypes!r} and feature_columns={columns!r} have different entries."
        )


def features_and_labels(
    table: Block,
    columns: Columns,
    dtypes: ColumnDtypes | None,
    label: tuple[str, torch.dtype | None] | None,
    *,
    add_axis: tuple[bool, bool],
) -> tuple[Any, Any]:
    """Return the tensors of a batch; for the parameters see `DataIterator.to_torch`."""
    to_features, to_labels = add_axis
    labels = None
    if label is not None:
        name, dtype = label
        labels = _joined_columns(table, [name], dtype, add_axis=to_labels)
    if not columns:
        names = [name for name in table.column_names if label is None or name != label[0]]
        return _joined_columns(table, names, dtypes, add_axis=to_features), labels
    if isinstance(columns, dict):
        by_key = dtypes if isinstance(dtypes, dict) else dict.fromkeys(columns, dtypes)
        features: object = {
            key: _joined_columns(table, names, by_key[key], add_axis=to_features)
            for key, names in columns.items()
        }
    elif isinstance(columns[0], str):
        features = _joined_columns(table, columns, dtypes, add_axis=to_features)
    else:
        each = dtypes if isinstance(dtypes, list | tuple) else [dtypes] * len(columns)
        features = [
            _joined_columns(table, names, dtype, add_axis=to_features)
            for names, dtype in zip(columns, each, strict=True)
        ]
    return features, labels


def _joined_columns(
    table: Block, names: Sequence[str], dtype: torch.dtype | None, *, add_axis: bool
) -> torch.Tensor:
    """Return columns as one tensor, next to each other along its second axis."""
    require_columns(names, table.column_names, "to_torch")
    arrays = block.to_numpy(table.select(list(names)))
    tensors = [to_tensor(values, dtype) for values in arrays.values()]
    if add_axis:
        tensors = [tensor.unsqueeze(1) for tensor in tensors]
    return tensors[0] if len(tensors) == 1 else imported(_USER).cat(tensors, dim=1)


def to_iterable_dataset(batches: Iterable[object]) -> torch.utils.data.IterableDataset:
    """Return a ``torch.utils.data.IterableDataset`` of batches."""
    torch = imported(_USER)

    class Batches(torch.utils.data.IterableDataset):  # type: ignore[name-defined]
        def __iter__(self) -> Iterator[object]:
            return iter(batches)

    return Batches()
