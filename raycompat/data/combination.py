"""Data sets of several: `union`, `zip`, `mix`, `join`; and several of one, as they stream."""

from __future__ import annotations

import hashlib
import warnings
import zlib
from collections.abc import Callable, Mapping, Sequence
from typing import Generic, Protocol, TypeVar

import numpy as np
import pyarrow as pa

from raycompat.data import exchange, joining
from raycompat.data.block import Block, require_columns
from raycompat.data.context import DataContext
from raycompat.data.mixing import MixStoppingCondition
from raycompat.data.options import refuse_options
from raycompat.data.plan import Map, Mix, Node, Union, Zip
from raycompat.data.schema import Schema
from raycompat.data.transform import TableStep


class _Planned(Protocol):
    """A data set, as far as another one is combined with it."""

    _plan: Node

    def schema(self) -> Schema | None: ...


#: The data set that the methods take and return.
DatasetT = TypeVar("DatasetT", bound=_Planned)


class Combination(Generic[DatasetT]):
    """The methods of a data set that take others, or make two that are read on their own."""

    _plan: Node
    _context: DataContext
    _derived: Callable[[Node], DatasetT]
    schema: Callable[..., Schema | None]

    def union(self, *other: DatasetT) -> DatasetT:
        """Put the rows of the data sets `other` behind those of this one.

        Examples
        --------
        >>> ray.data.range(2).union(ray.data.range(1)).count()
        3
        """
        return self._derived(Union((self._plan, *(each._plan for each in other))))

    def zip(self, *other: DatasetT) -> DatasetT:
        """Add the columns of other data sets to this one, row by row.

        Parameters
        ----------
        *other : Dataset
            With the same number of rows. A column whose name is taken gets a number: ``a_1``.

        Examples
        --------
        >>> ray.data.range(2).zip(ray.data.from_items(["a", "b"])).take_all()
        [{'id': 0, 'item': 'a'}, {'id': 1, 'item': 'b'}]

        Raises
        ------
        ValueError
            When no other data set is given; when executed, if the numbers of rows differ.
        """
        if not other:
            raise ValueError("zip() has no data set: give one or more, as in left.zip(right).")
        plans = (self._plan, *(each._plan for each in other))
        return self._derived(Zip(plans, "Zip", exchange.zipped))

    def mix(
        self,
        *other: DatasetT,
        weights: list[float] | None = None,
        stopping_condition: MixStoppingCondition = MixStoppingCondition.STOP_ON_LONGEST_DROP,
    ) -> DatasetT:
        """Take blocks of several data sets in turn.

        Parameters
        ----------
        *other : Dataset
            With the same columns.
        weights : list of float, optional
            Shares of the rows, greater than 0, one for each data set; this one is the first. Default:
            equal ones. Blocks stay whole, so the shares hold about.
        stopping_condition : MixStoppingCondition
            Whether the shortest or the longest data set is the end.

        Raises
        ------
        ValueError
            When the number of weights is not that of data sets, or a weight is not greater than 0.

        Examples
        --------
        >>> ones = ray.data.from_items([1, 1, 1], override_num_blocks=3)
        >>> twos = ray.data.from_items([2, 2, 2], override_num_blocks=3)
        >>> [row["item"] for row in ones.mix(twos).take_all()]
        [1, 2, 1, 2, 1, 2]
        """
        plans = (self._plan, *(each._plan for each in other))
        shares = [1.0] * len(plans) if weights is None else list(weights)
        if len(shares) != len(plans):
            raise ValueError(
                f"weights={weights} are {len(shares)} for {len(plans)} data sets: give one for each, "
                "this data set's first."
            )
        if any(share <= 0 for share in shares):
            raise ValueError(f"weights={weights}: give numbers greater than 0.")
        condition = MixStoppingCondition(stopping_condition)
        return self._derived(Mix(plans, tuple(shares), condition))

    def join(
        self,
        ds: DatasetT,
        join_type: str,
        num_partitions: int,
        on: Sequence[str] = ("id",),
        right_on: Sequence[str] | None = None,
        left_suffix: str | None = None,
        right_suffix: str | None = None,
        *,
        partition_size_hint: int | None = None,
        aggregator_ray_remote_args: Mapping[str, object] | None = None,
        validate_schemas: bool = False,
    ) -> DatasetT:
        """Join the rows with equal keys, using Arrow.

        Parameters
        ----------
        ds : Dataset
            The right side.
        join_type : str
            ``inner``, ``left_outer``, ``right_outer``, ``full_outer``, ``left_semi``, ``right_semi``,
            ``left_anti`` or ``right_anti``.
        num_partitions : int
            Blocks to make; each is joined by a task.
        on : tuple of str
            The columns of keys, and those of the right side unless `right_on` names these.
        right_on : tuple of str, optional
            The columns of keys of the right side.
        left_suffix, right_suffix : str, optional
            Put behind the names of other columns that both sides have.
        partition_size_hint : int, optional
            Has no effect.
        aggregator_ray_remote_args : optional
            Not supported.
        validate_schemas : bool, default False
            Compare the types of the keys now; this may execute a part of both plans.

        Examples
        --------
        >>> sizes = ray.data.from_items([{"id": 1, "size": 10}])
        >>> ray.data.range(3).join(sizes, "inner", 1, on=("id",)).take_all()
        [{'id': 1, 'size': 10}]

        Raises
        ------
        ValueError
            For an unknown `join_type`, columns that are not there, types that cannot be compared, and
            names that both sides have.

        Notes
        -----
        Ray source: ``Dataset.join``, 2.60.0. Differs from Ray: it needs no other library.
        """
        if join_type not in joining.TYPES:
            raise ValueError(
                f"join_type={join_type!r} should be one of {', '.join(joining.TYPES)}."
            )
        if not isinstance(num_partitions, int) or num_partitions < 1:
            raise ValueError(f"num_partitions={num_partitions!r} is not a number of 1 or more.")
        refuse_options("Dataset.join", aggregator_ray_remote_args=aggregator_ray_remote_args)
        if partition_size_hint is not None:
            warnings.warn(
                "partition_size_hint has no effect: leave it out.", DeprecationWarning, stacklevel=2
            )
        keys = (_keys("on", on), _keys("right_on", right_on or on))
        if len(keys[0]) != len(keys[1]):
            raise ValueError(
                f"on={keys[0]} has {len(keys[0])} columns and right_on={keys[1]} {len(keys[1])}: give "
                "as many."
            )
        if validate_schemas:
            _check_types(self.schema(), ds.schema(), keys)
        target = self._context.target_max_block_size
        suffixes = (left_suffix, right_suffix)
        return self._derived(
            joining.join(self._plan, ds._plan, join_type, num_partitions, keys, suffixes, target)
        )

    def streaming_train_test_split(
        self,
        test_size: float,
        *,
        split_type: str = "random",
        hash_column: str | None = None,
        seed: int | None = None,
        **ray_remote_kwargs: object,
    ) -> tuple[DatasetT, DatasetT]:
        """Divide the rows into those to train with and those to test with, without executing the plan.

        Parameters
        ----------
        test_size : float
            The share to test with, between 0 and 1. The numbers of rows meet it about.
        split_type : {"random", "hash"}, default "random"
            ``hash``: rows with equal values in `hash_column` are on one side, always the same.
        hash_column : str, optional
            For ``hash``.
        seed : int, optional
            For ``random``. Default: drawn now.
        **ray_remote_kwargs
            Not supported.

        Examples
        --------
        >>> train, test = ray.data.range(10).streaming_train_test_split(
        ...     test_size=0.5, split_type="random", seed=1
        ... )
        >>> train.count() + test.count()
        10

        Raises
        ------
        ValueError
            For a share out of range, and options that do not fit `split_type`.

        Notes
        -----
        Ray source: ``Dataset.streaming_train_test_split``, 2.60.0. Differs from Ray: ``random``
        chooses other rows. The plan is executed once for each side; it must make the same blocks each
        time.
        """
        refuse_options("Dataset.streaming_train_test_split", **ray_remote_kwargs)
        if not 0 < test_size < 1:
            raise ValueError(f"test_size={test_size!r} is not a share: give 0 < test_size < 1.")
        if split_type not in ("random", "hash"):
            raise ValueError(f'split_type={split_type!r} should be "random" or "hash".')
        if (split_type == "hash") != (hash_column is not None):
            raise ValueError(
                f"split_type={split_type!r} with hash_column={hash_column!r}: the column is for "
                '"hash", which needs it.'
            )
        if split_type == "hash" and seed is not None:
            raise ValueError(f'seed={seed} is for split_type="random": leave it out.')
        if seed is None:
            seed = int(np.random.SeedSequence().generate_state(1)[0])
        train, test = (
            self._derived(
                Map(
                    self._plan,
                    "Split",
                    (TableStep(_side, (side, test_size, hash_column, seed)),),
                )
            )
            for side in (False, True)
        )
        return train, test


