"""What is known of the result of a plan without executing it."""

from __future__ import annotations

import pyarrow as pa

from raycompat.data.plan import AllToAll, Input, Limit, Node, Read
from raycompat.data.schema import united
from raycompat.data.storable import shown_schema

#: Names of the steps after which the columns and the number of rows are those of before.
_KEEPS_COLUMNS = ("RandomShuffle", "RandomizeBlockOrder", "Repartition", "Sort")


def known_schema(node: Node) -> pa.Schema | None:
    """Return the columns of a node's result, if they are known without executing it."""
    if isinstance(node, Input):
        schemas = [bundle.metadata.schema for bundle in node.bundles]
    elif isinstance(node, Read):
        schemas = [task.schema for task in node.read_tasks]
    elif isinstance(node, Limit):
        return known_schema(node.input)
    elif isinstance(node, AllToAll) and node.name in _KEEPS_COLUMNS:
        known = known_schema(node.inputs[0])
        # a sorted block is Arrow's, without a record of pandas's types
        return known.remove_metadata() if known is not None and node.name == "Sort" else known
    else:
        return None
    found = [schema for schema in schemas if schema is not None and len(schema)]
    return shown_schema(united(found)) if found else None


def known_rows(node: Node) -> int | None:
    """Return how many rows a node makes, if that is known without executing it."""
    if isinstance(node, Input):
        return sum(bundle.num_rows for bundle in node.bundles)
    if isinstance(node, Read):
        counts = [task.metadata.num_rows for task in node.read_tasks]
        return None if None in counts else sum(count or 0 for count in counts)
    if isinstance(node, Limit):
        rows = known_rows(node.input)
        return None if rows is None else min(rows, node.limit)
    if isinstance(node, AllToAll) and node.name in _KEEPS_COLUMNS:
        return known_rows(node.inputs[0])
    return None
