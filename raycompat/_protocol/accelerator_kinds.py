"""Accelerators beside GPUs. Each kind is a resource with Ray's name, and its devices have numbers."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

GPU: Final = "GPU"


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of accelerators."""

    #: The variable that restricts a process to some of them.
    variable: str
    #: Patterns of the device files by which a node counts them; without any, they are declared.
    files: tuple[str, ...] = ()
    #: Whether a call can have a part of one.
    is_divisible: bool = False
    #: The amounts that a call can have; empty for any.
    amounts: tuple[int, ...] = ()


#: By their resources.
KINDS: Final[Mapping[str, Kind]] = {
    "FURIOSA": Kind("FURIOSA_DEVICES"),
    "HPU": Kind("HABANA_VISIBLE_MODULES"),
    "MBLT": Kind("QBRUNTIME_VISIBLE_DEVICES", ("aries[0-9]*", "regulus-npu*")),
    "NPU": Kind("ASCEND_RT_VISIBLE_DEVICES", ("davinci[0-9]*",), is_divisible=True),
    "RBLN": Kind("RBLN_DEVICES"),
    "TPU": Kind("TPU_VISIBLE_CHIPS", ("accel[0-9]*",), amounts=(1, 2, 4, 8)),
    "TTNPU": Kind("TT_VISIBLE_DEVICES", ("tenstorrent/*",)),
    "neuron_cores": Kind("NEURON_RT_VISIBLE_CORES"),
}
_ALL: Final = frozenset({GPU, *KINDS})


def in_(resources: Iterable[str]) -> set[str]:
    """Return the kinds among the names of resources."""
    return KINDS.keys() & set(resources)


def any_in(resources: Iterable[str]) -> bool:
    """Return whether there are GPUs or other accelerators among the names of resources."""
    return not _ALL.isdisjoint(resources)


def check_amounts(name: str, resources: Mapping[str, float]) -> None:
    """Raise if a call cannot have so much of a kind."""
    for resource in in_(resources):
        kind, amount = KINDS[resource], resources[resource]
        if amount and kind.amounts and amount not in kind.amounts:
            expected = f"one of {', '.join(map(str, kind.amounts))}"
        elif amount % 1 and not kind.is_divisible:
            expected = "a whole number"
        elif amount % 1 and amount > 1:
            expected = "a whole number, or less than 1"
        else:
            continue
        raise ValueError(f"{name}={resources!r}: expected {expected} for {resource!r}.")


def show(ids: Mapping[str, list[str]], gpu_variable: str) -> None:
    """Restrict this process to accelerators, by kind.

    As in Ray, a call without GPUs sees all that its node sees.
    """
    hides_all = is_set("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO")
    for resource in (GPU, *in_(ids)):
        variable = gpu_variable if resource == GPU else KINDS[resource].variable
        visible = ids.get(resource, [])
        if (visible or hides_all) and not is_set(f"RAY_EXPERIMENTAL_NOSET_{variable}"):
            os.environ[variable] = ",".join(visible)


def is_set(name: str) -> bool:
    """Return whether a variable of Ray's is on."""
    return os.environ.get(name, "").lower() in ("1", "true")
