"""The options of a new node: checked, with defaults."""

from __future__ import annotations

import json
import math
import os
from dataclasses import dataclass, field
from typing import Any

import psutil

from raycompat._node import accelerators
from raycompat._node.labels import NAME_VARIABLE
from raycompat._node.labels import VARIABLE as LABELS_VARIABLE
from raycompat._protocol import variables
from raycompat._protocol.resource_set import HEAD_RESOURCE
from raycompat._protocol.strategy import NODE_ID_LABEL

#: Share of the machine's memory that a node of a local cluster uses for tasks and objects.
_MEMORY_SHARE = 0.9
#: Default share of a node's memory for objects, as in Ray.
OBJECT_SHARE = 0.3

#: Bytes. Ray's own lower limit.
_MIN_OBJECT_STORE_BYTES = 75 * 1024 * 1024

#: The arguments for resources that have another name.
_ARGUMENTS = {"CPU": "num_cpus", "GPU": "num_gpus"}

#: Each GPU of a node has an entry in the scheduler.
_MANY_GPUS = 100_000


@dataclass(frozen=True)
class NodeOptions:
    """The options of a new node."""

    resources: dict[str, float]
    #: Memory of its Dask worker for tasks and objects.
    memory_bytes: int
    labels: dict[str, str] = field(default_factory=dict)
    #: Environment variables of its process, added to those of this one.
    env_vars: dict[str, str] = field(default_factory=dict)
    #: Its name for people; by default its IP address.
    name: str = ""

    @property
    def environment(self) -> dict[str, str]:
        """The environment variables of its process that this process does not have."""
        labels = {LABELS_VARIABLE: json.dumps(self.labels)} if self.labels else {}
        name = {NAME_VARIABLE: self.name} if self.name else {}
        return {**self.env_vars, **labels, **name}


def node_options(given: dict[str, Any], *, is_head: bool) -> NodeOptions:
    """Return the options for Ray's arguments: num_cpus, num_gpus, resources, memory and so on.

    Raises
    ------
    TypeError, ValueError, AssertionError
        When one of them is not valid.
    """
    amounts = _amounts(given)
    memory = int(psutil.virtual_memory().total * _MEMORY_SHARE)
    amounts.setdefault("object_store_memory", int(memory * OBJECT_SHARE))
    if is_head:
        amounts[HEAD_RESOURCE] = 1
    labels = _texts("labels", given.get("labels"))
    for key in labels:
        if key == NODE_ID_LABEL:
            raise ValueError(
                f"labels={{{key!r}: ...}}: every node already has this label. It cannot be "
                "given: leave it out."
            )
    name = given.get("node_name") or ""
    return NodeOptions(amounts, memory, labels, _variables(given.get("env_vars")), name)


def _amounts(given: dict[str, Any]) -> dict[str, float]:
    custom = given.get("resources") or {}
    if not isinstance(custom, dict):
        raise TypeError(f"resources={custom!r}: expected a dict of names and numbers.")
    for name in custom:
        if not isinstance(name, str) or not name:
            raise TypeError(
                f"resources={custom!r}: {name!r} is not a resource's name. Expected a non-empty string."
            )
    for name in ("CPU", "GPU", "memory", "object_store_memory"):
        if name in custom:
            raise AssertionError(  # Ray's class for it
                f"`{name}` cannot be a custom resource: give it as {_ARGUMENTS.get(name, name)}=..."
            )
    asked = {
        "CPU": given.get("num_cpus"),
        "GPU": given.get("num_gpus"),
        "memory": given.get("memory"),
        "object_store_memory": given.get("object_store_memory"),
        **custom,
    }
    amounts = {name: value for name, value in asked.items() if value is not None}
    for name, value in amounts.items():
        _check_quantity(name, value)
    if amounts.get("GPU", 0) > _MANY_GPUS:
        raise ValueError(f"A node's GPU is {amounts['GPU']!r}: expected at most {_MANY_GPUS}.")
    _check_gpus_are_visible(amounts.get("GPU", 0))
    store = amounts.get("object_store_memory")
    if store is not None and store < _MIN_OBJECT_STORE_BYTES:
        raise ValueError(
            f"object_store_memory={store!r}: the object store needs at least "
            f"{_MIN_OBJECT_STORE_BYTES} bytes."
        )
    amounts.setdefault("CPU", os.cpu_count() or 1)
    return amounts


def _check_quantity(name: str, value: object) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError(f"A node's {name} must be a whole number, 0 or more, not {value!r}.")
    if value < 0:
        raise ValueError(
            f"Resource quantities must be nonnegative: a node's {name} is {value!r}. Give 0 or more."
        )
    if not math.isfinite(value) or value != int(value):
        raise ValueError(
            f"Resource quantities must all be whole numbers: a node's {name} is {value!r}. Only tasks "
            "and actors can ask for fractions."
        )


def _check_gpus_are_visible(num_gpus: float) -> None:
    preset = accelerators.preset()
    if preset is not None and num_gpus > len(preset):
        raise ValueError(
            f"Attempting to start a node with {num_gpus} GPU, but CUDA_VISIBLE_DEVICES contains "
            f"{preset}. Unset it, or request that many."
        )


def _variables(given: object) -> dict[str, str]:
    texts = _texts("env_vars", given)
    variables.check("env_vars", texts)
    return texts


def _texts(name: str, given: object) -> dict[str, str]:
    given = given or {}
    if not isinstance(given, dict) or not all(
        isinstance(text, str) for pair in given.items() for text in pair
    ):
        raise TypeError(f"{name}={given!r}: expected a dict of strings.")
    return dict(given)
