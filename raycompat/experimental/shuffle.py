"""A shuffle in two waves of tasks: each input partition is divided over all output partitions.

One task for each input partition reads its items and gives each a number of an output partition. Then
one task for each output partition gets its items from all tasks of the first wave. For M input and N
output partitions, this makes M times N lists of references.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import chain, cycle
from typing import Any, TypeAlias

import raycompat as ray
from raycompat._surface.modules import names_of
from raycompat.object_ref import ObjectRef
from raycompat.util._internal_actors import internal_actor

__all__ = [
    "ObjectStoreWriter",
    "ObjectStoreWriterNonStreaming",
    "render_progress_bar",
    "round_robin_partitioner",
    "simple_shuffle",
]

#: An item that is read.
InType: TypeAlias = Any
#: What is made of an output partition.
OutType: TypeAlias = Any
#: The number of a partition, from 0 on.
PartitionID: TypeAlias = int

#: Seconds that a tracker waits for the next task before it answers.
_TURN_S = 1.0


class ObjectStoreWriter:
    """Puts the items for one output partition into the object store, each as one object.

    Your own class can put many small items into one object.
    """

    def __init__(self) -> None:
        self.results: list[Any] = []

    def add(self, item: InType) -> None:
        """Put one item into the object store."""
        self.results.append(ray.put(item))

    def finish(self) -> list[Any]:
        """Return references to the items of the output partition."""
        return self.results


class ObjectStoreWriterNonStreaming(ObjectStoreWriter):
    """Collects the items for one output partition, which gets the items instead of references."""

    def add(self, item: InType) -> None:
        """Keep one item."""
        self.results.append(item)


def round_robin_partitioner(
    input_stream: Iterable[InType], num_partitions: int
) -> Iterator[tuple[PartitionID, InType]]:
    """Give the items to the output partitions in turn.

    Parameters
    ----------
    input_stream : iterable
        The items of an input partition.
    num_partitions : int
        How many output partitions.

    Yields
    ------
    tuple of int and item
        An output partition, and an item for it.
    """
    yield from zip(cycle(range(num_partitions)), input_stream, strict=False)


class _Tracker:
    """An actor's class: counts the tasks of a shuffle that have ended."""

    def __init__(self) -> None:
        self._waves: list[list[ObjectRef[Any]]] = [[], []]
        self._num_ended = [0, 0]

    def register_objectrefs(
        self, map_refs: list[ObjectRef[Any]], reduce_refs: list[ObjectRef[Any]]
    ) -> None:
        """Set the references of both waves."""
        self._waves, self._num_ended = [map_refs, reduce_refs], [0, 0]

    def get_progress(self) -> tuple[int, int]:
        """Return how many tasks of each wave have ended; wait up to a second for one more."""
        for wave, refs in enumerate(self._waves):
            if refs:
                ready, _ = ray.wait(refs, timeout=_TURN_S, fetch_local=False)
                if ready:
                    ready, _ = ray.wait(refs, num_returns=len(refs), timeout=0, fetch_local=False)
                ended = set(ready)
                self._waves[wave] = [ref for ref in refs if ref not in ended]
                self._num_ended[wave] += len(ended)
                break
        return self._num_ended[0], self._num_ended[1]


_StatusTracker = internal_actor(_Tracker)


def render_progress_bar(
    tracker: Any, input_num_partitions: int, output_num_partitions: int
) -> None:
    """Show a bar for each wave until all tasks have ended.

    Parameters
    ----------
    tracker : ActorHandle
        The tracker of the shuffle.
    input_num_partitions, output_num_partitions : int
        How many tasks the waves have.

    Notes
    -----
    Ray source: ``ray.experimental.shuffle.render_progress_bar``, 2.60.0. It needs the package tqdm.
    """
    from tqdm import tqdm

    totals = (input_num_partitions, output_num_partitions)
    with (
        tqdm(total=totals[0], position=0, desc="Map Progress.") as first,
        tqdm(total=totals[1], position=1, desc="Reduce Progress.") as second,
    ):
        ended = (0, 0)
        while ended != totals:
            now = ray.get(tracker.get_progress.remote())
            first.update(now[0] - ended[0])
            second.update(now[1] - ended[1])
            ended = now


