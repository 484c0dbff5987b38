"""Expressions of columns, for `Dataset.with_column` and `Dataset.filter`: ``col("x") * 2``.

An expression is a tree that is evaluated on the Arrow table of a block, by ``pyarrow.compute``.
"""

from __future__ import annotations

import builtins
import logging
import uuid as uuid_module
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, NoReturn, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from raycompat._surface.modules import names_of
from raycompat.data import block, files, frames, seeds
from raycompat.data.block import Block
from raycompat.data.datatype import DataType
from raycompat.data.namespaces import Arrays, Lists, Maps, Structs, Texts, Times
from raycompat.data.pushdown import Condition, Uses, membership
from raycompat.data.seeds import Numbers, RandomSeedConfig
from raycompat.data.storable import storable

if TYPE_CHECKING:
    from raycompat.data.block import Column
    from raycompat.data.files import ArrowFileSystem, FileSystem

__all__ = [
    "Expr",
    "col",
    "download",
    "lit",
    "monotonically_increasing_id",
    "pyarrow_udf",
    "random",
    "star",
    "udf",
    "unnest",
    "uuid",
]


#: What an expression is for a table: a value for each row, or one for all rows.
Datum: TypeAlias = "pa.ChunkedArray | pa.Array | pa.Scalar | np.ndarray"

#: The name of an expression in its text, and what it is computed from, each with a label.
_Node: TypeAlias = "tuple[str, list[tuple[str, object]]]"


