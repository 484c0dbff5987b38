"""Functions that made data sets."""

from __future__ import annotations

from typing import Any

from raycompat._old_forms.data import plain_rows
from raycompat.data.dataset import Dataset
from raycompat.data.sources import range as range_of_ids


def range_arrow(n: int, **options: Any) -> Dataset:
    """Return a data set of the numbers from 0 to `n` - 1 in the column ``value``.

    Parameters
    ----------
    n : int
    **options
        Those of `ray.data.range`.
    """
    return range_of_ids(n, **options).rename_columns({plain_rows.column("id"): "value"})
