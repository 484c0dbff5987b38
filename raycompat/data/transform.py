"""Steps: functions of blocks in a map operator. A task runs several, one after the other."""

from __future__ import annotations

import functools
import inspect
import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, TypeAlias

import numpy as np
import pyarrow as pa

from raycompat._old_forms.data import plain_rows
from raycompat.data import batch, block, concurrent, frames, seeds
from raycompat.data.block import Block
from raycompat.data.pushdown import EVERYTHING, Uses
from raycompat.data.seeds import RandomSeedConfig
from raycompat.data.storable import storable

Tables: TypeAlias = Iterable[Block]

#: Maps batches or rows to the results of a function.
ResultsOf: TypeAlias = Callable[[Iterable[Any]], Iterator[Any]]

#: The `batch_size` that is chosen from the bytes of a row, and the bytes of such a batch.
AUTO: Literal["auto"] = "auto"
_AUTO_BYTES = 16 * 2**20

#: Rows of a function of rows that become one table before tables are put together: at most so many
#: rows, and no more after so many bytes.
_ROWS_A_TABLE, _BYTES_A_TABLE = 4096, 4 * 2**20


@dataclass(frozen=True)
class UserFunction:
    """A function, or a class whose instances are called, with its further arguments."""

    function: Callable[..., Any]
    args: Sequence[object] = ()
    kwargs: Mapping[str, object] = field(default_factory=dict)
    constructor_args: Sequence[object] = ()
    constructor_kwargs: Mapping[str, object] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not callable(self.function):
            raise ValueError(
                f"{self.function!r} is not callable: give a function, or a class with __call__."
            )
        if not self.is_class and (self.constructor_args or self.constructor_kwargs):
            raise ValueError(
                "fn_constructor_args and fn_constructor_kwargs are for classes, and "
                f"{self.name} is a function. Give fn_args and fn_kwargs."
            )

    @classmethod
    def of(cls, parameters: Mapping[str, Any]) -> UserFunction:
        """Return the function of a method, with the arguments that the method's ``locals()`` have."""
        return cls(
            parameters["fn"],
            tuple(parameters["fn_args"] or ()),
            parameters["fn_kwargs"] or {},
            tuple(parameters["fn_constructor_args"] or ()),
            parameters["fn_constructor_kwargs"] or {},
        )

    @property
    def is_class(self) -> bool:
        """Whether it has to be constructed before it is called."""
        return inspect.isclass(self.function)

    @property
    def name(self) -> str:
        """The name in the list of operators."""
        default = type(self.function).__name__
        return str(getattr(self.function, "__name__", default))

    def load(self) -> ResultsOf:
        """Return what maps batches or rows to the results of the function, in order.

        If the function is asynchronous, a few of its calls run at the same time.
        """
        function = self.function
        if self.is_class:
            function = function(*self.constructor_args, **self.constructor_kwargs)
        args, kwargs = self.args, self.kwargs
        called = (
            functools.partial(_call_with, function, args, kwargs) if args or kwargs else function
        )
        kinds = (function, type(function).__call__)
        if any(map(inspect.isasyncgenfunction, kinds)):
            return concurrent.Calls(functools.partial(concurrent.collected, called))
        if any(map(inspect.iscoroutinefunction, kinds)):
            return concurrent.Calls(called)
        return functools.partial(map, called)

    def load_one(self) -> Callable[[Any], Any]:
        """Return the function of one batch or row."""
        results_of = self.load()
        return lambda value: next(results_of([value]))


def _call_with(
    function: Callable[..., object],
    args: Sequence[object],
    kwargs: Mapping[str, object],
    value: object,
) -> Any:
    return function(value, *args, **kwargs)


class Step(Protocol):
    """A part of a map operator, pickled once and loaded in each process that runs it."""

    def load(self) -> Callable[[Tables], Iterator[Block]]:
        """Return the function that does it."""


@dataclass(frozen=True)
class MapBatches:
    """Call a function with each batch; it returns a batch, or yields several."""

    function: UserFunction
    batch_size: int | Literal["auto"] | None
    batch_format: str | None
    zero_copy: bool = True

    def load(self) -> Callable[[Tables], Iterator[Block]]:
        """Return the function of tables."""
        function = self.function.load()

        return lambda tables: tables_of(function(map(self._given, self._sized(tables))))

    def _sized(self, tables: Tables) -> Iterator[Block]:
        if self.batch_size != AUTO:
            return batch.sized(tables, self.batch_size)
        return (part for table in tables for part in batch.sized([table], _fitting_rows(table)))

    def _given(self, table: Block) -> object:
        formatted = batch.formatted(table, self.batch_format)
        return formatted if self.zero_copy else _copied(formatted)