class Expr:
    """A value for each row, computed from columns. `col` and `lit` make simple ones.

    Expressions are joined by ``+ - * / // %``, comparisons, ``& | ~`` and the methods here.

    Examples
    --------
    >>> from raycompat.data.expressions import col
    >>> col("price") * 1.2 > 100
    GT
        ├── left: MUL
        │   ├── left: COL('price')
        │   └── right: LIT(1.2)
        └── right: LIT(100)

    Notes
    -----
    Ray source: ``ray.data.expressions.Expr``, 2.60.0. Differs from Ray: the text of a call, such as
    ``col("x").abs()``, has the name of its function.
    """

    name: builtins.str | None = None

    def structurally_equals(self, other: object) -> builtins.bool:
        """Return whether another expression computes the same from the same columns.

        Parameters
        ----------
        other : Expr
            The other expression. ``==`` makes an expression of two, and does not compare them.

        Examples
        --------
        >>> from raycompat.data.expressions import col
        >>> (col("x") + 1).structurally_equals(col("x") + 1)
        True
        """
        return type(self) is type(other) and _are_same(self._structure(), other._structure())

    def _structure(self) -> dict[builtins.str, object]:
        """Return what makes it compute what it does."""
        return vars(self)

    def __repr__(self) -> builtins.str:
        first, *others = _tree(self)
        return "\n".join([first, *(f"    {each}" for each in others)])

    def _code(self) -> builtins.str:
        """Return its Python code, for messages."""
        raise NotImplementedError

    def _node(self) -> _Node:
        """Return its name in the tree that is its text, and what is below, each with a label."""
        return self._code().upper(), []

    def _evaluate(self, table: Block) -> Datum:
        raise NotImplementedError

    def _parts(self) -> Iterator[Expr]:
        """Return the expressions that it is computed from."""
        return iter(())

    def _has_class(self) -> bool:
        """Return whether a class is to be constructed for it."""
        return any(each._has_class() for each in self._parts())

    def _sources(self) -> set[builtins.str]:
        """Return the names of the columns whose kind of pandas type its values have."""
        return set()

    def _arrow(self) -> pc.Expression | None:
        """Return the same as an expression of Arrow's, if it can leave out groups of rows."""
        return None

    def _is_of_row(self) -> builtins.bool:
        """Return whether the value of a row depends only on the values in this row's columns."""
        return False

    def _columns(self) -> Iterator[builtins.str]:
        """Return the names of its columns."""
        for each in self._parts():
            yield from each._columns()

    def _conjuncts(self) -> Iterator[Expr]:
        """Return the conditions that all have to be true for this one to be true."""
        yield self

    def _call(self, function: Callable[..., object], *others: object, **options: object) -> Expr:
        return _Call(function, (self, *others), options)

    def __add__(self, other: object) -> Expr:
        return _Call(_add, (self, other), sign="+")

    def __radd__(self, other: object) -> Expr:
        return _Call(_add, (other, self), sign="+")

    def __sub__(self, other: object) -> Expr:
        return _Call(pc.subtract, (self, other), sign="-")

    def __rsub__(self, other: object) -> Expr:
        return _Call(pc.subtract, (other, self), sign="-")

    def __mul__(self, other: object) -> Expr:
        return _Call(pc.multiply, (self, other), sign="*")

    def __rmul__(self, other: object) -> Expr:
        return _Call(pc.multiply, (other, self), sign="*")

    def __truediv__(self, other: object) -> Expr:
        return _Call(pc.divide, (self, other), sign="/")

    def __rtruediv__(self, other: object) -> Expr:
        return _Call(pc.divide, (other, self), sign="/")

    def __floordiv__(self, other: object) -> Expr:
        return _Call(_floor_divide, (self, other), sign="//")

    def __rfloordiv__(self, other: object) -> Expr:
        return _Call(_floor_divide, (other, self), sign="//")

    def __mod__(self, other: object) -> Expr:
        return _Call(_remainder, (self, other), sign="%")

    def __rmod__(self, other: object) -> Expr:
        return _Call(_remainder, (other, self), sign="%")

    def __gt__(self, other: object) -> Expr:
        return _Call(pc.greater, (self, other), sign=">")

    def __lt__(self, other: object) -> Expr:
        return _Call(pc.less, (self, other), sign="<")

    def __ge__(self, other: object) -> Expr:
        return _Call(pc.greater_equal, (self, other), sign=">=")

    def __le__(self, other: object) -> Expr:
        return _Call(pc.less_equal, (self, other), sign="<=")

    def __eq__(self, other: object) -> Expr:  # type: ignore[override]
        return _Call(pc.equal, (self, other), sign="==")

    def __ne__(self, other: object) -> Expr:  # type: ignore[override]
        return _Call(pc.not_equal, (self, other), sign="!=")

    __hash__ = None  # type: ignore[assignment]

    def __and__(self, other: object) -> Expr:
        return _Call(pc.and_kleene, (self, other), sign="&")

    def __or__(self, other: object) -> Expr:
        return _Call(pc.or_kleene, (self, other), sign="|")

    def __invert__(self) -> Expr:
        return self._call(pc.invert)

    def __bool__(self) -> NoReturn:
        raise TypeError(
            f"{self._code()} has a value for each row: join conditions by & | ~, not by and, or, not."
        )

    def is_null(self) -> Expr:
        """Whether the value is missing.

        Examples
        --------
        >>> from raycompat.data.expressions import col
        >>> days = ray.data.from_items([{"celsius": 10.0}, {"celsius": None}])
        >>> days.with_column("missing", col("celsius").is_null()).take_all()
        [{'celsius': 10.0, 'missing': False}, {'celsius': None, 'missing': True}]
        """
        return self._call(pc.is_null)

    def is_not_null(self) -> Expr:
        """Whether the value is there.

        Examples
        --------
        >>> from raycompat.data.expressions import col
        >>> days = ray.data.from_items([{"celsius": 10.0}, {"celsius": None}])
        >>> days.filter(expr=col("celsius").is_not_null()).take_all()
        [{'celsius': 10.0}]
        """
        return self._call(pc.is_valid)

    def is_in(self, values: Iterable[object] | Expr) -> Expr:
        """Whether the value is one of some.

        Parameters
        ----------
        values : list or Expr
            The values. Those of an expression are all that it has in the block of the row.

        Examples
        --------
        >>> from raycompat.data.expressions import col
        >>> ray.data.range(5).filter(expr=col("id").is_in([1, 3, 8])).take_all()
        [{'id': 1}, {'id': 3}]
        """
        if isinstance(values, Expr) and not isinstance(values, _Literal):
            return _Call(_is_among, (self, values))
        members = values.value if isinstance(values, _Literal) else values
        return self._call(pc.is_in, value_set=pa.array(list(members)))

    def not_in(self, values: Iterable[object] | Expr) -> Expr:
        """Return whether the value is in none of some values.

        Examples
        --------
        >>> from raycompat.data.expressions import col
        >>> ray.data.range(4).filter(expr=col("id").not_in([1, 2])).take_all()
        [{'id': 0}, {'id': 3}]
        """
        return _NotIn(pc.invert, (self.is_in(values),))

    def alias(self, name: builtins.str) -> Expr:
        """Return the same expression under a name.

        Examples
        --------
        >>> from raycompat.data.expressions import col
        >>> (col("price") * 1.2).alias("gross").name
        'gross'
        """
        return _Alias(self, name)

    def ceil(self) -> Expr:
        """Round up.

        Examples
        --------
        >>> from raycompat.data.expressions import col
        >>> numbers = ray.data.from_items([{"x": -1.5}])
        >>> def of(expression):
        ...     return numbers.with_column("y", expression).take(1)[0]["y"]
        >>> of(col("x").ceil()), of(col("x").floor()), of(col("x").trunc())
        (-1.0, -2.0, -1.0)
        """
        return self._call(pc.ceil)

    def floor(self) -> Expr:
        """Round down."""
        return self._call(pc.floor)

    def round(self) -> Expr:
        """Round to the nearest integer, halves to the even one.

        Examples
        --------
        >>> from raycompat.data.expressions import col
        >>> days = ray.data.from_items([{"celsius": 10.26}])
        >>> days.with_column("whole", col("celsius").round()).take_all()
        [{'celsius': 10.26, 'whole': 10.0}]
        """
        return self._call(pc.round)

    def trunc(self) -> Expr:
        """Round towards zero."""
        return self._call(pc.trunc)

    def ln(self) -> Expr:
        """Return the natural logarithm.

        Examples
        --------
        >>> from raycompat.data.expressions import col
        >>> numbers = ray.data.from_items([{"x": 8.0}])
        >>> def of(expression):
        ...     return round(numbers.with_column("y", expression).take(1)[0]["y"], 3)
        >>> of(col("x").ln()), of(col("x").log10()), of(col("x").log2())
        (2.079, 0.903, 3.0)
        >>> of(col("x").exp())
        2980.958
        """
        return self._call(pc.ln)

    def log10(self) -> Expr:
        """Return the logarithm to base 10."""
        return self._call(pc.log10)

    def log2(self) -> Expr:
        """Return the logarithm to base 2."""
        return self._call(pc.log2)

    def exp(self) -> Expr:
        """Return e to this power."""
        return self._call(pc.exp)

    def sin(self) -> Expr:
        """Return the sine of radians.

        Examples
        --------
        >>> from raycompat.data.expressions import col
        >>> angles = ray.data.from_items([{"x": 0.5}])
        >>> def of(expression):
        ...     return round(angles.with_column("y", expression).take(1)[0]["y"], 3)
        >>> of(col("x").sin()), of(col("x").cos()), of(col("x").tan())
        (0.479, 0.878, 0.546)
        >>> of(col("x").asin()), of(col("x").acos()), of(col("x").atan())
        (0.524, 1.047, 0.464)
        """
        return self._call(pc.sin)

    def cos(self) -> Expr:
        """Return the cosine of radians."""
        return self._call(pc.cos)

    def tan(self) -> Expr:
        """Return the tangent of radians."""
        return self._call(pc.tan)

    def asin(self) -> Expr:
        """Return the arc sine in radians."""
        return self._call(pc.asin)

    def acos(self) -> Expr:
        """Return the arc cosine in radians."""
        return self._call(pc.acos)

    def atan(self) -> Expr:
        """Return the arc tangent in radians."""
        return self._call(pc.atan)

    def negate(self) -> Expr:
        """Change the sign.

        Examples
        --------
        >>> from raycompat.data.expressions import col
        >>> numbers = ray.data.from_items([{"x": -3}])
        >>> def of(expression):
        ...     return numbers.with_column("y", expression).take(1)[0]["y"]
        >>> of(col("x").negate()), of(col("x").sign()), of(col("x").abs())
        (3, -1, 3)
        """
        return self._call(pc.negate_checked)

    def sign(self) -> Expr:
        """Return -1, 0 or 1."""
        return self._call(pc.sign)

    def power(self, exponent: Expr | float) -> Expr:
        """Raise to a power, a number or an expression.

        Examples
        --------
        >>> from raycompat.data.expressions import col
        >>> ray.data.range(3).with_column("square", col("id").power(2)).take_all()
        [{'id': 0, 'square': 0}, {'id': 1, 'square': 1}, {'id': 2, 'square': 4}]
        """
        return self._call(pc.power, exponent)

    def abs(self) -> Expr:
        """Return the absolute value."""
        return self._call(pc.abs_checked)

    def cast(self, target_type: DataType | pa.DataType, *, safe: bool = True) -> Expr:
        """Convert to another type.

        Parameters
        ----------
        target_type : DataType, pyarrow.DataType or str
            The type, or Arrow's name of it, such as ``"float32"``.
        safe : bool, default True
            Raise an error for a value that does not fit.

        Examples
        --------
        >>> import pyarrow as pa
        >>> from raycompat.data.expressions import col
        >>> ray.data.range(2).with_column(
        ...     "text", col("id").cast(pa.string())
        ... ).take_all()
        [{'id': 0, 'text': '0'}, {'id': 1, 'text': '1'}]
        """
        if isinstance(target_type, DataType):
            target_type = target_type.to_arrow_dtype()
        return self._call(pc.cast, target_type=target_type, safe=safe)

    @property
    def str(self) -> Texts[Expr]:
        """Functions of text.

        Examples
        --------
        >>> from raycompat.data.expressions import col
        >>> names = ray.data.from_items([{"name": "  Ada "}])
        >>> names.with_column("name", col("name").str.strip().str.upper()).take_all()
        [{'name': 'ADA'}]
        """
        return Texts(self._call)

    @property
    def dt(self) -> Times[Expr]:
        """Functions of times and dates.

        Examples
        --------
        >>> import datetime
        >>> from raycompat.data.expressions import col
        >>> days = ray.data.from_items([{"day": datetime.datetime(2024, 5, 17)}])
        >>> days.with_column("month", col("day").dt.month()).take(1)[0]["month"]
        5
        """
        return Times(self._call)

    @property
    def list(self) -> Lists[Expr]:
        """Functions of lists, and their parts.

        Examples
        --------
        >>> from raycompat.data.expressions import col
        >>> words = ray.data.from_items([{"words": ["a", "b"]}])
        >>> words.with_column("count", col("words").list.len()).with_column(
        ...     "first", col("words").list[0]
        ... ).select_columns(["count", "first"]).take_all()
        [{'count': 2, 'first': 'a'}]
        """
        return Lists(self._call)

    @property
    def struct(self) -> Structs[Expr]:
        """Fields of structs.

        Examples
        --------
        >>> from raycompat.data.expressions import col
        >>> people = ray.data.from_items([{"person": {"name": "Ada", "age": 36}}])
        >>> people.with_column("age", col("person").struct["age"]).take(1)[0]["age"]
        36
        """
        return Structs(self._call)

    @property
    def map(self) -> Maps[Expr]:
        """Keys and values of maps.

        Examples
        --------
        >>> import pyarrow as pa
        >>> from raycompat.data.expressions import col
        >>> type_ = pa.map_(pa.string(), pa.int64())
        >>> sizes = pa.table({"sizes": pa.array([[("a", 1), ("b", 2)]], type_)})
        >>> rows = ray.data.from_arrow(sizes).with_column(
        ...     "values", col("sizes").map.values()
        ... )
        >>> rows.take(1)[0]["values"]
        [1, 2]
        """
        return Maps(self._call)

    @property
    def arr(self) -> Arrays[Expr]:
        """Functions of arrays of a fixed size.

        Examples
        --------
        >>> import pyarrow as pa
        >>> from raycompat.data.expressions import col
        >>> vectors = pa.array([[1, 2], [3, 4]], pa.list_(pa.int64(), 2))
        >>> rows = ray.data.from_arrow(pa.table({"vector": vectors}))
        >>> lists = rows.with_column("values", col("vector").arr.to_list())
        >>> lists.select_columns("values").take_all()
        [{'values': [1, 2]}, {'values': [3, 4]}]
        """
        return Arrays(self._call)


