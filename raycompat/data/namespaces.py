"""Functions of text, times, lists and structs in expressions: ``col("name").str.upper()``.

`Expr.str`, `Expr.dt`, `Expr.list`, `Expr.struct`, `Expr.map` and `Expr.arr` return these objects. Their
methods return expressions, which ``pyarrow.compute`` evaluates.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Generic, Literal, Protocol, TypeVar, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

if TYPE_CHECKING:
    from raycompat.data.block import Column

__all__ = ["Arrays", "Lists", "Maps", "Structs", "Texts", "Times"]


#: The class of expressions, `raycompat.data.expressions.Expr`.
ExprT = TypeVar("ExprT")


class _Namespace(Generic[ExprT]):
    """The functions of values of one kind.

    `call` makes the expression that calls a function of Arrow with the values and further arguments.
    """

    def __init__(self, call: Callable[..., ExprT]) -> None:
        self._call = call


class _Method(Protocol):
    """A function that is an attribute of a class: an object gives it itself."""

    def __get__(self, namespace: _Namespace[ExprT], owner: type) -> Callable[..., ExprT]: ...


def _function(function: Callable[..., object], text: str) -> _Method:
    """Return a method that calls a function of Arrow with the values, and its further arguments."""

    def method(self: _Namespace[ExprT], *args: object, **options: object) -> ExprT:
        return self._call(function, *args, **options)

    method.__doc__ = text
    return cast("_Method", method)


class Texts(_Namespace[ExprT]):
    """Functions of text: ``col("name").str``.

    Examples
    --------
    >>> from raycompat.data.expressions import col
    >>> names = ray.data.from_items([{"name": "Ada Lovelace"}])
    >>> names.with_column(
    ...     "words", col("name").str.lower().str.split(" ")
    ... ).take_all()
    [{'name': 'Ada Lovelace', 'words': ['ada', 'lovelace']}]

    Notes
    -----
    Further arguments are those of the function of ``pyarrow.compute``, such as ``ignore_case``. Ray
    source: ``ray.data.expressions.Expr.str``, 2.60.0. No known difference.
    """

    len = _function(pc.utf8_length, "Return the number of characters.")
    byte_len = _function(pc.binary_length, "Return the number of bytes.")
    upper = _function(pc.utf8_upper, "Convert to upper case.")
    lower = _function(pc.utf8_lower, "Convert to lower case.")
    capitalize = _function(pc.utf8_capitalize, "Convert the first character to upper case only.")
    title = _function(pc.utf8_title, "Convert the first character of each word to upper case only.")
    swapcase = _function(pc.utf8_swapcase, "Exchange upper case and lower case.")
    reverse = _function(pc.utf8_reverse, "Reverse the order of the characters.")
    is_alpha = _function(pc.utf8_is_alpha, "Return whether there are letters only.")
    is_alnum = _function(pc.utf8_is_alnum, "Return whether there are letters and digits only.")
    is_digit = _function(pc.utf8_is_digit, "Return whether there are digits only.")
    is_decimal = _function(pc.utf8_is_decimal, "Return whether there are decimal digits only.")
    is_numeric = _function(pc.utf8_is_numeric, "Return whether there are numeric characters only.")
    is_space = _function(pc.utf8_is_space, "Return whether there is white space only.")
    is_lower = _function(pc.utf8_is_lower, "Return whether all letters are lower case.")
    is_upper = _function(pc.utf8_is_upper, "Return whether all letters are upper case.")
    is_title = _function(pc.utf8_is_title, "Return whether each word begins in upper case.")
    is_printable = _function(pc.utf8_is_printable, "Return whether all characters can be printed.")
    is_ascii = _function(pc.string_is_ascii, "Return whether all characters are ASCII.")
    starts_with = _function(pc.starts_with, "Return whether the text begins with `pattern`.")
    ends_with = _function(pc.ends_with, "Return whether the text ends with `pattern`.")
    contains = _function(pc.match_substring, "Return whether `pattern` is a part of the text.")
    match = _function(pc.match_like, "Return whether the text matches a pattern of SQL's LIKE.")
    match_regex = _function(
        pc.match_substring_regex, "Return whether a regular expression matches somewhere."
    )
    find = _function(pc.find_substring, "Return the byte where `pattern` begins first, or -1.")
    find_regex = _function(
        pc.find_substring_regex, "Return the byte where a regular expression matches first, or -1."
    )
    count = _function(pc.count_substring, "Return how often `pattern` occurs.")
    count_regex = _function(
        pc.count_substring_regex, "Return how often a regular expression matches."
    )
    slice = _function(pc.utf8_slice_codeunits, "Return the characters from `start` to `stop`.")
    replace = _function(pc.replace_substring, "Replace `pattern` with `replacement`.")
    replace_regex = _function(
        pc.replace_substring_regex, "Replace the matches of a regular expression."
    )
    replace_slice = _function(
        pc.binary_replace_slice, "Replace the bytes from `start` to `stop` with `replacement`."
    )
    split = _function(pc.split_pattern, "Return the list of parts between `pattern`.")
    split_regex = _function(
        pc.split_pattern_regex, "Return the list of parts between matches of a regular expression."
    )
    split_whitespace = _function(pc.utf8_split_whitespace, "Return the list of words.")
    extract = _function(pc.extract_regex, "Return the named groups of a regular expression.")
    repeat = _function(pc.binary_repeat, "Repeat the text `n` times.")

    def center(self, width: int, padding: str = " ", *args: object, **kwargs: object) -> ExprT:
        """Put `padding` on both sides until the text has `width` characters."""
        return self._call(pc.utf8_center, width, padding, *args, **kwargs)

    def lpad(self, width: int, padding: str = " ", *args: object, **kwargs: object) -> ExprT:
        """Put `padding` before the text until it has `width` characters."""
        return self._call(pc.utf8_lpad, width, padding, *args, **kwargs)

    def rpad(self, width: int, padding: str = " ", *args: object, **kwargs: object) -> ExprT:
        """Put `padding` after the text until it has `width` characters."""
        return self._call(pc.utf8_rpad, width, padding, *args, **kwargs)

    def pad(
        self, width: int, fillchar: str = " ", side: Literal["left", "right", "both"] = "right"
    ) -> ExprT:
        """Put `fillchar` on one side, or on both, until the text has `width` characters."""
        methods = {"left": self.lpad, "right": self.rpad, "both": self.center}
        if side not in methods:
            raise ValueError(f"side={side!r} should be 'left', 'right' or 'both'.")
        return methods[side](width, fillchar)

    def strip(self, characters: str | None = None) -> ExprT:
        """Remove white space, or these characters, on both sides."""
        return self._stripped(pc.utf8_trim_whitespace, pc.utf8_trim, characters)

    def lstrip(self, characters: str | None = None) -> ExprT:
        """Remove white space, or these characters, at the begin."""
        return self._stripped(pc.utf8_ltrim_whitespace, pc.utf8_ltrim, characters)

    def rstrip(self, characters: str | None = None) -> ExprT:
        """Remove white space, or these characters, at the end."""
        return self._stripped(pc.utf8_rtrim_whitespace, pc.utf8_rtrim, characters)

    def _stripped(
        self, of_space: Callable[..., object], of_any: Callable[..., object], characters: str | None
    ) -> ExprT:
        return self._call(of_space) if characters is None else self._call(of_any, characters)


class Times(_Namespace[ExprT]):
    """Functions of times and dates: ``col("start").dt``.

    Examples
    --------
    >>> import datetime
    >>> from raycompat.data.expressions import col
    >>> days = ray.data.from_items([{"day": datetime.datetime(2024, 2, 29)}])
    >>> days.with_column("month", col("day").dt.month()).select_columns(
    ...     "month"
    ... ).take_all()
    [{'month': 2}]

    Notes
    -----
    Ray source: ``ray.data.expressions.Expr.dt``, 2.60.0. No known difference.
    """

    year = _function(pc.year, "Return the year.")
    month = _function(pc.month, "Return the month, from 1 to 12.")
    day = _function(pc.day, "Return the day of the month, from 1 to 31.")
    hour = _function(pc.hour, "Return the hour, from 0 to 23.")
    minute = _function(pc.minute, "Return the minute, from 0 to 59.")
    second = _function(pc.second, "Return the second, from 0 to 59.")

    def strftime(self, fmt: str) -> ExprT:
        """Return the time as text in a format such as ``"%Y-%m-%d"``."""
        return self._call(pc.strftime, format=fmt)

    def ceil(self, unit: str) -> ExprT:
        """Return the next time that is a whole `unit`, such as ``"day"``."""
        return self._call(pc.ceil_temporal, unit=unit)

    def floor(self, unit: str) -> ExprT:
        """Return the last time that is a whole `unit`, such as ``"hour"``."""
        return self._call(pc.floor_temporal, unit=unit)

    def round(self, unit: str) -> ExprT:
        """Return the nearest time that is a whole `unit`, such as ``"minute"``."""
        return self._call(pc.round_temporal, unit=unit)


class Lists(_Namespace[ExprT]):
    """Functions of lists: ``col("words").list``. An index or a slice in brackets gives a part.

    Examples
    --------
    >>> from raycompat.data.expressions import col
    >>> marks = ray.data.from_items([{"marks": [3, 1, 2]}])
    >>> parts = {"first": col("marks").list[0], "sorted": col("marks").list.sort()}
    >>> marks.with_columns(parts).take_all()
    [{'marks': [3, 1, 2], 'first': 3, 'sorted': [1, 2, 3]}]

    Notes
    -----
    Indices count from 0, and negative ones are not supported, as in Ray. Ray source:
    ``ray.data.expressions.Expr.list``, 2.60.0. No known difference.
    """

    len = _function(pc.list_value_length, "Return the number of values.")

    def __getitem__(self, key: int | slice) -> ExprT:
        if isinstance(key, slice):
            return self.slice(key.start, key.stop, key.step)
        if not isinstance(key, int):
            raise TypeError(f"{key!r} is not an index of a list: give an integer or a slice.")
        return self.get(key)

    def get(self, index: int) -> ExprT:
        """Return the value at an index, which each list must have."""
        return self._call(pc.list_element, index)

    def slice(
        self, start: int | None = None, stop: int | None = None, step: int | None = None
    ) -> ExprT:
        """Return the values from `start` to before `stop`, each `step`."""
        return self._call(
            pc.list_slice,
            start=0 if start is None else start,
            stop=stop,
            step=1 if step is None else step,
        )

    def sort(
        self,
        order: Literal["ascending", "descending"] = "ascending",
        null_placement: Literal["at_start", "at_end"] = "at_end",
    ) -> ExprT:
        """Sort the values of each list."""
        if order not in ("ascending", "descending"):
            raise ValueError(f"order={order!r} should be 'ascending' or 'descending'.")
        if null_placement not in ("at_start", "at_end"):
            raise ValueError(f"null_placement={null_placement!r} should be 'at_start' or 'at_end'.")
        return self._call(_sorted, order=order, null_placement=null_placement)

    def flatten(self) -> ExprT:
        """Make one list of each list of lists."""
        return self._call(_flattened)


class Structs(_Namespace[ExprT]):
    """Fields of structs: ``col("user").struct["age"]``.

    Examples
    --------
    >>> from raycompat.data.expressions import col
    >>> users = ray.data.from_items([{"user": {"age": 36}}])
    >>> users.with_column("age", col("user").struct["age"]).take_all()
    [{'user': {'age': 36}, 'age': 36}]

    Notes
    -----
    Ray source: ``ray.data.expressions.Expr.struct``, 2.60.0. No known difference.
    """

    def __getitem__(self, key: str | int) -> ExprT:
        if not isinstance(key, str | int):
            raise TypeError(f"{key!r} is not a field of a struct: give its name or its number.")
        return self._call(pc.struct_field, key)

    def field(self, field_name: str) -> ExprT:
        """Return the field of a name."""
        return self[field_name]

    def field_by_index(self, index: int) -> ExprT:
        """Return the field of a number, counted from 0."""
        return self[index]


class Maps(_Namespace[ExprT]):
    """Keys and values of maps: ``col("headers").map``.

    Examples
    --------
    >>> import pyarrow as pa
    >>> from raycompat.data.expressions import col
    >>> headers = pa.array(
    ...     [[("host", "a"), ("age", "3")]], pa.map_(pa.string(), pa.string())
    ... )
    >>> requests = ray.data.from_arrow(pa.table({"headers": headers}))
    >>> named = requests.with_column("names", col("headers").map.keys())
    >>> named.select_columns("names").take_all()
    [{'names': ['host', 'age']}]

    Notes
    -----
    Ray source: ``ray.data.expressions.Expr.map``, 2.60.0. No known difference.
    """

    def keys(self) -> ExprT:
        """Return the list of keys."""
        return self._call(_part_of_maps, "keys")

    def values(self) -> ExprT:
        """Return the list of values."""
        return self._call(_part_of_maps, "items")


class Arrays(_Namespace[ExprT]):
    """Arrays of a fixed size: ``col("vector").arr``.

    Examples
    --------
    >>> import pyarrow as pa
    >>> from raycompat.data.expressions import col
    >>> table = pa.table({"vector": pa.array([[1, 2]], pa.list_(pa.int64(), 2))})
    >>> made = ray.data.from_arrow(table).with_column(
    ...     "values", col("vector").arr.to_list()
    ... )
    >>> made.schema().types[1]
    ListType(list<item: int64>)

    Notes
    -----
    Ray source: ``ray.data.expressions.Expr.arr``, 2.60.0. No known difference.
    """

    def to_list(self) -> ExprT:
        """Convert lists of a fixed size to lists of any size."""
        return self._call(_with_any_size)


def _array(values: Column) -> pa.Array:
    """Return values as one array."""
    return values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values


def _need(array: pa.Array, is_right: bool, what: str) -> None:
    if not is_right:
        raise pa.ArrowTypeError(f"the values are not {what}, but of the type {array.type}")


def _is_list(type_: pa.DataType) -> bool:
    return bool(pa.types.is_list(type_) or pa.types.is_large_list(type_))


def _with_any_size(values: Column) -> pa.Array:
    array = _array(values)
    if pa.types.is_fixed_size_list(array.type):
        return _joined(array, _lengths(array), array.flatten())
    _need(array, _is_list(array.type), "lists")
    return array


def _lists(array: pa.Array, offsets: np.ndarray, values: pa.Array) -> pa.Array:
    """Return lists of the values between these offsets, missing where those of `array` are."""
    is_large = pa.types.is_large_list(array.type)
    make = pa.LargeListArray if is_large else pa.ListArray
    type_ = pa.int64() if is_large else pa.int32()
    return make.from_arrays(pa.array(offsets, type_), values, mask=array.is_null())


def _joined(array: pa.Array, lengths: np.ndarray, values: pa.Array) -> pa.Array:
    """Return lists of these lengths, one behind the other."""
    return _lists(array, np.concatenate([[0], np.cumsum(lengths)]), values)


def _lengths(array: pa.Array) -> np.ndarray:
    """Return how many values `flatten` gives for each list: 0 for a missing one."""
    return np.asarray(pc.fill_null(pc.list_value_length(array), 0))


def _sorted(values: Column, *, order: str, null_placement: str) -> pa.Array:
    array = _with_any_size(values)
    flat, lengths = array.flatten(), _lengths(array)
    owners = np.repeat(np.arange(len(array)), lengths)
    by_value = np.asarray(pc.array_sort_indices(flat, order=order, null_placement=null_placement))
    by_list = by_value[np.argsort(owners[by_value], kind="stable")]
    return _joined(array, lengths, flat.take(pa.array(by_list)))


def _flattened(values: Column) -> pa.Array:
    array = _with_any_size(values)
    _need(array, _is_list(array.type.value_type), "lists of lists")
    inner = array.flatten()
    owners = np.repeat(np.arange(len(array)), _lengths(array))
    lengths = np.bincount(owners, weights=_lengths(inner), minlength=len(array)).astype(np.int64)
    return _joined(array, lengths, inner.flatten())


def _part_of_maps(values: Column, part: str) -> pa.Array:
    array = _array(values)
    _need(array, pa.types.is_map(array.type), "maps")
    return _lists(array, np.asarray(array.offsets), getattr(array, part))
