"""Recorded steps: `config.offline_data(input_=...)`, from which BC, CQL and MARWIL learn."""

from __future__ import annotations

import base64
import itertools
import json
import pickle
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import DTypeLike, NDArray

from raycompat._storage import Folder
from raycompat._upper import upper
from raycompat.exceptions import UnsupportedRayFeatureError
from raycompat.rllib._types import AlgorithmOptions, Array, Observation, Values
from raycompat.rllib.acting import ActingPolicy
from raycompat.rllib.env.runner import Columns

if TYPE_CHECKING:
    import fsspec

#: Names of columns, by those that files of all times have.
_OBSERVATIONS, _ACTIONS, _REWARDS = ("obs",), ("actions",), ("rewards",)
_NEXT_OBSERVATIONS = ("new_obs", "next_obs")
_TERMINATEDS, _TRUNCATEDS = ("terminateds", "dones"), ("truncateds",)

#: Cells of these columns may be packed one by one.
_PACKED = (*_OBSERVATIONS, *_NEXT_OBSERVATIONS, *_ACTIONS)
_ENDINGS = (".parquet", ".json", ".jsonl", ".json.gz", ".jsonl.gz")

#: Columns of steps by name.
Batch = Mapping[str, Values]


def read_steps(config: AlgorithmOptions) -> list[Batch]:
    """Return the batches of the files that ``input_`` names, in their order.

    Parameters
    ----------
    config : AlgorithmConfig
        ``input_`` is a path, a pattern or a list of them: of Parquet files with one row a step, or of
        files with one JSON object, which is a batch or a step, a line.

    Raises
    ------
    ValueError
        When a path or pattern has no such file, or none has steps.
    UnsupportedRayFeatureError
        When the files have something else than steps.
    """
    paths = config.input_
    if paths == "dataset":  # until 2024
        paths = config.input_config.get("paths") or config.input_config.get("path")
    if isinstance(paths, str | Path):
        paths = [paths]
    if not isinstance(paths, list | tuple) or not all(isinstance(p, str | Path) for p in paths):
        raise UnsupportedRayFeatureError(
            f"input_={config.input_!r}",
            "Recorded steps are read from files",
            "give a path, a list of paths, or a function that returns an input reader",
        )
    files = [file for path in paths for file in _files(str(path))]
    batches = [batch for file in files for batch in _read(*file)]
    if not batches:
        raise _without_steps(config.input_)
    return batches


def _without_steps(path: object) -> ValueError:
    return ValueError(
        f"input_={path!r}: there are no recorded steps. Expected a path or pattern of files that end "
        f"with {', '.join(_ENDINGS[:-1])} or {_ENDINGS[-1]}, or a folder with such files."
    )


def _files(path: str) -> list[tuple[fsspec.AbstractFileSystem, str]]:
    """Return the files below a path or of a pattern, each with its file system."""
    folder = Folder(path.removeprefix("local://"))
    system, inner = folder.filesystem, folder.path
    found = sorted(system.glob(inner)) if "*" in inner else [inner]
    files = []
    for each in found:
        files += sorted(system.find(each)) if system.isdir(each) else [each] * system.exists(each)
    files = [each for each in files if each.endswith(_ENDINGS)]
    if not files:
        raise _without_steps(path)
    return [(system, each) for each in files]


def _read(filesystem: fsspec.AbstractFileSystem, path: str) -> Iterator[Batch]:
    if path.endswith(".parquet"):
        import pyarrow.parquet

        with filesystem.open(path, "rb") as file:
            table = pyarrow.parquet.read_table(file)
        if "item" in table.column_names:
            raise UnsupportedRayFeatureError(
                f"{path}: packed episodes of Ray",
                "Recorded steps have one row each",
                "write them with offline_data(output_write_episodes=False)",
            )
        columns = {name: table.column(name).to_pylist() for name in table.column_names}
        for name in set(_PACKED) & set(columns):
            columns[name] = [_unpacked(v) if isinstance(v, str) else v for v in columns[name]]
        yield columns
        return
    with filesystem.open(path, "r", compression="infer") as file:
        lines = (_columns_of_line(json.loads(line), path) for line in file if line.strip())
        for (is_step, _), group in itertools.groupby(lines, lambda e: (e[0], sorted(e[1]))):
            batches = [batch for _, batch in group]
            if is_step:  # the lines follow each other in time, as the rows of a batch do
                batches = [{name: [b[name] for b in batches] for name in batches[0]}]
            yield from batches


def _columns_of_line(found: dict[str, Values], path: str) -> tuple[bool, Batch]:
    """Return whether a line has one step, and its columns, or the values of the step."""
    if found.pop("type", "SampleBatch") == "MultiAgentBatch":
        policies = found["policy_batches"]
        if len(policies) != 1:
            raise UnsupportedRayFeatureError(
                f"{path}: steps of the policies {sorted(policies)}",
                "One policy learns from recorded steps",
                "write the steps of each policy into separate files",
            )
        (found,) = policies.values()
    is_step = not all(np.ndim(value) or isinstance(value, str) for value in found.values())
    packed = _PACKED if is_step else tuple(found)
    return is_step, {
        n: _unpacked(v) if isinstance(v, str) and n in packed else v for n, v in found.items()
    }


