"""A worker's part of a data set as a table, for trainers that fit a model on columns."""

from __future__ import annotations

from typing import Any

from raycompat import train
from raycompat._old_forms.packages import require


def table(name: str, label_column: str | None) -> tuple[Any, Any]:
    """Return this worker's columns of a data set, and the column that is predicted, or None.

    Raises
    ------
    KeyError
        When the data set has no column of that name.
    """
    shard = train.get_dataset_shard(name)
    if hasattr(shard, "materialize"):
        rows = shard.materialize().to_pandas()
    else:
        rows = require("pandas", "A trainer of models on columns").DataFrame(list(shard or ()))
    if label_column is None:
        return rows, None
    if label_column not in rows:
        raise KeyError(
            f"label_column={label_column!r} is not a column of the data set {name!r}. Its columns are "
            f"{list(rows.columns)}."
        )
    return rows.drop(columns=label_column), rows[label_column]
