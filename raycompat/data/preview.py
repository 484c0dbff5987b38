"""The text of a data set whose columns are known: a table of them, and of the first and last rows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

#: Rows that a table shows: all of them up to this number, else half of it from each end.
MAX_ROWS = 10

#: Characters of a column.
_WIDTH = 40

_ELLIPSIS = "\N{HORIZONTAL ELLIPSIS}"


def table(
    columns: Mapping[str, str],
    first: Sequence[Mapping[str, object]],
    last: Sequence[Mapping[str, object]],
) -> str:
    """Return the table of columns, which are names and types, and of rows."""
    heads = [[_cut(name), "---", _cut(type_)] for name, type_ in columns.items()]
    cells = [[_cell(row.get(name)) for name in columns] for row in first]
    if last:
        cells.append([_ELLIPSIS] * len(columns))
        cells += [[_cell(row.get(name)) for name in columns] for row in last]
    down = zip(*cells, strict=True) if cells else [()] * len(columns)
    texts = [[*head, *rest] for head, rest in zip(heads, down, strict=True)]
    widths = [max(map(len, column)) for column in texts]
    lines = [
        "│" + "┆".join(f" {text:{width}} " for text, width in zip(row, widths, strict=True)) + "│"
        for row in zip(*texts, strict=True)
    ]
    body = [_rule("╞═╪╡", widths), *lines[3:]] if cells else []
    return "\n".join([_rule("╭─┬╮", widths), *lines[:3], *body, _rule("╰─┴╯", widths)])


def _rule(signs: str, widths: Iterable[int]) -> str:
    left, line, between, right = tuple(signs)
    return left + between.join(line * (width + 2) for width in widths) + right


def _cell(value: object) -> str:
    plain = value.item() if isinstance(value, np.generic) else value
    return _cut(str(plain).replace("\n", " ").replace("\r", " "))


def _cut(text: str) -> str:
    return text if len(text) <= _WIDTH else text[: _WIDTH - 1] + _ELLIPSIS