def _keys(name: str, columns: object) -> list[str]:
    if not isinstance(columns, tuple | list) or not columns:
        raise ValueError(f"{name}={columns!r} is not a tuple of columns: give at least one.")
    return list(columns)


def _check_types(
    left: Schema | None, right: Schema | None, keys: tuple[list[str], list[str]]
) -> None:
    types = []
    for schema, names in ((left, keys[0]), (right, keys[1])):
        known = dict(zip(schema.names, schema.types, strict=True)) if schema is not None else {}
        require_columns(names, list(known), "join")
        types.append([known[name] for name in names])
    if types[0] != types[1]:
        raise ValueError(
            f"The keys {keys[0]} have the types {types[0]}, and {keys[1]} have {types[1]}: convert "
            "them to the same types first."
        )


def _side(
    table: Block, is_test: bool, test_size: float, hash_column: str | None, seed: int
) -> Block:
    """Return the rows of a block that are on one side."""
    if hash_column is not None:
        require_columns([hash_column], table.column_names, "streaming_train_test_split")
        # NumPy's scalars, because their texts are what is hashed.
        values = table[hash_column].to_numpy()
        chosen = np.array([_hash(each) >= (1 - test_size) * 2**64 for each in values], bool)
    else:
        # Blocks of equal content draw equal numbers, whenever they are made.
        random = np.random.default_rng([seed, _checksum(table)])
        chosen = random.random(table.num_rows) < test_size
    return table.filter(pa.array(chosen == is_test))


def _hash(value: object) -> int:
    """Return a number of 64 bits for a value, the same in all processes and in Ray."""
    return int.from_bytes(hashlib.blake2b(str(value).encode(), digest_size=8).digest(), "big")


def _checksum(table: Block) -> int:
    """Return a number that depends on the first and the last row."""
    ends = [table.slice(0, 1), table.slice(max(table.num_rows - 1, 0), 1)]
    return zlib.crc32(repr([each.to_pydict() for each in ends] + [table.num_rows]).encode())