class _Column(Expr):
    def __init__(self, name: str) -> None:
        self.name = name

    def _evaluate(self, table: Block) -> Datum:
        assert self.name is not None
        block.require_columns([self.name], table.column_names, "An expression")
        return table[self.name]

    def _sources(self) -> set[str]:
        assert self.name is not None
        return {self.name}

    def _is_of_row(self) -> bool:
        return True

    def _columns(self) -> Iterator[str]:
        assert self.name is not None
        yield self.name

    def _code(self) -> str:
        return f"col({self.name!r})"

    def _node(self) -> _Node:
        return f"COL({self.name!r})", []


class _Star(Expr):
    def _evaluate(self, table: Block) -> NoReturn:
        raise TypeError(
            "star() stands for all columns, so it has no value for a row: name one column, by col."
        )

    def _code(self) -> str:
        return "star()"

    def _node(self) -> _Node:
        return "COL(*)", []


class _Literal(Expr):
    def __init__(self, value: Any) -> None:
        self.value = value

    def _evaluate(self, table: Block) -> Datum:
        return pa.scalar(self.value)

    def _is_of_row(self) -> bool:
        return True

    def _code(self) -> str:
        return f"lit({self.value!r})"

    def _node(self) -> _Node:
        return f"LIT({self.value!r})", []


