"""Tables of the results in a folder, as ``ray.tune.visual_utils`` made them."""

from __future__ import annotations

from typing import Any


def load_results_to_df(directory: str, result_name: str = "result.json") -> Any:
    """Return the last result of each trial in a folder, one a row."""
    from raycompat._old_forms.tune.analysis import Analysis

    return Analysis(directory).dataframe()


def generate_plotly_dim_dict(df: Any, field: str) -> dict[str, Any]:
    """Return the description of a column for plotly's parallel coordinates."""
    column = df[field]
    if column.dtype.kind in "if":
        return {"label": field, "values": column, "range": [column.min(), column.max()]}
    codes, names = column.factorize()
    return {"label": field, "values": codes, "tickvals": list(range(len(names))), "ticktext": names}
