"""Expressions of columns, for `Dataset.with_column` and `Dataset.filter`: ``col("x") * 2``.

An expression is a tree that is evaluated on the Arrow table of a block, by ``pyarrow.compute``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NoReturn

import pyarrow as pa
import pyarrow.compute as pc

from raycompat.data import block, frames
from raycompat.data.block import Block
from raycompat.data.datatype import DataType
from raycompat.data.storable import storable
from raycompat.exceptions import UnsupportedRayFeatureError

__all__ = ["Expr", "col", "lit", "pyarrow_udf", "udf"]


class Expr:
    """A value for each row, computed from columns. `col` and `lit` make simple ones.

    Expressions are joined by ``+ - * / // %``, comparisons, ``& | ~`` and the methods here.

    Examples
    --------
    >>> from raycompat.data.expressions import col
    >>> col("price") * 1.2 > 100
    (col('price') * 1.2) > 100

    Notes
    -----
    Ray source: ``ray.data.expressions.Expr``, 2.60.0. Differs from Ray: there are no namespaces such as
    ``.str``; wrap a function of ``pyarrow.compute`` by `pyarrow_udf`.
    """

    name: str | None = None

    def _evaluate(self, table: Block) -> Any:
        raise NotImplementedError

    def _sources(self) -> set[str]:
        """Return the names of the columns whose kind of pandas type its values have."""
        return set()

    def _call(self, function: Callable[..., Any], *others: Any, **options: Any) -> Expr:
        return _Call(function, (self, *others), options)

    def __add__(self, other: Any) -> Expr:
        return _Call(_add, (self, other), sign="+")

    def __radd__(self, other: Any) -> Expr:
        return _Call(_add, (other, self), sign="+")

    def __sub__(self, other: Any) -> Expr:
        return _Call(pc.subtract, (self, other), sign="-")

    def __rsub__(self, other: Any) -> Expr:
        return _Call(pc.subtract, (other, self), sign="-")

    def __mul__(self, other: Any) -> Expr:
        return _Call(pc.multiply, (self, other), sign="*")

    def __rmul__(self, other: Any) -> Expr:
        return _Call(pc.multiply, (other, self), sign="*")

    def __truediv__(self, other: Any) -> Expr:
        return _Call(pc.divide, (self, other), sign="/")

    def __rtruediv__(self, other: Any) -> Expr:
        return _Call(pc.divide, (other, self), sign="/")

    def __floordiv__(self, other: Any) -> Expr:
        return _Call(_floor_divide, (self, other), sign="//")

    def __rfloordiv__(self, other: Any) -> Expr:
        return _Call(_floor_divide, (other, self), sign="//")

    def __mod__(self, other: Any) -> Expr:
        return _Call(_remainder, (self, other), sign="%")

    def __rmod__(self, other: Any) -> Expr:
        return _Call(_remainder, (other, self), sign="%")

    def __gt__(self, other: Any) -> Expr:
        return _Call(pc.greater, (self, other), sign=">")

    def __lt__(self, other: Any) -> Expr:
        return _Call(pc.less, (self, other), sign="<")

    def __ge__(self, other: Any) -> Expr:
        return _Call(pc.greater_equal, (self, other), sign=">=")

    def __le__(self, other: Any) -> Expr:
        return _Call(pc.less_equal, (self, other), sign="<=")

    def __eq__(self, other: object) -> Expr:  # type: ignore[override]
        return _Call(pc.equal, (self, other), sign="==")

    def __ne__(self, other: object) -> Expr:  # type: ignore[override]
        return _Call(pc.not_equal, (self, other), sign="!=")

    __hash__ = None  # type: ignore[assignment]

    def __and__(self, other: Any) -> Expr:
        return _Call(pc.and_kleene, (self, other), sign="&")

    def __or__(self, other: Any) -> Expr:
        return _Call(pc.or_kleene, (self, other), sign="|")

    def __invert__(self) -> Expr:
        return self._call(pc.invert)

    def __bool__(self) -> NoReturn:
        raise TypeError(
            f"{self!r} has a value for each row: join conditions by & | ~, not by and, or, not."
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

    def is_in(self, values: Iterable[Any]) -> Expr:
        """Whether the value is one of some.

        Examples
        --------
        >>> from raycompat.data.expressions import col
        >>> ray.data.range(5).filter(expr=col("id").is_in([1, 3, 8])).take_all()
        [{'id': 1}, {'id': 3}]
        """
        return self._call(pc.is_in, value_set=pa.array(list(values)))

    def not_in(self, values: Iterable[Any]) -> Expr:
        """Return whether the value is in none of some values.

        Examples
        --------
        >>> from raycompat.data.expressions import col
        >>> ray.data.range(4).filter(expr=col("id").not_in([1, 2])).take_all()
        [{'id': 0}, {'id': 3}]
        """
        return ~self.is_in(values)

    def alias(self, name: str) -> Expr:
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

    def power(self, exponent: Any) -> Expr:
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

    def cast(self, target_type: Any, *, safe: bool = True) -> Expr:
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
        >>> ray.data.range(2).with_column("text", col("id").cast(pa.string())).take_all()
        [{'id': 0, 'text': '0'}, {'id': 1, 'text': '1'}]
        """
        if isinstance(target_type, DataType):
            target_type = target_type.to_arrow_dtype()
        return self._call(pc.cast, target_type=target_type, safe=safe)

    def __getattr__(self, name: str) -> NoReturn:
        if name in ("arr", "dt", "list", "map", "str", "struct"):
            raise UnsupportedRayFeatureError(
                f"The namespace .{name} of expressions",
                "expressions are numbers, comparisons and functions here",
                "wrap a function of pyarrow.compute by raycompat.data.expressions.pyarrow_udf",
            )
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")