class _Made(Expr):
    """A new value for each row, which depends on the task."""

    def __init__(self, text: str) -> None:
        self._text = text
        #: What it keeps between the blocks of a task is stored under this key.
        self._key = uuid_module.uuid4().hex

    def _evaluate(self, table: Block) -> Datum:
        return self._values(table.num_rows, seeds.of_task())

    def _values(self, num_rows: int, numbers: Numbers) -> Datum:
        raise NotImplementedError

    def _structure(self) -> dict[str, object]:
        return {name: each for name, each in vars(self).items() if name != "_key"}

    def _code(self) -> str:
        return self._text


class _Random(_Made):
    def __init__(self, seed: RandomSeedConfig) -> None:
        super().__init__("random()" if seed.seed is None else f"random(seed={seed.seed})")
        self._seed = seed

    def _node(self) -> _Node:
        if self._seed.seed is None:
            return super()._node()
        reseeds = self._seed.reseed_after_execution
        return f"RANDOM(seed={self._seed.seed}, reseed_after_execution={reseeds})", []

    def _values(self, num_rows: int, numbers: Numbers) -> np.ndarray:
        return numbers.random(self._key, self._seed).random(num_rows)


class _Uuid(_Made):
    def _values(self, num_rows: int, numbers: Numbers) -> pa.Array:
        return pa.array([str(uuid_module.uuid4()) for _ in range(num_rows)], pa.string())


class _Increasing(_Made):
    def structurally_equals(self, other: object) -> bool:
        """Return False: each one counts for itself, as in Ray."""
        return False

    def _values(self, num_rows: int, numbers: Numbers) -> np.ndarray:
        first = numbers.kept.get(self._key, numbers.task << _ROW_BITS)
        numbers.kept[self._key] = first + num_rows
        return np.arange(first, first + num_rows, dtype=np.int64)


