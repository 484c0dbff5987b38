"""`DataIterator`: rows and batches, one after the other, in the process that reads them."""

from __future__ import annotations

import abc
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import raycompat as ray
from raycompat._old_forms.data import plain_rows, tf, whole_shard
from raycompat._surface import forms
from raycompat._surface.modules import lacks
from raycompat.data import batch, block
from raycompat.data.block import Block, Bundle
from raycompat.data.context import DataContext
from raycompat.data.schema import Schema

if TYPE_CHECKING:
    import torch

    from raycompat.data.block import Row
    from raycompat.data.dataset import MaterializedDataset
    from raycompat.data.tensorflow import TfDtypes, TypeSpecs
    from raycompat.data.torch import ColumnDtypes, TorchDtypes


class Executed(Protocol):
    """A data set, as far as iterators execute it."""

    _context: DataContext

    def _bundles(self) -> Iterator[Bundle]: ...

    def schema(self) -> Schema | None:
        """Return the columns and their types."""

    def stats(self) -> str:
        """Return a text about the last execution."""

    def split(self, n: int, *, equal: bool = False) -> Sequence[Executed]:
        """Execute the plan, and divide its rows into several data sets."""


class Again(Iterable[Any]):
    """Can be iterated over several times: each time makes a new iterator."""

    def __init__(self, make: Callable[[], Iterator[object]]) -> None:
        self._make = make

    def __iter__(self) -> Iterator[Any]:
        return self._make()


def fetched(bundles: Iterable[tuple[Bundle, int, int]], num_ahead: int) -> Iterator[Block]:
    """Yield the blocks' rows; the next blocks are fetched to this host in the background."""
    waiting: deque[tuple[Bundle, int, int]] = deque()
    for bundle, start, stop in bundles:
        waiting.append((bundle, start, stop))
        if len(waiting) > num_ahead:
            yield _fetch(*waiting.popleft())
        elif num_ahead:
            ray.wait([bundle.ref], timeout=0, fetch_local=True)
    while waiting:
        yield _fetch(*waiting.popleft())


def _fetch(bundle: Bundle, start: int, stop: int) -> Block:
    table = ray.get(bundle.ref)
    return table if (start, stop) == (0, table.num_rows) else table.slice(start, stop - start)