def simple_shuffle(
    *,
    input_reader: Callable[[PartitionID], Iterable[InType]],
    input_num_partitions: int,
    output_num_partitions: int,
    output_writer: Callable[[PartitionID, list[Any]], OutType],
    partitioner: Callable[
        [Iterable[InType], int], Iterable[tuple[PartitionID, InType]]
    ] = round_robin_partitioner,
    object_store_writer: Callable[[], ObjectStoreWriter] = ObjectStoreWriter,
    tracker: Any = None,
    streaming: bool = True,
) -> list[OutType]:
    """Divide the items of input partitions over output partitions; return the processed outputs.

    Parameters
    ----------
    input_reader : callable
        Returns the items of an input partition, by its number.
    input_num_partitions, output_num_partitions : int
        How many partitions, 1 or more.
    output_writer : callable
        Gets the number of an output partition and a list of references to its items, ordered by input
        partition, and returns a value.
    partitioner : callable, default round_robin_partitioner
        Gets the items of an input partition and the number of output partitions; returns pairs of an
        output partition and an item.
    object_store_writer : callable, default ObjectStoreWriter
        Makes the writer for the items of an input and an output partition. With
        `ObjectStoreWriterNonStreaming`, `output_writer` gets the items and not references.
    tracker : ActorHandle, optional
        A ``_StatusTracker``: a bar shows the progress.
    streaming : bool, default True
        Has no effect, as in Ray.

    Returns
    -------
    list
        The values of `output_writer`, by output partition.

    Raises
    ------
    ValueError
        When a number of partitions is less than 1.

    Notes
    -----
    Ray source: ``ray.experimental.shuffle.simple_shuffle``, 2.60.0. Differs from Ray: one output
    partition is possible, where Ray raises a TypeError. For data sets, `raycompat.data` shuffles.

    Examples
    --------
    >>> import raycompat as ray
    >>> from raycompat.experimental.shuffle import simple_shuffle
    >>> simple_shuffle(
    ...     input_reader=lambda i: range(10 * i, 10 * i + 4),
    ...     input_num_partitions=2,
    ...     output_num_partitions=2,
    ...     output_writer=lambda i, refs: ray.get(refs),
    ... )
    [[0, 2, 10, 12], [1, 3, 11, 13]]
    """
    for name, number in [
        ("input_num_partitions", input_num_partitions),
        ("output_num_partitions", output_num_partitions),
    ]:
        if number < 1:
            raise ValueError(f"{name} is {number!r}: a shuffle needs 1 partition or more.")

    @ray.remote(num_returns=output_num_partitions)
    def shuffle_map(partition: PartitionID) -> Any:
        writers = [object_store_writer() for _ in range(output_num_partitions)]
        for output, item in partitioner(input_reader(partition), output_num_partitions):
            writers[output].add(item)
        written = [writer.finish() for writer in writers]
        return written if output_num_partitions > 1 else written[0]

    @ray.remote
    def shuffle_reduce(partition: PartitionID, *written: list[Any]) -> OutType:
        return output_writer(partition, list(chain.from_iterable(written)))

    mapped: list[Any] = [shuffle_map.remote(i) for i in range(input_num_partitions)]
    rows = mapped if output_num_partitions > 1 else [[ref] for ref in mapped]
    reduced = [
        shuffle_reduce.remote(partition, *column)
        for partition, column in enumerate(zip(*rows, strict=True))
    ]
    if tracker is not None:
        tracker.register_objectrefs.remote([row[0] for row in rows], reduced)
        render_progress_bar(tracker, input_num_partitions, output_num_partitions)
    made: list[OutType] = ray.get(reduced)
    return made


#: Names that raycompat does without.
__getattr__ = names_of(__name__)
