"""Iterators over items that actors make, and their operators: `ParallelIterator`, `LocalIterator`.

The items of a `ParallelIterator` are in shards; an actor makes those of each shard and applies the
operators to them. `ParallelIterator.gather_sync` and `ParallelIterator.gather_async` bring them to one
process, as a `LocalIterator`, whose operators run in this process.

Ray 2.60 has this module and has deprecated it: new programs use `raycompat.data`, or a generator task.
"""

from raycompat.util.iter._local import LocalIterator, _NextValueNotReady
from raycompat.util.iter._parallel import (
    ParallelIterator,
    from_actors,
    from_items,
    from_iterators,
    from_range,
)
from raycompat.util.iter._worker import ParallelIteratorWorker

_NextValueNotReady.__module__ = __name__

__all__ = [
    "LocalIterator",
    "ParallelIterator",
    "ParallelIteratorWorker",
    "from_actors",
    "from_items",
    "from_iterators",
    "from_range",
]