@lacks("ray.data.DataIterator", "iter_jax_batches")
class DataIterator(abc.ABC):
    """Reads the rows of a data set, or of a part of it, as often as it is iterated over.

    It may be passed to other processes. `Dataset.iterator` and `Dataset.streaming_split` make it.

    Examples
    --------
    >>> iterator = ray.data.range(5).iterator()
    >>> [row["id"] for row in iterator.iter_rows()]
    [0, 1, 2, 3, 4]
    >>> [len(batch["id"]) for batch in iterator.iter_batches(batch_size=2)]
    [2, 2, 1]
    >>> iterator.schema().names, iterator.materialize().count()
    (['id'], 5)

    Notes
    -----
    Ray source: ``ray.data.DataIterator``, 2.60.0. Differs from Ray: no methods for JAX.
    """

    @abc.abstractmethod
    def _pieces(self) -> Iterator[tuple[Bundle, int, int]]:
        """Yield blocks, and which rows of each."""

    @abc.abstractmethod
    def schema(self) -> Schema | None:
        """Return the columns and their types."""

    @abc.abstractmethod
    def stats(self) -> str:
        """Return a text about the last iteration.

        Examples
        --------
        >>> iterator = ray.data.range(4).map(lambda row: row).iterator()
        >>> rows = list(iterator.iter_rows())
        >>> "ReadRange" in iterator.stats()
        True
        """

    def _data_set(self) -> Executed:
        """Return the rows as a data set, without a wait for other iterators."""
        return self.materialize()

    def __getattr__(self, name: str) -> Any:
        """Find the methods that a worker's part of a data set had while it was a data set itself."""
        return whole_shard.method_of(self, name)

    @abc.abstractmethod
    def get_context(self) -> DataContext:
        """Return the settings of the data set.

        Examples
        --------
        >>> ray.data.range(2).iterator().get_context().target_max_block_size
        134217728
        """

    @forms.takes_old_options("ray.data.Dataset.iter_batches")
    def iter_batches(
        self,
        *,
        prefetch_batches: int = 1,
        batch_size: int | None = 256,
        batch_format: str | None = "default",
        drop_last: bool = False,
        local_shuffle_buffer_size: int | None = None,
        local_shuffle_seed: int | None = None,
    ) -> Iterable[Any]:
        """Return an iterable of batches; each iteration reads the data again.

        Parameters
        ----------
        prefetch_batches : int, default 1
            Blocks that are brought to this host ahead.
        batch_size : int or None, default 256
            Rows of a batch; None: those of a block.
        batch_format : {"default", "numpy", "pandas", "pyarrow", None}
            A dictionary of arrays (default), a DataFrame or a table. An array's first axis is the rows.
            They may share the object store's memory: they are read-only.
        drop_last : bool, default False
            Leave out the last batch if it has fewer rows.
        local_shuffle_buffer_size : int, optional
            Draw rows at random from at least this number.
        local_shuffle_seed : int, optional
            Seed of the random numbers.
        """
        return self._batches(
            lambda table: batch.formatted(table, batch_format),
            prefetch_batches,
            batch_size,
            batch_format,
            drop_last,
            local_shuffle_buffer_size,
            local_shuffle_seed,
        )

    def _batches(
        self,
        convert: Callable[[Block], object],
        prefetch_batches: int,
        batch_size: int | None,
        batch_format: str | None,
        drop_last: bool,
        buffer_size: int | None,
        seed: int | None,
    ) -> Iterable[Any]:
        batch.check_size(batch_size)
        batch.check_format(batch_format)
        batch.check_size(buffer_size, "local_shuffle_buffer_size")
        if prefetch_batches < 0:
            raise ValueError(f"prefetch_batches={prefetch_batches} is negative.")
        if buffer_size is not None and batch_size is None:
            raise ValueError("local_shuffle_buffer_size needs a batch_size: give both.")

        def batches() -> Iterator[Any]:
            tables = fetched(self._pieces(), prefetch_batches)
            if buffer_size is not None:
                assert batch_size is not None
                cut = batch.shuffled(tables, batch_size, buffer_size, seed, drop_last)
            else:
                cut = batch.sized(tables, batch_size, drop_last)
            yield from map(convert, cut)

        return Again(batches)

    @forms.takes_old_options("ray.data.Dataset.iter_rows")
    def iter_rows(self) -> Iterable[Row]:
        """Return an iterable of rows, dictionaries of Python values."""

        def rows() -> Iterator[Row]:
            for table in fetched(self._pieces(), 1):
                yield from block.rows(table)

        return Again(rows)

    @forms.takes_old_options("ray.data.Dataset.iter_tf_batches")
    def iter_tf_batches(
        self,
        *,
        prefetch_batches: int = 1,
        batch_size: int | None = 256,
        dtypes: TfDtypes | None = None,
        drop_last: bool = False,
        local_shuffle_buffer_size: int | None = None,
        local_shuffle_seed: int | None = None,
    ) -> Iterable[Any]:
        """Return an iterable of batches that are dictionaries of tensors of TensorFlow.

        Parameters
        ----------
        dtypes : tf.dtypes.DType or dict of str to tf.dtypes.DType, optional
            The types of the tensors, for all or by column.
        prefetch_batches, batch_size, drop_last, local_shuffle_buffer_size, local_shuffle_seed
            As for `iter_batches`.

        Examples
        --------
        >>> iterator = ray.data.range(4).iterator()
        >>> for batch in iterator.iter_tf_batches(batch_size=2):
        ...     print(batch["id"].numpy())
        [0 1]
        [2 3]
        """
        from raycompat.data import tensorflow

        batches = self._batches(
            lambda table: tensorflow.to_tensors(block.to_numpy(table), dtypes),
            prefetch_batches,
            batch_size,
            "numpy",
            drop_last,
            local_shuffle_buffer_size,
            local_shuffle_seed,
        )
        if batch_size is None or local_shuffle_buffer_size is not None:
            return batches

        def cut_tensors() -> Iterator[Any]:
            tables = fetched(self._pieces(), prefetch_batches)
            made = tensorflow.batches(tables, batch_size, drop_last, dtypes)
            return map(plain_rows.unwrapped, made)

        return Again(cut_tensors)

    @forms.takes_old_options("ray.data.Dataset.iter_torch_batches")
    def iter_torch_batches(
        self,
        *,
        prefetch_batches: int = 1,
        batch_size: int | None = 256,
        dtypes: TorchDtypes | None = None,
        device: str | torch.device = "auto",
        collate_fn: Any = None,
        drop_last: bool = False,
        local_shuffle_buffer_size: int | None = None,
        local_shuffle_seed: int | None = None,
        pin_memory: bool = False,
    ) -> Iterable[Any]:
        """Return an iterable of batches that are dictionaries of tensors of PyTorch.

        Parameters
        ----------
        dtypes : torch.dtype or dict of str to torch.dtype, optional
            The types of the tensors, for all or by column.
        device : str, int or torch.device, default "auto"
            Where the tensors are: by default on the device of a worker of Train, and elsewhere on the
            CPU.
        collate_fn : callable, optional
            Makes the batches instead, from a dictionary of arrays, which may be read-only. An instance
            of `ArrowBatchCollateFn` or `PandasBatchCollateFn` gets a table or a DataFrame. Tensors that
            it returns, alone or in a list, tuple or dictionary, are moved to the device; lists of
            tensors within these are joined along the first axis.
        pin_memory : bool, default False
            Whether tensors are in page-locked memory, from which a GPU can fetch them while the program
            goes on.
        prefetch_batches, batch_size, drop_last, local_shuffle_buffer_size, local_shuffle_seed
            As for `iter_batches`.

        Raises
        ------
        ValueError
            When both `dtypes` and `collate_fn` are given.
        TypeError
            When a column is text.
        RuntimeError
            When it has other objects, or arrays of several shapes.

        Examples
        --------
        In the training function of a `TorchTrainer`::

            shard = train.get_dataset_shard("train")
            for batch in shard.iter_torch_batches(batch_size=100):
                loss = compute_loss(model(batch["x"]), batch["y"])

        Notes
        -----
        Ray source: ``DataIterator.iter_torch_batches``, 2.60.0. Differs from Ray: columns that are not
        in the dictionary `dtypes` keep their types; `collate_fn` is called in the thread that iterates.
        """
        from raycompat.data import torch

        if collate_fn is not None and dtypes is not None:
            raise ValueError(
                f"dtypes={dtypes!r} has no effect with collate_fn: let the function make tensors of "
                "these types."
            )
        converter = torch.Converter(dtypes, device, pin_memory)
        batches = self._batches(
            converter if collate_fn is None else converter.collated(collate_fn),
            prefetch_batches,
            batch_size,
            "numpy",
            drop_last,
            local_shuffle_buffer_size,
            local_shuffle_seed,
        )
        if collate_fn is not None or batch_size is None or local_shuffle_buffer_size is not None:
            return batches

        def cut_tensors() -> Iterator[Any]:
            tables = fetched(self._pieces(), prefetch_batches)
            return map(plain_rows.unwrapped, converter.batches(tables, batch_size, drop_last))

        return Again(cut_tensors)

    def to_torch(
        self,
        *,
        label_column: str | None = None,
        feature_columns: list[str] | list[list[str]] | dict[str, list[str]] | None = None,
        label_column_dtype: torch.dtype | None = None,
        feature_column_dtypes: ColumnDtypes | None = None,
        batch_size: int = 1,
        prefetch_batches: int = 1,
        drop_last: bool = False,
        local_shuffle_buffer_size: int | None = None,
        local_shuffle_seed: int | None = None,
        unsqueeze_label_tensor: bool = True,
        unsqueeze_feature_tensors: bool = True,
    ) -> Any:
        """Return a ``torch.utils.data.IterableDataset`` of batches, pairs (features, labels).

        Parameters
        ----------
        label_column : str, optional
            The column of the labels; without one, labels are None.
        feature_columns : list of str, list of list of str, or dict of str to list of str, optional
            The columns of the features, next to each other in one tensor; in lists or a dictionary, in
            one tensor for each. By default all columns but that of the labels.
        label_column_dtype : torch.dtype, optional
            The type of the labels.
        feature_column_dtypes : torch.dtype, list or dict, optional
            The type of the features, for all or in the form of `feature_columns`.
        unsqueeze_label_tensor, unsqueeze_feature_tensors : bool, default True
            Whether a column of n numbers has the shape ``(n, 1)`` instead of ``(n,)``.
        batch_size, prefetch_batches, drop_last, local_shuffle_buffer_size, local_shuffle_seed
            As for `iter_batches`; by default a batch has 1 row.

        Returns
        -------
        torch.utils.data.IterableDataset
            In a ``DataLoader``, use it with ``batch_size=None``.

        Raises
        ------
        TypeError, ValueError
            When the types do not have the form of the columns, or a column is not there.

        Examples
        --------
        In a program for Ray up to 2.9::

            for features, labels in iterator.to_torch(label_column="y", batch_size=100):
                loss = compute_loss(model(features), labels)

        Notes
        -----
        Ray source: ``DataIterator.to_torch``, 2.60.0, where it is deprecated in favour of
        `iter_torch_batches`. No known difference.
        """
        from raycompat.data import torch

        torch.check_dtypes(feature_columns, feature_column_dtypes)
        label = None if label_column is None else (label_column, label_column_dtype)
        batches = self._batches(
            lambda table: torch.features_and_labels(
                table,
                feature_columns,
                feature_column_dtypes,
                label,
                add_axis=(unsqueeze_feature_tensors, unsqueeze_label_tensor),
            ),
            prefetch_batches,
            batch_size,
            "pyarrow",
            drop_last,
            local_shuffle_buffer_size,
            local_shuffle_seed,
        )
        return torch.to_iterable_dataset(batches)

    @tf.takes_a_signature
    def to_tf(
        self,
        feature_columns: str | list[str],
        label_columns: str | list[str],
        *,
        additional_columns: str | list[str] | None = None,
        prefetch_batches: int = 1,
        batch_size: int = 1,
        drop_last: bool = False,
        local_shuffle_buffer_size: int | None = None,
        local_shuffle_seed: int | None = None,
        feature_type_spec: TypeSpecs | None = None,
        label_type_spec: TypeSpecs | None = None,
        additional_type_spec: TypeSpecs | None = None,
    ) -> Any:
        """Return a ``tf.data.Dataset`` of (features, labels), for ``model.fit``.

        Parameters
        ----------
        feature_columns, label_columns : str or list of str
            One column gives a tensor, a list a dictionary of tensors.
        additional_columns : str or list of str, optional
            A third element of each batch: sample weights, for example.
        prefetch_batches, batch_size, drop_last, local_shuffle_buffer_size, local_shuffle_seed
            As for `iter_batches`; by default a batch has 1 row.
        feature_type_spec, label_type_spec, additional_type_spec : tf.TypeSpec or dict, optional
            Types of the elements. Default: from the schema.

        Raises
        ------
        ValueError
            When a column is not there.

        Examples
        --------
        >>> rows = ray.data.from_items([{"age": 20, "size": 4}, {"age": 30, "size": 6}])
        >>> pairs = rows.iterator().to_tf("age", "size", batch_size=1)
        >>> [(age.numpy().tolist(), size.numpy().tolist()) for age, size in pairs]
        [([20], [4]), ([30], [6])]
        """
        from raycompat.data import tensorflow

        batches = self.iter_batches(
            prefetch_batches=prefetch_batches,
            batch_size=batch_size,
            batch_format="numpy",
            drop_last=drop_last,
            local_shuffle_buffer_size=local_shuffle_buffer_size,
            local_shuffle_seed=local_shuffle_seed,
        )
        elements = [(feature_columns, feature_type_spec), (label_columns, label_type_spec)]
        if additional_columns is not None:
            elements.append((additional_columns, additional_type_spec))
        return tensorflow.to_dataset(self.schema(), batches, elements)

    def materialize(self) -> MaterializedDataset:
        """Read the rows, and keep them in the object store."""
        from raycompat.data.dataset import from_bundles, put_blocks

        whole, pieces = [], []
        for bundle, start, stop in self._pieces():
            whole.append(bundle)
            pieces.append((bundle, start, stop))
        if all((start, stop) == (0, b.num_rows) for b, start, stop in pieces):
            return from_bundles(whole)
        return put_blocks(_fetch(*piece) for piece in pieces)


class DatasetIterator(DataIterator):
    """Executes the plan of a data set in the process that iterates."""

    def __init__(self, dataset: Executed) -> None:
        self._dataset = dataset

    def __repr__(self) -> str:
        return f"DataIterator({self._dataset!r})"

    def _data_set(self) -> Executed:
        return self._dataset

    def _pieces(self) -> Iterator[tuple[Bundle, int, int]]:
        for bundle in self._dataset._bundles():
            yield bundle, 0, bundle.num_rows

    def schema(self) -> Schema | None:
        """Return the columns and their types."""
        return self._dataset.schema()

    def stats(self) -> str:
        """Return a text about the last iteration."""
        return self._dataset.stats()

    def get_context(self) -> DataContext:
        """Return the settings of the data set."""
        return self._dataset._context
