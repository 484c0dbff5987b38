"""The names of the columns that preprocessors read and write."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd

    from raycompat.data.dataset import Dataset


def counted(ds: Dataset, column: str, items: Callable[[Any], Iterable[object]]) -> Counter[Any]:
    """Return how often each item of the values of a column occurs, in the order of appearance."""

    def count(df: pd.DataFrame) -> dict[str, list[Any]]:
        found = Counter(item for value in df[column].tolist() for item in items(value))
        return {"counts": [found]}

    total: Counter[object] = Counter()
    for row in ds.select_columns([column]).map_batches(count, batch_format="pandas").iter_rows():
        total.update(row["counts"])
    return total


def outputs(columns: Sequence[str], output_columns: Sequence[str] | None) -> list[str]:
    """Return the columns for the results; by default the columns themselves."""
    if output_columns is None:
        return list(columns)
    if len(output_columns) != len(columns):
        raise ValueError(
            f"output_columns={list(output_columns)} has {len(output_columns)} names for "
            f"{len(columns)} columns: give one for each."
        )
    return list(output_columns)