class _Download(Expr):
    def __init__(self, uris: Expr, filesystem: ArrowFileSystem) -> None:
        self._uris, self._filesystem = uris, filesystem

    def _evaluate(self, table: Block) -> Datum:
        uris: Column = self._uris._evaluate(table)
        with ThreadPoolExecutor(_DOWNLOADS) as threads:
            return pa.array(list(threads.map(self._content, uris.to_pylist())), pa.binary())

    def _content(self, uri: str | None) -> bytes | None:
        if uri is None:
            return None
        try:
            filesystem, path = files.resolve(uri, self._filesystem)
            with filesystem.open_input_stream(path) as stream:
                return bytes(stream.read())
        except (OSError, ValueError) as error:
            _log.warning("%r could not be downloaded, so its value is missing: %s", uri, error)
            return None

    def _code(self) -> str:
        return f"download({self._uris.name!r})"

    def _node(self) -> _Node:
        return f"DOWNLOAD({self._uris.name!r})", []


class Unnest:
    """The fields of structs as columns, for `Dataset.with_columns`; see `unnest`."""

    def __init__(self, expression: Expr) -> None:
        self._expression = expression

    def columns(self, table: Block) -> dict[str, pa.Array]:
        """Return the columns by their names."""
        value = self._expression._evaluate(table)
        if isinstance(value, pa.ChunkedArray):
            value = value.combine_chunks()
        if not isinstance(value, pa.StructArray):
            raise TypeError(
                f"{self!r}: the values of {self._expression._code()} are not structs. Give an "
                "expression of structs."
            )
        return dict(zip(value.type.names, value.flatten(), strict=True))

    def __repr__(self) -> str:
        return f"unnest({self._expression._code()})"


class _Alias(Expr):
    def __init__(self, expr: Expr, name: str) -> None:
        self.expr, self.name = expr, name

    def _evaluate(self, table: Block) -> Datum:
        return self.expr._evaluate(table)

    def _parts(self) -> Iterator[Expr]:
        yield self.expr

    def _sources(self) -> set[str]:
        return self.expr._sources()

    def _code(self) -> str:
        return f"{_nested(self.expr)}.alias({self.name!r})"

    def _node(self) -> _Node:
        return f"ALIAS({self.name!r})", [("", self.expr)]


#: The numbers of the rows of a task have so many bits, those above are the number of the task.
_ROW_BITS = 33

#: Files of a block that are downloaded at a time.
_DOWNLOADS = 16

_log = logging.getLogger(__name__)

#: Functions whose values have the same type whatever types of pandas the columns have.
_OF_OWN_TYPE = (pc.cast, pc.is_null, pc.is_valid)

#: Comparisons that are never true for NaN, which the least and greatest values of a group of rows do
#: not count.
_FALSE_FOR_NAN = (pc.equal, pc.greater, pc.greater_equal, pc.less, pc.less_equal)


class _Call(Expr):
    """A function of expressions and constants."""

    def __init__(
        self,
        function: Callable[..., object],
        args: tuple[Any, ...],
        options: dict[str, Any] | None = None,
        sign: str | None = None,
    ) -> None:
        self._function, self._args, self._options = function, args, options or {}
        self._sign = sign

    def _evaluate(self, table: Block) -> Datum:
        args = [_value(each, table) for each in self._args]
        options = {name: _value(each, table) for name, each in self._options.items()}
        try:
            return self._function(*args, **options)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError) as error:
            raise ValueError(
                f"The expression {self._code()} cannot be computed: {error}"
            ) from error

    def _sources(self) -> set[str]:
        if self._function in _OF_OWN_TYPE:
            return set()
        return {name for each in self._parts() for name in each._sources()}

    def _parts(self) -> Iterator[Expr]:
        operands = (*self._args, *self._options.values())
        return (each for each in operands if isinstance(each, Expr))

    def _has_class(self) -> bool:
        return isinstance(self._function, _Instance) or super()._has_class()

    def _is_of_row(self) -> bool:
        is_of_arrow = getattr(self._function, "__module__", "").startswith("pyarrow")
        return is_of_arrow and all(each._is_of_row() for each in self._parts())

    def _arrow(self) -> pc.Expression | None:
        if self._function in (pc.and_kleene, pc.or_kleene):
            parts = [each._arrow() if isinstance(each, Expr) else None for each in self._args]
            return None if any(part is None for part in parts) else self._function(*parts)
        columns = [
            name for each in self._args if isinstance(each, _Column) for name in each._columns()
        ]
        if len(columns) != 1:
            return None
        if self._function is pc.is_in:
            return membership(columns[0], self._options["value_set"])
        if self._function is pc.is_valid:
            return pc.is_valid(pc.field(columns[0]))
        operands = [_operand(each) for each in self._args]
        if self._function not in _FALSE_FOR_NAN or any(each is None for each in operands):
            return None
        return self._function(*operands)

    def _conjuncts(self) -> Iterator[Expr]:
        if self._function is not pc.and_kleene:
            yield self
            return
        for each in self._parts():
            yield from each._conjuncts()

    def _node(self) -> _Node:
        operation = _OPERATIONS.get(self._function)
        if operation is None:
            below = [(f"arg[{index}]: ", each) for index, each in enumerate(self._args)]
            below += [(f"kwarg[{name!r}]: ", each) for name, each in self._options.items()]
            return f"UDF({_name_of(self._function)})", below
        operands = [*self._args, *(each.to_pylist() for each in self._options.values())]
        sides = ["operand: "] if len(operands) == 1 else ["left: ", "right: "]
        return operation, list(zip(sides, operands, strict=True))

    def _code(self) -> str:
        if self._sign is not None:
            left, right = (_nested(each) for each in self._args)
            return f"{left} {self._sign} {right}"
        arguments = [_code_of(each) for each in self._args]
        for name, value in self._options.items():
            shown = value.to_pylist() if isinstance(value, pa.Array) else value
            arguments.append(f"{name}={_code_of(shown)}")
        return f"{_name_of(self._function)}({', '.join(arguments)})"


