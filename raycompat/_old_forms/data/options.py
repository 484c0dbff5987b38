"""Options of data that have another form today."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from typing import Any, TypeVar, cast

from raycompat._surface import forms
from raycompat.exceptions import UnsupportedRayFeatureError

_F = TypeVar("_F", bound=Callable[..., None])


class Chosen(list[str]):
    """Columns in the order of the data set, as ``Concatenator(include=, exclude=)`` took them."""

    def of(self, columns: Iterable[str]) -> list[str]:
        """Return the columns that are meant, of those that there are."""
        return [column for column in columns if column in self]


class AllBut(Chosen):
    """All columns that are not in the list."""

    def of(self, columns: Iterable[str]) -> list[str]:
        """Return the columns that are meant, of those that there are."""
        return [column for column in columns if column not in self]


def concatenates_all(init: _F) -> _F:
    """Make the constructor of ``Concatenator`` concatenate all columns, where none are given."""

    @functools.wraps(init)
    def with_columns(self: Any, *args: Any, **kwargs: Any) -> None:
        if not args and "columns" not in kwargs:
            forms.used("ray.data.preprocessors.Concatenator without columns")
            kwargs["columns"] = AllBut()
        init(self, *args, **kwargs)

    return cast("_F", with_columns)


def hashes_into_columns(init: _F) -> _F:
    """Make ``FeatureHasher`` replace its columns, where it is given no `output_column`."""

    @functools.wraps(init)
    def with_output_column(self: Any, *args: Any, **kwargs: Any) -> None:
        if len(args) < 3 and "output_column" not in kwargs:
            forms.used("ray.data.preprocessors.FeatureHasher without output_column")
            kwargs["output_column"] = ""
        init(self, *args, **kwargs)

    return cast("_F", with_output_column)


def writes_its_one_column(method: _F) -> _F:
    """Make ``Dataset.write_numpy`` write the column of a data set that has one, where none is given."""

    @functools.wraps(method)
    def with_column(dataset: Any, *args: Any, **kwargs: Any) -> None:
        if kwargs.get("column") is None:
            forms.used("ray.data.Dataset.write_numpy() without column")
            columns = dataset.columns() or []
            if len(columns) != 1:
                raise ValueError(
                    f"write_numpy() writes one column, and the data set has {len(columns)}: {columns}. "
                    "Say which: write_numpy(path, column=...)."
                )
            (kwargs["column"],) = columns
        method(dataset, *args, **kwargs)

    return cast("_F", with_column)


def include(given: dict[str, Any], value: Any) -> None:
    """Concatenate these columns, without those that ``exclude`` names."""
    if value:
        excluded = given.get("columns", ())
        given["columns"] = Chosen(each for each in _names(value) if each not in excluded)
    else:
        given.setdefault("columns", AllBut())


def exclude(given: dict[str, Any], value: Any) -> None:
    """Concatenate all columns but these, or those that ``include`` names but these."""
    excluded, columns = _names(value), given.get("columns")
    if isinstance(columns, AllBut) or columns is None:
        given["columns"] = AllBut(excluded)
    else:
        given["columns"] = type(columns)(each for each in columns if each not in excluded)


def _names(value: Any) -> list[str]:
    return [value] if isinstance(value, str) else list(value or ())


def ddof(given: dict[str, Any], value: int) -> None:
    """Refuse another standard deviation than that of all values."""
    if value != 0:
        raise UnsupportedRayFeatureError(
            f"StandardScaler(ddof={value!r})", "Ray has removed it", "leave it out: it is 0"
        )


def errors(given: dict[str, Any], value: str) -> None:
    """Refuse to leave bytes out that are not text."""
    if value != "strict":
        raise UnsupportedRayFeatureError(
            f"read_text(errors={value!r})",
            "Bytes that are not text are an error",
            "use ray.data.read_binary_files, and decode in Dataset.map",
        )
