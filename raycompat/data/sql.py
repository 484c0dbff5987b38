"""SQL databases, by connections of Python's DB-API: the source and the sink of `ray.data`."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from raycompat.data import block
from raycompat.data.block import Block, BlockMetadata
from raycompat.data.datasink import Datasink, TaskContext
from raycompat.data.datasource import Datasource, ReadTask

if TYPE_CHECKING:
    from raycompat.data.context import DataContext

#: Rows that one call of a connection reads or writes.
_ROWS = 4096


class _Cursor(Protocol):
    """A cursor of a database, as in PEP 249."""

    @property
    def description(self) -> Any: ...
    def execute(self, operation: str, parameters: Any = ..., /) -> object: ...
    def executemany(self, operation: str, rows: Any, /) -> object: ...
    def fetchmany(self, size: int, /) -> Sequence[Sequence[object]]: ...


class Connection(Protocol):
    """A connection to a database, as in PEP 249."""

    def cursor(self) -> _Cursor:
        """Return what executes statements."""

    def commit(self) -> object:
        """Keep what was written."""

    def rollback(self) -> object:
        """Undo what was written."""

    def close(self) -> object:
        """End the connection."""


class SqlDatasource(Datasource):
    """The rows of a query, in one task, or in several by the hashes of columns.

    Parameters
    ----------
    query : str
        A query that returns rows.
    connect : callable
        Makes a connection.
    params : sequence or dict, optional
        Values for the marks in the query.
    shard_keys : sequence of str, optional
        The columns whose hash divides the rows among tasks.
    hash_function : str
        The database's function for it.
    """

    def __init__(
        self,
        query: str,
        connect: Callable[[], Connection],
        params: Sequence[object] | Mapping[str, object] | None,
        shard_keys: Sequence[str] | None,
        hash_function: str,
    ) -> None:
        self._query, self._connect, self._params = query, connect, params
        self._shard_keys, self._hash_function = list(shard_keys or ()), hash_function

    def get_read_tasks(
        self,
        parallelism: int,
        per_task_row_limit: int | None = None,
        data_context: DataContext | None = None,
    ) -> list[ReadTask]:
        """Return a task for each part of the rows."""
        num_parts = parallelism if self._shard_keys else 1
        return [
            ReadTask(self._reader(self._part(number, num_parts)), BlockMetadata(None, None))
            for number in range(num_parts)
        ]

    def get_name(self) -> str:
        """Return the name for the operator that reads it."""
        return "SQL"

    def _part(self, number: int, num_parts: int) -> str:
        if num_parts == 1:
            return self._query
        keys = ", ".join(self._shard_keys)
        hashed = keys if len(self._shard_keys) == 1 else f"CONCAT({keys})"
        condition = f"MOD(ABS({self._hash_function}({hashed})), {num_parts}) = {number}"
        return f"SELECT * FROM ({self._query}) AS T WHERE {condition}"

    def _reader(self, query: str) -> Callable[[], Iterable[Block]]:
        connect, params = self._connect, self._params

        def read() -> Iterator[Block]:
            with _cursor_of(connect) as cursor:
                cursor.execute(query, *([] if params is None else [params]))
                names = [column[0] for column in cursor.description]
                while rows := cursor.fetchmany(_ROWS):
                    yield block.from_rows([dict(zip(names, row, strict=True)) for row in rows])

        return read


class SqlDatasink(Datasink[int]):
    """Writes rows by a statement, each task in a separate transaction.

    Parameters
    ----------
    statement : str
        A statement with a mark for each column, in order.
    connect : callable
        Makes a connection.
    """

    def __init__(self, statement: str, connect: Callable[[], Connection]) -> None:
        self._statement, self._connect = statement, connect

    def write(self, blocks: Iterable[Block], ctx: TaskContext) -> int:
        """Write blocks; return the number of their rows."""
        num_rows = 0
        with _cursor_of(self._connect) as cursor:
            for table in blocks:
                for start in range(0, table.num_rows, _ROWS):
                    rows = block.rows(table.slice(start, _ROWS))
                    cursor.executemany(self._statement, [tuple(row.values()) for row in rows])
                num_rows += table.num_rows
        return num_rows


@contextlib.contextmanager
def _cursor_of(connect: Callable[[], Connection]) -> Iterator[_Cursor]:
    """Give a cursor; commit at the end, or roll back after an error."""
    connection = connect()
    try:
        yield connection.cursor()
        connection.commit()
    except Exception:
        # not all databases have transactions, and the error is what the caller needs
        with contextlib.suppress(Exception):
            connection.rollback()
        raise
    finally:
        connection.close()