def _unpacked(text: str) -> Values:
    """Return a column, or a cell of one, that Ray has compressed.

    Raises
    ------
    ImportError
        When the package for it is not installed.
    """
    try:
        import lz4.frame
    except ImportError as error:
        raise ImportError(
            "The recorded steps have columns that are compressed with lz4: pip install lz4."
        ) from error
    return pickle.loads(lz4.frame.decompress(base64.b64decode(text)))


def reader_of(config: AlgorithmOptions) -> Callable[[], Batch] | None:
    """Return what gives the next batch, where a program has a reader; None for files.

    Parameters
    ----------
    config : AlgorithmConfig
        ``input_`` may be a function of an `IOContext`, or the name of a registered one.
    """
    make = config.input_
    if isinstance(make, str):
        make = upper("_old.rllib.input_readers").registered_input(make)
    if make is None or not callable(make):
        return None
    reader = make(upper("_old.rllib.input_readers").IOContext(config=config))
    found: Callable[[], Batch] = reader.next
    return found


def columns_of(batches: Iterable[Batch], acting: ActingPolicy, is_normalized: bool) -> Columns:
    """Return recorded steps as a sample of one environment.

    Parameters
    ----------
    batches : iterable of mapping
        Columns by Ray's names: ``obs``, ``actions``, ``rewards``, ``terminateds`` (or ``dones``), and
        where they are known ``new_obs``, ``truncateds`` and ``eps_id``.
    acting : ActingPolicy
        Encodes observations and actions; its filter counts the observations.
    is_normalized : bool
        Whether numbers of bounded boxes are between -1 and 1 already.

    Returns
    -------
    dict of array
        ``has_next`` says after which steps the observation is known, or not needed.

    Raises
    ------
    ValueError
        When a column is missing, or observations are not of the space.
    """
    parts = [batch for batch in batches if len(_column(batch, _OBSERVATIONS))]
    raw = [each for batch in parts for each in _column(batch, _OBSERVATIONS)]
    terminateds = _joined(parts, _TERMINATEDS, bool)
    ends = _ends_of(parts, terminateds)
    observations = _observed(raw, acting)
    is_next_known = _has(parts, _NEXT_OBSERVATIONS)
    if is_next_known:
        later = [each for batch in parts for each in _column(batch, _NEXT_OBSERVATIONS)]
        following = _observed(later, acting, update=False)
    else:
        following = np.concatenate([observations[1:], observations[-1:]])
    return {
        "observations": observations[:, None],
        "next_observations": following[:, None],
        "has_next": (is_next_known | terminateds | ~ends)[:, None],
        "actions": acting.decode.learned(
            [each for batch in parts for each in _column(batch, _ACTIONS)], is_normalized
        )[:, None],
        "rewards": _joined(parts, _REWARDS, np.float32)[:, None],
        "terminateds": terminateds[:, None],
        "truncateds": (ends & ~terminateds)[:, None],
        "valid": np.ones((len(raw), 1), bool),
    }


def _column(batch: Batch, names: tuple[str, ...]) -> Values:
    for name in names:
        if name in batch:
            return batch[name]
    raise ValueError(
        f"The recorded steps lack the column {names[0]!r}: their columns are {sorted(batch)}."
    )


def _has(parts: list[Batch], names: tuple[str, ...]) -> bool:
    return all(any(name in batch for name in names) for batch in parts)


def _joined(parts: list[Batch], names: tuple[str, ...], dtype: DTypeLike) -> Array:
    return np.concatenate([np.asarray(_column(batch, names), dtype).reshape(-1) for batch in parts])


def _ends_of(parts: list[Batch], terminateds: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Return after which steps no other of the same episode follows."""
    ends = terminateds.copy()
    if _has(parts, _TRUNCATEDS):
        ends |= _joined(parts, _TRUNCATEDS, bool)
    if _has(parts, ("eps_id",)):
        names = np.concatenate([np.asarray(batch["eps_id"]).astype(str) for batch in parts])
        ends[:-1] |= names[1:] != names[:-1]
    else:
        lengths = np.cumsum([len(_column(batch, _OBSERVATIONS)) for batch in parts])
        ends[lengths - 1] = True
    ends[-1] = True
    return ends


def _observed(raw: list[Observation], acting: ActingPolicy, update: bool = True) -> Array:
    try:
        found: Array = acting.observe(raw, update=update)
    except ValueError as error:
        raise ValueError(
            f"The recorded observations are not of the space {acting.encode.space!r}: "
            f"{error.__cause__ or error}. Expected the space that the records have, in "
            "environment(observation_space=...)."
        ) from error
    return found