class _NotIn(_Call):
    """Whether a value is in none of some values: one operation in the text, as in Ray."""

    def _node(self) -> _Node:
        return "NOT_IN", self._args[0]._node()[1]


def _name_of(function: Callable[..., object]) -> str:
    return getattr(function, "__name__", str(function))


def _code_of(value: object) -> str:
    return value._code() if isinstance(value, Expr) else repr(value)


def _tree(value: object) -> list[str]:
    """Return the lines of an expression or a constant, each below what it is computed for."""
    name, below = value._node() if isinstance(value, Expr) else _Literal(value)._node()
    lines = [name]
    for left, (label, each) in zip(range(len(below) - 1, -1, -1), below, strict=True):
        first, *others = _tree(each)
        lines.append(f"{'├' if left else '└'}── {label}{first}")
        lines += [f"{'│' if left else ' '}   {line}" for line in others]
    return lines


def _operand(value: object) -> pc.Expression | None:
    """Return a column or a constant as an expression of Arrow's; None for other expressions."""
    if isinstance(value, _Column):
        return pc.field(value.name)
    constant = value.value if isinstance(value, _Literal) else value
    try:
        return None if isinstance(constant, Expr) else pc.scalar(constant)
    except (TypeError, pa.ArrowException):
        return None


def _nested(value: object) -> str:
    code = _code_of(value)
    return f"({code})" if isinstance(value, _Call) and value._sign is not None else code


def _value(given: object, table: Block) -> Any:
    return given._evaluate(table) if isinstance(given, Expr) else given


def _are_same(left: Any, right: Any) -> bool:
    """Return whether two values have the same types and contents."""
    if type(left) is not type(right):
        return False
    if isinstance(left, Expr):
        return left.structurally_equals(right)
    if isinstance(left, dict):
        return list(left) == list(right) and all(map(_are_same, left.values(), right.values()))
    if isinstance(left, list | tuple):
        return len(left) == len(right) and all(map(_are_same, left, right))
    if isinstance(left, np.ndarray):
        if (left.dtype, left.shape) != (right.dtype, right.shape):
            return False
        if left.dtype.hasobject:
            return _are_same(left.tolist(), right.tolist())
        return bool(left.tobytes() == right.tobytes())
    if left is right:
        return True
    if hasattr(left, "equals"):  # of pandas or pyarrow
        return bool(left.equals(right))
    return bool(left == right or (left != left and right != right))


def _is_text(value: object) -> bool:
    type_ = getattr(value, "type", None)
    if type_ is None:
        return isinstance(value, str)
    return bool(pa.types.is_string(type_) or pa.types.is_large_string(type_))


def _add(left: Datum, right: Datum) -> Datum:
    """Add numbers; put text together."""
    if _is_text(left) or _is_text(right):
        sides = [pa.scalar(each) if isinstance(each, str) else each for each in (left, right)]
        return pc.binary_join_element_wise(*sides, "")
    return pc.add(left, right)


def random(*, seed: int | None = None, reseed_after_execution: bool = True) -> Expr:
    """Return the expression of random numbers from 0 to before 1.

    Parameters
    ----------
    seed : int, optional
        The seed; by default each execution has other numbers.
    reseed_after_execution : bool, default True
        Give each execution other numbers, which the seed determines too.

    Examples
    --------
    >>> from raycompat.data.expressions import col, random
    >>> rows = ray.data.range(3).with_column("order", random(seed=1)).take_all()
    >>> all(0 <= row["order"] < 1 for row in rows)
    True

    Notes
    -----
    Ray source: ``ray.data.expressions.random``, 2.60.0. No known difference.
    """
    plain = int(seed) if isinstance(seed, np.integer) else seed
    return _Random(RandomSeedConfig(plain, reseed_after_execution))


