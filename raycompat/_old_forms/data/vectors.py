"""Encoders of values and of text: until Ray 2.40 they made a column for each value, and no arrays.

The same words mean two things, so this holds only for a program that was written for such a Ray.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from raycompat._surface import forms

if TYPE_CHECKING:
    import pandas as pd

#: The words of the row in `raycompat._surface`.
_USE = "ray.data.preprocessors with a column for each value"


def is_of_their_time() -> bool:
    """Return whether the program was written for such a Ray, which hashed texts by SHA-1, too."""
    return forms.is_meant(_USE)


def of_their_time(frame: pd.DataFrame, named: Mapping[str, Sequence[str]]) -> pd.DataFrame:
    """Return a DataFrame as the program's Ray made it.

    Parameters
    ----------
    frame : pandas.DataFrame
        With columns of arrays.
    named : dict of str to list of str
        For each of these columns, the names of the columns that its items have in such a Ray.
    """
    if not is_of_their_time():
        return frame
    for column, names in named.items():
        values = np.array(list(frame[column]), np.int64).reshape(len(frame), len(names))
        parts = dict(zip(names, values.T, strict=True))
        frame = frame.drop(columns=column).assign(**parts)
    return frame
