"""`Datasource`: where data sets are read from; `ReadTask`: a part of one, read by one task."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

from raycompat._old_forms.data.named_rows import NamesRows
from raycompat._surface.modules import names_of
from raycompat.data.block import Block, BlockMetadata, to_table

if TYPE_CHECKING:
    import pyarrow as pa

    from raycompat.data.block import DataBatch
    from raycompat.data.context import DataContext


class ReadTask:
    """A function that reads one part of a data source, and the metadata of that part.

    Parameters
    ----------
    read_fn : callable
        Called without arguments in a task; returns an iterable of blocks (tables, DataFrames or
        dictionaries of arrays).
    metadata : BlockMetadata
        Rows and bytes of the part, as far as they are known. A part of many bytes is read block by
        block, each when there is room for it.
    schema : pyarrow.Schema, optional
        The columns.
    per_task_row_limit : int, optional
        Rows to read at most.

    Examples
    --------
    >>> import pyarrow as pa
    >>> from raycompat.data import ReadTask
    >>> from raycompat.data.block import BlockMetadata
    >>> task = ReadTask(
    ...     lambda: [pa.table({"x": [1, 2]})],
    ...     BlockMetadata(num_rows=2, size_bytes=16),
    ... )
    >>> [table.num_rows for table in task()], task.metadata.num_rows
    ([2], 2)
    >>> (
    ...     [table.num_rows for table in task.read_fn()],
    ...     task.schema,
    ...     task.per_task_row_limit,
    ... )
    ([2], None, None)
    """

    def __init__(
        self,
        read_fn: Callable[[], Iterable[DataBatch]],
        metadata: BlockMetadata,
        schema: pa.Schema | None = None,
        per_task_row_limit: int | None = None,
    ) -> None:
        self._read_fn = read_fn
        self._metadata = metadata
        self._schema = schema if schema is not None else metadata.schema
        self._limit = per_task_row_limit

    @property
    def metadata(self) -> BlockMetadata:
        """The metadata of the part."""
        return self._metadata

    @property
    def schema(self) -> pa.Schema | None:
        """The columns; None if they are not known."""
        return self._schema

    @property
    def read_fn(self) -> Callable[[], Iterable[DataBatch]]:
        """The function."""
        return self._read_fn

    @property
    def per_task_row_limit(self) -> int | None:
        """Rows to read at most."""
        return self._limit

    def __call__(self) -> Iterator[Block]:
        """Read."""
        missing = self._limit
        for each in self._read_fn():
            table = to_table(each)
            if missing is not None:
                table = table.slice(0, missing)
                missing -= table.num_rows
            yield table
            if missing == 0:
                return


class Datasource(NamesRows):
    """Something that data sets are read from. Subclass it, and give it to `read_datasource`.

    Examples
    --------
    >>> from raycompat.data import Datasource, ReadTask
    >>> from raycompat.data.block import BlockMetadata
    >>> class Words(Datasource):
    ...     def __init__(self, words):
    ...         self.words = words
    ...
    ...     def estimate_inmemory_data_size(self):
    ...         return sum(map(len, self.words))
    ...
    ...     def get_read_tasks(self, parallelism, *args, **kwargs):
    ...         return [
    ...             ReadTask(
    ...                 lambda word=word: [{"letter": list(word)}],
    ...                 BlockMetadata(num_rows=len(word), size_bytes=len(word)),
    ...             )
    ...             for word in self.words
    ...         ]
    >>> letters = ray.data.read_datasource(Words(["ab", "c"]))
    >>> [row["letter"] for row in letters.take_all()]
    ['a', 'b', 'c']
    >>> Words(["ab", "c"]).supports_distributed_reads
    True

    Notes
    -----
    Ray source: ``ray.data.Datasource``, 2.60.0. Differs from Ray: predicates and projections are
    pushed down only to Parquet and ORC files.
    """

    def get_read_tasks(
        self,
        parallelism: int,
        per_task_row_limit: int | None = None,
        data_context: DataContext | None = None,
    ) -> list[ReadTask]:
        """Return the tasks that read it.

        Parameters
        ----------
        parallelism : int
            How many tasks to make, about.
        per_task_row_limit : int, optional
            Rows that each task should read at most.
        data_context : DataContext, optional
            The settings of the data set.
        """
        raise NotImplementedError(
            f"{type(self).__name__} has no get_read_tasks(parallelism): define it, and return a list "
            "of ReadTask."
        )

    def estimate_inmemory_data_size(self) -> int | None:
        """Return the bytes of all data in memory; None if they are unknown."""
        return None

    def get_name(self) -> str:
        """Return the name for the operator that reads it.

        Examples
        --------
        >>> Words(["ab"]).get_name()
        'Words'
        """
        return type(self).__name__.removesuffix("Datasource")

    @property
    def supports_distributed_reads(self) -> bool:
        """Whether it can be read on other nodes."""
        return True


__getattr__ = names_of(__name__)
