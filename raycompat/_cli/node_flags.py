"""The flags of ``raycompat start`` for a node, checked: resources and labels."""

from __future__ import annotations

import json
from typing import Any

import click
import yaml

from raycompat._launch.node_options import NodeOptions, node_options

#: Resources that have their own flags.
_OWN_FLAGS = {
    "CPU": "--num-cpus",
    "GPU": "--num-gpus",
    "memory": "--memory",
    "object_store_memory": "--object-store-memory",
}


def options_of(given: dict[str, Any], *, is_head: bool) -> NodeOptions:
    """Return the options of the node.

    Raises
    ------
    click.UsageError
        When a flag is not valid.
    """
    amounts = {name: given[name] for name in ("num_cpus", "num_gpus", "memory")}
    try:
        return node_options(
            {
                **amounts,
                "object_store_memory": given["object_store_memory"],
                "resources": _resources(given["resources"]),
                "node_name": given["node_name"],
                "labels": {**_labels_in(given["labels_file"]), **_labels(given["labels"])},
            },
            is_head=is_head,
        )
    except (TypeError, ValueError, AssertionError) as error:
        raise click.UsageError(str(error)) from error


def _resources(text: str) -> dict[str, float]:
    example = """--resources='{"special_hardware": 1}'"""
    try:
        amounts = json.loads(text)
    except ValueError as error:
        raise click.UsageError(
            f"--resources={text!r} is not JSON: {error}. Expected something like {example}."
        ) from error
    if not isinstance(amounts, dict):
        raise click.UsageError(
            f"--resources={text!r}: expected names with amounts, like {example}."
        )
    for name in amounts:
        if name in _OWN_FLAGS:
            raise click.UsageError(
                f"--resources={text!r}: {name} has its own flag, {_OWN_FLAGS[name]}."
            )
    return amounts


def _labels(text: str) -> dict[str, str]:
    """Return labels in Ray's form ``key1=value1,key2=value2``, or in the older JSON form."""
    example = "--labels='zone=a,kind=large'"
    if text.lstrip().startswith("{"):
        try:
            return dict(json.loads(text))
        except ValueError as error:
            raise click.UsageError(
                f"--labels={text!r} is not JSON: {error}. Or: {example}."
            ) from error
    labels = {}
    for pair in text.split(",") if text else ():
        key, separator, value = pair.strip().partition("=")
        if not separator or not key:
            raise click.UsageError(
                f"--labels={text!r}: {pair!r} is not a label. Expected {example}."
            )
        labels[key.strip()] = value.strip()
    return labels


def _labels_in(path: str | None) -> dict[str, str]:
    """Return the labels in a YAML file of keys and values."""
    if path is None:
        return {}
    try:
        with open(path, encoding="utf-8") as file:
            labels = yaml.safe_load(file)
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise click.UsageError(f"--labels-file={path!r} cannot be read: {error}") from error
    if not isinstance(labels, dict):
        raise click.UsageError(f"--labels-file={path!r}: expected lines like `zone: a`.")
    return labels
