"""Data sources as Ray 1.5 to 2.9 had them: with the arguments of ``read_datasource``.

Such a source has `create_reader`, whose reader has the read tasks and which Ray still calls, or
`prepare_read` (until 1.12).
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from raycompat._surface import forms
from raycompat.data.block import BlockMetadata
from raycompat.data.datasource import Datasource, ReadTask
from raycompat.data.sources import read_tasks


class Reader:
    """Reads a data source of one's own: subclass it, and return one from ``create_reader``."""

    def estimate_inmemory_data_size(self) -> int | None:
        """Return the bytes of all data in memory; None if they are unknown."""
        return None

    def get_read_tasks(self, parallelism: int) -> list[ReadTask]:
        """Return the tasks that read it, about as many as `parallelism`."""
        raise NotImplementedError(f"{type(self).__name__} has no get_read_tasks(parallelism).")


class PreparedDatasource(Datasource):
    """A data source of an older Ray, with the arguments for its reader.

    Parameters
    ----------
    datasource : object
        The source. It has ``create_reader`` or ``prepare_read``.
    read_args : dict
        The arguments.
    """

    def __init__(self, datasource: Any, read_args: Mapping[str, Any]) -> None:
        self._datasource, self._read_args = datasource, dict(read_args)
        if hasattr(datasource, "create_reader"):
            self._reader = datasource.create_reader(**read_args)
        else:
            forms.used("ray.data.Datasource with prepare_read")
            self._reader = None

    def get_read_tasks(
        self, parallelism: int, per_task_row_limit: int | None = None, data_context: Any = None
    ) -> list[ReadTask]:
        """Return the tasks of the source."""
        if self._reader is None:
            return list(self._datasource.prepare_read(parallelism, **self._read_args))
        return read_tasks(self._reader, parallelism, data_context)

    def estimate_inmemory_data_size(self) -> int | None:
        """Return what the reader estimates."""
        if self._reader is None:
            return None
        size: int | None = self._reader.estimate_inmemory_data_size()
        return size

    def get_name(self) -> str:
        """Return the name of the source."""
        return type(self._datasource).__name__.removesuffix("Datasource")


class RandomIntRowDatasource(Datasource):
    """Rows of random integers, in the columns ``c_0``, ``c_1`` and so on.

    Parameters
    ----------
    n : int
        Number of rows. Both can be arguments of ``read_datasource`` instead.
    num_columns : int
        Number of columns.
    """

    def __init__(self, n: int | None = None, num_columns: int | None = None) -> None:
        self._n, self._num_columns = n, num_columns

    def create_reader(self, n: int | None = None, num_columns: int | None = None) -> Reader:
        """Return what reads the rows."""
        given = {"n": (self._n, n), "num_columns": (self._num_columns, num_columns)}
        twice = [name for name, values in given.items() if None not in values]
        if twice:
            raise TypeError(
                f"read_datasource() takes no {twice}: the RandomIntRowDatasource has them already."
            )
        n = self._n if n is None else n
        num_columns = self._num_columns if num_columns is None else num_columns
        if n is None or num_columns is None:
            raise TypeError(
                "RandomIntRowDatasource needs n and num_columns: "
                "RandomIntRowDatasource(n=10, num_columns=2)."
            )
        return _RandomIntRowReader(n, num_columns)

    def get_read_tasks(
        self, parallelism: int, per_task_row_limit: int | None = None, data_context: Any = None
    ) -> list[ReadTask]:
        """Return tasks that make about as many rows each."""
        return self.create_reader().get_read_tasks(parallelism)


class _RandomIntRowReader(Reader):
    def __init__(self, n: int, num_columns: int) -> None:
        self._n, self._num_columns = n, num_columns

    def estimate_inmemory_data_size(self) -> int:
        return self._n * self._num_columns * 8

    def get_read_tasks(self, parallelism: int) -> list[ReadTask]:
        parts = np.array_split(np.arange(self._n), max(1, min(parallelism, self._n)))
        return [
            ReadTask(
                functools.partial(_random_tables, len(part), self._num_columns),
                BlockMetadata(len(part), 8 * len(part) * self._num_columns),
            )
            for part in parts
        ]


def _random_tables(count: int, num_columns: int) -> list[pa.Table]:
    return [_random_rows(count, num_columns)]


def _random_rows(count: int, num_columns: int) -> pa.Table:
    random = np.random.default_rng()
    return pa.table(
        {
            f"c_{index}": random.integers(np.iinfo(np.int64).max, size=count)
            for index in range(num_columns)
        }
    )