def uuid() -> Expr:
    """Return the expression of a random identifier (a UUID of version 4, as text) for each row.

    Examples
    --------
    >>> from raycompat.data.expressions import uuid
    >>> rows = ray.data.range(2).with_column("key", uuid()).take_all()
    >>> len({row["key"] for row in rows})
    2

    Notes
    -----
    Ray source: ``ray.data.expressions.uuid``, 2.60.0. No known difference.
    """
    return _Uuid("uuid()")


def monotonically_increasing_id() -> Expr:
    """Return the expression of a number that each row of an execution has for itself.

    The upper 31 bits are the number of the task, the lower 33 bits that of the row in the task.

    Examples
    --------
    >>> from raycompat.data.expressions import monotonically_increasing_id
    >>> numbered = ray.data.range(2, override_num_blocks=2)
    >>> numbered.with_column("number", monotonically_increasing_id()).take_all()
    [{'id': 0, 'number': 0}, {'id': 1, 'number': 8589934592}]

    Notes
    -----
    Ray source: ``ray.data.expressions.monotonically_increasing_id``, 2.60.0. No known difference.
    """
    return _Increasing("monotonically_increasing_id()")


def download(uri_column_name: str, *, filesystem: FileSystem | None = None) -> Expr:
    """Return the expression of the contents of files, as bytes.

    Parameters
    ----------
    uri_column_name : str
        The column of paths, or of URLs of a scheme that pyarrow or fsspec knows.
    filesystem : pyarrow.fs.FileSystem or fsspec.AbstractFileSystem, optional
        The file system of the paths. Default: as the scheme says.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from raycompat.data.expressions import download
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "name.txt"
    >>> _ = path.write_text("Ada")
    >>> contents = ray.data.from_items([{"path": str(path)}]).with_column(
    ...     "text", download("path")
    ... )
    >>> contents.select_columns("text").take_all()
    [{'text': b'Ada'}]

    Notes
    -----
    The value of a file that cannot be read is missing, and a warning says why. Ray source:
    ``ray.data.expressions.download``, 2.60.0. No known difference.
    """
    return _Download(col(uri_column_name), filesystem)


def unnest(expr: Expr) -> Unnest:
    """Return a column for each field of structs, for `Dataset.with_columns`.

    Parameters
    ----------
    expr : Expr
        An expression of structs, which is evaluated once.

    Examples
    --------
    >>> from raycompat.data.expressions import col, unnest
    >>> users = ray.data.from_items([{"user": {"name": "Ada", "age": 36}}])
    >>> users.with_columns(unnest(col("user"))).select_columns(
    ...     ["name", "age"]
    ... ).take_all()
    [{'name': 'Ada', 'age': 36}]

    Notes
    -----
    Ray source: ``ray.data.expressions.unnest``, 2.60.0. Differs from Ray: that the values are not
    structs is known when the first block is computed.
    """
    if isinstance(expr, Unnest):
        raise TypeError(f"unnest({expr!r}): it is unnested already. Use unnest once.")
    if not isinstance(expr, Expr):
        raise TypeError(f"unnest({expr!r}): give an expression, such as col('user').")
    return Unnest(expr)


def star() -> Expr:
    """Return the expression of all columns: it has no value, and can only be compared and shown.

    Examples
    --------
    >>> from raycompat.data.expressions import star
    >>> star()
    COL(*)

    Notes
    -----
    Ray source: ``ray.data.expressions.star``, 2.60.0. No known difference.
    """
    return _Star()


def _is_among(left: Datum, values: Column) -> Datum:
    """Return which values on the left are equal to any on the right."""
    return pc.is_in(left, value_set=values)


def _floor_divide(left: Datum, right: Datum) -> Datum:
    return pc.floor(pc.divide(left, right))


def _remainder(left: Datum, right: Datum) -> Datum:
    return pc.subtract(left, pc.multiply(_floor_divide(left, right), right))


#: The operations that have a name of their own in the text of an expression.
_OPERATIONS: dict[Callable[..., object], str] = {
    _add: "ADD",
    _is_among: "IN",
    pc.subtract: "SUB",
    pc.multiply: "MUL",
    pc.divide: "DIV",
    _floor_divide: "FLOORDIV",
    _remainder: "MOD",
    pc.greater: "GT",
    pc.less: "LT",
    pc.greater_equal: "GE",
    pc.less_equal: "LE",
    pc.equal: "EQ",
    pc.not_equal: "NE",
    pc.and_kleene: "AND",
    pc.or_kleene: "OR",
    pc.invert: "NOT",
    pc.is_null: "IS_NULL",
    pc.is_valid: "IS_NOT_NULL",
    pc.is_in: "IN",
}


