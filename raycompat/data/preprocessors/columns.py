"""The names of the columns that preprocessors read and write."""

from __future__ import annotations

from collections.abc import Sequence


def outputs(columns: Sequence[str], output_columns: Sequence[str] | None) -> list[str]:
    """Return the columns for the results; by default the columns themselves."""
    if not columns:
        raise ValueError("columns is empty: name at least one column.")
    if output_columns is None:
        return list(columns)
    if len(output_columns) != len(columns):
        raise ValueError(
            f"output_columns={list(output_columns)} has {len(output_columns)} names for "
            f"{len(columns)} columns: give one for each."
        )
    return list(output_columns)
