"""WebDataset: archives of tar. Files of one name and different endings are the fields of one row.

The ending says how a value is stored: ``0007.jpg`` is an image, ``0007.json`` a value of JSON.
"""

from __future__ import annotations

import fnmatch
import io
import json
import posixpath
import tarfile
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from raycompat.data import block
from raycompat.data.block import Block

if TYPE_CHECKING:
    from types import ModuleType

    import pyarrow as pa

    from raycompat.data.block import Row
    from raycompat.data.files import ArrowFileSystem

#: The fields of a row that are not files of the archive.
KEY, URL = "__key__", "__url__"

#: Rows, and bytes of their files, of a table that is read.
_ROWS, _BYTES = 512, 32 * 2**20

_IMAGES = ("jpg", "png", "ppm", "pgm", "pbm", "pnm")

#: Endings of values whose reading can run code of the one who wrote them.
_UNSAFE = ("pickle", "pkl", "pt", "pth")

#: Which names are chosen, of files or of fields: by a function, or by patterns; None: all.
Select: TypeAlias = Callable[[str], object] | Sequence[str] | None

#: What makes another name of a file's: functions, one after the other.
Renames: TypeAlias = Callable[[str], str] | Sequence[Callable[[str], str]] | None

#: From the bytes of a row's fields to values, or back: True or a format of images is the usual way.
Coder: TypeAlias = "bool | str | Callable[[Row], Mapping[str, object]]"
Coders: TypeAlias = "Coder | Sequence[Coder] | None"


@dataclass(frozen=True)
class Samples:
    """Reads the rows of an archive.

    Parameters
    ----------
    decoder : bool, str, callable or list
        The steps from bytes to values: True or an image format is the default one.
    selects, suffixes : callable or sequence of str, optional
        Choose files by their names, and fields by theirs.
    renames : callable or list of callables, optional
        Makes the name of a file another.
    prints : bool
        Print when an archive is opened and closed.
    expands_json : bool
        Make the items of the field ``json`` fields of the row.
    """

    decoder: Coders = True
    selects: Select = None
    renames: Renames = None
    suffixes: Select = None
    prints: bool = False
    expands_json: bool = False

    def __post_init__(self) -> None:
        for rename in _listed(self.renames):
            if not callable(rename):
                raise ValueError(
                    f"filerename={self.renames!r} should be a function of a file's name, or a list of "
                    "such: for example lambda name: name.replace('.jpeg', '.jpg')."
                )

    def __call__(
        self, filesystem: ArrowFileSystem, path: str, opening: Mapping[str, object]
    ) -> Iterator[Block]:
        """Yield tables."""
        if self.prints:
            print(f"start {path}")
        with filesystem.open_input_stream(path, **opening) as stream:
            try:
                rows: list[Mapping[str, object]] = []
                size = 0
                for row in self._rows(stream, path):
                    size += sum(len(value) for value in row.values())
                    rows.append(self._decoded(row))
                    if len(rows) == _ROWS or size >= _BYTES:
                        yield block.from_rows(rows)
                        rows, size = [], 0
            except tarfile.TarError as error:
                raise ValueError(str(error)) from error
        if rows:
            yield block.from_rows(rows)
        if self.prints:
            print(f"done {path}")

    def _rows(self, stream: pa.NativeFile, path: str) -> Iterator[Row]:
        """Yield the files of each key, which follow each other in the archive."""
        seen: set[str] = set()
        row: Row = {}
        for name, data in self._files(stream):
            key, field = _key_and_field(name)
            if not field:
                continue
            if row.get(KEY) != key:
                if row:
                    yield {**row, URL: path}
                if key in seen:
                    raise ValueError(
                        f"the files of {key!r} are not one after the other. Write the archive in the "
                        "order of names: tar --sort=name -cf FILE FOLDER"
                    )
                seen.add(key)
                row = {KEY: key}
            if field in row:
                raise ValueError(f"it has two files {name!r}, but a row has one field of a name")
            if _is_chosen(field, self.suffixes):
                row[field] = data
        if row:
            yield {**row, URL: path}

    def _files(self, stream: pa.NativeFile) -> Iterator[tuple[str, bytes]]:
        with tarfile.open(fileobj=stream, mode="r|*") as archive:
            for member in archive:
                if not member.isreg():
                    continue
                name = member.name
                for rename in _listed(self.renames):
                    name = rename(name)
                content = archive.extractfile(member)
                if content is not None and _is_chosen(name, self.selects):
                    yield name, content.read()

    def _decoded(self, row: Mapping[str, Any]) -> Mapping[str, object]:
        if self.expands_json and "json" in row:
            row = {**row, **json.loads(row["json"])}
        for step in _listed(self.decoder):
            row = step(row) if callable(step) else _to_values(row, step)
        return row


