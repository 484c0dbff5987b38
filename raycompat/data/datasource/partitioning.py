"""Columns in the names of folders, and filters of files by them."""

from __future__ import annotations

import enum
import posixpath
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias
from urllib.parse import unquote

from raycompat._surface.modules import names_of
from raycompat.data import files

if TYPE_CHECKING:
    from raycompat.data.files import ArrowFileSystem, FileSystem


#: The values that folders give to columns: texts, or what the types of the fields make of them.
FolderValues: TypeAlias = dict[str, Any]


class PartitionStyle(enum.StrEnum):
    """How folders name columns and their values.

    Examples
    --------
    >>> from raycompat.data.datasource import Partitioning, PartitionStyle
    >>> Partitioning(PartitionStyle.HIVE).values_of("year=2024/month=5/a.csv")
    {'year': '2024', 'month': '5'}
    >>> Partitioning(PartitionStyle.DIRECTORY, field_names=["year"]).values_of(
    ...     "2024/a.csv"
    ... )
    {'year': '2024'}

    Notes
    -----
    Ray source: ``ray.data.datasource.PartitionStyle``, 2.60.0. No known difference.
    """

    #: ``year=2024/month=5/``
    HIVE = "hive"
    #: ``2024/5/``
    DIRECTORY = "dir"


@dataclass(unsafe_hash=True)
class Partitioning:
    """Columns in the names of folders.

    Parameters
    ----------
    style : {"hive", "dir"}
        The folder ``year=2024/`` has a column and its value, or ``2024/`` has a value alone.
    base_dir : str, optional
        The folder whose subfolders name columns. Default: all folders of a path name some.
    field_names : list of str, optional
        The columns in order, needed for "dir"; None in place of a name leaves a folder out.
    field_types : dict, optional
        ``int``, ``float``, ``bool`` or ``str`` for some columns. Default: text.
    filesystem : pyarrow.fs.FileSystem, optional
        The file system of `base_dir`.

    Raises
    ------
    ValueError
        For another style, another type, or "dir" without names.

    Examples
    --------
    >>> from raycompat.data.datasource import Partitioning
    >>> Partitioning("hive", field_types={"year": int}).values_of(
    ...     "/logs/year=2024/a.csv"
    ... )
    {'year': 2024}
    >>> Partitioning("dir", "/logs", field_names=["year"]).values_of(
    ...     "/logs/2024/a.csv"
    ... )
    {'year': '2024'}
    >>> by_folder = Partitioning("dir", "/logs", field_names=["year"])
    >>> by_folder.normalized_base_dir, type(by_folder.resolved_filesystem).__name__
    ('/logs/', 'LocalFileSystem')

    Notes
    -----
    Ray source: ``ray.data.datasource.Partitioning``, 2.60.0. No known difference.
    """

    style: str
    base_dir: str | None = None
    field_names: list[str | None] | None = field(default=None, hash=False)
    field_types: dict[str, type] | None = field(default=None, hash=False)
    filesystem: FileSystem | None = None

    def __post_init__(self) -> None:
        self.base_dir = self.base_dir or ""
        self.field_types = self.field_types or {}
        if self.style not in [style.value for style in PartitionStyle]:
            raise ValueError(f'style={self.style!r} is not a style: it is "hive" or "dir".')
        if self.style == PartitionStyle.DIRECTORY and not self.field_names:
            raise ValueError('style="dir" needs field_names: one name for each folder of a path.')
        for name, type_ in self.field_types.items():
            if type_ not in _CONVERSIONS:
                raise ValueError(
                    f"field_types has {type_!r} for {name!r}: it is int, float, bool or str."
                )

    @property
    def normalized_base_dir(self) -> str:
        """The folder `base_dir` as a path in its file system, with a slash at its end; "" if none."""
        if not self.base_dir:
            return ""
        return files.resolve(self.base_dir, self.filesystem)[1].rstrip("/") + "/"

    @property
    def resolved_filesystem(self) -> ArrowFileSystem:
        """The file system of `base_dir`."""
        return files.resolve(self.base_dir or "/", self.filesystem)[0]

    def values_of(self, path: str) -> FolderValues:
        """Return the columns that the folders of a path name, and their values."""
        folder = posixpath.dirname(path)
        if self.base_dir:
            base = files.resolve(self.base_dir, self.filesystem)[1].rstrip("/")
            if folder != base and not folder.startswith(f"{base}/"):
                return {}
            folder = folder[len(base) :]
        parts = [part for part in folder.split("/") if part]
        is_hive = self.style == PartitionStyle.HIVE
        values: FolderValues = dict(self._named(parts) if is_hive else self._in_order(parts))
        for name, type_ in (self.field_types or {}).items():
            if name not in values:
                raise ValueError(
                    f"field_types names {name!r}, and the folders of {path!r} have {list(values)}."
                )
            values[name] = _CONVERSIONS[type_](values[name])
        return values

    def _named(self, parts: Sequence[str]) -> Iterable[tuple[str, str]]:
        found = [
            (name, unquote(value))
            for name, sign, value in (part.partition("=") for part in parts)
            if sign and "=" not in value
        ]
        names = [name for name, _ in found]
        if self.field_names and names and names != self.field_names:
            raise ValueError(
                f"The folders name the columns {names}, and field_names are {self.field_names}."
            )
        return found

    def _in_order(self, parts: Sequence[str]) -> Iterable[tuple[str, str]]:
        names = self.field_names or []
        if parts and len(parts) != len(names):
            raise ValueError(
                f"{list(parts)} are {len(parts)} folders, and field_names has {len(names)}: "
                f"{names}. Give base_dir, the folder below which each folder has a name."
            )
        pairs = zip(names, parts, strict=False)
        return [(name, part) for name, part in pairs if name is not None]


