"""`ray.data._internal.delegating_block_builder`: makes the block of a data source of one's own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from raycompat.data import block


class DelegatingBlockBuilder:
    """Makes one block of rows and blocks, in the order in which they are added."""

    def __init__(self) -> None:
        self._blocks: list[pa.Table] = []
        self._rows: list[Mapping[str, Any]] = []

    def add(self, item: Mapping[str, Any]) -> None:
        """Add a row, as a dict."""
        self._rows.append(item)

    def add_batch(self, batch: Any) -> None:
        """Add the rows of a batch: a dict of columns, or a table."""
        self.add_block(batch)

    def add_block(self, block_of_rows: Any) -> None:
        """Add the rows of a table of Arrow or pandas."""
        self._close_rows()
        self._blocks.append(block.to_table(block_of_rows))

    def num_rows(self) -> int:
        """Return how many rows were added."""
        return sum((int(each.num_rows) for each in self._blocks), len(self._rows))

    def get_estimated_memory_usage(self) -> int:
        """Return the bytes of the rows that were added."""
        self._close_rows()
        return sum(int(each.nbytes) for each in self._blocks)

    def build(self) -> pa.Table:
        """Return all rows as one table."""
        self._close_rows()
        return block.concat(self._blocks)

    def _close_rows(self) -> None:
        """Make a table of the rows that were added one by one, so that the order is kept."""
        if self._rows:
            self._blocks.append(block.from_rows(self._rows))
            self._rows = []
