"""Nested dicts and their flat form: ``{"a": {"b": 1}}`` and ``{"a/b": 1}``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

#: The configuration of a trial: values of any types, given or drawn, nested as the user wrote them.
Config: TypeAlias = dict[str, Any]

#: A result: the metrics that the user's program reports, of any types, and what Tune adds to them.
Metrics: TypeAlias = dict[str, Any]

#: A search space: constants, domains and grids, nested as the configurations that come of it. The spec
#: of an experiment contains one.
Space: TypeAlias = dict[str, Any]


def flatten_dict(
    dt: Mapping[Any, object],
    delimiter: str = "/",
    prevent_delimiter: bool = False,
    flatten_list: bool = False,
) -> dict[str, Any]:
    """Return one level, the keys joined by the delimiter; empty dicts stay.

    `flatten_list` does the same with lists, whose indices are keys.

    Raises
    ------
    ValueError
        With `prevent_delimiter`, when a key contains the delimiter already.
    """
    flat: dict[str, Any] = {}
    for key, value in dt.items():
        if prevent_delimiter and isinstance(key, str) and delimiter in key:
            raise ValueError(f"The key {key!r} contains {delimiter!r}, which is to join keys.")
        inner = dict(enumerate(value)) if flatten_list and isinstance(value, list) else value
        if isinstance(inner, Mapping) and inner:
            below = flatten_dict(inner, delimiter, prevent_delimiter, flatten_list)
            flat.update((f"{key}{delimiter}{name}", each) for name, each in below.items())
        else:
            flat[key] = value
    return flat


def unflatten_dict(dt: Mapping[str, object], delimiter: str = "/") -> dict[str, Any]:
    """Return the nested form of what `flatten_dict` returned."""
    nested: dict[str, Any] = {}
    for name, value in dt.items():
        *parents, key = str(name).split(delimiter)
        inner = nested
        for parent in parents:
            inner = inner.setdefault(parent, {})
        inner[key] = value
    return nested


def unflatten_list_dict(flat: Mapping[str, object], delimiter: str = "/") -> Any:
    """Return the nested form of what `flatten_dict` returned with ``flatten_list``.

    A level whose keys are 0, 1, ... becomes a list.
    """
    return _with_lists(unflatten_dict(flat, delimiter))


def _with_lists(nested: object) -> Any:
    if not isinstance(nested, dict):
        return nested
    inner = {key: _with_lists(value) for key, value in nested.items()}
    is_list = inner and list(inner) == [str(number) for number in range(len(inner))]
    return list(inner.values()) if is_list else inner


def merge_dicts(d1: Mapping[str, object], d2: Mapping[str, object]) -> dict[str, Any]:
    """Return a copy of the first with the second's values, level by level."""
    merged = dict(d1)
    for key, value in d2.items():
        inner = merged.get(key)
        if isinstance(value, Mapping) and isinstance(inner, Mapping):
            merged[key] = merge_dicts(inner, value)
        else:
            merged[key] = value
    return merged


def nested_paths(nested: Mapping[Any, object]) -> dict[tuple[Any, ...], object]:
    """Return each leaf of a nested dict by its path."""
    paths: dict[tuple[object, ...], object] = {}
    for key, value in nested.items():
        if isinstance(value, Mapping):
            paths.update({(key, *inner): leaf for inner, leaf in nested_paths(value).items()})
        else:
            paths[(key,)] = value
    return paths