def col(name: str) -> Expr:
    """Return the expression of a column.

    Examples
    --------
    >>> from raycompat.data.expressions import col
    >>> ray.data.range(3).with_column("next", col("id") + 1).take_all()
    [{'id': 0, 'next': 1}, {'id': 1, 'next': 2}, {'id': 2, 'next': 3}]

    Notes
    -----
    Ray source: ``ray.data.expressions.col``, 2.60.0. No known difference.
    """
    if not isinstance(name, str) or not name:
        raise ValueError(f"col({name!r}) is not the name of a column.")
    return _Column(name)


def lit(value: object) -> Expr:
    """Return the expression of a constant.

    Examples
    --------
    >>> from raycompat.data.expressions import lit
    >>> ray.data.range(2).with_column("unit", lit("m")).take_all()
    [{'id': 0, 'unit': 'm'}, {'id': 1, 'unit': 'm'}]

    Notes
    -----
    Ray source: ``ray.data.expressions.lit``, 2.60.0. No known difference.
    """
    return _Literal(value)


def udf(
    return_dtype: DataType | None = None,
) -> Callable[[Callable[..., object]], Callable[..., Expr]]:
    """Make a function or a class of Arrow arrays usable in expressions, as a decorator.

    A class is called with the arguments of its constructor. The result is a function of expressions,
    which calls an instance. Instances are made in the actors of a pool, one in each.

    Parameters
    ----------
    return_dtype : DataType, optional
        Has no effect: the array that is returned has a type.

    Examples
    --------
    >>> import pyarrow.compute as pc
    >>> from raycompat.data.expressions import col, udf
    >>> @udf()
    ... def upper(names):
    ...     return pc.utf8_upper(names)
    >>> upper(col("name"))
    UDF(upper)
        └── arg[0]: COL('name')

    Notes
    -----
    Ray source: ``ray.data.expressions.udf``, 2.60.0. No known difference.
    """

    def decorate(function: Callable[..., object]) -> Callable[..., Any]:
        if not isinstance(function, type):
            return lambda *args, **kwargs: _Call(function, args, kwargs)
        kind: type = function

        def construct(*args: object, **kwargs: object) -> Callable[..., Expr]:
            instance = _Instance(kind, args, kwargs)
            return lambda *args, **kwargs: _Call(instance, args, kwargs)

        return construct

    return decorate


class _Instance:
    """An instance of a class, which each process makes when it is called first."""

    def __init__(self, kind: type, args: tuple[object, ...], kwargs: Mapping[str, object]) -> None:
        self._arguments = (kind, args, kwargs)
        self._made: Any = None

    @property
    def __name__(self) -> str:
        return self._arguments[0].__name__

    def __getstate__(self) -> dict[str, object]:
        return {**self.__dict__, "_made": None}

    def __call__(self, *args: object, **kwargs: object) -> Datum:
        if self._made is None:
            kind, given, named = self._arguments
            self._made = kind(*given, **named)
        return self._made(*args, **kwargs)


#: Blocks are Arrow tables in any case, so there is nothing to convert.
pyarrow_udf = udf


def with_columns(table: Block, expressions: tuple[tuple[str, Expr] | Unnest, ...]) -> Block:
    """Return a table with columns computed from those that it had."""
    made = table
    origins = {}
    for name, expression, evaluated in _evaluated(table, expressions):
        origins[name] = expression._sources()
        is_one = isinstance(evaluated, pa.Scalar)
        value = pa.repeat(evaluated, table.num_rows) if is_one else evaluated
        column = block.to_table({name: value})[name]
        if len(column) != table.num_rows:
            raise ValueError(
                f"The expression {_code_of(expression)} gives {len(column)} values for "
                f"{table.num_rows} rows."
            )
        if name in made.column_names:
            made = made.set_column(made.column_names.index(name), name, column)
        else:
            made = made.append_column(pa.field(name, column.type), column)
    return storable(frames.with_record_from(made, table, origins))


def _evaluated(
    table: Block, expressions: tuple[tuple[str, Expr] | Unnest, ...]
) -> Iterator[tuple[str, Expr, Datum]]:
    for each in expressions:
        if isinstance(each, Unnest):
            for name, value in each.columns(table).items():
                yield name, each._expression, value
        else:
            name, expression = each
            yield name, expression, expression._evaluate(table)


def kept(table: Block, condition: Expr) -> Block:
    """Return the rows for which a condition is true."""
    value = condition._evaluate(table)
    if isinstance(value, pa.Scalar):
        value = pa.repeat(value, table.num_rows)
    return table.filter(value)


def uses(condition: Expr) -> Uses | None:
    """Return the columns of a condition, and those of its parts that can leave out groups of rows."""
    if not condition._is_of_row():
        return None
    found = ((each, each._arrow()) for each in condition._conjuncts())
    conditions = tuple(
        Condition(repr(each), frozenset(each._columns()), expression)
        for each, expression in found
        if expression is not None
    )
    return Uses(tuple(condition._columns()), conditions=conditions)


#: The classes of Ray's expressions.
__getattr__ = names_of(__name__)