@dataclass(frozen=True)
class SampleWriter:
    """Writes the rows of a table to an archive.

    Parameters
    ----------
    encoder : bool, str, callable or list
        The steps from values to bytes: True or an image format is the default one.
    """

    encoder: Coders = True

    def __call__(self, table: Block, file: pa.NativeFile) -> None:
        """Write an archive."""
        with tarfile.open(fileobj=file, mode="w|") as archive:
            for each in block.rows(table):
                row: Mapping[str, object] = each
                for step in _listed(self.encoder):
                    row = step(row) if callable(step) else _to_bytes(row)
                key = row.get(KEY) or uuid.uuid4().hex
                for field, value in row.items():
                    if value is not None and not field.startswith("__"):
                        _add(archive, f"{key}.{field}", value)


def _add(archive: tarfile.TarFile, name: str, value: object) -> None:
    if isinstance(value, str):
        value = value.encode()
    if not isinstance(value, bytes):
        raise ValueError(
            f"{name!r} has a value of {type(value).__name__}, but files of a WebDataset have bytes or "
            "text. Name the column by the kind of its values (json, npy, png, cls), or give an encoder "
            "of rows: write_webdataset(..., encoder=function)."
        )
    member = tarfile.TarInfo(name)
    member.size, member.mtime = len(value), int(time.time())
    archive.addfile(member, io.BytesIO(value))


def _listed(steps: object) -> list[Any]:
    """Return steps as a list; None and False are none."""
    if steps is None or steps is False:
        return []
    return list(steps) if isinstance(steps, list | tuple) else [steps]


def _key_and_field(name: str) -> tuple[str, str]:
    """Return a file's name until the first dot after its folders, and the rest: its field."""
    folder, base = posixpath.split(name)
    key, _, field = base.partition(".")
    return (posixpath.join(folder, key), field) if key else ("", "")


def _is_chosen(name: str, chosen: Select) -> bool:
    """Return whether a name is one of a list, with or without its dot, or fits a pattern of it."""
    if chosen is None:
        return True
    if callable(chosen):
        return bool(chosen(name))
    return any(
        fnmatch.fnmatchcase(f".{name}", each) or fnmatch.fnmatchcase(name, each)
        if "*" in each or "?" in each
        else each in (name, f".{name}")
        for each in chosen
    )


def _to_values(row: Mapping[str, object], image_format: object) -> dict[str, object]:
    return {
        field: value if field.startswith("__") else _value(field, value, image_format)
        for field, value in row.items()
    }


def _value(field: str, data: object, image_format: object) -> object:
    kind = field.rpartition(".")[2]
    if not isinstance(data, bytes):
        return data  # of expand_json, or of a decoder before this one
    if kind in ("txt", "text"):
        return data.decode()
    if kind in ("cls", "cls2"):
        return int(data)
    if kind == "json":
        return json.loads(data)
    if kind == "npy":
        return np.load(io.BytesIO(data))
    if kind == "mp":
        import msgpack

        return msgpack.unpackb(data, raw=False)
    if kind in _IMAGES:
        image = _pillow().open(io.BytesIO(data))
        return image if image_format == "PIL" else np.asarray(image)
    if kind in _UNSAFE:
        raise ValueError(
            f"the field {field!r} is a pickle, whose reading can run code of the one who wrote it. For "
            "files that you trust, give a decoder of rows: read_webdataset(..., decoder=function)"
        )
    return data


def _to_bytes(row: Mapping[str, object]) -> dict[str, object]:
    return {
        field: value if field.startswith("__") or value is None else _data(field, value)
        for field, value in row.items()
    }


def _data(field: str, value: Any) -> object:
    kind = field.rpartition(".")[2]
    if kind in ("cls", "cls2"):
        return str(value)
    if kind == "json":
        return json.dumps(value)
    data = io.BytesIO()
    if kind == "npy":
        np.save(data, value)
    elif kind == "mp":
        import msgpack

        return msgpack.packb(value)
    elif kind in (*_IMAGES, "jpeg"):
        image = _pillow().fromarray(value) if isinstance(value, np.ndarray) else value
        image.save(data, format="jpeg" if kind == "jpg" else kind)
    elif kind in ("pickle", "pkl"):
        import pickle

        pickle.dump(value, data)
    elif kind in ("pt", "pth"):
        import torch

        torch.save(value, data)
    else:
        return value
    return data.getvalue()


def _pillow() -> ModuleType:
    try:
        from PIL import Image
    except ImportError as error:
        raise ImportError("images of a WebDataset need Pillow: pip install pillow") from error
    return Image