#: From the text of a folder to a value, by the types in `Partitioning.field_types`.
_CONVERSIONS: Mapping[object, Callable[[str], object]] = {
    int: int,
    float: float,
    str: str,
    bool: lambda text: text.lower() == "true",
}


class PathPartitionParser:
    """Finds the columns in the names of a path's folders.

    Parameters
    ----------
    partitioning : Partitioning
        The style of the names.

    Examples
    --------
    >>> from raycompat.data.datasource import PathPartitionParser
    >>> parse = PathPartitionParser.of("hive")
    >>> parse("year=2024/month=5/a.csv")
    {'year': '2024', 'month': '5'}

    Notes
    -----
    Ray source: ``ray.data.datasource.PathPartitionParser``, 2.60.0. Differs from Ray: it has no
    predicates.
    """

    def __init__(self, partitioning: Partitioning) -> None:
        self._partitioning = partitioning

    @staticmethod
    def of(
        style: str = PartitionStyle.HIVE,
        base_dir: str | None = None,
        field_names: list[str | None] | None = None,
        field_types: dict[str, type] | None = None,
        filesystem: FileSystem | None = None,
    ) -> PathPartitionParser:
        """Return a parser; the parameters are those of `Partitioning`."""
        given = Partitioning(style, base_dir, field_names, field_types, filesystem)
        return PathPartitionParser(given)

    @property
    def scheme(self) -> Partitioning:
        """The style of the names.

        Examples
        --------
        >>> from raycompat.data.datasource import PathPartitionParser
        >>> PathPartitionParser.of("hive").scheme.style == "hive"
        True
        """
        return self._partitioning

    def __call__(self, path: str) -> FolderValues:
        """Return the columns and values of a path."""
        return self._partitioning.values_of(path)


class PathPartitionFilter:
    """Keeps the files whose folders have values for which a function is true.

    Parameters
    ----------
    path_partition_parser : PathPartitionParser
        Finds the values.
    filter_fn : callable
        Given a dictionary of columns and values, it returns whether to read the file.

    Examples
    --------
    >>> from raycompat.data.datasource import PathPartitionFilter
    >>> recent = PathPartitionFilter.of(lambda values: values["year"] >= "2024")
    >>> recent(["/logs/year=2023/a.csv", "/logs/year=2024/a.csv"])
    ['/logs/year=2024/a.csv']
    >>> recent.parser("/logs/year=2023/a.csv")
    {'year': '2023'}

    Notes
    -----
    Ray source: ``ray.data.datasource.PathPartitionFilter``, 2.60.0. No known difference.
    """

    def __init__(
        self,
        path_partition_parser: PathPartitionParser,
        filter_fn: Callable[[FolderValues], bool],
    ) -> None:
        self._parser = path_partition_parser
        self._filter = filter_fn

    @staticmethod
    def of(
        filter_fn: Callable[[FolderValues], bool],
        style: str = PartitionStyle.HIVE,
        base_dir: str | None = None,
        field_names: list[str | None] | None = None,
        field_types: dict[str, type] | None = None,
        filesystem: FileSystem | None = None,
    ) -> PathPartitionFilter:
        """Return a filter; the other parameters are those of `Partitioning`."""
        parser = PathPartitionParser.of(style, base_dir, field_names, field_types, filesystem)
        return PathPartitionFilter(parser, filter_fn)

    @property
    def parser(self) -> PathPartitionParser:
        """The parser."""
        return self._parser

    def apply(self, path: str) -> bool:
        """Return whether to read a file.

        Examples
        --------
        >>> from raycompat.data.datasource import PathPartitionFilter
        >>> this_year = PathPartitionFilter.of(
        ...     filter_fn=lambda values: values["year"] == "2024", style="hive"
        ... )
        >>> this_year.apply("year=2024/a.csv"), this_year.apply("year=2023/a.csv")
        (True, False)
        """
        return self._filter(self._parser(path))

    def __call__(self, paths: list[str]) -> list[str]:
        """Return the paths of the files to read."""
        return [path for path in paths if self.apply(path)]


__getattr__ = names_of(__name__)