class _Column(Expr):
    def __init__(self, name: str) -> None:
        self.name = name

    def _evaluate(self, table: Block) -> Any:
        assert self.name is not None
        block.require_columns([self.name], table.column_names, "An expression")
        return table[self.name]

    def _sources(self) -> set[str]:
        assert self.name is not None
        return {self.name}

    def __repr__(self) -> str:
        return f"col({self.name!r})"


class _Literal(Expr):
    def __init__(self, value: Any) -> None:
        self.value = value

    def _evaluate(self, table: Block) -> Any:
        return pa.scalar(self.value)

    def __repr__(self) -> str:
        return f"lit({self.value!r})"


class _Alias(Expr):
    def __init__(self, expression: Expr, name: str) -> None:
        self._expression, self.name = expression, name

    def _evaluate(self, table: Block) -> Any:
        return self._expression._evaluate(table)

    def _sources(self) -> set[str]:
        return self._expression._sources()

    def __repr__(self) -> str:
        return f"{_nested(self._expression)}.alias({self.name!r})"


#: Functions whose values have the same type whatever types of pandas the columns have.
_OF_OWN_TYPE = (pc.cast, pc.is_null, pc.is_valid)


class _Call(Expr):
    """A function of expressions and constants."""

    def __init__(
        self,
        function: Callable[..., Any],
        args: tuple[Any, ...],
        options: dict[str, Any] | None = None,
        sign: str | None = None,
    ) -> None:
        self._function, self._args, self._options = function, args, options or {}
        self._sign = sign

    def _evaluate(self, table: Block) -> Any:
        args = [_value(each, table) for each in self._args]
        options = {name: _value(each, table) for name, each in self._options.items()}
        try:
            return self._function(*args, **options)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError) as error:
            raise ValueError(f"The expression {self!r} cannot be computed: {error}") from error

    def _sources(self) -> set[str]:
        if self._function in _OF_OWN_TYPE:
            return set()
        given = [*self._args, *self._options.values()]
        return {name for each in given if isinstance(each, Expr) for name in each._sources()}

    def __repr__(self) -> str:
        if self._sign is not None:
            left, right = (_nested(each) for each in self._args)
            return f"{left} {self._sign} {right}"
        given = [repr(each) for each in self._args]
        given += [f"{name}={value!r}" for name, value in self._options.items()]
        return f"{getattr(self._function, '__name__', self._function)}({', '.join(given)})"


def _nested(value: Any) -> str:
    return f"({value!r})" if isinstance(value, _Call) and value._sign is not None else repr(value)


def _value(given: Any, table: Block) -> Any:
    return given._evaluate(table) if isinstance(given, Expr) else given


def _is_text(value: Any) -> bool:
    type_ = getattr(value, "type", None)
    if type_ is None:
        return isinstance(value, str)
    return bool(pa.types.is_string(type_) or pa.types.is_large_string(type_))


def _add(left: Any, right: Any) -> Any:
    """Add numbers; put text together."""
    if _is_text(left) or _is_text(right):
        sides = [pa.scalar(each) if isinstance(each, str) else each for each in (left, right)]
        return pc.binary_join_element_wise(*sides, "")
    return pc.add(left, right)


def _floor_divide(left: Any, right: Any) -> Any:
    return pc.floor(pc.divide(left, right))


def _remainder(left: Any, right: Any) -> Any:
    return pc.subtract(left, pc.multiply(_floor_divide(left, right), right))


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


def lit(value: Any) -> Expr:
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


def udf(return_dtype: Any = None) -> Callable[[Callable[..., Any]], Callable[..., Expr]]:
    """Make a function of Arrow arrays usable in expressions, as a decorator.

    Parameters
    ----------
    return_dtype : DataType, optional
        Has no effect: the function's array has a type.

    Examples
    --------
    >>> import pyarrow.compute as pc
    >>> from raycompat.data.expressions import col, udf
    >>> @udf()
    ... def upper(names):
    ...     return pc.utf8_upper(names)
    >>> upper(col("name"))
    upper(col('name'))

    Notes
    -----
    Ray source: ``ray.data.expressions.udf``, 2.60.0. Differs from Ray: classes are not supported.
    """

    def decorate(function: Callable[..., Any]) -> Callable[..., Expr]:
        if isinstance(function, type):
            raise UnsupportedRayFeatureError(
                "udf of a class",
                "an expression is evaluated in tasks, which keep nothing",
                "give the class to Dataset.map_batches",
            )
        return lambda *args, **kwargs: _Call(function, args, kwargs)

    return decorate


#: Blocks are Arrow tables in any case, so there is nothing to convert.
pyarrow_udf = udf


def with_columns(table: Block, expressions: tuple[tuple[str, Expr], ...]) -> Block:
    """Return a table with columns computed from those that it had."""
    made = table
    origins = {}
    for name, expression in expressions:
        origins[name] = expression._sources()
        value = expression._evaluate(table)
        if isinstance(value, pa.Scalar):
            value = pa.repeat(value, table.num_rows)
        column = block.to_table({name: value})[name]
        if len(column) != table.num_rows:
            raise ValueError(
                f"The expression {expression!r} gives {len(column)} values for {table.num_rows} rows."
            )
        if name in made.column_names:
            made = made.set_column(made.column_names.index(name), name, column)
        else:
            made = made.append_column(pa.field(name, column.type), column)
    return storable(frames.with_record_from(made, table, origins))


def kept(table: Block, condition: Expr) -> Block:
    """Return the rows for which a condition is true."""
    value = condition._evaluate(table)
    if isinstance(value, pa.Scalar):
        value = pa.repeat(value, table.num_rows)
    return table.filter(value)