def tables_of(results: Iterable[object]) -> Iterator[Block]:
    """Return the results of a function of batches as tables: each is a batch, or yields several."""
    for result in results:
        if isinstance(result, Iterator | concurrent.Several):
            yield from map(block.to_table, result)
        else:
            yield block.to_table(result)


def _fitting_rows(table: Block) -> int:
    size_bytes: int = table.nbytes
    return max(1, _AUTO_BYTES * int(table.num_rows) // max(1, size_bytes))


def _copied(given: object) -> object:
    if isinstance(given, dict):
        return {name: np.array(values) for name, values in given.items()}
    return given.copy() if hasattr(given, "copy") else given


@dataclass(frozen=True)
class MapRows:
    """Call a function with each row; it returns a row, or (`is_flat`) several."""

    function: UserFunction
    is_flat: bool = False

    def load(self) -> Callable[[Tables], Iterator[Block]]:
        """Return the function of tables."""
        function = self.function.load()
        made = self._flat(function) if self.is_flat else self._single(function)

        def run(tables: Tables) -> Iterator[Block]:
            waiting: list[Mapping[str, object]] = []
            size_bytes = 0
            for table in tables:
                for row in made(table):
                    waiting.append(row)
                    size_bytes += _size_bytes(row)
                    if len(waiting) == _ROWS_A_TABLE or size_bytes >= _BYTES_A_TABLE:
                        yield block.from_rows(waiting)
                        waiting, size_bytes = [], 0
            if waiting:
                yield block.from_rows(waiting)

        return run

    @staticmethod
    def _single(function: ResultsOf) -> Callable[[Block], Iterator[Mapping[str, object]]]:
        return lambda table: (_row(made, "map") for made in function(block.rows(table)))

    @staticmethod
    def _flat(function: ResultsOf) -> Callable[[Block], Iterator[Mapping[str, object]]]:
        def made(table: Block) -> Iterator[Mapping[str, object]]:
            for several in function(block.rows(table)):
                if isinstance(several, Mapping | str) or not isinstance(several, Iterable):
                    raise ValueError(
                        f"The function of flat_map returned {several!r}, which is not a list of "
                        "rows. Return a list of dictionaries, one for each row."
                    )
                yield from (_row(each, "flat_map") for each in several)

        return made


def _size_bytes(row: Mapping[str, object]) -> int:
    """Return the bytes of the arrays and texts in a row; other values are small."""
    size_bytes = 0
    for value in row.values():
        if isinstance(value, np.ndarray):
            size_bytes += value.nbytes
        elif isinstance(value, bytes | str):
            size_bytes += len(value)
    return size_bytes


def _row(value: object, what: str) -> Mapping[str, object]:
    if not isinstance(value, Mapping):
        if plain_rows.are_chosen():
            return plain_rows.row(value)
        raise ValueError(
            f"The function of {what} returned {value!r}, which is not a row. A row is a dictionary "
            f'of columns and values: {{"{block.ITEM_COLUMN}": {value!r}}}. In a program for Ray 2.4 or '
            "older it can be any value: raycompat run --ray 2.4 program.py"
        )
    return value


@dataclass(frozen=True)
class FilterRows:
    """Keep the rows for which a function is true."""

    function: UserFunction

    def load(self) -> Callable[[Tables], Iterator[Block]]:
        """Return the function of tables."""
        function = self.function.load()

        def run(tables: Tables) -> Iterator[Block]:
            for table in tables:
                if table.num_rows:
                    keeps = list(map(bool, function(block.rows(table))))
                    yield frames.unrecorded(table.filter(pa.array(keeps, pa.bool_())))

        return run


@dataclass(frozen=True)
class CutRows:
    """Cut the rows of a task into blocks of a number of rows."""

    number: int
    #: It drops nothing.
    uses: Uses = EVERYTHING

    def load(self) -> Callable[[Tables], Iterator[Block]]:
        """Return the function of tables."""
        return lambda tables: batch.sized(tables, self.number)


@dataclass(frozen=True)
class SplitBlocks(CutRows):
    """Cut each block of a task into a number of them, of about equal rows."""

    def load(self) -> Callable[[Tables], Iterator[Block]]:
        """Return the function of tables."""
        return lambda tables: itertools.chain.from_iterable(map(self._parts, tables))

    def _parts(self, table: Block) -> Iterator[Block]:
        bounds = np.linspace(0, table.num_rows, self.number + 1).astype(int)
        parts = (table.slice(start, end - start) for start, end in itertools.pairwise(bounds))
        return iter([part for part in parts if part.num_rows] or [table])


@dataclass(frozen=True)
class SampleRows:
    """Keep each row with a probability."""

    fraction: float
    seed: int | RandomSeedConfig | None

    def load(self) -> Callable[[Tables], Iterator[Block]]:
        """Return the function of tables."""

        def run(tables: Tables) -> Iterator[Block]:
            # Samples of one seed draw from one generator, so a sample of a sample has other numbers.
            random = seeds.of_task().random((SampleRows, self.seed), self.seed)
            for table in tables:
                if table.num_columns:
                    chosen = random.random(table.num_rows) < self.fraction
                    yield frames.unrecorded(table).filter(pa.array(chosen))

        return run


@dataclass(frozen=True)
class TableStep:
    """Call an internal function with each table."""

    function: Callable[..., Block]
    args: tuple[Any, ...] = ()
    #: What it uses, if it only drops rows and columns.
    uses: Uses | None = None

    def load(self) -> Callable[[Tables], Iterator[Block]]:
        """Return the function of tables."""
        return lambda tables: (
            self.function(table, *self.args) for table in tables if table.num_columns
        )


def columns_after(step: Step, known: pa.Schema) -> pa.Schema | None:
    """Return the columns after a step, if they are known without taking it."""
    if isinstance(step, TableStep) and step.function in (select, rename):
        try:
            return step.function(known.empty_table(), *step.args).schema
        except ValueError:
            return None  # the step raises the error
    if isinstance(step, FilterRows):
        return frames.unrecorded(known.empty_table()).schema
    uses = getattr(step, "uses", None)
    return None if uses is None or uses.drops_others else known


def keeps_rows(step: Step) -> bool:
    """Return whether as many rows come out of a step as go in."""
    is_of_columns = isinstance(step, TableStep) and step.function in (select, rename)
    return is_of_columns or isinstance(step, CutRows)


def select(table: Block, names: Sequence[str]) -> Block:
    """Return some columns."""
    block.require_columns(names, table.column_names, "select_columns")
    return storable(table.select(names))


def drop(table: Block, names: Sequence[str]) -> Block:
    """Return all columns but some."""
    block.require_columns(names, table.column_names, "drop_columns")
    return storable(frames.unrecorded(table).drop_columns(names))


def rename(table: Block, names: Mapping[str, str] | Sequence[str]) -> Block:
    """Return the columns under other names."""
    if not isinstance(names, Mapping):
        if len(names) != table.num_columns:
            raise ValueError(
                f"rename_columns: {list(names)} are {len(names)} names, the columns are "
                f"{table.column_names}. Give one name for each, or a dictionary."
            )
        return frames.renamed(table, list(names))
    block.require_columns(names, table.column_names, "rename_columns")
    new = [names.get(name, name) for name in table.column_names]
    if twice := sorted({name for name in new if new.count(name) > 1}):
        raise ValueError(
            f"rename_columns({dict(names)}) gives two columns the name {twice[0]!r}. The columns are "
            f"{table.column_names}. Give each its own name, or drop one with drop_columns first."
        )
    return frames.renamed(table, new)


@dataclass(frozen=True)
class Transform:
    """The steps of one operator, the size of its blocks and the number of the execution."""

    steps: tuple[Step, ...]
    target_bytes: int
    execution: int

    def load(self) -> Callable[[int, Tables], Iterator[Block]]:
        """Return the function that takes all steps in the task of a number."""
        loaded = [step.load() for step in self.steps]
        is_cut = any(isinstance(step, CutRows) for step in self.steps)

        def run(task: int, tables: Tables) -> Iterator[Block]:
            seeds.current.set(seeds.Numbers(self.execution, task))
            for step, load in zip(self.steps, loaded, strict=True):
                if isinstance(step, SplitBlocks):
                    tables = batch.of_target_size(tables, self.target_bytes)
                tables = load(tables)
            if is_cut:
                return iter(tables)
            return batch.of_target_size(tables, self.target_bytes)

        return run
