"""`DatasetPipeline`: a data set in windows or in epochs, the form of 2021 to 2023."""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from raycompat._old.data import pipeline_split
from raycompat._old_forms.data.named_rows import NamesRows
from raycompat._surface import forms
from raycompat.data.dataset import Dataset, MaterializedDataset, from_bundles
from raycompat.exceptions import UnsupportedRayFeatureError

#: Methods of a data set that change each window, by their names in a pipeline.
_OF_WINDOWS = {
    **{
        name: name
        for name in (
            "add_column",
            "drop_columns",
            "filter",
            "flat_map",
            "map",
            "map_batches",
            "select_columns",
        )
    },
    "random_shuffle_each_window": "random_shuffle",
    "randomize_block_order_each_window": "randomize_block_order",
    "repartition_each_window": "repartition",
    "sort_each_window": "sort",
}

#: Methods that read all windows, one after the other.
_READERS = ("iter_batches", "iter_tf_batches", "iter_torch_batches")

#: Methods that write each window, one after the other.
_WRITERS = ("write_csv", "write_datasource", "write_json", "write_numpy", "write_parquet")

#: Windows whose statistics are kept: a pipeline may have no end.
_NUM_SHOWN = 20


class DatasetPipeline(NamesRows):
    """Windows of data sets, one after the other, in one or more epochs.

    `Dataset.window` and `Dataset.repeat` make one. It has the methods of a data set that change rows,
    applied to each window when the window is read, and those that read rows.

    Parameters
    ----------
    epochs : function without parameters
        Returns an iterator of the epochs, each an iterator of windows.

    Notes
    -----
    Ray source: ``ray.data.dataset_pipeline.DatasetPipeline``, 2.6.3; Ray has removed it since. Differs
    from Ray: windows are executed when they are read, each as a stream; a pipeline can be read again.
    """

    def __init__(self, epochs: Callable[[], Iterator[Iterator[Dataset]]]) -> None:
        self._epochs = epochs
        #: Number and statistics of the windows that were read last.
        self._shown: deque[tuple[int, str]] = deque(maxlen=_NUM_SHOWN)

    @staticmethod
    def from_iterable(iterable: Iterable[Callable[[], Dataset]]) -> DatasetPipeline:
        """Return a pipeline of one epoch, whose windows are made when they are read.

        Parameters
        ----------
        iterable : iterable of functions without parameters
            Each returns a data set. An iterator, such as a generator, can be read once only.

        Raises
        ------
        RuntimeError
            When a pipeline of an iterator is read a second time, or repeated.
        """
        return DatasetPipeline(_Made(iterable))

    def __getattr__(self, name: str) -> Any:
        if name in _OF_WINDOWS:
            return lambda *args, **kwargs: self.foreach_window(
                lambda window: getattr(window, _OF_WINDOWS[name])(*args, **kwargs)
            )
        if name in _READERS:
            return lambda *args, **kwargs: itertools.chain.from_iterable(
                getattr(window, name)(*args, **kwargs) for window in self.iter_datasets()
            )
        if name in _WRITERS:
            return lambda *args, **kwargs: self._write(name, args, kwargs)
        if not name.startswith("_") and hasattr(Dataset, name):
            raise UnsupportedRayFeatureError(
                f"DatasetPipeline.{name}",
                alternative=f"use Dataset.{name} before window() or repeat()",
            )
        raise AttributeError(f"DatasetPipeline has no attribute {name!r}")

    def _write(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        for window in self.iter_datasets():
            getattr(window, name)(*args, **kwargs)

    def foreach_window(self, fn: Callable[[Dataset], Dataset]) -> DatasetPipeline:
        """Return a pipeline with each window changed.

        Parameters
        ----------
        fn : function
            Takes a data set, and returns one.
        """
        return DatasetPipeline(lambda: (map(fn, windows) for windows in self._epochs()))

    foreach_dataset = foreach_window  # in Ray 1.4 to 1.7

    def repeat(self, times: int | None = None) -> DatasetPipeline:
        """Return a pipeline with all epochs again and again.

        Parameters
        ----------
        times : int, optional
            How often. Default: without end.
        """
        check_times(times)

        def epochs() -> Iterator[Iterator[Dataset]]:
            rounds = itertools.count() if times is None else range(times)
            return itertools.chain.from_iterable(self._epochs() for _ in rounds)

        return DatasetPipeline(epochs)

    def iter_epochs(self, max_epoch: int = -1) -> Iterator[DatasetPipeline]:
        """Yield a pipeline for each epoch.

        Parameters
        ----------
        max_epoch : int, default -1
            How many at most; -1 is all.
        """
        for windows in itertools.islice(self._epochs(), None if max_epoch < 0 else max_epoch):
            found = list(windows)
            yield DatasetPipeline(lambda found=found: iter([iter(found)]))  # type: ignore[misc]

    def iter_datasets(self) -> Iterator[Dataset]:
        """Yield the windows of all epochs."""
        self._shown.clear()
        for number, window in enumerate(itertools.chain.from_iterable(self._epochs())):
            try:
                yield window
            finally:
                self._shown.append((number, window.stats()))

    def stats(self, exclude_first_window: bool = True) -> str:
        """Return a text about the windows that were read last, operator by operator.

        Parameters
        ----------
        exclude_first_window : bool, default True
            Leave out the first window where there are others: the pipeline began with it.
        """
        shown = list(self._shown)
        if exclude_first_window and len(shown) > 1 and shown[0][0] == 0:
            shown = shown[1:]
        return "\n".join(f"Window {number}:\n{text}" for number, text in shown)

    def rewindow(self, *, blocks_per_window: int, preserve_epoch: bool = True) -> DatasetPipeline:
        """Return a pipeline of the same rows, with another number of blocks in each window.

        Parameters
        ----------
        blocks_per_window : int
            Blocks of a window; the last one may have fewer.
        preserve_epoch : bool, default True
            Whether a window has rows of one epoch only.
        """
        _check_size("rewindow", "blocks_per_window", blocks_per_window)

        def epochs() -> Iterator[Iterator[Dataset]]:
            found = self._epochs()
            whole = found if preserve_epoch else iter([itertools.chain.from_iterable(found)])
            return (_in_windows(windows, blocks_per_window, None) for windows in whole)

        return DatasetPipeline(epochs)

    def show_windows(self, limit_per_dataset: int = 10) -> None:
        """Print the first rows of each window.

        Parameters
        ----------
        limit_per_dataset : int, default 10
        """
        numbers = itertools.count()
        for epoch, windows in enumerate(self._epochs()):
            print(f"------ Epoch {epoch} ------")
            for window in windows:
                print(f"=== Window {next(numbers)} ===")
                window.show(limit_per_dataset)

    @forms.takes_old_options("ray.data.Dataset.iter_rows")
    def iter_rows(self) -> Iterator[Any]:
        """Yield the rows of all windows."""
        return itertools.chain.from_iterable(each.iter_rows() for each in self.iter_datasets())

    def take(self, limit: int = 20) -> list[Any]:
        """Return the first rows.

        Parameters
        ----------
        limit : int, default 20
        """
        return list(itertools.islice(self.iter_rows(), limit))

    def take_all(self, limit: int | None = None) -> list[Any]:
        """Return all rows.

        Parameters
        ----------
        limit : int, optional
            It is an error that there are more.

        Raises
        ------
        ValueError
            When there are more rows.
        """
        rows = self.take(limit + 1) if limit is not None else list(self.iter_rows())
        if limit is not None and len(rows) > limit:
            raise ValueError(f"take_all(limit={limit}): the pipeline has more rows.")
        return rows

    def show(self, limit: int = 20) -> None:
        """Print the first rows.

        Parameters
        ----------
        limit : int, default 20
        """
        for row in self.take(limit):
            print(row)

    def count(self) -> int:
        """Return the number of rows of all windows."""
        return sum(window.count() for window in self.iter_datasets())

    def sum(self) -> Any:
        """Return the sum of the only column, over all windows."""
        return sum(window.sum() for window in self.iter_datasets())

    def schema(self, fetch_if_missing: bool = False) -> Any:
        """Return the columns of the first window.

        Parameters
        ----------
        fetch_if_missing : bool, default False
            Has no effect: the columns are found out.
        """
        first = next(self.iter_datasets(), None)
        return None if first is None else first.schema()

    def split(
        self, n: int, *, equal: bool = False, locality_hints: list[Any] | None = None
    ) -> list[DatasetPipeline]:
        """Return pipelines that have different rows of each window.

        Parameters
        ----------
        n : int
            How many.
        equal : bool, default False
            Whether all have as many rows of a window, so that some are left out.
        locality_hints : list, optional
            Has no effect.
        """
        return [DatasetPipeline(part) for part in pipeline_split.parts(self._epochs, n, equal)]

    streaming_split = split

    def to_torch(self, **options: Any) -> Any:
        """Return a ``torch.utils.data.IterableDataset`` of the rows of all windows.

        Parameters
        ----------
        **options
            Those of `Dataset.to_torch`.
        """
        from torch.utils.data import ChainDataset

        return ChainDataset(_Again(lambda: (w.to_torch(**options) for w in self.iter_datasets())))

    def to_tf(self, **options: Any) -> Any:
        """Return a ``tf.data.Dataset`` of the rows of all windows, read when it is iterated over.

        Parameters
        ----------
        **options
            Those of `Dataset.to_tf`.

        Raises
        ------
        ValueError
            When there is no window.
        """
        from raycompat.data.tensorflow import imported

        first = next(self.iter_datasets(), None)
        if first is None:
            raise ValueError("to_tf: the pipeline has no windows, so its columns have no types.")
        of_first = first.to_tf(**options)
        made = imported().data.Dataset.from_generator(
            lambda: itertools.chain.from_iterable(
                window.to_tf(**options) for window in self.iter_datasets()
            ),
            output_signature=of_first.element_spec,
        )
        return made.with_options(of_first.options())

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"


class _Made:
    """The epochs of functions that make windows, as often as the iterable can be read."""

    def __init__(self, functions: Iterable[Callable[[], Dataset]]) -> None:
        self._functions = functions
        self._was_read = False

    def __call__(self) -> Iterator[Iterator[Dataset]]:
        if self._was_read and isinstance(self._functions, Iterator):
            raise RuntimeError(
                f"DatasetPipeline.from_iterable({self._functions!r}): an iterator can be read once "
                "only, and this is the second time. Give a list of functions, which "
                "each epoch can read: DatasetPipeline.from_iterable(list(functions))."
            )
        self._was_read = True
        return iter([(make() for make in self._functions)])


class _Again:
    """Iterates over the result of a function, which it calls again for each iteration."""

    def __init__(self, make: Callable[[], Iterator[Any]]) -> None:
        self._make = make

    def __iter__(self) -> Iterator[Any]:
        return self._make()


def check_times(times: int | None) -> None:
    """Raise an error for an invalid number of epochs."""
    if times is not None and (isinstance(times, bool) or not isinstance(times, int) or times < 1):
        raise ValueError(f"repeat({times!r}): expected a number of 1 or more, or None for no end.")


def repeated(dataset: Dataset, times: int | None) -> DatasetPipeline:
    """Return a pipeline of epochs, each the data set in one window."""
    return DatasetPipeline(lambda: iter([iter([dataset])])).repeat(times)


def windowed(dataset: Dataset, num_blocks: int, num_bytes: int | None) -> DatasetPipeline:
    """Return a pipeline of one epoch, with some blocks of the data set in each window."""
    for name, value in (("blocks_per_window", num_blocks), ("bytes_per_window", num_bytes)):
        if value is not None:
            _check_size("window", name, value)
    return DatasetPipeline(lambda: iter([_in_windows([dataset], num_blocks, num_bytes)]))


def _check_size(method: str, name: str, value: Any) -> None:
    if not isinstance(value, int) or value < 1:
        raise ValueError(f"{method}({name}={value!r}): expected a number of 1 or more.")


def _in_windows(
    datasets: Iterable[Dataset], num_blocks: int, num_bytes: int | None
) -> Iterator[MaterializedDataset]:
    """Yield the blocks of data sets as windows of a number of blocks, or of bytes."""
    group: list[Any] = []
    for bundle in itertools.chain.from_iterable(
        each._bundles(keeps_output=True) for each in datasets
    ):
        size = sum(each.size_bytes for each in [*group, bundle])
        is_full = len(group) == num_blocks if num_bytes is None else size > num_bytes
        if group and is_full:
            yield from_bundles(group)
            group = []
        group.append(bundle)
    if group:
        yield from_bundles(group)
